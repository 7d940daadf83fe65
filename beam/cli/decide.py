"""The commands `asks`, `approve`, `deny` and `interrupt`, with which a person decides while agents work."""

from __future__ import annotations

from beam import BeamError, NotFoundError, UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option

app = App()
_ID = argument(
    None,
    metavar="[ID|AGENT]",
    help="The request's id, or the last four or more characters of it. At a terminal also an agent's name, or nothing.",
)


@app.verb()
def asks(
    call: Context,
    agent: list[str] | None = argument(None, metavar="[AGENT]...", help="Limit the output to these agents."),
    as_json: bool = option(False, "--json", help="Print JSON Lines, one object per line."),
) -> int:
    """List the permission requests that wait for a decision.

    A request that nobody decides in time is denied; its turn then ends with exit code 5.
    """
    from beam.cli.render import asks as render
    from beam.cli.render.text import write_json_lines

    found = call.beam.asks(agent or [])
    if as_json:
        write_json_lines(found)
    elif found:
        render.print_table(found)
    else:
        call.note("no agent waits for a decision")
    return 0


@app.verb()
def approve(
    call: Context,
    ask: str | None = _ID,
    always: bool = option(False, "--always", help="Also allow similar requests from now on, as `beam asks` shows."),
    changed: str | None = option(
        None, "--input", metavar="JSON|FILE", help="Run this whole input instead of the one that was asked for."
    ),
    rule: str | None = option(
        None, "--rule", metavar="RULE", help="Also add this rule to the agent's settings, as in 'Bash(git *)'."
    ),
) -> int:
    """Allow what an agent asks for.

    At a terminal no id is needed: the only open request (of that AGENT) is shown and taken, or you choose from a list.
    All that would run is printed, if `beam asks` shows only the beginning of it. Fails if the request is no longer
    open; the decision is never applied to another one.
    """
    import sys

    from beam.cli import prompt
    from beam.cli.render.asks import always_words, full_ask_lines
    from beam.cli.streams import is_interactive

    given = prompt.json_object(changed, call) if changed is not None else None
    ask = _choose(call, ask)
    is_shown = is_interactive(sys.stderr) and not call.quiet
    for line in call.beam.asks() if always or is_shown else ():
        if not line.id.endswith(ask):
            continue
        for text in full_ask_lines(line) if is_shown else ():
            call.note(text)
        if always and (scope := always_words(bytes(line.suggestions))):
            call.note(f"{ask}: always: {scope}")
    call.note(f"{ask}: {call.beam.approve(ask, always=always, input=given, rule=rule)}")
    return 0


@app.verb()
def deny(
    call: Context,
    ask: str | None = _ID,
    message: str | None = option(None, "--message", metavar="TEXT", help="A reason, which is passed on to the agent."),
    stop: bool = option(False, "--stop", help="Stop the turn as well."),
) -> int:
    """Deny what an agent asks for; its turn continues without it.

    At a terminal no id is needed, as for `beam approve`. Fails if the request is no longer open; the decision is never
    applied to another one.
    """
    ask = _choose(call, ask)
    call.note(f"{ask}: {call.beam.deny(ask, message=message, stop=stop)}")
    return 0


def _choose(call: Context, given: str | None) -> str:
    """Return the id of the request that is meant; `given` itself if it is no agent's name. At a terminal, show the only
    request that it can be, or let the person choose. Raises UsageError if no choice can be made, NotFoundError if no
    request is open."""
    import sys

    from beam.cli.render.asks import question
    from beam.cli.streams import is_interactive

    is_person = is_interactive(sys.stdin, sys.stderr) and not call.beam.is_agent
    if given is not None and not is_person:
        return given
    found = call.beam.asks()
    if given is not None:
        named = [line for line in found if line.agent == given]
        if not named or any(line.id.endswith(given) for line in found):
            return given
        found = named
    if not found:
        raise NotFoundError("no agent waits for a decision", "")
    if not is_person:
        raise UsageError(
            "without a terminal the id of a request is needed", f"open: {', '.join(line.id for line in found)}"
        )
    if len(found) == 1:
        call.note(question(found[0]))
        return found[0].id
    choices = [f"{number}  {question(line)}\n" for number, line in enumerate(found, 1)]
    sys.stderr.write(f"{''.join(choices)}Which one? [1-{len(found)}] ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if not answer.isdecimal() or not 1 <= int(answer) <= len(found):
        raise UsageError(f"{answer!r} is none of them, so nothing was decided", "")
    return found[int(answer) - 1].id


@app.verb()
def interrupt(
    call: Context,
    target: str = argument(..., metavar="AGENT|ID", help="An agent (all its turns) or a message's id."),
) -> int:
    """Stop the turn of a message, or withdraw a message that waits.

    For an agent, stop everything it runs, including `--once` turns. Fails if the turn is already over; the interrupt is
    never applied to another one.
    """
    try:
        messages = call.beam.running(call.beam.agent_of(target))
    except NotFoundError:  # no agent has this name
        messages = [target]
    refused: list[BeamError] = []
    for message in messages:
        try:
            call.note(f"{message}: {call.beam.interrupt(message)}")
        except BeamError as error:  # this turn may just have ended; the others are stopped anyway
            refused.append(error)
    if len(refused) == len(messages):
        raise refused[0]
    return 0
