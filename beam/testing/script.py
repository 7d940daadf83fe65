"""The YAML script of a scripted agent (docs/scripted.md): reads a script, checks it completely, and finds the reply to
a prompt.

Does not depend on sessions, on output, or on how a step is played.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from beam.base import files, yaml_bounds
from beam.base.errors import DiskError, nearest

_MAX_BYTES = 1 << 20  # the same limit as for a settings file
SHIPPED_SCRIPTS = Path(__file__).parent / "scripts"


class ScriptError(Exception):
    """The script can't be played. The message says which file is wrong, where in the file, and what would be right."""


class StepForm(NamedTuple):
    """The form of a step's value: a plain value of one of the types `plain`, or a mapping with the keys `keys`. If a
    form has both, a plain value stands for the value of the first key.

    `beside` are keys that may stand next to the step's own. A key without types takes any value.
    """

    plain: tuple[type, ...] = ()
    keys: Mapping[str, tuple[type, ...]] = {}
    beside: Mapping[str, tuple[type, ...]] = {}


TEXT, FLAG, COUNT, NUMBER = (str,), (bool,), (int,), (int, float)
_TOOL = {
    "name": TEXT,
    "input": (),
    "output": TEXT,
    "is_error": FLAG,
    "progress": TEXT,
    "delay": NUMBER,
    "unfinished": FLAG,
}
_STATUS = {
    **dict.fromkeys(("state", "detail", "class"), TEXT),
    **dict.fromkeys(("attempt", "of", "http_status"), COUNT),
    "delay_s": NUMBER,
}
_TOKENS = (*("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cache_write_tokens", "calls"),)
STEPS: Mapping[str, StepForm] = {
    "text": StepForm(TEXT),
    "delta": StepForm(TEXT),
    "stream": StepForm(TEXT, {"text": TEXT, "chunk": COUNT, "delay": NUMBER}),
    "think": StepForm(TEXT),
    "delay": StepForm(NUMBER),
    "listen": StepForm(FLAG),
    "tool": StepForm(TEXT, _TOOL),
    "plan": StepForm((list,)),
    "file": StepForm(TEXT, {"path": TEXT, "kind": TEXT}),
    "status": StepForm(TEXT, _STATUS),
    "usage": StepForm((), dict.fromkeys(_TOKENS, COUNT)),
    "cost_usd": StepForm(NUMBER),
    "stderr": StepForm(TEXT),
    "garbage": StepForm((str, bytes, list)),
    "big": StepForm(COUNT),
    "run": StepForm((list,)),
    "lose_session": StepForm(FLAG),
    "silent": StepForm(FLAG),
    "truncate": StepForm(FLAG),
    "refuse": StepForm(TEXT),
    "limit": StepForm(TEXT),
    "fail": StepForm(TEXT, {"reason": TEXT, "class": TEXT}),
    "deny": StepForm(TEXT, {"tool": TEXT, "input": (), "by": TEXT}),
    "crash": StepForm((str, int)),
    "hang": StepForm(FLAG, beside={"stubborn": FLAG}),
}
_PLAN_STATES = ("pending", "in_progress", "completed")
_FILE_KINDS = ("add", "update", "delete")


class Step(NamedTuple):
    """One step of a reply. `value` is a mapping if the form of the `verb` has keys. `beside` has the keys next to the
    verb, with their values."""

    verb: str
    value: Any
    beside: Mapping[str, Any]


Reply = tuple[Step, ...]


class Script(NamedTuple):
    """A checked script."""

    replies: tuple[Reply, ...] = ()
    loop: bool = False
    rules: tuple[tuple[re.Pattern[str], Reply], ...] = ()
    default: Reply | None = None
    model: str | None = None

    def reply(self, prompt: str, turn: int) -> Reply | None:
        """Return the reply to the prompt, None if there is none. `turn` is the number of the session's turn (from 1).

        The first rule that matches the prompt gives the reply. If no rule matches, `default` is the reply; without
        `default`, the item of `replies` for this turn. After the last item, the first item follows again if `loop` is
        true; otherwise the last item is repeated.
        """
        for pattern, reply in self.rules:
            if pattern.search(prompt):
                return reply
        if self.default is not None or not self.replies:
            return self.default
        index = (turn - 1) % len(self.replies) if self.loop else min(turn, len(self.replies)) - 1
        return self.replies[index]


