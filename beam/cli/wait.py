"""`beam wait`: waits for the outcomes of messages that were sent already, or until agents are in a state."""

from __future__ import annotations

import sys
from typing import NoReturn

from beam import Event, Outcome, SignalledError, UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.printer import Printer
from beam.cli.render.text import safe, write_json, write_line

app = App()

_STATES = ("idle", "asking", "finished")


@app.verb()
def wait(
    call: Context,
    message: list[str] | None = argument(
        None, metavar="[ID]...", help="Ids of messages, or the last four or more characters of them."
    ),
    first: bool = option(False, "--any", help="Wait for one of them; the others continue."),
    every: bool = option(False, "--all", help="Wait for all of them (the default)."),
    agent: list[str] = option([], "--agent", metavar="A", help="Wait for this agent, with --until."),
    until: str | None = option(None, "--until", metavar="STATE", help="idle, asking or finished."),
    timeout: str | None = option(None, "--timeout", metavar="D", help="Stop waiting after this long (exit 12)."),
    as_json: bool = option(False, "--json", help="Print each outcome as a JSON object on a line."),
    as_events: bool = option(False, "--events", help="Print events from now on as JSON Lines."),
) -> int:
    """Wait for messages' outcomes and print the answers, or until agents are in a state.

    The exit code is that of the outcome; of several, that of the first ID without success. --timeout limits only the
    waiting and stops nothing. --until idle: no turn runs and nothing waits; asking: a permission request is open;
    finished: a turn has ended since the command began, and its answer is printed.
    """
    from beam import durations

    if as_json and as_events:
        raise UsageError("--json and --events don't go together", "use --events alone: its last line is the outcome")
    if first and every:
        raise UsageError("--any and --all don't go together", "--any waits for one, --all for each")
    seconds = durations.parse(timeout) if timeout is not None else None
    if agent or until is not None:
        if message or as_events:
            what = "ids of messages" if message else "--events"
            raise UsageError(f"{what} and --until don't go together", "beam wait --agent A --until idle")
        return _wait_for_states(call, agent, until, only_first=first, seconds=seconds, as_json=as_json)
    if not message:
        raise UsageError("there is no message to wait for", "beam wait ID, or beam wait --agent A --until idle")
    if len(message) == 1:
        return _wait_for_message(call, message[0], seconds, as_json=as_json, as_events=as_events)
    return _wait_for_messages(call, message, seconds, only_first=first, as_json=as_json, as_events=as_events)


def _wait_for_message(call: Context, message: str, seconds: float | None, *, as_json: bool, as_events: bool) -> int:
    printer = Printer(as_json=as_json, as_events=as_events, call=call)
    try:
        with printer.waiting(message, call.beam.progress(message)):
            outcome = call.beam.wait(message, timeout=seconds, seen=printer.event)
    except KeyboardInterrupt:
        _raise_stopped(f"{message} continues", f"beam wait {message}")
    return printer.outcome(outcome)


def _wait_for_messages(
    call: Context, messages: list[str], seconds: float | None, *, only_first: bool, as_json: bool, as_events: bool
) -> int:
    codes: dict[str, int] = {}
    printers: dict[str | None, Printer] = {}

    def printer(message_id: str | None) -> Printer:
        if message_id not in printers:
            printers[message_id] = Printer(as_json=as_json, as_events=as_events, call=call, streams=False)
        return printers[message_id]

    def ended(outcome: Outcome) -> None:
        if not (only_first or as_json or as_events):
            write_line(safe(f"==> {outcome.message_id} <==", sys.stdout))
        codes[outcome.message_id] = printer(outcome.message_id).outcome(outcome)

    def seen(event: Event) -> None:
        printer(event.message_id).event(event)

    try:
        call.beam.wait_several(messages, only_first=only_first, timeout=seconds, seen=seen, ended=ended)
    except KeyboardInterrupt:
        _raise_stopped("the messages continue", "beam wait ID")
    in_order = (code for asked in messages for whole, code in codes.items() if whole.endswith(asked))
    return next((code for code in in_order if code), 0)


def _wait_for_states(
    call: Context, agents: list[str], until: str | None, *, only_first: bool, seconds: float | None, as_json: bool
) -> int:
    match until:
        case "idle" | "asking" | "finished" if agents:
            pass
        case None:
            raise UsageError("--agent needs --until", f"--until {', '.join(_STATES[:-1])} or {_STATES[-1]}")
        case "idle" | "asking" | "finished":
            raise UsageError("--until needs --agent", f"beam wait --agent A --until {until}")
        case _:
            raise UsageError(f"--until {until}: unknown state", f"use one of {', '.join(_STATES)}", subject=until)
    try:
        found = call.beam.wait_until(agents, until, only_first=only_first, timeout=seconds)
    except KeyboardInterrupt:
        _raise_stopped("the agents continue", "beam status")
    codes = []
    for name, outcome in found.items():
        if outcome is not None:
            if len(found) > 1 and not as_json:
                write_line(safe(f"==> {outcome.message_id} <==", sys.stdout))
            codes.append(Printer(as_json=as_json, as_events=False, call=call).outcome(outcome))
        elif as_json:
            write_json({"agent": name, "state": until})
    return next((code for code in codes if code), 0)


def _raise_stopped(what: str, hint: str) -> NoReturn:
    raise SignalledError(2, message=f"stopped waiting; {what}", hint=hint) from None
