"""Whole turns of agents in memory: all that they record, what their agents are told, how they end, and the verdict.

`BEAM_WRITE_EXPECTED=1 pytest tests/turns/test_expected_turns.py` writes the expectations anew (tests/turns/expected);
read the difference before you keep it.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw, structs

from beam.agents import generic_screen
from beam.agents.base import Decoder, Exit, Host, Launch, Turn, Verdict
from beam.agents.claude.screen import profile as CLAUDE
from beam.agents.link import Query, Set
from beam.base.errors import BeamError
from beam.model import events
from beam.model.events import Event
from beam.model.limits import Limits
from beam.model.outcome import Class, Status
from beam.model.rule_lists import RuleLists
from beam.model.settings import AgentSettings
from beam.rules.ruleset import Ruleset, combine, rules_of
from beam.turns import dialogue, engine, exec, terminal
from beam.turns.asks import Asks, Decision
from beam.turns.calls import AgentCalls, CallAnswer
from beam.turns.dialogue import driver as dialogue_driver
from beam.turns.handle import TurnHandle
from beam.turns.keeper import ProcessKeeper
from beam.turns.stop import Stop
from beam.turns.terminal import conversation
from beam.turns.terminal import driver as terminal_driver
from tests.support import expected, lines, tui
from tests.support.context import NOON_NS
from tests.support.memory import MEMORY_ALONE, Memory
from tests.support.turns import services, turn_input

pytestmark = [MEMORY_ALONE, pytest.mark.slow]

HERE = Path(__file__).parent / "expected"
LONGEST_ASK_S = 5.0


class Clock:
    """The loop's time, from noon on."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._drawn = memory, 0

    def now_ns(self) -> int:
        return NOON_NS + round(self._memory.now() * 1000) * 1_000_000

    def monotonic(self) -> float:
        return self._memory.now()

    def random(self, count: int) -> bytes:
        self._drawn += 1
        return self._drawn.to_bytes(count, "big")


class Scene:
    """Turns of one agent; `told` is what is compared."""

    def __init__(self, memory: Memory, path: Path, *, keeps: bool = False) -> None:
        self.memory, self.path, self.clock = memory, path, Clock(memory)
        self.told: list[Any] = []
        self.number = 0
        self.lines = lines.Lines()
        self.handle: TurnHandle
        self.keeper = ProcessKeeper(path, self.record, self.clock, keeps=keeps)

    def record(self, body: Event, *, sync: bool = False) -> Event:
        told = expected.of_event(body, without=("v", "seq", "ts", "agent", "turn", "message_id"))
        self.told.append({"at": round(self.memory.now(), 1), **told, **({"sync": True} if sync else {})})
        return body

    async def turn(self, face: Any, text: str, during: During | None = None, **fields: Any) -> None:
        """One turn. Fields of the turn and of its input are told apart by their names."""
        self.number += 1
        scratch = self.path / f"scratch-{self.number}"
        scratch.mkdir()
        given = {name: fields.pop(name) for name in list(fields) if name in Turn.__struct_fields__}
        turn = Turn(
            **{
                "text": text,
                "message_id": "x-1",
                "agent": "x",
                "cwd": str(self.path),
                "scratch": str(scratch),
                "access": "ask",
                "fresh_session_id": "f-1",
                **given,
            }
        )
        input = turn_input(
            turn,
            **{
                "limits": Limits(grace=2, line_bytes=1000),
                "number": self.number,
                "turn_key": "k",
                "timeout": 12.0,
                "environ": {"PATH": "/bin", "LINES": "7"},
                "child_env": {"OURS": "1"},
                "host": Host(python=sys.executable, home="/home/me"),
                **fields,
            },
        )
        stop = Stop()
        self.handle = TurnHandle(
            stop=stop, asks=Asks("x", self.record, self.clock, LONGEST_ASK_S), calls=AgentCalls(self.clock)
        )
        within = services(self.record, self.clock, keeper=self.keeper, poll=self.handle.asks.expire)
        tasks = [] if during is None else [asyncio.create_task(during(self))]
        try:
            if isinstance(face, lines.Lines):
                verdict = await dialogue.run_turn(face, input, within, self.handle)
            elif isinstance(face, Screen):
                verdict = await terminal.run_turn(face, face.history, input, within, self.handle)
            else:
                verdict = await exec.run_turn(face, input, within, self.handle)
            self.told.append({"verdict": expected.told(verdict), "stop": stop.reason, "by": stop.by})
        except BeamError as error:
            self.told.append({"raised": f"{type(error).__name__}: {error.message} | {error.hint}"})
        finally:
            for task in tasks:
                task.cancel()

    async def until_asked(self, count: int = 1) -> list[str]:
        while len(asked := [each["ask_id"] for each in self.told if each.get("type") == "permission.asked"]) < count:
            await asyncio.sleep(0.01)
        return asked

    def children(self) -> list[Any]:
        """Each process: how it was started and ended."""
        found = []
        for child, given in zip(self.memory.children, self.memory.given, strict=True):
            env = {name: value for name, value in given["env"].items() if name != "PYTHONPATH"}
            told = {name: str(value) for name, value in given.items() if name != "env"}
            found.append({"started": told, "env": env, "graces": child.graces, "signals": child.signals})
        return found