def find(name: str, base: Path) -> Path:
    """Return the path of the script's file. `name` is the name of a shipped script, or a path (relative to `base`).
    Raises ScriptError if there is no such file."""
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    path = base / name if is_path else SHIPPED_SCRIPTS / f"{name}.yaml"
    if path.is_file():
        return path
    if is_path:
        raise ScriptError(f"no script {path}")
    names = sorted(file.stem for file in SHIPPED_SCRIPTS.glob("*.yaml"))
    raise ScriptError(f"no script is called {name!r}{_nearest(name, names)}")


def load(path: Path) -> Script:
    """Return the script in a file. Raises ScriptError."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = files.read(path, _MAX_BYTES, follow=True).decode("utf-8-sig")
        yaml_bounds.check(text)
        value = yaml.load(text, loader)
    except FileNotFoundError as error:
        raise ScriptError(f"{path}: {error.strerror}") from error
    except DiskError as error:
        raise ScriptError(error.message) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ScriptError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    return parse(value, str(path))


def parse(value: object, name: str) -> Script:
    """Return the script that a parsed YAML value describes. `name` is the name of the file for error messages. Raises
    ScriptError."""
    if not isinstance(value, dict):
        raise ScriptError(f"{name}: a script is a mapping with `replies` or `rules`")
    keys = {"replies": (list,), "rules": (list,), "default": (), "loop": FLAG, "model": TEXT, "description": TEXT}
    _check_keys(value, keys, name)
    if "replies" in value and "default" in value:
        raise ScriptError(f"{name}: `default` and `replies` both answer what no rule matches: take one of them out")
    if not value.get("replies") and not value.get("rules") and "default" not in value:
        raise ScriptError(f"{name}: it has no replies and no rules")
    return Script(
        replies=tuple(_reply(item, f"{name}: replies[{i}]") for i, item in enumerate(value.get("replies", ()))),
        loop=value.get("loop", False),
        rules=tuple(_rule(item, f"{name}: rules[{i}]") for i, item in enumerate(value.get("rules", ()))),
        default=_reply(value["default"], f"{name}: default") if "default" in value else None,
        model=value.get("model"),
    )


def _rule(value: object, where: str) -> tuple[re.Pattern[str], Reply]:
    if not isinstance(value, dict) or "match" not in value or "reply" not in value:
        raise ScriptError(f"{where}: a rule has `match` and `reply`")
    _check_keys(value, {"match": TEXT, "reply": ()}, where)
    try:
        pattern = re.compile(value["match"])
    except re.error as error:
        raise ScriptError(f"{where}.match: not a regular expression: {error}") from error
    return pattern, _reply(value["reply"], f"{where}.reply")


def _reply(value: object, where: str) -> Reply:
    if isinstance(value, list):
        return tuple(_step(item, f"{where}[{i}]") for i, item in enumerate(value))
    return (_step(value, where),)


def _step(value: object, where: str) -> Step:
    if isinstance(value, str):
        return Step("text", value, {})
    if not isinstance(value, dict) or not value:
        raise ScriptError(f"{where}: a step is a text or a mapping with one of {', '.join(STEPS)}")
    verbs = [key for key in value if key in STEPS]
    if not verbs:
        key = next(iter(value))
        raise ScriptError(f"{where}: unknown key {str(key)!r}{_nearest(str(key), STEPS)}")
    verb = verbs[0]
    form = STEPS[verb]
    beside = {key: item for key, item in value.items() if key != verb}
    for key in beside:
        if key in STEPS:
            raise ScriptError(f"{where}: `{verb}` and `{key}` are two steps: put each in its own list item")
    _check_keys(beside, form.beside, where)
    return Step(verb, _checked_value(verb, value[verb], form, f"{where}.{verb}"), beside)


def _checked_value(verb: str, value: Any, form: StepForm, where: str) -> Any:
    if form.keys and isinstance(value, dict):
        _check_keys(value, form.keys, where)
    elif form.plain:
        _check_type(value, form.plain, where)
        value = {next(iter(form.keys)): value} if form.keys else value
    else:
        raise ScriptError(f"{where}: it takes a mapping of {', '.join(form.keys)}")
    check = _CHECKS.get(verb)
    return check(value, where) if check else value


def _check_keys(value: Mapping[Any, Any], keys: Mapping[str, tuple[type, ...]], where: str) -> None:
    for key, item in value.items():
        if key not in keys:
            raise ScriptError(f"{where}: unknown key {str(key)!r}{_nearest(str(key), keys)}")
        _check_type(item, keys[key], f"{where}.{key}")


def _check_type(value: object, types: tuple[type, ...], where: str) -> None:
    if types and type(value) not in types:
        words = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", list: "a list"}
        named = types[1:] if types == NUMBER else types
        expected = " or ".join(words.get(kind, "bytes") for kind in named)
        raise ScriptError(f"{where}: it takes {expected}, not {value!r:.80}")
    if types == NUMBER and isinstance(value, int | float) and not 0 <= value <= 1e6:
        raise ScriptError(f"{where}: it can't be less than 0 or more than a million")
    if types == COUNT and isinstance(value, int) and value < 0:
        raise ScriptError(f"{where}: it can't be less than 0")


def _nearest(key: str, known: Iterable[str]) -> str:
    names = [str(name) for name in known]
    closest = nearest(key, names)
    return f" (did you mean {closest!r}?)" if closest else f" (there are: {', '.join(names)})" if names else ""


def _check_plan(value: list[Any], where: str) -> list[dict[str, Any]]:
    steps = []
    for i, item in enumerate(value):
        step = {"text": item} if isinstance(item, str) else item
        if not isinstance(step, dict) or "text" not in step:
            raise ScriptError(f"{where}[{i}]: a step of a plan is a text, or has `text` and `status`")
        _check_keys(step, {"text": TEXT, "status": TEXT}, f"{where}[{i}]")
        _check_word(step.get("status", "pending"), _PLAN_STATES, f"{where}[{i}].status")
        steps.append(step)
    return steps


def _check_class(value: dict[str, Any], where: str) -> dict[str, Any]:
    if "class" in value:
        from beam.model.outcome import Class

        _check_word(value["class"], [str(word) for word in Class], f"{where}.class")
    return value


def _check_file(value: dict[str, Any], where: str) -> dict[str, Any]:
    if "path" not in value:
        raise ScriptError(f"{where}: it needs a `path`")
    _check_word(value.get("kind", "update"), _FILE_KINDS, f"{where}.kind")
    return value


def _check_stream(value: dict[str, Any], where: str) -> dict[str, Any]:
    if "text" not in value or value.get("chunk", 1) < 1:
        raise ScriptError(f"{where}: it needs a `text`, and a `chunk` of at least 1 character")
    return value


def _check_run(value: list[Any], where: str) -> list[Any]:
    if not value or not all(isinstance(argument, str) for argument in value):
        raise ScriptError(f"{where}: it takes a program and its arguments, each a text")
    return value


def _check_crash(value: Any, where: str) -> Any:
    names = [member.name for member in signal.Signals]
    if isinstance(value, str):
        _check_word(value, names, where)
    elif not 0 <= value <= 255:
        raise ScriptError(f"{where}: an exit code is 0 to 255, not {value}")
    return value


def _check_garbage(value: Any, where: str) -> list[Any]:
    lines = value if isinstance(value, list) else [value]
    for i, line in enumerate(lines):
        _check_type(line, (str, bytes), f"{where}[{i}]")
    return lines


def _check_word(word: str, words: Iterable[str], where: str) -> None:
    if word not in words:
        raise ScriptError(f"{where}: unknown word {word!r}{_nearest(word, words)}")


def _require(key: str) -> Any:
    def check(value: dict[str, Any], where: str) -> dict[str, Any]:
        if key not in value:
            raise ScriptError(f"{where}: it needs a `{key}`")
        return value

    return check


_CHECKS: Mapping[str, Any] = {
    "plan": _check_plan,
    "fail": _check_class,
    "status": lambda value, where: _check_class(_require("state")(value, where), where),
    "stream": _check_stream,
    "tool": _require("name"),
    "file": _check_file,
    "deny": _require("tool"),
    "run": _check_run,
    "crash": _check_crash,
    "garbage": _check_garbage,
}
