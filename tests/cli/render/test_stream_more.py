"""More of the stream: colours, the state of teams, sessions of others, and calls printed whole."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beam.agents.session_files import Session
from beam.cli.render import stream as module
from beam.cli.render.days import Days
from beam.cli.render.stream import EventLine, Stream, short_id
from beam.model import events
from beam.model.outcome import Status
from beam.teams.board import MemberLine, TeamLine, TeamShown

AT = "2026-01-02T03:04:05.000000Z"


def text(words: str, agent: str = "a", **more: Any) -> events.Text:
    return events.Text(text=words, agent=agent, ts=AT, seq=1, **more)


@pytest.fixture
def colourful(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal of 40 columns that shows colours."""
    monkeypatch.setattr(module, "is_terminal", lambda _: True)
    monkeypatch.setattr(module, "is_colourful", lambda _: True)
    monkeypatch.setenv("COLUMNS", "40")
    return io.StringIO()


def test_each_agent_has_its_colour_and_what_is_wrong_is_red(colourful: io.StringIO) -> None:
    stream = Stream(colourful, as_json=False, days=Days(AT))
    for agent in ("a", "b", "a"):
        stream.event(text("hi", agent))
    stream.event(events.Notice(text="x", agent="a", ts=AT))
    stream.event(events.TurnFinished(status=Status.FAILED, exit_code=1, agent="a", ts=AT))
    stream.event(events.PermissionAsked(ask_id="1", tool="T", agent="b", ts=AT))
    stream.event(events.MessageDead(reason="r", message_id="m", agent="b", ts=AT))
    when = "\x1b[2m03:04:05 \x1b[0m"
    a, b = f"{when}\x1b[36ma       \x1b[0m ", f"{when}\x1b[33mb       \x1b[0m "
    assert colourful.getvalue().splitlines() == [
        f"{a}\x1b[36m│\x1b[0m hi",
        f"{b}\x1b[33m│\x1b[0m hi",
        f"{a}\x1b[36m│\x1b[0m hi",
        f"{a}\x1b[31m!\x1b[0m x",
        f"{a}\x1b[31m✗\x1b[0m failed",
        f"{b}\x1b[33m?\x1b[0m asks for T:  [1]".replace(":  [", ": ["),
        f"{b}\x1b[31m†\x1b[0m dead letter m: r",
    ]


def test_a_line_ends_at_the_edge_of_the_terminal_with_a_dim_id(colourful: io.StringIO) -> None:
    long = text("x" * 50)
    Stream(colourful, as_json=False, days=Days(AT)).event(long)
    assert colourful.getvalue().endswith(f"│\x1b[0m {'x' * 13}…\x1b[2m {short_id(long)}\x1b[0m\n")


