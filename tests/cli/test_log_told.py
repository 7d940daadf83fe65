"""`beam log`: which events are printed, in which form; the journal's content is a stand-in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import structs

import beam
from beam.api import Beam
from beam.base import clock
from beam.base.errors import NotFoundError, UsageError
from beam.model import events
from beam.model.outcome import Status
from beam.root.paths import RootPaths
from tests.support.inside import Inside, Told


def text(words: str, seq: int, **more: Any) -> events.AnyEvent:
    given: dict[str, Any] = {"agent": "bot", "ts": f"2026-01-02T03:04:0{seq}.000000Z", "turn": 1, "message_id": "bot-1"}
    return events.Text(text=words, seq=seq, **{**given, **more})


FOUND = [
    text("one", 1, raw='{"native":1}\x1b'),
    text("two", 2, turn=2, message_id="bot-2"),
    text("three", 3, turn=2, message_id="bot-2"),
]


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the journal of `bot` holds, and what was asked of it."""
    found = SimpleNamespace(events=FOUND, lanes=[], asked=[], placed=[])
    for module in ("stream", "last_lines"):
        monkeypatch.setattr(f"beam.cli.render.{module}.since", lambda _: FOUND[0].ts)  # the day of the events

    def agent_of(_: Beam, name: str) -> str:
        if name != "bot":
            raise NotFoundError(f"no agent {name}")
        return name

    def read(_: Beam, agent: str, *, after: int) -> Iterator[events.AnyEvent]:
        found.asked.append((agent, after))
        yield from found.events

    def watch_root(context: Any, **named: Any) -> Iterator[Any]:
        found.asked.append(named)
        yield [SimpleNamespace(event=each, lane="1qaz4" if each.seq == 2 else None, agent_dir=None) for each in FOUND]

    def read_end(_: Beam, agent: str, size: int) -> tuple[list[events.AnyEvent], bool]:
        count = size // (128 * 1024)  # one event, then eight
        found.asked.append((agent, count))
        return found.events[-count:], count >= len(found.events)

    monkeypatch.setattr(Beam, "agent_of", agent_of)
    monkeypatch.setattr(Beam, "last_events", read_end)
    monkeypatch.setattr(Beam, "events", read)
    monkeypatch.setattr(beam, "watch_root", watch_root, raising=False)
    place = SimpleNamespace(dir=Path("/r/bot"), lanes=lambda: found.lanes)
    monkeypatch.setattr(RootPaths, "agent", lambda _, name: place)
    return found


def words(printed: Any) -> list[str]:
    """The texts that were printed."""
    return [line.rpartition("│ ")[2] for line in printed.out.splitlines()]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), ["one", "two", "three"]),
        (("--turn", "2"), ["two", "three"]),
        (("--after", "2"), ["three"]),
        (("-n", "2"), ["two", "three"]),
        (("-n", "1", "--turn", "1"), ["one"]),
        (("-n", "0"), []),
        (("--since", "2026-01-02T03:04:02Z"), ["two", "three"]),
        (("--until", "2026-01-02T03:04:02Z"), ["one", "two"]),
        (("--turn", "9", "-n", "3"), []),
        (("--turn", "9", "--since", "2026-01-02T03:04:02Z"), []),
        (("--turn", "9", "--until", "2026-01-02T03:04:02Z"), []),
    ],
)
@pytest.mark.usefixtures("journal")
def test_events_are_chosen_by_turn_place_and_time(inside: Inside, options: tuple[str, ...], found: list[str]) -> None:
    shown = inside("log", "bot", *options)
    assert (shown.code, words(shown)) == (0, found)
    if "-n" not in options:
        as_json = inside("log", "bot", "--json", *options)
        assert [each["text"] for each in as_json.lines] == found


@pytest.mark.slow
@pytest.mark.usefixtures("journal")
def test_a_turn_that_there_is_not_is_an_error_and_no_events_a_note(inside: Inside, journal: Any) -> None:
    missing = inside("log", "bot", "--turn", "9")
    assert (missing.code, missing.err) == (4, "beam: bot has no turn 9; beam status bot shows how many turns it has\n")
    assert [each["text"] for each in inside("log", "bot", "--json", "-n", "1").lines] == ["three"]
    journal.events = []
    assert inside("log", "bot").err == "beam: bot has no events yet\n"
    assert inside("log", "bot", "--after", "3").err == "beam: bot has no events after that\n"
    assert inside("log", "bot", "--since", "1h").err == "beam: bot has no events of that time\n"
    assert inside("log", "bot", "--until", "1h").err == "beam: bot has no events of that time\n"


