"""What each method of `Beam` asks of the part that does the work, and that its answer is returned as it is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from beam.api import Beam
from beam.api.verbs.opened import ignore
from beam.model.rule_lists import RuleLists
from beam.model.settings import AgentSettings

SETTINGS = AgentSettings(adapter="scripted")
Given = tuple[tuple[Any, ...], dict[str, Any]]


class Row(NamedTuple):
    """A call of a method, with a message that waits in `box`, and what the function of that name is called with."""

    call: Callable[[Beam, str], Any]
    target: str
    given: Callable[[Beam, str], Given]


def place(beam: Beam, agent: str = "box") -> Any:
    return beam.context.agent_paths(agent)


ROWS = [
    Row(
        lambda b, m: b.add_agent("new", SETTINGS),
        "beam.api.manage.add_agent",
        lambda b, m: ((b.context, "new", SETTINGS), {"by": "human"}),
    ),
    Row(
        lambda b, m: b.set_agent("box", {"model": "m"}),
        "beam.api.manage.change_agent",
        lambda b, m: ((b.context, "box", {"model": "m"}), {"by": "human"}),
    ),
    Row(
        lambda b, m: b.set_live("box", "model", "m"),
        "beam.api.live.set_live",
        lambda b, m: ((b.context, place(b), "model", "m"), {"by": "human", "is_declared": False}),
    ),
    Row(
        lambda b, m: b.set_live("box", "model", "m", is_declared=True),
        "beam.api.live.set_live",
        lambda b, m: ((b.context, place(b), "model", "m"), {"by": "human", "is_declared": True}),
    ),
    Row(
        lambda b, m: b.ask_live("box"),
        "beam.api.live.ask_all",
        lambda b, m: ((b.context, place(b)), {"by": "human"}),
    ),
    Row(
        lambda b, m: b.mcp_servers("box"),
        "beam.api.live.ask_question",
        lambda b, m: ((b.context, place(b), "mcp"), {"by": "human"}),
    ),
    Row(
        lambda b, m: b.act_live("box", "mcp.reconnect", {"name": "x"}),
        "beam.api.live.run_action",
        lambda b, m: ((b.context, place(b), "mcp.reconnect", {"name": "x"}), {"by": "human"}),
    ),
    Row(
        lambda b, m: b.fork_agent("box", "twin"),
        "beam.api.manage.fork_agent",
        lambda b, m: ((b.context, "box", "twin"), {"by": "human", "at": None}),
    ),
    Row(
        lambda b, m: b.fork_agent("box", "twin", at="3"),
        "beam.api.manage.fork_agent",
        lambda b, m: ((b.context, "box", "twin"), {"by": "human", "at": "3"}),
    ),
    Row(
        lambda b, m: b.rewind_agent("box"),
        "beam.api.rewind.rewind",
        lambda b, m: ((b.context, place(b), None, "conversation"), {"dry_run": False, "by": "human"}),
    ),
    Row(
        lambda b, m: b.rewind_agent("box", "2", what="files", dry_run=True),
        "beam.api.rewind.rewind",
        lambda b, m: ((b.context, place(b), "2", "files"), {"dry_run": True, "by": "human"}),
    ),
    Row(
        lambda b, m: b.remove_agent("box"),
        "beam.api.manage.remove_agent",
        lambda b, m: ((b.context, "box"), {"purge": False, "by": "human"}),
    ),
    Row(
        lambda b, m: b.remove_agent("box", purge=True),
        "beam.api.manage.remove_agent",
        lambda b, m: ((b.context, "box"), {"purge": True, "by": "human"}),
    ),
    Row(
        lambda b, m: b.rename_agent("box", "case"),
        "beam.api.archive.rename",
        lambda b, m: ((b.context, "box", "case"), {"by": "human"}),
    ),
    Row(
        lambda b, m: b.archive_agent("box"),
        "beam.api.archive.archive",
        lambda b, m: ((b.context, "box"), {"by": "human"}),
    ),
    Row(
        lambda b, m: b.archive_agent("box", restore=True),
        "beam.api.archive.restore",
        lambda b, m: ((b.context, "box"), {"by": "human"}),
    ),
    Row(lambda b, m: b.unblock("box"), "beam.api.manage.unblock_agent", lambda b, m: ((b.context, "box"), {})),
    Row(lambda b, m: b.sessions(), "beam.api.sessions.sessions", lambda b, m: ((b.context, []), {})),
    Row(lambda b, m: b.sessions(["box"]), "beam.api.sessions.sessions", lambda b, m: ((b.context, ["box"]), {})),
    Row(
        lambda b, m: b.resume_session("box", "abcd"),
        "beam.api.sessions.resume",
        lambda b, m: ((b.context, "box", "abcd"), {"by": "human"}),
    ),
    Row(
        lambda b, m: b.adopt_session("new", "claude:abcd", SETTINGS),
        "beam.api.manage.adopt_session",
        lambda b, m: ((b.context, "new", "claude:abcd", SETTINGS), {"by": "human"}),
    ),
    Row(
        lambda b, m: b.reset("box"),
        "beam.broker.asking.requests.request",
        lambda b, m: ((b.context, place(b), "reset"), {"by": "human"}),
    ),
    Row(lambda b, m: b.agent("box"), "beam.api.agents.agent_details", lambda b, m: ((b.context, "box"), {})),
    *(
        Row(
            lambda b, m, verb=verb: getattr(b, verb)(m[-6:]),  # type: ignore[misc]
            "beam.broker.asking.requests.request",
            lambda b, m, verb=verb: ((b.context, place(b), verb, m), {"by": "human", "text": None}),  # type: ignore[misc]
        )
        for verb in ("drop", "retry", "interrupt")
    ),
    Row(
        lambda b, m: b.edit(m, "a \udcff"),
        "beam.broker.asking.requests.request",
        lambda b, m: ((b.context, place(b), "edit", m), {"by": "human", "text": "a \ufffd"}),
    ),
    *(
        Row(
            lambda b, m, verb=verb: getattr(b, verb)("box"),  # type: ignore[misc]
            "beam.broker.asking.requests.request",
            lambda b, m, verb=verb: ((b.context, place(b), verb), {"by": "human"}),  # type: ignore[misc]
        )
        for verb in ("pause", "resume")
    ),
    Row(
        lambda b, m: b.steer("box", "left \udcff"),
        "beam.api.live.steer",
        lambda b, m: ((b.context, place(b), "left \ufffd"), {"by": "human"}),
    ),
    Row(lambda b, m: b.asks(), "beam.api.asks.open_asks", lambda b, m: ((b.context, None), {})),
    Row(lambda b, m: b.asks(["box"]), "beam.api.asks.open_asks", lambda b, m: ((b.context, ["box"]), {})),
    Row(
        lambda b, m: b.approve("box-1234"),
        "beam.api.asks.decide",
        lambda b, m: ((b.context, "box-1234", "approve"), {"by": "human", "message": None, "always": False}),
    ),
    Row(
        lambda b, m: b.approve("box-1234", always=True),
        "beam.api.asks.decide",
        lambda b, m: ((b.context, "box-1234", "approve"), {"by": "human", "message": None, "always": True}),
    ),
    Row(
        lambda b, m: b.approve("box-1234", input={"command": "ls"}),
        "beam.api.asks.decide",
        lambda b, m: (
            (b.context, "box-1234", "amend"),
            {"by": "human", "message": '{"command":"ls"}', "always": False},
        ),
    ),
    Row(
        lambda b, m: b.approve("box-1234", input='{"command": "ls"}'),
        "beam.api.asks.decide",
        lambda b, m: (
            (b.context, "box-1234", "amend"),
            {"by": "human", "message": '{"command": "ls"}', "always": False},
        ),
    ),
    Row(
        lambda b, m: b.deny("box-1234"),
        "beam.api.asks.decide",
        lambda b, m: ((b.context, "box-1234", "deny"), {"by": "human", "message": None, "stop": False}),
    ),
    Row(
        lambda b, m: b.deny("box-1234", message="no", stop=True),
        "beam.api.asks.decide",
        lambda b, m: ((b.context, "box-1234", "deny"), {"by": "human", "message": "no", "stop": True}),
    ),
    Row(
        lambda b, m: b.wait(m[-6:], timeout=3),
        "beam.broker.asking.follow.follow",
        lambda b, m: (
            (b.context, place(b), m),
            {"seen": ignore, "timeout": 3, "looks_only": False, "is_sender": False},
        ),
    ),
    Row(
        lambda b, m: b.wait(m, seen=print),
        "beam.broker.asking.follow.follow",
        lambda b, m: (
            (b.context, place(b), m),
            {"seen": print, "timeout": None, "looks_only": False, "is_sender": False},
        ),
    ),
    Row(lambda b, m: b.show(m[-6:]), "beam.api.messages.find_outcome", lambda b, m: ((place(b), m), {})),
    Row(lambda b, m: b.recv("box"), "beam.broker.asking.mailbox.recv", lambda b, m: ((b.context, place(b), None), {})),
    Row(
        lambda b, m: b.recv("box", lease=5),
        "beam.broker.asking.mailbox.recv",
        lambda b, m: ((b.context, place(b), 5), {}),
    ),
    Row(
        lambda b, m: b.recv_wait("box", lease=5),
        "beam.broker.asking.mailbox.recv",
        lambda b, m: ((b.context, place(b), 5), {}),
    ),
    Row(
        lambda b, m: b.reply(m[-6:], "yes"),
        "beam.broker.asking.mailbox.reply",
        lambda b, m: ((b.context, place(b), m, "yes"), {"failed": False}),
    ),
    Row(
        lambda b, m: b.reply(m, "no", failed=True),
        "beam.broker.asking.mailbox.reply",
        lambda b, m: ((b.context, place(b), m, "no"), {"failed": True}),
    ),
    Row(
        lambda b, m: b.diff("box", turn=2, session=True),
        "beam.api.diff.diff",
        lambda b, m: ((b.context, place(b)), {"message_id": None, "turn": 2, "session": True}),
    ),
    Row(
        lambda b, m: b.diff(message_id=m[-6:]),
        "beam.api.diff.diff",
        lambda b, m: ((b.context, place(b)), {"message_id": m, "turn": None, "session": False}),
    ),
    Row(lambda b, m: b.usage(["box"]), "beam.api.usage.usage_lines", lambda b, m: ((b.context, ["box"]), {})),
    Row(lambda b, m: b.usage(), "beam.api.usage.usage_lines", lambda b, m: ((b.context, ["bot", "box", "other"]), {})),
    Row(
        lambda b, m: b.search("word", ["box"], since="1970-01-01T00:00:01Z", until="1970-01-01T00:00:02Z", limit=3),
        "beam.api.search.search",
        lambda b, m: (
            ([b.home], "word"),
            {
                "environ": b.environ,
                "agents": ["box"],
                "begin_ns": 1_000_000_000,
                "end_ns": 2_000_000_000,
                "limit": 3,
            },
        ),
    ),
    Row(
        lambda b, m: b.search("word", ["elsewhere"], every_root=True),
        "beam.api.search.search",
        lambda b, m: (
            ([b.home], "word"),
            {"environ": b.environ, "agents": ["elsewhere"], "begin_ns": 0, "end_ns": None, "limit": 20},
        ),
    ),
    Row(
        lambda b, m: b.report(["box"], since="2026-07-01T12:00:00.000000Z"),
        "beam.api.report.report",
        lambda b, m: ((b.context, ["box"]), {"since": "2026-07-01T12:00:00.000000Z"}),
    ),
    Row(
        lambda b, m: b.attach("box"),
        "beam.api.attach.attach",
        lambda b, m: ((b.context, place(b)), {}),
    ),
    Row(lambda b, m: b.verify("box"), "beam.api.verify.find_damage", lambda b, m: ((place(b).journal,), {})),
    Row(
        lambda b, m: b.gc(),
        "beam.api.gc.collect",
        lambda b, m: ((b.context,), {"older_than": 2_592_000.0, "keep_bytes": None, "dead": False, "dry_run": False}),
    ),
    Row(
        lambda b, m: b.gc(older_than=1.0, keep_bytes=5, dead=True, dry_run=True),
        "beam.api.gc.collect",
        lambda b, m: ((b.context,), {"older_than": 1.0, "keep_bytes": 5, "dead": True, "dry_run": True}),
    ),
    Row(
        lambda b, m: b.smoke(["pi"]),
        "beam.api.smoke.smoke",
        lambda b, m: ((b.environ, ["pi"]), {}),
    ),
    Row(lambda b, m: b.notify_targets(), "beam.api.notify.list_targets", lambda b, m: ((b.context,), {})),
    Row(
        lambda b, m: b.test_notify(),
        "beam.api.notify.try_targets",
        lambda b, m: ((b.context,), {"agent": "human"}),
    ),
    Row(lambda b, m: b.model_calls("m"), "beam.api.proxy.calls_of", lambda b, m: ((b.context, "m"), {})),
    Row(lambda b, m: b.rules("bot"), "beam.api.rules.list_rules", lambda b, m: ((b.context, "bot"), {})),
    Row(
        lambda b, m: b.try_rules("bot", "Bash(ls)"),
        "beam.api.rules.try_rules",
        lambda b, m: ((b.context, "bot", "Bash(ls)"), {"access": None, "via": None, "more": None}),
    ),
    Row(
        lambda b, m: b.try_rules("bot", "Bash(ls)", access="edit", via="exec", more=RuleLists(deny=("Bash(ls)",))),
        "beam.api.rules.try_rules",
        lambda b, m: (
            (b.context, "bot", "Bash(ls)"),
            {"access": "edit", "via": "exec", "more": RuleLists(deny=("Bash(ls)",))},
        ),
    ),
    Row(
        lambda b, m: b.add_rule("bot", "deny", "Bash(ls)"),
        "beam.api.rules.add",
        lambda b, m: ((b.context, "bot", "deny", "Bash(ls)"), {"by": "human"}),
    ),
    Row(
        lambda b, m: b.remove_rule("bot", "deny", "Bash(ls)"),
        "beam.api.rules.remove",
        lambda b, m: ((b.context, "bot", "deny", "Bash(ls)"), {"by": "human"}),
    ),
    Row(lambda b, m: b.broker(), "beam.api.broker.status", lambda b, m: ((b.context,), {})),
    Row(lambda b, m: b.broker_unit(), "beam.api.broker.systemd_unit", lambda b, m: ((b.context,), {})),
    Row(lambda b, m: b.roots(), "beam.api.root.root_lines", lambda b, m: ((b.environ,), {})),
    Row(
        lambda b, m: b.adoptable(),
        "beam.api.adopt.candidates",
        lambda b, m: ((b.home, b.home.project, b.environ), {}),
    ),
    Row(
        lambda b, m: b.adopt("one"),  # type: ignore[arg-type]
        "beam.api.adopt.adopt",
        lambda b, m: ((b.home, "one", b.home.project, b.environ), {}),
    ),
    Row(
        lambda b, m: b.remove_root(Path("/r")),
        "beam.api.root.remove",
        lambda b, m: ((Path("/r"), b.environ), {"sure": False}),
    ),
    Row(
        lambda b, m: b.remove_root(Path("/r"), sure=True),
        "beam.api.root.remove",
        lambda b, m: ((Path("/r"), b.environ), {"sure": True}),
    ),
    Row(lambda b, m: b.look_at_folder(), "beam.api.trusting.review_folder", lambda b, m: ((b.context,), {})),
]


def named(row: Row) -> str:
    return f"{row.target.removeprefix('beam.')} {ROWS.index(row)}"


class Asked:
    """Stands in for a function of that name; the answer is the same `answer` each time."""

    def __init__(self, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer = object()
        self.given: list[Given] = []
        module, _, name = target.rpartition(".")
        before = getattr(__import__(module, fromlist=[name]), name)
        returns = str(inspect.signature(before).return_annotation)

        def plain(*args: Any, **kwargs: Any) -> Any:
            self.given.append((args, kwargs))
            return self.answer

        def steps(*args: Any, **kwargs: Any) -> Generator[float, None, Any]:
            yield from ()
            return plain(*args, **kwargs)

        async def later(*args: Any, **kwargs: Any) -> Any:
            return plain(*args, **kwargs)

        stands = steps if returns.startswith("Steps[") else later if inspect.iscoroutinefunction(before) else plain
        monkeypatch.setattr(target, stands)


@pytest.fixture(scope="module")
def beam(tmp_path_factory: pytest.TempPathFactory) -> Beam:
    """A root with three agents, which no test here changes."""
    tmp_path = tmp_path_factory.mktemp("asked")
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    (tmp_path / "project/beam.yaml").write_text(
        "agents:\n  box: {mailbox: true}\n  other: {mailbox: true}\n  bot: {adapter: scripted, script: echo}\n"
    )
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    environ = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "BEAM_TRUST": "1", **state}
    return Beam(cwd=tmp_path / "project", environ=environ)


@pytest.fixture(scope="module")
def message_id(beam: Beam) -> str:
    """A message that waits in `box`."""
    message = beam.message("box", "hi", wait=False)
    return beam.put(message)


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_a_method_asks_for_exactly_what_it_was_asked_for(
    row: Row, beam: Beam, message_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = row.given(beam, message_id)
    asked = Asked(row.target, monkeypatch)
    assert row.call(beam, message_id) is asked.answer
    assert asked.given == [expected]


def test_states_are_those_of_the_named_agents_or_of_all_that_are_declared(
    beam: Beam, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked("beam.api.status.status_of", monkeypatch)
    assert beam.status(["box"]) == [asked.answer]
    assert beam.status() == [asked.answer] * 3
    agents = ("box", "bot", "box", "other")
    assert asked.given == [((beam.context, place(beam, agent)), {}) for agent in agents]


def test_waiting_for_a_state_is_of_each_agent_once(
    beam: Beam, message_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked("beam.api.waits.wait_for_state", monkeypatch)
    assert beam.wait_until(["box", "other", "box"], "asking", timeout=2) == {
        "box": asked.answer,
        "other": asked.answer,
    }
    expected = {"timeout": 2, "looks_only": False}
    assert asked.given == [((beam.context, place(beam, name), "asking"), expected) for name in ("box", "other")]
    assert beam.wait_until(["box", "other"], "asking", only_first=True) == {"box": asked.answer}


def test_waiting_for_several_messages_is_of_each_once_however_it_is_named(
    beam: Beam, message_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = beam.put(beam.message("box", "second", wait=False))
    asked = Asked("beam.broker.asking.follow.follow", monkeypatch)
    ended: list[Any] = []
    found = beam.wait_several([message_id, message_id[-6:], second], timeout=2, ended=ended.append)
    assert found == ended == [asked.answer, asked.answer]
    expected = {"seen": ignore, "timeout": 2, "looks_only": False, "is_sender": False}
    assert asked.given == [((beam.context, place(beam), each), expected) for each in (message_id, second)]
    assert beam.wait_several([message_id, second], only_first=True) == [asked.answer]


def test_a_batch_is_watched_event_by_event(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    class One(NamedTuple):
        event: int

    def watched(*args: Any, **kwargs: Any) -> list[list[One]]:
        given.append((args, kwargs))
        return [[One(1), One(2)], [], [One(3)]]

    monkeypatch.setattr("beam.api.watch.watch_root", watched)
    assert list(beam.watch()) == list(beam.watch(["box"], follow=False, history=True)) == [1, 2, 3]
    assert given == [
        ((beam.context,), {"agents": [], "follow": True, "history": False}),
        ((beam.context,), {"agents": ["box"], "follow": False, "history": True}),
    ]


@pytest.mark.parametrize("every", [False, True])
def test_the_checks_of_a_root_are_a_list(every: bool, beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def checks(*args: Any, **kwargs: Any) -> Generator[str, None, None]:
        given.append((args, kwargs))
        yield from ("a", "b")

    monkeypatch.setattr("beam.api.doctor.checks", checks)
    assert (beam.doctor(all=True) if every else beam.doctor()) == ["a", "b"]
    assert given == [((beam.context,), {"every": every})]


def test_tokens_of_each_day_are_those_until_now(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked("beam.api.report.activity", monkeypatch)
    assert beam.activity(["box"]) is asked.answer and beam.activity(["box"], days=3) is asked.answer
    assert [(args, kwargs["days"]) for args, kwargs in asked.given] == [
        ((beam.context, ["box"]), 14),
        ((beam.context, ["box"]), 3),
    ]
    assert all(kwargs["now_ns"] > 1_700_000_000 * 10**9 for _, kwargs in asked.given)


def test_all_clis_but_those_that_are_switched_off_are_tried(
    beam: Beam, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked("beam.api.smoke.smoke", monkeypatch)
    monkeypatch.setattr("beam.api.smoke.smoke_test_names", lambda: ["claude", "codex"])
    assert beam.smoke() is asked.answer
    (tmp_path / "beam.yaml").write_text("disable: [claude]\n")
    assert Beam(cwd=tmp_path, environ=beam.environ).smoke() is asked.answer
    assert [args[1] for args, _ in asked.given] == [["claude", "codex"], ["codex"]]


def test_a_broker_is_served_started_and_stopped_as_it_was_asked_for(
    beam: Beam, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Running(NamedTuple):
        owner: Any

    class Process(NamedTuple):
        pid: int

    for name in ("serve", "start", "stop"):
        asked = Asked(f"beam.api.broker.{name}", monkeypatch)
        asked.answer = Running(Process(77))
        if name == "serve":
            written: list[str] = []
            beam.serve(cap=2, poll=0.5, poll_only=True, idle=3, grace=4, write=written.append)
            beam.serve()
            (args, kwargs), (_, defaults) = asked.given
            kwargs.pop("write")("a line with ghp_" + "a" * 36)
            assert written == ["a line with [redacted:github-token]"]
            assert args == (beam.context,)
            assert kwargs == {"cap": 2, "poll": 0.5, "poll_only": True, "idle": 3, "grace": 4}
            assert callable(defaults.pop("write"))
            assert defaults == {"cap": None, "poll": 1.0, "poll_only": False, "idle": None, "grace": 30.0}
        elif name == "start":
            assert beam.start_broker() == beam.start_broker(cap=2, poll=0.5, poll_only=True, idle=3) == 77
            assert asked.given == [
                ((beam.context,), {"cap": None, "poll": 1.0, "poll_only": False, "idle": None}),
                ((beam.context,), {"cap": 2, "poll": 0.5, "poll_only": True, "idle": 3}),
            ]
        else:
            assert beam.stop_broker() == beam.stop_broker(grace=1) == 77
            assert asked.given == [((beam.context,), {"grace": 30.0}), ((beam.context,), {"grace": 1})]


def test_a_prompt_is_checked_with_the_upstream_that_was_named(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked("beam.api.proxy.compare_runs", monkeypatch)
    assert beam.check_determinism("box", "hi") is beam.check_determinism("box", "ho") is asked.answer
    assert [(args[1:], kwargs) for args, kwargs in asked.given] == [
        (("box", "hi"), {}),
        (("box", "ho"), {}),
    ]
    assert asked.given[0][0][0].__name__ == "send"


def test_keys_are_kept_and_removed_by_name(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Asked("beam.secrets.keyring.store", monkeypatch)
    removed = Asked("beam.secrets.keyring.remove", monkeypatch)
    beam.keep_secret("mine", "sk-1")
    beam.remove_secret("mine")
    assert kept.given == [(("mine", "sk-1"), {})] and removed.given == [(("mine",), {})]


def test_what_was_looked_at_is_trusted_or_the_folder_as_it_is(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = Asked("beam.api.trusting.trust", monkeypatch)
    looked = Asked("beam.api.trusting.review_folder", monkeypatch)
    review: Any = object()
    assert beam.trust(review) == beam.trust() == beam.home.project
    assert trusted.given == [((beam.context, review), {}), ((beam.context, looked.answer), {})]
