"""Diffs, proxies, notifications, the next mode, decisions, and agents that a program holds: without any process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from beam.agents import registry
from beam.api import Beam, agents, deciding, diff, notify, proxy
from beam.api.agents import NextMode
from beam.api.deciding import Allow, AskDecider, Deny
from beam.api.diff import WorkTreeDiff
from beam.api.keeping import AgentKeeper
from beam.api.notify import TargetLine, TargetTried
from beam.api.stream import Stream
from beam.base.clock import Steps
from beam.base.errors import BeamError, NotFoundError, UnsupportedError, UsageError
from beam.broker.serving.kind import PROGRAM
from beam.model import events
from beam.model.message import Options, Recording
from beam.model.notification import Notification
from beam.model.outcome import ModelCallCounts, Outcome, Status
from beam.notify import spool
from beam.notify.spool import Item, TryResult
from beam.proxy.budget import Budget
from beam.proxy.options import ProxyOptions
from beam.turns.choice import REASON_ASKS, REASON_KEPT, REASON_NOT_KEPT
from tests.support.context import Root
from tests.support.journals import closed, finished, record, started
from tests.support.refused import refused

TS = "2023-11-14T22:13:20.000000Z"


# -- diffs -------------------------------------------------------------------------------------------------------------


def tree(turn: int, tree: str | None = "t", *, folder: str = "/", reason: str = "") -> events.WorkTreeRecorded:
    return events.WorkTreeRecorded(folder=folder, tree=tree, reason=reason, turn=turn, message_id=f"m-{turn}")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was asked of git."""
    did: list[Any] = []

    class Tree:
        async def take_with_copied_index(self, agent: str) -> str:
            did.append(agent)
            return "now"

        async def compare(self, before: str, after: str) -> Any:
            did.append((before, after))
            return "changes"

    def of(store: Path, folder: Path, environ: Any) -> Tree:
        did.append((store.name, folder))
        return Tree()

    monkeypatch.setattr(diff, "WorkTree", SimpleNamespace(at=of))
    return did


def differs(root: Root, **given: Any) -> WorkTreeDiff:
    return asyncio.run(diff.diff(root.context, root.place("worker"), **given))


@pytest.mark.parametrize(
    ("given", "turn"),
    [({}, 4), ({"message_id": "m-2"}, 2), ({"turn": 1}, 1), ({"session": True}, 3)],
)
def test_a_work_tree_is_compared_with_what_it_was(
    given: dict[str, Any], turn: int, root: Root, compared: list[Any]
) -> None:
    record(root, "worker", tree(1, "a"), tree(2, "b"), events.SessionStarted(session_id="s", turn=3, message_id="m-3"))
    record(root, "worker", tree(3, "c"), tree(4, "d"))
    found = differs(root, **given)
    assert found == WorkTreeDiff(agent="worker", folder="/", turn=turn, ts=TS, changes="changes")  # type: ignore[arg-type]
    assert compared == [("snapshots", Path("/")), "worker", (" abcd"[turn], "now")]


@pytest.mark.slow
def test_what_can_not_be_compared_is_reported(root: Root, compared: list[Any]) -> None:
    hint = "one is made before a turn with access above `read` of an agent CLI"
    with refused(NotFoundError, "no snapshot of the work tree was made for this agent", hint, subject="worker"):
        differs(root)
    record(root, "worker", tree(1, None, reason="it is large"), tree(2, folder="/nowhere/at/all"))
    for given in ({"turn": 9}, {"message_id": "m-9"}):
        with refused(NotFoundError, "no snapshot of the work tree was made in that turn", hint, subject="worker"):
            differs(root, **given)
    said = "no snapshot of the work tree was made then: it is large"
    with refused(NotFoundError, said, "git diff", subject="worker"):
        differs(root, turn=1)
    with refused(UsageError, "/nowhere/at/all is gone, so nothing can be compared", subject="worker"):
        differs(root, turn=2)
    for given in ({"turn": 1}, {"session": True}):
        with refused(UsageError, "a message's id says which turn is meant", "leave out --turn and --session"):
            differs(root, message_id="m-1", **given)
    with refused(UsageError, "--turn and --session don't go together"):
        differs(root, turn=1, session=True)
    assert compared == []


