"""GitHub Copilot CLI's headless mode: `copilot --output-format json`, one process per turn, prompt on stdin.

The access map below is the only place with flags that give the CLI rights. Every call that these flags do not allow is
denied, because nobody can be asked.
"""

from __future__ import annotations

from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.copilot.decode import LineDecoder
from beam.agents.oneshot import (
    UUID,
    check_access,
    checked_argument,
    checked_session_id,
    model_flags,
)
from beam.base.typed_values import replace_surrogates
from beam.model.message import Access

_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
RETRIES = 3  # copilot itself gives up after 17 s or more
# Each of these variables of the person's would make the CLI obey any folder.
TRUST_NO_FOLDER_ENV = dict.fromkeys(
    (
        "COPILOT_ALLOW_ALL",
        "GITHUB_COPILOT_PROMPT_MODE_REPO_HOOKS",
        "GITHUB_COPILOT_PROMPT_MODE_WORKSPACE_MCP",
    ),
    "",
)
ACCESS: dict[Access, tuple[str, ...]] = {
    "read": ("--deny-tool=write", "--deny-tool=shell", "--disallow-temp-dir"),
    "edit": ("--allow-tool=write", "--deny-tool=shell", "--disallow-temp-dir"),
    "full": ("--allow-all",),
}
CAPABILITIES = Capabilities(
    resume=True,
    model=True,
    deltas=True,
    tools=True,
    interrupt=True,
    edits=True,
    whole=True,
    calls=True,
    api_time=True,
    lines=True,
    denials=True,
    attach="path",
    access=tuple(ACCESS),
    outbox=("edit", "full"),
)
decoder = LineDecoder


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to run this turn. Raises UnsupportedError for an option that the headless mode can't apply."""
    check_access(turn, "copilot", CAPABILITIES)
    argv = [host.executable or "copilot", "--output-format", "json", "--no-ask-user", "--no-auto-update", "--no-color"]
    argv += (*session_flags(turn), *ACCESS[turn.access])
    if turn.outbox and turn.access == "edit":
        argv += ("--add-dir", turn.outbox)
    argv += model_flags("copilot", turn)
    argv += (
        f"--attachment={checked_argument('copilot', 'file', path)}" for path in turn.attach if _can_be_attached(path)
    )
    retries = RETRIES if turn.settings.retries is None else turn.settings.retries
    return Launch(argv=tuple(argv), stdin=_prompt(turn), env=TRUST_NO_FOLDER_ENV, retries=retries, drops_output=True)


def _can_be_attached(path: str) -> bool:
    """Return whether the file can be attached. The CLI fails for a file that is not an image."""
    return path.lower().endswith(_IMAGE_ENDINGS)


def _prompt(turn: Turn) -> bytes:
    """Return the bytes for stdin: the text, then the path of each file that can't be attached, so that the model can
    read the file."""
    paths = [path for path in turn.attach if not _can_be_attached(path)]
    text = "\n\n".join([turn.text, "\n".join(f"Attached file: {path}" for path in paths)] if paths else [turn.text])
    return replace_surrogates(text).encode()


def session_flags(turn: Turn) -> tuple[str, ...]:
    """Return the flags that name the session. Raises UnsupportedError for an invalid session id.

    `--session-id` with an unknown id would silently begin a new session, so a known session is resumed with `--resume`.
    """
    if turn.session_id is None:
        return (f"--session-id={turn.fresh_session_id}",) if turn.fresh_session_id else ()
    return (f"--resume={checked_session_id('copilot', UUID, turn.session_id)}",)
