"""The cases that every agent CLI is put through, with one in memory: which works with one that does all right, and what
each flaw of one makes fail.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from beam.agents.base import Capabilities
from beam.testing.conformance import prompts, subject
from beam.testing.conformance.__main__ import GROUPS, _result, cells
from beam.testing.conformance.subject import BREAKS, WHOLE, EndedCommand, Subject

ALL = Capabilities(
    **dict.fromkeys(("resume", "deltas", "tokens", "cost", "calls", "models", "api_time", "interrupt", "whole"), True),
    access=("read", "full"),
)
CLASSES = {"400": "bad_request", "401": "auth", "429": "rate_limit", "500": "overloaded"}

Flaw = Callable[[dict[str, Any]], object]


class Model:
    """A model that was asked."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.is_stopped = False

    def ask(self, prompt: str, **body: Any) -> None:
        asked = SimpleNamespace(prompt=prompt, size=40)
        self.requests.append(SimpleNamespace(asked=asked, body={"tools": [1], "prompt": prompt, **body}))

    def prompts(self) -> list[str]:
        return [request.asked.prompt for request in self.requests]

    def stop(self) -> None:
        self.is_stopped = True


class Process:
    """A `beam send` that was begun."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        self.returncode, self._outcome = 9, outcome

    def poll(self) -> None:
        return None

    def communicate(self, timeout: float = 0) -> tuple[bytes, bytes]:
        return json.dumps(self._outcome).encode() + b"\n", b""


class Cli:
    """`beam` with an agent CLI that does all right but for one flaw: what changes each outcome, or each event."""

    def __init__(self, base: Path, can: Capabilities, model: Model, flaw: Flaw, spoils: Flaw) -> None:
        self.base, self._can, self._model, self._flaw, self._spoils = base, can, model, flaw, spoils
        self._turns, self._said = 0, ""
        self.told: list[dict[str, Any]] = []

    def __call__(self, *words: str, stdin: str = "", timeout: float = 0, env: Any = None) -> EndedCommand:
        if words[0] == "agent":
            return EndedCommand(0, json.dumps({"card": {"faces": {"exec": structs.asdict(self._can)}}}) + "\n", "")
        if words[0] == "interrupt":
            return EndedCommand(0, "", "")
        code, outcome = self._turn(stdin, words)
        return EndedCommand(code, json.dumps(outcome) + "\n", "")

    def config(self, text: str) -> None:
        """Takes any."""

    def journal(self, agent: str) -> list[dict[str, Any]]:
        return [{"turn": 0, **event} for event in self.told]

    def start(self, *words: str) -> Process:
        self._model.ask(words[-1])
        self._event("agent.started", pid=2**30)
        self._turns += 1
        outcome = self._outcome(status="cancelled", reply=None)
        if "--new" in words:
            outcome = self._outcome(status="failed", reply=None, reason="it was ended by SIGKILL", class_="crashed")
        return Process(outcome)

    def _event(self, kind: str, **fields: Any) -> None:
        event = {"type": kind, "turn": self._turns, **fields}
        self._spoils(event)
        self.told.append(event)

    def _outcome(self, *, class_: str | None = None, **fields: Any) -> dict[str, Any]:
        goes_on = self._can.resume and self._turns > 1
        used = {"input_tokens": 900, "output_tokens": 20, "calls": 1}
        if self._turns == 2:
            used |= {"input_tokens": 100, "output_tokens": 7}
        share = {"usage": used, "cost_usd": 0.5}
        outcome = {
            "status": "completed",
            "class": class_,
            "reason": None,
            "reply": "",
            "via": "exec",
            "turn": self._turns,
            "session": "resumed" if goes_on else "new",
            "session_id": "s" if self._can.resume else None,
            "usage": used if self._can.tokens else dict.fromkeys(used),
            "models": [share] if self._can.models else None,
            "cost_usd": 0.5 if self._can.cost else None,
            "api_s": 0.5 if self._can.api_time else None,
            "duration_s": 1.0,
            **fields,
        }
        self._flaw(outcome)
        return outcome

    def _turn(self, text: str, words: tuple[str, ...]) -> tuple[int, dict[str, Any]]:
        self._turns += 1
        wanted = words[words.index("--access") + 1] if "--access" in words else ""
        if (wanted and wanted not in self._can.access) or (self._can.prompt_in_argv and len(text) > 100_000):
            reason = f"bot can't do {wanted}"
            return 10, self._outcome(status="failed", reply=None, reason=reason, class_="unsupported")
        if "--require" in words and not self._can.whole:
            return 10, self._outcome(status="failed", reply=None, reason="no --require whole", class_="unsupported")
        before = self._said if self._can.resume and "--new" not in words else ""
        if self._can.rewrites and text == prompts.MENTIONS:
            text = "".join(text.split())
            self._event("notice", code="prompt_changed", text="blanks")
        self._said += text
        self._model.ask(text, before=before)
        self._event("text.delta", text=text)
        if text == "!stall":
            return 3, self._outcome(status="timeout", reply=None)
        if text == "!stall-mid":
            return 3, self._outcome(status="timeout", reply=None, class_="stalled")
        if text.startswith(("!empty", "!think")):
            return 1, self._outcome(status="failed", reply=None, reason="nothing", class_="empty")
        if text == "!max_tokens":
            return 11, self._outcome(status="truncated", reply="part")
        if text == "!refuse":
            return 6, self._outcome(status="refused", reply=None)
        if text == BREAKS:
            self._model.ask(text)
            self._model.ask(text)
            self._event("text", text=WHOLE)
            return 0, self._outcome(reply=WHOLE)
        if text.startswith(("!error", "!drop")) or self._model.is_stopped:
            class_ = CLASSES.get(text.partition(" ")[2], "network")
            self._event("status", state="retrying", **{"class": class_}, detail="again")
            return 1, self._outcome(status="failed", reply=None, reason="no answer", class_=class_)
        return 0, self._outcome(reply=f"ECHO[{text}]")


class Tried(Subject):
    """A subject in memory."""

    def __init__(self, base: Path, can: Capabilities, flaw: Flaw, spoils: Flaw) -> None:
        model = Model()
        super().__init__("bot", Cli(base, can, model, flaw, spoils), model)  # type: ignore[arg-type]
        self.__dict__["can"] = can


def as_it_is(told: dict[str, Any]) -> None:
    """Changes nothing."""


def changed(name: str, value: Any) -> Flaw:
    return lambda told: told.update({name: value})


OUTCOMES: dict[str, Flaw] = {
    "none": as_it_is,
    **{
        f"{name} is {value!r}": changed(name, value)
        for name, value in (
            *(("status", "failed"), ("status", "completed"), ("class", "unknown"), ("reason", "why"), ("reply", "x")),
            *(("via", "dialogue"), ("session", "new"), ("session", "resumed"), ("session_id", "t"), ("models", [])),
            *(("session_id", None), ("cost_usd", None), ("cost_usd", 0), ("api_s", None), ("api_s", 0), ("api_s", 2.0)),
            *(("usage", {"input_tokens": 1, "output_tokens": 1, "calls": 2}),),
        )
    },
}
EVENTS: dict[str, Flaw] = {
    f"events: {name} is {value!r}": changed(name, value)
    for name, value in (
        ("type", "unknown"),
        ("text", ""),
        ("class", "x"),
        ("code", "x"),
        ("turn", 0),
    )
}
CARDS = {
    "all": ALL,
    "nothing": Capabilities(access=("full",)),
    "no access": Capabilities(),
    "no resume": structs.replace(ALL, resume=False, access=("full",)),
    "in argv": structs.replace(ALL, prompt_in_argv=True),
    "rewrites": structs.replace(ALL, rewrites=True),
}


def tried(base: Path, can: Capabilities, flaw: Flaw = as_it_is, spoils: Flaw = as_it_is) -> dict[str, str]:
    """What each case came to."""
    told = {}
    for group in GROUPS:
        one = Tried(base, can, flaw, spoils)
        for cell in cells(group):
            found = _result(cell, one)
            told[cell.name] = f"{found['status']}: {found['evidence'][:160].replace(str(base), 'BASE')}"
    return told


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for, and nothing is killed."""

    def now(claim: Callable[[], bool], timeout: float = 0, what: str = "") -> None:
        if not claim():
            raise AssertionError(what or f"not within {timeout:g} s")

    monkeypatch.setattr(subject, "eventually", now)
    monkeypatch.setattr(subject, "processes_with", lambda text: [])
    monkeypatch.setattr("beam.testing.conformance.stops.os.kill", lambda pid, number: None)


