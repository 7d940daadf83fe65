"""Gemini's dialogue mode: `gemini --acp`, one process for one turn or for many.

A session can continue only in the same process. `session/load` empties a session that began in the same minute. In a
later minute `session/load` leaves a stub beside the session's file, and then gemini's clean-up removes both files. A
suitable session id would prevent that, but here gemini chooses the id.
"""

from __future__ import annotations

from msgspec import structs

from beam.agents.acp.dialect import Dialect
from beam.agents.base import Host, Launch, Turn, Verdict
from beam.agents.fields import Object, obj
from beam.agents.gemini import exec as headless
from beam.agents.gemini import hooks, tool_rules
from beam.agents.gemini.hooks import HookLog
from beam.agents.link import Link
from beam.agents.oneshot import model_flags
from beam.base.errors import UnsupportedError
from beam.model.message import Access
from beam.model.outcome import Class, Status

__all__ = ["launch", "link"]


class _HookReader:
    """Reads which hook stopped the turn. A hook that only denies is not in the log with its words."""

    def __init__(self, turn: Turn) -> None:
        self._hooks = HookLog()
        self._is_unasked = False  # no model was asked

    @property
    def is_open(self) -> bool:
        return self._hooks.is_open

    def read(self, method: str, params: Object) -> None:
        """Read from the answer that ends the turn whether a model was asked."""
        if method == "session/prompt":
            self._is_unasked = obj(obj(params, "_meta"), "quota").get("model_usage") == []

    def error_line(self, line: bytes) -> None:
        self._hooks.line(line)

    def refine(self, verdict: Verdict) -> Verdict:
        """Return the verdict with the hook's words, if a hook stopped the turn."""
        why = self._hooks.reason
        if not why and self._hooks.event and verdict.class_ is Class.EMPTY and self._is_unasked:
            why = f"a hook ({self._hooks.event}) stopped the turn before the model was asked"
        if not why or verdict.status not in (Status.COMPLETED, Status.FAILED):
            return verdict
        return structs.replace(verdict, status=Status.FAILED, class_=Class.STOPPED, reason=why, reply=None)


DIALECT = Dialect(
    name="gemini",
    modes={"read": "default", "ask": "default", "edit": "autoEdit", "full": "yolo"},
    resume="",
    noise=("[MODE_UPDATE]",),  # gemini sends this as a piece of its answer
    plan="plan",
    end_reader=_HookReader,
    uncounted=("invoke_agent", "Delegating to agent "),
    files_as_text=True,  # gemini drops images if there is also a resource or a link
)
ACCESS: dict[Access, tuple[str, ...]] = {**headless.ACCESS, "ask": headless.ACCESS["read"]}
# The person's own settings and policies may allow more, but the rules of this policy win over them. With `read`, beam
# denies every request.
ASK_FIRST_POLICY = f"""\
[[rule]]
toolName = "*"
decision = "ask_user"
priority = 900

[[rule]]
toolName = [{", ".join(f'"{name}"' for name in headless.READ_TOOLS)}]
decision = "allow"
priority = 950
"""


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start a process for this turn and others like it. Raises UnsupportedError for an option that it
    can't apply."""
    if turn.session_id is not None:
        raise UnsupportedError(
            "gemini goes on with a session over its own protocol only in the process that has it, and that is gone",
            f"send --via exec, which resumes it, or begin another one: beam agent reset {turn.agent}",
            subject=turn.session_id[:80],
        )
    argv = [host.executable or "gemini", "--acp", *ACCESS[turn.access]]
    if turn.outbox and turn.access == "edit":
        argv += ("--include-directories", turn.outbox)
    files = {}
    policy = (ASK_FIRST_POLICY if turn.access == "read" else "") + tool_rules.dialogue_policy(
        turn.rules.rules, turn.access
    )
    if policy:
        files[headless.POLICY_FILE] = policy.encode()
        argv += ("--admin-policy", f"{turn.scratch}/{headless.POLICY_FILE}")
    argv += model_flags("gemini", turn)
    return Launch(argv=tuple(argv), env=headless.SINGLE_PROCESS_ENV | hooks.ENV | headless.trust_env(turn), files=files)


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one process."""
    from beam.agents.acp.conversation import AcpLink

    return AcpLink(turn, DIALECT)
