"""The settings of one agent, and the limits and the policy of a root: the values that result from beam.yaml,
agent.json, the environment and flags.

The policy decides how beam reacts to failures: retries, the circuit breaker, budgets. Every decision becomes an event
(message.requeued, circuit.opened, circuit.closed, message.dead), which the holder writes. Pure: values and the current
time go in, a decision comes out.
"""

import math
from typing import Any, Literal

import msgspec
from msgspec import Struct

from beam.model.message import RANK, Access, RuleLists, Spent
from beam.model.outcome import ANSWERS, Class, Status

MIB = 1024 * 1024
KIB = 1024
# Of an agent whose settings don't say it, in seconds.
TIMEOUT_S, IDLE_TIMEOUT_S, LEASE_S, KEEP_S = 30 * 60.0, 10 * 60.0, 10 * 60.0, 15 * 60.0


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits that beam enforces when a message is put into a queue and during its turn, however beam was called.

    Each limit can be set under `limits:` in `beam.yaml`.
    """

    text_bytes: int = MIB
    argv_text_bytes: int = 120 * KIB  # one argument on Linux holds 128 KiB, its NUL included
    waiting: int = 100
    hops: int = 20
    replies: int = 1  # successive answers to one message between agents: an answer, then the answer to it, and so on
    sends: int = 100  # requests of one turn: messages, replies, interrupts and denials
    ask_timeout: float = 10 * 60.0
    grace: float = 5.0
    agents: float = math.inf  # that may work at once, sessions and --once messages included
    kept: int = 8  # processes that a broker keeps between turns; of more than these, the least recently used ends
    line_bytes: int = 64 * MIB  # one line of an agent's output; the rest of a longer one is dropped, with a notice
    stderr_lines: int = 500
    segment_bytes: int = 4 * MIB
    known_ids_days: int = 30
    deltas_per_second: int = 20
    deaths_before_prompt: int = 3
    start_attempts: int = 10  # of one message, while the system has no room to start its agent

    @property
    def known_ids_ns(self) -> int:
        """Return for how long a journal remembers a message that is over. That is at least a minute, because a process
        that waits for the message must still find it."""
        return max(60, self.known_ids_days * 24 * 3600) * 1_000_000_000


DEFAULT_LIMITS = Limits()


_TRANSIENT = (Class.RATE_LIMIT, Class.OVERLOADED, Class.NETWORK)
# Failures that say something about the agent or its vendor, not about the message.
_TROUBLE = frozenset(
    {Class.AUTH, Class.RATE_LIMIT, Class.OVERLOADED, Class.NETWORK, Class.STALLED, Class.CRASHED, Class.NOT_INSTALLED}
)

MAX_FAILURES = 1000  # in a row that are remembered: with a larger `circuit_failures` the circuit never opens
_MAX_DOUBLINGS = 1000  # of a pause; a float can't hold many more


class FallbackAgent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent that answers in place of another one, with this model (null: its own)."""

    agent: str
    model: str | None = None


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`policy:` of beam.yaml. Times are in seconds.

    A message whose turn failed with a class in `retry` is tried again, until it has had `attempts` attempts in all. The
    pause before the next attempt is `backoff` × 2^(attempt - 1), at most `backoff_max`, plus a random part of up to
    `jitter` times that pause. After an attempt with an unknown outcome, the message is tried again immediately if the
    number of that attempt is at most `retry_unknown` (0: never); the agent may then do its work a second time.
    `circuit_failures` failures within `circuit_window` open the circuit breaker for `circuit_open`; after that time,
    one message is tried. With more than 1000 `circuit_failures` it never opens. `usage_limit`: what happens to
    a message whose turn ended at a usage limit of its account (class `rate_limit`). With `wait`, all messages to agents
    of that account wait until the limit ends, and this message uses up no attempt; with `fail`, it is a failure like
    others. `fallback`: who answers a message whose agent can't be asked now (class `rate_limit`, `overloaded` or
    `auth` before its first tool call, or an open circuit): other models of the agent, as text, then other agents, as
    `{agent: codex}`. `thread_turns` and `thread_cost_usd`
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
    usage_limit: Literal["fail", "wait"] = "fail"
    fallback: tuple[str | FallbackAgent, ...] = ()
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


