"""`beam wait`, `watch`, `status`, `report`, `notify`, `diff` and `broker` in this process."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct

import beam
from beam.api import Beam
from beam.api.broker import BrokerStatus
from beam.api.notify import TargetLine, TargetTried
from beam.api.report import ReportLine
from beam.api.usage import UsageLine
from beam.base import clock
from beam.base.errors import NotFoundError
from beam.cli import errors, see
from beam.cli import report as render_report
from beam.cli.render import status as render_status
from beam.model import events
from beam.model.outcome import Status, Usage
from beam.root.git_place import GitPlace
from tests.support.chatting import outcome
from tests.support.inside import Inside, Told
from tests.support.statuses import agent_status as agent

# -- wait --------------------------------------------------------------------------------------------------------------

TOGETHER = "don't go together"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--json", "--events", "a-1"),
            f"--json and --events {TOGETHER}; use --events alone: its last line is the outcome",
        ),
        (("--any", "--all", "a-1"), f"--any and --all {TOGETHER}; --any waits for one, --all for each"),
        (("a-1", "--until", "idle"), f"ids of messages and --until {TOGETHER}; beam wait --agent A --until idle"),
        (("a-1", "--agent", "a"), f"ids of messages and --until {TOGETHER}; beam wait --agent A --until idle"),
        (("--agent", "a", "--events"), f"--events and --until {TOGETHER}; beam wait --agent A --until idle"),
        ((), "there is no message to wait for; beam wait ID, or beam wait --agent A --until idle"),
        (("--agent", "a"), "--agent needs --until; --until idle, asking or finished"),
        (("--until", "asking"), "--until needs --agent; beam wait --agent A --until asking"),
        (("--agent", "a", "--until", "done"), "--until done: unknown state; use one of idle, asking, finished"),
    ],
)
def test_what_can_not_be_waited_for_is_refused(inside: Inside, words: tuple[str, ...], said: str) -> None:
    refused = inside("wait", *words)
    assert (refused.code, refused.err) == (2, f"beam: {said}\n")


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals by which the process would have ended."""
    found: list[int] = []
    monkeypatch.setattr(errors, "die_by_signal", lambda number: found.append(number) or 128 + number)
    monkeypatch.setattr(Beam, "progress", lambda *_: None)
    return found


def test_one_message_is_waited_for_and_its_answer_printed(inside: Inside, told: Told, stopped: list[int]) -> None:
    told.replace("wait", outcome(reply="yes"), outcome(reply="yes"), KeyboardInterrupt())
    done = inside("wait", "bot-1")
    assert (done.code, done.out, done.err) == (0, "yes\n", "")
    assert inside("wait", "bot-1", "--json", "--timeout", "2m", "--all").json["reply"] == "yes"
    assert [(words, named["timeout"]) for words, named in told.calls] == [(("bot-1",), None), (("bot-1",), 120.0)]
    ended = inside("wait", "bot-1")
    assert (ended.code, ended.err) == (130, "beam: stopped waiting; bot-1 continues; beam wait bot-1\n")


def test_of_several_messages_the_first_named_failure_is_the_exit_code(
    inside: Inside, told: Told, stopped: list[int]
) -> None:
    def wait(messages: list[str], *, only_first: bool, timeout: float | None, seen: Any, ended: Any) -> None:
        told.given = (messages, only_first, timeout)  # type: ignore[attr-defined]
        for number, code in ((3, 0), (2, 7), (1, 3)):
            seen(events.Text(text="x", message_id=f"bot-{number}"))
            status = Status.COMPLETED if not code else Status.FAILED
            ended(outcome(message_id=f"bot-{number}", reply=f"r{number}", status=status, exit_code=code))

    told.replace("wait_several", wait, wait, wait, KeyboardInterrupt())
    done = inside("wait", "bot-3", "bot-1", "t-2")
    assert (done.code, done.out) == (3, "==> bot-3 <==\nr3\n==> bot-2 <==\n==> bot-1 <==\n")
    assert told.given == (["bot-3", "bot-1", "t-2"], False, None)  # type: ignore[attr-defined]
    first = inside("wait", "bot-3", "t-2", "--any", "--timeout", "5s")
    assert (first.code, first.out) == (7, "r3\n")
    assert told.given == (["bot-3", "t-2"], True, 5.0)  # type: ignore[attr-defined]
    as_events = inside("wait", "bot-3", "t-2", "--events")
    assert [json.loads(line)["message_id"] for line in as_events.out.splitlines()] == ["bot-3", "bot-2", "bot-1"]
    ended = inside("wait", "bot-3", "t-2")
    assert (ended.code, ended.err, stopped) == (
        130,
        "beam: stopped waiting; the messages continue; beam wait ID\n",
        [2],
    )


