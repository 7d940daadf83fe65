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
    "ModelCalls",
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
    "recordings_of_turns",
    "scenario_language",
    "screens",
    "team_hook",
    "team_views",
    "transcripts",
]

_LAZY = {
    "beam.agents.base": "Capabilities Exit",
    "beam.api.adopt": "Candidate Finding Waiting",
    "beam.api.asks": "AskLine",
    "beam.api.attach": "Attached picture_of",
    "beam.api.beam": "Beam",
    "beam.api.conversation": "Conversation ConversationResult Spoken",
    "beam.api.cursor": "open_cursor",
    "beam.api.deciding": "Allow Decision Deny OnAsk",
    "beam.api.diff": "WorkTreeDiff",
    "beam.api.status": "AgentStatus",
    "beam.api.stream": "Stream",
    "beam.agents.session_files": "Session",
    "beam.api.foreign": "ForeignSessions ForeignStatus",
    "beam.api.manage": "settings_of_flags",
    "beam.api.progress": "Progress",
    "beam.api.report": "ReportLine",
    "beam.api.rules": "RuleLine RuleTried",
    "beam.api.search": "Found SearchResult",
    "beam.api.sessions": "SessionLine",
    "beam.api.team_actions": "TeamActions create_team",
    "beam.api.team_join": "Joining Membership",
    "beam.api.teams": "TeamsHere install_hooks",
    "beam.api.turns_now": "KeptProcess Running begun",
    "beam.api.usage": "UsageLine",
    "beam.api.wanted": "Wanted",
    "beam.api.watch": "Placed since watch_root",
    "beam.base.errors": (
        "BeamError ConfigError DiskError ExitCode LimitError NotFoundError SignalledError UnfinishedError "
        "UnsupportedError UntrustedError UsageError"
    ),
    "beam.base.near": "nearest",
    "beam.base.surrogates": "escape_surrogates",
    "beam.base.version": "__version__",
    "beam.config.resolve": "with_state_dir",
    "beam.conversations.comparing": "Comparison",
    "beam.conversations.live_chat": "LiveChat NextTurn",
    "beam.conversations.machine": "PlanStep",
    "beam.conversations.model_calls": "RunModelCalls",
    "beam.conversations.run_options": "RunProgress StepBegan Warned",
    "beam.conversations.refusal": "Refusal refusal_of",
    "beam.conversations.result": "CheckResult ReplayCounts RunResult StepResult TurnResult Verdict WorktreeResult",
    "beam.conversations.scenario": "Scenario",
    "beam.model.events": "AnyEvent Event RequestDifference",
    "beam.model.limits": "Limits",
    "beam.model.message": "Access Message ModelCalls OptionFields Options",
    "beam.model.notification": "NotifyTarget",
    "beam.model.outcome": "Class Denial ModelCallCounts ModelUsage Outcome Status Unfinished Usage",
    "beam.model.policy": "Policy",
    "beam.model.prices": "estimated_usd",
    "beam.model.rule_lists": "RuleLists",
    "beam.model.settings": "DURATIONS AgentSettings",
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
    "recordings_of_turns": "beam.conversations.recording",
    "scenario_language": "beam.conversations.language",
    "screens": "beam.pty_adapter.replay",
    "team_hook": "beam.teams.hook",
    "team_views": "beam.api.teams",
    "transcripts": "beam.model.transcript",
    "trusting": "beam.api.trusting",
}

