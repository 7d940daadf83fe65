"""The settings of one agent: the value that results from beam.yaml, agent.json, the environment and flags."""

from typing import Any, Literal

from msgspec import Struct

from beam.model.message import Access
from beam.model.rule_lists import RuleLists

DURATIONS = frozenset(  # the fields of settings, limits and policy that may be written like 1h30m
    {"timeout", "idle_timeout", "ask_timeout", "grace", "lease", "keep", "pace"}
    | {"backoff", "backoff_max", "circuit_window", "circuit_open"}
)
ENVELOPES = ("none", "short", "full")  # of `envelope`; any other is a text of the person's own


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent. Times are seconds; null leaves it to the limits or to the agent CLI.

    `adapter` is a name of the registry. `executable` replaces the CLI's own name or path. `runner` is a command that
    runs the agent elsewhere. `{command}` in one of its words becomes the agent's command line, quoted for a shell;
    without `{command}`, the words of the agent's command line follow those of the runner. `command`, `reply_path`,
    `session_path`, `cost_path`, `format` belong to `command` agents, `script` to `scripted`, `mailbox` and `lease` to
    mailboxes. A nested list in `command` is a group that is left out if a placeholder in it has no value. `protocol`:
    the `command` is an agent that speaks it (acp: the Agent Client Protocol; acp-v2: the draft of its version 2). `cwd`
    is relative to the project folder. `env_profile` names an entry of `env_profiles`, whose variables are set; those in
    `env` take precedence. `retries` limits the CLI's own API retries. `pace` is the least time from the end of a turn
    to the beginning of the next. `keep` is how long a broker keeps the agent's process between turns (0: not at all),
    `record` whether each turn on its terminal is recorded, `screen` what differs on that terminal from the adapter's
    profile. `envelope` is the text above a message of another agent: none, short, full, or a text with `{from}` in it.
    `tolerate` is the status (denied) whose exit code is 0. `rules` say which calls of tools are denied, asked about and
    allowed, beside what `access` says.
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
    mailbox: bool = False
    lease: float | None = None
    keep: float | None = None
    pace: float | None = None
    record: bool = False
    screen: dict[str, Any] = {}
    description: str | None = None
    rules: RuleLists = RuleLists()
