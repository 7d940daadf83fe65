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
from beam.agents.oneshot import check_access, checked_argument, checked_session_id
from beam.agents.opencode.decode import LineDecoder
from beam.agents.opencode.rules import profile_rules
from beam.base.errors import UnsupportedError
from beam.base.typed_values import replace_surrogates
from beam.model.autoloaded import AutoloadedFile
from beam.model.message import Access

RETRIES = 3  # opencode itself retries five times or more, for over a minute
_LOG_FLAGS = ("--print-logs", "--log-level", "ERROR")  # only the CLI's log reports retries
_SESSION_ID = re.compile(r"ses_[A-Za-z0-9]+\Z")
_PLUGIN_LIBRARIES = ("@opencode-ai/plugin", "@kilocode/plugin")
_PLUGIN_FOLDERS = ("plugin", "plugins")
_CONFIG_FILES = ("opencode.json", "opencode.jsonc")
_BELOW_FULL: tuple[Access, ...] = ("read", "ask", "edit")
OBEYS = (
    *(AutoloadedFile(path=f".opencode/{name}", reach="upward") for name in _PLUGIN_FOLDERS),
    *(
        # A key can be written with \u escapes.
        AutoloadedFile(path=path, at=_BELOW_FULL, reach="upward", says=("plugin", "\\u"))
        for name in _CONFIG_FILES
        for path in (name, f".opencode/{name}")
    ),
    *(
        AutoloadedFile(path=path, at=("full",), reach="upward")
        for path in (
            *_CONFIG_FILES,
            *(f".opencode/{name}" for name in (*_CONFIG_FILES, "tool", "tools", "package.json")),
        )
    ),
)
CAPABILITIES = Capabilities(
    resume=True,
    fork=True,
    model=True,
    tools=True,
    interrupt=True,
    edits=True,
    whole=True,
    tokens=True,
    cost=True,
    calls=True,
    denials=True,
    attach="path",
    access=("read", "edit", "full"),
    outbox=("edit", "full"),
)


class RunExec:
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
        check_access(turn, name, CAPABILITIES)
        argv = [host.executable or name, "run", "--format", "json", *_LOG_FLAGS]
        if turn.session_id is not None:
            argv += ("-s", checked_session(turn.session_id, name), *(("--fork",) if turn.fork else ()))
        if turn.model is not None:
            if "/" not in turn.model:
                raise UnsupportedError(f"{name} names models PROVIDER/MODEL, not {turn.model!r}", subject=turn.model)
            argv += ("-m", checked_argument(name, "model", turn.model))
        for path in turn.attach:
            argv += ("-f", checked_argument(name, "file", path))
        env: dict[str, str] = {}
        files: dict[str, bytes] = {}
        if turn.access == "full":
            argv.append("--auto")
            if turn.session_id is not None and self._usual is not None:
                argv += ("--agent", self._usual)
        else:
            name_of_profile, env, files = access_profile(turn, self._prefix)
            argv += ("--pure", "--agent", name_of_profile)
        retries = RETRIES if turn.settings.retries is None else turn.settings.retries
        return Launch(
            argv=tuple(argv),
            stdin=replace_surrogates(turn.text).encode(),
            env=env,
            files=files,
            drops_output=True,  # a pipe that is read slowly gets only the first half of an answer of 4 MB
            retries=retries,
        )

    def decoder(self, turn: Turn) -> Decoder:
        """Return a new decoder for one process of this turn."""
        return LineDecoder(turn, self._program)


def checked_session(session_id: str, name: str) -> str:
    """Return the id if it has the form of a session id; otherwise raise UnsupportedError."""
    return checked_session_id(name, _SESSION_ID, session_id)


def access_profile(turn: Turn, prefix: str) -> tuple[str, dict[str, str], dict[str, bytes]]:
    """Return the agent profile with the turn's access: its name, and the environment and files that define it."""
    name = f"beam-{turn.access}"
    env = {f"{prefix}_CONFIG_DIR": f"{turn.scratch}/config", f"{prefix}_DISABLE_PROJECT_CONFIG": "1"}
    return name, env, {f"config/agents/{name}.md": _profile_file(turn), **_fake_library_files()}


def _fake_library_files() -> dict[str, bytes]:
    """Return files that make the turn's own directory look as if the plugin library was installed there.

    No plugins are there, but the CLI would otherwise download that library in every turn.
    """
    lock = {"packages": {"": {"dependencies": dict.fromkeys(_PLUGIN_LIBRARIES, "*")}}}
    return {"config/node_modules/.keep": b"", "config/package-lock.json": json.dumps(lock).encode()}


def _profile_file(turn: Turn) -> bytes:
    given: dict[str, object] = {**profile_rules(turn.access, turn.rules)}
    if turn.outbox and turn.access == "edit":
        given["external_directory"] = {"*": "deny", f"{turn.outbox}/*": "allow"}
    rules = "".join(
        f"  {json.dumps(kind)}: {rule if isinstance(rule, str) else json.dumps(rule)}\n" for kind, rule in given.items()
    )
    described = f"what beam's access `{turn.access}` allows"
    return f"---\ndescription: {described}\nmode: primary\npermission:\n{rules}---\n".encode()
