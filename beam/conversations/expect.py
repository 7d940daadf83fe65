"""Checks of facts about turns and files: values in, results out. The checks that need a command or a judge are in
`beam.conversations.checking`.

A result has the expectation and the actual value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

import msgspec
from msgspec import Struct

from beam.base import durations
from beam.base.patterns import time_limit
from beam.base.typed_values import one_line
from beam.conversations.facts import ToolUse, TurnFacts
from beam.conversations.result import CheckResult, Verdict
from beam.conversations.scenario import Check
from beam.model.outcome import Class, Outcome, Status
from beam.turns.outcome import is_blank

_SHOWN_CHARACTERS = 100
_MAX_CHECK_S = 5.0  # for the patterns of one check
_MAX_SEARCHED = 256 << 10  # characters, as many as are kept of a command's output; a pattern's time may be their square
FILE_CHECKS = frozenset({"file_exists", "file_absent", "file_contains", "diff", "command"})  # useless in a replay
STEPLESS_CHECKS = FILE_CHECKS | {"files_changed"}  # they are about the folder; all others are about a step


class Changes(Struct, frozen=True, kw_only=True):
    """The changes in the files: the paths, and the numbers of lines added and removed. `known`: git was able to compare
    the files; else `why` says why not. `named` are files that only the agents name: git ignores them, or they are out
    of the folder, or git was not asked. Paths are relative to the folder if the file is in there."""

    paths: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    known: bool = False
    why: str = "this is no git repository"


class FoundFile(Struct, frozen=True, kw_only=True):
    """What is at a path. `is_there`: something has this name, be it a link that leads nowhere. `is_inside`: it is in
    the folder, also if a link leads there. `text` is None if it can't be read; `problem` says why."""

    is_there: bool = False
    is_inside: bool = False
    text: str | None = None
    problem: str = ""


class Subject(Struct, frozen=True, kw_only=True):
    """The subject of a check: the turns of a step, its answer, the exit code of its command, and the files.

    `find_file` returns what is at a path of the folder. `changed` returns how the files changed.
    `is_replayed`: no tool ran, so the files lack the tools' changes.
    """

    turns: Sequence[TurnFacts] = ()
    reply: str = ""
    exit_code: int = 0
    duration_s: float = 0.0
    find_file: Callable[[str], FoundFile] = lambda path: FoundFile()
    changed: Callable[[], Changes] = Changes
    is_replayed: bool = False

    @property
    def tools(self) -> list[tuple[ToolUse, str]]:
        """Return all calls of tools, each with the reason why it does not count as done, "" if it does."""
        return [(tool, turn.failure_of(tool)) for turn in self.turns for tool in turn.tools]


CheckFinding = tuple[bool, str]  # whether the expectation holds, and the actual value


def check(asked: Check, subject: Subject, line: int | None) -> CheckResult:
    """Return the result of one check."""
    name = f"{asked.kind}: {value_text(asked.value)}"
    if subject.is_replayed and asked.kind in FILE_CHECKS:
        why = "the turns are replayed: no tool was run again, so the files say nothing"
        return CheckResult(name=name, kind=asked.kind, line=line, verdict=Verdict.SKIPPED, detail=why)
    if subject.is_replayed and asked.kind == "files_changed" and not any(turn.files for turn in subject.turns):
        why = "the turns are replayed: no tool was run again, and the agent reported no change"
        return CheckResult(name=name, kind=asked.kind, line=line, verdict=Verdict.SKIPPED, detail=why)
    try:
        with time_limit(_MAX_CHECK_S):
            is_so, detail = _CHECKS[asked.kind](asked.value, subject)
    except TimeoutError:
        is_so, detail = False, f"a pattern in it took longer than {_MAX_CHECK_S:g} s on this text; write a simpler one"
    except RecursionError:
        is_so, detail = False, f"it can't be checked, because something is nested too deeply; {_answer_note(subject)}"
    verdict = Verdict.PASSED if is_so else Verdict.FAILED
    return CheckResult(name=name, kind=asked.kind, line=line, verdict=verdict, detail=detail)