def test_a_narrow_terminal_leaves_some_room_for_the_text(
    colourful: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    Stream(colourful, as_json=False, days=Days(AT), plain=True).event(text("x" * 50))
    assert colourful.getvalue().startswith(f"03:04:05 a        | {'x' * 11}... ")


def test_a_member_has_the_colour_that_its_team_gave_it(colourful: io.StringIO) -> None:
    stream = Stream(colourful, as_json=False, days=Days(AT))
    joined = events.MemberJoined(team="t", member="bob", colour="red", agent="bob@t", ts=AT)
    stream.event(joined)
    assert "\x1b[31mbob@t " in colourful.getvalue()
    stream.event(events.MemberJoined(team="t", member="eve", colour="mauve", agent="eve@t", ts=AT))
    assert "\x1b[33meve@t " in colourful.getvalue()


def team(*members: MemberLine) -> TeamShown:
    line = TeamLine(team="t", home="/h", state="live", cwd="/p", members=2, working=1)
    return TeamShown(team=line, members=members, waits=(), usage=())


def member(name: str, colour: str | None) -> MemberLine:
    return MemberLine(
        member=name,
        state="working",
        since=None,
        kind="",
        model=None,
        colour=colour,
        backend="",
        pane="",
        doing="x",
        last_words="",
        tasks=(),
        unread=0,
        tokens=None,
        cost_usd=None,
    )


def test_the_state_of_a_team_is_a_line_a_member_in_one_column(
    colourful: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    plain = io.StringIO()
    Stream(plain, as_json=False, days=Days(AT), plain=True).print_team_state(
        team(member("bob-the-builder", "blue")), AT
    )
    assert plain.getvalue().splitlines() == [
        "03:04:05 @t                * 2 members, 1 at work; tasks: none; in /p",
        "03:04:05 bob-the-builder@t > works: x",
    ]
    Stream(colourful, as_json=False, days=Days(AT)).print_team_state(
        team(member("bob", "blue"), member("eve", "mauve")), AT
    )
    assert "\x1b[34mbob@t" in colourful.getvalue() and "\x1b[34meve@t" not in colourful.getvalue()


def test_a_session_that_beam_did_not_start_is_named_by_its_folder_and_its_id() -> None:
    session = Session(id="0123-cdef", cwd="/p/shop")
    line = EventLine(text("hi", "codex~0123-cdef"), session=session)
    assert line.shown_event.agent == "shop/codex~cdef"
    nowhere = EventLine(text("hi", "codex~0123-cdef"), session=Session(id="0123-cdef", cwd=""))
    assert nowhere.shown_event.agent == "codex~cdef"
    found = json.loads(line.to_json())
    assert (found["cli"], found["session_id"], found["folder"]) == ("codex", "0123-cdef", "/p/shop")
    assert not {"root", "project", "lane"} & set(found)


def test_what_a_line_belongs_to_is_in_its_json() -> None:
    line = EventLine(text("hi"), root=Path("/s"), project=Path("/p"), lane="1qaz4")
    found = json.loads(line.to_json())
    assert (found["root"], found["project"], found["lane"], found["agent"]) == ("/s", "/p", "1qaz4", "a")
    assert (line.qualified_event.agent, line.shown_event.agent) == ("/s/a:1qaz4", "p/a:1qaz4")
    bare = EventLine(text("hi"))
    assert bare.qualified_event is bare.event and bare.to_json() == events.encode(bare.event)


def test_an_imported_event_has_the_time_when_it_happened_and_an_image_its_whole_path() -> None:
    old = text("hi", imported="2025-01-01T00:00:00Z")
    assert EventLine(old).shown_event.ts == "2025-01-01T00:00:00Z"
    assert EventLine(text("hi", imported="")).shown_event.ts == AT
    image = events.ImageSeen(path="images/a.png", agent="a", ts=AT)
    out = io.StringIO()
    Stream(out, as_json=False, days=Days(AT)).batch([EventLine(image, agent_dir=Path("/r/agents/a"))])
    assert out.getvalue() == "03:04:05 a        · image /r/agents/a/images/a.png\n"


def test_the_path_of_an_image_is_never_cut() -> None:
    out = io.StringIO()
    Stream(out, as_json=False, days=Days(AT)).event(events.ImageSeen(path="x" * 300, agent="a", ts=AT))
    assert out.getvalue().endswith(f"{'x' * 300}\n")


def test_a_call_without_a_result_is_printed_whole_and_bookkeeping_is_found_without_a_line() -> None:
    call = events.ToolCalled(call_id="1", name="Bash", input=msgspec.Raw(b'{"a":1}'), agent="a", ts=AT, seq=1)
    silent = events.PromptSent(agent="a", ts=AT, seq=2)
    alone = events.ToolReturned(call_id="9", output="ok", agent="a", ts=AT, seq=3)
    for event, shown in ((call, '03:04:05 a ⚙ Bash {"a":1}\n'), (silent, ""), (alone, "03:04:05 a ✓ tool\n")):
        out = io.StringIO()
        assert Stream(out, as_json=False, days=Days(AT)).print_event_in_full([EventLine(event)], short_id(event)) == 0
        assert out.getvalue() == shown
    out = io.StringIO()
    Stream(out, as_json=True).print_event_in_full([EventLine(call)], short_id(call))
    assert json.loads(out.getvalue())["call_id"] == "1"
    out = io.StringIO()
    Stream(out, as_json=False, days=Days(AT), plain=True).print_event_in_full(
        [EventLine(text("é"))], short_id(text("é"))
    )
    assert out.getvalue() == "03:04:05 a │ \\xe9\n".replace("│", "|")


def test_the_time_of_a_call_stands_behind_it_when_it_is_printed_whole() -> None:
    call = events.ToolCalled(call_id="1", name="Bash", input=msgspec.Raw(b"1"), agent="a", ts=AT, seq=1)
    back = events.ToolReturned(call_id="1", output="ok", agent="a", ts="2026-01-02T03:04:07.000000Z", seq=2)
    out = io.StringIO()
    Stream(out, as_json=False, days=Days(AT)).print_event_in_full([EventLine(call), EventLine(back)], short_id(back))
    assert out.getvalue() == "03:04:07 a ✓ Bash 1 2s\nok\n"


def test_a_turn_that_ran_already_has_the_calls_that_returned_no_more() -> None:
    owner = events.Owner(pid=1, start_ticks=1)
    begun = events.TurnStarted(owner=owner, turn_key="k", adapter="codex", via="exec", agent="a", turn=3, ts=AT)
    call = events.ToolCalled(call_id="1", name="Bash", agent="a", ts=AT)
    back = events.ToolReturned(call_id="1", agent="a", ts=AT)
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(AT))
    stream.print_running_turn([EventLine(begun), EventLine(call), EventLine(back)], "2026-01-02T03:04:35.000000Z")
    stream.print_running_turn([], "2026-01-02T03:04:35.000000Z")
    stream.print_running_turn([EventLine(text("x"))], "2026-01-02T03:04:35.000000Z")
    assert out.getvalue() == "03:04:35 a        ▶ turn 3 runs for 30s\n" * 2


def test_what_was_held_back_is_printed_at_the_end_before_a_flush() -> None:
    class Out(io.StringIO):
        flushed = ""

        def flush(self) -> None:
            self.flushed = self.getvalue()

    out = Out()
    stream = Stream(out, as_json=False, days=Days(AT))
    stream.event(events.ToolCalled(call_id="1", name="Bash", agent="a", ts=AT))
    stream.event(events.Notice(text="careful", raw="{}", agent="a", turn=1, ts=AT))
    assert out.getvalue() == ""
    stream.end()
    assert out.flushed == "03:04:05 a        ⚙ Bash\n03:04:05 a        ! careful\n"


def test_the_id_of_an_event_is_the_same_from_every_source() -> None:
    sent = events.MailSent(team="t", mail_id="m1", sender="a", to="b", text="hi", agent="a@t", ts=AT)
    assert short_id(sent) == short_id(msgspec.structs.replace(sent, mail_id="m2", ts=""))
    assert short_id(sent) != short_id(msgspec.structs.replace(sent, text="ho"))
    idle = events.MemberIdle(team="t", member="b", key="idle/b/123", agent="b@t", ts=AT)
    assert short_id(idle) == short_id(msgspec.structs.replace(idle, key="idle/b/456", ts=""))
    assert short_id(idle) != short_id(msgspec.structs.replace(idle, key="idle/c/123"))
    assert short_id(text("x")) == short_id(text("y")) != short_id(msgspec.structs.replace(text("x"), seq=2))
    assert len(short_id(sent)) == 5 and short_id(sent) == short_id(sent).lower()
