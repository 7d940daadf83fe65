"""One command for every coding agent. This module is the public interface for Python programs, and the command line
uses it as well.

A name is imported when it is first used, so `import beam` costs nothing. Each name is listed twice: in `_LAZY` or
`_LAZY_MODULES`, and for type checkers in the imports below these tables.
"""

# What programs that send messages and read outcomes use. The rest of `_LAZY` is what the command line shows.
__all__ = [
    "Beam",
    "Message",
    "Options",
    "OptionFields",
    "Recording",
    "ModelCallCounts",
    "Access",
    "Outcome",
    "Status",
    "Class",
    "Usage",
    "ModelUsage",
    "Denial",
    "Unfinished",
    "AgentSettings",
    "RuleLists",
    "Limits",
    "Policy",
    "Event",
    "AnyEvent",
    "events",
    "errors",
    "BeamError",
    "ExitCode",
    "RunResult",
    "StepResult",
    "TurnResult",
    "CheckResult",
    "Comparison",
    "Conversation",
    "ConversationResult",
    "Spoken",
    "AskLine",
    "Allow",
    "Deny",
    "Stream",
]
__all__ += [
    "conformance",
    "messages",
    "outcomes",
    "pictures",
    "recordings",
    "scenario_language",
    "screens",
    "team_hook",
    "team_views",
    "transcripts",
]

_LAZY = {
    "beam.agents.base": "Capabilities Exit",
    "beam.agents.session_files": "Session",
    "beam.api.adopt": "Candidate Finding Waiting",
    "beam.api.asks": "AskLine",
    "beam.api.attach": "Attached picture_of",
    "beam.api.beam": "Beam",
    "beam.api.conversation": "Conversation ConversationResult Spoken",
    "beam.api.cursor": "open_cursor",
    "beam.api.deciding": "Allow Decision Deny OnAsk",
    "beam.api.diff": "WorkTreeDiff",
    "beam.api.foreign": "ForeignSessions",
    "beam.foreign.standing": "ForeignStatus",
    "beam.api.manage": "settings_of_flags",
    "beam.api.progress": "Progress",
    "beam.api.report": "ReportLine",
    "beam.api.rules": "RuleLine RuleTried",
    "beam.api.search": "Found SearchResult",
    "beam.api.sessions": "SessionLine",
    "beam.api.status": "AgentStatus",
    "beam.api.strays": "strays_text",
    "beam.api.stream": "Stream",
    "beam.api.team_actions": "TeamActions create_team",
    "beam.api.team_join": "Joining Membership",
    "beam.api.teams": "TeamsHere install_hooks",
    "beam.api.turns_now": "KeptProcess Running begun",
    "beam.api.undo": "UndoneFile UndoResult",
    "beam.api.usage": "UsageLine",
    "beam.api.watch": "Placed Wanted since watch_root",
    "beam.base": "__version__",
    "beam.base.errors": (
        "BeamError ConfigError DiskError ExitCode LimitError NotFoundError SignalledError UnfinishedError "
        "UnsupportedError UntrustedError UsageError nearest"
    ),
    "beam.base.typed_values": "escape_surrogates",
    "beam.config.resolve": "with_state_dir",
    "beam.conversations.comparing": "Comparison",
    "beam.conversations.live_chat": "LiveChat NextTurn",
    "beam.conversations.machine": "PlanStep",
    "beam.conversations.refusal": "Refusal refusal_of",
    "beam.conversations.result": "CheckResult ReplayCounts RunResult StepResult TurnResult Verdict WorktreeResult",
    "beam.conversations.run_options": "RunProgress StepBegan Warned",
    "beam.conversations.scenario": "Scenario",
    "beam.model.events": "AnyEvent Event RequestDifference",
    "beam.model.given": "GivenMessage decode_given",
    "beam.model.message": "Access Message OptionFields Options Recording RuleLists",
    "beam.model.notification": "NotifyTarget",
    "beam.model.outcome": "Class Denial ModelCallCounts ModelUsage Outcome Status Unfinished Usage",
    "beam.model.prices": "estimated_usd",
    "beam.model.settings": "Limits Policy DURATIONS AgentSettings",
    "beam.proxy.options": "ProxyCounts",
    "beam.proxy.served": "ServedRequest explain",
    "beam.pty_adapter.cast": "NoCastError",
    "beam.root.git_place": "GitPlace",
    "beam.rules.rule": "Behavior",
    "beam.secrets.redact": "redact",
    "beam.secrets.shown": "blanked",
    "beam.teams.board": "MailLine MemberLine TaskLine TeamLine TeamShown",
    "beam.teams.model": "Task",
    "beam.teams.stuck": "Wait",
    "beam.teams.watch": "Teams",
}
_LAZY_MODULES = {
    "clock": "beam.base.clock",
    "conformance": "beam.api.matrix",
    "durations": "beam.base.durations",
    "errors": "beam.base.errors",
    "events": "beam.model.events",
    "fake_model": "beam.testing.fake_model",
    "github": "beam.conversations.github",
    "gitlab": "beam.conversations.gitlab",
    "junit": "beam.conversations.junit",
    "messages": "beam.model.message",
    "moments": "beam.base.moments",
    "outcomes": "beam.model.outcome",
    "pictures": "beam.pty_adapter.picture",
    "recordings": "beam.testing.replay",
    "scenario_language": "beam.conversations.language",
    "screens": "beam.pty_adapter.replay",
    "team_hook": "beam.teams.hook",
    "team_views": "beam.api.teams",
    "transcripts": "beam.model.transcript",
    "trusting": "beam.api.trusting",
}