def value_text(value: object) -> str:
    """Return a check's value as one short line."""
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, tuple) and all(isinstance(each, str) for each in value):
        return _cut(", ".join(value))
    return _cut(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _cut(text: str) -> str:
    return one_line(text, _SHOWN_CHARACTERS)


def _answer_note(subject: Subject) -> str:
    return f"the answer was {_cut(subject.reply)!r}" if subject.reply else "the answer was empty"


# -- what was said -----------------------------------------------------------------------------------------------------


def _contains(value: Any, subject: Subject) -> CheckFinding:
    missing = [text for text in value if text not in subject.reply]
    return not missing, "" if not missing else f"{_cut(missing[0])!r} is not in it; {_answer_note(subject)}"


def _not_contains(value: Any, subject: Subject) -> CheckFinding:
    there = [text for text in value if text in subject.reply]
    return not there, "" if not there else f"{_cut(there[0])!r} is in it; {_answer_note(subject)}"


def _equals(value: Any, subject: Subject) -> CheckFinding:
    return value.strip() == subject.reply.strip(), _answer_note(subject)


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text[:_MAX_SEARCHED]) is not None


def _regex(value: Any, subject: Subject) -> CheckFinding:
    missing = [pattern for pattern in value if not _matches(pattern, subject.reply)]
    return not missing, "" if not missing else f"nothing matches {_cut(missing[0])!r}; {_answer_note(subject)}"


def _not_regex(value: Any, subject: Subject) -> CheckFinding:
    there = [pattern for pattern in value if _matches(pattern, subject.reply)]
    if there:
        return False, f"something matches {_cut(there[0])!r}; {_answer_note(subject)}"
    if len(subject.reply) > _MAX_SEARCHED:
        return False, f"only the first {_MAX_SEARCHED:,} of {len(subject.reply):,} characters were searched"
    return True, ""


def json_in(turns: Sequence[TurnFacts], reply: str) -> object:
    """Return the JSON value of an answer: the structured output of the last turn, else the whole answer, else a fenced
    block or an object in the answer. Raises ValueError if there is none."""
    outcome = turns[-1].outcome if turns else None
    if outcome is not None and isinstance(outcome.structured, msgspec.Raw):
        try:
            return msgspec.json.decode(outcome.structured)
        except RecursionError as error:
            raise ValueError("the answer is nested too deeply") from error
    start, end = reply.find("{"), reply.rfind("}")
    found = [
        *_json_values(reply),
        *json_blocks(reply),
        *_json_values(reply[start : end + 1] if 0 <= start < end else ""),
    ]
    if not found:
        raise ValueError("the answer is no JSON")
    return found[0]


def json_blocks(reply: str) -> list[object]:
    """Return the JSON values of an answer's fenced blocks."""
    fenced = re.findall(r"^```(?:json)?\s*\n(.*?)^```", reply, re.MULTILINE | re.DOTALL)
    return [value for text in fenced for value in _json_values(text)]


def _json_values(text: str) -> list[object]:
    """Return the JSON value that the text is, in a list; [] if it is none, or is nested too deeply."""
    try:
        return [msgspec.json.decode(text)]
    except (ValueError, RecursionError):
        return []


def _schema(value: Any, subject: Subject) -> CheckFinding:
    import jsonschema
    from referencing import Registry

    try:
        found = json_in(subject.turns, subject.reply)
    except ValueError as error:
        return False, f"{error}; {_answer_note(subject)}"
    try:
        validator = jsonschema.Draft202012Validator(msgspec.json.decode(value), registry=Registry())
        wrong = next(iter(validator.iter_errors(found)), None)
    except (TimeoutError, RecursionError):
        raise
    except Exception as error:  # noqa: BLE001 - a reference in the schema, or a huge number, can't be used
        return False, f"the schema can't be applied: {_cut(str(error))}; {_answer_note(subject)}"
    if wrong is None:
        return True, ""
    where = "".join(f"[{part!r}]" for part in wrong.absolute_path)
    return False, f"the answer{where} does not follow it: {_cut(wrong.message)}"


# -- how it ended ------------------------------------------------------------------------------------------------------


def _status(value: Any, subject: Subject) -> CheckFinding:
    found = [turn.outcome.status for turn in subject.turns if turn.outcome is not None]
    return bool(found) and all(each == value for each in found), f"it was {', '.join(found) or 'no turn'}"


def _exit_code(value: Any, subject: Subject) -> CheckFinding:
    return subject.exit_code == value, f"it was {subject.exit_code}"


def _cost(value: Any, subject: Subject) -> CheckFinding:
    known = [turn.cost_usd for turn in subject.turns]
    if any(cost is None for cost in known):
        return False, "nobody knows what it cost: the agent's CLI reports no cost, and its model has no known price"
    used = sum(cost or 0.0 for cost in known)
    return used <= value, f"it cost ${used:.4f}"


