"""`beam notify`: lists and tests the commands and webhooks that get notifications."""

from __future__ import annotations

from beam import ExitCode
from beam.base import own_program
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import option
from beam.cli.render.text import write_json, write_json_lines

app = App("List and test the commands and webhooks that are told when something happens (`notify:`).")


@app.verb("list")
def list_(
    call: Context, as_json: bool = option(False, "--json", help="Print JSON Lines, one object per target.")
) -> None:
    """List the targets, with how many notifications wait, were delivered and were given up."""
    from beam.cli.render.tables import print_columns
    from beam.cli.render.text import one_line

    found = call.beam.notify_targets()
    if as_json:
        write_json_lines(found)
        return
    if not found:
        call.note("notify: is in no configuration; docs/notify.md shows how to write it")
        return
    rows = [
        (
            one_line(line.target, 60),
            ",".join(line.on),
            ",".join(line.agents) or "all",
            line.origin if line.trusted else f"{line.origin} (not trusted)",
            str(line.waiting),
            str(line.delivered),
            f"{line.given_up} ({one_line(line.error, 80)})" if line.error else str(line.given_up),
        )
        for line in found
    ]
    print_columns(("TARGET", "ON", "AGENTS", "FROM", "WAIT", "SENT", "GIVEN UP"), rows)


@app.verb()
def test(
    call: Context, as_json: bool = option(False, "--json", help="Print JSON Lines, one object per target.")
) -> int:
    """Send a notification to every target now, once each, and say what happened.

    Exit code 1 if a target could not be reached. What a command prints comes on stderr.
    """
    from beam.cli.render.text import one_line, write_line

    own_program.allow_tls()
    tried = call.beam.test_notify()
    for each in tried:
        if as_json:
            write_json(each)
        else:
            write_line(f"{one_line(each.target, 80)}: {one_line(each.error, 200) or 'delivered'}")
    return int(ExitCode.FAILED) if any(each.error for each in tried) else 0
