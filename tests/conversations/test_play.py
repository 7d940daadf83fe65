"""A whole scenario in this process: its turns are answered from a recording, so that no agent runs."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from beam.base.errors import BeamError, ConfigError, SignalledError, UnfinishedError, UntrustedError, UsageError
from beam.broker.holder import registry
from beam.broker.holder.control import answer_requests
from beam.broker.inbox import launch
from beam.conversations import held, repeat_worktree, step_files
from beam.conversations import play as playing
from beam.conversations.held import HeldAgents, deliver_here
from beam.conversations.play import play
from beam.conversations.read import parse
from beam.conversations.recording import Recorder, Replay
from beam.conversations.result import ReplayCounts, RunResult, Spent, StepResult, Verdict, WorktreeResult
from beam.conversations.run_options import RunOptions, RunProgress, StepBegan, Warned
from beam.conversations.scenario import Spending, Worktree
from beam.model import events
from beam.model.message import Options, Recording
from beam.model.outcome import Class, ModelCallCounts, Outcome, Status, Usage
from beam.process import tree
from beam.process.owned import owner_text
from beam.root.paths import data_dir
from beam.turns.handle import Stop
from tests.broker.test_broker_control import ask
from tests.support.context import Root

pytestmark = pytest.mark.slow

Turn = tuple[str, str | Class]  # a prompt, and the answer to it or the class of its failure


def recorded(folder: Path, **agents: list[Turn]) -> Path:
    """A folder in which these agents' turns are recorded."""
    recorder = Recorder(folder)
    for agent, turns in agents.items():
        for number, (prompt, said) in enumerate(turns, 1):
            usage = Usage(input_tokens=60, output_tokens=40)
            if isinstance(said, Class):
                finished = events.TurnFinished(status=Status.FAILED, class_=said, reason="it fell", cost_usd=0.5)
            else:
                finished = events.TurnFinished(status=Status.COMPLETED, reply=said, usage=usage, cost_usd=0.5)
            for body in (
                events.MessageQueued(sender="human", text=prompt),
                events.TurnStarted(owner=tree.this_process(), turn_key="k", adapter="command", via="exec"),
                events.Text(text="a text"),
                finished,
            ):
                header = {"seq": 1, "ts": "", "agent": agent, "turn": number, "message_id": f"{agent}-{number}"}
                recorder.take(msgspec.structs.replace(body, **header))
    folder.mkdir(exist_ok=True)
    return folder


class Played:
    """A scenario that was played; `told` is what was shown of it on the way."""

    def __init__(self, root: Root, tmp_path: Path, steps: str, *, head: str = "", **options: Any) -> None:
        turns = options.pop("turns", {"worker": [("x", "yes")], "other": [("y", "no")]})
        folder = tmp_path / "recording"
        recorded(folder, **turns)
        text = f"beam: 1\n{head}steps:\n{steps}"
        scenario = parse(text.encode(), root.base / "s.yaml", {}, name="s.yaml")
        self.told: list[RunProgress] = []
        replayed = Recording(replay=str(options.pop("replay", folder)), on_miss=options.pop("on_miss", "stop"))
        asked = RunOptions(**{"recording": replayed, **options})
        self.result: RunResult = asyncio.run(play(scenario, root.context, asked, self.told.append))

    @property
    def shown(self) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for each in self.told:
            if isinstance(each, StepBegan):
                found.append(("began", each.id, each.kind, each.agents, each.repeat))
            elif isinstance(each, StepResult):
                found.append(("over", each.id, each.verdict.value, each.repeat))
            else:
                found.append(("warned", each.text))
        return found


STEPS = "- {send: worker, id: one, prompt: x}\n- {send: other, id: two, prompt: y}\n"


def test_a_run_that_passes_says_what_it_came_to(root: Root, tmp_path: Path) -> None:
    played = Played(root, tmp_path, STEPS)
    result = played.result
    assert msgspec.structs.replace(result, steps=()) == RunResult(
        name="s",
        file="s.yaml",
        verdict=Verdict.PASSED,
        exit_code=0,
        spent=Spent(turns=2, cost_usd=1.0, tokens=200),
        repeats=1,
        passes=1,
        replay=ReplayCounts(exact=2),
        note="the turns were answered from a recording: no agent ran, and no tool was run again",
    )
    assert [(step.id, step.verdict, step.reply, step.repeat) for step in result.steps] == [
        ("one", Verdict.PASSED, "yes", 1),
        ("two", Verdict.PASSED, "no", 1),
    ]
    assert [turn.replayed for step in result.steps for turn in step.turns] == ["exact", "exact"]
    assert played.shown == [
        ("began", "one", "send", ("worker",), 1),
        ("over", "one", "passed", 1),
        ("began", "two", "send", ("other",), 1),
        ("over", "two", "passed", 1),
    ]