def test_agents_are_waited_for_until_they_are_in_a_state(inside: Inside, told: Told, stopped: list[int]) -> None:
    bad = outcome(message_id="b-1", agent="b", status=Status.FAILED, reason="no", exit_code=4)
    both = {"a": outcome(message_id="a-1", agent="a", reply="yes"), "b": bad, "c": None}
    told.replace("wait_until", both, both, {"a": both["a"]}, {"a": None}, KeyboardInterrupt())
    done = inside("wait", "--agent", "a", "--agent", "b", "--until", "finished", "--any", "--timeout", "1m")
    assert (done.code, done.out) == (4, "==> a-1 <==\nyes\n==> b-1 <==\n")
    assert told.calls == [((["a", "b"], "finished"), {"only_first": True, "timeout": 60.0})]
    as_json = inside("wait", "--agent", "a", "--until", "finished", "--json")
    assert [line.get("agent") for line in as_json.lines] == ["a", "b", "c"]
    assert as_json.lines[2] == {"agent": "c", "state": "finished"}
    one = inside("wait", "--agent", "a", "--until", "finished")
    assert (one.code, one.out) == (0, "yes\n")
    none = inside("wait", "--agent", "a", "--until", "idle")
    assert (none.code, none.out, none.err) == (0, "", "")
    ended = inside("wait", "--agent", "a", "--until", "asking")
    assert (ended.code, ended.err) == (130, "beam: stopped waiting; the agents continue; beam status\n")


# -- status ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *(
            (("--all", *words), "--all goes with no agents, --metrics or --usage; beam status --all")
            for words in (("bot",), ("--metrics",), ("--usage",))
        ),
        *(
            (
                ("--metrics", word),
                "--metrics goes with neither --json nor --usage; use it alone: it has all figures",
            )
            for word in ("--json", "--usage")
        ),
        (("--by", "tool"), "--by is for --usage, and there is `tool`; beam status --usage --by tool"),
        (("--usage", "--by", "day"), "--by is for --usage, and there is `tool`; beam status --usage --by tool"),
    ],
)
def test_what_status_can_not_show_is_refused(inside: Inside, words: tuple[str, ...], said: str) -> None:
    refused = inside("status", *words)
    assert (refused.code, refused.err) == (2, f"beam: {said}\n")


def test_below_the_agents_stands_whose_they_are_where_that_is_news(inside: Inside, told: Told, tmp_path: Path) -> None:
    git = GitPlace(branch="main", commit=None, work_tree=str(inside.project), repository=f"{inside.project}/.git")
    in_git = [agent("a", folder=str(inside.project), git=git)]
    told.replace("status", [agent("a")], [agent("a")], in_git, [agent("a")], [], [], [], [agent("a@s")])
    assert inside("status").err == ""
    assert inside("-v", "status").err == f"beam: the agents of {inside.project}\n"
    assert inside("status").err == f"beam: the agents of {inside.project} on branch main\n"
    (inside.project / "sub").mkdir()
    assert inside("-C", "sub", "status").err == f"beam: the agents of {inside.project}\n"
    none = inside("status")
    said = f'beam: no agent was used in {inside.project} yet; beam send claude "hello"\n'
    assert (none.code, none.out, none.err) == (0, "", said)
    of_run = inside("status")
    said = f"beam: only scenarios used agents in {inside.project}; beam status --all shows them\n"
    assert (of_run.code, of_run.out, of_run.err) == (0, "", said)
    assert told.calls == [*[(([],), {})] * 5, ((), {"all": True}), (([],), {}), ((), {"all": True})]