@pytest.mark.parametrize("name", CARDS)
def test_a_cli_that_does_all_right_works_or_is_refused_as_its_card_says(name: str, tmp_path: Path) -> None:
    told = tried(tmp_path, CARDS[name])
    assert [case for case, seen in told.items() if seen.startswith("fails")] == []


def failing(base: Path, name: str) -> set[str]:
    """The cases that fail with this flaw."""
    flaw, spoils = OUTCOMES.get(name, as_it_is), EVENTS.get(name, as_it_is)
    cards = ("all", "nothing") if name in OUTCOMES else ("rewrites",)
    seen = {card: tried(base, CARDS[card], flaw, spoils) for card in cards}
    return {case for cases in seen.values() for case, text in cases.items() if text.startswith("fails")}


def test_each_flaw_of_a_cli_makes_a_case_fail_and_each_case_fails_with_some_flaw(tmp_path: Path) -> None:
    found = {name: failing(tmp_path, name) for name in [*OUTCOMES, *EVENTS]}
    assert [name for name, cases in found.items() if not cases] == ["none"]
    assert {cell.name for group in GROUPS for cell in cells(group)} - set().union(*found.values()) == set()


def test_what_is_left_behind_makes_a_case_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "processes_with", lambda text: [1])
    seen = tried(tmp_path, ALL)
    failed = {case for case, text in seen.items() if text == "fails: AssertionError: bot left processes behind"}
    assert failed == {
        *("first_turn", "resume", "interrupt", "timeout", "stalled_stream", "killed_cli", "api_400", "api_401"),
        *("empty_answer", "thoughts_only", "cut_answer", "refused_answer"),
        *("api_429", "api_500", "truncated_stream", "broken_then_answered", "refused_connection"),
    }
