"""Decides how beam reacts to failures: retries, the circuit breaker, budgets. Pure: values and the current time go in,
a decision comes out.

Every decision becomes an event (message.requeued, circuit.opened, circuit.closed, message.dead), which the holder
writes.
"""

from msgspec import Struct

from beam.model.message import Spent
from beam.model.outcome import ANSWERS, Class, Status

_TRANSIENT = (Class.RATE_LIMIT, Class.OVERLOADED, Class.NETWORK)
# Failures that say something about the agent or its vendor, not about the message.
_TROUBLE = frozenset(
    {Class.AUTH, Class.RATE_LIMIT, Class.OVERLOADED, Class.NETWORK, Class.STALLED, Class.CRASHED, Class.NOT_INSTALLED}
)

MAX_FAILURES = 1000  # in a row that are remembered: with a larger `circuit_failures` the circuit never opens
_MAX_DOUBLINGS = 1000  # of a pause; a float can't hold many more


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`policy:` of beam.yaml. Times are in seconds.

    A message whose turn failed with a class in `retry` is tried again, until it has had `attempts` attempts in all. The
    pause before the next attempt is `backoff` × 2^(attempt - 1), at most `backoff_max`, plus a random part of up to
    `jitter` times that pause. After an attempt with an unknown outcome, the message is tried again immediately if the
    number of that attempt is at most `retry_unknown` (0: never); the agent may then do its work a second time.
    `circuit_failures` failures within `circuit_window` open the circuit breaker for `circuit_open`; after that time,
    one message is tried. With more than 1000 `circuit_failures` it never opens. `thread_turns` and `thread_cost_usd`
    limit the usage of one thread with all its branches, `root_turns` and `root_cost_usd` the usage of this root; null:
    no limit. The turns of a thread are always limited, because the limit of hops does not stop a thread in which every
    turn sends two messages.
    """

    attempts: int = 1
    retry: tuple[Class, ...] = _TRANSIENT
    backoff: float = 2.0
    backoff_max: float = 60.0
    jitter: float = 0.2
    retry_unknown: int = 0
    circuit_failures: int = 5
    circuit_window: float = 60.0
    circuit_open: float = 30.0
    thread_turns: int = 1000
    thread_cost_usd: float | None = None
    root_turns: int | None = None
    root_cost_usd: float | None = None


def retry_delay(policy: Policy, status: Status, class_: Class | None, attempt: int, chance: float) -> float | None:
    """Return the seconds until the next attempt, if attempt number `attempt` of a message ended with this status and
    class; None if the message is not tried again.

    `chance` is a random number in [0, 1).
    """
    if status is Status.UNKNOWN:
        return 0.0 if attempt <= policy.retry_unknown else None
    if status is not Status.FAILED or class_ not in policy.retry or attempt >= policy.attempts:
        return None
    return backoff_pause(policy, attempt) * (1 + policy.jitter * chance)


def backoff_pause(policy: Policy, attempt: int) -> float:
    """Return the pause after attempt number `attempt`, in seconds, without its random part."""
    return min(policy.backoff * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS), policy.backoff_max)


class Circuit(Struct, frozen=True, kw_only=True):
    """The circuit breaker of one agent: `failures` are the times of the latest failures (seconds), `until` is the time
    until which the breaker is open (None: it is closed).

    After `until` the breaker is half open: one message is tried, and its outcome closes the breaker or opens it again.
    """

    failures: tuple[float, ...] = ()
    until: float | None = None

    def state(self, now: float) -> str:
        """Return the state of the breaker: `closed`, `open` or `half open`."""
        if self.until is None:
            return "closed"
        return "open" if now < self.until else "half open"


def is_trouble(status: Status, class_: Class | None) -> bool:
    """Return whether an outcome indicates trouble with the agent or its vendor, rather than with the message."""
    return status is Status.FAILED and class_ in _TROUBLE


def is_answer(status: Status) -> bool:
    """Return whether the status means that the agent did its work, whatever the answer was."""
    return status in ANSWERS


def circuit_after(policy: Policy, circuit: Circuit, status: Status, class_: Class | None, now: float) -> Circuit:
    """Return the circuit breaker after an outcome.

    An answer closes the breaker. A failure that the message itself caused (a bad request, say) changes nothing. Any
    other failure is counted, and opens the breaker if there were too many or if the breaker was not closed.
    """
    if is_answer(status):
        return Circuit()
    if not is_trouble(status, class_):
        return circuit
    recent = tuple(time for time in circuit.failures if now - time < policy.circuit_window)
    failures = (*recent, now)[-policy.circuit_failures :]
    if circuit.until is not None or len(failures) >= policy.circuit_failures:
        return Circuit(failures=failures, until=now + policy.circuit_open)
    return Circuit(failures=failures)


def exceeded_budget(policy: Policy, thread: Spent, root: Spent | None) -> str | None:
    """Return a text that says which budget is used up, so that the message may not run; None if it may run. `root` is
    needed only if the policy limits the root."""
    for name, limit, used in (
        ("thread_turns", policy.thread_turns, thread.turns),
        ("thread_cost_usd", policy.thread_cost_usd, thread.cost_usd),
        ("root_turns", policy.root_turns, root.turns if root else 0),
        ("root_cost_usd", policy.root_cost_usd, root.cost_usd if root else 0.0),
    ):
        if limit is not None and used >= limit:
            return f"{name} is {limit:g}, and {used:g} were used"
    return None


def max_spent(one: Spent, other: Spent) -> Spent:
    """Return the larger number of turns and the larger cost. `one` and `other` count the same usage, and either count
    may be incomplete."""
    return Spent(turns=max(one.turns, other.turns), cost_usd=max(one.cost_usd, other.cost_usd))


def has_root_budget(policy: Policy) -> bool:
    """Return whether the policy limits the usage of the whole root. If so, `exceeded_budget` needs its argument
    `root`."""
    return policy.root_turns is not None or policy.root_cost_usd is not None
