"""`trust` and `doctor`."""

from __future__ import annotations

import sys

import typer

from beam.cli.context import context, is_terminal
from beam.cli.group import App
from beam.cli.render.text import write_json
from beam.errors import ExitCode

app = App()


@app.verb()
def trust(
    ctx: typer.Context,
    folder: str | None = typer.Argument(
        None, metavar="[DIR]", help="The folder; default: the one that holds the root."
    ),
    no: bool = typer.Option(False, "--no", help="Take the trust back."),
) -> None:
    """Let this folder's beam.yaml run code.

    Commands, environment, scripts and full access that a folder's files ask for count only after this.
    """
    call = context(ctx)
    beam = call.beam
    if folder is not None:
        from beam.api import Beam

        beam = Beam(cwd=call.path(folder))
    if no:
        call.note(f"not trusted any more: {beam.untrust()}")
        return
    for line in beam.why_untrusted():
        call.note(line)
    call.note(f"trusted: {beam.trust()}")


@app.verb()
def doctor(
    ctx: typer.Context,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object a check."),
) -> int:
    """Check the root, its journals and the agents' CLIs.

    Exits 13 if a check failed.
    """
    from beam.cli.errors import complain
    from beam.cli.render.tables import columns

    call = context(ctx)
    checks = call.beam.doctor()
    if as_json:
        for check in checks:
            write_json(check)
    else:
        rows = [(check.result, check.what, check.detail) for check in checks]
        columns(("RESULT", "WHAT", "DETAIL"), rows, wide=is_terminal(sys.stdout))
    bad = [check.what for check in checks if check.result == "bad"]
    if bad:
        complain(f"{len(bad)} check(s) failed: {', '.join(bad)}; see above, and beam log AGENT --verify for a journal")
    return int(ExitCode.CHECK_FAILED) if bad else 0
