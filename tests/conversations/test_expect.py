"""Each check: what passes, what fails, and what it says of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from beam.conversations.expect import Changes, FoundFile, Subject, check, ci_failures, json_in
from beam.conversations.facts import FileChange, ToolUse, TurnFacts
from beam.conversations.github import turn_lines
from beam.conversations.language import _CHECK
from beam.conversations.result import Verdict
from beam.conversations.scenario import Check
from beam.conversations.step_result import turn_result
from beam.model import events
from beam.model.outcome import Class, Denial, Outcome, Status, Unfinished, Usage

USED = Usage(input_tokens=10, output_tokens=5, calls=1)


def turn(
    reply: str = "The answer is 42.", *, status: Status = Status.COMPLETED, usage: Usage = USED, **more: Any
) -> TurnFacts:
    """A turn that is over, with two calls of tools."""
    facts = TurnFacts("a", "?")
    facts.tools = [
        ToolUse(name="exec_command", word="Bash", input={"cmd": "git push", "n": 3}, is_done=True),
        ToolUse(name="write_file", word="Edit", is_done=True),
    ]
    facts.files = [FileChange("src/a.py", "update")]
    facts.outcome = Outcome(
        message_id="a-1", agent="a", turn=1, attempt=1, status=status, reply=reply, usage=usage, **more
    )
    return facts


FILES = {
    "made.txt": FoundFile(is_there=True, is_inside=True, text="hello\nworld"),
    "large.txt": FoundFile(is_there=True, is_inside=True, problem="can't be read: large.txt is larger than 1 MiB"),
    "link.txt": FoundFile(is_there=True, problem="leads out of the folder"),
}


def find_file(path: str) -> FoundFile:
    return FILES.get(path, FoundFile())


SUBJECT = Subject(
    turns=[turn(cost_usd=0.25)],
    reply="The answer is 42.",
    exit_code=0,
    duration_s=2.0,
    find_file=find_file,
    changed=lambda: Changes(paths=("made.txt",), named=("src/a.py",), added=2, removed=1, known=True),
)
JSON = Subject(turns=[turn()], reply='So:\n```json\n{"n": 1}\n```\n')
NUMBER = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
TEXT = NUMBER.replace("integer", "string")

HOLDS: list[tuple[str, Any, Any]] = [  # kind, a value that is so, one that is not
    ("contains", ("42", "answer"), ("42", "43")),
    ("not_contains", ("43",), ("42",)),
    ("equals", " The answer is 42.\n", "42"),
    ("regex", (r"\d+",), (r"^\d+",)),
    ("not_regex", (r"^\d+",), (r"\d+",)),
    ("status", "completed", "denied"),
    ("exit_code", 0, 3),
    ("file_exists", ("made.txt",), ("made.txt", "no.txt")),
    ("file_absent", ("no.txt",), ("made.txt",)),
    ("file_exists", ("large.txt",), ("link.txt",)),
    ("file_absent", ("no.txt",), ("large.txt",)),
    ("file_absent", ("no.txt",), ("link.txt",)),
    ("file_contains", {"made.txt": ("hello",)}, {"made.txt": ("bye",)}),
    ("file_contains", {"made.txt": ("hello",)}, {"large.txt": ("hello",)}),
    ("files_changed", True, False),
    ("files_changed", 2, 3),
    ("files_changed", {"most": 2}, {"most": 1}),
    ("files_changed", {"only": ("src", "*.txt")}, {"only": ("src",)}),
    ("files_changed", {"never": ("tests",)}, {"never": ("src/*",)}),
    ("diff", {"files": 1, "lines": 3}, {"files": 1, "lines": 2}),
    ("diff", {"added": 2}, {"removed": 0}),
    ("tool_used", ("Bash", "write_*"), ("Bash", "WebFetch")),
    ("tool_sequence", ("bash", "Edit"), ("Edit", "Bash")),
    ("tool_args", ({"tool": "Bash", "args": {"cmd": "^git", "n": "3"}},), ({"tool": "Bash", "args": {"cmd": "pull"}},)),
    ("tool_args", ({"tool": "Bash", "args": {}},), ({"tool": "Read", "args": {}},)),
    ("no_tool", "WebFetch", True),
    ("no_tool", ("Read", "mcp__*"), ("Read", "Edit")),
    ("no_tool", False, "exec_*"),
    ("max_steps", 2, 1),
    ("cost_usd", 0.25, 0.2),
    ("tokens", 15, 14),
    ("time", 2.0, 1.5),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "good", "bad"), HOLDS)
def test_a_check_passes_and_fails(kind: str, good: Any, bad: Any) -> None:
    assert check(Check(kind=kind, value=good), SUBJECT, 1).verdict is Verdict.PASSED
    failed = check(Check(kind=kind, value=bad), SUBJECT, 7)
    assert (failed.verdict, failed.line) == (Verdict.FAILED, 7)
    assert failed.detail


CALLED = events.ToolCalled(call_id="1", name="Read", input=msgspec.Raw(b'{"file_path":"a.py"}'))
ENDED: dict[str, tuple[tuple[events.Event, ...], str]] = {  # how a call ended, and what is said of it
    "succeeded": ((events.ToolReturned(call_id="1", output="text"),), ""),
    "failed": (
        (events.ToolReturned(call_id="1", output="\nno such file\nmore", is_error=True),),
        "it failed: no such file",
    ),
    "failed without a word": ((events.ToolReturned(call_id="1", is_error=True),), "it failed"),
    "denied": ((events.ToolReturned(call_id="1", output="no"),), "it was denied"),
    "never returned": ((), "it did not return"),
    "cut": ((events.ToolReturned(call_id="1", unfinished=True),), "it did not return"),
}


@pytest.mark.parametrize("end", ENDED)
@pytest.mark.parametrize(
    ("kind", "value", "counts_attempts"),
    [
        ("tool_used", ("Read",), False),
        ("tool_sequence", ("Read",), False),
        ("tool_args", ({"tool": "Read", "args": {"file_path": "a.py"}},), False),
        ("tool_args", ({"tool": "Read", "args": {}},), False),
        ("no_tool", "Read", True),
        ("no_tool", True, True),
        ("max_steps", 0, True),
    ],
)
def test_only_a_call_that_succeeded_is_done_and_an_attempt_is_forbidden_too(
    kind: str, value: Any, counts_attempts: bool, end: str
) -> None:
    returned, why = ENDED[end]
    facts = TurnFacts("a", "?")
    for event in (CALLED, *returned):
        facts.add_event(event)
    denials = (Denial(tool="Read", call_id="1"),) if end == "denied" else ()
    facts.outcome = Outcome(
        message_id="a-1", agent="a", turn=1, attempt=1, status=Status.COMPLETED, reply="x", denials=denials
    )
    found = check(Check(kind=kind, value=value), Subject(turns=[facts], reply="x"), 1)
    assert found.verdict is (Verdict.PASSED if not counts_attempts and not why else Verdict.FAILED)
    if why and not counts_attempts:
        says = "Read did not follow; the calls were Read (failed)" if kind == "tool_sequence" else ""
        assert found.detail == (says or f"Read was called, but {why}")
    result = turn_result(facts)
    assert (result.tools, result.failed_tools) == (("Read",), ("Read",) if why else ())
    assert f"did: called Read{' (failed)' if why else ''}" in turn_lines(result, {})


def test_a_call_that_succeeded_counts_beside_one_that_failed() -> None:
    facts = turn()
    facts.tools.insert(0, ToolUse(name="exec_command", word="Bash", is_error=True))
    for kind, value in [("tool_used", ("Bash",)), ("tool_sequence", ("Bash", "Edit"))]:
        assert check(Check(kind=kind, value=value), Subject(turns=[facts]), 1).verdict is Verdict.PASSED


@pytest.mark.parametrize(("kind", "value"), [("no_tool", True), ("max_steps", 9), ("status", "completed")])
def test_a_check_of_turns_fails_where_no_turn_was(kind: str, value: Any) -> None:
    found = check(Check(kind=kind, value=value), Subject(reply="what a command wrote"), 1)
    assert (found.verdict, found.detail) == (Verdict.FAILED, "it was no turn")


def test_an_answer_follows_a_schema_also_in_a_fenced_block() -> None:
    holds = check(Check(kind="schema", value=NUMBER), JSON, 1)
    assert (holds.verdict, holds.detail) == (Verdict.PASSED, "")
    assert "does not follow" in check(Check(kind="schema", value=TEXT), JSON, 1).detail
    assert "no JSON" in check(Check(kind="schema", value=NUMBER), SUBJECT, 1).detail


DEEP = '{"a":' * 250 + "{}" + "}" * 250
DEEPER = '{"type": "object", "properties": {"a": {"$ref": "#"}}}'


@pytest.mark.parametrize(
    ("schema", "reply", "says"),
    [
        (DEEPER, DEEP, "nested too deeply"),
        ('{"multipleOf": 0.5}', "1" * 400, "too large"),
        ('{"$ref": "#/$defs/missing"}', "1", "can't be applied"),
        ('{"$id": 3}', "1", "can't be applied"),
    ],
)
def test_a_schema_that_can_not_be_applied_to_an_answer_fails_the_check(schema: str, reply: str, says: str) -> None:
    found = check(Check(kind="schema", value=schema), Subject(reply=reply), 1)
    assert found.verdict is Verdict.FAILED
    assert says in found.detail


def test_no_schema_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("urllib.request.urlopen", asked.append)
    found = check(Check(kind="schema", value='{"$ref": "http://127.0.0.1:8799/s.json"}'), Subject(reply="1"), 1)
    assert (found.verdict, asked) == (Verdict.FAILED, [])
    assert "http://127.0.0.1:8799/s.json" in found.detail


def test_an_answer_of_the_clis_own_that_is_nested_too_deeply_is_no_json() -> None:
    facts = turn(structured=msgspec.Raw(b"[" * 100_000 + b"]" * 100_000))
    with pytest.raises(ValueError, match="nested too deeply"):
        json_in([facts], "")


def test_what_was_not_searched_does_not_pass() -> None:
    most = 256 << 10
    found = check(Check(kind="not_regex", value=("FATAL",)), Subject(reply="x" * most + "FATAL"), 1)
    assert (found.verdict, found.detail) == (
        Verdict.FAILED,
        "only the first 262,144 of 262,149 characters were searched",
    )
    assert check(Check(kind="not_regex", value=("FATAL",)), Subject(reply="x" * most), 1).verdict is Verdict.PASSED
    found = check(Check(kind="not_regex", value=("FATAL",)), Subject(reply="FATAL" + "x" * most), 1)
    assert "something matches" in found.detail


def test_every_check_of_the_language_is_tested_here() -> None:
    elsewhere = {"schema", "command", "judge"}
    assert {kind for kind, _, _ in HOLDS} | elsewhere == set(_CHECK.fields)


def test_what_nobody_knows_fails() -> None:
    unknown = Subject(turns=[turn(usage=Usage())], reply="x")
    assert "nobody knows" in check(Check(kind="cost_usd", value=9), unknown, 1).detail
    assert "nobody knows" in check(Check(kind="tokens", value=9), unknown, 1).detail
    assert "no git repository" in check(Check(kind="diff", value={"files": 9}), unknown, 1).detail


@pytest.mark.parametrize("value", [False, {"most": 9}, {"only": ("src",)}, {"least": 0, "never": ("tests",)}])
def test_changes_that_nobody_knows_are_not_taken_for_none(value: Any) -> None:
    facts = turn()
    facts.files = []
    unknown = Subject(turns=[facts], reply="x")
    found = check(Check(kind="files_changed", value=value), unknown, 1)
    assert (found.verdict, "nobody knows what was changed" in found.detail) == (Verdict.FAILED, True)
    known = msgspec.structs.replace(unknown, changed=lambda: Changes(known=True))
    assert check(Check(kind="files_changed", value=value), known, 1).verdict is Verdict.PASSED


def test_changes_that_the_agent_reports_count_outside_of_git_and_in_a_replay() -> None:
    reported = Subject(turns=[turn()], reply="x", changed=lambda: Changes(named=("src/a.py",)))
    for value in (True, 1, {"least": 1}):
        assert check(Check(kind="files_changed", value=value), reported, 1).verdict is Verdict.PASSED
    assert check(Check(kind="files_changed", value=False), reported, 1).detail == "changed: src/a.py"
    replayed = msgspec.structs.replace(reported, is_replayed=True)
    assert check(Check(kind="files_changed", value={"most": 1}), replayed, 1).verdict is Verdict.PASSED


@pytest.mark.parametrize("kind", ["file_exists", "file_absent", "file_contains", "diff"])
def test_files_say_nothing_in_a_replay(kind: str) -> None:
    found = check(Check(kind=kind, value=()), msgspec.structs.replace(SUBJECT, is_replayed=True), 1)
    assert found.verdict is Verdict.SKIPPED
    assert "no tool was run again" in found.detail


DENIED = Denial(tool="Bash")
DEMANDED = {
    "denied": turn(denials=(DENIED,)),
    "empty": turn(" \n"),
    "truncated": turn(status=Status.TRUNCATED),
    "no_calls": turn(usage=Usage(calls=0)),
    "unfinished": turn(unfinished=(Unfinished(tool="Bash"),)),
}


@pytest.mark.parametrize("word", DEMANDED)
def test_ci_demands_that_something_happened_unless_it_is_allowed(word: str) -> None:
    (wrong,) = ci_failures([DEMANDED[word]], frozenset())
    assert (wrong.name, wrong.verdict) == (f"ci: not {word}", Verdict.FAILED)
    assert f"allow: [{word}]" in wrong.detail
    assert ci_failures([DEMANDED[word]], frozenset({word})) == []


def test_ci_does_not_offer_to_allow_that_a_failed_turn_called_no_model() -> None:
    failed = turn(status=Status.FAILED, class_=Class.AUTH, usage=Usage(calls=0))
    (wrong,) = ci_failures([failed], frozenset())
    assert wrong.detail == "a: the model was not called"


def test_ci_takes_a_plain_turn_and_one_whose_calls_nobody_counts() -> None:
    assert ci_failures([turn(), turn(usage=Usage())], frozenset()) == []


def test_facts_are_folded_from_events_and_an_earlier_attempt_does_not_count() -> None:
    facts = TurnFacts("codex", "?")
    owner = events.Owner(pid=1, start_ticks=1)
    for number in (1, 2):
        facts.add_event(events.TurnStarted(owner=owner, turn_key="k", adapter="claude", via="exec", turn=number))
        facts.add_event(events.ToolCalled(call_id="1", name="Bash", input=msgspec.Raw(b'{"command":"ls"}')))
        facts.add_event(events.ToolReturned(call_id="1", output="a", is_error=True))
        facts.add_event(events.FileChanged(path="x"))
    facts.add_event(events.Notice(code="replayed", text="minor: answered from turn 1"))
    assert [(tool.name, tool.word, tool.output, tool.is_error) for tool in facts.tools] == [("Bash", "Bash", "a", True)]
    assert (facts.turn, len(facts.files), facts.replayed) == (2, 1, "minor")


@pytest.mark.slow
def test_a_schema_whose_pattern_takes_too_long_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam.conversations.expect._MAX_CHECK_S", 0.05)
    schema = msgspec.json.encode({"type": "string", "pattern": "(a+)+Z$"})
    result = check(Check(kind="schema", value=schema), Subject(reply=f'"{"a" * 40}b!"'), 1)
    assert (result.verdict, "longer than" in result.detail) == (Verdict.FAILED, True)
