"""What a field of settings may do that nobody trusted: one row for each field, with the reason.

A stranger's file is a beam.yaml, an agent.json that beam did not write, or a scenario. A field without a row fails a
test. Does not depend on where a value comes from, or on whether the folder is trusted.
"""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct

from beam.model.settings import IDLE_TIMEOUT_S, KEEP_S, TIMEOUT_S

EffectKind = Literal["needs trust", "may only lower", "harmless"]


class Effect(Struct, frozen=True):
    """What a field of a stranger's file may do. `because` is the reason. `when` says which values need trust, "" if
    all do.

    `unset` is the bound of a field that may only lower the person's own value, where the person has set none; None for
    a limit, which has a default."""

    kind: EffectKind
    because: str
    when: str = ""
    unset: float | None = None


def needs_trust(because: str, when: str = "") -> Effect:
    """Return the row of a field that takes effect only after a person trusts it."""
    return Effect("needs trust", because, when)


def may_only_lower(because: str, unset: float | None = None) -> Effect:
    """Return the row of a field that takes effect below the person's own value, and needs trust above it."""
    return Effect("may only lower", because, unset=unset)


def harmless(because: str) -> Effect:
    """Return the row of a field that needs no trust."""
    return Effect("harmless", because)


_LONGER = "it is how long an agent may work, or be waited for"
_ELSEWHERE = "a program may run by it"
_TEXT = "it is how beam reads what your program prints: its answer, its session or its cost"

# Of an agent, in `agents:` and `defaults:` of a beam.yaml, in an agent.json and in `agents:` of a scenario.
SETTINGS: dict[str, Effect] = {
    "adapter": needs_trust(
        "it decides what runs", "for an agent that is another one without it, or to run what is sent as code"
    ),
    "executable": needs_trust(_ELSEWHERE),
    "runner": needs_trust(_ELSEWHERE),
    "model": needs_trust("it is what you pay for, and who answers"),
    "access": needs_trust(
        "it is what the agent may do", "above `read`, and any of a program: it says that the program does no more"
    ),
    "cwd": needs_trust("the agent works there, with its access", "outside of the folder, also by a link"),
    "env": needs_trust("a variable can name a program, a server or a key"),
    "env_profile": needs_trust("a variable can name a program, a server or a key"),
    "timeout": may_only_lower(_LONGER, TIMEOUT_S),
    "idle_timeout": may_only_lower(_LONGER, IDLE_TIMEOUT_S),
    "max_turns": may_only_lower("it bounds what a turn may do and cost", math.inf),
    "budget_usd": may_only_lower("it bounds what a turn may cost", math.inf),
    "retries": may_only_lower("each costs a call, and how many a CLI makes by itself is its own", 0),
    "schema": needs_trust("it names a file that the model is shown, and decides which answer passes"),
    "system": needs_trust("it speaks to the model in your name, in place of your own"),
    "envelope": needs_trust("it says to the agent who speaks", "other than `short` and `full`"),
    "tolerate": needs_trust("with it a denied turn exits with 0"),
    "command": needs_trust("it is a program"),
    "protocol": needs_trust(_TEXT),
    "format": needs_trust(_TEXT),
    "reply_path": needs_trust(_TEXT),
    "session_path": needs_trust(_TEXT),
    "cost_path": needs_trust(_TEXT),
    "script": needs_trust("it decides what the scripted agent says and does", "a file"),
    "lease": needs_trust("a message that is lent for a shorter time is done twice"),
    "keep": may_only_lower("it is how long a process of the agent lives on", KEEP_S),
    "pace": needs_trust("a shorter one asks the vendor more often"),
    "record": needs_trust("it decides whether your terminal is recorded"),
    "upstream": needs_trust("the prompts and the API key go there"),
    "account": needs_trust("it decides which agents wait for a usage limit together"),
    "screen": needs_trust("it says which keys beam types"),
    "description": harmless("it is only shown, and its control characters are not obeyed"),
    "rules": needs_trust("a rule that allows gives what the access does not", "`allow`"),
}

RULES: dict[str, Effect] = {
    "deny": harmless("it only takes away"),
    "ask": harmless("it only takes away: what it names is asked of a person, or denied where nobody can be asked"),
    "allow": needs_trust("it gives what the access does not"),
}

LIMITS: dict[str, Effect] = {
    "text_bytes": may_only_lower("a longer text costs more"),
    "argv_text_bytes": may_only_lower("it is what the system takes"),
    "waiting": may_only_lower("it bounds what may wait for an agent"),
    "hops": may_only_lower("it bounds what agents send"),
    "replies": may_only_lower("it bounds what agents send"),
    "sends": may_only_lower("it bounds what agents send"),
    "ask_timeout": may_only_lower("it is how long a request of an agent may be granted"),
    "grace": may_only_lower("it is how long an agent lives that is told to end"),
    "agents": may_only_lower("it bounds how many agents work at once", math.inf),
    "kept": may_only_lower("it bounds the processes that live on"),
    "line_bytes": needs_trust("what is longer is dropped: a low one hides what the agent did"),
    "stderr_lines": needs_trust("what is more is dropped: a low one hides what the agent said"),
    "segment_bytes": needs_trust("with each segment old keys are forgotten"),
    "known_ids_days": needs_trust("a message whose key is forgotten is done twice"),
    "deltas_per_second": may_only_lower("it bounds what is written"),
    "deaths_before_prompt": may_only_lower("it bounds how often an agent is started"),
    "start_attempts": may_only_lower("it bounds how often an agent is started"),
}

_AGAIN = "it decides whether and when a failed message is tried again, at your cost"
_SPENT = "it is a bound on what is spent, or stops an agent that fails"

POLICY: dict[str, Effect] = {
    **dict.fromkeys(("attempts", "retry", "backoff", "backoff_max", "jitter"), needs_trust(_AGAIN)),
    "retry_unknown": needs_trust("with it work may be done twice"),
    "usage_limit": needs_trust(_AGAIN),
    "fallback": needs_trust("it decides which agent gets your message, at your cost"),
    **dict.fromkeys(("circuit_failures", "circuit_window", "circuit_open"), needs_trust(_SPENT)),
    **dict.fromkeys(("thread_turns", "thread_cost_usd", "root_turns", "root_cost_usd"), needs_trust(_SPENT)),
}

# The parts of a beam.yaml. `state_dir` and `allow_fs` are refused there: only the person's own configuration has them.
SECTIONS: dict[str, Effect] = {
    "defaults": needs_trust("its `agent` decides who answers; each setting in it has a row of its own"),
    "agents": needs_trust("each setting in it has a row of its own"),
    "limits": needs_trust("each limit in it has a row of its own"),
    "policy": needs_trust("it decides what is run again, and what may be spent"),
    "notify": needs_trust("a command is run, or what agents do is posted"),
    "env_profiles": needs_trust("a variable can name a program, a server or a key", "where an agent has it"),
    "disable": harmless("it only takes away: its adapters are refused"),
}
