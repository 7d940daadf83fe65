"""The generated parts of the page of agents: what the cards claim, and the table of what was seen."""

from __future__ import annotations

from beam.agents import registry
from beam.agents.base import Capabilities
from beam.api import matrix
from beam.cli.render.matrix import MARKS, MEANING
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
    return ", ".join(word for word, has in (("tokens", can.tokens), ("cost", can.cost)) if has) or "none"


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


PARTS = {"agents": claimed, "matrix": seen}