def test_the_turns_are_in_the_journals_of_sessions_of_their_own_which_are_free_afterwards(
    root: Root, tmp_path: Path
) -> None:
    Played(root, tmp_path, STEPS)
    assert "worker@s" in root.context.home.agents()
    finished = [event for event in root.events("worker@s") if isinstance(event, events.TurnFinished)]
    assert [(event.reply, event.via) for event in finished] == [("yes", "replay")]
    root.hold("worker@s").close()


@pytest.mark.parametrize("fail_fast", [False, True])
def test_a_run_that_fails_names_the_first_step_that_did(root: Root, tmp_path: Path, fail_fast: bool) -> None:
    played = Played(
        root, tmp_path, STEPS, fail_fast=fail_fast, turns={"worker": [("x", Class.CRASHED)], "other": [("y", "no")]}
    )
    result = played.result
    assert (result.verdict, result.exit_code, result.passes) == (Verdict.FAILED, 1, 0)
    assert result.why == "step one: worker: failed (crashed): it fell"
    verdicts = [(step.verdict.value, step.why) for step in result.steps]
    assert verdicts[1] == (
        ("skipped", "an earlier step failed, and --fail-fast ends the run there") if fail_fast else ("passed", "")
    )


def test_a_failed_check_has_an_exit_code_of_its_own(root: Root, tmp_path: Path) -> None:
    result = Played(root, tmp_path, "- {send: worker, prompt: x, expect: {contains: nay}}\n").result
    assert (result.exit_code, result.why) == (
        13,
        "step 1: contains: nay: 'nay' is not in it; the answer was 'yes'",
    )


def test_a_prompt_that_was_not_recorded_fails_its_step(root: Root, tmp_path: Path) -> None:
    result = Played(root, tmp_path, "- {send: worker, id: one, prompt: z}\n").result
    assert (result.verdict, result.replay) == (Verdict.FAILED, ReplayCounts(unmatched=1))
    assert "no recorded turn of worker has this prompt" in result.why
    assert result.note == ""
    nearest = Played(root, tmp_path, "- {send: worker, id: one, prompt: z}\n", on_miss="nearest").result
    assert (nearest.verdict, nearest.replay) == (Verdict.PASSED, ReplayCounts(major=1))


TWICE: dict[str, list[Turn]] = {"worker": [("x", "yes")]}
FAILS: dict[str, list[Turn]] = {"worker": [("x", Class.CRASHED)]}


@pytest.mark.parametrize(
    ("options", "code", "why", "passes", "steps"),
    [
        ({"repeat": 3, "turns": TWICE}, 0, "", 3, 3),
        ({"repeat": 2, "turns": FAILS}, 13, "0 of 2 runs passed, and 100% had to; step one: ", 0, 2),
        ({"repeat": 2, "turns": FAILS, "pass_rate": 0.0}, 0, "", 0, 2),
        ({"repeat": 3, "turns": FAILS, "fail_fast": True}, 13, "0 of 3 runs passed, and 100% had to; step one: ", 0, 1),
    ],
)
def test_repeats_pass_by_their_rate(
    root: Root, tmp_path: Path, options: dict[str, Any], code: int, why: str, passes: int, steps: int
) -> None:
    result = Played(root, tmp_path, "- {send: worker, id: one, prompt: x}\n", **options).result
    assert (result.exit_code, result.passes, len(result.steps)) == (code, passes, steps)
    assert [step.repeat for step in result.steps] == list(range(1, steps + 1))
    assert result.why.startswith(why) and bool(result.why) == bool(why)


