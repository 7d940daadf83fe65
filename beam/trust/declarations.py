"""Finds the settings in a folder's own files that take effect only after a person trusts the folder.

Most of them run code or raise the rights of an agent. Only files of the folder are examined; the person's own
configuration, environment variables and flags need no trust. Does not depend on adapters (the caller passes the needed
facts about them), or on whether the folder is trusted.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from beam.config.fields import adapter_of, names_in
from beam.config.resolve import AGENT_JSON, BEAM_YAML, SCENARIO, Config, ResolvedAgent
from beam.model.autoloaded import Finding
from beam.model.message import PLAIN
from beam.model.settings import DURATIONS, AgentSettings, Limits, Policy
from beam.trust import effects, scan

if TYPE_CHECKING:
    from beam.model.notification import NotifyTarget

_CODE_SUFFIXES = frozenset(
    (
        *(
            ".awk",
            ".bash",
            ".cjs",
            ".clj",
            ".cts",
            ".exs",
            ".fish",
            ".jar",
            ".jl",
            ".js",
            ".lua",
            ".mjs",
            ".mk",
            ".mts",
        ),
        *(
            ".php",
            ".pl",
            ".ps1",
            ".py",
            ".pyz",
            ".r",
            ".rb",
            ".scm",
            ".sed",
            ".sh",
            ".tcl",
            ".ts",
            ".tsx",
            ".wasm",
            ".zsh",
        ),
    )
)
_ADAPTER_FIELDS = ("adapter", "command", "protocol", "script")  # each can give an agent another adapter
_OF_PROGRAMS = ("protocol", "format", "reply_path", "session_path", "cost_path")  # how the output of `command` is read
_TOLD_APART = frozenset(  # fields that need trust by their values, or are told in words of their own
    (*_ADAPTER_FIELDS, "runner", "executable", "env", "env_profile", "screen", "envelope", "rules", "access", "cwd")
) - {"protocol"}


class AdapterFacts(Struct, frozen=True, kw_only=True):
    """Facts about adapters. `adapters` has the names of all adapters; `runs_text`: this agent's adapter runs the
    messages that the agent gets as code; `is_program`: this agent is a program whose access beam can't limit."""

    adapters: Collection[str] = ()
    runs_text: bool = False
    is_program: bool = False


def findings_of_agent(
    config: Config, resolved: ResolvedAgent, facts: AdapterFacts, *, vouched: Collection[str] = ()
) -> list[Finding]:
    """Return a finding for each setting of this agent that takes effect only in a trusted folder.

    `vouched` has the names of those configuration files (`agent.json`) that the person is known to have written; their
    settings need no trust.
    """
    return [
        *_findings_of_settings(resolved, facts, frozenset({BEAM_YAML, AGENT_JSON}.difference(vouched))),
        *(findings_of_bounds(config) if BEAM_YAML not in vouched else ()),
        *(findings_of_notify(config) if BEAM_YAML not in vouched else ()),
    ]


def findings_of_scenario_agent(config: Config, resolved: ResolvedAgent, facts: AdapterFacts) -> list[Finding]:
    """Return a finding for each setting that the scenario gives to this agent and that takes effect only after a person
    trusts the scenario."""
    return list(_findings_of_settings(resolved, facts, frozenset({SCENARIO})))


def findings_of_code_files(words: Sequence[str], folder: Path, by: str) -> Iterator[Finding]:
    """Yield a finding for each code file that the words of a command name, as a path relative to the folder. `by` says
    who runs the command."""
    interpreted = _interpreted_in(words)
    for word in dict.fromkeys((*_named_in(words), *interpreted)):
        path = folder / word
        if _is_file(path) and (_is_code(path) or word in interpreted):
            for seen in scan.scan_files(path.parent, path.name):
                yield Finding(
                    name=scan.relative_name(seen.path, folder), digest=seen.digest, text=seen.text, by=(by,), runs=True
                )