def _tokens(value: Any, subject: Subject) -> CheckFinding:
    known = [turn.tokens for turn in subject.turns]
    if any(tokens is None for tokens in known):
        return False, "nobody knows how many it used: the agent's CLI reports none"
    used = sum(tokens or 0 for tokens in known)
    return used <= value, f"it used {used}"


def _time(value: Any, subject: Subject) -> CheckFinding:
    return subject.duration_s <= value, f"it took {durations.show(subject.duration_s)}"


# -- tools -------------------------------------------------------------------------------------------------------------


def matches_tool(pattern: str, tool: ToolUse) -> bool:
    """Return whether the pattern matches this tool: the CLI's own name for it, or its name in rules."""
    return any(fnmatchcase(name.lower(), pattern.lower()) for name in (tool.name, tool.word) if name)


def _calls_shown(subject: Subject) -> list[str]:
    return [f"{tool.name} (failed)" if failure else tool.name for tool, failure in subject.tools]


def _not_called(pattern: str, subject: Subject) -> str:
    names = _cut(", ".join(dict.fromkeys(_calls_shown(subject))))
    return f"{pattern} was not called; it called {names or 'no tool'}"


def _tool_used(value: Any, subject: Subject) -> CheckFinding:
    for pattern in value:
        failures = [failure for tool, failure in subject.tools if matches_tool(pattern, tool)]
        if not failures:
            return False, _not_called(pattern, subject)
        if all(failures):
            return False, f"{pattern} was called, but {failures[-1]}"
    return True, ""


def _tool_sequence(value: Any, subject: Subject) -> CheckFinding:
    left = list(value)
    for tool, failure in subject.tools:
        if left and not failure and matches_tool(left[0], tool):
            left.pop(0)
    order = " → ".join(_calls_shown(subject))
    return not left, "" if not left else f"{left[0]} did not follow; the calls were {_cut(order) or 'none'}"


def _tool_args(value: Any, subject: Subject) -> CheckFinding:
    for wanted in value:
        called = [(tool, failure) for tool, failure in subject.tools if matches_tool(wanted["tool"], tool)]
        if not called:
            return False, _not_called(wanted["tool"], subject)
        failures = [failure for tool, failure in called if _has_args(wanted["args"], tool)]
        if not failures:
            inputs = msgspec.json.encode(called[-1][0].input).decode()
            return False, f"no call of {wanted['tool']} has them; the last one had {_cut(inputs)}"
        if all(failures):
            return False, f"{wanted['tool']} was called, but {failures[-1]}"
    return True, ""


def _has_args(patterns: Mapping[str, str], tool: ToolUse) -> bool:
    given: Mapping[str, object] = tool.input if isinstance(tool.input, dict) else {}
    return all(name in given and _matches(pattern, _as_text(given[name])) for name, pattern in patterns.items())


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _no_tool(value: Any, subject: Subject) -> CheckFinding:
    patterns = ("*",) if value is True else () if value is False else (value,) if isinstance(value, str) else value
    called = [tool.name for tool, _ in subject.tools if any(matches_tool(pattern, tool) for pattern in patterns)]
    if not subject.turns:
        return False, "it was no turn"
    return not called, "" if not called else f"it called {_cut(', '.join(dict.fromkeys(called)))}"


def _max_steps(value: Any, subject: Subject) -> CheckFinding:
    if not subject.turns:
        return False, "it was no turn"
    return len(subject.tools) <= value, f"it called tools {len(subject.tools)} times"


# -- files -------------------------------------------------------------------------------------------------------------


def _file_problem(path: str, found: FoundFile) -> str:
    return f"{_cut(path)} {found.problem}" if found.is_there else f"there is no {_cut(path)}"


def _file_exists(value: Any, subject: Subject) -> CheckFinding:
    for path in value:
        found = subject.find_file(path)
        if not found.is_inside:
            return False, _file_problem(path, found)
    return True, ""


def _file_absent(value: Any, subject: Subject) -> CheckFinding:
    there = [path for path in value if subject.find_file(path).is_there]
    return not there, "" if not there else f"there is {_cut(there[0])}"


