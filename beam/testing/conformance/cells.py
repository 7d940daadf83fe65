"""The conformance cases. A case is one function, the same for every CLI: it tries something, and returns the evidence
or fails.

A case with one CLI has one of three results: *works*; *unsupported* (the card does not claim the capability, and beam
refused it or said so); or *fails*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from beam.agents.base import Capabilities
from beam.testing.conformance.subject import Subject

Act = Callable[[Subject], str]
Status = Literal["works", "unsupported"]


@dataclass(frozen=True)
class Cell:
    """One case. `capability` is the tested capability of the card ("" for what every CLI must do): a field of
    `Capabilities`, `not FIELD`, `access:WORD`, or several of these joined by `+`. `quick` means that beam's own tests
    run the case for each CLI. `otherwise` runs in place of `act` if the card does not claim the capability."""

    name: str
    title: str
    capability: str
    quick: bool
    act: Act
    otherwise: Act | None

    def run(self, subject: Subject) -> tuple[Status, str]:
        """Run the case; return its status and the evidence. Raises AssertionError if a check fails, and any other error
        of the case."""
        if is_claimed(self.capability, subject.can):
            return "works", self.act(subject)
        return "unsupported", (self.otherwise or shown(self.capability))(subject)


def is_claimed(capability: str, can: Capabilities) -> bool:
    """Return whether a face's card `can` claims every capability in the text, which has the format of
    `Cell.capability`."""
    return all(_is_claimed(can, word) for word in capability.split("+") if word)


def _is_claimed(can: Capabilities, capability: str) -> bool:
    kind, _, word = capability.removeprefix("not ").partition(":")
    value = getattr(can, kind)
    return (word in value if word else bool(value)) != capability.startswith("not ")


def cell(
    title: str, capability: str = "", *, quick: bool = False, otherwise: Act | None = None
) -> Callable[[Act], Cell]:
    """Return a decorator that makes a case from a function. The case has the function's name."""
    return lambda act: Cell(act.__name__, title, capability, quick, act, otherwise)


# -- how it is said that something is unsupported ----------------------------------------------------------------------


def shown(capability: str) -> Act:
    """Return a function for `Cell.otherwise`. The function checks that `beam agent show` does not list the
    capability."""

    def act(subject: Subject) -> str:
        faces = subject.cli("agent", "show", subject.name, "--json").json["card"]["faces"]
        assert not faces[subject.face][capability]
        return f"`beam agent show {subject.name}` does not list {capability}"

    return act


def refused(*options: str, text: str = "hello", access: str | None = None) -> Act:
    """Return a function for `Cell.otherwise`. The function checks that `beam send` with these options ends with exit
    code 10, that the reason names the first option (without options, the access or the agent), and that the model
    receives no request."""

    def act(subject: Subject) -> str:
        before = len(subject.model.requests)
        done = subject.send(text, *options, access=access)
        assert (done.code, done.json["status"], done.json["class"]) == (10, "failed", "unsupported"), done
        reason: str = done.json["reason"]
        named = options[0] if options else access or subject.name
        assert named in reason, reason
        assert len(subject.model.requests) == before
        return f"exit code 10: {reason}"

    return act
