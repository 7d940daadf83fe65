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

    With an input line under it, it is only quoted. `match` is searched in its text (several rows, down to the last
    one).

    `first` is the row where it begins, and `body` the form of each of its rows below that, up from the screen's last
    one: if an agent can't write such rows, it can't imitate a question. Without both a dialog begins where `match`
    does. `subject`, `detail` and the other patterns are searched in its own rows.

    `allow` and `deny` are the keys of the two answers, each typed separately; empty: there is no such answer. A `setup`
    dialog has only a harmless way on, which beam takes (`allow`); `trust` asks whether the folder may run code, `full`
    whether the access of that name is meant: beam says yes if it was given; `login` is for the person alone.

    `subject` is a pattern whose group 1 says what is asked for, as far as the screen tells; `detail` one whose group 1
    is the request itself. `always` are the keys that permanently allow similar requests, offered if `always_row` is
    found (its group 1 is the offer); `amend` those after which a denial takes a text for the agent, and `amend_row`
    what the screen shows then.
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

    `prompt` is the row where one types; its group 1 is what was typed ("": learned from the screen). `at_cursor`: it is
    the cursor's own row, the last one, and it is gone while the agent works (shells). Otherwise it is the lowest such
    row whose neighbours match `above` and `below`, and stays. `placeholders` are texts there that mean "nothing typed",
    `pasted` is what stands for a long paste. `more` is the prompt of an unfinished input (`...`). `frame` is what is
    drawn around what was typed, there and in its echo, and no part of it.

    `busy_rows` are looked for in the `zone` rows above the prompt and in all below it; `between_rows` (a list of its
    tasks, which it may draw there) are not counted. `waits_rows` (that it waits for work of its own in the background)
    are looked for in the lowest three above it that are not blank; `done_rows` between the echoed prompt and the
    prompt; `error_rows` there as well: then the turn failed. `failed` is searched there in all rows together: its group
    1 is why it did. `titles_busy`, `titles_idle`, `titles_asking` are patterns of the window's
    title.
    `ready_rows` stand below the prompt once the agent takes a message: some show a prompt long before. `resumed_rows`
    are seen before it does in a session that it resumes: some take a message before they have loaded it. `warning` is
    searched in all rows together: what the agent may print before it draws its screen, which can take it long.

    `echo_rows` is how the agent shows a prompt that it took (group 1: its first row). Of what follows, `noise_rows` are
    no answer, `bullet` is cut off at the beginning of a row, and `indent` blanks at the beginning of the others.
    `scrollbar` are the signs that it draws in the last column, beside a conversation that is longer than the screen.
    `session` finds in what it wrote when it quit the id that resumes the conversation (group 1).

    `by_line`: text is typed line by line, each after the next prompt. `bracketed`: it announces that it takes pastes.
    `special`: a text that begins so would be a command to the agent and no message (a blank in front makes it one);
    `never`: one that would be a command all the same, and can't be sent as a message. `pieced_rows`: a message
    that takes up to that many rows is pasted piece by piece, because the agent tells its model of a long paste that
    others may have written it. The composer must show so many.
    `quit` are keys, each typed separately. `start_seconds` until it must be ready; after `stall_seconds` without any
    change what it waits for is unknown.
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
    """Return the profile with these fields replaced, in the form of settings."""
    if not fields:
        return profile
    return typed_values.convert({**to_builtins(profile), **fields}, Profile)
