"""Usage limits of accounts: who waits for them, until when, and what they use up."""

from __future__ import annotations

import msgspec
import pytest

from beam.base.clock import rfc3339
from beam.broker.inbox import failure, launch, usage_limit
from beam.model.events import TurnFinished
from beam.model.outcome import Class, Status
from beam.model.settings import AgentSettings, Policy
from tests.support.context import NOON_NS, SECOND_NS, Root

CLAUDE = AgentSettings(adapter="claude")
HOME = {"HOME": "/home/me", "ANTHROPIC_API_KEY": "a"}


def waiting(root: Root, **policy: object) -> Policy:
    """The policy of the root from now on: it waits for usage limits."""
    made = msgspec.structs.replace(root.context.config.policy, usage_limit="wait", **policy)
    root.context = msgspec.structs.replace(
        root.context, config=msgspec.structs.replace(root.context.config, policy=made)
    )
    return made


def limited(*, resets_at: str | msgspec.UnsetType = msgspec.UNSET, attempt: int = 1, at: int = NOON_NS) -> TurnFinished:
    return TurnFinished(
        status=Status.FAILED, class_=Class.RATE_LIMIT, attempt=attempt, resets_at=resets_at, ts=rfc3339(at)
    )


@pytest.mark.parametrize(
    ("other", "environ", "same"),
    [
        (AgentSettings(adapter="claude", model="opus", access="full"), HOME, True),
        (CLAUDE, {**HOME, "EDITOR": "vi", "PATH": "/bin"}, True),
        (AgentSettings(adapter="codex"), HOME, False),
        (CLAUDE, {**HOME, "ANTHROPIC_API_KEY": "b"}, False),
        (AgentSettings(adapter="claude", env={"ANTHROPIC_API_KEY": "b"}), HOME, False),
        (AgentSettings(adapter="claude", env={"CLAUDE_CONFIG_DIR": "/other"}), HOME, False),
        (AgentSettings(adapter="claude", env={"CLAUDE_CODE_OAUTH_TOKEN": "b"}), HOME, False),
        (AgentSettings(adapter="claude", runner=("ssh", "box", "{command}")), HOME, False),
        (CLAUDE, {**HOME, "HOME": "/home/you"}, False),
    ],
)
def test_an_account_is_an_adapter_with_one_login(other: AgentSettings, environ: dict[str, str], same: bool) -> None:
    mine, its = usage_limit.account_of(CLAUDE, HOME), usage_limit.account_of(other, environ)
    assert (mine == its) is same
    assert "/home/me" not in mine


def test_the_account_in_the_settings_wins_over_all_that_the_environment_says() -> None:
    one = AgentSettings(adapter="claude", account="work")
    other = AgentSettings(adapter="acp", account="work", env={"ANTHROPIC_API_KEY": "b"})
    assert (
        usage_limit.account_of(one, HOME) == usage_limit.account_of(other, {}) != usage_limit.account_of(CLAUDE, HOME)
    )


def test_a_message_waits_for_the_end_of_the_limit_and_keeps_its_attempts(root: Root) -> None:
    policy = waiting(root, attempts=1)
    message = root.message("worker", attempt=7, limited=6)
    ends = rfc3339(NOON_NS + 5 * 3600 * SECOND_NS)
    found = failure.next_attempt(policy, message, limited(resets_at=ends, attempt=7))
    assert found is not None
    retried, not_before = found
    assert (retried.attempt, retried.limited) == (8, 7)
    assert ends < not_before < rfc3339(NOON_NS + (5 * 3600 + 60) * SECOND_NS)


def test_only_attempts_that_were_no_usage_limit_are_counted(root: Root) -> None:
    policy = waiting(root, attempts=2)
    crashed = TurnFinished(status=Status.FAILED, class_=Class.NETWORK, attempt=7, ts=rfc3339(NOON_NS))
    assert failure.next_attempt(policy, root.message("worker", attempt=7, limited=6), crashed) is not None
    assert failure.next_attempt(policy, root.message("worker", attempt=7, limited=5), crashed) is None


def test_without_a_known_end_the_pauses_grow_up_to_a_quarter_of_an_hour(root: Root) -> None:
    pauses = [
        usage_limit.next_try(root.message("worker", limited=tries), limited()) for tries in (0, 1, 2, 3, 4, 10**9)
    ]
    assert pauses == [rfc3339(NOON_NS + minutes * 60 * SECOND_NS) for minutes in (1, 2, 4, 8, 15, 15)]