During = Callable[[Scene], Awaitable[None]]
Play = Callable[[Scene], Awaitable[None]]


class Screen:
    """The agent `tui.py` as a terminal face."""

    def __init__(self, manner: str, profile: Any = CLAUDE, *, history: Any = None, **changes: Any) -> None:
        self.history = history
        self.profile = structs.replace(profile, columns=100, rows=40, start_seconds=10.0, **changes)
        self.manner = manner

    def launch(self, turn: Turn, host: Host) -> Launch:
        return Launch(argv=(sys.executable, tui.__file__, self.manner), files={"startup": b"x"})


class Told:
    """The transcript of `tui.py writes`; with `finds` the file is one of those that fit."""

    def __init__(self, *, tells_end: bool = True, finds: bool = False) -> None:
        self.tells_end, self._finds = tells_end, finds

    def where(self, turn: Turn, host: Host) -> str:
        return f"{turn.cwd}/tr*" if self._finds else f"{turn.cwd}/transcript"

    def transcript(self, turn: Turn) -> Transcribed:
        return Transcribed(turn, self.tells_end)


class Transcribed:
    """What is read of it; with `tells_end` also that the turn is over."""

    def __init__(self, turn: Turn, tells_end: bool) -> None:
        self.turn, self.state, self.reply, self._tells_end = turn, "", "", tells_end
        self.error: str | None = None

    def line(self, line: bytes) -> Sequence[Event]:
        word, _, rest = line.decode().partition(" ")
        if word == ">" and rest == self.turn.text:
            self.state = "working"
        elif word == "+" and self.state:
            return (events.ToolCalled(call_id="c", name=rest),)
        elif word == "<" and self.state:
            self.reply = rest
            return (events.Text(text=rest),)
        elif word in (".", "!") and self.state:
            self.state = "done" if self._tells_end else self.state
            self.error = rest or None
        return ()

    def verdict(self) -> Verdict:
        if self.error:
            return Verdict(status=Status.FAILED, class_=Class.OVERLOADED, reason=self.error)
        return Verdict(status=Status.COMPLETED, reply=self.reply, session_id="s-7")


class Headless:
    """A program of Python, and a decoder of its lines."""

    def __init__(self, program: str, **fields: Any) -> None:
        self.program, self.fields = program, fields

    def launch(self, turn: Turn, host: Host) -> Launch:
        argv = (host.python, "-c", self.program, turn.session_id or "")
        return Launch(**{"argv": argv, "files": {"config": b"x"}, "env": {"A": "b"}, **self.fields})

    def decoder(self, turn: Turn) -> Decoder:
        return Decoded(turn)


