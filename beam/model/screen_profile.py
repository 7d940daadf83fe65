"""The profile of an agent's screen: patterns that describe its appearance, and the keys that the agent takes. It is a
value, so that a person can change it in the settings.

Patterns are regular expressions. A pattern in a field whose name ends in `rows` is searched in one row at a time,
without trailing blanks. Does not depend on the code that reads a screen.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, to_builtins

from beam.base import typed_values

Kind = Literal["permission", "trust", "full", "setup", "login"]


class Dialog(Struct, frozen=True, kw_only=True):
    """A question that blocks the agent, below everything else on the agent's screen. If an input line is below the
    question, it is only quoted text and not a dialog.

    `match` is a pattern that is searched in the dialog's whole text (several rows, down to its last one). `first` is a
    pattern of the dialog's first row, and `body` a pattern that each row below it must match, down to the screen's last
    row: an agent that can't write such rows can't imitate a question. Without `first` and `body`, a dialog begins where
    `match` does. `subject`, `detail` and the other patterns are searched only in the dialog's own rows.

    `allow` and `deny` are the keys of the two answers, each typed separately; empty: there is no such answer. beam
    itself answers a `setup` dialog (with `allow`), because such a dialog can only be continued, which is harmless. A
    `trust` dialog asks whether the folder may run code, and a `full` dialog asks whether full access is meant. beam
    allows them if a person gave that trust or access. Only the person can answer a `login` dialog.

    `subject` is a pattern whose group 1 is the thing that the agent asks for, as far as the screen shows it; `detail`
    is a pattern whose group 1 is the request itself. `always` are the keys that permanently allow similar requests.
    They are offered if `always_row` is found, whose group 1 is the text of the offer. `amend` are the keys after which
    a person's reason for a denial can be typed, and `amend_row` is a text on the screen that shows that it can be
    typed.
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
    """The profile of one agent's screen: the patterns of its parts, and the keys that the agent takes.

    `prompt` is a pattern of the row in which a person types; its group 1 is the typed text ("": the prompt is learned
    from the screen). `at_cursor`: the prompt is in the cursor's row, which is the last row, and the prompt is not shown
    while the agent works (shells). Without `at_cursor`, the prompt is the lowest row that matches and whose neighbours
    match `above` and `below`, and it is always shown. `placeholders` are texts in the prompt's row that mean that
    nothing is typed; `pasted` is the text that the agent shows in place of a long paste. `more` is the prompt of an
    unfinished input (`...`). `frame` is the frame that the agent draws around the typed text, in the prompt and in its
    echo.

    `busy_rows` show that the agent works. They are searched in the `zone` rows above the prompt and in all rows below
    it. Rows that match `between_rows` (a task list that the agent may draw there) are not counted in the zone.
    `waits_rows` show that the agent waits for its own work in the background. They are searched in the lowest three
    non-blank rows above the prompt. `done_rows` show that the turn is over, and `error_rows` that it failed. Both are
    searched between the echo of the prompt and the prompt. `failed` is searched in all these rows together; its group 1
    is the reason why the turn failed. `cut_rows` are the notice below an answer that the token limit cut off; it is not
    part of the answer. `titles_busy`, `titles_idle` and `titles_asking` are patterns of the window's
    title. `ready_rows` are shown below the prompt as soon as the agent takes a message; some agents show a prompt long
    before. In a resumed session, the agent counts as ready only after `resumed_rows` were seen, because some agents
    take a message before they have loaded the session. `signals` are the numbers of the escape sequences (OSC) by which
    the agent reports its state to the terminal: 7501 (`state=working`), or 133 (the mark of its prompt). An agent with
    133 must read single keys only at its prompt, so that beam can tell its mark from one that a command prints.
    `warning` is text that the agent may print before it draws its screen, which can take long; it is searched in all
    rows together.

    `echo_rows` show a prompt that the agent took; group 1 is the first row of the prompt. Rows after the echo that
    match `noise_rows` do not belong to the answer. At the beginning of a row, the text that matches `bullet` is
    removed, or else `indent` blanks. `scrollbar` are the characters that the agent draws in the last column if the
    conversation is longer than the screen. `session` is searched in the text that the agent printed when it quit; its
    group 1 is the id that resumes the conversation.

    `by_line`: a text is typed line by line, and each line waits for the next prompt. `bracketed`: the agent announces
    that it takes pastes. If the beginning of a text matches `special`, the agent would take the text for a command; a
    blank before it makes it a message. If the beginning matches `never`, the agent takes the text for a command even
    with the blank, so it can't be sent as a message. `pieced_rows`: a message of up to this number of rows is pasted in
    pieces, because the agent tells its model that a long paste may have been written by others. The composer must be
    able to show that number of rows. `submit`, `interrupt` and `quit` are keys; those in `quit` are typed separately.
    The agent must be ready within `start_seconds`. If nothing changes for `stall_seconds`, the agent counts as stalled.
    """

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
    cut_rows: tuple[str, ...] = ()
    ready_rows: tuple[str, ...] = ()
    resumed_rows: tuple[str, ...] = ()
    signals: tuple[int, ...] = ()
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


GENERIC_PROFILE = Profile(stall_seconds=20.0)


class PatternUse(Struct, frozen=True):
    """How the patterns of a field are used. `whole_screen`: they are searched in many rows at once. `group`: each has
    one group, and the text of that group is the result."""

    whole_screen: bool = False
    group: bool = False


_ROW, _FOUND = PatternUse(), PatternUse(group=True)
_SCREEN, _FOUND_ON_SCREEN = PatternUse(True), PatternUse(True, group=True)
PATTERN_FIELDS: dict[type[Struct], dict[str, PatternUse]] = {
    Profile: {
        **dict.fromkeys(
            ("above", "below", "placeholders", "pasted", "more", "busy_rows", "between_rows", "waits_rows"), _ROW
        ),
        **dict.fromkeys(
            ("error_rows", "cut_rows", "ready_rows", "resumed_rows", "titles_busy", "titles_idle", "titles_asking"),
            _ROW,
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
    """Return the patterns in the value of the field `name`; an empty tuple for a field without patterns."""
    if name not in PATTERN_FIELDS[kind]:
        return ()
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, tuple) else ()


def override_fields(profile: Profile, fields: Mapping[str, Any]) -> Profile:
    """Return the profile with these fields replaced. The values have the form that they have in settings."""
    if not fields:
        return profile
    return typed_values.convert({**to_builtins(profile), **fields}, Profile)
