"""The headless mode of OpenCode and of Kilo: `opencode run --format json`, one process per turn, prompt on stdin.

The prompt is never an argument, because a prompt with spaces would then reach the model in quotes. beam defines an
agent profile per access, which no configuration overrides. The folder's configuration can start servers and give the
default profile every right, so it is read only with `full`. No switch keeps OpenCode from importing the plugins in a
folder's `.opencode`, whatever the access.
"""

from __future__ import annotations

import json
import re

from beam.agents.base import Capabilities, Decoder, Host, Launch, Turn
from beam.agents.oneshot import argument, check_access, scrubbed
from beam.agents.opencode.decode import Lines
from beam.agents.opencode.rules import profile
from beam.base.errors import UnsupportedError
from beam.model.autoloaded import AutoloadedFile
from beam.model.message import Access

RETRIES = 3  # opencode itself retries five times or more, for over a minute
_LOGS = ("--print-logs", "--log-level", "ERROR")  # only its log reports retries
_SESSION = re.compile(r"ses_[A-Za-z0-9]+\Z")
_LIBRARIES = ("@opencode-ai/plugin", "@kilocode/plugin")
_PLUGINS = ("plugin", "plugins")
_CONFIGS = ("opencode.json", "opencode.jsonc")
_BELOW_FULL: tuple[Access, ...] = ("read", "ask", "edit")
OBEYS = (
    *(AutoloadedFile(path=f".opencode/{name}", reach="upward") for name in _PLUGINS),
    *(
        # A key can be written with \u escapes.
        AutoloadedFile(path=path, at=_BELOW_FULL, reach="upward", says=("plugin", "\\u"))
        for name in _CONFIGS
        for path in (name, f".opencode/{name}")
    ),
    *(
        AutoloadedFile(path=path, at=("full",), reach="upward")
        for path in (*_CONFIGS, *(f".opencode/{name}" for name in (*_CONFIGS, "tool", "tools", "package.json")))
    ),
)
FACE = Capabilities(
    resume=True,
    fork=True,
    model=True,
    tools=True,
    interrupt=True,
    tokens=True,
    cost=True,
    calls=True,
    denials=True,
    attach="path",
    access=("read", "edit", "full"),
    outbox=("edit", "full"),
)


class Run:
    """The headless mode of one of the two programs.

    `prefix` begins the names of the program's variables. `usual` is the program's default agent profile if its sessions
    keep the profile of their last turn, else None. With `full`, beam gives this profile to a resumed session, because
    the session may have kept a profile made by beam.
    """

    def __init__(self, program: str, prefix: str, *, usual: str | None = None) -> None:
        self._program = program
        self._prefix = prefix
        self._usual = usual

    def launch(self, turn: Turn, host: Host) -> Launch:
        """Return how to run this turn. Raises UnsupportedError for an option that the headless mode can't apply."""
        name = self._program
        check_access(turn, name, FACE)
        argv = [host.executable or name, "run", "--format", "json", *_LOGS]
        if turn.session_id is not None:
            argv += ("-s", checked_session(turn.session_id, name), *(("--fork",) if turn.fork else ()))
        if turn.model is not None:
            if "/" not in turn.model:
                raise UnsupportedError(f"{name} names models PROVIDER/MODEL, not {turn.model!r}", subject=turn.model)
            argv += ("-m", argument(name, "model", turn.model))
        for path in turn.attach:
            argv += ("-f", argument(name, "file", path))
        env: dict[str, str] = {}
        files: dict[str, bytes] = {}
        if turn.access == "full":
            argv.append("--auto")
            if turn.session_id is not None and self._usual is not None:
                argv += ("--agent", self._usual)
        else:
            name_of_profile, env, files = rights(turn, self._prefix)
            argv += ("--pure", "--agent", name_of_profile)
        retries = RETRIES if turn.settings.retries is None else turn.settings.retries
        return Launch(
            argv=tuple(argv),
            stdin=scrubbed(turn.text).encode(),
            env=env,
            files=files,
            drops_output=True,  # of an answer of 4 MB, a pipe that is read slowly gets the first half
            retries=retries,
        )

    def decoder(self, turn: Turn) -> Decoder:
        """Return a new decoder for one process of this turn."""
        return Lines(turn, self._program)


def checked_session(session_id: str, name: str) -> str:
    """Return the id if it has the form of a session id; otherwise raise UnsupportedError."""
    if not _SESSION.match(session_id):
        raise UnsupportedError(f"{session_id[:80]!r} is not a session id of {name}'s", subject=session_id[:80])
    return session_id


def rights(turn: Turn, prefix: str) -> tuple[str, dict[str, str], dict[str, bytes]]:
    """Return the agent profile with the turn's access: its name, and the environment and files that define it."""
    name = f"beam-{turn.access}"
    env = {f"{prefix}_CONFIG_DIR": f"{turn.scratch}/config", f"{prefix}_DISABLE_PROJECT_CONFIG": "1"}
    return name, env, {f"config/agents/{name}.md": _profile(turn), **_no_install()}


def _no_install() -> dict[str, bytes]:
    """Return files that make the turn's own directory look as if the plugin library was installed there.

    No plugins are there, but the CLI would otherwise download that library in every turn.
    """
    lock = {"packages": {"": {"dependencies": dict.fromkeys(_LIBRARIES, "*")}}}
    return {"config/node_modules/.keep": b"", "config/package-lock.json": json.dumps(lock).encode()}


def _profile(turn: Turn) -> bytes:
    given: dict[str, object] = {**profile(turn.access, turn.rules)}
    if turn.outbox and turn.access == "edit":
        given["external_directory"] = {"*": "deny", f"{turn.outbox}/*": "allow"}
    rules = "".join(
        f"  {json.dumps(kind)}: {rule if isinstance(rule, str) else json.dumps(rule)}\n" for kind, rule in given.items()
    )
    described = f"what beam's access `{turn.access}` allows"
    return f"---\ndescription: {described}\nmode: primary\npermission:\n{rules}---\n".encode()
