"""`wait`, `show`, `recv`, `reply`: what is said about messages that were sent already."""

from __future__ import annotations

import sys

import typer

from beam import ExitCode, SignalledError, UnfinishedError, UsageError
from beam.cli.context import context
from beam.cli.group import App

app = App()


@app.verb()
def wait(
    ctx: typer.Context,
    message: str = typer.Argument(
        ..., metavar="ID", help="A message's id, or the end of it (four characters or more)."
    ),
    timeout: str | None = typer.Option(None, "--timeout", metavar="D", help="Stop waiting after this long (exit 12)."),
    as_json: bool = typer.Option(False, "--json", help="Print the outcome as one JSON object."),
    as_events: bool = typer.Option(False, "--events", help="Print events from now on as JSON Lines."),
) -> int:
    """Wait for a message's outcome and print the answer.

    --timeout bounds only the waiting; nothing is stopped. The exit code is the outcome's.
    """
    from beam import durations
    from beam.cli.render.outcome import Printer

    call = context(ctx)
    if as_json and as_events:
        raise UsageError("--json and --events don't go together", "--events ends with the same outcome")
    printer = Printer(as_json=as_json, as_events=as_events, call=call)
    seconds = durations.parse(timeout) if timeout is not None else None
    try:
        with printer.waiting(message, call.beam.progress(message)):
            outcome = call.beam.wait(message, timeout=seconds, seen=printer.event)
    except KeyboardInterrupt:
        raise SignalledError(2, message=f"{message} goes on", hint=f"beam wait {message}") from None
    return printer.outcome(outcome)


@app.verb()
def show(
    ctx: typer.Context,
    message: str = typer.Argument(
        ..., metavar="ID", help="A message's id, or the end of it (four characters or more)."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the outcome as one JSON object."),
) -> int:
    """Show what is known of a message now.

    A finished one as `wait` would; one that is not finished exits 12 with where it is.
    """
    from beam import Outcome
    from beam.cli.errors import complain
    from beam.cli.render.outcome import Printer
    from beam.cli.render.text import write_json

    call = context(ctx)
    found = call.beam.show(message)
    if isinstance(found, Outcome):
        return Printer(as_json=as_json, as_events=False, call=call).outcome(found)
    if as_json:
        write_json(found)
    ahead = f", {found.position} ahead of it" if found.status == "waiting" else ""
    where = "left by a holder that died" if found.status == "died" else found.status
    complain(f"{found.message_id} is {where}{ahead}; beam wait {found.message_id}")
    return int(ExitCode.UNFINISHED)


@app.verb()
def recv(
    ctx: typer.Context,
    agent: str = typer.Argument(..., metavar="AGENT", help="A mailbox agent."),
    wait_: bool = typer.Option(False, "--wait", help="Wait until there is a message."),
    timeout: str | None = typer.Option(None, "--timeout", metavar="D", help="With --wait: at most this long."),
    lease: str | None = typer.Option(None, "--lease", metavar="D", help="Offer it again if unanswered for this long."),
    as_json: bool = typer.Option(False, "--json", help="Print the whole message as one JSON object."),
) -> int:
    """Take the next message of a mailbox agent.

    Prints its text, and its id on stderr; answer it with `beam reply ID`. Exit 12 where none waits.
    """
    from beam import durations, messages
    from beam.cli.render.text import safe, safe_json, write

    call = context(ctx)
    lease_s = durations.parse(lease) if lease is not None else None
    if wait_:
        found = call.beam.recv_wait(
            agent, lease=lease_s, timeout=durations.parse(timeout) if timeout is not None else None
        )
    else:
        found = call.beam.recv(agent, lease=lease_s)
    if found is None:
        raise UnfinishedError(f"no message waits for {agent}", f"beam recv {agent} --wait", subject=agent)
    if as_json:
        write(sys.stdout, safe_json(messages.encode(found).decode(), sys.stdout))
    else:
        call.note(f"from {found.sender}; answer with: beam reply {found.id} TEXT")
        write(sys.stdout, safe(found.text, sys.stdout) + ("" if found.text.endswith("\n") else "\n"))
    return 0


@app.verb()
def reply(
    ctx: typer.Context,
    message: str = typer.Argument(..., metavar="ID", help="The id that recv said, or the end of it."),
    text: list[str] | None = typer.Argument(None, metavar="[TEXT]...", help="The answer; left out: stdin."),
    failed: bool = typer.Option(False, "--failed", help="There is no answer; the text says why."),
) -> int:
    """Answer a message that `recv` took."""
    from beam.cli import prompt

    call = context(ctx)
    answer = prompt.read(text or [], [], call)
    outcome = call.beam.reply(message, answer, failed=failed)
    call.detail(f"{outcome.message_id}: {outcome.status}")
    return 0