# -- proxies -----------------------------------------------------------------------------------------------------------

PLAIN: dict[str, Any] = {
    **dict.fromkeys(("record", "replay", "fork_at", "max_tokens", "budget_usd", "places", "seen")),
    **dict.fromkeys(("upstream", "fork_model", "agent", "token", "shield"), ""),
    "on_miss": "stop",
    "port": 0,
}


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What proxies were started with."""
    found: list[Any] = []
    monkeypatch.setattr(proxy, "ProxyProcess", lambda *args, **given: found.append((*args, given)))
    monkeypatch.setattr(proxy, "masks_of", lambda agent: (f"masks of {agent}",))
    monkeypatch.setattr(proxy, "all_masks", lambda: ("all masks",))
    monkeypatch.setattr(proxy, "read_info", lambda path: SimpleNamespace(agent="codex"))
    return found


def test_a_proxy_is_started_with_all_that_was_asked_for(proxies: list[Any], tmp_path: Path) -> None:
    proxy.start({"A": "1"}, **{**PLAIN, "upstream": "http://m"})
    options, environ, rest = proxies[0]
    assert options == ProxyOptions(
        upstream="http://m",
        record="",
        replay="",
        fill=False,
        fork_at=None,
        fork_model="",
        agent="",
        port=0,
        token="",
        places={},
        masks=("all masks",),  # type: ignore[arg-type]
        budget=Budget(max_tokens=None, usd=None),
    )
    assert environ == {"A": "1"} and rest["key_fd"] is None and rest["served"]("x") is None
    asked = {
        "record": Path("r"),
        "replay": Path("p"),
        "upstream": "http://m",
        "on_miss": "live",
        "fork_at": 2,
        "fork_model": "fm",
        "port": 5,
        "max_tokens": 6,
        "budget_usd": 7.0,
        "token": "t",
        "shield": "fd:8",
        "places": {"a": "b"},
        "seen": print,
    }
    proxy.start({}, **{**PLAIN, **asked})
    options, _, rest = proxies[1]
    assert options == ProxyOptions(
        upstream="http://m",
        record=str(Path("r").absolute()),
        replay=str(Path("p").absolute()),
        fill=True,
        fork_at=2,
        fork_model="fm",
        agent="codex",
        port=5,
        token="t",
        places={"a": "b"},
        masks=("masks of codex",),  # type: ignore[arg-type]
        budget=Budget(max_tokens=6, usd=7.0),
    )
    assert rest == {"served": print, "key_fd": 8, "secret": ""}
    proxy.start({}, **{**PLAIN, "replay": Path("p"), "agent": "claude"})
    assert (proxies[2][0].agent, proxies[2][0].masks) == ("claude", ("masks of claude",))


def called(*paths: str) -> events.ModelCalled:
    differences = [{"path": path} for path in paths]
    return msgspec.convert({"type": "model.called", "differences": differences, **CALLED}, events.ModelCalled)


CALLED: dict[str, Any] = {"n": 1, "step": "exact"}


def test_two_runs_of_a_prompt_are_compared_by_where_they_differed() -> None:
    given: list[Any] = []
    first = Outcome(message_id="m-1", agent="a", turn=1, attempt=1, status=Status.COMPLETED)
    counts = ModelCallCounts(exact=3)
    second = Outcome(message_id="m-2", agent="a", turn=2, attempt=1, status=Status.COMPLETED, model_calls=counts)
    calls = [called("/a", "/b"), called("/b")]

    def send(agent: str, text: str, *, options: Options, seen: Any = None) -> Outcome:
        given.append((agent, text, options))
        if seen is None:
            return first
        for each in (*calls, events.Notice(text="x")):
            seen(each)
        return second

    found = proxy.compare_runs(send, "a", "hi")
    assert found == proxy.ProxyChecked(
        first=first, second=second, counts=counts, calls=tuple(calls), places=(("/b", 2), ("/a", 1))
    )
    (agent, text, recorded), (_, _, replayed) = given
    assert (agent, text) == ("a", "hi")
    folder = recorded.recording.record
    assert recorded == Options(once=True, recording=Recording(record=folder, depth="model"))
    assert replayed == Options(once=True, recording=Recording(replay=folder, depth="model"))
    assert folder.endswith("/recording") and "/beam-doctor-" in folder and not Path(folder).parent.exists()
    second = first
    assert proxy.compare_runs(send, "a", "hi").counts == ModelCallCounts()


# -- notifications -----------------------------------------------------------------------------------------------------


@pytest.fixture
def told(root: Root) -> Root:
    """Two targets of the folder, of which one has had notifications."""
    (root.base / "beam.yaml").write_text(
        "agents:\n  box: {adapter: mailbox}\nnotify:\n  - {command: [tell], on: [failed, ask], agents: [box]}\n"
        "  - {webhook: 'https://hooks.example/x', on: [finished]}\n"
    )
    root.reload()
    return root


def given_up(root: Root, number: int, at: str, error: str) -> None:
    target = notify._configured_targets(root.context)[0][1]
    notification = Notification(
        id=f"turn-{number}", event="failed", at=at, agent="box", project=str(root.base), text="x"
    )
    spool.put(root.context.home.notify, target, notification)
    (name,) = spool.waiting_names(root.context.home.notify)
    item = spool.read(root.context.home.notify, name)
    assert item is not None
    if error:
        spool.give_up(root.context.home.notify, name, msgspec.structs.replace(item, error=error))
    else:
        spool.mark_delivered(root.context.home.notify, name)


@pytest.mark.slow
def test_targets_are_listed_with_what_became_of_their_notifications(told: Root) -> None:
    given_up(told, 1, "2026-01-02T00:00:00Z", "the last")
    given_up(told, 2, "2026-01-01T00:00:00Z", "the first")
    given_up(told, 3, "2026-01-03T00:00:00Z", "")
    target = notify._configured_targets(told.context)[0][1]
    notification = Notification(id="w", event="failed", at=TS, agent="box", project="/p", text="x")
    spool.put(told.context.home.notify, target, notification)
    first, second = notify.list_targets(told.context)
    assert first == TargetLine(
        target=first.target,
        origin="beam.yaml",
        on=("failed", "ask"),
        agents=("box",),
        trusted=True,
        waiting=1,
        delivered=1,
        given_up=2,
        error="the last",
    )
    assert "tell" in first.target and "hooks.example" in second.target
    assert (second.on, second.agents, second.waiting, second.delivered, second.given_up, second.error) == (
        ("finished",), (), 0, 0, 0, "",
    )  # fmt: skip
    told.environ.pop("BEAM_TRUST")
    assert [line.trusted for line in notify.list_targets(told.reload())] == [False, False]


def test_each_target_is_tried_once(told: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def deliver_with(home: Any, environ: Any, log: int) -> Any:
        def deliver(target: Any, item: Item, *, is_folders: bool) -> TryResult:
            assert is_folders
            given.append((home, environ, log, target.key, item))
            return TryResult(error="refused" if target.webhook else "")

        return deliver

    monkeypatch.setattr(notify, "deliver_with", deliver_with)
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(fileno=lambda: 7))
    found = notify.try_targets(told.context, agent="ann")
    names = [line.target for line in notify.list_targets(told.context)]
    assert found == [TargetTried(target=names[0], error=""), TargetTried(target=names[1], error="refused")]
    home, environ, log, key, item = given[0]
    assert (home, environ, log) == (told.context.home, told.context.environ, 7)
    assert item == Item(
        target=key,
        notification=Notification(
            id=item.notification.id,
            event="test",
            at=TS,
            agent="ann",
            project=str(told.base),
            text="this is a test of beam's notifications",
        ),
    )
    assert item.notification.id.startswith("test-")
    told.environ.pop("BEAM_TRUST")
    errors = [each.error for each in notify.try_targets(told.reload(), agent="ann")]
    assert errors == ["this folder is not trusted: beam trust"] * 2 and len(given) == 2


def test_without_a_target_none_is_tried(root: Root) -> None:
    hint = "write it into ~/.config/beam/config.yaml, as docs/notify.md shows"
    with refused(NotFoundError, "notify: is in no configuration", hint):
        notify.try_targets(root.context, agent="ann")
    assert notify.list_targets(root.context) == []


# -- the next mode -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "runs", "unfit", "expected"),
    [
        ("adapter: claude", False, "", NextMode(face="exec", why=REASON_NOT_KEPT)),
        ("adapter: claude", True, "", NextMode(face="dialogue", why=REASON_KEPT)),
        ("adapter: claude", True, "it is broken", NextMode(face="exec", why="it is broken")),
        ("adapter: claude, access: ask", True, "", NextMode(face="dialogue", why=REASON_ASKS)),
        ("adapter: pi", True, "", NextMode(face="exec")),
        ("adapter: mailbox", True, "", NextMode(face="mailbox")),
        ("adapter: amp", True, "", NextMode(face="unverified")),
    ],
)
def test_the_mode_of_the_next_message_is_reported_with_the_reason(
    settings: str, runs: bool, unfit: str, expected: NextMode, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root.base / "beam.yaml").write_text(f"agents:\n  one: {{{settings}}}\n")
    root.reload()
    monkeypatch.setattr(agents, "running_broker", lambda home: object() if runs else None)
    seen = SimpleNamespace(unfit=unfit)
    monkeypatch.setattr("beam.turns.cli_version.last_seen_version", lambda *given: seen if unfit else None)
    resolved = root.context.config.resolve("one")
    status: Any = SimpleNamespace(kept=None)
    adapter = registry.adapter(resolved.settings.adapter)
    assert agents.next_mode(root.context, resolved, adapter, status) == expected
    if expected.why == REASON_NOT_KEPT:
        status = SimpleNamespace(kept=object())
        assert agents.next_mode(root.context, resolved, adapter, status).why == REASON_KEPT


@pytest.mark.slow
def test_an_agent_is_listed_with_its_settings_or_what_is_wrong_with_them(root: Root) -> None:
    (root.base / "beam.yaml").write_text(
        "agents:\n  one: {adapter: pi, model: m, access: full, description: it}\n  amp: {adapter: amp}\n"
    )
    root.reload()
    assert agents.agent_line(root.context, "one") == agents.AgentLine(
        agent="one",
        adapter="pi",
        declared_in="beam.yaml",
        face="exec",
        model="m",
        access="full",
        installed=None,
        description="it",
    )
    odd = agents.agent_line(root.context, "amp")
    assert (odd.face, odd.description) == ("unverified", registry.adapter("amp").card.summary)
    gone = agents.agent_line(root.context, "nobody")
    assert gone.error and gone == agents.AgentLine(
        agent="nobody", adapter="", declared_in="", face="", model=None, access=None, installed=None, error=gone.error
    )
    record(root, "box", events.SessionForked(session_id="s1", of="one", adapter="codex"))
    shown = agents.agent_details(root.context, "one")
    assert (shown.fork, shown.cwd, shown.face, shown.installed, shown.untrusted) == (
        None,
        str(root.base),
        "exec",
        None,
        None,
    )
    assert shown.environment == "that of the process that runs the turn, minus the deny list, plus env:"
    assert agents._fork_text(root.place("box")) == "session s1 of one"
    (segment,) = root.place("box").journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n")
    assert agents._fork_text(root.place("box")) is None


# -- decisions ---------------------------------------------------------------------------------------------------------


class Decided:
    """What was decided, and what was reported; `fails` raises for that verb and message."""

    def __init__(self, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.did: list[Any] = []
        self.reported: list[str] = []
        self.fails: dict[Any, BeamError] = {}

        def decide(context: Any, ask_id: str, verb: str, *, by: str, message: Any = None, **more: Any) -> Steps[str]:
            yield 0.0
            self.did.append((ask_id, verb, by, message, more))
            if (verb, message) in self.fails:
                raise self.fails[verb, message]
            return "done"

        monkeypatch.setattr(deciding, "decide", decide)

    def run(self, on_ask: Any, *later: events.Event, expires: str | None = TS) -> None:
        asked = events.PermissionAsked(ask_id="a-1", tool="Bash", agent="worker", expires=expires)

        async def inside() -> None:
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: self.reported.append(f"{context['message']}: {context['exception']}")
            )
            seen: list[Any] = []
            made = AskDecider(self.root.context, on_ask, seen.append, by="ann")
            made.event(asked)
            for event in later:
                made.event(event)
            while made._undecided and not later:
                await asyncio.sleep(0.001)
            if made._tasks and not later:
                await asyncio.wait(made._tasks)
            await made.close()
            assert seen == [asked, *later]

        asyncio.run(asyncio.wait_for(inside(), 10))


@pytest.fixture
def decided(root: Root, monkeypatch: pytest.MonkeyPatch) -> Decided:
    return Decided(root, monkeypatch)


async def later_true(_: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("on_ask", "verb", "message", "more"),
    [
        (lambda ask: True, "approve", None, {"always": False}),
        (later_true, "approve", None, {"always": False}),
        (lambda ask: Allow(always=True), "approve", None, {"always": True}),
        (lambda ask: Allow(input={"a": 1}), "amend", '{"a":1}', {}),
        (lambda ask: Allow(input='{"a": 1}'), "amend", '{"a": 1}', {}),
        (lambda ask: False, "deny", None, {"stop": False}),
        (lambda ask: Deny(message="no", stop=True), "deny", "no", {"stop": True}),
    ],
)
def test_a_function_decides(
    on_ask: Any, verb: str, message: str | None, more: dict[str, Any], decided: Decided
) -> None:
    decided.run(on_ask)
    assert decided.did == [("a-1", verb, "ann", message, more)] and decided.reported == []


def fails(_: object) -> bool:
    raise KeyError("x")


@pytest.mark.parametrize(
    ("on_ask", "name", "reason"),
    [
        (fails, "KeyError", "'x'"),
        (lambda ask: "yes", "TypeError", "on_ask returned str, and not Allow, Deny, True or False"),
    ],
)
def test_a_function_that_can_not_decide_denies_and_is_reported(
    on_ask: Any, name: str, reason: str, decided: Decided
) -> None:
    decided.run(on_ask)
    message = f"the program that decides failed with {name}"
    assert decided.did == [("a-1", "deny", "ann", message, {"stop": False})]
    assert decided.reported == [f"on_ask could not decide a-1 of worker, so it is denied: {reason}"]


def test_what_the_agent_does_not_offer_is_denied(decided: Decided) -> None:
    decided.fails = {("approve", None): UnsupportedError("not offered")}
    decided.run(lambda ask: Allow(always=True))
    assert [each[1] for each in decided.did] == ["approve", "deny"]
    assert decided.reported == ["on_ask could not decide a-1 of worker, so it is denied: not offered"]
    decided.did.clear()
    decided.run(lambda ask: Allow(always=True, input={}))
    assert [each[1] for each in decided.did] == ["deny"] and "never always" in decided.reported[1]


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_what_somebody_else_decided_is_left_so(verb: str, decided: Decided) -> None:
    decided.fails = {(verb, None): NotFoundError("it is over")}
    decided.run(lambda ask: verb == "approve")
    assert [each[1] for each in decided.did] == [verb] and decided.reported == []


def test_an_agent_that_can_not_be_told_why_is_denied_all_the_same(decided: Decided) -> None:
    decided.fails = {("deny", "no"): UnsupportedError("can't be told")}
    decided.run(lambda ask: Deny(message="no"))
    assert [each[3] for each in decided.did] == ["no", None] and decided.reported == []
    decided.fails[("deny", None)] = BeamError("broken")
    decided.run(lambda ask: Deny(message="no"))
    assert decided.reported == ["on_ask could not decide a-1 of worker, so it is denied: broken"]


def test_what_is_over_or_decided_at_once_is_decided_by_nobody(decided: Decided) -> None:
    decided.run(lambda ask: True, expires=None)
    for over in (
        events.PermissionDecided(ask_id="a-1", decision="deny"),
        events.PermissionDecided(ask_id="a-1", decision="cancelled"),
    ):
        decided.run(lambda ask: True, over)
    assert decided.did == []


# -- agents that a program holds ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_agent_is_held_until_the_program_ends_its_part(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[Any] = []

    class Server:
        def __init__(self, context: Any, kind: Any, **_: Any) -> None:
            did.append((context is root.context, kind))
            self.stopped = asyncio.Event()

        async def hold(self, paths: Any) -> None:
            did.append(paths.agent)

        async def serve(self) -> None:
            await self.stopped.wait()
            did.append("over")

        def ask_to_stop(self) -> None:
            self.stopped.set()

    monkeypatch.setattr("beam.api.keeping.Server", Server)
    keeping = AgentKeeper(root.context)
    keeping.hold_now(root.place("worker"))
    asyncio.run(keeping.hold(root.place("other")))
    keeping.close()
    assert did == [(True, PROGRAM), "worker", "other", "over"] and not keeping._thread.is_alive()
    AgentKeeper(root.context).close()  # it held nothing


# -- what is left: streams, idle agents, the usage of a team -----------------------------------------------------------


def test_a_stream_is_read_once_in_a_loop_of_its_own_or_in_the_programs() -> None:
    stopped: list[str] = []
    notices: list[events.Event] = [events.Notice(text="a"), events.Notice(text="b")]

    async def work(seen: Any) -> int:
        for each in notices:
            seen(each)
        return 7

    async def stop() -> None:
        stopped.append("stopped")

    async def inside() -> tuple[list[Any], int]:
        stream = Stream(work, stop)
        found = [event async for event in stream]
        return found, stream.result

    assert asyncio.run(inside()) == (notices, 7) and stopped == []
    stream = Stream(work, stop)
    assert list(stream) == notices and stream.result == 7
    with refused(UsageError, "this stream was read before", "begin another one"):
        list(stream)
    with refused(UsageError, "the stream is not over", "take all its events first"):
        _ = Stream(work, stop).result


def test_what_ends_the_work_of_a_stream_is_raised_after_its_events() -> None:
    async def work(seen: Any) -> int:
        seen(events.Notice(text="a"))
        raise BeamError("lost")

    async def stop() -> None: ...

    seen: list[Any] = []
    with pytest.raises(BeamError, match="lost"):
        seen.extend(iter(Stream(work, stop)))
    assert seen == [events.Notice(text="a")]


def test_agents_are_idle_where_nothing_of_theirs_waits(root: Root) -> None:
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    assert beam.are_idle() and beam.are_idle(["box"])
    root.put("box")
    root.place("worker")
    assert (beam.are_idle(), beam.are_idle(["box"]), beam.are_idle(["worker"])) == (False, False, True)


@pytest.mark.slow
def test_agents_are_listed_usable_ones_first_and_then_by_what_they_lack(root: Root) -> None:
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    assert [line.agent for line in beam.agents()] == ["asker", "box", "other", "worker"]
    found = beam.agents(all=True)[4:]
    ranks = [(line.face == "unverified", line.installed is None) for line in found]
    assert ranks == sorted(ranks) and {line.agent for line in found} == set(registry.NAMES)


@pytest.mark.slow
def test_models_are_those_of_settings_and_of_turns(root: Root) -> None:
    (root.base / "beam.yaml").write_text("agents:\n  one: {adapter: claude, model: b}\n  two: {adapter: claude}\n")
    record(root, "two", started(), finished(model="a"), closed())
    record(root, "two", started(), finished(model="c"), closed(), lane="aaaa")
    assert Beam(root.context.home.root, cwd=root.base, environ=root.environ).models() == ["a", "b", "c"]


@pytest.mark.slow
def test_ids_of_messages_are_reported_the_newest_first(root: Root) -> None:
    for name in ("1aaa", "3aaa", "2aaa"):
        root.put("box", id=f"box-{name}")
    root.put("asker", id="asker-4aaa")
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    assert beam.message_ids(3) == ["asker-4aaa", "box-3aaa", "box-2aaa"]


def test_events_after_a_number_are_reported(root: Root) -> None:
    record(root, "box", *(events.Notice(text=text) for text in "abc"))
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    assert [getattr(event, "text", "") for event in beam.events("box")] == ["a", "b", "c"]
    assert [event.seq for event in beam.events("box", after=2)] == [3]


@pytest.mark.slow
def test_states_of_all_roots_have_this_one_first_where_it_is_not_listed(root: Root) -> None:
    root.environ["XDG_STATE_HOME"] = str(root.base.parent / "state")
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    assert beam.status_all() == []
    root.put("box")
    other = root.base.parent / "elsewhere"
    other.mkdir()
    (other / "beam.yaml").write_text("agents:\n  there: {adapter: mailbox}\n")
    there = Beam(cwd=other, environ=root.environ)
    there.put(there.message("there", "hi", wait=False))
    found = [(folder, [line.agent for line in lines]) for folder, lines in beam.status_all()]
    assert found == [(root.base, ["box"]), (other, ["there"])]
    assert (beam.agents_elsewhere(), there.agents_elsewhere()) == (1, 0), "a root that is named is not in the list"
    (other / "beam.yaml").write_text("agents: [")
    assert [line.error is None for _, lines in beam.status_all() for line in lines] == [True, False]


def test_what_can_not_be_compared_inside_a_turn_or_of_nobody_is_reported(root: Root) -> None:
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    made = "one is made before a turn with access above `read` of an agent CLI"
    with refused(NotFoundError, "no snapshot of a work tree was made here", made):
        beam.diff()
    with refused(UsageError, "a turn or a session is that of an agent", "name the agent"):
        beam.diff(session=True)
    beam.__dict__["turn"] = SimpleNamespace(agent="writer")
    with refused(UnsupportedError, "inside a turn beam compares no work trees", "git diff"):
        beam.diff("box")


def test_who_calls_is_a_person_or_the_agent_of_the_environment(root: Root) -> None:
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    assert (beam.me, beam.is_agent) == ("human", False)
    inside = Beam(root.context.home.root, cwd=root.base, environ={**root.environ, "BEAM_AGENT": "ann"})
    assert (inside.me, inside.is_agent) == ("ann", True)
    inside.__dict__["turn"] = SimpleNamespace(agent="bob")
    assert inside.me == "bob"
    said = "only a person tries it; this is a process of bob"
    with refused(UsageError, said, "use a shell of your own"):
        inside.check_person("tries it")


def test_dead_letters_are_dropped_one_by_one(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    for name in ("1aaa", "2aaa"):
        (root.place("box").queue / "dead" / f"0000000000000000000{name[0]}-box-{name}.json").write_bytes(b"{}")

    def request(context: Any, paths: Any, verb: str, target: str, *, by: str, text: Any) -> Steps[str]:
        yield 0.0
        if target == "box-1aaa":
            raise NotFoundError("somebody was quicker")
        return "dropped"

    monkeypatch.setattr("beam.broker.asking.requests.request", request)
    assert beam.drop_dead() == ["box-2aaa"]


def test_an_approval_can_add_a_rule(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[Any] = []
    monkeypatch.setattr("beam.api.asks.find_ask", lambda context, ask_id: (root.place("box@a"), ask_id))
    monkeypatch.setattr("beam.api.rules.check_allow", lambda *given: did.append(("checked", *given[1:])))
    monkeypatch.setattr("beam.api.rules.add", lambda *given, by: did.append(("added", *given[1:], by)))

    def decide(*given: Any, **more: Any) -> Steps[str]:
        yield 0.0
        did.append(("decided", *given[1:]))
        return "allowed"

    monkeypatch.setattr("beam.api.asks.decide", decide)
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    said = beam.approve("box-1234", rule="Bash(ls *)")
    assert said == "allowed; from its next turn on box is allowed Bash(ls *)"
    assert did == [
        ("checked", "box", "Bash(ls *)"),
        ("decided", "box-1234", "approve"),
        ("added", "box", "allow", "Bash(ls *)", "human"),
    ]
    with refused(UsageError, "a changed input is allowed once, and never always", "leave one of the two out"):
        beam.approve("box-1234", always=True, input={})
    inside = Beam(root.context.home.root, cwd=root.base, environ={**root.environ, "BEAM_AGENT": "ann"})
    said = "ann is an agent, and can't approve another agent's request"
    with refused(UsageError, said, "a person can: beam asks", subject="box-1234"):
        inside.approve("box-1234")
