"""A profile: what the screen of one agent looks like, and which keys it takes. A value, so that a person can change it.

Patterns are regular expressions. Those that end in `rows` are searched in one row each, without trailing blanks.
Must not know how a screen is read.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal["permission", "trust", "setup", "login"]


class Dialog(Struct, frozen=True, kw_only=True):
    """A question that takes the whole attention of the agent. `match` is searched in the screen's text (several rows).

    `allow` and `deny` are the keys of the two answers, each typed by itself; empty: there is no such answer. A `setup`
    dialog has only a harmless way on, which beam takes (`allow`); `trust` asks whether the folder may run code; `login`
    is for the person alone. `subject` is a pattern whose group 1 says what is asked for, as far as the screen tells.
    """

    name: str
    match: str
    kind: Kind = "permission"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    subject: str = ""


class Profile(Struct, frozen=True, kw_only=True):
    """One agent's screen.

    `prompt` is the row where one types; its group 1 is what was typed ("": learned from the screen). `at_cursor`: it is
    the cursor's own row, the last one, and it is gone while the agent works (shells). Otherwise it is the lowest such
    row whose neighbours match `above` and `below`, and stays. `placeholders` are texts there that mean "nothing typed",
    `pasted` is what stands for a long paste. `more` is the prompt of an unfinished input (`...`).

    `busy_rows` are looked for in the `zone` rows above the prompt and in all below it; `done_rows` between the echoed
    prompt and the prompt; `error_rows` there as well: then the turn failed. `titles_busy`, `titles_idle` are patterns.
    `ready_rows` stand below the prompt once the agent takes a message: some show a prompt long before.

    `echo_rows` is how the agent shows a prompt that it took (group 1: its first row). Of what follows, `noise_rows` are
    no answer, `bullet` is cut off at the beginning of a row, and `indent` blanks at the beginning of the others.

    `by_line`: text is typed line by line, each after the next prompt. `bracketed`: it announces that it takes pastes.
    `special`: a text that begins so would be a command to the agent and no message (a blank in front makes it one).
    `quit` are keys, each typed by itself. `start_seconds` until it must be ready; after `stall_seconds` without any
    change nobody knows what it waits for.
    """

    name: str
    columns: int = 140
    rows: int = 60
    prompt: str = ""
    at_cursor: bool = False
    above: str = ""
    below: str = ""
    placeholders: tuple[str, ...] = ()
    pasted: str = ""
    more: str = ""
    busy_rows: tuple[str, ...] = ()
    zone: int = 4
    done_rows: tuple[str, ...] = ()
    error_rows: tuple[str, ...] = ()
    ready_rows: tuple[str, ...] = ()
    titles_busy: str = ""
    titles_idle: str = ""
    dialogs: tuple[Dialog, ...] = ()
    echo_rows: str = ""
    noise_rows: tuple[str, ...] = ()
    bullet: str = ""
    indent: int = 0
    bracketed: bool = False
    special: str = ""
    by_line: bool = False
    submit: str = "\r"
    interrupt: str = "\x03"
    quit: tuple[str, ...] = ("\x04",)
    start_seconds: float = 60.0
    stall_seconds: float = 600.0


GENERIC = Profile(name="generic", stall_seconds=20.0)