def _findings_of_settings(resolved: ResolvedAgent, facts: AdapterFacts, foreign: frozenset[str]) -> Iterator[Finding]:
    settings, agent = resolved.settings, resolved.agent
    own = resolved.without(foreign)

    def who_has(field: str) -> str:
        return resolved.name if field in resolved.own else agent

    def says(field: str) -> str | None:
        who = resolved.origin.get(field)
        return who if who in foreign else None

    if settings.command and (who := says("command")):
        words = [*(word if isinstance(word, str) else " ".join(word) for word in settings.command)]
        read = [f"{field}={getattr(settings, field)}" for field in _OF_PROGRAMS if says(field)]  # told with the program
        yield _sentence_finding(f"{who} has {agent} run {scan.shorten(repr(' '.join(words)))}", *words, *read)
        parts = [part for word in settings.command for part in ([word] if isinstance(word, str) else word)]
        yield from _findings_of_files(resolved, [part for part in parts[:1] if "/" in part])
        yield from _findings_of_files(resolved, parts[1:], interpreted=_interpreted_in(parts))
    if settings.runner and (who := says("runner")):
        yield _sentence_finding(
            f"{who} has {agent} run by {scan.shorten(repr(' '.join(settings.runner)))}", *settings.runner
        )
        yield from _findings_of_files(resolved, [settings.runner[0]] if "/" in settings.runner[0] else [])
        yield from _findings_of_files(resolved, settings.runner[1:], interpreted=_interpreted_in(settings.runner))
    if settings.executable and (who := says("executable")):
        yield _sentence_finding(f"{who} has {agent} run {scan.shorten(repr(settings.executable))}", settings.executable)
        if "/" in settings.executable:
            yield from _findings_of_files(resolved, [settings.executable])
    if renamed := [who for field in _ADAPTER_FIELDS if (who := says(field)) and getattr(settings, field)]:
        if facts.runs_text:
            yield _sentence_finding(
                f"{renamed[0]} has {agent} run what it is sent, by {settings.adapter}", settings.adapter
            )
        elif adapter_of(agent, own, facts.adapters) not in ("", settings.adapter):
            yield _sentence_finding(f"{renamed[0]} makes {agent} another agent: {settings.adapter}", settings.adapter)
    if settings.env_profile and (who := says("env_profile")):
        profile = settings.env_profile
        yield _sentence_finding(f"{who} gives {who_has('env_profile')} the environment profile {profile[:80]}", profile)
    for variable, value in settings.env.items():
        if who := says(f"env.{variable}"):
            from_ = ", ".join(f"${name[:80]}" for name in names_in(value))
            yield _sentence_finding(
                f"{who} sets {variable[:80]} in the environment of {who_has(f'env.{variable}')}"
                + (f", from {from_}" if from_ else ""),
                *(variable, value),
            )
    if settings.script and not PLAIN.match(settings.script) and (who := says("script")):  # a name: beam's own script
        yield _sentence_finding(f"{who} has {agent} play {scan.shorten(repr(settings.script))}", settings.script)
        yield from _findings_of_files(resolved, [settings.script])
    if settings.screen and (who := says("screen")):
        yield _sentence_finding(f"{who} says which keys beam types into {who_has('screen')}", repr(settings.screen))
    if settings.envelope not in (None, "short", "full") and (who := says("envelope")):
        yield _sentence_finding(f"{who} changes how {who_has('envelope')} is told who speaks", settings.envelope)
    for each in resolved.rules:
        for behavior, effect in effects.RULES.items() if each.whose in foreign else ():
            for rule in getattr(each.lists, behavior) if effect.kind == "needs trust" else ():
                yield _sentence_finding(f"{each.whose} {behavior}s {agent} {scan.shorten(rule)}", rule)
    if settings.access not in (None, "read") and (who := says("access")):
        yield _sentence_finding(f"{who} gives {who_has('access')} {settings.access} access")
    elif facts.is_program and resolved.is_access_own and settings.access and (who := says("access")):
        # With that access agents may send to the program.
        yield _sentence_finding(f"{who} says that {who_has('access')}, a program, does no more than {settings.access}")
    yield from _findings_outside(settings.cwd, resolved.base, says("cwd"), who_has("cwd"))
    for field, effect in effects.SETTINGS.items():
        if who := says(field):
            whose = "every agent" if _is_general(resolved, field, who) else who_has(field)
            value = getattr(settings, field)
            is_told = field in _TOLD_APART or (field in _OF_PROGRAMS and says("command"))
            if effect.kind == "needs trust" and not is_told and value != own.get(field, _UNSET[field]):
                yield _sentence_finding(f"{who} sets the {field} of {whose}: {shown_value(field, value)}", repr(value))
            bound = own_bound(field, own.get(field)) if effect.kind == "may only lower" else None
            if bound is not None and value is not None and value > bound:
                values = f"from {shown_value(field, bound)} to {shown_value(field, value)}"
                yield _sentence_finding(f"{who} raises the {field} of {whose} {values}", repr(value))


