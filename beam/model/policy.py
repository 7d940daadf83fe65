"""The reaction to failures: retries, the circuit breaker, budgets. Pure: values and `now` in, a decision out.

Every decision becomes an event (message.requeued, circuit.opened, circuit.closed, message.dead); the holder writes it.
"""

from msgspec import Struct

from beam.model.message import Spent
from beam.model.outcome import ANSWERS, Class, Status

_TRANSIENT = (Class.RATE_LIMIT, Class.OVERLOADED, Class.NETWORK)
# Failures that say something about the agent or its vendor, not about the message.
_TROUBLE = frozenset(
    {Class.AUTH, Class.RATE_LIMIT, Class.OVERLOADED, Class.NETWORK, Class.STALLED, Class.CRASHED, Class.NOT_INSTALLED}
)


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`policy:` of beam.yaml. Times are seconds.

    A turn that failed with a class of `retry` is run again, up to `attempts` in all, after `backoff` × 2^(attempt - 1)
    and at most `backoff_max`, plus up to `jitter` of that. `retry_unknown` allows that many attempts after an unknown
    outcome: the agent may then do its work twice. `circuit_failures` failures within `circuit_window` open the circuit
    for `circuit_open`; then one message is tried. Budgets limit what one thread, with all its branches, or this root
    may use; null: no limit. The turns of a thread are always limited (`thread_turns`), because the limit of hops does
    not stop a thread in which every turn sends two messages.
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


def retry_in(policy: Policy, status: Status, class_: Class | None, attempt: int, chance: float) -> float | None:
    """Return the seconds until the next attempt of a message whose `attempt` ended like this; None to give up.

    `chance` is a random number in [0, 1).
    """
    if status is Status.UNKNOWN:
        return 0.0 if attempt <= policy.retry_unknown else None
    if status is not Status.FAILED or class_ not in policy.retry or attempt >= policy.attempts:
        return None
    pause = min(policy.backoff * 2.0 ** (attempt - 1), policy.backoff_max)
    return pause * (1 + policy.jitter * chance)


class Circuit(Struct, frozen=True, kw_only=True):
    """The circuit breaker of one agent: the times of its last failures (seconds), and until when it is open (None:
    closed).

    Past `until` it is half open: one message is tried, and its outcome closes the circuit or opens it again.
    """

    failures: tuple[float, ...] = ()
    until: float | None = None

    def state(self, now: float) -> str:
        """Return the state: closed, open, or half open."""
        if self.until is None:
            return "closed"
        return "open" if now < self.until else "half open"


def is_trouble(status: Status, class_: Class | None) -> bool:
    """Return whether an outcome indicates trouble with the agent or its vendor, rather than with the message."""
    return status is Status.FAILED and class_ in _TROUBLE


def is_answer(status: Status) -> bool:
    """Return whether the agent did its work, whatever it answered."""
    return status in ANSWERS


def circuit_after(policy: Policy, circuit: Circuit, status: Status, class_: Class | None, now: float) -> Circuit:
    """Return the breaker after an outcome.

    A failure that the message itself caused (bad request, denied …) changes nothing.
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


def over_budget(policy: Policy, thread: Spent, root: Spent | None) -> str | None:
    """Return why a message may not run any more; None if it may. `root` is needed only if the policy limits it."""
    for name, limit, used in (
        ("thread_turns", policy.thread_turns, thread.turns),
        ("thread_cost_usd", policy.thread_cost_usd, thread.cost_usd),
        ("root_turns", policy.root_turns, root.turns if root else 0),
        ("root_cost_usd", policy.root_cost_usd, root.cost_usd if root else 0.0),
    ):
        if limit is not None and used >= limit:
            return f"{name} is {limit:g}, and {used:g} were used"
    return None


def more(one: Spent, other: Spent) -> Spent:
    """Return the larger number of turns and the larger cost of two counts of the same usage, either of which may be
    incomplete."""
    return Spent(turns=max(one.turns, other.turns), cost_usd=max(one.cost_usd, other.cost_usd))


def bounds_root(policy: Policy) -> bool:
    """Return whether `over_budget` needs to know what the root used."""
    return policy.root_turns is not None or policy.root_cost_usd is not None
