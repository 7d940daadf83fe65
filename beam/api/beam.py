"""`Beam`: the typed verbs. Each has one implementation; where it waits, `.aio` is the same in an event loop."""

from beam.api.verbs.agents import AgentVerbs
from beam.api.verbs.control import ControlVerbs
from beam.api.verbs.following import FollowVerbs
from beam.api.verbs.keeping import KeepVerbs
from beam.api.verbs.looking import LookVerbs
from beam.api.verbs.ruling import RuleVerbs
from beam.api.verbs.sending import SendVerbs
from beam.api.verbs.serving import BrokerVerbs
from beam.api.verbs.setup import SetupVerbs


class Beam(KeepVerbs, SendVerbs, FollowVerbs, LookVerbs, AgentVerbs, ControlVerbs, RuleVerbs, BrokerVerbs, SetupVerbs):
    """One root of beam, as one process sees it: `Beam().send("claude", "hi").reply`.

    `root` is a directory of beam's own; left out, it is found as the command line finds it: `$BEAM_ROOT`, else the one
    of the project folder around `cwd`. Nothing is created before something is sent or changed.

    `with Beam() as beam:` keeps the agents' processes from message to message, in dialogue and terminal mode.

    A method that waits blocks; its `.aio` is the same for an event loop: `await Beam().send.aio("claude", "hi")`. What
    can't be done raises a BeamError, which has a `message`, a `hint` and an `exit_code`.
    """