def test_what_the_cli_itself_wrote_is_printed(inside: Inside, journal: Any) -> None:
    assert inside("log", "bot", "--raw").out == '{"native":1}\x1b\n'
    assert inside("log", "bot", "--raw", "-n", "1").out == '{"native":1}\x1b\n'
    assert journal.asked == [("bot", 0), ("bot", 1), ("bot", 8)]


def test_temporary_sessions_are_named_or_included(inside: Inside, journal: Any) -> None:
    journal.lanes = [1, 2]
    said = "beam: 2 temporary sessions have their own journals; to include them: beam log bot --once\n"
    assert inside("log", "bot").err == said
    once = inside("log", "bot", "--once")
    assert once.err == "" and " bot:1qaz4 " in once.out and once.out.count("\n") == 3
    assert journal.asked[-1] == {"agents": ["bot"], "follow": False, "history": True}


@pytest.mark.slow
def test_a_message_has_its_own_events(inside: Inside, journal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Beam, "find_message", lambda _, name: ("bot", f"bot-{name}"))
    assert words(inside("log", "2")) == ["two", "three"]
    journal.lanes = [1]
    assert inside("log", "2").err == ""
    assert inside("log", "3").err == "beam: 3 has no events yet\n"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (NotFoundError("no message"), 4, "no agent x"),
        (UsageError("too short"), 4, "no agent x"),
        (UsageError("it is several", subject="x"), 2, "it is several"),
    ],
)
def test_what_is_neither_an_agent_nor_a_message_is_reported(
    inside: Inside, journal: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, said: str
) -> None:
    def find(_: Beam, name: str) -> Any:
        raise error

    monkeypatch.setattr(Beam, "find_message", find)
    missing = inside("log", "x")
    assert (missing.code, missing.err) == (code, f"beam: {said}\n")


PAGE = "--format {} is not possible here; --format md, html or json, without --json and --raw"


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--json", "--raw"), "--json and --raw don't go together; --json has the raw lines in `raw`"),
        (("--format", "pdf"), PAGE.format("pdf")),
        (("--format", "md", "--json"), PAGE.format("md")),
        (("--format", "md", "--raw"), PAGE.format("md")),
        (("--verify", "--json"), "--verify and --json don't go together; beam log bot --verify"),
        (("--verify", "--turn", "0"), "--verify and --turn don't go together; beam log bot --verify"),
        (("--verify", "--format", "md"), "--verify and --format don't go together; beam log bot --verify"),
        (
            ("--subagent", "all", "--format", "md"),
            "--subagent and --format don't go together; a page has what subagents say in it already",
        ),
    ],
)
def test_what_a_log_can_not_be_is_refused(inside: Inside, options: tuple[str, ...], said: str) -> None:
    refused = inside("log", "bot", *options)
    assert (refused.code, refused.err) == (2, f"beam: {said}\n")


