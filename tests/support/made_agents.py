"""The generated parts of the page of agents: what the cards claim, and the table of what was seen."""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents import registry
from beam.agents.base import Capabilities, Card, Face
from beam.api import matrix
from beam.cli.render.matrix import MARKS, MEANING, MODES
from tests.conformance.attempts import ATTEMPTS, BELOW_FULL
from tests.support.made import table


def claimed() -> str:
    """What each headless CLI can do, by its card, and the version that the tests run."""
    lines = []
    for column in matrix.of_mode(matrix.matrix(), "exec")[1]:
        card = registry.adapter(column.adapter).card
        can = card.faces["exec"]
        line = (
            f"`{card.name}`",
            column.version,
            ", ".join(can.access),
            _yes(can.resume),
            _yes(can.fork),
            _yes(can.attach is not None),
            _yes(can.schema),
            _figures(can),
            "argument" if can.prompt_in_argv else "hidden",
        )
        lines.append(line)
    head = ("agent", "version", "access", "resumes", "forks", "files", "schema", "figures", "prompt")
    return table(head, lines)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _figures(can: Capabilities) -> str:
    claims = (
        ("tokens", can.tokens),
        ("cost", can.cost),
        ("calls", can.calls),
        ("models", can.models),
        ("API time", can.api_time),
        ("lines", can.lines),
    )
    return ", ".join(word for word, has in claims if has) or "none"


def seen() -> str:
    """For each mode every case and every CLI that has the mode; and why a cell fails."""
    found = matrix.matrix()
    tables = []
    for face in matrix.FACES:
        cases, columns = matrix.of_mode(found, face)
        rows = [
            (case.title, *(MARKS[cell.status] if (cell := column.cells.get(case.name)) else "" for column in columns))
            for case in cases
        ]
        if columns:
            tables.append(table((MODES[face], *(f"`{column.adapter}`" for column in columns)), rows))
    text = "\n".join(tables)
    fails = [
        f"- `{line.adapter}`, {MODES[line.face]}, {line.title}: {line.evidence}"
        for line in matrix.lines(found)
        if line.status == "fails"
    ]
    why = "\n".join(["", "Why cells fail:", "", *fails, ""]) if fails else ""
    return f"{MEANING}\n\n{text}{why}"


_LETTERS: dict[matrix.Result, str] = {
    "written": "W",
    "read": "R",
    "capped": "c",
    "refused": "·",
    "not offered": "-",
}
_LETTERS_MEAN = (
    "Two signs a cell, by the file tool and by the shell: `W` written, `R` read, `c` carried out with no more access "
    "than the agent has, `·` refused, `-` the CLI offers no such tool."
)


def reach() -> str:
    """What came of each attempt, by access and CLI; and the cells that fail, with the reason."""
    found = matrix.matrix()
    text = [_LETTERS_MEAN, ""]
    for access in BELOW_FULL:
        headless = matrix.of_mode(found, "exec")[1]
        columns = {column.adapter: attempts_of(column, access) for column in headless}
        columns = {name: seen for name, seen in columns.items() if seen}
        rows = [
            (attempt.title, *(_letters(seen.get(attempt.name, {})) for seen in columns.values()))
            for attempt in ATTEMPTS
        ]
        text += [table((f"at `{access}`", *columns), rows)]
    text += ["Cells that fail for it in the table of [agents.md](agents.md#what-was-seen):", ""]
    text += [
        f"- `{line.adapter}` at `{line.case.partition('_')[0]}`: {line.evidence}"
        for line in matrix.lines(found)
        if line.status == "fails" and line.case.startswith(tuple(f"{access}_" for access in BELOW_FULL))
    ]
    return "\n".join([*text, ""])


def attempts_of(column: matrix.Column, access: str) -> dict[str, dict[str, matrix.Result]]:
    """What came of each attempt that this CLI was tried with at that access, by its name and by the tool."""
    return {
        name: tools
        for case, cell in column.cells.items()
        if case.startswith(f"{access}_")
        for name, tools in cell.attempts.items()
    }


def _letters(tools: dict[str, matrix.Result]) -> str:
    return " ".join(_LETTERS[tools[tool]] for tool in ("file", "shell") if tool in tools)


_TITLES = {
    "resume": "goes on with a session",
    "fork": "copies a session",
    "rewind": "goes back in a session",
    "checkpoints": "puts files back",
    "model": "takes a model",
    "schema": "answers by a schema",
    "system": "takes a system prompt",
    "attach": "takes files",
    "commands": "runs its slash commands",
    "ask": "asks before it acts",
    "changes": "takes changed input with an approval",
    "steer": "takes a text while a turn runs",
    "denials": "tells what was denied",
    "interrupt": "is interrupted and keeps its session",
    "deltas": "answers in pieces",
    "tools": "tells its tool calls",
    "tokens": "tells tokens",
    "cost": "tells the cost",
    "calls": "counts model calls",
    "models": "tells figures by model",
    "api_time": "tells the API time",
    "lines": "counts changed lines",
    "edits": "names the files that it changed",
    "whole": "tells a cut-off answer",
    "max_turns": "keeps a limit of model calls",
    "budget": "keeps a limit of cost",
}
UNTITLED = {"access", "outbox", "prompt_in_argv", "rewrites"}  # no abilities, or shown elsewhere


def faces() -> str:
    """Which CLIs have each ability in each mode, and the abilities that none has over its protocol."""
    cards = [card for name in registry.ADAPTERS if (card := registry.adapter(name).card).install and card.faces]
    rows, lacking = [], []
    for name, title in _TITLES.items():
        able = {
            face: [card.name for card in cards if face in card.faces and getattr(card.faces[face], name)]
            for face in MODES
        }
        rows.append((title, *(_several(able[face], cards, face) for face in MODES)))
        if not able["dialogue"]:
            lacking.append(title)
    have = ("has this mode", *(", ".join(f"`{card.name}`" for card in cards if face in card.faces) for face in MODES))
    text = table(("", *MODES.values()), [have, *rows])
    return f"{text}\nNo CLI has over its own protocol: {', '.join(lacking) or 'nothing is lacking'}.\n"


def _several(able: list[str], cards: Sequence[Card], face: Face) -> str:
    """Return the CLIs with an ability; `all`, or those that lack it, where that is shorter."""
    others = [card.name for card in cards if face in card.faces and card.name not in able]
    if not others:
        return "all"
    if able and len(others) <= 3 < len(able):
        return f"all but {', '.join(f'`{name}`' for name in others)}"
    return ", ".join(f"`{name}`" for name in able) or "-"


PARTS = {"faces": faces, "agents": claimed, "matrix": seen, "reach": reach}
