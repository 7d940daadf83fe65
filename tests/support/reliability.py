"""The README's reliability table: each promise with the test that proves it, its figure taken from the test itself."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

from msgspec import Struct

from beam.base.faults import CRASH_POINTS

TOP = Path(__file__).parents[2]


def figure(test: str, name: str) -> int:
    """The number that a test's module has under that name; of a list, how long it is."""
    value = getattr(importlib.import_module(f"tests.{test}"), name)
    return int(value) if isinstance(value, int | float) else len(value)


class Claim(Struct, frozen=True):
    """What is claimed, what is done to show it, and by which test (`file::function`).

    The figures are those of `make test`; `soak` is what `make soak` does beyond that.
    """

    promise: str
    trial: str
    test: str
    soak: str = ""

    @property
    def is_there(self) -> bool:
        """Whether there is such a test."""
        file, _, name = self.test.partition("::")
        tree = ast.parse((TOP / "tests" / file).read_text())
        return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


CLAIMS = (
    Claim(
        "after random kills: no message is lost, none silently runs twice, no process is left",
        f"{figure('test_random_kills', 'KILLS'):,} random SIGKILLs of broker, workers, senders and guards; "
        f"{figure('test_random_kills', 'SENDERS')} senders, {figure('test_random_kills', 'AGENTS')} agents, "
        "replies between them",
        "test_random_kills.py::test_holders_and_guards_killed_at_random_lose_nothing_and_do_nothing_twice_in_silence",
        soak=f": {figure('test_random_kills', 'SOAK_KILLS'):,}",
    ),
    Claim(
        "the same under concurrent use of every command",
        f"{figure('test_storm', 'MESSAGES'):,} messages to agents that count what they do, with kept terminals, asks, "
        "leases, lanes and outboxes; retry, drop, edit, reset, pause, interrupt, gc, and processes killed and stopped",
        "test_storm.py::test_in_a_storm_nothing_is_lost_and_nothing_is_done_twice_unless_unknown_was_said",
        soak=f": {figure('test_storm', 'SOAK_MESSAGES'):,}",
    ),
    Claim(
        "a program that ignores its prompt also acts at most once",
        f"{figure('test_nothing_twice', 'KILLS'):,} sends to programs that act at once, each killed at a random "
        "moment of its turn",
        "test_nothing_twice.py::test_of_killed_sends_none_acts_twice_and_none_acts_unsaid",
        soak=f": {figure('test_nothing_twice', 'SOAK_KILLS'):,}",
    ),
    Claim(
        "a crash after any durable step is recovered from",
        f"SIGKILL at each of {len(CRASH_POINTS)} named points",
        "test_crash_points.py::test_every_point_is_in_a_row_of_the_table",
    ),
    Claim(
        "a power cut at any moment is recovered from",
        f"{figure('test_power_loss', 'SCENES')} scenes, cut after every change, with every part of what was not synced "
        "left out, or zeros in its place; "
        f"{figure('test_power_loss', 'SCENES') * figure('test_power_loss', 'DRAWN'):,} different disks",
        "test_power_loss.py::test_after_a_power_cut_every_promise_is_kept",
        soak=f": every part of up to {figure('test_power_loss', 'MAX_OUTSTANDING')} changes",
    ),
    Claim(
        "disk errors are reported and change nothing, and beam works again after them",
        f"{figure('test_disk_faults', 'ROWS')} operations: each of their system calls fails with each of "
        f"{figure('test_disk_faults', 'ERRORS')} errors, once, from then on, and in pairs",
        "test_disk_faults.py::test_each_fault_is_said_changes_nothing_and_passes",
    ),
    Claim(
        "no message is forgotten when the lock changes hands",
        f"{figure('test_hand_over', 'ROUNDS'):,} messages of {figure('test_hand_over', 'SENDERS')} senders, published "
        "without a pause, with another holder for almost each message",
        "test_hand_over.py::test_no_message_is_stranded_however_often_the_lock_changes_hands",
        soak=f": {figure('test_hand_over', 'SOAK_ROUNDS'):,}",
    ),
    Claim(
        "an agent is run by one process at a time",
        "a broker, ten `beam send` and a worker at once",
        "broker/test_acceptance_broker.py::test_a_broker_ten_sends_and_a_worker_at_once_are_one_holder_at_a_time",
    ),
    Claim(
        "the same while beam is upgraded",
        "a broker of another version takes over while a turn runs; `beam send` of both before, between and after",
        "broker/test_acceptance_broker.py::"
        "test_a_broker_is_upgraded_while_a_turn_runs_and_the_agent_has_one_holder_at_all_times",
    ),
    Claim(
        "a broker's memory stays flat over time",
        f"{figure('test_soak', 'MINUTES')} minutes of load on {figure('test_soak', 'AGENTS')} agents "
        f"(`make soak` alone): after {figure('test_soak', 'WARM_UP_MINUTES')} minutes memory rises by less than "
        f"{figure('test_soak', 'MAX_MB')} MB, descriptors not at all",
        "test_soak.py::test_memory_and_descriptors_of_a_broker_stay_flat_under_a_steady_load",
    ),
    Claim(
        "two agents that answer each other stop at a limit",
        "20 hops, then exit code 7 and the reason",
        "broker/test_acceptance_rings.py::test_two_agents_that_always_answer_each_other_stop_at_the_limit_and_say_why",
    ),
    Claim(
        "agents whose messages multiply stop at a limit",
        f"every turn sends two messages: {figure('broker.test_acceptance_rings', 'TREE_TURNS')} turns "
        "(`policy: thread_turns`, default 1,000), then exit code 7 and the reason",
        "broker/test_acceptance_rings.py::test_agents_whose_every_turn_sends_two_messages_stop_when_the_thread_used_up_its_turns",
    ),
)


def lines() -> list[tuple[str, ...]]:
    """The table's lines."""
    return [
        (
            claim.promise,
            claim.trial + (f" (`make soak`{claim.soak})" if claim.soak else ""),
            f"[{Path(file := claim.test.partition('::')[0]).stem}](tests/{file})",
        )
        for claim in CLAIMS
    ]