def test_an_estimate_is_said_to_be_one(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def line(**more: Any) -> UsageLine:
        return UsageLine(
            agent=None, model=None, turns=2, usage=Usage(), cost_usd=None, prices_as_of="2026-11-01", **more
        )

    told.replace("usage", [line()], [line(estimated_usd=0.5)], [line(estimated_usd=0.5)], [line()])
    assert inside("status", "--usage", "a").err == ""
    said = "beam: ~ is estimated from list prices of 2026-11-01; that agent's CLI reports no cost\n"
    assert inside("status", "--usage").err == said
    assert inside("status", "--usage", "--json").err == ""
    drawn: list[Any] = []
    monkeypatch.setattr(see, "is_terminal", lambda _: True)
    monkeypatch.setattr(Beam, "activity", lambda _, names: {"days": names})
    monkeypatch.setattr(render_status, "print_usage", lambda used, *, activity: drawn.append(activity))
    inside("status", "--usage", "a")
    assert drawn == [{"days": ["a"]}]
    assert [words for words, _ in told.calls] == [(["a"],), ([],), ([],), (["a"],)]


class Living(Struct):
    """A session that beam did not start."""

    cli: str


def test_the_agents_of_all_roots_are_shown_with_the_sessions_of_others(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.cli.render import foreign

    roots = [(Path("/p"), [agent("a")]), (Path("/q"), [agent("b"), agent("c")])]
    told.replace("status_all", roots, roots, [], [], roots)
    told.replace("foreign", [Living("codex")], [Living("codex")], [], [Living("codex")], [])
    drawn: list[Any] = []
    monkeypatch.setattr(foreign, "print_table", drawn.append)
    shown = inside("status", "--all")
    assert [line.split("\t")[0] for line in shown.out.splitlines()] == ["AGENT", "a", "AGENT", "b", "c"]
    assert shown.err == "beam: the agents of /p\nbeam: the agents of /q\n" and drawn == [[Living("codex")]]
    as_json = inside("status", "--all", "--json")
    assert [line.get("agent") or line["cli"] for line in as_json.lines] == ["a", "b", "c", "codex"]
    none = inside("status", "--all")
    assert none.err == "beam: no agent was used yet, and no session of an agent's CLI runs\n"
    assert (inside("status", "--all").err, len(drawn)) == ("", 2)
    assert "no agent" not in inside("status", "--all").err
    assert [words for words, _ in told.calls[1::2]][:3] == [([agent("a"), agent("b"), agent("c")],)] * 2 + [([],)]


# -- watch -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--all", "bot"), f"--all and names of agents {TOGETHER}; --agent NAME picks one of all"),
        *(
            (("--until-idle", *words), f"--until-idle and {words[0]} {TOGETHER}; leave one out")
            for words in (("--all",), ("--now",), ("--event", "abcde"))
        ),
    ],
)
def test_what_can_not_be_watched_is_refused(inside: Inside, words: tuple[str, ...], said: str) -> None:
    refused = inside("watch", *words)
    assert (refused.code, refused.err) == (2, f"beam: {said}\n")


def test_a_pattern_that_no_event_fits_is_reported(inside: Inside) -> None:
    (line,) = see._unmatched_patterns(["text", "tsk.*", "task.*"])
    assert line.startswith("no event type matches 'tsk.*'; there are agent.*, ") and line.endswith(" (docs/events.md)")
    assert " text, text.*, " in line


