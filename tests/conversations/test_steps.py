"""The steps of a run: what agents are asked, and what each step comes to. The agents are stand-ins in memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from beam.base.errors import DiskError, UsageError
from beam.conversations import checking
from beam.conversations.budget import BudgetMeter
from beam.conversations.commands import TIMED_OUT, CommandEnd
from beam.conversations.expect import Changes
from beam.conversations.model_calls import ModelFolders
from beam.conversations.read import parse
from beam.conversations.result import StepResult
from beam.conversations.scenario import Parallel, Scenario, Spending
from beam.conversations.step_files import real_paths
from beam.conversations.steps import StepRunner
from beam.model import events
from beam.model.message import Options, Recording
from beam.model.outcome import Class, Outcome, Status, Usage
from tests.support.context import Root

Answer = str | tuple[Status, Class | None, str] | Exception


def scenario(root: Root, steps: str, head: str = "") -> Scenario:
    text = f"beam: 1\n{head}steps:\n{steps}"
    return parse(text.encode(), root.base / "s.yaml", {}, name="s.yaml")


class Agents:
    """Agents that give these answers in turn, whatever they are asked; `asked` is what they were."""

    def __init__(self, root: Root, answers: Mapping[str, list[Answer]]) -> None:
        self.context = root.context
        self.clock = root.clock
        self.stopped_by = ""
        self.asked: list[tuple[str, str]] = []
        self.options: list[Options] = []
        self.shown: list[events.Event] = []
        self._answers = {agent: list(them) for agent, them in answers.items()}

    async def say(self, agent: str, text: str, options: Options, seen: Callable[[Any], None], stop: Any) -> Outcome:
        await asyncio.sleep(0)
        self.asked.append((agent, text))
        self.options.append(options)
        self.clock.sleep(1)
        answer = self._answers[agent].pop(0)
        if isinstance(answer, Exception):
            raise answer
        for event in self.shown:
            seen(event)
        status, class_, said = answer if isinstance(answer, tuple) else (Status.COMPLETED, None, answer)
        if stop.reason is not None:
            status, said = Status.CANCELLED, stop.by or ""
        is_done = status is Status.COMPLETED
        return Outcome(
            message_id=f"{agent}-1",
            agent=agent,
            turn=len(self.asked),
            attempt=1,
            status=status,
            class_=class_,
            reply=said if is_done else None,
            reason=None if is_done else said or None,
            exit_code=0 if is_done else 9 if status is Status.CANCELLED else 5 if status is Status.DENIED else 1,
            usage=Usage(input_tokens=60, output_tokens=40),
            cost_usd=0.5,
        )


class Tree:
    """A folder in a git repository, in which each look finds another snapshot."""

    def __init__(self, *, is_there: bool = True) -> None:
        self._is_there, self._looks = is_there, 0
        self.applied: list[bytes] = []
        self.wrong = ""
        self.same = False

    def is_in_repository(self) -> bool:
        return self._is_there

    def snapshot(self) -> str:
        self._looks += 1
        return f"tree-{self._looks}"

    def changes(self, before: str, after: str) -> Changes:
        return Changes(paths=("a.py",), added=3, removed=1, known=True)

    def known_files(self) -> frozenset[str]:
        return frozenset({"a.py", "b.py"})

    def diff(self, before: str, after: str) -> str:
        return "" if self.same else f"{before}..{after}"

    def patch(self, before: str, after: str) -> bytes:
        return b"" if self.same else f"{before}..{after}".encode()

    def apply(self, patch: bytes) -> str:
        self.applied.append(patch)
        return self.wrong


class Run:
    """The steps of a scenario, run one after the other."""

    def __init__(
        self,
        root: Root,
        steps: str,
        answers: Mapping[str, list[Answer]] | None = None,
        *,
        head: str = "",
        limits: Spending | None = None,
        tree: Tree | None = None,
        **options: Any,
    ) -> None:
        self.scenario = scenario(root, steps, head)
        self.agents = Agents(root, answers or {})
        self.warned: list[str] = []
        self.over: list[str] = []
        given: dict[str, Any] = {"recorder": None, "replay": None, "ci": False, "restores": False}
        self.runner = StepRunner(
            self.scenario,
            cast(Any, self.agents),
            BudgetMeter(limits or Spending(), self.warned.append, self.over.append),
            folder=root.base,
            changes=cast(Any, tree or Tree(is_there=False)),
            models=ModelFolders(Recording(), 1, 1),
            real_paths=real_paths(self.scenario),
            **{**given, **options},
        )

    def all(self) -> list[StepResult]:
        async def run() -> list[StepResult]:
            await self.runner.files.begin()
            found = []
            for step in self.scenario.steps:
                if isinstance(step, Parallel):
                    found += await asyncio.gather(*(self.runner.run(each) for each in step.steps))
                else:
                    found.append(await self.runner.run(step))
            return found

        return asyncio.run(run())


def short(result: StepResult) -> tuple[Any, ...]:
    """The verdict of a step, why, its exit code, and its checks."""
    checks = [(check.name, check.verdict.value, check.detail) for check in result.checks]
    return (result.verdict.value, result.why, result.exit_code, *([checks] if checks else []))


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Commands end as their first word says: `ok`, the number of their exit code, or `stop` with their run."""
    ran: list[tuple[Any, ...]] = []

    async def run_command(
        command: Any, cwd: Path, environ: Mapping[str, str], timeout: float, stopped_by: Callable[[], str]
    ) -> CommandEnd:
        ran.append((command, cwd, timeout, {name: value for name, value in environ.items() if "BEAM_VAR" in name}))
        word = (command if isinstance(command, str) else command[0]).split()[0]
        if word == "stop":
            return CommandEnd(exit_code=TIMED_OUT, output="ran stop", why=stopped_by(), is_stopped=True)
        code = 0 if word == "ok" else int(word)
        return CommandEnd(exit_code=code, output=f"ran {word}", why=f"ended with exit code {code}" if code else "")

    monkeypatch.setattr(checking, "run_command", run_command)
    return ran