@pytest.mark.slow
def test_a_conversation_as_json_is_json_without_control_characters_on_a_terminal(
    inside: Inside, journal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "a\u202eb\x7fc\u009b31m caf\xe9"
    journal.events = [text(said, 1)]
    monkeypatch.setattr("beam.cli.render.text.is_terminal", lambda _: True)
    shown = inside("log", "bot", "--format", "json")
    assert shown.json["turns"][0]["items"][0]["text"] == said
    assert not set("\u202e\x7f\u009b") & set(shown.out)
    monkeypatch.setattr("beam.cli.render.text.is_ascii", lambda _: True)
    shown = inside("log", "bot", "--format", "json")
    assert shown.json["turns"][0]["items"][0]["text"] == said and shown.out.isascii()


@pytest.mark.slow
def test_a_conversation_is_a_page_of_its_last_turns(inside: Inside, journal: Any) -> None:
    owner = events.Owner(pid=1, start_ticks=1)
    began: dict[str, Any] = {"agent": "bot", "owner": owner, "turn_key": "k", "adapter": "codex", "via": "exec"}
    one, two = (events.TurnStarted(**began, message_id=f"bot-{turn}", seq=9, turn=turn) for turn in (1, 2))
    journal.events = [one, FOUND[0], two, *FOUND[1:]]
    whole = inside("log", "bot", "--format", "json").json
    assert [turn["items"][0]["text"] for turn in whole["turns"]] == ["one", "two"]
    last = inside("log", "bot", "--format", "json", "-n", "1").json
    assert [turn["items"][0]["text"] for turn in last["turns"]] == ["two"]
    for more in ("2", "3", "4", "99999999999999999999999"):
        assert len(inside("log", "bot", "--format", "json", "-n", more).json["turns"]) == 2, more
    assert inside("log", "bot", "-n", more).out == inside("log", "bot").out
    assert inside("log", "bot", "--format", "md").out.startswith("# bot\n\n## Turn 1\n")
    assert inside("log", "bot", "--format", "html").out.startswith("<!doctype html>\n")
    journal.events = [
        events.ImageSeen(path="images/a.png", agent="bot", turn=1, seq=1, ts=clock.rfc3339(time.time_ns()))
    ]
    assert "/r/bot/images/a.png" in inside("log", "bot", "--format", "md").out
    journal.events = []
    assert inside("log", "bot", "--format", "md").err == "beam: bot has no turns of that time yet\n"


def test_damage_is_listed_and_is_the_exit_code(inside: Inside, told: Told) -> None:
    told.replace("verify", ["a.jsonl:3: torn", "a.jsonl:9: torn"], [])
    bad = inside("log", "bot", "--verify")
    assert (bad.code, bad.out) == (13, "a.jsonl:3: torn\na.jsonl:9: torn\n")
    said = "the journal of bot is damaged in 2 place(s); restore those files from a backup"
    assert bad.err == f"beam: {said}\n"
    fine = inside("log", "bot", "--verify")
    assert (fine.code, fine.out, fine.err) == (0, "", "beam: the journal of bot is undamaged\n")
    assert told.calls == [(("bot",), {})] * 2


def test_what_is_internal_is_printed_to_those_who_want_more(inside: Inside, journal: Any) -> None:
    journal.events = [events.AgentExited(code=0, agent="bot", seq=1, ts=FOUND[0].ts)]
    assert inside("log", "bot").out == ""
    assert inside("-v", "log", "bot").out == "03:04:01 bot      · process ended: code 0\n"
    assert inside("log", "bot", "-v", "-n", "1").out == "03:04:01 bot      · process ended: code 0\n"


def test_the_last_lines_are_those_of_the_whole_journal_wherever_what_they_depend_on_is(
    inside: Inside, journal: Any
) -> None:
    place: dict[str, Any] = {"agent": "bot", "ts": "2026-01-02T03:04:05.000000Z", "turn": 1, "message_id": "bot-1"}
    asked: dict[str, Any] = {**place, "sender": "other", "text": "question"}
    bodies: list[events.AnyEvent] = [
        events.MessageQueued(**asked, thread="t-1"),
        events.ToolCalled(**place, call_id="c1", name="Bash", input=msgspec.Raw(b'{"command":"ls"}')),
        *(events.Text(**place, text=f"line {number}") for number in range(30)),
        events.Notice(**place, text="its CLI says so", code="x", raw="{}"),
        events.ToolReturned(**place, call_id="c1", output="files"),
        *(events.Text(**place, text=f"more {number}") for number in range(9)),
        events.MessageQueued(**asked, thread="t-2"),
        events.ToolCalled(**place, call_id="c2", name="Bash", input=msgspec.Raw(b"{}")),
        events.TurnFinished(**place, status=Status.FAILED, exit_code=1),
        events.MessageDead(**place, reason="it failed"),
    ]
    journal.events = [structs.replace(each, seq=seq) for seq, each in enumerate(bodies, 1)]
    for words in ((), ("--raw",), ("--turn", "1")):
        whole = inside("log", "bot", *words).out.splitlines(keepends=True)
        for count in range(1, len(whole) + 2):
            assert inside("log", "bot", "-n", str(count), *words).out == "".join(whole[-count:]), (count, words)


def test_the_last_lines_are_read_from_the_end_of_the_journal_alone(inside: Inside, journal: Any) -> None:
    journal.events = [text(f"line {seq}", seq % 10, message_id=None) for seq in range(1, 1000)]
    for words in (("-n", "5"), ("-n", "5", "--json")):
        journal.asked.clear()
        assert len(inside("log", "bot", *words).out.splitlines()) == 5
        assert journal.asked == [("bot", 1), ("bot", 8)]