class Decoded:
    """Each line is what its first word says."""

    def __init__(self, turn: Turn) -> None:
        self.turn, self.reply = turn, ""

    def line(self, line: bytes) -> Sequence[Event]:
        word, _, rest = line.decode().partition(" ")
        match word:
            case "lost" if self.turn.session_id is not None:
                return (events.SessionLost(session_id=rest),)
            case "tool":
                return (events.ToolCalled(call_id="c", name=rest),)
            case "delta":
                return (events.TextDelta(text=rest),)
            case "started":
                return (events.SessionStarted(session_id=rest),)
        self.reply += f"{line.decode()};"
        return (events.Text(text=line.decode()),)

    def error_line(self, line: bytes) -> Sequence[Event]:
        return (events.StatusChanged(state="retrying", attempt=int(line)),) if line.isdigit() else ()

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        told = events.Notice(text=f"{exit.code} {exit.signal} {exit.stderr_tail!r} {exit.stopped_by}")
        if exit.code == 0:
            return (told,), Verdict(status=Status.COMPLETED, reply=self.reply, session_id="s")
        return (told,), Verdict(status=Status.FAILED, class_=Class.CRASHED, reason="it failed")


# -- scenes ------------------------------------------------------------------------------------------------------------


def one(face: Any, text: str, during: During | None = None, **fields: Any) -> Play:
    """A scene of one turn."""

    async def play(scene: Scene) -> None:
        chosen = scene.lines if face is lines.Lines else face
        await scene.turn(chosen, text, during, **fields)

    return play


def decides(*decisions: Decision) -> During:
    """Decides what is asked, in its order."""

    async def during(scene: Scene) -> None:
        for number, decision in enumerate(decisions, 1):
            asked = await scene.until_asked(number)
            await asyncio.sleep(1.5)
            scene.handle.asks.decide(asked[-1], decision)

    return during


def stops(after: float, reason: Any = "cancelled", *, twice: float = 0.0) -> During:
    """Stops the turn after some time, and once more after some other."""

    async def during(scene: Scene) -> None:
        await asyncio.sleep(after)
        scene.handle.stop.request(reason, by="ann")
        if twice:
            await asyncio.sleep(twice)
            scene.handle.stop.request(reason, by="bob")

    return during


def calls(*wanted: Any, seconds: float = 5.0) -> During:
    """The turn's calls, each with its answer."""

    async def during(scene: Scene) -> None:
        def answered(answer: CallAnswer) -> None:
            scene.told.append({"at": round(scene.memory.now(), 1), "answer": expected.told(answer)})

        while not scene.handle.calls.takes:
            await asyncio.sleep(0.01)
        for call in wanted:
            scene.handle.calls.add(call, answered, seconds=seconds)

    return during


def kept(*turns: tuple[Any, ...], between: During | None = None) -> Play:
    """Turns one after the other, of a holder that keeps the process."""

    async def play(scene: Scene) -> None:
        for face, text, fields in turns:
            await scene.turn(scene.lines if face is lines.Lines else face, text, **{"keep": 60.0, **fields})
            scene.told.append({"over": [scene.keeper.reason_to_end(None), scene.keeper.reason_to_end("s")]})
            if between is not None:
                await between(scene)
            await asyncio.sleep(2)
        await scene.keeper.end("the test is over")

    return play


def ruled(**lists: tuple[str, ...]) -> Ruleset:
    return combine(rules_of(RuleLists(**lists), "beam.yaml"))


async def is_called(scene: Scene) -> None:
    def answered(answer: CallAnswer) -> None:
        scene.told.append({"answer": expected.told(answer)})

    try:
        scene.keeper.call(Query(id="q", name="x"), answered, seconds=1.0)
    except BeamError as error:
        scene.told.append({"refused": error.message})


ALLOW, DENY = Decision(decision="allow", by="ann"), Decision(decision="deny", by="bob", message="not now")


async def grows_old(scene: Scene) -> None:
    await asyncio.sleep(1.5)
    why = scene.keeper.reason_to_end(None)
    scene.told.append({"over": why})
    await scene.keeper.end(why)


