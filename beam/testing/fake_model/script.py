"""The scripts of the scripted model: the rules for its answers, and how a script is read from a file.

A script is a list of rules; `replies` are rules that are used up one after another. Does not depend on any vendor's
wire format, sockets or clocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from beam.base import typed_values, yaml_bounds
from beam.base.errors import ConfigError
from beam.proxy.wire.values import Answer, ModelRequest, Positive


class Rule(Answer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer and the conditions for giving it: all conditions that are set must hold.

    `match` is a part of the prompt, `regex` is searched in the prompt, `turns` is the number of prompts in the
    conversation, `model` is a part of the model's name. After `times` requests the rule is used up (None: never).
    """

    match: str | None = None
    regex: str | None = None
    turns: Positive | None = None
    model: str | None = None
    times: Positive | None = None

    def fits(self, asked: ModelRequest) -> bool:
        """Return whether the rule applies to this request."""
        return (
            (self.match is None or self.match in asked.prompt)
            and (self.regex is None or re.search(self.regex, asked.prompt) is not None)
            and (self.turns is None or self.turns == asked.turns)
            and (self.model is None or self.model in asked.model)
        )


class Script(Struct, frozen=True, kw_only=True):
    """Rules in the order in which they are tried. With `directives`, a prompt that matches no rule is answered as the
    directives in the prompt say."""

    rules: tuple[Rule, ...] = ()
    directives: bool = True


_MAX_CHARACTERS = 16 << 20
ECHO = "ECHO[{prompt}] turns={turns}"
RESULT = "RESULT[{result}] turns={turns}"
_PLACEHOLDER = re.compile(r"\{(prompt|turns|model|result)\}")


def expand(template: str, asked: ModelRequest) -> str:
    """Return the template with {prompt}, {turns}, {model} and {result} filled in; other braces stay as they are."""
    values = {
        "prompt": asked.prompt,
        "turns": str(asked.turns),
        "model": asked.model,
        "result": "\n".join(asked.results),
    }
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rules: tuple[Rule, ...] = ()
    replies: tuple[str | Rule, ...] = ()
    otherwise: str | Answer | None = None
    directives: bool | None = field(default=None)


def load(path: Path) -> Script:
    """Return the script in a YAML or JSON file. Raises ConfigError that names the file and the field."""
    import yaml

    try:
        with path.open(encoding="utf-8") as file:  # a person names it, and may mean a pipe: `--script <(…)`
            text = file.read(_MAX_CHARACTERS)
        yaml_bounds.check(text)
        value = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"can't read the script {path}: {why}", subject=str(path)) from error
    return parse({} if value is None else value, name=str(path))


def parse(value: object, *, name: str = "script") -> Script:
    """Return the script that this plain value describes; `name` is the script's name in error messages. Raises
    ConfigError."""
    try:
        read = typed_values.convert(value, _File)
        rules = read.rules + tuple(_used_once(reply) for reply in read.replies)
        for rule in rules:
            re.compile(rule.regex or "")
    except (msgspec.ValidationError, re.error, UnicodeEncodeError) as error:  # the last: half of a surrogate pair
        raise ConfigError(f"{name}: {error}", "docs/fake-model.md lists what a script may say", subject=name) from error
    if read.otherwise is not None:
        rules = (*rules, _used_always(read.otherwise))
    return Script(rules=rules, directives=not rules if read.directives is None else read.directives)


def as_answer(value: str | Answer) -> Answer:
    """Return the answer that a value describes; a text is an answer with that text."""
    return Answer(text=value) if isinstance(value, str) else value


def _used_once(reply: str | Rule) -> Rule:
    rule = Rule(text=reply) if isinstance(reply, str) else reply
    return rule if rule.times else msgspec.structs.replace(rule, times=1)


def _used_always(answer: str | Answer) -> Rule:
    given: Mapping[str, Any] = msgspec.structs.asdict(as_answer(answer))
    return Rule(**given)