_UNSET = {name: getattr(AgentSettings(), name) for name in AgentSettings.__struct_fields__}


def own_bound(field: str, own: object) -> float:
    """Return the bound that a field which may only lower has without a stranger's file. `own` is the person's own
    value; None if the person has set none."""
    if isinstance(own, (int, float)):
        return own
    unset = effects.SETTINGS[field].unset
    assert unset is not None, field
    return unset


def _is_general(resolved: ResolvedAgent, field: str, origin: str) -> bool:
    """Return whether the source has this field under `defaults` alone, for all agents."""
    layers = [layer for layer in resolved.layers if layer.origin == origin and field in layer.fields]
    return all(layer.is_general for layer in layers)


def shown_value(field: str, value: object) -> str:
    """Return a value as a person reads it."""
    from beam.base import durations

    if isinstance(value, (int, float)) and field in DURATIONS:
        return durations.show(value)
    if value == math.inf:
        return "no bound"
    return f"{value:g}" if isinstance(value, float) else scan.shorten(str(value))


def _findings_outside(cwd: str | None, base: Path, foreign: str | None, agent: str) -> Iterator[Finding]:
    """Yield a finding if the agent works outside of the folder, either because a file of the folder says so, or because
    of a link in the folder. `foreign` is the name of the file that sets the agent's working directory; None if no file
    of the folder does."""
    if not cwd or _is_inside(cwd, base):
        return
    real = os.path.realpath(base)
    target, named = os.path.realpath(base / cwd), os.path.normpath(os.path.join(real, cwd))  # noqa: PTH118
    words = (cwd,) if target == named else (cwd, target)
    if foreign:
        yield _sentence_finding(f"{foreign} has {agent} work outside this folder, in {scan.shorten(repr(cwd))}", *words)
    elif Path(named).is_relative_to(real):
        yield _sentence_finding(f"a link has {agent} work outside this folder, in {scan.shorten(repr(target))}", *words)


def findings_of_notify(config: Config) -> Iterator[Finding]:
    """Yield a finding for each notification target in the folder's own beam.yaml (a command that beam runs, or a URL to
    which beam posts), and for each code file that such a command names."""
    targets = [target for origin, file in config.files if origin == BEAM_YAML for target in file.notify]
    values: dict[str, list[str]] = {}  # by sentence: several targets may have the same
    for target in targets:
        values.setdefault(_notify_sentence(target), []).append(repr(target))
    for target in targets:
        sentence = _notify_sentence(target)
        if sentence in values:
            yield _sentence_finding(sentence, *values.pop(sentence))
        yield from findings_of_code_files(target.command, config.home.project, BEAM_YAML)