def _file_contains(value: Any, subject: Subject) -> CheckFinding:
    for path, texts in value.items():
        found = subject.find_file(path)
        if found.text is None:
            return False, _file_problem(path, found)
        for text in texts:
            if text not in found.text:
                return False, f"{_cut(path)} does not contain {_cut(text)!r}"
    return True, ""


def _files_changed(value: Any, subject: Subject) -> CheckFinding:
    found = subject.changed()
    paths = (*found.paths, *found.named)
    said = f"changed: {_cut(', '.join(paths))}" if paths else "no file was changed"
    is_known = found.known or subject.is_replayed
    if value is False and not paths and not is_known:
        return False, f"{found.why}, so nobody knows what was changed"
    if value is True or value is False:
        return bool(paths) is value, said
    if not isinstance(value, dict):
        return len(paths) >= value, said
    if len(paths) < value.get("least", 0) or len(paths) > value.get("most", len(paths)):
        return False, f"{len(paths)} files; {said}"
    only, never = value.get("only"), value.get("never", ())
    for path in paths:
        if only is not None and not _matches_any(path, only):
            return False, f"{_cut(path)} was changed, too"
        if _matches_any(path, never):
            return False, f"{_cut(path)} was changed"
    if not is_known and value.keys() & {"most", "only", "never"}:
        return False, f"{found.why}, so nobody knows what was changed"
    return True, said


def _matches_any(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) or path.startswith(pattern.rstrip("/") + "/") for pattern in patterns)


def _diff(value: Any, subject: Subject) -> CheckFinding:
    found = subject.changed()
    if not found.known:
        return False, f"{found.why}, so nobody knows what was changed"
    figures = {
        "files": len(found.paths),
        "lines": found.added + found.removed,
        "added": found.added,
        "removed": found.removed,
    }
    over = [f"{figures[name]} {name}" for name, most in value.items() if figures[name] > most]
    return not over, f"{', '.join(over)} in the diff" if over else f"+{found.added} -{found.removed}"


_CHECKS: dict[str, Callable[[Any, Subject], CheckFinding]] = {
    "contains": _contains,
    "not_contains": _not_contains,
    "equals": _equals,
    "regex": _regex,
    "not_regex": _not_regex,
    "schema": _schema,
    "status": _status,
    "exit_code": _exit_code,
    "file_exists": _file_exists,
    "file_absent": _file_absent,
    "file_contains": _file_contains,
    "files_changed": _files_changed,
    "diff": _diff,
    "tool_used": _tool_used,
    "tool_sequence": _tool_sequence,
    "tool_args": _tool_args,
    "no_tool": _no_tool,
    "max_steps": _max_steps,
    "cost_usd": _cost,
    "tokens": _tokens,
    "time": _time,
}


# -- what CI demands of every turn -------------------------------------------------------------------------------------


def ci_failures(turns: Sequence[TurnFacts], allow: frozenset[str]) -> list[CheckResult]:
    """Return a failed check for each thing in these turns that CI counts as a failure, such as an empty answer. In CI,
    a passed check must mean that something happened. `allow` has the words for what does not count as a failure."""
    found: list[CheckResult] = []
    for turn in turns:
        outcome = turn.outcome
        if outcome is None:
            continue
        wrong = {
            "denied": f"a request was denied: {', '.join(one.tool for one in outcome.denials)}"
            if outcome.denials
            else "",
            "empty": "the answer is empty" if _is_empty(outcome, turn.reply) else "",
            "truncated": "the answer was cut off" if outcome.status is Status.TRUNCATED else "",
            "no_calls": "the model was not called" if turn.calls == 0 else "",
            "unfinished": "the answer leaves work undone" if outcome.unfinished else "",
        }
        for word, detail in wrong.items():
            if detail and word not in allow:
                is_result = word == "no_calls" and outcome.status is Status.FAILED and outcome.class_ is not Class.EMPTY
                hint = "" if is_result else f" (if that is right: `allow: [{word}]`)"
                told = f"{turn.agent}: {detail}{hint}"
                found.append(CheckResult(name=f"ci: not {word}", kind="ci", verdict=Verdict.FAILED, detail=told))
    return found


def _is_empty(outcome: Outcome, reply: str) -> bool:
    return outcome.class_ is Class.EMPTY or (outcome.status is Status.COMPLETED and is_blank(reply))


def command_words(value: object) -> list[str]:
    """Return the words of a command. A command that is given as one text is run by the shell."""
    return ["sh", "-c", value] if isinstance(value, str) else list(cast(Sequence[str], value))
