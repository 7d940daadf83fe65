"""Codex's headless mode: `codex exec --json`, one process per turn, prompt on stdin.

`ACCESS` is the only place with flags that give Codex rights in this mode. Codex never asks here: its sandbox refuses
what it forbids.

Codex itself reads a folder's own configuration if the folder is trusted in Codex's settings. Its screen and `codex-acp`
store that there for good, whatever comes into the folder later. So beam tells Codex not to trust a folder with a
configuration that nobody trusted.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from beam.agents.base import Host, Launch, Turn
from beam.agents.codex.decode import LineDecoder
from beam.agents.oneshot import UUID, checked_session_id, model_flags
from beam.base.errors import UnsupportedError
from beam.base.typed_values import replace_surrogates
from beam.model.autoloaded import EVERY_ACCESS, AutoloadedFile
from beam.model.message import Access

SCHEMA_FILE = "schema.json"
_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
BOUNDED_RETRIES = (
    "-c",
    "features.unbounded_connection_retries=false",
)  # else Codex retries a refused connection for ever

OBEYS = (AutoloadedFile(path=".codex", ignored=EVERY_ACCESS, reach="worktree"),)
ACCESS: dict[Access, tuple[str, ...]] = {
    # A person's own rules may let commands leave the sandbox, but beam has promised that the agent only reads.
    "read": ("--sandbox", "read-only", "--ignore-rules"),
    # This sandbox would let commands write to /tmp as well. In its place they get the turn's own scratch directory.
    "edit": ("--sandbox", "workspace-write", "-c", "sandbox_workspace_write.exclude_slash_tmp=true"),
    "full": ("--dangerously-bypass-approvals-and-sandbox",),
}
decoder = LineDecoder


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to run this turn. Raises UnsupportedError for what `codex exec` can't do."""
    argv = [
        host.executable or "codex",
        "exec",
        "--json",
        "--skip-git-repo-check",
        *BOUNDED_RETRIES,
        *folder_flags(turn),
        *_access_flags(turn),
    ]
    files = {}
    argv += model_flags("codex", turn)
    argv += system_flags(turn)
    if turn.schema is not None:
        files[SCHEMA_FILE] = turn.schema.encode("utf-8", "replace")
        argv += ("--output-schema", f"{turn.scratch}/{SCHEMA_FILE}")
    if turn.once:
        argv.append("--ephemeral")
    argv += (f"--image={path}" for path in turn.attach if _can_be_attached(path))
    if turn.session_id is not None:
        argv += ("fork" if turn.fork else "resume", checked_session(turn.session_id))
    return Launch(
        argv=(*argv, "-"),
        stdin=prompt_text(turn).encode(),
        env=temp_dir_env(turn),
        files=files,
        retries=turn.settings.retries,
    )


def folder_flags(turn: Turn) -> tuple[str, ...]:
    """Return the flags with which Codex ignores the configuration of the folder and of all folders above it; none if it
    may read it."""
    if not turn.leave_out:
        return ()
    above = (turn.cwd, *map(str, PurePosixPath(turn.cwd).parents))
    projects = ", ".join(f'{json.dumps(folder)} = {{trust_level = "untrusted"}}' for folder in dict.fromkeys(above))
    return ("-c", f"projects={{{projects}}}")


def temp_dir_env(turn: Turn) -> dict[str, str]:
    """Return the variable that makes the turn's scratch directory the folder for temporary files, if the access is
    `edit`. The sandbox lets Codex write there."""
    return {"TMPDIR": turn.scratch} if turn.access == "edit" and turn.scratch else {}


def checked_session(session_id: str) -> str:
    """Return the session id unchanged. Raises UnsupportedError if it is not a UUID.

    Codex would take any other text for a name, and silently start a new thread.
    """
    return checked_session_id("codex", UUID, session_id, "its thread ids are UUIDs")


def system_flags(turn: Turn) -> tuple[str, ...]:
    """Return the arguments that give Codex the system prompt; none if there is none."""
    system = turn.settings.system
    if system is None:
        return ()
    return ("-c", f"developer_instructions={json.dumps(replace_surrogates(system), ensure_ascii=False)}")


def _access_flags(turn: Turn) -> tuple[str, ...]:
    if turn.access not in ACCESS:
        raise UnsupportedError(
            f"codex can't ask in exec mode (access {turn.access!r})",
            f"use one of: {', '.join(ACCESS)}",
            subject=turn.access,
        )
    return ACCESS[turn.access]


def _can_be_attached(path: str) -> bool:
    """Return whether the file is passed on as an image.

    Raises UnsupportedError for a name that codex would cut at its comma.
    """
    if is_image(path) and "," in path:
        raise UnsupportedError(f"codex can't attach the image {path!r}", "rename it without the comma", subject=path)
    return is_image(path)


def is_image(path: str) -> bool:
    """Return whether the file's name is the name of an image which Codex can show to its model."""
    return path.lower().endswith(_IMAGE_ENDINGS)


def prompt_text(turn: Turn) -> str:
    """Return the prompt: the text, then the path of each attached file that is not an image, so that the model can read
    the file."""
    paths = [path for path in turn.attach if not is_image(path)]
    text = "\n\n".join([turn.text, "\n".join(f"Attached file: {path}" for path in paths)] if paths else [turn.text])
    return replace_surrogates(text)