TYPE_CHECKING = False  # `typing` is not imported for one name
if TYPE_CHECKING:
    from beam.agents.base import Capabilities, Exit
    from beam.agents.session_files import Session
    from beam.api import matrix as conformance
    from beam.api import teams as team_views
    from beam.api import trusting
    from beam.api.adopt import Candidate, Finding, Waiting
    from beam.api.asks import AskLine
    from beam.api.attach import Attached, picture_of
    from beam.api.beam import Beam
    from beam.api.conversation import Conversation, ConversationResult, Spoken
    from beam.api.cursor import open_cursor
    from beam.api.deciding import Allow, Decision, Deny, OnAsk
    from beam.api.diff import WorkTreeDiff
    from beam.api.foreign import ForeignSessions
    from beam.api.manage import settings_of_flags
    from beam.api.progress import Progress
    from beam.api.report import ReportLine
    from beam.api.rules import RuleLine, RuleTried
    from beam.api.search import Found, SearchResult
    from beam.api.sessions import SessionLine
    from beam.api.status import AgentStatus
    from beam.api.strays import strays_text
    from beam.api.stream import Stream
    from beam.api.team_actions import TeamActions, create_team
    from beam.api.team_join import Joining, Membership
    from beam.api.teams import TeamsHere, install_hooks
    from beam.api.turns_now import KeptProcess, Running, begun
    from beam.api.undo import UndoneFile, UndoResult
    from beam.api.usage import UsageLine
    from beam.api.watch import Placed, Wanted, since, watch_root
    from beam.base import __version__, clock, durations, errors, moments
    from beam.base.errors import (
        BeamError,
        ConfigError,
        DiskError,
        ExitCode,
        LimitError,
        NotFoundError,
        SignalledError,
        UnfinishedError,
        UnsupportedError,
        UntrustedError,
        UsageError,
        nearest,
    )
    from beam.base.typed_values import escape_surrogates
    from beam.config.resolve import with_state_dir
    from beam.conversations import (
        github,
        gitlab,
        junit,
    )
    from beam.conversations import (
        language as scenario_language,
    )
    from beam.conversations.comparing import Comparison
    from beam.conversations.live_chat import LiveChat, NextTurn
    from beam.conversations.machine import PlanStep
    from beam.conversations.refusal import Refusal, refusal_of
    from beam.conversations.result import (
        CheckResult,
        ReplayCounts,
        RunResult,
        StepResult,
        TurnResult,
        Verdict,
        WorktreeResult,
    )
    from beam.conversations.run_options import RunProgress, StepBegan, Warned
    from beam.conversations.scenario import Scenario
    from beam.foreign.standing import ForeignStatus
    from beam.model import events
    from beam.model import message as messages
    from beam.model import outcome as outcomes
    from beam.model import transcript as transcripts
    from beam.model.events import AnyEvent, Event, RequestDifference
    from beam.model.given import GivenMessage, decode_given
    from beam.model.message import Access, Message, OptionFields, Options, Recording, RuleLists
    from beam.model.notification import NotifyTarget
    from beam.model.outcome import Class, Denial, ModelCallCounts, ModelUsage, Outcome, Status, Unfinished, Usage
    from beam.model.prices import estimated_usd
    from beam.model.settings import DURATIONS, AgentSettings, Limits, Policy
    from beam.proxy.options import ProxyCounts
    from beam.proxy.served import ServedRequest, explain
    from beam.pty_adapter import picture as pictures
    from beam.pty_adapter import replay as screens
    from beam.pty_adapter.cast import NoCastError
    from beam.root.git_place import GitPlace
    from beam.rules.rule import Behavior
    from beam.secrets.redact import redact
    from beam.secrets.shown import blanked
    from beam.teams import hook as team_hook
    from beam.teams.board import MailLine, MemberLine, TaskLine, TeamLine, TeamShown
    from beam.teams.model import Task
    from beam.teams.stuck import Wait
    from beam.teams.watch import Teams
    from beam.testing import fake_model
    from beam.testing import replay as recordings


def __getattr__(name: str) -> object:
    """Import the name from the module that defines it, and return its value. Raises AttributeError for an unknown
    name."""
    import sys

    module = _LAZY_MODULES.get(name) or next((where for where, names in _LAZY.items() if name in names.split()), None)
    if module is None:
        raise AttributeError(f"module 'beam' has no attribute {name!r}")
    __import__(module.rpartition(".")[0])  # first, so that two threads can't wait for each other's half of a package
    __import__(module)
    found: object = sys.modules[module] if name in _LAZY_MODULES else getattr(sys.modules[module], name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
