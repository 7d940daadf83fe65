"""Sends a message without waiting, and prints its id."""

from __future__ import annotations

import sys
from typing import NoReturn

from beam import DiskError, Message
from beam.cli import streams
from beam.cli.context import Context
from beam.cli.errors import complain
from beam.cli.render.text import write_json, write_line


def put_and_print_id(call: Context, message: Message, *, as_json: bool) -> None:
    """Put the message into its queue and print its id; with `as_json`, print the state of the message as JSON instead.
    Raises the errors of `Beam.put`, and DiskError if stdout can't be written or the state can't be read.

    If no process could be started for the message, that is reported on stderr, and nothing is raised: the message waits
    in its queue.
    """
    sent = call.beam.put(message)
    why = call.beam.unstarted_reason(sent)
    if why:
        complain(f"{sent} waits: no process could be started for it: {why}; beam wait {sent}")
    try:
        if as_json:
            write_json(call.beam.show(sent))
        else:
            write_line(sent)
        sys.stdout.flush()
    except DiskError as error:
        what = f"{sent} was sent; its state can't be shown: {error.message}"
        raise DiskError(what, f"beam wait {sent}", subject=sent) from error
    except OSError as error:
        _raise_unprinted_id(sent, error)


def _raise_unprinted_id(message_id: str, error: OSError) -> NoReturn:
    """Report an error that occurred after the message was sent, while its id was printed. The report contains the id,
    so that nobody sends the message again. Raises the error."""
    what, hint = f"{message_id} was sent; its id can't be written to stdout", f"beam wait {message_id}"
    if isinstance(error, BrokenPipeError):
        complain(f"{what}: nobody reads it; {hint}")
        raise error
    streams.drop_stdout()
    raise DiskError(f"{what}: {error.strerror}", hint, subject=message_id) from error