FAILED = (Status.FAILED, Class.CRASHED, "it fell")
DENIED = (Status.DENIED, None, "")
EMPTY = (Status.FAILED, Class.EMPTY, "no answer")
SAYS_YES = '{"score": 8, "reason": "good work"}'

CASES: list[tuple[str, str, dict[str, list[Answer]], list[tuple[Any, ...]], list[tuple[str, str]]]] = [
    ("one answer", "- {send: a, prompt: x}\n", {"a": ["yes"]}, [("passed", "", 0)], [("a", "x")]),
    (
        "a failed turn",
        "- {send: a, prompt: x}\n",
        {"a": [FAILED]},
        [("failed", "a: failed (crashed): it fell", 1)],
        [("a", "x")],
    ),
    (
        "a failed turn without a class or reason",
        "- {send: a, prompt: x}\n",
        {"a": [(Status.TIMEOUT, None, "")]},
        [("failed", "a: timeout: no reason given", 1)],
        [("a", "x")],
    ),
    (
        "a failure that is expected",
        "- {send: a, prompt: x, expect: {status: failed}}\n",
        {"a": [FAILED]},
        [("passed", "", 0, [("status: failed", "passed", "it was failed")])],
        [("a", "x")],
    ),
    (
        "an exit code that is expected",
        "- {send: a, prompt: x, expect: {exit_code: 1}}\n",
        {"a": [FAILED]},
        [("passed", "", 0, [("exit_code: 1", "passed", "it was 1")])],
        [("a", "x")],
    ),
    (
        "a denial",
        "- {send: a, prompt: x}\n",
        {"a": [DENIED]},
        [("failed", "a: denied: no reason given", 5)],
        [("a", "x")],
    ),
    (
        "a denial that is allowed",
        "- {send: a, prompt: x, allow: [denied]}\n",
        {"a": [DENIED]},
        [("passed", "", 0)],
        [("a", "x")],
    ),
    (
        "an error before the turn",
        "- {send: a, prompt: x}\n",
        {"a": [UsageError("no such thing", "do this")]},
        [("failed", "no such thing (do this)", 2)],
        [("a", "x")],
    ),
    (
        "two agents, one of which fails",
        "- {send: [a, b], prompt: x}\n",
        {"a": ["yes"], "b": [FAILED]},
        [("failed", "b: failed (crashed): it fell", 1)],
        [("a", "x"), ("b", "x")],
    ),
    (
        "a check that holds",
        "- {send: a, prompt: x, expect: {contains: e}}\n",
        {"a": ["yes"]},
        [("passed", "", 0, [("contains: e", "passed", "")])],
        [("a", "x")],
    ),
    (
        "two checks that don't",
        "- {send: a, prompt: x, expect: {contains: nay, equals: never}}\n",
        {"a": ["yes"]},
        [
            (
                "failed",
                "contains: nay: 'nay' is not in it; the answer was 'yes'",
                13,
                [
                    ("contains: nay", "failed", "'nay' is not in it; the answer was 'yes'"),
                    ("equals: never", "failed", "the answer was 'yes'"),
                ],
            )
        ],
        [("a", "x")],
    ),
    (
        "a later check of an earlier step",
        "- {send: a, id: one, prompt: x}\n- {check: {contains: nay}, of: one}\n- {check: {contains: 'yes'}, of: one}\n",
        {"a": ["yes"]},
        [
            ("passed", "", 0),
            (
                "failed",
                "contains: nay: 'nay' is not in it; the answer was 'yes'",
                13,
                [("contains: nay", "failed", "'nay' is not in it; the answer was 'yes'")],
            ),
            ("passed", "", 0, [("contains: yes", "passed", "")]),
        ],
        [("a", "x")],
    ),
    (
        "a prompt with what an earlier step said",
        "- {send: a, id: one, prompt: x}\n- {send: b, prompt: [it said, {reply: one}]}\n",
        {"a": ["yes"], "b": ["no"]},
        [("passed", "", 0), ("passed", "", 0)],
        [("a", "x"), ("b", "it said\n\nyes")],
    ),
    (
        "a prompt with what a step said that said nothing",
        (
            "- {send: a, id: one, prompt: x}\n"
            "- {send: b, id: two, prompt: {reply: one}}\n- {check: {contains: x}, of: two}\n"
        ),
        {"a": [" "], "b": ["no"]},
        [("passed", "", 0), ("skipped", "step one said nothing", 0), ("skipped", "step two was not run", 0)],
        [("a", "x")],
    ),
    (
        "a prompt and a judge of what a step said that failed its check",
        (
            "- {send: a, id: one, prompt: x, expect: {contains: nay}}\n"
            "- {send: b, prompt: {reply: one}}\n- {judge: b, of: one, rubric: good}\n- {send: b, prompt: y}\n"
        ),
        {"a": ["yes"], "b": ["no"]},
        [
            (
                "failed",
                "contains: nay: 'nay' is not in it; the answer was 'yes'",
                13,
                [("contains: nay", "failed", "'nay' is not in it; the answer was 'yes'")],
            ),
            ("skipped", "step one failed", 0),
            ("skipped", "step one failed", 0),
            ("passed", "", 0),
        ],
        [("a", "x"), ("b", "y")],
    ),
    (
        "a prompt with the output of a command that failed, which one step expects",
        (
            "- {run: ['3'], id: one}\n- {run: ['3'], id: two, expect: {exit_code: 3}}\n"
            "- {send: a, prompt: {reply: one}}\n- {send: a, prompt: {reply: two}}\n"
        ),
        {"a": ["yes"]},
        [
            ("failed", "ended with exit code 3", 13),
            ("passed", "ended with exit code 3", 3, [("exit_code: 3", "passed", "it was 3")]),
            ("skipped", "step one failed", 0),
            ("passed", "", 0),
        ],
        [("a", "ran 3")],
    ),
    (
        "a prompt with what two agents said",
        "- {send: [a, b], id: one, prompt: x}\n- {send: b, prompt: {reply: one}}\n",
        {"a": ["yes"], "b": ["no", "so"]},
        [("passed", "", 0), ("passed", "", 0)],
        [("a", "x"), ("b", "x"), ("b", "a:\nyes\n\nb:\nno")],
    ),
    (
        "a prompt with a diff outside of git",
        "- {send: a, prompt: {diff: true}}\n",
        {"a": ["yes"]},
        [("passed", "", 0)],
        [("a", "(this is no git repository, so nobody knows what was changed")],
    ),
    (
        "what another agent did",
        "- {send: a, prompt: x}\n- {send: b, prompt: go on, context_from: a}\n",
        {"a": ["yes"], "b": ["no"]},
        [("passed", "", 0), ("skipped", "a had no turn before", 0)],
        [("a", "x")],
    ),
    (
        "a judge",
        "- {send: a, id: one, prompt: x}\n- {judge: b, of: one, rubric: good}\n",
        {"a": ["yes"], "b": [SAYS_YES]},
        [("passed", "", 0), ("passed", "good work", 0, [("judge: b gives 7 of 10 or more", "passed", "8: good work")])],
        [("a", "x"), ("b", "Score the work of another agent from 0 (worst) to 10 (best) ")],
    ),
    (
        "a judge who wants more",
        "- {send: a, id: one, prompt: x}\n- {judge: b, of: one, rubric: good, score: 9}\n",
        {"a": ["yes"], "b": [SAYS_YES]},
        [
            ("passed", "", 0),
            (
                "failed",
                "judge: b gives 9 of 10 or more: 8: good work",
                13,
                [("judge: b gives 9 of 10 or more", "failed", "8: good work")],
            ),
        ],
        [("a", "x"), ("b", "Score the work of another agent from 0 (worst) to 10 (best) ")],
    ),
    (
        "a judge who gives exactly that",
        "- {send: a, id: one, prompt: x}\n- {judge: b, of: one, rubric: good, score: 8}\n",
        {"a": ["yes"], "b": [SAYS_YES]},
        [("passed", "", 0), ("passed", "good work", 0, [("judge: b gives 8 of 10 or more", "passed", "8: good work")])],
        [("a", "x"), ("b", "Score the work of another agent from 0 (worst) to 10 (best) ")],
    ),
    (
        "a judge without a score",
        "- {send: a, id: one, prompt: x}\n- {judge: b, of: one, rubric: good}\n",
        {"a": ["yes"], "b": ["well"]},
        [
            ("passed", "", 0),
            (
                "failed",
                "judge: b gives 7 of 10 or more: the answer is no JSON",
                13,
                [("judge: b gives 7 of 10 or more", "failed", "the answer is no JSON")],
            ),
        ],
        [("a", "x"), ("b", "Score the work of another agent from 0 (worst) to 10 (best) ")],
    ),
    (
        "a judge who fails",
        "- {send: a, id: one, prompt: x}\n- {judge: b, of: one, rubric: good}\n",
        {"a": ["yes"], "b": [FAILED]},
        [("passed", "", 0), ("failed", "b: failed (crashed): it fell", 1)],
        [("a", "x"), ("b", "Score the work of another agent from 0 (worst) to 10 (best) ")],
    ),
    (
        "a judge of a step",
        "- {send: a, prompt: x, expect: {judge: {agent: b, rubric: good}}}\n",
        {"a": ["yes"], "b": [SAYS_YES]},
        [("passed", "", 0, [("judge: b gives 7 of 10 or more", "passed", "8: good work")])],
        [("a", "x"), ("b", "Score the work of another agent from 0 (worst) to 10 (best) ")],
    ),
    (
        "a judge of a step that failed",
        "- {send: a, prompt: x, expect: {judge: {agent: b, rubric: good}}}\n",
        {"a": [FAILED]},
        [("failed", "a: failed (crashed): it fell", 1, [("judge: good", "skipped", "there is nothing to judge")])],
        [("a", "x")],
    ),
    (
        "a judge of a step that said nothing",
        "- {send: a, prompt: x, expect: {judge: {agent: b, rubric: good}}}\n",
        {"a": [" "]},
        [
            (
                "failed",
                "judge: good: there is nothing to judge",
                13,
                [("judge: good", "failed", "there is nothing to judge")],
            )
        ],
        [("a", "x")],
    ),
    ("a command", "- run: [ok, x]\n- {run: ok x, timeout: 5s}\n", {}, [("passed", "", 0), ("passed", "", 0)], []),
    (
        "a command that fails",
        "- run: ['3']\n- {run: ['3'], expect: {exit_code: 3}}\n- {run: ['3'], expect: {exit_code: 4}}\n",
        {},
        [
            ("failed", "ended with exit code 3", 13),
            ("passed", "ended with exit code 3", 3, [("exit_code: 3", "passed", "it was 3")]),
            ("failed", "exit_code: 4: it was 3", 13, [("exit_code: 4", "failed", "it was 3")]),
        ],
        [],
    ),
    (
        "a command's output",
        "- {run: [ok], id: one}\n- {check: {contains: ran ok}, of: one}\n",
        {},
        [("passed", "", 0), ("passed", "", 0, [("contains: ran ok", "passed", "")])],
        [],
    ),
    (
        "commands as checks",
        "- {send: a, prompt: x, expect: [{command: [ok]}, {command: ['2', y]}]}\n",
        {"a": ["yes"]},
        [
            (
                "failed",
                "command: 2, y: ended with exit code 2: ran 2",
                13,
                [("command: ok", "passed", ""), ("command: 2, y", "failed", "ended with exit code 2: ran 2")],
            )
        ],
        [("a", "x")],
    ),
    (
        "files as checks",
        (
            "- {send: a, prompt: x, expect: "
            "{file_exists: beam.yaml, file_absent: none, file_contains: {beam.yaml: agents}}}\n"
        ),
        {"a": ["yes"]},
        [
            (
                "passed",
                "",
                0,
                [
                    ("file_exists: beam.yaml", "passed", ""),
                    ("file_absent: none", "passed", ""),
                    ('file_contains: {"beam.yaml":["agents"]}', "passed", ""),
                ],
            )
        ],
        [("a", "x")],
    ),
    (
        "changes outside of git",
        "- {send: a, prompt: x, expect: {files_changed: 1}}\n",
        {"a": ["yes"]},
        [
            (
                "failed",
                "files_changed: 1: no file was changed",
                13,
                [("files_changed: 1", "failed", "no file was changed")],
            )
        ],
        [("a", "x")],
    ),
    (
        "a chat until a phrase",
        "- {chat: [a, b], prompt: x, until: {phrase: OK}}\n",
        {"a": ["1", "OK"], "b": ["2"]},
        [("passed", "ended: a said 'OK'", 0)],
        [
            ("a", "x\n\nYou are a in a conversation with b. What is said comes wi"),
            ("b", "x\n\nYou are b in a conversation with a. What is said comes wi"),
            ("a", "b:\n| 2"),
        ],
    ),
    (
        "a chat of some turns",
        "- {chat: [a, b], prompt: x, until: {turns: 3}}\n",
        {"a": ["1", "3"], "b": ["2"]},
        [("passed", "ended: 3 turns were taken", 0)],
        [
            ("a", "x\n\nYou are a in a conversation with b. What is said comes wi"),
            ("b", "x\n\nYou are b in a conversation with a. What is said comes wi"),
            ("a", "b:\n| 2"),
        ],
    ),
    (
        "a chat that costs",
        "- {chat: [a, b], prompt: x, until: {cost_usd: 1.0}}\n",
        {"a": ["1"], "b": ["2"]},
        [("passed", "ended: it cost $1", 0)],
        [
            ("a", "x\n\nYou are a in a conversation with b. What is said comes wi"),
            ("b", "x\n\nYou are b in a conversation with a. What is said comes wi"),
        ],
    ),
    (
        "a chat that takes long",
        "- {chat: [a, b], prompt: x, until: {time: 2s}}\n",
        {"a": ["1"], "b": ["2"]},
        [("passed", "ended: it took 2 s", 0)],
        [
            ("a", "x\n\nYou are a in a conversation with b. What is said comes wi"),
            ("b", "x\n\nYou are b in a conversation with a. What is said comes wi"),
        ],
    ),
    (
        "a chat with a silence",
        "- {chat: [a, b], prompt: x}\n",
        {"a": ["1"], "b": [" "]},
        [("passed", "ended: b fell silent", 0)],
        [
            ("a", "x\n\nYou are a in a conversation with b. What is said comes wi"),
            ("b", "x\n\nYou are b in a conversation with a. What is said comes wi"),
        ],
    ),
    (
        "a chat with an empty answer that is allowed",
        "- {chat: [a, b], prompt: x, allow: [empty]}\n",
        {"a": ["1"], "b": [EMPTY]},
        [("passed", "ended: b fell silent", 0)],
        [
            ("a", "x\n\nYou are a in a conversation with b. What is said comes wi"),
            ("b", "x\n\nYou are b in a conversation with a. What is said comes wi"),
        ],
    ),
    (
        "a chat with a denial that is allowed",
        "- {chat: [a, b], prompt: x, allow: [denied]}\n",
        {"a": [DENIED]},
        [("passed", "ended: a's turn was denied", 0)],
        [("a", "x\n\nYou are a in a conversation with b. What is said comes wi")],
    ),
    (
        "a chat with a failure",
        "- {chat: [a, b], prompt: x}\n",
        {"a": ["1"], "b": [FAILED]},
        [("failed", "b: failed (crashed): it fell", 1)],
        [
            ("a", "x\n\nYou are a in a conversation with b. What is said comes wi"),
            ("b", "x\n\nYou are b in a conversation with a. What is said comes wi"),
        ],
    ),
    (
        "a chat by address",
        "- {chat: [a, b, c], prompt: x, order: address}\n",
        {"a": ["@c go"], "c": ["nobody"]},
        [("passed", "ended: nobody was addressed", 0)],
        [
            ("a", "x\n\nYou are a in a conversation with b, c. Begin with @NAME t"),
            ("c", "x\n\nYou are c in a conversation with a, b. Begin with @NAME t"),
        ],
    ),
    (
        "a chat with a moderator",
        "- {chat: [a, b], prompt: x, order: moderator, moderator: m}\n",
        {"m": ["b", "a", "DONE"], "a": ["1"], "b": ["2"]},
        [("passed", "ended: m said that it is settled", 0)],
        [
            ("m", "You moderate a conversation of a, b. What is said comes with"),
            ("b", "x\n\nYou are b in a conversation with a. What is said comes wi"),
            ("m", "b:\n| 2\n\nWho speaks next? Answer with one name of a, b, or wi"),
            ("a", "x\n\nYou are a in a conversation with b. What is said comes wi"),
            ("m", "a:\n| 1\n\nWho speaks next? Answer with one name of a, b, or wi"),
        ],
    ),
    (
        "a moderator who names nobody",
        "- {chat: [a, b], prompt: x, order: moderator, moderator: m}\n",
        {"m": ["the weather"]},
        [("passed", "ended: m named nobody: 'the weather'", 0)],
        [("m", "You moderate a conversation of a, b. What is said comes with")],
    ),
    (
        "a moderator who fails",
        "- {chat: [a, b], prompt: x, order: moderator, moderator: m}\n",
        {"m": [FAILED]},
        [("failed", "m: failed (crashed): it fell", 1)],
        [("m", "You moderate a conversation of a, b. What is said comes with")],
    ),
    (
        "a chat until a check holds",
        "- {chat: [a, b], prompt: x, until: {check: {contains: fine}}}\n",
        {"a": ["1", "it is fine"], "b": ["2"]},
        [("passed", "ended: the check of `until` passed: contains", 0)],
        [
            ("a", "x\n\nYou are a in a conversation with b. What is said comes wi"),
            ("b", "x\n\nYou are b in a conversation with a. What is said comes wi"),
            ("a", "b:\n| 2"),
        ],
    ),
    (
        "steps at the same time",
        "- parallel:\n  - {send: a, prompt: x}\n  - {send: b, prompt: y}\n",
        {"a": ["1"], "b": [FAILED]},
        [("passed", "", 0), ("failed", "b: failed (crashed): it fell", 1)],
        [("a", "x"), ("b", "y")],
    ),
]


