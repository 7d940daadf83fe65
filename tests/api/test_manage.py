"""Agents declared by command."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Timer

import pytest
from msgspec import UNSET

from beam.api import lock_wait, manage, rules
from beam.api.sessions import begin_in_session
from beam.base.clock import Steps
from beam.base.errors import (
    BeamError,
    ConfigError,
    NotFoundError,
    UnfinishedError,
    UnsupportedError,
    UntrustedError,
    UsageError,
)
from beam.broker.asking import follow, mailbox
from beam.broker.inbox import standing
from beam.config.resolve import encode_agent_json
from beam.model import events
from beam.model.outcome import Point
from beam.model.settings import AgentSettings
from beam.root import discovery
from beam.root.paths import REMOVED_PREFIX, AgentPaths
from beam.store.journal import read_state
from beam.store.lock import Lock, try_lock
from beam.store.queue import Queue
from tests.support.context import Root
from tests.support.journals import ELSEWHERE, record, result, started, turn
from tests.support.refused import refused


def test_an_added_agent_resolves_and_needs_no_trust(root: Root) -> None:
    root.environ.pop("BEAM_TRUST")
    path = manage.add_agent(root.context, "mine", AgentSettings(command=("cat", "-n")))
    assert path == root.context.home.root / "agents/mine/agent.json"
    resolved = root.reload().config.resolve("mine")
    assert resolved.settings.command == ("cat", "-n")
    assert standing.check_folder(root.context, resolved).refusal is None
    path.write_text(path.read_text().replace("-n", "-e"))
    assert standing.check_folder(root.context, root.reload().config.resolve("mine")).refusal is not None


def test_an_agent_that_would_not_resolve_is_not_kept(root: Root) -> None:
    with pytest.raises(BeamError):
        manage.add_agent(root.context, "mine", AgentSettings())
    assert root.context.home.agents() == []


def test_what_an_agent_left_here_before_stays_when_adding_it_again_fails(root: Root) -> None:
    root.put("mine")
    with pytest.raises(BeamError):
        manage.add_agent(root.context, "mine", AgentSettings())
    assert len(root.boxes("mine")["new"]) == 1


def test_a_change_that_would_not_resolve_is_taken_back(root: Root) -> None:
    path = manage.add_agent(root.context, "mine", AgentSettings(adapter="scripted"))
    before = path.read_bytes()
    with pytest.raises(BeamError):
        manage.change_agent(root.context, "mine", {"adapter": "nothing"})
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_change_sets_and_takes_back(root: Root) -> None:
    manage.change_agent(root.context, "worker", {"timeout": "90s", "description": "it"})
    assert root.reload().config.resolve("worker").settings.timeout == 90
    manage.change_agent(root.context, "worker", {"timeout": None})
    settings = root.reload().config.resolve("worker").settings
    assert (settings.timeout, settings.description) == (None, "it")
    manage.change_agent(root.context, "worker", {"timeout": "30m"})
    written = root.context.agent_paths("worker").dir / "agent.json"
    assert b"1800" in written.read_bytes(), "also what would hold without it: beam.yaml may say something else"


def test_adding_twice_and_removing_twice_are_refused(root: Root) -> None:
    manage.add_agent(root.context, "mine", AgentSettings(adapter="scripted"))
    with pytest.raises(UsageError, match="already"):
        manage.add_agent(root.context, "mine", AgentSettings(adapter="scripted"))
    manage.remove_agent(root.context, "mine", purge=False)
    with pytest.raises(NotFoundError, match="not added by `beam agent add`"):
        manage.remove_agent(root.context, "mine", purge=False)


@pytest.mark.slow
def test_an_agent_that_is_held_is_not_removed(root: Root) -> None:
    manage.add_agent(root.context, "mine", AgentSettings(adapter="scripted"))
    lease = root.hold("mine")
    with pytest.raises(UnfinishedError, match="in a turn"):
        manage.remove_agent(root.context, "mine", purge=True)
    lease.close()
    assert "gone" in manage.remove_agent(root.context, "mine", purge=True)
    assert not root.context.agent_paths("mine").dir.exists()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("command", "sh -c 'a b'", ("sh", "-c", "a b")),
        ("max_turns", "3", 3),
        ("budget_usd", "1.5", 1.5),
        ("timeout", "2m", 120.0),
        ("record", "yes", True),
        ("record", "off", False),
        ("record", "1", True),
        ("model", "3", "3"),
    ],
)
def test_a_setting_is_read_from_its_text(key: str, text: str, value: object) -> None:
    assert manage.settings_of_flags({key: text}) == {key: value}


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("modl", "x", "modl: unknown key .did you mean model"),
        ("access", "root", "access: 'root' is not one of"),
        ("timeout", "soon", "timeout: 'soon' is not a duration"),
        ("max_turns", "x", "max_turns: expected a whole number, got 'x'"),
        ("max_turns", "-1", "max_turns: -1 is out of range"),
        ("record", "maybe", "record: expected true or false, got 'maybe'"),
        ("command", "sh 'a", 'command: "sh \'a" is no command line'),
    ],
)
def test_a_setting_that_is_wrong_is_named(key: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        manage.settings_of_flags({key: text})


def in_session(root: Root, name: str, adapter: str = "codex") -> None:
    """The agent has a session `s1`."""
    owner = events.Owner(pid=1, start_ticks=1)
    lease = root.hold(name)
    lease.log.record(events.TurnStarted(owner=owner, turn_key="k", adapter=adapter, via="exec"), turn=1)
    lease.log.record(events.SessionStarted(session_id="s1"), turn=1)
    lease.close()


def declare(root: Root, settings: str) -> None:
    (root.base / "beam.yaml").write_text(f"agents:\n  coder: {settings}\n")
    root.reload()


@pytest.mark.slow
def test_a_fork_has_the_settings_and_begins_in_a_copy_of_the_session(root: Root) -> None:
    declare(root, "{adapter: codex, model: gpt-5, system: be brief}")
    in_session(root, "coder")
    assert manage.fork_agent(root.context, "coder", "twin", by="human") == "s1"
    settings = root.reload().config.resolve("twin").settings
    assert (settings.adapter, settings.model, settings.system) == ("codex", "gpt-5", "be brief")
    state = read_state(root.place("twin").journal)
    assert state.session is None
    assert state.fork is not None and (state.fork.session_id, state.fork.of) == ("s1", "coder")
    again = manage.fork_agent(root.context, "twin", "third", by="human")
    assert again == "s1", "a fork that has not begun is a copy of the same session"


@pytest.mark.slow
def test_a_variable_of_the_caller_is_no_setting_of_the_fork(root: Root) -> None:
    root.environ["BEAM_MODEL"] = "only-today"
    declare(root, "{adapter: codex}")
    in_session(root, "coder")
    manage.fork_agent(root.context, "coder", "twin", by="human")
    root.environ.pop("BEAM_MODEL")
    assert root.reload().config.resolve("twin").settings.model is None


def test_without_a_session_there_is_nothing_to_copy(root: Root) -> None:
    declare(root, "{adapter: codex}")
    with pytest.raises(NotFoundError, match="no session yet"):
        manage.fork_agent(root.context, "coder", "twin", by="human")
    assert root.context.home.agents() == []


def test_an_agent_that_can_not_copy_a_session_is_refused_before_anything_is_written(root: Root) -> None:
    declare(root, "{adapter: gemini}")
    in_session(root, "coder", "gemini")
    with pytest.raises(UnsupportedError, match="copy of its session"):
        manage.fork_agent(root.context, "coder", "twin", by="human")
    assert root.context.home.agents() == ["coder"]


def test_a_fork_takes_no_name_that_is_used_and_launders_no_untrusted_setting(root: Root) -> None:
    declare(root, "{adapter: codex, access: full}")
    in_session(root, "coder")
    with pytest.raises(UsageError, match="already"):
        manage.fork_agent(root.context, "coder", "coder", by="human")
    root.environ.pop("BEAM_TRUST")
    with pytest.raises(UntrustedError, match="full access"):
        manage.fork_agent(root.reload(), "coder", "twin", by="human")
    assert root.context.home.agents() == ["coder"]


@pytest.mark.slow
def test_an_agent_is_removed_though_somebody_looks_for_a_moment_whether_it_is_free(root: Root) -> None:
    manage.add_agent(root.context, "doomed", AgentSettings(adapter="scripted"))
    place = root.context.agent_paths("doomed")
    held = try_lock(place.lock)
    assert held is not None
    letting_go = Timer(0.2, held.release)
    letting_go.start()
    assert "are gone" in manage.remove_agent(root.context, "doomed", purge=True)
    letting_go.join()
    assert not place.dir.exists()


# -- variables ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_variable_is_set_changed_and_removed_beside_the_others(root: Root) -> None:
    settings = manage.settings_of_flags({"adapter": "claude", "env.IS_SANDBOX": "1", "env.A": "x=y"})
    manage.add_agent(root.context, "mine", AgentSettings(**settings))  # type: ignore[arg-type]
    assert root.reload().config.resolve("mine").settings.env == {"IS_SANDBOX": "1", "A": "x=y"}
    manage.change_agent(root.context, "mine", {"env.A": None, "env.B": "2"})
    assert root.reload().config.resolve("mine").settings.env == {"IS_SANDBOX": "1", "B": "2"}
    manage.change_agent(root.context, "mine", {"env.never": None})
    assert root.reload().config.resolve("mine").settings.env == {"IS_SANDBOX": "1", "B": "2"}


@pytest.mark.parametrize("key", ["env.", "env.A=B"])
def test_a_variable_without_a_name_is_refused(key: str, root: Root) -> None:
    with pytest.raises(ConfigError, match="a variable's name"):
        manage.settings_of_flags({"adapter": "claude", key: "1"})
    with pytest.raises(ConfigError, match="a variable's name"):
        manage.change_agent(root.context, "claude", {key: "1"})


# -- what is said ------------------------------------------------------------------------------------------------------


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a lock."""
    monkeypatch.setattr(lock_wait, "_TIMEOUT_S", 0.0)