L = lines.Lines
COUNT = "import sys, time\nfor n in range(1, 9):\n    print(n, file=sys.stderr, flush=True)\n    time.sleep(0.5)\n"
RULES = ruled(allow=("Bash(git *)",), deny=("Bash(rm *)",), ask=("Bash(git push *)",))
ASK_WORDS = "run Bash({})"

DIALOGUES: dict[str, Play] = {
    "a plain turn": one(L, "say hi"),
    "allowed": one(L, "ask", decides(ALLOW)),
    "allowed always": one(L, "ask", decides(structs.replace(ALLOW, always=True))),
    "allowed with another input": one(L, "any", decides(structs.replace(ALLOW, input=Raw(b'{"a":1}')))),
    "denied": one(L, "ask", decides(DENY)),
    "denied with a stop": one(L, "asks", decides(structs.replace(DENY, stop=True))),
    "nobody decides": one(L, "ask"),
    "denied, and dies": one(L, "fatal", decides(structs.replace(DENY, message=""))),
    "denied, and garbage": one(L, "odd", decides(structs.replace(DENY, message=""))),
    "two, one decided": one(L, "asks", decides(ALLOW, ALLOW)),
    **{f"asks at {access}": one(L, "ask", access=access) for access in ("read", "edit", "full")},
    **{
        f"{command} at {access}": one(L, ASK_WORDS.format(command), decides(ALLOW), rules=RULES, access=access)
        for command in ("git log", "rm x", "git push", "make")
        for access in ("read", "ask", "full")
    },
    "described": one(L, "described", access="read"),
    "withdrawn": one(L, "moment"),
    "interrupted": one(L, "hang", stops(1.0)),
    "interrupted while it asks": one(L, "asks", stops(1.0)),
    "done while it is stopped and asks": one(L, "ask", stops(1.0)),
    "done while it is out of time and asks": one(L, "ask", timeout=3.0),
    "deaf, and stopped": one(L, "deaf", stops(1.0)),
    "deaf, and stopped twice": one(L, "deaf", stops(1.0, twice=0.5)),
    "out of time": one(L, "deaf", timeout=3.0),
    "idle": one(L, "deaf", idle_timeout=3.0),
    "mute": one(lines.Lines("mute"), "say hi"),
    "mute, and stopped": one(lines.Lines("mute"), "say hi", stops(1.0)),
    "a copy, mute, and stopped": one(lines.Lines("mute"), "say hi", stops(1.0), session_id="s", fork=True),
    "leaves": one(lines.Lines("leaves"), "say hi"),
    "later": one(L, "later"),
    "an open tool": one(L, "tool"),
    "garbage": one(L, "garbage"),
    "a long line": one(L, "long"),
    "unheard": one(L, "unheard"),
    "dies": one(L, "dies"),
    "dies, and has a name": one(L, "gone"),
    "dies in its session": one(L, "opens"),
    "stopped in its session": one(L, "opens", stops(1.0, twice=0.1)),
    "called": one(L, "call", calls(Set(id="c-1", name="model", value="m"))),
    "not answered": one(L, "later", calls(Query(id="q", name="x"), seconds=0.5)),
    "a lost session": one(L, "lost and found", session_id="s"),
    "kept": kept((L, "say one", {}), (L, "say two", {}), (L, "say three", {"model": "m"})),
    "kept for no time": kept((L, "say one", {"keep": 0.0}), (L, "say two", {})),
    "kept, with calls": kept((L, "calls", {}), (L, "say two", {}), between=is_called),
    "kept, and strays": kept((L, "stray stir", {}), (L, "say two", {})),
    "kept, and asks": kept((L, "stray ask 1 Bash", {}), (L, "say two", {})),
    "kept, and late": kept((L, "stray text x", {}), (L, "say two", {})),
    "kept in a session": kept((L, "say one", {"session_id": "s"}), (L, "say two", {"session_id": "s"})),
    "kept, and too old": kept((L, "say one", {"keep": 1.0}), (L, "say two", {"keep": 1.0}), between=grows_old),
}
SCREENS: dict[str, Play] = {
    **{
        manner: one(Screen(manner), "hello", decides(ALLOW, DENY), timeout=12.0)
        for manner in (
            *("echo", "exit", "hang", "ask", "permission", "drop", "late", "pause", "quiet", "lookalike"),
            *("alternate", "repaint", "blank", "crawl", "shed", "plain", "oracle", "welcome", "fickle", "setup"),
            *("hopeless", "deaf"),
        )
    },
    "parting": one(Screen("parting", session=r"--resume (\S+)"), "hello"),
    "a command behind a control character": one(Screen("echo"), "\x07/help"),
    "garbage in a text": one(Screen("echo"), "first\x1b[31m\r\nsecond\tline\n\n last"),
    "a command": one(Screen("echo"), "/help", commands=True),
    "a command as a message": one(Screen("echo"), "/help"),
    "two requests": one(Screen("permission"), "a b", decides(structs.replace(ALLOW, always=True))),
    "denied with a message": one(Screen("permission"), "a", decides(DENY)),
    "denied with a stop": one(Screen("permission"), "a", decides(structs.replace(DENY, stop=True))),
    "nobody decides": one(Screen("permission"), "a"),
    **{f"asks at {access}": one(Screen("permission"), "a", access=access) for access in ("read", "edit", "full")},
    "stopped": one(Screen("pause"), "hello", stops(2.0)),
    "stopped while it asks": one(Screen("permission"), "a", stops(3.0)),
    "stopped twice": one(Screen("hang"), "hello", stops(1.0, twice=0.2)),
    "stopped before it is ready": one(Screen("welcome"), "hello", stops(1.0)),
    "out of time": one(Screen("hang"), "hello", timeout=4.0),
    "learned": one(Screen("line", generic_screen.profile), "hello", timeout=12.0),
    "learned, and quiet": one(Screen("line", generic_screen.profile, stall_seconds=4.0), "slow", timeout=12.0),
    "no prompt before its cursor": one(Screen("echo", generic_screen.profile), "hello", timeout=12.0),
    "kept": kept(
        (Screen("echo"), "one", {}),
        (Screen("echo"), "two", {}),
        (Screen("echo"), "three", {"model": "m"}),
        between=is_called,
    ),
    "with a transcript": one(Screen("writes", history=Told()), "hello"),
    "with a transcript that is found": one(Screen("writes", history=Told(finds=True)), "hello"),
    "with a transcript without an end": one(Screen("writes", history=Told(tells_end=False)), "hello"),
    "with a transcript of a failure": one(Screen("writes", history=Told()), "no!"),
    "with a transcript of a failure without an end": one(Screen("writes", history=Told(tells_end=False)), "no!"),
    "with a transcript that never comes": one(Screen("echo", history=Told()), "hello"),
    "with a transcript, and stopped": one(Screen("writes", history=Told()), "hello", stops(2.0)),
    "with a transcript, out of time": one(Screen("writes", history=Told()), "hello", timeout=2.0),
    "with a transcript and an exit": one(Screen("exit", history=Told()), "hello"),
    "with a transcript and requests": one(Screen("permission", history=Told()), "a", decides(ALLOW)),
    "filmed": one(Screen("echo"), "hello", settings=AgentSettings(record=True)),
    "filmed with a request": one(Screen("permission"), "a", decides(DENY), settings=AgentSettings(record=True)),
    "kept and filmed": kept(
        (Screen("echo"), "one", {"settings": AgentSettings(record=True)}),
        (Screen("echo"), "two", {"settings": AgentSettings(record=True)}),
    ),
    "kept with a transcript": kept(
        (Screen("writes", history=Told()), "one", {}), (Screen("writes", history=Told()), "two", {})
    ),
    "kept after a command": kept((Screen("echo"), "/clear", {"commands": True}), (Screen("echo"), "two", {})),
}
HEADLESS: dict[str, Play] = {
    "a plain turn": one(Headless("print('hi')"), "hello"),
    "fed": one(Headless("import sys\nprint(next(sys.stdin))", stdin=b"from stdin\n"), "hello"),
    "in its arguments": one(Headless("print('hi')", prompt_in_argv=(3,)), "hello", session_id="secret"),
    "a long argument": one(
        Headless("print('hi')", prompt_in_argv=(3,)), "hi", session_id="x" * 99, limits=Limits(argv_text_bytes=98)
    ),
    "an argument of just that length": one(
        Headless("print('hi')", prompt_in_argv=(3,)), "hi", session_id="x" * 98, limits=Limits(argv_text_bytes=98)
    ),
    "fails": one(Headless("import sys\nprint('x')\nsys.exit(3)"), "hello"),
    "fails with a word": one(Headless("import sys\nsys.exit('no licence')"), "hello"),
    "retries": one(Headless(COUNT, retries=2), "hello"),
    "retries without a limit": one(Headless(COUNT), "hello"),
    "retries without an end": one(Headless(COUNT), "hello", idle_timeout=2.0),
    "out of time": one(Headless("import time\ntime.sleep(90)"), "hello", timeout=3.0),
    "idle": one(Headless("import time\nprint('x')\ntime.sleep(90)"), "hello", idle_timeout=3.0),
    "a tool is a sign of life": one(
        Headless("import time\nprint('tool Bash')\ntime.sleep(9)\nprint('done')"), "hello", idle_timeout=3.0
    ),
    "stopped": one(Headless("import time\ntime.sleep(90)"), "hello", stops(1.0)),
    "stopped by another signal": one(Headless("import time\ntime.sleep(90)", interrupt="SIGTERM"), "hello", stops(1.0)),
    "stopped twice": one(Headless("import time\ntime.sleep(90)"), "hello", stops(1.0, twice=0.5)),
    "a long line": one(Headless("print('x' * 2000)"), "hello"),
    "a lost session": one(Headless("print('lost s')\nprint('found')"), "hello", session_id="s"),
    "a session's file is gone": one(Headless("print('x')", session_file="/none"), "hello", session_id="s"),
    "a copy": one(Headless("print('started t')"), "hello", session_id="s", fork=True),
    "deltas": one(Headless("for n in range(5):\n    print('delta', n)\nprint('all')"), "hello"),
    "drops output": one(Headless("print('x')", drops_output=True), "hello"),
    "kept is no mode of it": kept((Headless("print('x')"), "one", {}), (Headless("print('x')"), "two", {})),
}
SCENES = {
    f"{kind}/{name}": play
    for kind, scenes in (("dialogue", DIALOGUES), ("terminal", SCREENS), ("exec", HEADLESS))
    for name, play in scenes.items()
}


def file_of(name: str) -> Path:
    place, _, rest = name.partition("/")
    return HERE / place / f"{re.sub('[^a-z]+', '-', rest)}.jsonl"


@pytest.mark.parametrize("name", SCENES)
def test_a_turn_has_its_checked_in_events_and_verdict(
    name: str, memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(memory, tmp_path, keeps="kept" in name)
    for module in (engine, exec, dialogue_driver, terminal_driver, conversation):
        monkeypatch.setattr(module, "crash_point", lambda point: scene.told.append({"point": point}))
    asyncio.run(SCENES[name](scene))
    films = sorted(tmp_path.glob("**/*.cast"))
    told = [*scene.told, *({"film": path.name, "lines": path.read_text().splitlines()} for path in films)]
    told = [*told, *({"heard": scene.lines.heard} for _ in [1] if scene.lines.heard), *scene.children()]
    text = expected.lines([*told, {"left": sorted(path.name for path in tmp_path.glob("scratch-*/*"))}])
    text = text.replace(json.dumps(str(tmp_path))[1:-1], "TMP").replace(sys.executable, "PYTHON")
    text = text.replace(lines.__file__, "lines.py").replace(tui.__file__, "tui.py")
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID", text)
    expected.check(file_of(name), text)