def _notify_sentence(target: NotifyTarget) -> str:
    """Return what a person reads of a target of notifications: its command, or the host of its webhook."""
    from beam.model.notification import ValueReference

    if target.command:
        return f"{BEAM_YAML} has beam run {scan.shorten(repr(' '.join(target.command)))} to notify"
    read = [place for place in (target.webhook, target.secret, target.token) if isinstance(place, ValueReference)]
    given = "".join(f", with {f'${place.env}' if place.env else place.file}" for place in read)
    return f"{BEAM_YAML} posts what agents do to {scan.shorten(target.named())}{scan.shorten(given)}"


def findings_of_bounds(config: Config) -> Iterator[Finding]:
    """Yield a finding for each limit and each policy in the folder's own beam.yaml that takes effect only in a trusted
    folder, and for its default agent."""
    own = _own_bounds(config)
    own_default = next((file.default_agent for origin, file in config.files if origin != BEAM_YAML), None)
    for origin, file in config.files:
        if origin == BEAM_YAML and file.default_agent not in (None, own_default):
            yield _sentence_finding(f"{origin} gives messages that name no agent to {file.default_agent}")
        for key, value in file.policy.items() if origin == BEAM_YAML else ():
            if effects.POLICY[key].kind == "needs trust" and value != getattr(own.policy, key):
                yield _sentence_finding(f"{origin} sets the policy {key}: {scan.shorten(str(value))}", repr(value))
        for key, value in file.limits.items() if origin == BEAM_YAML else ():
            before = getattr(own.limits, key)
            words = f"the limit {key} from {shown_value(key, before)} to {shown_value(key, value)}"
            if effects.LIMITS[key].kind == "needs trust" and value != before:
                yield _sentence_finding(f"{origin} changes {words}", key, str(value))
            elif effects.LIMITS[key].kind == "may only lower" and isinstance(value, (int, float)) and value > before:
                yield _sentence_finding(f"{origin} raises {words}", key, str(value))


def with_own_bounds(config: Config) -> Config:
    """Return the configuration of a folder that nobody trusts: the person's own limits and policy, and of those in
    beam.yaml the limits that are lower."""
    own = _own_bounds(config)
    lower: dict[str, object] = {}
    for origin, file in config.files:
        for key, value in file.limits.items() if origin == BEAM_YAML else ():
            if effects.LIMITS[key].kind == "may only lower" and isinstance(value, (int, float)):
                lower[key] = min(value, getattr(own.limits, key))
    return structs.replace(config, limits=structs.replace(own.limits, **lower), policy=own.policy)


class _OwnBounds(Struct, frozen=True):
    limits: Limits
    policy: Policy


def _own_bounds(config: Config) -> _OwnBounds:
    """Return the limits and the policy that the person's own files set, with the defaults in place of all others."""
    limits: dict[str, object] = {}
    policy: dict[str, object] = {}
    for origin, file in config.files:
        if origin != BEAM_YAML:
            limits |= file.limits
            policy |= file.policy
    return _OwnBounds(Limits(**limits), Policy(**policy))  # type: ignore[arg-type]


def _sentence_finding(sentence: str, *values: str) -> Finding:
    """Return a finding that a person reads as this sentence. The finding's digest covers the complete `values`, because
    the sentence may show only the beginning of a value."""
    return Finding(name=sentence, digest=scan.digest_of(repr(values)), says=True)


def _findings_of_files(
    resolved: ResolvedAgent, words: Collection[str], *, interpreted: Sequence[str] | None = None
) -> Iterator[Finding]:
    """Yield a finding for each file that one of these words of a command names, because the command may run the file.

    With `interpreted`, yield only files that look like programs and those that are named there; other files may be data
    that changes with each turn.
    """
    cwd = resolved.base / (resolved.settings.cwd or "")
    for word in dict.fromkeys((*_named_in(words), *(interpreted or ()))):
        for start in dict.fromkeys((cwd, resolved.base)):
            path = start / word
            is_data = interpreted is not None and word not in interpreted
            if not _is_file(path) or (is_data and not _is_code(path)):
                continue
            for found_file in scan.scan_files(path.parent, path.name):
                name = scan.relative_name(found_file.path, resolved.base)
                yield Finding(
                    name=name, digest=found_file.digest, text=found_file.text, by=(resolved.agent,), runs=True
                )