@pytest.fixture
def mine(root: Root, hurried: None) -> Root:
    """With an agent `mine` of its own agent.json."""
    manage.add_agent(root.context, "mine", AgentSettings(adapter="scripted", model="m"))
    root.reload()
    return root


def test_an_agent_is_declared_once(mine: Root) -> None:
    hint = "beam agent set mine …, or beam agent rm mine"
    with refused(UsageError, "agent mine is already declared", hint, subject="mine"):
        manage.add_agent(mine.context, "mine", AgentSettings(adapter="scripted"))
    with pytest.raises(UsageError):
        manage.add_agent(mine.context, "No Name", AgentSettings(adapter="scripted"))
    with pytest.raises(NotFoundError):
        manage.change_agent(mine.context, "nobody", {"model": "m"})
    assert manage.own_settings(mine.context, "mine") == AgentSettings(adapter="scripted", model="m")
    assert manage.own_settings(mine.context, "worker") == AgentSettings()
    with pytest.raises(NotFoundError):
        manage.own_settings(mine.context, "nobody")


@pytest.mark.parametrize("act", ["add", "change", "remove", "write"])
def test_a_change_is_a_persons_unless_it_is_said_whose(act: str, mine: Root) -> None:
    if act == "add":
        agent = "new"
        manage.add_agent(mine.context, agent, AgentSettings(adapter="scripted"))
    else:
        agent = "mine"
        if act == "change":
            manage.change_agent(mine.context, agent, {"model": "n"})
        elif act == "write":
            manage.edit_settings(mine.context, agent, lambda _: AgentSettings(adapter="scripted"))
        else:
            manage.remove_agent(mine.context, agent, purge=False)
    last = mine.events(agent)[-1]
    assert isinstance(last, events.SettingsChanged) and last.by == "human"


