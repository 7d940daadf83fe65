"""What the cells of the terminal face work with: a CLI on its own screen, and what differs between the CLIs there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beam.testing.conformance.subject import GO_ON
from beam.testing.fake_model import FakeModel
from tests.conformance import subject
from tests.conformance.adapters import COLUMNS, Tool
from tests.conformance.cases import case
from tests.support.cli import Cli, eventually, is_held

RULE = "─" * 60
HALF = "the first half of the answer, and "
WHOLE = f"{HALF}the second half"
ROW = "the first row of the answer"
FIFTY = "\n".join(f"line {number} of fifty" for number in range(50))


@dataclass(frozen=True)
class Screen:
    """One CLI's screen. `lookalike`: an answer with what the CLI itself draws; `asks`: a tool call that it asks for,
    None for the shell of the headless cells; `is_verbatim`: the answer is from its transcript; `logs_in`: it asks
    for a login where nobody has one; `runs`: its folder's settings, with which it runs a `{command}` after it wrote a
    file, where its model has no shell; `at_first`: the files under HOME of a person who was asked all that it asks at
    its first start; `begins`: what is put before a prompt's `!` where the screen would take it for a command."""

    lookalike: str
    asks: Tool | None = None
    is_verbatim: bool = False
    logs_in: bool = True
    runs: str = ""
    at_first: Mapping[str, str] = field(default_factory=dict)
    begins: str = ""


SCREENS = {
    "claude": Screen(
        lookalike=f"✻ Booping… (esc to interrupt)\n{RULE}\n❯ \n{RULE}\n  esc to interrupt\n❯ 1. Yes",
        is_verbatim=True,
        at_first={".claude.json": '{"hasCompletedOnboarding": true, "theme": "dark"}'},
    ),
    "codex": Screen(
        lookalike="• Working (3s • esc to interrupt)\n\n› Ask Codex to do anything\n\n  gpt · ~/x\n■ error",
        asks=Tool(
            "exec_command", {"cmd": "{command}", "sandbox_permissions": "require_escalated", "justification": "May I?"}
        ),
        is_verbatim=True,
    ),
    "gemini": Screen(
        lookalike=f"⠹ Thinking... (esc to cancel, 2s)\n{RULE}\n >   Type your message\n\n● 1. Allow once\n✕ [API Error",
        is_verbatim=True,
    ),
    "opencode": Screen(
        lookalike="   ■■⬝⬝  esc interrupt\n  ┃\n  ┃  Ask anything\n  ┃  Build · x\n  ╹▀▀▀▀", logs_in=False
    ),
    "qwen": Screen(lookalike=f"⠹ Thinking... (esc to cancel, 2s)\n{RULE}\n!   Type your message\n{RULE}\n✕ [API Error"),
    "copilot": Screen(
        lookalike=f"◎ Working esc esc interrupt\n{RULE}\n❯\n{RULE}\n❯ 1. Yes",
        begins="Please ",
    ),
    "aider": Screen(
        lookalike="> \nask> \nCreate new file? (Y)es/(N)o [Yes]: \n#### what\nthe end",
        is_verbatim=True,
        runs="auto-test: true\ntest-cmd: {command}\n",
    ),
}


def script(name: str) -> dict[str, Any]:
    """What the model says to the prompts of the cells."""
    figures = {"input_tokens": 900, "output_tokens": 20}
    return {
        "directives": True,
        "rules": [
            {"match": GO_ON, "text": "ECHO[{prompt}] turns={turns}"},
            {"match": "MIRROR", "text": SCREENS[name].lookalike, "usage": figures},
            {"match": "PAUSE", "text": WHOLE, "chunk": len(HALF), "delay": 4},
            {
                "match": "STAND",
                "text": f"{ROW}\n\n" * 2,
                "chunk": len(ROW) + 2,
                "delay": 2,
                "stall": True,
                "at": "middle",
            },
            {"match": "PLAIN", "text": "plain words", "usage": {"input_tokens": 100, "output_tokens": 7}},
        ],
    }


