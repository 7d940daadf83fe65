"""The beginning of a conversation: the agent reports its capabilities, the session is opened, and its settings are set.

Each step waits for the answer to the step before. Messages about older turns that arrive meanwhile cause no events.
Does not depend on turns.
"""

from __future__ import annotations

from collections.abc import Callable

from beam.agents.acp.dialect import Dialect
from beam.agents.acp.options import Options, SettingKind
from beam.agents.acp.prompt import text_part
from beam.agents.acp.wire import error_text, failure_of, is_session_lost
from beam.agents.base import Turn
from beam.agents.fields import Object, integer, obj, object_of, objects, string
from beam.agents.jsonrpc import METHOD_NOT_FOUND, PendingCalls, Reply
from beam.agents.link import Broken, Ready, Say, Step
from beam.model import events
from beam.model.outcome import Class

START_S = 90.0
_VERSION = 1
_CLIENT: Object = {"name": "beam", "title": "beam", "version": "1"}
_MAX_PAGES = 50


class Opening:
    """The beginning of the conversation with one process. `session_id` is "" until the session is open."""

    def __init__(self, turn: Turn, dialect: Dialect, calls: PendingCalls, options: Options) -> None:
        self.session_id = ""
        self._turn = turn
        self._dialect = dialect
        self._calls = calls
        self._options = options
        self.takes: Object = {}  # the kinds of content that a prompt may have besides text
        self.takes_system = False  # the request that opens a session takes the system prompt; else a message has it
        self._logins: list[str] = []
        self.mode: str | None = None  # the session's mode that beam chose
        self._pages = 0
        self._resume_methods: list[str] = []  # those not tried yet, the best first

    def begin(self, now: float) -> list[Step]:
        """Return the first step. The beginning ends with a `Ready` or a `Broken` step."""
        can: Object = {"session": {"notices": {}}} if self._dialect.notices else {}
        params: Object = {"protocolVersion": _VERSION, "clientCapabilities": can, "clientInfo": _CLIENT}
        return [self._calls.call("initialize", params, self._on_initialized, now + START_S)]

    # -- the session ---------------------------------------------------------------------------------------------------

    def _on_initialized(self, reply: Reply) -> list[Step]:
        name, answer = self._dialect.name, object_of(reply.result)
        if reply.error:
            return self._on_refused(reply, "did not begin the conversation")
        if integer(answer, "protocolVersion") != _VERSION:
            version = answer.get("protocolVersion")
            return _broken(f"{name} speaks version {version!r} of the protocol, and beam {_VERSION}", Class.UNSUPPORTED)
        self._logins = [_way_to_log_in(method) for method in objects(answer, "authMethods")]
        can = obj(answer, "agentCapabilities")
        self.takes = obj(can, "promptCapabilities")
        others = obj(can, "sessionCapabilities")
        self.takes_system = isinstance(others.get("systemPrompt"), dict)
        session_id = self._turn.session_id
        if session_id is None:
            return self._open_session("session/new", {}, reply.now)
        if self._turn.fork:
            return self._open_session("session/fork", {"sessionId": session_id}, reply.now)
        if self._dialect.resume != "as it says":
            self._resume_methods = [self._dialect.resume]
        else:
            self._resume_methods = ["session/resume"] if "resume" in others else []
            self._resume_methods += ["session/load"] if can.get("loadSession") is True else []
        if not self._resume_methods:
            return _broken(f"{name} says that it can't go on with an earlier session", Class.UNSUPPORTED)
        return self._list_sessions("", reply.now) if self._dialect.lists else self._resume(reply.now)

    def _resume(self, now: float) -> list[Step]:
        return self._open_session(self._resume_methods.pop(0), {"sessionId": self._turn.session_id}, now)

    def _open_session(self, method: str, params: Object, now: float) -> list[Step]:
        given: Object = {"cwd": self._turn.cwd, "mcpServers": [], **params}
        if self.takes_system and self._turn.settings.system:
            given["systemPrompt"] = {"mode": "append", "content": [text_part(self._turn.settings.system)]}
        if self._dialect.meta:
            given["_meta"] = dict(self._dialect.meta)
        return [self._calls.call(method, given, self._on_session_opened, now + START_S)]

    def _list_sessions(self, cursor: str, now: float) -> list[Step]:
        params: Object = {"cwd": self._turn.cwd, **({"cursor": cursor} if cursor else {})}
        return [self._calls.call("session/list", params, self._on_listed, now + START_S)]

    def _on_listed(self, reply: Reply) -> list[Step]:
        if reply.error:
            return self._on_refused(reply, "did not say which sessions it has")
        answer, self._pages = object_of(reply.result), self._pages + 1
        if any(string(each, "sessionId") == self._turn.session_id for each in objects(answer, "sessions")):
            return self._resume(reply.now)
        cursor = string(answer, "nextCursor")
        if cursor and self._pages < _MAX_PAGES:
            return self._list_sessions(cursor, reply.now)
        return self._on_lost(f"{self._dialect.name} has no session {self._turn.session_id} in this folder")

    def _on_session_opened(self, reply: Reply) -> list[Step]:
        turn, answer = self._turn, object_of(reply.result)
        if reply.error:
            if turn.session_id is not None and is_session_lost(reply.failure, self._dialect.lost):
                return self._on_lost(error_text(reply.failure))
            # Some agents announce methods that they do not have.
            if self._resume_methods and integer(reply.failure, "code") == METHOD_NOT_FOUND:
                return self._resume(reply.now)
            return self._on_refused(reply, "did not open the session")
        goes_on = turn.session_id is not None and not turn.fork
        session_id = string(answer, "sessionId") or (turn.session_id if goes_on else None)
        if not session_id or goes_on != (session_id == turn.session_id):
            return _broken(f"{self._dialect.name} answered with a session that was not asked for")
        self.session_id = session_id
        self._options.record(answer)
        wide = self._options.first_id_with_value(self._dialect.never) if turn.access != "full" else ""
        if wide:
            return _broken(f"{self._dialect.name} has {wide} on, which is more than {turn.access}", Class.UNSUPPORTED)
        offered = self._options.values("mode")
        preferred = (mode for mode in self._dialect.prefers.get(turn.access, ()) if mode in offered)
        self.mode = self._dialect.modes.get(turn.access) or next(preferred, None)
        return self._set_option("mode", self.mode, self._on_mode_set, reply.now)

    # -- the session's settings ----------------------------------------------------------------------------------------

    def _on_mode_set(self, now: float) -> list[Step]:
        wanted = self._turn.model if self._dialect.sets_model else None
        return self._set_option("model", wanted, lambda now: [Ready()], now)

    def _set_option(
        self, kind: SettingKind, value: str | None, then: Callable[[float], list[Step]], now: float
    ) -> list[Step]:
        """Return the steps that change a setting of the session and then do the steps that `then` returns. If `value`
        is None or the setting has that value already, return the steps of `then` at once."""
        if value is None or self._options.current(kind) == value:
            return then(now)
        setting = self._options.setting(kind, value)
        if setting is None:
            found = ", ".join(self._options.values(kind)[:20]) or "none"
            return _broken(f"{self._dialect.name} has no {kind} {value!r}; it has: {found}", Class.UNSUPPORTED)
        method, given = setting

        def answered(reply: Reply) -> list[Step]:
            if reply.error:
                return self._on_refused(reply, f"did not take the {kind} {value!r}")
            if not self._options.record_change(kind, value, object_of(reply.result)):
                return _broken(f"{self._dialect.name} did not take over the {kind} {value!r}", Class.UNSUPPORTED)
            return then(reply.now)

        return [self._calls.call(method, {"sessionId": self.session_id, **given}, answered, now + START_S)]

    # -- failures ------------------------------------------------------------------------------------------------------

    def _on_lost(self, why: str) -> list[Step]:
        lost = Say(events.SessionLost(session_id=self._turn.session_id or "", reason=why))
        return [lost, *_broken(why, Class.BAD_REQUEST)]

    def _on_refused(self, reply: Reply, what: str) -> list[Step]:
        if reply.is_late:
            return _broken(reply.error)
        failure = failure_of(reply.failure)
        if failure.class_ is Class.AUTH:
            return _broken(self._login_reason(failure.reason), Class.AUTH)
        class_ = Class.UNSUPPORTED if integer(reply.failure, "code") == METHOD_NOT_FOUND else failure.class_
        class_ = Class.BAD_REQUEST if class_ is Class.UNKNOWN else class_
        return _broken(f"it {what}: {failure.reason}", class_)

    def _login_reason(self, reason: str) -> str:
        ways = ", ".join(name for name in self._logins if name)
        return f"it is not logged in ({reason})" + (f"; its own ways to log in: {ways}" if ways else "")


def _way_to_log_in(method: Object) -> str:
    """Return the name of a login method, with its description if that contains a link."""
    name, described = string(method, "name"), string(method, "description")
    return f"{name} ({described})" if "://" in described else name


def _broken(why: str, class_: Class = Class.CRASHED) -> list[Step]:
    return [Broken(reason=why, class_=class_)]
