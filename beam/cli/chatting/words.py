"""Parses the lines that a person types into a chat: texts, commands, and answers to permission requests. All functions
are pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from beam import nearest

ALONE_COMMANDS = {
    "/help": "list these commands",
    "/new": "begin a new session with the next message",
    "/model [NAME]": "from the next message on; without a name its own",
    "/access [WORD]": "from the next message on; without a word its own",
    "/attach PATH": "attach this file to the next message",
    "/queue TEXT": "send this after the running turn, and never into it",
    "/steer TEXT": "give this to the running turn, or fail",
    "/drop": "take back what waits to be sent",
    "/usage": "say what this chat has used so far",
    "/quit": "leave; ^D does the same",
}
TOGETHER_COMMANDS = {
    "/help": "list these commands",
    "/as NAME TEXT": "say this in the name of that agent, as its turn",
    "/next NAME": "have that agent speak next",
    "/steer TEXT": "give this to the running turn",
    "/pause": "stop after the running turn",
    "/go": "go on; so does Enter on an empty line",
    "/drop": "take back what waits to be said",
    "/usage": "say what this chat has used so far",
    "/quit": "end the conversation; ^D does the same",
}
_WITHOUT_ARGUMENT = frozenset({"/help", "/new", "/drop", "/usage", "/quit", "/pause", "/go"})


class Text(Struct, frozen=True):
    """A text for the agent or the conversation."""

    text: str


class AgentCommand(Struct, frozen=True):
    """A slash command of the agent's own CLI."""

    text: str


class Command(Struct, frozen=True):
    """A command of the chat itself. `name` is the command without its slash."""

    name: str
    argument: str = ""


class InvalidLine(Struct, frozen=True):
    """An invalid line. `why` tells the person what is wrong with it."""

    why: str


ParsedLine = Text | AgentCommand | Command | InvalidLine


def parse_line(line: str, table: dict[str, str], *, passes_on: bool) -> ParsedLine:
    """Return the meaning of a typed line. `table` contains the commands of the chat. With `passes_on`, an unknown slash
    command is a command of the agent's CLI; otherwise it is wrong. The line `//text` means the text `/text`. A line
    that begins with a path is a text."""
    text = line.strip()
    if text.startswith("//"):
        return Text(text[1:])
    word, argument = [*text.split(maxsplit=1), "", ""][:2]
    if not word.startswith("/") or "/" in word[1:] or len(word) == 1:
        return Text(text)
    known = {each.partition(" ")[0]: each for each in table}
    if word not in known:
        if passes_on:
            return AgentCommand(text)
        near = nearest(word, known)
        return InvalidLine(
            f"{word} is no command of this chat; " + (f"did you mean {near}?" if near else "/help lists them")
        )
    needed = known[word].partition(" ")[2]
    if needed and not needed.startswith("[") and not argument:
        return InvalidLine(f"{word} needs more: {known[word]}")
    if word in _WITHOUT_ARGUMENT and argument:
        return InvalidLine(f"{word} takes no text after it")
    return Command(word[1:], argument)


def help_lines(table: dict[str, str], own: Sequence[str] = ()) -> list[str]:
    """Return the lines of a chat's help. `own` contains the slash commands of the agent's CLI."""
    width = max(map(len, table))
    lines = [f"{name:{width}}  {text}" for name, text in table.items()]
    lines += [
        "Enter sends; Alt-Enter, ^J, or a \\ at the end begins a new line",
        "Tab completes /commands and @files; ^R searches what was sent before",
        "^C ends the running turn; ^D leaves",
    ]
    if own:
        lines.append(f"commands of the agent itself: {' '.join(own)}")
    return lines


YES, NO = ("y", "yes"), ("n", "no")


class Answer(Struct, frozen=True):
    """A person's answer to a permission request. With `always`, similar requests are allowed from now on; with `stop`,
    the turn is stopped. `reason` is for the agent."""

    allow: bool
    always: bool = False
    stop: bool = False
    reason: str | None = None


def parse_answer(line: str, *, offers: bool) -> Answer | None:
    """Return the answer to a permission request that this line gives; None if the line is not a valid answer. "always"
    is valid only with `offers`."""
    text = line.strip()
    word, _, rest = text.partition(" ")
    word = word.lower().rstrip(",:")
    if word in ("a", "always") and offers and not rest:
        return Answer(allow=True, always=True)
    if word in YES and not rest:
        return Answer(allow=True)
    if word in NO:
        return Answer(allow=False, reason=rest.strip() or None)
    if word in ("s", "stop") and not rest:
        return Answer(allow=False, stop=True)
    return None