def _named_in(words: Collection[str]) -> list[str]:
    """Return the words of a command that may name a file: each word, the value of an option (`--file=x.py`), and what a
    shell is given as a command (`sh -c TEXT`)."""
    found: dict[str, None] = {}
    before = ""
    for word in words:
        found[word] = None
        if word.startswith("-"):
            found[word.partition("=")[2]] = None
        if re.match(r"-[a-z]*c\Z", before):
            found.update(dict.fromkeys(names_in_shell_command(word)))
        before = word
    return [word for word in found if word]


_INTERPRETER = re.compile(  # a program whose first file is code
    r"(?:(?:ba|da|a|z|k|mk|fi|c|tc)?sh|python[\d.]*w?|pypy[\d.]*|node(?:js)?|deno|bunx?|tsx|ts-node|ruby[\d.]*|perl[\d.]*"
    r"|php[\d.]*|lua(?:jit)?[\d.]*|tclsh[\d.]*|wish|expect|pwsh|powershell|osascript|Rscript|julia|groovy|guile|racket|uv"
    r"|source|\.)(?:\.exe)?"
)
_READS_CODE = re.compile(r"[gmn]?awk|g?sed|g?make|ninja|just|gdb|ed|ex|vim?|nvim|emacs")  # from the file of -f or -x
_NO_VALUE = re.compile(r"-[A-Za-z]*[^CIOWXforQ]")  # one-letter options, the last of which takes no value
_SUBCOMMANDS = ("run", "exec", "test")  # of an interpreter: deno run FILE


def _interpreted_in(words: Sequence[str]) -> list[str]:
    """Return the words of a command that name what a shell or another interpreter runs in it, in whatever way: its
    first file (`sh FILE`), the value of an option, a module (`python -m NAME`), and every file that a command for a
    shell names if there is an interpreter in it (`sh -c 'cat FILE | sh'`)."""
    found: dict[str, None] = {}
    before, program, reads_code = "", "", False
    for word in words:
        name = word.rpartition("/")[2]
        if re.match(r"-[a-z]*c\Z", before):
            inner = names_in_shell_command(word)
            is_run = any(_INTERPRETER.fullmatch(each.rpartition("/")[2]) for each in inner)
            found.update(dict.fromkeys(inner if is_run else ()))
        elif word.startswith("-") and (program or reads_code):
            found.update(dict.fromkeys((word[2:], word.partition("=")[2])))  # -fFILE, --require=FILE
        elif program and word not in _SUBCOMMANDS:
            found.update(dict.fromkeys((word, *(_files_of_module(word) if before == "-m" else ()))))
            # What follows an option may be its value, and then the next word may be the file.
            program = program if before.startswith("-") and not _NO_VALUE.fullmatch(before) else ""
        elif reads_code and before.startswith("-"):
            found[word] = None
        if _INTERPRETER.fullmatch(name):
            program = name
        reads_code = reads_code or _READS_CODE.fullmatch(name) is not None
        before = word
    return [word for word in found if word]


def _files_of_module(name: str) -> tuple[str, ...]:
    path = name.replace(".", "/")
    return (f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py")


def names_in_shell_command(text: str) -> list[str]:
    """Return all words of a shell command that may name a file, also between operators, as in `cd x;./y.sh|cat`."""
    import shlex

    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = []
    return list(dict.fromkeys([*words, *filter(None, re.split(r"[\s;&|()<>{}`\"'=$]+", text))]))


def _is_code(path: Path) -> bool:
    return path.suffix.lower() in _CODE_SUFFIXES or os.access(path, os.X_OK)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() and path.name not in ("", "..")
    except (OSError, ValueError):
        return False


def _is_inside(path: str, base: Path) -> bool:
    return Path(os.path.realpath(base / path)).is_relative_to(os.path.realpath(base))