def test_a_new_agents_folder_is_gone_again_where_it_does_not_resolve_and_an_old_one_stays(root: Root) -> None:
    for name in ("worker", "new"):
        if name == "worker":
            root.place(name)
        with pytest.raises(BeamError):
            manage.add_agent(root.context, name, AgentSettings(adapter="nothing"))
        assert root.context.agent_paths(name).dir.exists() == (name == "worker")
        assert not (root.context.agent_paths(name).dir / "agent.json").exists()


def at_once(*calls: Callable[[], object]) -> list[str]:
    """Runs the calls in threads that all wait for the agent's lock; returns the error of each, "" for none."""

    def run(call: Callable[[], object]) -> str:
        try:
            call()
        except BeamError as error:
            return error.message
        return ""

    with ThreadPoolExecutor(len(calls)) as pool:
        return sorted(pool.map(run, calls))


def slow_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets each writer of an agent.json give way, just before it writes, to one that came that far as well."""
    both = threading.Barrier(2)

    def encode(settings: AgentSettings) -> bytes:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.3)  # breaks if no other gets here, as it should be
        return encode_agent_json(settings)

    monkeypatch.setattr(manage, "encode_agent_json", encode)


def test_of_two_that_declare_one_name_at_once_only_one_succeeds(mine: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_writes(monkeypatch)
    adds = [
        partial(manage.add_agent, mine.context, "new", AgentSettings(adapter="claude", model=model)) for model in "ab"
    ]
    assert at_once(*adds) == ["", "agent new is already declared"]


def test_no_change_of_settings_is_lost_to_another_at_the_same_time(mine: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_writes(monkeypatch)
    changes = [
        partial(manage.change_agent, mine.context, "mine", {"timeout": "9s"}),
        partial(rules.add, mine.context, "mine", "deny", "Bash(git push *)", by="human"),
    ]
    assert at_once(*changes) == ["", ""]
    own = manage.own_settings(mine.context, "mine")
    assert (own.timeout, own.rules.deny) == (9.0, ("Bash(git push *)",))


@pytest.mark.slow
def test_a_removed_agents_files_stay_and_it_is_said_where(mine: Root) -> None:
    place = mine.context.agent_paths("mine")
    said = f"mine is not declared any more; its queue and journal stay in {place.dir}"
    mine.place("mine@a")
    mine.place("minel")
    assert manage.remove_agent(mine.context, "mine", purge=False) == (
        f"{said}; its sessions stay, and run no more without mine: mine@a (beam agent rm --purge)"
    )
    manage.change_agent(mine.reload(), "worker", {"model": "m"})
    mine.place("worker@a")
    mine.place("worker@b")
    place = mine.context.agent_paths("worker")
    assert manage.remove_agent(mine.reload(), "worker", purge=False) == (
        f"worker is not declared any more; its queue and journal stay in {place.dir}"
        "; its sessions stay: worker@a, worker@b (beam agent rm --purge)"
    )


def test_what_was_not_added_can_not_be_removed(root: Root) -> None:
    root.place("left")
    for name, hint in (
        ("worker", "it is declared in beam.yaml; take it out there"),
        ("left", "beam agent list says where it is declared"),
        ("nobody", "beam agent list says where it is declared"),
    ):
        said = f"{name} was not added by `beam agent add`, so it can't be removed"
        with refused(NotFoundError, said, hint, subject=name):
            manage.remove_agent(root.context, name, purge=False)
    with pytest.raises(NotFoundError):
        manage.remove_agent(root.context, "nobody", purge=True)
    assert manage.remove_agent(root.context, "left", purge=True) == "left and all its messages and events are gone"


def test_a_broken_agent_json_is_removed_all_the_same(mine: Root) -> None:
    path = mine.context.agent_paths("mine").dir / "agent.json"
    path.write_text("junk")
    manage.remove_agent(mine.context, "mine", purge=False)
    assert not path.exists()


@pytest.mark.parametrize("purge", [False, True])
def test_an_agent_in_a_turn_is_not_removed(purge: bool, mine: Root) -> None:
    lock = try_lock(mine.place("mine").lock)
    assert lock is not None
    with lock, refused(UnfinishedError, "mine is in a turn", "wait for it, or interrupt it", subject="mine"):
        manage.remove_agent(mine.context, "mine", purge=purge)
    assert (mine.context.agent_paths("mine").dir / "agent.json").exists()


def asked_of_broker(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> list[object]:
    """A broker runs, which is asked what the list will hold, and does `then`."""
    asked: list[object] = []

    def request(*args: object, **given: object) -> Steps[str]:
        yield 0.0
        asked.append((args, given))
        then()
        return "released"

    monkeypatch.setattr("beam.broker.asking.requests.request", request)
    monkeypatch.setattr("beam.broker.holder.registry.running_broker", lambda home: object())
    return asked


@pytest.mark.parametrize("purge", [False, True])
def test_an_agent_that_a_broker_holds_is_removed(purge: bool, mine: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = mine.place("mine")
    lock = try_lock(paths.lock)
    assert lock is not None
    asked = asked_of_broker(monkeypatch, lock.release)
    manage.remove_agent(mine.context, "mine", purge=purge, by="ann")
    assert asked == [((mine.context, paths, "release"), {"by": "ann"})]
    assert not (paths.dir / "agent.json").exists() and paths.dir.exists() is not purge


@pytest.mark.slow
def test_a_purge_leaves_nothing_and_tells_whoever_waits(mine: Root) -> None:
    home = mine.context.home
    lane = mine.context.agent_paths("mine", "aaaa")
    discovery.create(home, lane)
    asked = mine.put("mine", sender="asker", reply="queue")
    own = mine.put("mine", sender="mine", reply="queue")
    Queue(lane.queue, lane.put_lock).put(mine.message("mine"), mine.clock, mine.context.config.limits)
    left = home.agent("mine").dir.with_name(f"{REMOVED_PREFIX}mine")
    for folder in (left, home.turns / "mine", home.turns / "mine.aaaa", home.turns / "minel"):
        folder.mkdir(parents=True)
        (folder / "file").touch()
    home.search.touch()
    assert manage.remove_agent(mine.context, "mine", purge=True) == (
        "mine and all its messages and events are gone; 3 waited, and senders that wait for an answer are told"
    )
    assert home.agents() == ["asker"] and not left.exists() and not home.search.exists()
    assert [path.name for path in home.turns.iterdir()] == ["minel"]
    ((box, (reply_id,)),) = mine.boxes("asker").items()
    entry = mine.queue("asker").find(reply_id)
    assert box == "new" and entry is not None
    message = mine.queue("asker").read(entry)
    assert (message.type, message.sender, message.reply_to) == ("reply", "mine", asked.id) and own.id


@pytest.mark.slow
def test_a_mailboxs_message_that_somebody_took_is_taken_back_by_a_purge(root: Root, hurried: None) -> None:
    manage.add_agent(root.context, "desk", AgentSettings(adapter="mailbox"))
    message = root.put("desk", sender="asker", reply="queue")
    assert mailbox.recv(root.reload(), root.place("desk"), None) is not None
    assert "; 1 waited, " in manage.remove_agent(root.context, "desk", purge=True)
    assert len(root.boxes("asker")["new"]) == 1 and message.id


def test_an_agent_whose_journal_is_damaged_is_purged(mine: Root) -> None:
    mine.hold("mine").close()
    (segment,) = mine.place("mine").journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n")
    assert manage.remove_agent(mine.context, "mine", purge=True) == "mine and all its messages and events are gone"


def test_an_agent_is_unblocked_by_a_persons_word(root: Root, hurried: None) -> None:
    with refused(UsageError, "worker is not blocked", "beam status", subject="worker"):
        manage.unblock_agent(root.context, "worker")
    record(root, "worker", started(3, owner=ELSEWHERE), events.Notice(code="blocked", text="who knows", turn=3))
    place = root.place("worker")
    if read_state(place.journal).blocked is None:
        record(root, "worker", events.Notice(code="blocked", text="who knows", turn=3))
    lock = try_lock(place.lock)
    assert lock is not None
    with lock, pytest.raises(UnfinishedError, match="worker is in a turn"):
        manage.unblock_agent(root.context, "worker")
    said = "a person said that no process of turn 3 is left"
    assert manage.unblock_agent(root.context, "worker") == said
    last = root.events("worker")[-1]
    assert isinstance(last, events.Notice) and (last.code, last.text, last.turn) == ("unblocked", said, 3)
    assert read_state(place.journal).blocked is None


def fork_of_coder(root: Root) -> None:
    declare(root, "{adapter: codex}")
    in_session(root, "coder")
    manage.fork_agent(root.context, "coder", "held", by="ann")


def remove_held(root: Root) -> None:
    manage.add_agent(root.context, "held", AgentSettings(adapter="scripted"))
    manage.remove_agent(root.reload(), "held", purge=False)


def discovered(root: Root, name: str) -> AgentPaths:
    discovery.create(root.context.home, root.place(name))
    return root.place(name)


@pytest.mark.parametrize(
    "act",
    [
        lambda root: manage.unblock_agent(root.context, "stuck"),
        fork_of_coder,
        remove_held,
        lambda root: begin_in_session(root.context, "held", "claude", "s1", by="ann", env={}, declare=list),
    ],
    ids=["unblock", "fork", "remove", "begin"],
)
def test_an_agents_lock_is_waited_for_and_held_so_that_no_worker_is_lost(
    act: Callable[[Root], object], root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_wait, "_TIMEOUT_S", 600.0)
    held: list[Lock] = []

    def released(context: object, paths: AgentPaths, lock: Lock) -> Lock:
        held.append(lock)
        return lock

    for module in (manage, follow):
        monkeypatch.setattr(module, "held_briefly", released)
    record(root, "stuck", started(3, owner=ELSEWHERE), events.Notice(code="blocked", text="who knows", turn=3))
    locks = [lock for name in ("held", "stuck") if (lock := try_lock(discovered(root, name).lock)) is not None]
    monkeypatch.setattr(lock_wait.time, "sleep", lambda seconds: [lock.release() for lock in locks])
    act(root)
    assert len(locks) == 2 and [each.path in {lock.path for lock in locks} for each in held] == [True]


# -- sessions that become agents ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_adopted_session_makes_an_agent_with_its_settings(root: Root) -> None:
    done = manage.adopt_session(root.context, "new", "claude:s1", AgentSettings(model="m"), by="ann")
    assert done == (
        "the first turn of new continues in session s1 of claude; "
        "no files of it were found, so beam log new begins here"
    )
    assert manage.own_settings(root.reload(), "new") == AgentSettings(adapter="claude", model="m")
    for taken in ("new", "worker"):
        said = f"there is already an agent {taken} here"
        with refused(UsageError, said, "give the agent another name", subject=taken):
            manage.adopt_session(root.context, taken, "claude:s1", AgentSettings(), by="ann")
    with refused(UsageError, "the session is one of claude, not of codex", "leave the adapter out"):
        manage.adopt_session(root.context, "third", "claude:s1", AgentSettings(adapter="codex"), by="ann")
    manage.adopt_session(root.context, "third", "claude:s1", AgentSettings(adapter="claude"), by="ann")


@pytest.mark.slow
def test_a_session_beside_an_agent_has_that_agents_settings_and_variables(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    manage.add_agent(root.context, "mine", AgentSettings(adapter="claude", env={"A": "1", "B": "1"}))
    given: list[dict[str, str]] = []

    def past(*_: object, folder: str, environ: dict[str, str]) -> None:
        given.append(environ)

    monkeypatch.setattr("beam.foreign.past.past_events", past)
    manage.adopt_session(root.reload(), "mine@a", "claude:s1", AgentSettings(), by="ann")
    assert not (root.context.agent_paths("mine@a").dir / "agent.json").exists()
    manage.adopt_session(root.context, "mine@b", "claude:s1", AgentSettings(env={"B": "2"}), by="ann")
    assert (root.context.agent_paths("mine@b").dir / "agent.json").exists()
    manage.adopt_session(root.context, "alone", "claude:s1", AgentSettings(env={"B": "2"}), by="ann")
    own = [{key: each[key] for key in "AB" if key in each} for each in given]
    assert own == [{"A": "1", "B": "1"}, {"A": "1", "B": "2"}, {"B": "2"}]


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        (None, "no files of it were found, so beam log a begins here"),
        (0, "5 events of it are in the journal: beam log a"),
        (2, "5 events of it are in the journal, without 2 earlier ones: beam log a"),
    ],
)
def test_how_much_of_a_session_came_along_is_reported(left_out: int | None, said: str) -> None:
    imported = events.SessionImported(session_id="s", adapter="claude", events=5, left_out=left_out)
    assert manage._history_text(imported, "a") == said


@pytest.mark.parametrize(
    ("left_out", "is_cut", "unread", "said"),
    [
        (0, True, {}, "5 events of it are in the journal, without at least 1 earlier ones: beam log a"),
        (7, True, {}, "5 events of it are in the journal, without at least 7 earlier ones: beam log a"),
        (
            *(0, False, {"not JSON": 2, "type x": 1}),
            "5 events of it are in the journal: beam log a; 3 records were left out: 2 not JSON, 1 type x",
        ),
        (0, False, {"x": 1}, "5 events of it are in the journal: beam log a; 1 record was left out: x"),
    ],
)
def test_what_was_not_counted_or_not_read_of_a_session_is_reported(
    left_out: int, is_cut: bool, unread: dict[str, int], said: str
) -> None:
    imported = events.SessionImported(
        session_id="s", adapter="claude", events=5, left_out=left_out, is_cut=is_cut, unread=unread
    )
    assert manage._history_text(imported, "a") == said


@pytest.mark.slow
def test_a_fork_is_refused_with_what_to_do(root: Root, hurried: None) -> None:
    declare(root, "{adapter: codex}")
    with refused(NotFoundError, "coder has no session yet", "beam send coder … starts one", subject="coder"):
        manage.fork_agent(root.context, "coder", "twin", by="ann")
    in_session(root, "coder")
    lock = try_lock(root.place("twin").lock)
    assert lock is not None
    said = "another process uses twin at this moment"
    with lock, refused(UnfinishedError, said, "give the agent another name", subject="twin"):
        manage.fork_agent(root.context, "coder", "twin", by="ann")
    manage.fork_agent(root.context, "coder", "twin", by="ann")
    (forked,) = [event for event in root.events("twin") if isinstance(event, events.SessionForked)]
    assert (forked.session_id, forked.of, forked.adapter, forked.by, forked.upto) == (
        "s1",
        "coder",
        "codex",
        "ann",
        UNSET,
    )
    for used in ("other", "left"):
        root.put(used)
        root.hold(used).waiting.scan()
        with refused(UsageError, f"there is already an agent {used} here", "give the copy another name", subject=used):
            manage.fork_agent(root.context, "coder", used, by="ann")
    declare(root, "{adapter: gemini}")
    said = "coder can't continue in a copy of its session: gemini has no headless way to make one"
    with refused(UnsupportedError, said, "beam agent add twin gemini starts with an empty one", subject="coder"):
        manage.fork_agent(root.context, "coder", "twin", by="ann")


@pytest.mark.slow
def test_a_fork_may_end_at_an_earlier_turn(root: Root) -> None:
    declare(root, "{adapter: codex}")
    record(root, "coder", *(body for n in (1, 2) for body in turn(n, "s1", adapter="codex", point=Point(ends=f"e{n}"))))
    manage.fork_agent(root.context, "coder", "twin", by="ann", at="1")
    (forked,) = [event for event in root.events("twin") if isinstance(event, events.SessionForked)]
    assert forked.upto == "e1"
    with pytest.raises(NotFoundError):
        manage.fork_agent(root.context, "coder", "third", by="ann", at="9")
    assert "third" not in root.context.home.agents()


def test_a_session_of_another_adapter_is_not_copied(root: Root) -> None:
    declare(root, "{adapter: codex}")
    in_session(root, "coder", "claude")
    with pytest.raises(NotFoundError, match="has no session yet"):
        manage.fork_agent(root.context, "coder", "twin", by="ann")


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_lock_is_asked_of_a_broker_that_serves_the_root(
    is_kept: bool, root: Root, hurried: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = root.place("worker")
    lock = try_lock(paths.lock)
    assert lock is not None
    asked = asked_of_broker(monkeypatch, int if is_kept else lock.release)
    if is_kept:
        with refused(UnfinishedError, "worker is in a turn", "wait for it, or interrupt it", subject="worker"):
            result(manage.acquire_agent_lock(root.context, paths, by="ann"))
        lock.release()
    else:
        result(manage.acquire_agent_lock(root.context, paths, by="ann")).release()
    assert asked == [((root.context, paths, "release"), {"by": "ann"})]
    result(manage.acquire_agent_lock(root.context, paths, by="ann")).release()
    assert len(asked) == 1


class Moment:
    """Time that passes only while somebody sleeps; `then` is done when that much has passed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: float = math.inf, then: Callable[[], object] = int) -> None:
        self.now, self._at, self._then = 100.0, 100.0 + at, then
        monkeypatch.setattr(lock_wait, "time", self)
        monkeypatch.setattr(lock_wait, "_RETRY_S", 0.25)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self._at:
            self._at = math.inf
            self._then()


def test_a_lock_that_others_hold_for_a_moment_is_waited_for(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = root.place("worker")
    held = try_lock(paths.lock)
    assert held is not None
    time = Moment(monkeypatch, 0.5, held.release)
    result(manage.acquire_agent_lock(root.context, paths, by="ann")).release()
    assert time.now == 100.5


def test_a_lock_that_stays_held_is_given_up_after_a_second(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, time = root.place("worker"), Moment(monkeypatch)
    held = try_lock(paths.lock)
    assert held is not None
    with held, refused(UnfinishedError, "worker is in a turn", "wait for it, or interrupt it", subject="worker"):
        result(manage.acquire_agent_lock(root.context, paths, by="ann"))
    assert time.now == 101.0
