"""Sends a message without waiting, and prints its id."""

from __future__ import annotations

import sys
from typing import NoReturn

from beam import DiskError, Message
from beam.cli import streams
from beam.cli.context import Context
from beam.cli.errors import complain
from beam.cli.render.text import write_json, write_line


def put(call: Context, message: Message, *, as_json: bool) -> None:
    """Put the message into its queue and print its id; with `as_json`, print the state of the message as JSON instead.
    Raises the errors of `Beam.put`, and DiskError if stdout can't be written."""
    sent = call.beam.put(message)
    try:
        if as_json:
            write_json(call.beam.show(sent))
        else:
            write_line(sent)
        sys.stdout.flush()
    except OSError as error:
        _say_sent(sent, error)


def _say_sent(message_id: str, error: OSError) -> NoReturn:
    """Report an error that occurred after the message was sent, while its id was printed. The report contains the id,
    so that nobody sends the message again. Raises the error."""
    what, hint = f"{message_id} was sent; its id can't be written to stdout", f"beam wait {message_id}"
    if isinstance(error, BrokenPipeError):
        complain(f"{what}: nobody reads it; {hint}")
        raise error
    streams.drop_stdout()
    raise DiskError(f"{what}: {error.strerror}", hint, subject=message_id) from error
