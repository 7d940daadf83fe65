"""The settings of one agent: the value that results from beam.yaml, agent.json, the environment and flags."""

from typing import Any, Literal

from msgspec import Struct

from beam.model.message import Access
from beam.model.rule_lists import RuleLists

DURATIONS = frozenset(  # the fields of settings, limits and policy that may be written like 1h30m
    {"timeout", "idle_timeout", "ask_timeout", "grace", "lease", "keep", "pace"}
    | {"backoff", "backoff_max", "circuit_window", "circuit_open"}
)
ENVELOPES = ("none", "short", "full")  # values of `envelope`; any other value is the text of an envelope


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one agent. Times are in seconds; a setting that is null is left to the limits or to the agent
    CLI.

    `adapter` is the name of an adapter in the registry. `executable` replaces the CLI's own name or path. `runner` is a
    command that runs the agent elsewhere. `{command}` in one of its words becomes the agent's command line, quoted for
    a shell; without `{command}`, the words of the agent's command line follow the words of the runner. `command`,
    `reply_path`, `session_path`, `cost_path`, `format` belong to `command` agents, `script` to `scripted`, `mailbox`
    and `lease` to mailboxes. A nested list in `command` is a group of words that is left out if a placeholder in it has
    no value. `protocol` is the protocol that the program in `command` speaks (acp: the Agent Client Protocol; acp-v2:
    the draft of its version 2). `cwd` is relative to the project folder. `env_profile` names an entry of
    `env_profiles`, whose variables are set; variables in `env` take precedence over them. `retries` limits the CLI's
    own retries of API calls. `pace` is the least time from the end of a turn to the beginning of the next. `keep` is
    how long a broker keeps the agent's process between turns (0: not at all). `record`: each turn on the agent's
    terminal is recorded. `screen` has the fields of the adapter's screen profile that are replaced for this agent.
    `envelope` is the text above a message from another agent: none, short, full, or a text with `{from}` in it.
    `upstream` is the URL of the model's API, where the CLI's own configuration does not name it to beam.
    `tolerate` is the status (denied) that gets exit code 0. `rules` say which tool calls are denied, asked about and
    allowed, in addition to what `access` says.
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
    upstream: str | None = None
    screen: dict[str, Any] = {}
    description: str | None = None
    rules: RuleLists = RuleLists()
