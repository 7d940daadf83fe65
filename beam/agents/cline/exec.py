"""Cline's headless mode: `cline --json PROMPT`, one process per turn, prompt in an argument.

Without a terminal `--id` resumes no session, so each turn is a new session. The CLI either runs every tool or, without
approval, not even the tools that only read, so `full` is its only access. beam makes the CLI keep its sessions in its
own process, because the CLI would otherwise start a hub daemon that outlives the turn.
"""

from __future__ import annotations

from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.cline.decode import LineDecoder
from beam.agents.oneshot import check_access, model_flags, prompt_argument
from beam.model.autoloaded import AutoloadedFile

_ENV_ENDINGS = (
    "",
    ".local",
    *(f".{mode}{end}" for mode in ("development", "production", "test") for end in ("", ".local")),
)
OBEYS = (
    # Bun, with which the CLI is compiled, reads these files automatically.
    *(AutoloadedFile(path=path, at=("full",)) for path in (*(f".env{end}" for end in _ENV_ENDINGS), "bunfig.toml")),
    *(
        AutoloadedFile(path=path, at=("full",), reach="worktree")
        for path in (".clinerules/hooks", ".cline/hooks", ".cline/plugins")
    ),
)
CAPABILITIES = Capabilities(
    model=True,
    tools=True,
    deltas=True,
    interrupt=True,
    edits=True,
    whole=True,
    tokens=True,
    cost=True,
    calls=True,
    models=True,
    access=("full",),
    prompt_in_argv=True,
)
decoder = LineDecoder


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to run this turn. Raises UnsupportedError for an option that the headless mode can't apply."""
    check_access(turn, "cline", CAPABILITIES)
    prompt = prompt_argument("cline", turn.text)
    if not any(character.isspace() for character in prompt):
        prompt = f" {prompt}"  # the CLI takes a single word for a command, or refuses it
    argv = [host.executable or "cline", "--json", "--auto-approve", "true"]
    argv += model_flags("cline", turn)
    argv += ("--", prompt)
    env = {"CLINE_SESSION_BACKEND_MODE": "local"}
    return Launch(argv=tuple(argv), prompt_in_argv=(len(argv) - 1,), env=env, drops_output=True)
