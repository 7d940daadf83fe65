"""The generated parts of the page of agents: what the cards claim, and the table of what was seen."""

from __future__ import annotations

from beam.agents import registry
from beam.agents.base import Capabilities
from beam.api import matrix
from beam.cli.render.matrix import MARKS, MEANING
from tests.conformance.attempts import ATTEMPTS, BELOW_FULL
from tests.support.made import table


def claimed() -> str:
    """What each headless CLI can do, by its card, and the version that the tests run."""
    seen = matrix.matrix()
    lines = []
    for column in seen.adapters:
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
    """Every case and every CLI, and why a cell fails."""
    found = matrix.matrix()
    rows = [
        (
            case.title,
            *(MARKS[cell.status] if (cell := column.cells.get(case.name)) else "" for column in found.adapters),
        )
        for case in found.cases
    ]
    text = table(("", *(f"`{column.adapter}`" for column in found.adapters)), rows)
    fails = [
        f"- `{line.adapter}`, {line.title}: {line.evidence}" for line in matrix.lines(found) if line.status == "fails"
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
        columns = {column.adapter: attempts_of(column, access) for column in found.adapters}
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


PARTS = {"agents": claimed, "matrix": seen, "reach": reach}
