"""Defines `Beam`, which has beam's operations as typed methods. Each method has one implementation. A method that waits
blocks; its attribute `aio` is the same method as a coroutine for event loops."""

from beam.api.verbs.agents import AgentVerbs, NotifyVerbs, RuleVerbs
from beam.api.verbs.control import ControlVerbs, KeepVerbs
from beam.api.verbs.looking import LookVerbs
from beam.api.verbs.proxying import ProxyVerbs
from beam.api.verbs.running import ChatVerbs, CompareVerbs, RunVerbs
from beam.api.verbs.sending import FollowVerbs, SendVerbs
from beam.api.verbs.setup import BrokerVerbs, SetupVerbs


class Beam(
    KeepVerbs,
    ProxyVerbs,
    RunVerbs,
    ChatVerbs,
    CompareVerbs,
    SendVerbs,
    FollowVerbs,
    LookVerbs,
    AgentVerbs,
    ControlVerbs,
    RuleVerbs,
    NotifyVerbs,
    BrokerVerbs,
    SetupVerbs,
):
    """Access to one root of beam, for one process: `Beam().send("claude", "hi").reply`.

    `root` is a root directory. By default it is found as the command line finds it: `$BEAM_ROOT`, else the root of the
    project folder around `cwd`. Nothing is created before something is sent or changed.

    `with Beam() as beam:` keeps the agents' processes alive from one message to the next, in dialogue and terminal
    mode.

    A method that waits blocks. In an event loop use its `.aio`: `await Beam().send.aio("claude", "hi")`. A failure
    raises a BeamError with a `message`, a `hint` and an `exit_code`.
    """