def test_a_rate_that_is_met_exactly_is_met(root: Root, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    passing = {4, 8, 12, 16, 20, 22, 25}  # five failures in a row would open the circuit
    for number in range(1, 26):
        recorded(folder / str(number), worker=[("x", "yes" if number in passing else Class.CRASHED)])
    steps = "- {send: worker, prompt: x}\n"
    result = Played(root, tmp_path, steps, repeat=25, pass_rate=0.28, replay=folder).result
    assert (result.exit_code, result.passes, result.why) == (0, 7, "")
    result = Played(root, tmp_path, steps, repeat=25, pass_rate=0.29, replay=folder).result
    assert (result.exit_code, result.passes) == (13, 7)


def test_a_link_that_a_repeat_put_in_place_of_a_file_of_a_prompt_leads_no_later_repeat_elsewhere(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, secret = root.base / "notes.md", tmp_path / "secret"
    file.write_text("x")
    secret.write_text("y")
    close = HeldAgents.close

    async def close_and_link(agents: Any) -> None:
        await close(agents)
        file.unlink()
        file.symlink_to(secret)

    monkeypatch.setattr(HeldAgents, "close", close_and_link)
    turns: dict[str, list[Turn]] = {"worker": [("x", "one"), ("y", "two")]}
    played = Played(root, tmp_path, "- {send: worker, prompt: {file: notes.md}}\n", repeat=2, turns=turns)
    first, second = played.result.steps
    assert (first.verdict, second.verdict) == (Verdict.PASSED, Verdict.FAILED)
    assert second.why.startswith(f"{file} led to {file} when the run began, and leads elsewhere now")
    assert [event.text for event in root.events("worker@s") if isinstance(event, events.MessageQueued)] == ["x"]


def test_the_file_says_how_often_and_at_which_rate_and_each_repeat_may_have_a_recording_of_its_own(
    root: Root, tmp_path: Path
) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    recorded(folder / "1", worker=[("x", "yes")])
    recorded(folder / "2", worker=[("x", Class.CRASHED)])
    head = "repeat: {times: 2, pass_rate: 0.5}\n"
    result = Played(root, tmp_path, "- {send: worker, prompt: x}\n", head=head, replay=folder).result
    assert (result.exit_code, result.passes, result.repeats) == (0, 1, 2)
    assert [step.verdict.value for step in result.steps] == ["passed", "failed"]
    assert result.replay == ReplayCounts(exact=2)


def test_a_budget_that_is_used_up_ends_the_run_and_skips_the_rest(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str, str]] = []
    monkeypatch.setattr(
        launch,
        "notify_budget",
        lambda context, key, *, agent, text: told.append((key.rpartition("-")[2], agent, text)),
    )
    played = Played(root, tmp_path, STEPS, limits=Spending(cost_usd=0.5), head="limits: {cost_usd: 9, tokens: 1000}\n")
    result = played.result
    why = "the run used $0.5000 of $0.5, its budget"
    assert (result.verdict, result.exit_code, result.why) == (Verdict.FAILED, 7, why)
    assert [(step.verdict.value, step.why) for step in result.steps] == [("passed", ""), ("skipped", why)]
    assert told == [("1", "worker", f"s: {why}; it is stopped")]


def configure(root: Root, *changes: tuple[str, str]) -> None:
    config = root.base / "beam.yaml"
    text = config.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    root.reload()


def test_a_run_counts_and_limits_what_the_failed_attempts_of_a_turn_cost(root: Root, tmp_path: Path) -> None:
    configure(root, ("limits: {}", "policy: {attempts: 2, backoff: 0.0000001}"))
    turns = {"worker": [("x", Class.NETWORK), ("x", "yes")], "other": [("y", "no")]}
    result = Played(root, tmp_path, STEPS, turns=turns).result
    assert result.spent == Spent(turns=2, cost_usd=1.5, tokens=200)
    result = Played(root, tmp_path, STEPS, turns=turns, limits=Spending(cost_usd=1)).result
    assert (result.exit_code, result.why) == (7, "the run used $1.0000 of $1, its budget")
    assert [step.verdict.value for step in result.steps] == ["passed", "skipped"]


def test_a_budget_that_is_nearly_used_up_is_reported_once(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(launch, "notify_budget", lambda context, key, *, agent, text: told.append(text))
    played = Played(root, tmp_path, STEPS, head="limits: {tokens: 240}\n")
    text = "the run has used 200 of 240 tokens"
    assert [each.text for each in played.told if isinstance(each, Warned)] == [text]
    assert (played.result.exit_code, told) == (0, [f"s: {text}"])


def test_a_run_that_takes_too_long_is_stopped(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = playing.StepRunner.run

    async def slow(runner: Any, step: Any) -> StepResult:
        await asyncio.sleep(0.01)
        return await real(runner, step)

    monkeypatch.setattr(playing.StepRunner, "run", slow)
    result = Played(root, tmp_path, STEPS, limits=Spending(time=0.001)).result
    assert (result.exit_code, result.why) == (7, "the run took longer than 0.001 s, its limit")
    assert result.steps[1].verdict is Verdict.SKIPPED


def test_a_run_that_a_person_stops_is_cancelled(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = playing.StepRunner.run

    async def stopped(runner: Any, step: Any) -> StepResult:
        result = await real(runner, step)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0)
        return result

    monkeypatch.setattr(playing.StepRunner, "run", stopped)
    with pytest.raises(SignalledError) as error:
        Played(root, tmp_path, STEPS)
    result: Any = error.value.outcome
    assert (result.exit_code, result.why) == (9, "human (signal)")
    assert [step.verdict.value for step in result.steps] == ["passed", "skipped"]


def test_steps_at_the_same_time_are_shown_in_the_order_of_the_file(root: Root, tmp_path: Path) -> None:
    steps = "- parallel:\n  - {send: worker, id: one, prompt: x}\n  - {send: other, id: two, prompt: y}\n"
    played = Played(root, tmp_path, steps)
    assert played.shown == [
        ("began", "one", "send", ("worker",), 1),
        ("over", "one", "passed", 1),
        ("began", "two", "send", ("other",), 1),
        ("over", "two", "passed", 1),
    ]
    assert [step.id for step in played.result.steps] == ["one", "two"]


def test_a_folder_of_a_steps_model_calls_is_not_taken_for_one_of_a_repeat(root: Root, tmp_path: Path) -> None:
    (tmp_path / "recording" / "1" / "worker-1").mkdir(parents=True)
    assert Played(root, tmp_path, STEPS).result.replay == ReplayCounts(exact=2)


def test_the_model_calls_of_a_run_are_counted(root: Root, tmp_path: Path) -> None:
    asked = Recording(record=str(tmp_path / "calls"), depth="model")
    result = Played(root, tmp_path, '- {check: {command: ["true"]}}\n', recording=asked).result
    assert result.model_calls == ModelCallCounts(recording=asked.record) and result.replay is None


def test_the_settings_of_the_file_count_for_the_run(root: Root, tmp_path: Path) -> None:
    head = "agents: {mine: {command: [cat]}}\n"
    result = Played(root, tmp_path, "- {send: mine, prompt: x}\n", head=head, turns={"mine": [("x", "yes")]}).result
    assert (result.verdict, [turn.agent for turn in result.steps[0].turns]) == (Verdict.PASSED, ["mine"])


# -- the agents of a run -----------------------------------------------------------------------------------------------


def agents(root: Root, tmp_path: Path, name: str = "s", **turns: list[Turn]) -> HeldAgents:
    folder = recorded(tmp_path / "recording", **(turns or {"worker": [("x", "yes"), ("y", "no")]}))
    return HeldAgents(msgspec.structs.replace(root.context, recordings=Replay(folder, "stop")), name)


def say(held_agents: HeldAgents, *texts: str, agent: str = "worker", stop: Stop | None = None) -> list[Any]:
    async def said() -> list[Any]:
        try:
            return [await held_agents.say(agent, text, Options(), seen.append, stop) for text in texts]
        finally:
            await held_agents.close()

    seen: list[events.Event] = []
    found = asyncio.run(said())
    assert {event.message_id for event in seen} == {outcome.message_id for outcome in found}
    return found


def test_an_agent_of_a_run_is_held_from_its_first_turn_to_the_end(root: Root, tmp_path: Path) -> None:
    one = agents(root, tmp_path)
    assert (one.session("worker"), HeldAgents(root.context).session("worker")) == ("worker@s", "worker")
    first, second = say(one, "x", "y")
    assert (first.reply, second.reply, first.turn, second.turn) == ("yes", "no", 1, 2)
    assert (first.agent, one.stopped_by) == ("worker@s", "")
    root.hold("worker@s").close()


def test_what_a_run_sends_is_run_by_this_process_alone(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    put = held.put
    monkeypatch.setattr(held, "put", lambda *given: sent.append(given[2].only_by) or put(*given))
    say(agents(root, tmp_path), "x", "y")
    assert sent == [owner_text(tree.this_process())] * 2


def test_a_run_begins_a_new_session_and_goes_on_in_it(root: Root, tmp_path: Path) -> None:
    lease = root.hold("worker@s")
    lease.log.record(events.TurnStarted(owner=tree.this_process(), turn_key="k", adapter="command", via="exec"), turn=1)
    for body in (
        events.SessionStarted(session_id="old"), events.TurnFinished(status=Status.COMPLETED), events.TurnClosed(),
    ):  # fmt: skip
        lease.log.record(body, turn=1)
    lease.close()
    say(agents(root, tmp_path), "x", "y")
    archived = [event for event in root.events("worker@s") if isinstance(event, events.SessionArchived)]
    assert [(event.session_id, event.reason) for event in archived] == [("old", "a new session was asked for")]


def test_a_stop_reaches_a_turn_that_begins_after_it_though_a_recorded_one_is_over_already(
    root: Root, tmp_path: Path
) -> None:
    one = agents(root, tmp_path)
    one.stop("ann")
    stop = Stop()
    (outcome,) = say(one, "x", stop=stop)
    assert (one.stopped_by, stop.reason, stop.by, stop.hard) == ("ann", "cancelled", "ann", False)
    assert outcome.status is Status.COMPLETED
    one.stop("bob")
    assert one._why_stopped == ("bob", True)


def test_an_agent_that_another_process_holds_is_waited_for_and_then_refused(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = root.hold("worker@s")

    async def sleep(seconds: float) -> None:
        root.clock.sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(UnfinishedError) as error:
        say(agents(root, tmp_path), "x")
    assert (error.value.message, error.value.hint, error.value.subject) == (
        "worker@s is held by another process",
        "wait for it; a scenario that runs already can be run under another name: --name NAME",
        "worker@s",
    )
    assert 2.0 < root.clock.elapsed < 2.2
    other.close()


def test_a_broker_that_holds_the_agent_is_asked_for_it(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = root.hold("worker@s")
    asked: list[tuple[Any, ...]] = []

    def request(context: Any, paths: Any, verb: str, *, by: str) -> Any:
        asked.append((paths.agent, verb, by))
        other.close()
        yield 0.0
        raise UnfinishedError("it was busy")

    monkeypatch.setattr(registry, "broker_serves_root", lambda home: True)
    monkeypatch.setattr("beam.broker.asking.requests.request", request)
    (outcome,) = say(agents(root, tmp_path), "x")
    assert (outcome.reply, asked) == ("yes", [("worker@s", "release", "human")])


def test_an_agent_that_is_blocked_is_refused_and_let_go(root: Root, tmp_path: Path) -> None:
    lease = root.hold("worker@s")
    elsewhere = events.Owner(pid=1, start_ticks=1, boot_id="b", pid_namespace="n", host="another.host")
    started = events.TurnStarted(owner=elsewhere, turn_key="k", adapter="command", via="exec")
    lease.log.record(started, turn=1, sync=True)
    lease.close()
    with pytest.raises(UnfinishedError) as error:
        say(agents(root, tmp_path), "x")
    assert error.value.message.startswith("worker@s is blocked: its last turn ran on host another.host")
    assert error.value.hint == "beam agent unblock worker@s"
    root.hold("worker@s").close()


def test_an_agent_in_a_folder_without_trust_and_one_whose_queue_is_paused_are_refused(
    root: Root, tmp_path: Path
) -> None:
    ask(root, "worker@s", "pause")
    lease = root.hold("worker@s")
    answer_requests(lease)
    lease.close()
    with pytest.raises(UnfinishedError) as paused:
        say(agents(root, tmp_path), "x")
    assert (paused.value.message, paused.value.hint, paused.value.subject) == (
        "the queue of worker@s is paused",
        "beam queue resume worker@s",
        "worker@s",
    )
    root.environ.pop("BEAM_TRUST")
    root.reload()
    with pytest.raises(UntrustedError) as untrusted:
        say(agents(root, tmp_path, name="t"), "x")
    assert (untrusted.value.hint, untrusted.value.subject) == ("beam trust", "worker@t")
    assert untrusted.value.message.startswith("worker@t: ")


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The agents for which a worker would have been started; none is."""
    started: list[str] = []
    monkeypatch.setattr(launch, "start_worker", lambda context, paths: started.append(paths.agent))
    return started


def how_dropped(root: Root, agent: str = "worker@s") -> list[tuple[int, str, Status, str]]:
    """How the messages ended that were dropped while they waited."""
    dead = [each for each in root.events(agent) if isinstance(each, events.MessageDead)]
    return [(each.attempt, each.reason, each.status, each.detail) for each in dead]


def test_a_message_that_rests_for_the_pace_of_its_agent_is_not_run_after_the_run_was_stopped(
    root: Root, tmp_path: Path, workers: list[str]
) -> None:
    configure(root, ("worker: {command: [cat]}", "worker: {command: [cat], pace: 10m}"))
    one = agents(root, tmp_path)

    async def said() -> Outcome:
        try:
            await one.say("worker", "x", Options(), lambda event: None)
            one.stop("ann")
            return await one.say("worker", "y", Options(), lambda event: None)
        finally:
            await one.close()

    outcome = asyncio.run(said())
    why = "stopped by ann, while it waited"
    assert (outcome.status, outcome.exit_code, outcome.reason, outcome.turn) == (Status.CANCELLED, 9, why, None)
    assert (root.boxes("worker@s"), workers) == ({}, [])
    assert how_dropped(root) == [(1, "dropped", Status.CANCELLED, why)]


def test_a_message_that_waits_for_another_attempt_is_not_run_after_it_was_stopped(
    root: Root, tmp_path: Path, workers: list[str]
) -> None:
    configure(root, ("limits: {}", "policy: {attempts: 3}"))
    one, stop = agents(root, tmp_path, worker=[("x", Class.NETWORK), ("x", "yes")]), Stop()

    def seen(event: events.Event) -> None:
        if isinstance(event, events.TurnFinished):
            stop.request("cancelled", by="ann")

    async def said() -> Outcome:
        try:
            return await one.say("worker", "x", Options(), seen, stop)
        finally:
            await one.close()

    outcome = asyncio.run(said())
    why = "stopped by ann, while it waited"
    assert (outcome.status, outcome.attempt, outcome.reason) == (Status.CANCELLED, 2, why)
    assert (root.boxes("worker@s"), workers) == ({}, [])
    assert how_dropped(root) == [(2, "dropped", Status.CANCELLED, why)]


def test_one_message_that_waited_for_its_turn_is_not_run_after_its_replay_was_stopped(
    root: Root, tmp_path: Path, workers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(root, ("worker: {command: [cat]}", "worker: {command: [cat], pace: 10m}"))
    folder = recorded(tmp_path / "recording", worker=[("x", "yes")])
    context = msgspec.structs.replace(root.context, recordings=Replay(folder, "stop"))
    asyncio.run(deliver_here(context, root.place("worker"), root.message("worker", "x"), lambda event: None))

    async def interrupted() -> Outcome:
        asyncio.get_running_loop().call_later(0.1, lambda: os.kill(os.getpid(), signal.SIGTERM))
        return await deliver_here(context, root.place("worker"), root.message("worker", "x"), lambda event: None)

    with pytest.raises(SignalledError) as error:
        asyncio.run(interrupted())
    outcome: Any = error.value.outcome
    assert (outcome.status, outcome.reason) == (Status.CANCELLED, "stopped by human (signal), while it waited")
    assert (root.boxes("worker"), workers) == ({}, [])


def test_a_message_of_a_run_that_its_queue_or_its_folder_refused_is_not_run_later(
    root: Root, tmp_path: Path, workers: list[str]
) -> None:
    ask(root, "worker@s", "pause")
    lease = root.hold("worker@s")
    answer_requests(lease)
    lease.close()
    with pytest.raises(UnfinishedError):
        say(agents(root, tmp_path), "x")
    assert how_dropped(root) == [(1, "dropped", Status.CANCELLED, "the queue of worker@s is paused")]
    root.environ.pop("BEAM_TRUST")
    root.reload()
    with pytest.raises(UntrustedError) as untrusted:
        say(agents(root, tmp_path, name="t"), "x")
    assert how_dropped(root, "worker@t") == [(1, "dropped", Status.CANCELLED, untrusted.value.message)]
    assert (root.boxes("worker@s"), root.boxes("worker@t"), workers) == ({}, {}, [])


def test_a_message_that_waits_in_a_step_whose_task_is_cancelled_is_not_run_later(
    root: Root, tmp_path: Path, workers: list[str]
) -> None:
    configure(root, ("worker: {command: [cat]}", "worker: {command: [cat], pace: 10m}"))
    one = agents(root, tmp_path)

    async def cancelled() -> None:
        try:
            await one.say("worker", "x", Options(), lambda event: None)
            async with asyncio.timeout(0.1):
                await one.say("worker", "y", Options(), lambda event: None)
        finally:
            await one.close()

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())
    assert (root.boxes("worker@s"), workers) == ({}, [])
    assert how_dropped(root) == [(1, "dropped", Status.CANCELLED, "the run was ended")]


@pytest.mark.parametrize(
    ("agent", "via", "is_returning", "keeps"),
    [
        ("worker", None, True, False),
        ("claude", None, True, True),
        ("claude", None, False, False),
        ("claude", "dialogue", False, True),
        ("claude", "exec", True, False),
        ("claude", "nonsense", True, False),
    ],
)
def test_the_process_of_an_agent_is_kept_between_its_turns_where_its_protocol_tells_as_much(
    root: Root, agent: str, via: str | None, is_returning: bool, keeps: bool
) -> None:
    one = HeldAgents(root.context, "s", multi_turn=frozenset({agent} if is_returning else ()))
    assert one._keeps_process(f"{agent}@s", via) is keeps


def test_nothing_is_kept_in_a_replay(root: Root, tmp_path: Path) -> None:
    assert agents(root, tmp_path)._keeps_process("claude@s", "dialogue") is False


def test_one_message_is_delivered_in_this_process(root: Root, tmp_path: Path) -> None:
    folder = recorded(tmp_path / "recording", worker=[("x", "yes")])
    context = msgspec.structs.replace(root.context, recordings=Replay(folder, "stop"))
    seen: list[events.Event] = []
    message = root.message("worker", "x")
    outcome = asyncio.run(deliver_here(context, root.place("worker"), message, seen.append))
    assert (outcome.reply, outcome.message_id, outcome.agent) == ("yes", message.id, "worker")
    assert [type(event).__name__ for event in seen][-1] == "TurnClosed"
    root.hold("worker").close()


def test_a_branch_that_is_there_is_refused_before_anything_runs(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Trees:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def remove_leftovers(self, folder: Path) -> list[str]:
            return ["beam/old"]

        def has_commit(self, commit: str) -> bool:
            return commit == "refs/heads/mine-2"

    monkeypatch.setattr(repeat_worktree, "RunWorktrees", Trees)
    told: list[RunProgress] = []
    text = "beam: 1\nworktree: {branch: mine}\nsteps:\n- {send: worker, prompt: x}\n"
    scenario = parse(text.encode(), root.base / "s.yaml", {}, name="s.yaml")
    folder = recorded(tmp_path / "recording", worker=[("x", "yes")])
    with pytest.raises(ConfigError) as error:
        asyncio.run(
            play(scenario, root.context, RunOptions(recording=Recording(replay=str(folder)), repeat=2), told.append)
        )
    assert error.value.message == "s.yaml:2:12: worktree.branch: there is a branch mine-2 already"
    assert told == [Warned("a run was killed before; what it changed is in the branch beam/old")]


class Worktrees:
    """Work trees in memory; `did` is what was done with them."""

    def __init__(self, error: BeamError | None = None) -> None:
        self.did: list[tuple[Any, ...]] = []
        self._error = error

    def abandon(self, path: Path) -> None:
        self.did.append(("abandon", path))

    def unlock(self, path: Path) -> None:
        self.did.append(("unlock", path))
        raise UsageError("it was not locked")

    def end(self, *given: Any) -> WorktreeResult:
        self.did.append(("end", *given))
        if self._error is not None:
            raise self._error
        return WorktreeResult(branch="b", files=("a.py",))


WANTED = Worktree(branch="b")


@pytest.mark.parametrize("before", ["tree-1", ""])
def test_a_work_tree_whose_files_were_never_looked_at_is_abandoned_and_its_branch_stays(before: str) -> None:
    trees = Worktrees()
    one = repeat_worktree.RepeatWorktree(cast(Any, trees), cast(Any, "changes"), Path("/w"), "b", WANTED)
    assert one.end(before) == (WorktreeResult(branch="b", files=("a.py",)) if before else WorktreeResult(branch="b"))
    assert trees.did == [("end", "changes", Path("/w"), "b", WANTED, "tree-1") if before else ("abandon", Path("/w"))]
    assert one.lost == ""


def test_changes_that_can_not_be_committed_stay_where_they_are() -> None:
    trees = Worktrees(UsageError("git failed"))
    one = repeat_worktree.RepeatWorktree(cast(Any, trees), cast(Any, "changes"), Path("/w"), "b", WANTED)
    assert one.end("tree-1") == WorktreeResult(branch="b", path="/w", diff="git failed\n")
    assert (one.lost, trees.did[-1]) == ("what the run changed stays in /w: git failed", ("unlock", Path("/w")))


@pytest.mark.parametrize(
    ("branch", "times", "made"), [("mine", 1, "mine"), ("mine", 3, "mine-2"), ("", 3, "beam/s-00000001")]
)
def test_each_repeat_has_a_work_tree_and_a_branch_of_its_own(
    root: Root, monkeypatch: pytest.MonkeyPatch, branch: str, times: int, made: str
) -> None:
    added: list[tuple[Any, ...]] = []

    class Trees:
        def __init__(self, *given: Any, **more: Any) -> None:
            added.append((*given, more))

        def add(self, *given: Any) -> str:
            added.append(given)
            return "changes"

    monkeypatch.setattr(repeat_worktree, "RunWorktrees", Trees)
    text = f"beam: 1\nworktree: {{branch: '{branch}'}}\nsteps:\n- {{send: worker, prompt: x}}\n"
    text = text.replace("{branch: ''}", "true")
    scenario = parse(text.encode(), root.base / "s.yaml", {}, name="s.yaml")
    found = asyncio.run(repeat_worktree.RepeatWorktrees(scenario, root.context, times).add(2))
    assert found is not None and found.changes == "changes"
    folder = data_dir(root.environ) / "worktrees"
    assert added == [
        (root.base, root.environ, {"store": root.context.home.root}),
        (folder / "s-00000001", made, "HEAD"),
    ]


def test_a_scenario_without_a_work_tree_has_none(root: Root) -> None:
    scenario = parse(b"beam: 1\nsteps:\n- {send: worker, prompt: x}\n", root.base / "s.yaml", {}, name="s.yaml")
    trees = repeat_worktree.RepeatWorktrees(scenario, root.context, 1)
    assert asyncio.run(trees.add(1)) is None
    asyncio.run(trees.check_branches(lambda text: pytest.fail("nothing to say")))


def test_the_work_tree_of_a_run_is_ended_and_what_was_lost_fails_the_run(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[Any] = []

    class Changes:
        folder = root.base

        def leave_out(self, paths: Any) -> None:
            did.append(("leave out", list(paths)))

        def is_in_repository(self) -> bool:
            return True

        def snapshot(self) -> str:
            return "tree-1"

        def close(self) -> None:
            did.append("close")

    class Tree:
        changes = Changes()
        lost = "what the run changed stays in /w: git failed"

        def end(self, before: str) -> WorktreeResult:
            did.append(("end", before))
            return WorktreeResult(branch="b", path="/w")

    async def add(trees: Any, number: int) -> Any:
        return Tree()

    async def check_branches(trees: Any, warn: Any) -> None:
        pass

    restores: list[bool] = []
    begin = step_files.StepFiles.begin

    async def began(files: Any) -> None:
        restores.append(files.restores)
        await begin(files)

    monkeypatch.setattr(step_files.StepFiles, "begin", began)
    monkeypatch.setattr(repeat_worktree.RepeatWorktrees, "add", add)
    monkeypatch.setattr(repeat_worktree.RepeatWorktrees, "check_branches", check_branches)
    result = Played(root, tmp_path, "- {send: worker, prompt: x}\n", head="worktree: true\n").result
    assert result.worktrees == (WorktreeResult(branch="b", path="/w"),)
    assert (result.verdict, result.exit_code, result.why) == (Verdict.FAILED, 1, Tree.lost)
    assert did == [("leave out", [tmp_path / "recording"]), ("end", "tree-1"), "close"]
    assert restores == [True]