def test_a_named_time_that_is_over_is_no_reason_to_try_again_and_again(root: Root) -> None:
    over = limited(resets_at=rfc3339(NOON_NS - SECOND_NS))
    pauses = [usage_limit.next_try(root.message("worker", limited=tries), over) for tries in (0, 1, 20)]
    assert pauses == [rfc3339(NOON_NS + seconds * SECOND_NS) for seconds in (2, 4, 900)]


def test_without_the_policy_a_usage_limit_is_a_failure_like_others(root: Root) -> None:
    policy = root.context.config.policy
    assert policy.usage_limit == "fail"
    ends = limited(resets_at=rfc3339(NOON_NS + SECOND_NS))
    assert failure.next_attempt(policy, root.message("worker"), ends) is None
    usage_limit.record(root.context, "worker", ends, rfc3339(NOON_NS + 60 * SECOND_NS))
    assert usage_limit.limited_account(root.context, root.context.settings_of("worker")) is None


def test_every_agent_of_the_account_waits_and_no_other(root: Root) -> None:
    waiting(root)
    root.put("worker")
    root.put("other")
    until = rfc3339(NOON_NS + 60 * SECOND_NS)
    usage_limit.record(root.context, "worker", limited(), until)
    for agent, pause in (("worker", 60.0), ("other", 60.0)):
        lease = root.hold(agent)
        assert lease.waiting.pause_s(lease.waiting.scan()[0], lease.log.context.settings_of(agent)) == pause
        own = msgspec.structs.replace(lease.log.context.config.resolve(agent).settings, account="mine")
        assert lease.waiting.pause_s(lease.waiting.scan()[0], own) == 0
        root.clock.now += 60 * SECOND_NS
        assert lease.waiting.pause_s(lease.waiting.scan()[0], lease.log.context.settings_of(agent)) == 0
        root.clock.now -= 60 * SECOND_NS
        lease.close()


def test_a_person_is_told_of_a_limit_once_however_many_agents_run_into_it(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(launch, "notify_budget", lambda context, key, *, agent, text: told.append(agent))
    waiting(root)
    for agent, seconds in (("worker", 60), ("other", 61), ("worker", 62)):
        usage_limit.record(root.context, agent, limited(), rfc3339(NOON_NS + seconds * SECOND_NS))
    root.clock.now += 62 * SECOND_NS
    usage_limit.record(root.context, "other", limited(), rfc3339(NOON_NS + 99 * SECOND_NS))
    assert told == ["worker", "other"]


def test_a_later_end_stays_and_an_answer_of_a_newer_turn_ends_the_wait(root: Root) -> None:
    waiting(root)
    settings = root.context.settings_of("worker")
    late, early = (rfc3339(NOON_NS + minutes * 60 * SECOND_NS) for minutes in (9, 3))
    usage_limit.record(root.context, "worker", limited(), late)
    usage_limit.record(root.context, "other", limited(), early)
    found = usage_limit.limited_account(root.context, settings)
    assert found is not None and (found.until, found.agent) == (late, "worker")
    answered = TurnFinished(status=Status.COMPLETED, ts=rfc3339(NOON_NS + 5 * SECOND_NS), duration_s=6.0)
    usage_limit.forget(root.context, "worker", answered)
    assert usage_limit.limited_account(root.context, settings) is not None, "it began before the limit was reached"
    usage_limit.forget(root.context, "worker", msgspec.structs.replace(answered, duration_s=4.0))
    assert usage_limit.limited_account(root.context, settings) is None


@pytest.mark.parametrize("data", [b"", b"{}", b'{"until": "x", "since": "y", "agent": "a"}', b"[" * 5000, b"\xff"])
def test_a_file_that_says_no_time_stops_nobody(root: Root, data: bytes) -> None:
    waiting(root)
    settings = root.context.settings_of("worker")
    usage_limit.record(root.context, "worker", limited(), rfc3339(NOON_NS + 60 * SECOND_NS))
    (path,) = (root.base.parent / ".local/state/beam/accounts").iterdir()
    path.write_bytes(data)
    assert usage_limit.limited_account(root.context, settings) is None


def test_a_clock_that_was_set_back_stops_nobody_for_longer(root: Root) -> None:
    waiting(root)
    usage_limit.record(root.context, "worker", limited(), rfc3339(NOON_NS + 60 * SECOND_NS))
    root.clock.now -= 3600 * SECOND_NS
    assert usage_limit.limited_account(root.context, root.context.settings_of("worker")) is None