@pytest.fixture
def place(root: Root) -> Root:
    """A root with the agents a, b, c and m."""
    (root.base / "beam.yaml").write_text(f"agents: {{{', '.join(f'{name}: {{command: [cat]}}' for name in 'abcm')}}}\n")
    root.reload()
    return root


@pytest.mark.parametrize(("name", "steps", "answers", "results", "asked"), CASES, ids=[case[0] for case in CASES])
def test_a_step_comes_to(
    place: Root,
    commands: list[object],
    name: str,
    steps: str,
    answers: dict[str, list[Answer]],
    results: list[tuple[Any, ...]],
    asked: list[tuple[str, str]],
) -> None:
    run = Run(place, steps, answers)
    assert [short(result) for result in run.all()] == results
    assert [(agent, text[:60]) for agent, text in run.agents.asked] == asked


def test_a_result_has_all_that_a_step_was(place: Root) -> None:
    run = Run(place, "- {send: a, id: one, prompt: x}\n- {check: {contains: e}, of: one}\n", {"a": ["yes"]})
    run.agents.shown = [
        events.ToolCalled(call_id="1", name="Bash"),
        events.FileChanged(path="a.py", kind="add"),
        events.FileChanged(path="a.py", kind="update"),
    ]
    sent, checked = run.all()
    (turn,) = sent.turns
    assert (turn.agent, turn.tools, turn.files, turn.cost_usd, turn.tokens, turn.replayed) == (
        "a", ("Bash",), ("a.py",), 0.5, 100, None,
    )  # fmt: skip
    assert (sent.id, sent.kind, sent.line, sent.duration_s, sent.reply) == ("one", "send", 3, 1.0, "yes")
    assert (checked.kind, checked.line, checked.duration_s, checked.turns, checked.score) == ("check", 4, 0.0, (), None)
    assert [check.line for check in checked.checks] == [4]


