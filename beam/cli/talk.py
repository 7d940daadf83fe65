"""The commands `show`, `recv` and `reply`, which are about messages that were sent already."""

from __future__ import annotations

import sys

from beam import ExitCode, UnfinishedError, UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option

app = App()


@app.verb()
def show(
    call: Context,
    message: str = argument(..., metavar="ID", help="The message's id, or the last four or more characters of it."),
    as_json: bool = option(False, "--json", help="Print the outcome as one JSON object."),
) -> int:
    """Show what is known about a message now.

    For a finished message, print what `wait` prints; for another, print where it is and exit 12.
    """
    from beam import Outcome
    from beam.cli.errors import complain
    from beam.cli.printer import Printer
    from beam.cli.render.text import write_json

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
    call: Context,
    agent: str = argument(..., metavar="AGENT", help="A mailbox agent."),
    wait_: bool = option(False, "--wait", help="Wait until there is a message."),
    timeout: str | None = option(None, "--timeout", metavar="D", help="With --wait: how long to wait at most."),
    lease: str | None = option(
        None, "--lease", metavar="D", help="If it is not answered within this time, offer it again."
    ),
    as_json: bool = option(False, "--json", help="Print the complete message as one JSON object."),
) -> int:
    """Take the next message of a mailbox agent.

    Prints its text to stdout and its id to stderr; answer it with `beam reply ID`. Exits 12 if no message waits.
    """
    from beam import durations, messages
    from beam.cli.render.text import safe, safe_json, write

    if timeout is not None and not wait_:
        raise UsageError("--timeout is for --wait", f"beam recv {agent} --wait --timeout {timeout}")
    lease_s, timeout_s = (durations.parse(word) if word is not None else None for word in (lease, timeout))
    found = call.beam.recv(agent, lease=lease_s, timeout=timeout_s if wait_ else 0.0)
    if found is None:
        raise UnfinishedError(f"no message waits for {agent}", f"beam recv {agent} --wait", subject=agent)
    if as_json:
        write(sys.stdout, safe_json(messages.encode(found).decode(), sys.stdout), verbatim=True)
    else:
        call.note(f"from {found.sender}; answer with: beam reply {found.id} TEXT")
        whole = found.text if found.text.endswith("\n") else f"{found.text}\n"
        write(sys.stdout, safe(whole, sys.stdout), verbatim=True)  # its receiver gets a message as it was sent
    return 0


@app.verb()
def reply(
    call: Context,
    message: str = argument(..., metavar="ID", help="The id that recv printed, or the end of it."),
    text: list[str] | None = argument(None, metavar="[TEXT]...", help="The answer; default: read stdin."),
    failed: bool = option(False, "--failed", help="Report a failure; the text is the reason."),
) -> int:
    """Answer a message that `recv` took."""
    from beam.cli import prompt

    answer = prompt.read(text or [], [], call)
    outcome = call.beam.reply(message, answer, failed=failed)
    call.detail(f"{outcome.message_id}: {outcome.status}")
    return 0