DURATIONS = frozenset(  # the fields of settings, limits and policy that may be written like 1h30m
    {"timeout", "idle_timeout", "ask_timeout", "grace", "lease", "keep", "pace"}
    | {"backoff", "backoff_max", "circuit_window", "circuit_open"}
)
ENVELOPES = ("none", "short", "full")  # values of `envelope`; any other value is the text of an envelope


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one agent. Times are in seconds; a setting that is null is left to the agent CLI.

    `adapter` is the name of an adapter in the registry. `executable` replaces the CLI's own name or path. `runner` is a
    command that runs the agent elsewhere. `{command}` in one of its words becomes the agent's command line, quoted for
    a shell; without `{command}`, the words of the agent's command line follow the words of the runner. `command`,
    `reply_path`, `session_path`, `cost_path`, `format` belong to `command` agents, `script` to `scripted`, `lease` to
    mailboxes. A nested list in `command` is a group of words that is left out if a placeholder in it has no value.
    `protocol` is the protocol that the program in `command` speaks (acp: the Agent Client Protocol; acp-v2: the draft
    of its version 2). `cwd` is relative to the project folder. `env_profile` names an entry of `env_profiles`, whose
    variables are set; variables in `env` take precedence over them. A turn may take `timeout` (30 minutes) in all, and
    `idle_timeout` (10 minutes) without output. `retries` limits the CLI's own retries of API calls. `pace` is the least
    time from the end of a turn to the beginning of the next. `keep` is how long a broker keeps the agent's process
    between turns (15 minutes; 0: not at all), and `lease` how long a mailbox's message belongs to whoever took it (10
    minutes). `record`: each turn on the agent's terminal is recorded. `screen` has the fields of the adapter's screen
    profile that are replaced for this agent. `envelope` is the text above a message from another agent: none, short,
    full, or a text with `{from}` in it. `account` names the login that the agent uses: agents of one account wait for a
    usage limit together (`usage_limit: wait`). Without it, agents of one adapter whose keys and folders of their own
    are the same have one account. `upstream` is the URL of the model's API, where the CLI's own configuration does not
    name it to beam. `tolerate` is the status (denied) that gets exit code 0. `rules` say which tool calls are denied,
    asked about and allowed, in addition to what `access` says.
    """

    adapter: str = ""
    executable: str | None = None
    runner: tuple[str, ...] = ()
    model: str | None = None
    access: Access | None = None
    cwd: str | None = None
    env: dict[str, str] = {}
    env_profile: str | None = None
    timeout: float | None = None
    idle_timeout: float | None = None
    max_turns: int | None = None
    budget_usd: float | None = None
    retries: int | None = None
    schema: str | None = None
    system: str | None = None
    envelope: str | None = None
    tolerate: Literal["denied"] | None = None
    command: tuple[str | tuple[str, ...], ...] = ()
    protocol: Literal["acp", "acp-v2"] | None = None
    format: Literal["text", "json", "jsonl"] = "text"
    reply_path: str | None = None
    session_path: str | None = None
    cost_path: str | None = None
    script: str | None = None
    lease: float | None = None
    keep: float | None = None
    pace: float | None = None
    record: bool = False
    upstream: str | None = None
    account: str | None = None
    screen: dict[str, Any] = {}
    description: str | None = None
    rules: RuleLists = RuleLists()


_BOUNDS = ("budget_usd", "max_turns", "retries")


def limit_to_agent(own: AgentSettings, agent: AgentSettings) -> AgentSettings:
    """Return a session's settings, limited to the access, the allowing rules and the budgets of its agent.

    An agent without a configured access counts as `read`. A budget that the agent does not have is not limited.
    """
    narrowed: dict[str, object] = {}
    if own.access is not None and RANK[own.access] > RANK[agent.access or "read"]:
        narrowed["access"] = agent.access or "read"
    for name in _BOUNDS:
        bound, own_bound = getattr(agent, name), getattr(own, name)
        if bound is not None and (own_bound is None or own_bound > bound):
            narrowed[name] = bound
    if set(own.rules.allow) > set(agent.rules.allow):
        narrowed["rules"] = msgspec.structs.replace(own.rules, allow=agent.rules.allow)
    return msgspec.structs.replace(own, **narrowed) if narrowed else own


def without_allowing(lists: RuleLists) -> RuleLists:
    """Return the rules that deny or ask, without the rules that allow."""
    return msgspec.structs.replace(lists, allow=())
