"""Gemini's headless mode: `gemini -o stream-json`, one process per turn, prompt on stdin.

The access map below is the only place with flags that give gemini rights.
"""

from __future__ import annotations

import re

from beam.agents.base import Host, Launch, Turn
from beam.agents.gemini import hooks, tool_rules
from beam.agents.gemini.decode import LineDecoder
from beam.agents.gemini.session import beam_session_id
from beam.agents.oneshot import checked_session_id, model_flags
from beam.base.errors import UnsupportedError
from beam.base.typed_values import replace_surrogates
from beam.model.autoloaded import AutoloadedFile
from beam.model.message import Access

RETRIES = 3  # gemini itself retries nine times, 218 seconds of silence; only its settings can change that
POLICY_FILE = "policy.toml"
_SESSION_ID = re.compile(r"(?!latest\Z|\d+\Z)[0-9a-zA-Z][0-9a-zA-Z_-]{0,63}\Z")
_SPECIAL_CHARACTER = re.compile(r"""([\s,;!?()\[\]{}"'`$&|<>*#~\\])""")
READ_TOOLS = (
    "read_file",
    "read_many_files",
    "list_directory",
    "glob",
    "grep_search",
    "google_web_search",
    "web_fetch",
    "update_topic",
    "write_todos",
)
# The person's own settings and policies may allow more, but the rules of this policy win over them. A tool that no rule
# allows is not offered to the model.
READ_ONLY_POLICY = f"""\
[[rule]]
toolName = "*"
decision = "deny"
priority = 900
denyMessage = "This session may look and not change anything."

[[rule]]
toolName = [{", ".join(f'"{name}"' for name in READ_TOOLS)}]
decision = "allow"
priority = 950
"""

ACCESS: dict[Access, tuple[str, ...]] = {
    "read": ("--approval-mode", "default"),
    "edit": ("--approval-mode", "auto_edit"),
    "full": ("--approval-mode", "yolo"),
}
# Makes gemini one process. Otherwise there are two: the outer one passes no signal on, and leaves the inner one behind
# when it is killed.
SINGLE_PROCESS_ENV = {"GEMINI_CLI_NO_RELAUNCH": "true"}
_TRUST_VARIABLE = "GEMINI_CLI_TRUST_WORKSPACE"
OBEYS = (
    # gemini changes nothing in a folder that it is told not to trust, whatever it was allowed.
    AutoloadedFile(path=".gemini", ignored=("read",)),
    AutoloadedFile(path=".gemini/.env", ignored=("read",), reach="upward"),
    AutoloadedFile(path=".env", ignored=("read",), reach="upward"),
)
decoder = LineDecoder


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to run this turn. Raises UnsupportedError for an option that the headless mode can't apply."""
    argv = [host.executable or "gemini", "--output-format", "stream-json", *hooks.FLAGS]
    argv += [*session_flags(turn), *_access_flags(turn)]
    files = {}
    rules = [rule for rule in turn.rules.rules if turn.access != "full" or rule.behavior != "allow"]
    if turn.access == "read" or rules:
        base = READ_ONLY_POLICY if turn.access == "read" else ""
        files[POLICY_FILE] = (base + tool_rules.policy(rules)).encode()
        argv += ("--admin-policy", f"{turn.scratch}/{POLICY_FILE}")
    argv += model_flags("gemini", turn)
    env = SINGLE_PROCESS_ENV | trust_env(turn)
    retries = RETRIES if turn.settings.retries is None else turn.settings.retries
    return Launch(argv=tuple(argv), stdin=_prompt_bytes(turn), env=env, files=files, retries=retries, drops_output=True)


def trust_env(turn: Turn) -> dict[str, str]:
    """Return the variable that makes gemini obey the folder's own files, or ignore them, whatever gemini's settings
    say.

    Return {} if gemini itself should decide.
    """
    if turn.leave_out:
        return {_TRUST_VARIABLE: "false"}
    return {_TRUST_VARIABLE: "true"} if turn.access == "full" or turn.folder_trusted else {}


def session_flags(turn: Turn) -> tuple[str, ...]:
    """Return the flags that name the session. Raises UnsupportedError for an invalid session id."""
    if turn.session_id is not None:
        return ("--resume", _checked_session(turn.session_id))
    return ("--session-id", _checked_session(beam_session_id(turn.fresh_session_id))) if turn.fresh_session_id else ()


def _checked_session(session_id: str) -> str:
    """Return the id if it has the form of a session id; otherwise raise UnsupportedError.

    `latest` and numbers are refused, because they would select any session that exists.
    """
    return checked_session_id("gemini", _SESSION_ID, session_id)


def _access_flags(turn: Turn) -> tuple[str, ...]:
    if turn.access not in ACCESS:
        raise UnsupportedError(
            f"gemini can't ask in exec mode (access {turn.access!r})",
            f"use one of: {', '.join(ACCESS)}",
            subject=turn.access,
        )
    outbox = ("--include-directories", turn.outbox) if turn.outbox and turn.access == "edit" else ()
    return (*ACCESS[turn.access], *outbox)


def _prompt_bytes(turn: Turn) -> bytes:
    """Return the bytes for stdin: the text, then a mention (`@PATH`) of each attached file, which makes gemini put the
    file into the prompt."""
    mentions = "\n".join(_mention(path, turn.cwd) for path in turn.attach)
    return replace_surrogates(f"{turn.text}\n\n{mentions}" if mentions else turn.text).encode()


def _mention(path: str, cwd: str) -> str:
    """Return the mention of one file. Raises UnsupportedError for a file outside gemini's folder, which gemini would
    silently ignore, and for a path with unprintable characters."""
    if not path.startswith(f"{cwd.rstrip('/')}/") or not path.isprintable():
        raise UnsupportedError(
            f"gemini can't attach the file {path!r}", "use a file with a plain name in its folder", subject=path
        )
    return "@" + _SPECIAL_CHARACTER.sub(r"\\\1", path)