def test_a_commands_output_and_its_variables_and_time(place: Root, commands: list[tuple[Any, ...]]) -> None:
    head = "variables: {name: world}\n"
    steps = "- {run: [ok, x], timeout: 5s}\n- {send: a, prompt: x, expect: {command: ok y}}\n"
    ran, _ = Run(place, steps, {"a": ["yes"]}, head=head).all()
    assert (ran.output, ran.kind, ran.turns) == ("ran ok", "run", ())
    variables = {"BEAM_VAR_name": "world"}
    assert commands == [
        (("ok", "x"), place.base, 5.0, variables),
        ("ok y", place.base, 600.0, variables),
    ]


def test_the_options_of_a_step_are_those_of_its_messages(place: Root) -> None:
    (place.base / "beam.yaml").write_text("agents: {a: {adapter: claude}, b: {command: [cat]}}\n")
    place.reload()
    steps = (
        "- {send: [a, b], prompt: x, model: m, access: edit, via: exec, timeout: 3s, max_turns: 4, budget_usd: 2,"
        " schema: {type: object}}\n"
        "- {judge: a, of: one, rubric: good}\n"
    )
    run = Run(place, steps.replace("send: [a, b]", "id: one, send: [a, b]"), {"a": ["1", SAYS_YES], "b": ["2"]})
    run.all()
    asked = Options(
        model="m", access="edit", via="exec", timeout=3.0, max_turns=4, budget_usd=2.0, schema='{"type":"object"}'
    )
    by = dict(zip([agent for agent, _ in run.agents.asked], run.agents.options, strict=True))
    assert run.agents.options[0] == asked
    assert by["b"] == msgspec.structs.replace(asked, access=None)
    assert run.agents.options[2].schema is not None and '"score"' in run.agents.options[2].schema


