"""`beam secret`: API keys in the system's keyring, for `beam send --shield NAME`."""

from __future__ import annotations

import sys

from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument
from beam.cli.streams import is_terminal

app = App("Keep API keys in the system's keyring, for `beam send --shield`.")


@app.verb("set")
def set_(call: Context, name: str = argument(..., metavar="NAME", help="What to call the key.")) -> None:
    """Store a key in the system's keyring, under a name.

    The key is read from stdin, on a terminal without an echo, so it is in no argument, variable or file.
    """
    if is_terminal(sys.stdin):
        from getpass import getpass

        try:
            key = getpass(f"key for {name}: ")
        except EOFError:  # ^D
            key = ""
    else:
        key = sys.stdin.readline(16 * 1024)
    call.beam.keep_secret(name, key.strip())
    call.note(f"kept; use it, such as: beam send claude TEXT --shield {name}")


@app.verb("rm")
def rm(call: Context, name: str = argument(..., metavar="NAME", help="The key's name.")) -> None:
    """Remove a key from the system's keyring."""
    call.beam.remove_secret(name)