TYPE_CHECKING = False  # `typing` is not imported for one name
if TYPE_CHECKING:
    from beam.agents.base import Capabilities as Capabilities
    from beam.agents.base import Exit as Exit
    from beam.agents.session_files import Session as Session
    from beam.api import matrix as conformance
    from beam.api import teams as team_views
    from beam.api import trusting as trusting
    from beam.api.adopt import Candidate as Candidate
    from beam.api.adopt import Finding as Finding
    from beam.api.adopt import Waiting as Waiting
    from beam.api.asks import AskLine as AskLine
    from beam.api.attach import Attached as Attached
    from beam.api.attach import picture_of as picture_of
    from beam.api.beam import Beam as Beam
    from beam.api.conversation import Conversation as Conversation
    from beam.api.conversation import ConversationResult as ConversationResult
    from beam.api.conversation import Spoken as Spoken
    from beam.api.cursor import open_cursor as open_cursor
    from beam.api.deciding import Allow as Allow
    from beam.api.deciding import Decision as Decision
    from beam.api.deciding import Deny as Deny
    from beam.api.deciding import OnAsk as OnAsk
    from beam.api.diff import WorkTreeDiff as WorkTreeDiff
    from beam.api.foreign import ForeignSessions as ForeignSessions
    from beam.api.foreign import ForeignStatus as ForeignStatus
    from beam.api.manage import settings_of_flags as settings_of_flags
    from beam.api.progress import Progress as Progress
    from beam.api.report import ReportLine as ReportLine
    from beam.api.rules import RuleLine as RuleLine
    from beam.api.rules import RuleTried as RuleTried
    from beam.api.search import Found as Found
    from beam.api.search import SearchResult as SearchResult
    from beam.api.sessions import SessionLine as SessionLine
    from beam.api.status import AgentStatus as AgentStatus
    from beam.api.stream import Stream as Stream
    from beam.api.team_actions import TeamActions as TeamActions
    from beam.api.team_actions import create_team as create_team
    from beam.api.team_join import Joining as Joining
    from beam.api.team_join import Membership as Membership
    from beam.api.teams import TeamsHere as TeamsHere
    from beam.api.teams import install_hooks as install_hooks
    from beam.api.turns_now import KeptProcess as KeptProcess
    from beam.api.turns_now import Running as Running
    from beam.api.turns_now import begun as begun
    from beam.api.usage import UsageLine as UsageLine
    from beam.api.wanted import Wanted as Wanted
    from beam.api.watch import Placed as Placed
    from beam.api.watch import since as since
    from beam.api.watch import watch_root as watch_root
    from beam.base import clock as clock
    from beam.base import durations as durations
    from beam.base import errors as errors
    from beam.base import moments as moments
    from beam.base.errors import BeamError as BeamError
    from beam.base.errors import ConfigError as ConfigError
    from beam.base.errors import DiskError as DiskError
    from beam.base.errors import ExitCode as ExitCode
    from beam.base.errors import LimitError as LimitError
    from beam.base.errors import NotFoundError as NotFoundError
    from beam.base.errors import SignalledError as SignalledError
    from beam.base.errors import UnfinishedError as UnfinishedError
    from beam.base.errors import UnsupportedError as UnsupportedError
    from beam.base.errors import UntrustedError as UntrustedError
    from beam.base.errors import UsageError as UsageError
    from beam.base.near import nearest as nearest
    from beam.base.surrogates import escape_surrogates as escape_surrogates
    from beam.base.version import __version__ as __version__
    from beam.config.resolve import with_state_dir as with_state_dir
    from beam.conversations import github as github
    from beam.conversations import gitlab as gitlab
    from beam.conversations import junit as junit
    from beam.conversations import language as scenario_language
    from beam.conversations import recording as recordings_of_turns
    from beam.conversations.comparing import Comparison as Comparison
    from beam.conversations.live_chat import LiveChat as LiveChat
    from beam.conversations.live_chat import NextTurn as NextTurn
    from beam.conversations.machine import PlanStep as PlanStep
    from beam.conversations.model_calls import RunModelCalls as RunModelCalls
    from beam.conversations.refusal import Refusal as Refusal
    from beam.conversations.refusal import refusal_of as refusal_of
    from beam.conversations.result import CheckResult as CheckResult
    from beam.conversations.result import ReplayCounts as ReplayCounts
    from beam.conversations.result import RunResult as RunResult
    from beam.conversations.result import StepResult as StepResult
    from beam.conversations.result import TurnResult as TurnResult
    from beam.conversations.result import Verdict as Verdict
    from beam.conversations.result import WorktreeResult as WorktreeResult
    from beam.conversations.run_options import RunProgress as RunProgress
    from beam.conversations.run_options import StepBegan as StepBegan
    from beam.conversations.run_options import Warned as Warned
    from beam.conversations.scenario import Scenario as Scenario
    from beam.model import events as events
    from beam.model import message as messages
    from beam.model import outcome as outcomes
    from beam.model import transcript as transcripts
    from beam.model.events import AnyEvent as AnyEvent
    from beam.model.events import Event as Event
    from beam.model.events import RequestDifference as RequestDifference
    from beam.model.limits import Limits as Limits
    from beam.model.message import Access as Access
    from beam.model.message import Message as Message
    from beam.model.message import ModelCalls as ModelCalls
    from beam.model.message import OptionFields as OptionFields
    from beam.model.message import Options as Options
    from beam.model.notification import NotifyTarget as NotifyTarget
    from beam.model.outcome import Class as Class
    from beam.model.outcome import Denial as Denial
    from beam.model.outcome import ModelCallCounts as ModelCallCounts
    from beam.model.outcome import ModelUsage as ModelUsage
    from beam.model.outcome import Outcome as Outcome
    from beam.model.outcome import Status as Status
    from beam.model.outcome import Unfinished as Unfinished
    from beam.model.outcome import Usage as Usage
    from beam.model.policy import Policy as Policy
    from beam.model.prices import estimated_usd as estimated_usd
    from beam.model.rule_lists import RuleLists as RuleLists
    from beam.model.settings import DURATIONS as DURATIONS
    from beam.model.settings import AgentSettings as AgentSettings
    from beam.proxy.options import ProxyCounts as ProxyCounts
    from beam.proxy.served import ServedRequest as ServedRequest
    from beam.proxy.served import explain as explain
    from beam.pty_adapter import picture as pictures
    from beam.pty_adapter import replay as screens
    from beam.pty_adapter.cast import NoCastError as NoCastError
    from beam.root.git_place import GitPlace as GitPlace
    from beam.rules.rule import Behavior as Behavior
    from beam.secrets.redact import redact as redact
    from beam.secrets.shown import blanked as blanked
    from beam.teams import hook as team_hook
    from beam.teams.board import MailLine as MailLine
    from beam.teams.board import MemberLine as MemberLine
    from beam.teams.board import TaskLine as TaskLine
    from beam.teams.board import TeamLine as TeamLine
    from beam.teams.board import TeamShown as TeamShown
    from beam.teams.model import Task as Task
    from beam.teams.stuck import Wait as Wait
    from beam.teams.watch import Teams as Teams
    from beam.testing import fake_model as fake_model
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