def test_what_must_not_be_missed_in_ci_fails_a_step(place: Root) -> None:
    steps = "- {send: a, prompt: x}\n- {send: a, prompt: x, allow: [empty]}\n"
    results = [short(result) for result in Run(place, steps, {"a": ["", ""]}, ci=True).all()]
    why = "a: the answer is empty (if that is right: `allow: [empty]`)"
    assert results == [
        ("failed", f"ci: not empty: {why}", 13, [("ci: not empty", "failed", why)]),
        ("passed", "", 0),
    ]


def test_a_budget_ends_a_chat_in_the_middle_of_a_turn(place: Root) -> None:
    run = Run(place, "- {chat: [a, b], prompt: x, until: {tokens: 50}}\n", {"a": ["never said"]})
    run.agents.shown = [events.UsageSeen(usage=Usage(input_tokens=50))]
    (result,) = run.all()
    assert short(result) == ("passed", "ended: it used 50 tokens", 0)
    assert [turn.outcome.status for turn in result.turns] == [Status.CANCELLED]
    run = Run(place, "- {chat: [a, b], prompt: x, order: moderator, moderator: m, until: {tokens: 50}}\n", {"m": ["a"]})
    run.agents.shown = [events.UsageSeen(usage=Usage(input_tokens=50))]
    (result,) = run.all()
    assert short(result) == ("passed", "ended: it used 50 tokens", 0)