def test_who_is_stuck_is_printed(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.cli.render import team as render
    from beam.teams.stuck import Wait

    wait = Wait(team="t", who="bob", on="eve", what="an answer", since="2026-01-02T03:04:05Z", seconds=9.0)
    found: list[list[Wait]] = [[wait], [wait], []]
    asked: list[Any] = []

    class Here:
        def __init__(self, environ: dict[str, str], *, claude_homes: Any) -> None:
            asked.append(list(claude_homes))

        def stuck(self, seconds: float, *, names: Any) -> list[Wait]:
            asked.append((seconds, list(names)))
            return found.pop(0)

    drawn: list[Any] = []
    monkeypatch.setattr(beam, "TeamsHere", Here, raising=False)
    monkeypatch.setattr(render, "print_waits", drawn.append)
    assert (inside("watch", "--stuck", "5m").code, drawn) == (0, [[wait]])
    as_json = inside("watch", "--stuck", "5m", "--team", "t", "--claude-home", "/h", "--json")
    assert (as_json.json["who"], len(drawn)) == ("bob", 1)
    none = inside("watch", "--stuck", "5m")
    assert none.err == "beam: no member of your teams has waited for longer than 5m\n" and len(drawn) == 1
    assert asked == [[], (300.0, []), ["/h"], (300.0, ["t"]), [], (300.0, [])]


@pytest.mark.parametrize(
    ("words", "other"),
    [
        (("box",), "names of agents"),
        (("--agent", "bob"), "--agent"),
        (("--type", "mail.*"), "--type"),
        (("--since", "1h"), "--since"),
        (("--all",), "--all"),
        (("--until-idle",), "--until-idle"),
        (("--event", "1234"), "--event"),
        (("--after", "mine"), "--after"),
    ],
)
def test_what_would_have_no_effect_beside_stuck_is_refused(inside: Inside, words: tuple[str, ...], other: str) -> None:
    refused = inside("watch", "--stuck", "5m", *words)
    said = f"--stuck and {other} don't go together; --team picks the teams that --stuck looks at"
    assert (refused.code, refused.out, refused.err) == (2, "", f"beam: {said}\n")


def test_the_exit_code_is_that_of_the_first_message_without_success() -> None:
    codes = see.ExitCodes()
    assert codes.first == 0
    ended = [
        events.TurnFinished(status=Status.COMPLETED, message_id="m1", agent="a", turn=1),
        events.TurnFinished(status=Status.FAILED, exit_code=3, message_id="m2", agent="a", turn=2),
        events.Text(text="x", message_id="m2"),
        events.TurnFinished(status=Status.FAILED, exit_code=5, message_id="m3", agent="a", turn=3),
        events.TurnFinished(status=Status.FAILED, exit_code=6, agent="a", turn=4),
    ]
    codes.record_outcomes(ended)
    assert codes.first == 3
    codes.record_outcomes([events.TurnFinished(status=Status.COMPLETED, message_id="m2", agent="a", turn=5)])
    assert codes.first == 5


@pytest.fixture
def watched(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `watch` finds: batches of events, running turns; and what it was asked."""
    found = SimpleNamespace(batches=[], asked=[], teams=[], begun={}, closed=[])

    def watch_root(context: Any, **named: Any) -> Iterator[Any]:
        found.asked.append(named)
        for batch in found.batches:
            yield [SimpleNamespace(event=event, lane=None, agent_dir=None) for event in batch]

    live = SimpleNamespace(close=lambda: found.closed.append("live"))

    def teams(environ: Any, **named: Any) -> Any:
        found.teams.append(named)
        return live

    monkeypatch.setattr("beam.cli.render.stream.since", lambda _: text("").ts)  # the day of the events
    monkeypatch.setattr(beam, "watch_root", watch_root, raising=False)
    monkeypatch.setattr(beam, "begun", lambda place: found.begun.get(place.agent, []), raising=False)
    monkeypatch.setattr(beam.team_views, "teams", teams)
    monkeypatch.setattr(beam.team_views, "standing", lambda live, **named: found.asked.append(named) or [])
    found.live = live
    return found


def text(words: str, seq: int = 1, agent: str = "box", ts: str = "2026-01-02T03:04:05.000000Z") -> events.AnyEvent:
    return events.Text(text=words, seq=seq, agent=agent, ts=ts, turn=1)


@pytest.mark.slow
def test_what_happens_is_printed_as_it_comes(inside: Inside, watched: Any) -> None:
    watched.batches = [[text("one"), text("two", agent="asker")], [text("three")]]
    shown = inside("watch")
    assert [line.split(None, 2)[2] for line in shown.out.splitlines()] == ["│ one", "│ two", "│ three"]
    root = inside("root").out.strip()
    assert shown.err == f"beam: watching the agents of {inside.project} and your Claude teams; ^C ends it\n"
    standing, asked = watched.asked
    assert standing["longer_than_s"] == 60.0 and abs(standing["now_ns"] - time.time_ns()) < 60e9
    assert asked == {"agents": [], "follow": True, "history": False, "teams": watched.live}
    assert watched.closed == ["live"]
    journals = Path(root) / "agents"
    assert watched.teams == [{"claude_homes": (), "since": "", "with_gone": False, "also": [journals]}]
    some = inside("watch", "box", "--now")
    assert [line.split(None, 2)[2] for line in some.out.splitlines()] == ["│ one", "│ two", "│ three"]
    assert (some.err, watched.asked[2]) == ("", {"agents": ["box"], "follow": False, "history": True, "teams": None})
    assert len(watched.teams) == 1
    only = inside("watch", "--agent", "asker", "--now", "--claude-home", "/h")
    assert only.out.endswith("│ two\n") and only.out.count("\n") == 1
    assert watched.teams[1]["since"] == "1970-01-01T00:00:00Z" and watched.teams[1]["claude_homes"] == ["/h"]
    as_json = inside("watch", "--json", "--type", "text")
    assert ([line["text"] for line in as_json.lines], as_json.err) == (["one", "two", "three"], "")
    assert inside("watch", "--type", "task.*", "--now").out == ""


def test_a_call_that_did_not_return_is_printed_at_the_end(inside: Inside, watched: Any) -> None:
    call = events.ToolCalled(call_id="1", name="Bash", agent="box", seq=1, ts="2026-01-02T03:04:05.000000Z")
    watched.batches = [[call]]
    assert inside("watch", "--now").out == "03:04:05 box      ⚙ Bash\n"


@pytest.mark.slow
def test_a_time_leaves_out_what_was_before_it_and_an_id_prints_one_event(inside: Inside, watched: Any) -> None:
    old, new = text("old"), text("new", ts=clock.rfc3339(time.time_ns()))
    watched.batches = [[old, new]]
    shown = inside("watch", "--since", "10m")
    assert shown.out.count("│") == 1 and shown.out.endswith("│ new\n")
    assert len(watched.asked) == 1 and watched.asked[0]["history"] is True, "no state of teams"
    assert watched.teams[0]["with_gone"] is True and watched.teams[0]["since"] > "2026"
    from beam.cli.render.stream import short_id

    whole = inside("watch", "--event", short_id(old))
    assert (whole.code, whole.out) == (0, "03:04:05 box │ old\n")
    assert inside("watch", "--event", "zzzzz").code == 4


@pytest.mark.slow
def test_a_turn_that_runs_already_is_printed_first_where_it_fits(inside: Inside, watched: Any) -> None:
    inside.sent()
    began = clock.rfc3339(time.time_ns())
    owner = events.Owner(pid=1, start_ticks=1)
    turn = events.TurnStarted(owner=owner, turn_key="k", adapter="codex", via="exec", turn=3, agent="box", ts=began)
    watched.begun = {"box": [turn]}
    assert "▶ turn 3 runs for " in inside("watch").out
    assert "▶ turn 3 runs for " in inside("watch", "box").out
    for words in (("--team", "t"), ("--now",), ("--json",), ("--since", "1m"), ("--type", "text"), ("asker",)):
        assert inside("watch", *words).out == "", words


@pytest.mark.slow
def test_the_watching_ends_once_nothing_runs_with_the_code_of_what_failed(
    inside: Inside, watched: Any, told: Told
) -> None:
    failed = events.TurnFinished(status=Status.FAILED, exit_code=3, message_id="m", agent="box", turn=1, ts="")
    watched.batches = [[failed], [], [text("never")], [text("never")]]
    told.replace("are_idle", True, True)
    ended = inside("watch", "--until-idle", "box")
    assert (ended.code, "never" in ended.out) == (3, False)
    assert told.calls == [((["box"],), {})] * 2
    told.replace("are_idle", True, False, True, True)
    assert inside("watch", "--until-idle").out.count("never") == 2


@pytest.mark.slow
def test_a_cursor_goes_on_where_it_stopped(inside: Inside, watched: Any) -> None:
    now = clock.rfc3339(time.time_ns())
    watched.batches = [[text("one", 1, ts=now)], [text("two", 2, ts=now)]]
    first = inside("watch", "--now", "--after", "mine")
    assert first.out.count("│") == 2
    watched.batches = [[text("two", 2, ts=now), text("three", 3, ts=now)]]
    again = inside("watch", "--now", "--after", "mine")
    assert again.out.endswith("│ three\n") and again.out.count("│") == 1
    assert inside("watch", "--now", "--after", "other").out.count("│") == 2


def test_all_roots_are_watched_with_the_sessions_of_others(
    inside: Inside, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    class Foreign:
        def __init__(self, environ: Any, live: Any, *, since: str) -> None:
            made.append((live, since))

        def close(self) -> None:
            watched.closed.append("foreign")

    def stream_all(_: Beam, teams: Any, **named: Any) -> Iterator[Any]:
        made.append((teams, {name: value for name, value in named.items() if name != "foreign"}))
        home = SimpleNamespace(root=Path("/s/shop"), project=Path("/home/shop"))
        session = SimpleNamespace(id="0123-cdef", cwd="/p/farm")
        one = SimpleNamespace(event=text("mine"), home=home, lane=None, agent_dir=None)
        yield [one, SimpleNamespace(event=text("theirs", agent="codex~0123-cdef"), home=None, session=session)]

    monkeypatch.setattr(beam, "ForeignSessions", Foreign, raising=False)
    monkeypatch.setattr(Beam, "stream_all", stream_all)
    shown = inside("watch", "--all")
    assert [line.split(None, 1)[1] for line in shown.out.splitlines()] == [
        "shop/box        │ mine",
        "farm/codex~cdef │ theirs",
    ]
    assert shown.err == "beam: watching the agents of all folders and your Claude teams; ^C ends it\n"
    assert made == [(watched.live, ""), (watched.live, {"follow": True, "history": False})]
    assert watched.closed == ["foreign", "live"]


# -- report, notify, broker --------------------------------------------------------------------------------------------


def test_a_report_is_a_table_or_json_and_of_nothing_a_note(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [ReportLine(agent="a", model=None), ReportLine(agent=None, model=None)]
    drawn: list[Any] = []
    monkeypatch.setattr(render_report, "print_table", drawn.append)
    told.replace("report", lines, lines, lines[1:], lines[1:])
    assert (inside("report").out, drawn) == ("", [lines])
    assert [line["agent"] for line in inside("report", "a", "b", "--json").lines] == ["a", None]
    assert inside("report").err == "beam: no turn ended yet\n"
    assert inside("report", "--since", "2h").err == "beam: no turn ended in the last 2h\n"
    assert [words for words, _ in told.calls] == [([],), (["a", "b"],), ([],), ([],)]
    assert [bool(named["since"]) for _, named in told.calls] == [False, False, False, True]


TARGETS = [
    TargetLine(
        target="notify\nsend",
        origin="config.yaml",
        on=("done", "failed"),
        agents=("a", "b"),
        trusted=True,
        waiting=1,
        delivered=2,
        given_up=3,
        error="no\nroute",
    ),
    TargetLine(
        target="hook",
        origin="beam.yaml",
        on=("done",),
        agents=(),
        trusted=False,
        waiting=0,
        delivered=0,
        given_up=0,
    ),
]


def test_targets_of_notifications_are_listed(inside: Inside, told: Told) -> None:
    told.replace("notify_targets", TARGETS, TARGETS, [])
    assert [line.split("\t") for line in inside("notify", "list").out.splitlines()] == [
        ["TARGET", "ON", "AGENTS", "FROM", "WAIT", "SENT", "GIVEN UP"],
        ["notify send", "done,failed", "a,b", "config.yaml", "1", "2", "3 (no route)"],
        ["hook", "done", "all", "beam.yaml (not trusted)", "0", "0", "0"],
    ]
    assert [line["delivered"] for line in inside("notify", "list", "--json").lines] == [2, 0]
    none = inside("notify", "list")
    said = "beam: notify: is in no configuration; docs/notify.md shows how to write it\n"
    assert (none.code, none.out, none.err) == (0, "", said)


@pytest.mark.slow
def test_a_notification_is_tried_at_every_target(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    fine, bad = TargetTried(target="a", error=""), TargetTried(target="b\nc", error="no\nroute")
    told.replace("test_notify", [fine, bad], [fine], [fine, bad])
    monkeypatch.setitem(sys.modules, "ssl", None)  # type: ignore[arg-type]
    tried = inside("notify", "test")
    assert (tried.code, tried.out) == (1, "a: delivered\nb c: no route\n")
    assert "ssl" not in sys.modules
    tried = inside("notify", "test")
    assert (tried.code, tried.out) == (0, "a: delivered\n")
    as_json = inside("notify", "test", "--json")
    assert (as_json.code, [line["error"] for line in as_json.lines]) == (1, ["", "no\nroute"])


BROKER = BrokerStatus(
    pid=7,
    host="h",
    version="1.0",
    skew=False,
    started_at="2026-01-02T03:04:05Z",
    poll=1.5,
    cap=4,
    idle=None,
    kept=2,
    rss_mb=None,
    log="/l",
)


def test_a_broker_is_described(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: clock.parse_rfc3339("2026-01-02T03:04:05Z") / 1e9 + 7200)
    import msgspec

    other = msgspec.structs.replace(BROKER, skew=True, idle=60.0, rss_mb=12.5)
    told.replace("broker", BROKER, other, BROKER)
    shown = inside("broker", "status")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "pid      7 on h",
        "since    2026-01-02T03:04:05Z (2h)",
        "version  1.0",
        "turns    up to 4 at a time",
        "poll     1.5 s",
        "keeps    up to 2 processes",
        "ends     when it is stopped",
        "memory   ?",
        "log      /l",
    ]
    lines = inside("broker", "status").out.splitlines()
    assert (lines[2], lines[6], lines[7]) == (
        "version  1.0 - not this one; stop and start it",
        "ends     after 1m00s without work",
        "memory   12.5 MB",
    )
    assert inside("broker", "status", "--json").json["pid"] == 7


@pytest.mark.slow
def test_a_broker_is_run_started_and_stopped_as_the_options_say(inside: Inside, told: Told) -> None:
    told.replace("serve", None, None)
    assert inside("broker").code == 0
    words = ("--poll", "2s", "--poll-only", "--cap", "3", "--idle", "1m")
    assert inside("broker", *words, "--grace", "5s").code == 0
    first, second = (named for _, named in told.taken())
    assert {name: value for name, value in first.items() if name != "write"} == {
        "cap": None,
        "poll": 1.0,
        "poll_only": False,
        "idle": None,
        "grace": 30.0,
    }
    assert {name: value for name, value in second.items() if name != "write"} == {
        "cap": 3,
        "poll": 2.0,
        "poll_only": True,
        "idle": 60.0,
        "grace": 5.0,
    }
    told.replace("start_broker", 7, 8)
    assert inside("broker", "start").out == "7\n"
    assert inside("broker", "start", *words).out == "8\n"
    assert [named for _, named in told.taken()] == [
        {"cap": None, "poll": 1.0, "poll_only": False, "idle": None},
        {"cap": 3, "poll": 2.0, "poll_only": True, "idle": 60.0},
    ]
    told.replace("stop_broker", 7, 7)
    assert inside("broker", "stop").err == "beam: stopped the broker (pid 7)\n"
    inside("broker", "stop", "--grace", "0")
    assert [named for _, named in told.taken()] == [{"grace": 30.0}, {"grace": 0.0}]
    for verb in ((), ("start",)):
        refused = inside("broker", *verb, "--idle", "0")
        said = "beam: --idle 0 ends the broker before it began; for example: --idle 30m\n"
        assert (refused.code, refused.err, told.calls) == (2, said, [])


def test_a_broker_tells_on_stderr_what_it_does(inside: Inside, told: Told) -> None:
    told.replace("serve", lambda **named: named["write"]("it serves\n"))
    assert inside("broker").err == "it serves\n"


# -- diff --------------------------------------------------------------------------------------------------------------


def changed(*files: tuple[str, int | None, int | None]) -> Any:
    found = [SimpleNamespace(path=path, added=added, removed=removed) for path, added, removed in files]
    changes = SimpleNamespace(files=found, patch=b"--- a\n+++ \xffb\n")
    return SimpleNamespace(agent="bot", folder="/p", turn=3, ts="2026-01-02T03:04:05Z", changes=changes)


def test_what_an_agent_changed_is_printed(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.cli import diff as command

    monkeypatch.setattr(Beam, "agent_of", lambda _, name: f"{name}!")
    two = changed(("a.py", 2, 1), ("b.png", None, None))
    told.replace("diff", two, two, changed(), two)
    stat = inside("diff", "bot", "--stat", "--turn", "2")
    assert (stat.code, stat.out, stat.err) == (0, "+2 -1\ta.py\nbinary\tb.png\n", "")
    assert inside("diff", "bot", "--json", "--session").json == {
        "v": 1,
        "agent": "bot",
        "folder": "/p",
        "turn": 3,
        "ts": "2026-01-02T03:04:05Z",
        "files": [{"path": "a.py", "added": 2, "removed": 1}, {"path": "b.png", "added": None, "removed": None}],
        "patch": "--- a\n+++ \ufffdb\n",
    }
    none = inside("diff", "bot")
    since = "turn 3 of bot began (2026-01-02 03:04:05)"
    assert (none.code, none.out, none.err) == (0, "", f"beam: nothing changed in /p since {since}\n")
    written: list[bytes] = []

    def write(number: int, data: memoryview) -> int:
        assert number == 1
        written.append(bytes(data[:5]))
        return min(5, len(data))

    monkeypatch.setattr(command.os, "write", write)
    assert inside("diff", "bot").out == ""
    assert b"".join(written) == b"--- a\n+++ \xffb\n"
    assert told.calls == [
        (("bot!",), {"turn": 2, "session": False}),
        (("bot!",), {"turn": None, "session": True}),
        (("bot!",), {"turn": None, "session": False}),
        (("bot!",), {"turn": None, "session": False}),
    ]


def test_a_message_has_its_own_diff(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: Beam, name: str) -> str:
        raise NotFoundError(f"no agent {name}")

    monkeypatch.setattr(Beam, "agent_of", nobody)
    monkeypatch.setattr(Beam, "find_message", lambda _, name: ("bot", f"bot-{name}"))
    told.replace("diff", changed())
    inside("diff", "1", "--turn", "4")
    assert told.calls == [((), {"message_id": "bot-1", "turn": 4, "session": False})]


@pytest.mark.slow
def test_what_is_internal_is_watched_by_those_who_want_more_in_the_signs_that_they_want(
    inside: Inside, watched: Any
) -> None:
    ended = events.AgentExited(code=0, agent="box", seq=1, ts="2026-01-02T03:04:05.000000Z")
    watched.batches = [[ended]]
    assert inside("watch", "--now").out == ""
    assert inside("watch", "--now", "-v").out == "03:04:05 box      · process ended: code 0\n"
    assert inside("watch", "--now", "-v", "--plain").out == "03:04:05 box      . process ended: code 0\n"
    assert inside("watch", "--now", "--team", "t").out == "" and watched.batches


@pytest.mark.slow
def test_a_temporary_session_that_runs_is_named_by_the_end_of_its_id(
    inside: Inside, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.root.paths import AgentPaths

    inside.sent()
    owner = events.Owner(pid=1, start_ticks=1)
    turn = events.TurnStarted(owner=owner, turn_key="k", adapter="codex", via="exec", turn=3, agent="box", ts="")
    watched.begun = {"box": [turn]}
    monkeypatch.setattr(AgentPaths, "lanes", lambda self: [AgentPaths(self.agent, self.dir, "1m865k7j9z1qaz4")])
    names = [line.split()[1] for line in inside("watch", "box").out.splitlines() if "▶" in line]
    assert names == ["box", "box:1qaz4"]
