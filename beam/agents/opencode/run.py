"""The headless face of OpenCode and of Kilo: `opencode run --format json`, one process a turn, prompt on stdin.

The prompt never goes into an argument: one with spaces would reach the model in quotes. Access is an agent profile of
beam's own, which nobody's configuration overrides; the folder's configuration, which can start servers and give the
usual profile every right, is read only with `full`. No switch keeps OpenCode from importing the plugins in a folder's
`.opencode`, whatever the access.
"""

from __future__ import annotations

import json
import re

from beam.agents.base import Capabilities, Decoder, Host, Launch, Turn
from beam.agents.oneshot import argument, check, scrubbed
from beam.agents.opencode.decode import Lines
from beam.errors import UnsupportedError

_SESSION = re.compile(r"ses_[A-Za-z0-9]+\Z")
_LOOK = {"*": "deny", "read": "allow", "glob": "allow", "grep": "allow", "list": "allow", "todowrite": "allow"}
_RULES = {  # `task` stays out: a subagent has rights of its own
    "read": {**_LOOK, "external_directory": "deny"},
    "edit": {**_LOOK, "edit": "allow", "external_directory": "deny"},
}
FACE = Capabilities(resume=True, model=True, tools=True, cost=True, attach="path", access=("read", "edit", "full"))


class Run:
    """The face of one of the two programs. `prefix` begins the names of its variables. `usual` is its usual profile,
    for one whose sessions keep the profile of their last turn: with `full` that would be one of beam's."""

    def __init__(self, program: str, prefix: str, *, usual: str | None = None) -> None:
        self._program = program
        self._prefix = prefix
        self._usual = usual

    def launch(self, turn: Turn, host: Host) -> Launch:
        """How to run this turn. Raises UnsupportedError for what `run` can't do."""
        name = self._program
        check(turn, name, FACE)
        argv = [host.executable or name, "run", "--format", "json"]
        if turn.session_id is not None:
            if not _SESSION.match(turn.session_id):
                raise UnsupportedError(
                    f"{turn.session_id[:80]!r} is no session id of {name}'s", subject=turn.session_id
                )
            argv += ("-s", turn.session_id)
        if turn.model is not None:
            if "/" not in turn.model:
                raise UnsupportedError(f"{name} names models PROVIDER/MODEL, not {turn.model!r}", subject=turn.model)
            argv += ("-m", argument(name, "model", turn.model))
        for path in turn.attach:
            argv += ("-f", argument(name, "file", path))
        env, files = {}, {}
        if turn.access == "full":
            argv.append("--auto")
            if turn.session_id is not None and self._usual is not None:
                argv += ("--agent", self._usual)
        else:
            profile = f"beam-{turn.access}"
            argv += ("--pure", "--agent", profile)
            env = {
                f"{self._prefix}_CONFIG_DIR": f"{turn.scratch}/config",
                f"{self._prefix}_DISABLE_PROJECT_CONFIG": "1",
            }
            files = {f"config/agents/{profile}.md": _profile(turn.access)}
        return Launch(argv=tuple(argv), stdin=scrubbed(turn.text).encode(), env=env, files=files)

    def decoder(self, turn: Turn) -> Decoder:
        """A new decoder for one process of this turn."""
        return Lines(turn, self._program)


def _profile(access: str) -> bytes:
    rules = "".join(f"  {json.dumps(kind)}: {rule}\n" for kind, rule in _RULES[access].items())
    return f"---\ndescription: what beam's access `{access}` allows\nmode: primary\npermission:\n{rules}---\n".encode()