def test_the_budget_of_a_run_is_reported_as_it_is_used(place: Root) -> None:
    run = Run(place, "- {send: a, prompt: x}\n- {send: a, prompt: x}\n", {"a": ["1", "2"]}, limits=Spending(tokens=200))
    run.all()
    assert run.over == ["the run used 200 of 200 tokens, its budget"]
    assert run.warned == []


def test_steps_after_the_end_are_skipped_and_say_why(place: Root) -> None:
    run = Run(place, "- {send: a, id: one, prompt: x}\n- {check: {contains: x}, of: one}\n")
    run.runner.skip_rest("it is late")
    run.runner.skip_rest("another reason")
    assert [short(result) for result in run.all()] == [("skipped", "it is late", 0)] * 2


def test_a_turn_that_was_stopped_says_who_stopped_it_and_a_command_what_it_came_to(
    place: Root, commands: list[object]
) -> None:
    run = Run(place, "- {send: a, prompt: x}\n- run: ['3']\n", {"a": [FAILED]})
    run.agents.stopped_by = "human (signal)"
    assert [short(result)[:2] for result in run.all()] == [
        ("failed", "human (signal)"),
        ("failed", "ended with exit code 3"),
    ]


def test_a_command_that_was_ended_with_its_run_is_cancelled_whatever_its_step_expects(
    place: Root, commands: list[object]
) -> None:
    run = Run(place, "- run: stop\n- {run: stop, expect: {exit_code: 124}}\n")
    run.agents.stopped_by = "human (signal)"
    first, second = run.all()
    assert short(first) == ("failed", "human (signal)", 9)
    assert short(second) == ("failed", "human (signal)", 9, [("exit_code: 124", "failed", "it was 9")])


def test_no_command_is_begun_to_check_a_step_after_the_run_was_stopped(place: Root, commands: list[object]) -> None:
    run = Run(place, "- {send: a, prompt: x, expect: {command: ok y}}\n", {"a": ["yes"]})
    run.agents.stopped_by = "human (signal)"
    assert [short(result) for result in run.all()] == [
        ("passed", "", 0, [("command: ok y", "skipped", "human (signal)")])
    ]
    assert commands == []


