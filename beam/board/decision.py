"""How a person decides an ask: the board shows all that would run, and each answer takes two keys.

Pure: `Decision` is a state machine whose input is keys. No single key allows anything: a person presses `a`, then `y`,
after seeing the end of what would run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from beam.board.words import safe_line, wrap
from beam.cli.render.asks import always_words

if TYPE_CHECKING:
    from pathlib import Path

    from beam import AskLine

Answer = Literal["", "approve", "always", "deny"]
_CHOICES: dict[str, Answer] = {"a": "approve", "A": "always", "d": "deny"}
_QUESTIONS = {
    "approve": "Allow exactly this, once? y allows it, any other key goes back",
    "always": "Allow this and, from now on: {offer}? y allows it, any other key goes back",
    "deny": "Deny this? y denies it, any other key goes back",
}


def ask_lines(ask: AskLine, project: Path, width: int) -> list[str]:
    """Return the ask in lines of at most `width` columns: who asks for which tool in which folder, the description,
    everything that would run, and everything that `always` would allow."""
    found = wrap(f"{safe_line(ask.agent)} asks for {safe_line(ask.tool)} in {safe_line(str(project))}", width)
    if ask.description:
        found += ["", *wrap(ask.description, width)]
    found += ["", *_input_lines(bytes(ask.input), width)]
    offer = always_offer(ask)
    return [*found, "", *wrap("A allows from now on:", width), *wrap(offer, width)] if offer else found


def _input_lines(data: bytes, width: int) -> list[str]:
    try:
        value = json.loads(data)
        if not isinstance(value, dict):
            return wrap("what it would get is not known" if value is None else json.dumps(value), width)
        parts = {
            name: part if isinstance(part, str) else json.dumps(part, indent=2, ensure_ascii=False)
            for name, part in value.items()
        }
    except (ValueError, RecursionError):
        return wrap(data.decode("utf-8", "replace"), width)
    found: list[str] = []
    for name, text in parts.items():
        found += wrap(f"{safe_line(name)}:", width)
        found += ["  " + line for line in wrap(text, max(1, width - 2))]
    return found


def always_offer(ask: AskLine) -> str:
    """Return what `always` would allow from now on; "" if the agent does not offer it."""
    return always_words(bytes(ask.suggestions))


class Decision(Struct):
    """The state of a person's decision. `chosen` is the answer that the person still has to confirm; `answer` is the
    confirmed answer. `offer` is what `always` would allow ("" for nothing). `is_read` is true once the person has seen
    the end of the text. `note` says why the last key was refused."""

    offer: str = ""
    is_read: bool = False
    chosen: Answer = ""
    answer: Answer = ""
    note: str = ""

    def press(self, key: str) -> None:
        """Handle one key."""
        self.note = ""
        if self.chosen:
            if key == "y":
                self.answer = self.chosen
            self.chosen = ""
            return
        choice = _CHOICES.get(key, "")
        if choice in ("approve", "always") and not self.is_read:
            self.note = "read it to its end first: page down"
        elif choice == "always" and not self.offer:
            self.note = "the agent offers nothing to allow from now on"
        else:
            self.chosen = choice

    @property
    def line(self) -> str:
        """Return the line that tells the person what to press."""
        if self.chosen:
            return _QUESTIONS[self.chosen].format(offer=self.offer)
        always = "  A allow always" if self.offer else ""
        return self.note or f"a allow{always}  d deny  esc decide later"
