"""A scripted model that tries one thing after the other, whatever came of the last, and looks itself what came of it.

A CLI may end its turn at a refusal: then the rest is tried in the next turn. What the CLI says of an attempt counts for
nothing; the disk and what the model is sent count.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from beam.api.matrix import Result
from beam.model.message import decode
from beam.proxy.wire.values import Answer, Call, ModelRequest, Reply
from beam.proxy.wire.values import Tool as ToolCall
from beam.testing.fake_model import FakeModel
from beam.testing.fake_model.player import Player
from beam.testing.fake_model.script import Script, parse
from tests.conformance import attempts
from tests.conformance.adapters import Tool
from tests.conformance.attempts import ATTEMPTS, Attempt, Place, filled
from tests.conformance.subject import SCRIPT, Subject
from tests.support.cli import eventually

PROMPT = "try what you can"
TOOLS = ("file", "shell")
_MAX_TURNS = len(ATTEMPTS) * 2


class Attacker(Player):
    """Answers the prompt with the next attempt, until there is none."""

    def __init__(self, script: Script) -> None:
        numbers: Iterator[int] = iter(range(1, 1_000_000))
        super().__init__(script, new_id=lambda: f"call{next(numbers):08d}")
        self._ids = self._new_id
        self._guard = threading.Lock()
        self.plan: Plan | None = None

    def reply(self, asked: ModelRequest) -> Reply:
        if self.plan is None or PROMPT not in asked.prompt:
            return super().reply(asked)
        with self._guard:
            answer = self.plan.answer(asked)
        calls = tuple(Call(id=self._ids(), name=tool.name, input=tool.input) for tool in answer.tools)
        self.plan.sent |= {call.id for call in calls}
        return Reply(text=answer.text or "", thinking="", calls=calls, answer=answer, id=self._ids())


class Model(FakeModel):
    """The model of a CLI that is tried."""

    def __init__(self) -> None:
        super().__init__(SCRIPT)
        self._player = self.attacker = Attacker(parse(SCRIPT))

    def offered(self, after: int) -> set[str]:
        """The names of all tools that the CLI offered in any request but the first so many."""
        return {name for request in self.requests[after:] for name in _names((request.body or {}).get("tools"))}


def _names(tools: Any) -> Iterator[str]:
    for tool in tools or ():
        inner = tool.get("functionDeclarations", tool.get("function_declarations"))
        if inner is not None:
            yield from _names(inner)
        else:
            yield (tool.get("function") or tool).get("name", tool.get("type", ""))


class Plan:
    """What is tried with one access: each attempt by each tool. `results` fill as it goes."""

    def __init__(self, subject: Subject, access: str, place: Place) -> None:
        assert isinstance(subject.model, Model)
        self.subject, self.access, self.place, self._model = subject, access, place, subject.model
        self.todo = [(attempt, tool) for tool in TOOLS for attempt in ATTEMPTS if self._has(attempt, tool)]
        self.results: dict[str, dict[str, Result]] = {attempt.name: {} for attempt in ATTEMPTS}
        self.sent: set[str] = set()
        self._before = len(subject.model.requests)
        self._absent: set[str] = (
            set()
        )  # tools that are not offered, and were refused when they were called all the same
        self.said: dict[str, str] = {}  # what the CLI gave back, for whoever looks into it
        self.ended: list[str] = []  # attempts that ended their turn
        self._issued: list[tuple[Attempt, str, Path, bytes | None]] = []

    def _has(self, attempt: Attempt, tool: str) -> bool:
        """Whether the CLI has, in any access, a tool for it."""
        data = self.subject.data
        if tool == "shell":
            return data.shell is not None
        if attempt.kind == "read":
            return data.look is not None and (data.shell is None or data.look.name != data.shell.name)
        return not attempt.by_shell_alone

    # -- one request -----------------------------------------------------------------------------------------------

    def answer(self, asked: ModelRequest) -> Answer:
        """What the model says: the next attempt, or the same again where its result was not seen yet."""
        if self._issued and self.sent & set(asked.call_ids):
            self._settle(asked.results)
        if self._issued and not self.subject.data.write.in_text:
            attempt, tool, _, _ = self._issued[0]
            return Answer(tools=(self._call(attempt, tool),))
        self._issue()
        if not self._issued:
            return Answer(text="That was all.")
        if self.subject.data.write.in_text:
            return Answer(text="\n\n".join(self._in_text(attempt, tool) for attempt, tool, _, _ in self._issued))
        attempt, tool, _, _ = self._issued[0]
        return Answer(tools=(self._call(attempt, tool),))

    def turn_over(self) -> None:
        """Settles what was tried and never came back."""
        self.ended += [attempt.name for attempt, _, _, _ in self._issued]
        self._settle(())

    def _issue(self) -> None:
        """Makes the next attempt the one that is tried; all of them where an answer holds as many as one likes."""
        self.place = replace(self.place, outbox=self._outbox())
        while self.todo and self._tool(*self.todo[0]).name in self._absent:
            attempt, tool = self.todo.pop(0)
            self.results[attempt.name][tool] = "not offered"
        count = len(self.todo) if self.subject.data.write.in_text else 1
        for attempt, tool in self.todo[:count]:
            target = Path(filled(attempt.target or attempt.path, self.place, tool))
            self._issued.append((attempt, tool, target, _content(target)))

    def _outbox(self) -> Path:
        """The outbox of the turn that runs."""
        found = [path.parent for path in self.subject.cli.home.turns.glob("*/*/outbox/turn.json")]
        return found[0] if found else self.place.outbox

    # -- what the model says ----------------------------------------------------------------------------------------

    def _call(self, attempt: Attempt, tool: str) -> ToolCall:
        given, path = self._tool(attempt, tool), filled(attempt.path, self.place, tool)
        prompt = given.prompt(path=path, text=attempt.content, command=self._command(attempt, path, tool))
        _, name, arguments = prompt.split(" ", 2)
        return ToolCall(name=name, input=json.loads(arguments))

    def _in_text(self, attempt: Attempt, tool: str) -> str:
        text = self.subject.data.write.in_text
        return text.replace("{path}", filled(attempt.path, self.place, tool)).replace("{text}", attempt.content)

    def _tool(self, attempt: Attempt, tool: str) -> Tool:
        data = self.subject.data
        found = data.shell if tool == "shell" else data.look if attempt.kind == "read" else data.write
        assert found is not None
        return found

    def _command(self, attempt: Attempt, path: str, tool: str) -> str:
        """The simplest command for it: the simpler it is, the sooner a CLI lets it run."""
        if tool == "file":
            return ""
        if attempt.kind == "read":
            return f"cat '{path}'"
        source = self.place.project / attempts.SOURCES / attempt.name
        command = f"cp '{source}' '{path}'" if attempt.by_copy else f"touch '{path}'"
        return f"{filled(attempt.before, self.place, tool)} && {command}" if attempt.before else command

    # -- what came of it --------------------------------------------------------------------------------------------

    def _settle(self, results: tuple[str, ...]) -> None:
        for attempt, tool, target, before in self._issued:
            self.todo.remove((attempt, tool))
            self.said[f"{attempt.name} {tool}"] = "\n".join(results)
            result = self._result(attempt, target, before, "\n".join(results))
            name = self._tool(attempt, tool).name
            if result == "refused" and name and name not in self._model.offered(self._before):
                self._absent.add(name)
                result = "not offered"
            self.results[attempt.name][tool] = result
        self._issued = []

    def _result(self, attempt: Attempt, target: Path, before: bytes | None, said: str) -> Result:
        if attempt.kind == "read":
            return "read" if attempt.word in said else "refused"
        if attempt.kind == "ask":
            return self._asked(target)
        if _content(target) == before:
            return "refused"
        if before is not None:
            target.write_bytes(before)
            return "written"
        target.unlink()
        for folder in target.parents:  # what was made for it goes too: an empty `.gemini` is a matter of trust
            inside = folder.is_relative_to(self.place.project) and folder != self.place.project
            if not inside or next(folder.iterdir(), None) is not None:
                break
            folder.rmdir()
        return "written"

    def _asked(self, request: Path) -> Result:
        """What became of a request for more access: it is taken out of the outbox, and its message is in the queue."""
        if not request.exists() and not request.with_suffix(".answer").exists():
            return "refused"
        eventually(lambda: request.with_suffix(".answer").exists(), what="the outbox was not looked at")
        queue = self.subject.cli.root / "agents/powerful/queue/new"
        found = [path for path in queue.iterdir() if path.suffix == ".json"]
        most = {decode(path.read_bytes()).at_most for path in found}
        for path in found:
            path.unlink()
        return "refused" if not found else "capped" if most == {self.access} else "written"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def tried(subject: Subject, access: str) -> dict[str, dict[str, Result]]:
    """What came of every attempt with that access, by its name and tool. Raises RuntimeError where a turn failed."""
    model = subject.model
    assert isinstance(model, Model)
    plan = model.attacker.plan = Plan(subject, access, subject.run_once("place", lambda: _made(subject)))
    for _ in range(_MAX_TURNS):
        left = len(plan.todo)
        done = subject.send(PROMPT, "--new", access=access)
        plan.turn_over()
        if not plan.todo:
            break
        if len(plan.todo) == left:
            raise RuntimeError(f"a turn tried nothing: {done}")
    return {name: {tool: found.get(tool, "not offered") for tool in TOOLS} for name, found in plan.results.items()}


def _made(subject: Subject) -> Place:
    """The project with its links, a root with another agent, and one with all rights whose queue rests."""
    cli, project = subject.cli, subject.cli.project
    home, data = Path(cli.env["HOME"]), subject.data
    if not (project / ".git").exists():
        for folder in ("objects", "refs", "hooks"):
            (project / ".git" / folder).mkdir(parents=True)
        (project / ".git/config").write_text("[core]\n\trepositoryformatversion = 0\n")
        (project / ".git/HEAD").write_text("ref: refs/heads/main\n")
    for folder in (project / ".git/hooks", (project / data.folder_settings).parent):
        if folder.parent != project and folder != project:  # not the settings' own folder: that is a matter of trust
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "README").write_text("")
    for file in (home / ".config/beam/x", home / "folder/x", home / data.settings):
        file.parent.mkdir(parents=True, exist_ok=True)
    (project / "near.txt").write_text(f"{attempts.NEAR}\n")
    (home / "far.txt").write_text(f"{attempts.FAR}\n")
    (project / attempts.SOURCES).mkdir()
    for attempt in ATTEMPTS:
        (project / attempts.SOURCES / attempt.name).write_text(attempt.content)
    queue = cli.root / "agents/maker/queue/new"
    link = f"ln -sfn {queue} {attempts.MADE}"
    for words in (
        ("agent", "add", "maker", "--command", link),
        ("agent", "add", "powerful", subject.name, "--access", "full"),
        ("queue", "pause", "powerful"),
        ("send", "maker", attempts.RECORD),
    ):
        done = cli(*words)
        if done.code:
            raise RuntimeError(f"{words}: {done}")
    (journal,) = (cli.root / "agents/maker/journal").glob("*.jsonl")
    for name, target in {
        attempts.LINKED: queue,
        attempts.RECORDS: journal.parent,
        attempts.ELSEWHERE: home / "folder",
        attempts.SETTINGS: (home / data.settings).parent,
        **{f"dangling-{tool}.json": queue / f"{tool}-dangling.json" for tool in TOOLS},
    }.items():
        (project / name).symlink_to(target)
    return Place(home, project, queue, journal, data.settings, data.folder_settings, project / "no-outbox")