def test_an_empty_answer_fails_no_judges_check_after_the_run_was_stopped(place: Root) -> None:
    run = Run(place, "- {send: a, prompt: x, expect: {judge: {agent: b, rubric: good}}}\n", {"a": [" "]})
    run.agents.stopped_by = "human (signal)"
    assert [short(result) for result in run.all()] == [
        ("passed", "", 0, [("judge: good", "skipped", "there is nothing to judge")])
    ]


@pytest.mark.parametrize(("word", "status"), [("denied", Status.DENIED), ("truncated", Status.TRUNCATED)])
def test_what_the_file_allows_fails_no_step_of_it(place: Root, word: str, status: Status) -> None:
    for head, verdict in (("", "failed"), (f"allow: [{word}]\n", "passed"), ("allow: [empty]\n", "failed")):
        run = Run(place, "- {send: a, prompt: x}\n", {"a": [(status, None, "")]}, head=head)
        assert [result.verdict.value for result in run.all()] == [verdict]


def test_a_turn_that_can_not_be_recorded_is_not_begun(place: Root) -> None:
    class Broken:
        def __init__(self) -> None:
            self.taken: list[events.Event] = []
            self.is_broken = False

        def check(self) -> None:
            if self.is_broken:
                raise DiskError("can't record")

        def take(self, event: events.Event) -> None:
            self.taken.append(event)
            self.is_broken = True

    recorder = Broken()
    run = Run(place, "- {send: a, prompt: x}\n- {send: a, prompt: x}\n", {"a": ["1"]}, recorder=recorder)
    run.agents.shown = [events.Text(text="1")]
    assert [short(result) for result in run.all()] == [("failed", "can't record", 74)] * 2
    assert (recorder.taken, len(run.agents.asked)) == (run.agents.shown, 1)


# -- in a git repository -----------------------------------------------------------------------------------------------


def test_what_changed_since_a_step_began_is_checked_by_git(place: Root) -> None:
    steps = (
        "- {send: a, id: one, prompt: x, expect: {files_changed: 1, diff: {lines: 4}}}\n"
        "- {check: {files_changed: 2}, of: one}\n"
    )
    assert [short(result) for result in Run(place, steps, {"a": ["yes"]}, tree=Tree()).all()] == [
        ("passed", "", 0, [("files_changed: 1", "passed", "changed: a.py"), ('diff: {"lines":4}', "passed", "+3 -1")]),
        (
            "failed",
            "files_changed: 2: changed: a.py",
            13,
            [("files_changed: 2", "failed", "changed: a.py")],
        ),
    ]


@pytest.mark.slow
def test_a_prompt_has_the_diff_since_the_run_began_or_says_that_there_is_none(place: Root) -> None:
    tree = Tree()
    run = Run(place, "- {send: a, prompt: {diff: true}}\n", {"a": ["yes"]}, tree=tree)
    run.all()
    tree.same = True
    other = Run(place, "- {send: a, prompt: {diff: true}}\n", {"a": ["yes"]}, tree=tree)
    other.all()
    assert [run.agents.asked, other.agents.asked] == [[("a", "tree-1..tree-2")], [("a", "(no file was changed)")]]


class Recordings:
    """A replay that needs no agents, or a recorder, with this folder."""

    needs_agents = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check(self) -> None:
        pass

    def take(self, event: object) -> None:
        pass


@pytest.mark.slow
def test_what_a_step_changed_is_recorded_beside_its_turns(place: Root, tmp_path: Path) -> None:
    steps = "- {send: a, id: one, prompt: x}\n- {send: a, id: two, prompt: x}\n"
    tree, folder = Tree(), tmp_path / "recording"
    Run(place, steps, {"a": ["1", "2"]}, tree=tree, recorder=Recordings(folder), restores=True).all()
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "one.patch": "tree-2..tree-3",
        "two.patch": "tree-4..tree-5",
    }
    tree.same = True
    Run(place, steps.splitlines()[0] + "\n", {"a": ["1"]}, tree=tree, recorder=Recordings(folder), restores=True).all()
    assert (folder / "one.patch").read_bytes() == b""


@pytest.mark.parametrize(("restores", "is_there"), [(False, True), (True, False)])
def test_nothing_is_recorded_of_files_that_are_not_of_the_run(
    place: Root, tmp_path: Path, restores: bool, is_there: bool
) -> None:
    folder = tmp_path / "recording"
    tree = Tree(is_there=is_there)
    Run(
        place, "- {send: a, prompt: x}\n", {"a": ["1"]}, tree=tree, recorder=Recordings(folder), restores=restores
    ).all()
    assert not folder.exists()


@pytest.mark.slow
def test_a_replay_makes_the_changes_of_each_step_again_or_says_that_they_do_not_fit(
    place: Root, tmp_path: Path
) -> None:
    folder, tree = tmp_path / "recording", Tree()
    folder.mkdir()
    (folder / "one.patch").write_bytes(b"a patch")
    steps = "- {send: a, id: one, prompt: x}\n- {send: a, id: two, prompt: x}\n"
    run = Run(place, steps, {"a": ["1", "2"]}, tree=tree, replay=Recordings(folder), restores=True)
    assert run.runner.is_replay
    assert [short(result)[0] for result in run.all()] == ["passed", "passed"]
    assert tree.applied == [b"a patch"]
    tree.wrong = "it is another file"
    run = Run(place, steps, {"a": ["1", "2"]}, tree=tree, replay=Recordings(folder), restores=True)
    with pytest.raises(UsageError) as error:
        run.all()
    assert (error.value.message, error.value.hint) == (
        "the recorded changes of step one don't fit: it is another file",
        "record it again",
    )