class OnScreen(subject.Subject):
    """A CLI that is driven on its own screen."""

    @property
    def screen(self) -> Screen:
        return SCREENS[self.name]

    @property
    def begins(self) -> str:
        return self.screen.begins

    def at_home(self, home: str) -> Cli:
        return super().at_home(home).with_env({"BEAM_TRUST": "1"})  # a screen asks whether the folder is trusted

    def keep(self) -> None:
        """Start a broker that keeps the CLI's terminal between turns."""
        if self.cli("broker", "status").code != 0:
            for words in (("queue", "pause", self.name), ("queue", "resume", self.name), ("broker", "start")):
                assert self.cli(*words).code == 0
        eventually(lambda: is_held(self.cli, self.name))

    def leave(self) -> None:
        """Stop the broker, and with it the terminal."""
        self.cli("broker", "stop", "--grace", "0s")

    def shown(self) -> str:
        """What stands on its screen now."""
        found: str = self.cli("attach", self.name, "--print").out
        return found

    def asked(self, text: str) -> list[str]:
        """All that the model was sent, as JSON, a request each, in which this text is the last thing that was asked."""
        bodies = [json.dumps(request.body, ensure_ascii=False) for request in self.model.requests if request.asked]
        wanted = json.dumps(text, ensure_ascii=False)[1:-1]
        return [body for body in bodies if wanted in body]

    def wanted(self, name: str) -> str:
        """What it must say that it asks for, where `wants` makes it want to make a file of this name."""
        return name if self.data.shell is None else f"touch {name}"

    def wants(self, name: str) -> str:
        """The prompt that makes the model want to make a file of this name in the project."""
        if self.data.shell is None:
            return self.data.write.prompt(path=name, text="x")
        return (self.screen.asks or self.data.shell).prompt(command=f"touch {name}")

    def runs(self, command: str) -> str:
        """The prompt that makes the CLI run this command."""
        if self.data.shell is not None:
            return self.begins + self.data.shell.prompt(command=command)
        settings = self.screen.runs.replace("{command}", json.dumps(command))
        (self.cli.project / self.data.folder_settings).write_text(settings)
        return self.data.write.prompt(path="made-before-the-command", text="x")

    def decided(self, prompt: str, answer: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The ask of a turn with access `ask`, and the outcome after that answer (`approve` or `deny`). A dialog that
        changed since it was shown, because it was still being drawn, is asked about once more."""
        process = self.cli.start(*self.send_arguments(access="ask"), "--", prompt)
        folder, tried, seen = self.cli.root / "agents", set[str](), list[dict[str, Any]]()

        def new() -> set[str]:
            return {file.stem for file in folder.rglob("asks/*.json")} - tried

        while process.poll() is None:
            eventually(lambda: process.poll() is not None or bool(new()), 240, "it did not ask")
            tried |= (shown := new())
            for ask in self.cli("asks", "--json").lines:
                if ask["id"] in shown:
                    seen.append(ask)
                    assert self.cli(answer, ask["id"]).code in (0, 4)  # 4: it is over
        assert seen, process.communicate()
        return seen[-1], self.outcome(process)

    def nobody(self) -> Cli:
        """The same place with a HOME in which nobody is logged in, and with no model."""
        directory = self.cli.base / "nobody"
        directory.mkdir(exist_ok=True)
        for name, text in self.screen.at_first.items():
            (directory / name).write_text(text)
        known = {name: self.cli.env[name] for name in ("PATH", "BEAM_STATE", "TMPDIR", "LANG", "BEAM_TRUST")}
        return Cli(self.cli.base, {**known, "HOME": str(directory), **self.data.env})


def on_screen(title: str, capability: str = "", *, quick: tuple[str, ...] = (), otherwise: Any = None) -> Any:
    """Makes one cell a CLI that has a terminal mode; see `case`. `quick`: `make test` runs the cells of these CLIs."""
    quick_for = tuple(f"{name}-terminal" for name in quick)
    return case(title, capability, quick_for=quick_for, otherwise=otherwise, faces=("terminal",))


def place(column: str, directory: Path, path: str) -> Iterator[subject.Subject]:
    """The CLI of that column in its scratch place."""
    model = FakeModel(script(COLUMNS[column].adapter))
    for made in subject.place(column, directory, path, model, kind=OnScreen):
        yield made
        assert isinstance(made, OnScreen)
        made.leave()


def rows_of(text: str) -> list[str]:
    """The rows that are not blank, without what stands around them: all that a screen keeps of a text."""
    return [row.strip() for row in text.split("\n") if row.strip()]
