"""pi's headless mode: `pi -p --mode json`, one process per turn, prompt on stdin.

pi has no permissions: it runs every tool that it has. So `read` means a list of tools that only read, without the
extensions that could run code, and there is no access between `read` and an explicit `full`.
"""

from __future__ import annotations

import re

from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.oneshot import check_access, checked_session_id, model_flags
from beam.agents.pi.decode import LineDecoder
from beam.base.typed_values import replace_surrogates
from beam.model.autoloaded import AutoloadedFile
from beam.model.message import Access

RETRIES = 3  # pi itself retries as often
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
ACCESS: dict[Access, tuple[str, ...]] = {
    "read": ("--tools", "read,grep,find,ls", "--no-extensions"),
    "full": (),
}
_FULL_ONLY: tuple[Access, ...] = ("full",)
# `--no-approve` keeps pi from obeying both. It still reads the setting `sessionDir`, which runs nothing.
OBEYS = tuple(
    AutoloadedFile(path=path, at=_FULL_ONLY, ignored=_FULL_ONLY) for path in (".pi/settings.json", ".pi/extensions")
)
CAPABILITIES = Capabilities(
    resume=True,
    fork=True,
    model=True,
    deltas=True,
    tools=True,
    interrupt=True,
    edits=True,
    whole=True,
    tokens=True,
    cost=True,
    calls=True,
    denials=True,
    models=True,
    access=tuple(ACCESS),
)
decoder = LineDecoder


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to run this turn. Raises UnsupportedError for an option that the headless mode can't apply."""
    check_access(turn, "pi", CAPABILITIES)
    argv = [
        host.executable or "pi",
        "-p",
        "--mode",
        "json",
        *_session_flags(turn),
        *ACCESS[turn.access],
        *_folder_flags(turn),
    ]
    argv += model_flags("pi", turn)
    retries = RETRIES if turn.settings.retries is None else turn.settings.retries
    return Launch(argv=tuple(argv), stdin=replace_surrogates(turn.text).encode(), retries=retries)


def _folder_flags(turn: Turn) -> tuple[str, ...]:
    """Return the flags that decide whether pi loads the folder's own settings and extensions.

    Without such a flag pi does not load them.
    """
    if turn.leave_out:
        return ("--no-approve",)
    return ("--approve",) if turn.folder_trusted and turn.access == "full" else ()


def _session_flags(turn: Turn) -> tuple[str, ...]:
    if turn.session_id is None:
        return ("--no-session",) if turn.once else ()
    return ("--fork" if turn.fork else "--session", checked_session_id("pi", _UUID, turn.session_id))