def test_files_say_nothing_where_the_turns_are_replayed(place: Root, tmp_path: Path) -> None:
    steps = (
        "- {send: a, id: one, prompt: x, expect: {file_exists: none, command: ['3']}}\n- run: ['3']\n"
        "- {send: a, prompt: x, expect: {contains: e}}\n"
    )
    run = Run(place, steps, {"a": ["yes", "yes"]}, replay=Recordings(tmp_path))
    run.agents.shown = [events.Notice(code="replayed", text="exact: answered from a test")]
    found = run.all()
    why = "the turns are replayed: no tool was run again, so the files"
    assert [short(result) for result in found] == [
        (
            "passed",
            "",
            0,
            [
                ("file_exists: none", "skipped", f"{why} say nothing"),
                ("command: 3", "skipped", f"{why} say nothing"),
            ],
        ),
        ("skipped", f"{why} are not what it would work on", 0),
        ("passed", "", 0, [("contains: e", "passed", "")]),
    ]
    assert [turn.replayed for result in found for turn in result.turns] == ["exact", "exact"]


@pytest.mark.slow
def test_a_file_of_a_prompt_is_read_when_its_step_begins_and_no_link_leads_it_elsewhere(place: Root) -> None:
    file, other = place.base / "notes.txt", place.base / "other.txt"
    file.write_text("first")
    other.write_text("secret")
    steps = "- {send: a, prompt: {file: notes.txt}}\n"
    run = Run(place, steps, {"a": ["1"]})
    file.write_text("second")
    run.all()
    assert run.agents.asked == [("a", "second")]
    run = Run(place, steps, {"a": ["1"]})
    file.unlink()
    assert short(run.all()[0]) == ("failed", f"{file} is gone (it was there when the run began)", 2)
    file.write_text("x")
    run = Run(place, steps, {"a": ["1"]})
    file.unlink()
    file.symlink_to(other)
    assert short(run.all()[0]) == (
        "failed",
        f"{file} led to {file} when the run began, and leads elsewhere now (an agent may have put a link there)",
        2,
    )


def test_a_look_at_a_file_stays_in_the_folder(place: Root, tmp_path: Path) -> None:
    run = Run(place, "- {send: a, prompt: x}\n")
    (tmp_path / "secret").write_text("x")
    (place.base / "link").symlink_to(tmp_path / "secret")
    (place.base / "sub").mkdir()
    (place.base / "bytes").write_bytes(b"a\xffb")
    (place.base / "nowhere").symlink_to("none")
    (place.base / "round").symlink_to("round")
    (place.base / "large").write_bytes(b"x" * ((1 << 20) + 1))
    os.mkfifo(place.base / "pipe")
    find = run.runner.files.find_file
    paths = ("bytes", "sub", "link", "../secret", "nowhere", "round", "large", "pipe", "none", "bytes/none", "a\0b")
    found = {path: find(path) for path in (*paths, "n" * 300)}
    assert {path: each.text for path, each in found.items() if each.text is not None} == {
        "bytes": "a\ufffdb",
        "sub": "",
    }
    assert [path for path, each in found.items() if each.is_inside] == ["bytes", "sub", "large", "pipe"]
    assert [path for path, each in found.items() if not each.is_there] == ["none", "bytes/none", "a\0b", "n" * 300]
    assert found["link"].problem == found["../secret"].problem == "leads out of the folder"
    assert found["nowhere"].problem == "is a link that leads nowhere"
    assert "is larger than 1 MiB" in found["large"].problem


def test_a_file_that_beam_can_t_read_is_not_absent(place: Root) -> None:
    (place.base / "large").write_bytes(b"x" * ((1 << 20) + 1))
    (place.base / "link").symlink_to("/nowhere")
    run = Run(
        place, "- check: [{file_exists: large}, {file_absent: large}, {file_absent: link}, {file_absent: none}]\n"
    )
    assert [each.verdict for each in run.all()[0].checks] == ["passed", "failed", "failed", "passed"]


def test_what_another_agent_did_in_this_run_is_quoted_below_the_prompt(place: Root) -> None:
    run = Run(place, "- {send: a, prompt: x}\n- {send: b, prompt: go on, context_from: a}\n", {"a": ["1"], "b": ["2"]})
    head = {"agent": "a", "turn": 1, "message_id": "a-1", "ts": "2026-01-01T00:00:00Z"}
    run.agents.shown = [
        msgspec.structs.replace(body, seq=seq, **head)
        for seq, body in enumerate(
            (
                events.MessageQueued(sender="human", text="x"),
                events.TurnStarted(owner=events.Owner(pid=1, start_ticks=1), turn_key="k", adapter="a", via="exec"),
                events.Text(text="it works"),
                events.TurnFinished(status=Status.COMPLETED, reply="it works"),
            ),
            1,
        )
    ]
    run.all()
    (_, (agent, prompt)) = run.agents.asked
    lines = prompt.split("\n")
    assert (agent, lines[:2]) == ("b", ["go on", ""])
    assert lines[2].startswith("[beam quotes the history of the agent a here (recent).")
    assert any("it works" in line for line in lines[3:]) and "2026" not in prompt
