"""A profile: the appearance of one agent's screen, and its keys. It is a value, so that a person can change it.

Patterns are regular expressions. Those that end in `rows` are searched in one row each, without trailing blanks. Does
not depend on reading a screen.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, to_builtins

from beam.base import typed_values

Kind = Literal["permission", "trust", "full", "setup", "login"]


class Dialog(Struct, frozen=True, kw_only=True):
    """A question that blocks the agent and is below everything else on its screen.

    If an input line is below it, it is only quoted. `match` is searched in its text (several rows, down to the last
    one).

    `first` is a pattern of its first row, and `body` one of each row from there down to the screen's last row: an agent
    that can't write such rows can't imitate a question. Without both a dialog begins where `match` does. `subject`,
    `detail` and the other patterns are searched in the dialog's own rows.

    `allow` and `deny` are the keys of the two answers, each typed separately; empty: there is no such answer. A `setup`
    dialog is answered by beam (`allow`), because it can only be continued, and that is harmless. `trust` asks whether
    the folder may run code, and `full` whether full access is meant: beam says yes if a person gave that trust or
    access. `login` is for the person alone.

    `subject` is a pattern whose group 1 says what is asked for, as far as the screen tells; `detail` one whose group 1
    is the request itself. `always` are the keys that permanently allow similar requests, offered if `always_row` is
    found (its group 1 is the offer); `amend` are the keys after which the reason of a denial can be typed for the
    agent, and `amend_row` is what the screen shows then.
    """

    name: str
    match: str
    kind: Kind = "permission"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    subject: str = ""
    detail: str = ""
    always: tuple[str, ...] = ()
    always_row: str = ""
    amend: tuple[str, ...] = ()
    amend_row: str = ""
    first: str = ""
    body: str = ""


class Profile(Struct, frozen=True, kw_only=True):
    """One agent's screen.

    `prompt` is a pattern of the row where one types; its group 1 is what was typed ("": the prompt is learned from the
    screen). `at_cursor`: the prompt is the cursor's row, the last one, and is gone while the agent works (shells).
    Otherwise the prompt is the lowest row that matches and whose neighbours match `above` and `below`, and it stays.
    `placeholders` are texts in that row that mean "nothing typed", `pasted` is what the agent shows in place of a long
    paste. `more` is the prompt of an unfinished input (`...`). `frame` is what the agent draws around the typed text,
    in the prompt and in its echo.

    `busy_rows` (the agent works) are looked for in the `zone` rows above the prompt and in all rows below it. Rows that
    match `between_rows` (a task list that the agent may draw there) are not counted. `waits_rows` (the agent waits for
    its own work in the background) are looked for in the lowest three rows above the prompt that are not blank.
    `done_rows` (the turn is over) and `error_rows` (the turn failed) are looked for between the echoed prompt and the
    prompt. `failed` is searched in all these rows together: its group 1 is why the turn failed. `titles_busy`,
    `titles_idle`, `titles_asking` are patterns of the window's title. `ready_rows` stand below the prompt once the
    agent takes a message: some agents show a prompt long before. In a resumed session the agent counts as ready only
    after `resumed_rows` were seen: some agents take a message before they have loaded the session. `warning` is what
    the agent may print before it draws its screen, which can take long; it is searched in all rows together.

    `echo_rows` is how the agent shows a prompt that it took (group 1: its first row). Of the rows that follow, those
    that match `noise_rows` are no part of the answer. At the beginning of a row `bullet` is cut off, or else `indent`
    blanks. `scrollbar` are the signs that the agent draws in the last column, beside a conversation that is longer than
    the screen. `session` is searched in what the agent wrote when it quit; its group 1 is the id that resumes the
    conversation.

    `by_line`: text is typed line by line, each after the next prompt. `bracketed`: the agent announces that it takes
    pastes. A text whose beginning matches `special` would be a command to the agent; a blank before it makes it a
    message. A text whose beginning matches `never` would be a command even so, and can't be sent as a message.
    `pieced_rows`: a message that takes up to that many rows is pasted piece by piece, because the agent tells its model
    that others may have written a long paste. The composer must be able to show that many rows. `quit` are keys, each
    typed separately. The agent must be ready within `start_seconds`; after `stall_seconds` without any change, nobody
    knows what it waits for.
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
    frame: str = ""
    busy_rows: tuple[str, ...] = ()
    zone: int = 4
    between_rows: tuple[str, ...] = ()
    waits_rows: tuple[str, ...] = ()
    done_rows: tuple[str, ...] = ()
    error_rows: tuple[str, ...] = ()
    failed: str = ""
    ready_rows: tuple[str, ...] = ()
    resumed_rows: tuple[str, ...] = ()
    warning: str = ""
    titles_busy: str = ""
    titles_idle: str = ""
    titles_asking: str = ""
    dialogs: tuple[Dialog, ...] = ()
    echo_rows: str = ""
    noise_rows: tuple[str, ...] = ()
    bullet: str = ""
    indent: int = 0
    scrollbar: str = ""
    session: str = ""
    bracketed: bool = False
    special: str = ""
    never: str = ""
    by_line: bool = False
    pieced_rows: int = 0
    submit: str = "\r"
    interrupt: str = "\x03"
    quit: tuple[str, ...] = ("\x04",)
    start_seconds: float = 60.0
    stall_seconds: float = 600.0


GENERIC = Profile(name="generic", stall_seconds=20.0)


class Pattern(Struct, frozen=True):
    """How a field's patterns are used: `whole_screen`: searched in many rows at a time; `group`: group 1 is the
    result."""

    whole_screen: bool = False
    group: bool = False


_ROW, _FOUND, _SCREEN, _FOUND_ON_SCREEN = Pattern(), Pattern(group=True), Pattern(True), Pattern(True, group=True)
PATTERNS: dict[type[Struct], dict[str, Pattern]] = {
    Profile: {
        **dict.fromkeys(
            ("above", "below", "placeholders", "pasted", "more", "busy_rows", "between_rows", "waits_rows"), _ROW
        ),
        **dict.fromkeys(
            ("error_rows", "ready_rows", "resumed_rows", "titles_busy", "titles_idle", "titles_asking"), _ROW
        ),
        **dict.fromkeys(("done_rows", "noise_rows", "bullet", "special", "never"), _ROW),
        **dict.fromkeys(("prompt", "echo_rows", "session"), _FOUND),
        **dict.fromkeys(("frame", "warning"), _SCREEN),
        "failed": _FOUND_ON_SCREEN,
    },
    Dialog: {
        **dict.fromkeys(("match", "subject", "detail", "always_row"), _SCREEN),
        **dict.fromkeys(("first", "body"), _ROW),
    },
}


def patterns_of(kind: type[Struct], name: str, value: object) -> tuple[str, ...]:
    """Return the patterns in this field's value; none for a field without patterns."""
    if name not in PATTERNS[kind]:
        return ()
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, tuple) else ()


def overridden(profile: Profile, fields: Mapping[str, Any]) -> Profile:
    """Return the profile with these fields replaced; their values have the form that they have in settings."""
    if not fields:
        return profile
    return typed_values.convert({**to_builtins(profile), **fields}, Profile)
