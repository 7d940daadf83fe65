"""`beam log`: the journal of an agent, or of one message."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TextIO, cast

from beam import ExitCode, NotFoundError, UsageError, events
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option

if TYPE_CHECKING:
    from beam import Beam
    from beam.cli.render.stream import EventLine, Stream

app = App()
_FORMATS = ("md", "html", "json")
_END_BYTES = 128 * 1024  # of a journal, read first for its last lines


@app.verb()
def log(
    call: Context,
    agent: str = argument(
        ..., metavar="AGENT|ID", help="The agent whose journal is printed, or one message (its id, or the end of it)."
    ),
    as_json: bool = option(False, "--json", help="Print every event as JSON Lines."),
    raw: bool = option(False, "--raw", help="Print the CLI's own output lines after the events."),
    turn: int | None = option(None, "--turn", metavar="N", help="Only this turn."),
    after: int = option(0, "--after", metavar="SEQ", min=0, help="Only events after this seq."),
    last: int | None = option(
        None, "-n", metavar="N", min=0, help="Only the last N lines (with --json: events, with --format: turns)."
    ),
    since: str | None = option(None, "--since", metavar="T", help="Only events since then: 10m (ago), 14:30."),
    until: str | None = option(None, "--until", metavar="T", help="Only events until then."),
    form: str | None = option(
        None, "--format", metavar="F", help="Print a conversation instead: `md`, `html` (one file) or `json`."
    ),
    subagent: str | None = option(
        None, "--subagent", metavar="ID", help="Only what this subagent did and said (the id of its call), or `all`."
    ),
    verify: bool = option(False, "--verify", help="Check every line of every segment; exit 13 on damage."),
    once: bool = option(False, "--once", help="Include the journals of its temporary sessions (send --once)."),
    follow: bool = option(False, "-f", "--follow", help="Go on with what happens, until ^C."),
) -> int:
    """Print an agent's journal, or what happened to one message."""
    from beam.cli.render.last_lines import LastLines
    from beam.cli.render.stream import Stream

    if verify:
        others = {
            "--json": as_json, "--raw": raw, "--turn": turn, "--after": after or None, "-n": last, "--since": since,
            "--until": until, "--format": form, "--subagent": subagent, "--once": once, "--follow": follow,
        }  # fmt: skip
        given = next((name for name, value in others.items() if value is not None and value is not False), None)
        if given is not None:
            raise UsageError(f"--verify and {given} don't go together", f"beam log {agent} --verify")
        return _verify(call, agent)
    if follow and (form is not None or subagent is not None or until is not None or turn is not None or once):
        what = "--follow goes with none of --turn, --until, --format, --subagent and --once"
        raise UsageError(what, f"beam watch {agent}")
    last = None if last is None else min(last, sys.maxsize)
    if as_json and raw:
        raise UsageError("--json and --raw don't go together", "--json has the raw lines in `raw`")
    found, lines = _find_lines(call.beam, agent, after=after, once=once)
    if follow and agent not in (found, found.partition("@")[0]):
        raise UsageError(f"--follow needs an agent, and {agent} is a message", f"beam log {found} --follow")
    if form is not None and (form not in _FORMATS or as_json or raw):
        raise UsageError(f"--format {form} is not possible here", "--format md, html or json, without --json and --raw")
    if subagent is not None:
        if form is not None:
            raise UsageError("--subagent and --format don't go together", "a page has what subagents say in it already")

        lines = iter(subagent_lines(agent, lines, subagent))
    begin, end = _parse_times(since, until)

    def fits(line: EventLine) -> bool:
        event = line.event
        is_in_time = (begin is None or event.ts >= begin) and (end is None or event.ts <= end)
        return event.seq > after and (turn is None or event.turn == turn) and is_in_time

    if last is not None and form is None and found == agent and not once and subagent is None:
        lines = _end_of_journal(call, agent, fits, last, as_json=as_json, raw=raw)
    fitting: Iterator[EventLine] = (line for line in lines if fits(line))
    if form is not None:
        return _print_conversation(call, found, fitting, form, last)
    if as_json and last is not None:
        fitting, last = iter(deque(fitting, last)), None
    tail = None if last is None else LastLines(sys.stdout, last)
    out = sys.stdout if tail is None else cast("TextIO", tail)
    stream = Stream(out, as_json=as_json, verbose=call.verbose, days=tail)
    count, seen = 0, after
    for line in fitting:
        count += 1
        seen = line.event.seq or seen
        _print(line, stream, out, raw=raw)
    stream.end()
    if tail is not None:
        tail.print()
    if follow:
        return _follow(call, found, seen, stream, raw=raw)
    if not count and turn is None:
        call.note(f"{agent} has no events{' of that time' if begin or end else ' yet' if not after else ' after that'}")
    lanes = call.beam.home.agent(found).lanes() if found == agent else []
    if lanes and not once:
        call.note(f"{len(lanes)} temporary sessions have their own journals; to include them: beam log {agent} --once")
    if turn is not None and not count and last is None and begin is None and end is None:
        raise NotFoundError(
            f"{agent} has no turn {turn}", f"beam status {found} shows how many turns it has", subject=str(turn)
        )
    return 0


def _follow(call: Context, agent: str, after: int, stream: Stream, *, raw: bool) -> int:
    """Print the agent's events with a higher number than `after` as they come."""
    from beam import since, watch_root
    from beam.cli.render.stream import EventLine

    for placed in watch_root(call.beam.context, agents=[agent], follow=True, history=True):
        for one in placed:
            if one.lane is None and one.event.seq > after:
                after = one.event.seq
                _print(EventLine(one.event, agent_dir=one.agent_dir), stream, sys.stdout, raw=raw)
        stream.tick(since(0))
        sys.stdout.flush()
    return 0


def _print(line: EventLine, stream: Stream, out: TextIO, *, raw: bool) -> None:
    if raw:
        _print_raw(line, out)
    else:
        stream.batch((line,))


def _end_of_journal(
    call: Context, agent: str, fits: Callable[[EventLine], bool], last: int, *, as_json: bool, raw: bool
) -> Iterator[EventLine]:
    """Yield the lines of an end of the agent's journal, the shortest of a few that has all that the last `last` lines
    to print depend on."""
    from beam.cli.render.stream import EventLine

    place, size = call.beam.home.agent(agent).dir, _END_BYTES
    while True:
        found, is_all = call.beam.last_events(agent, size)
        lines = [EventLine(event, agent_dir=place) for event in found]
        fitting = [line for line in lines if fits(line)]
        enough = len(fitting) >= last if as_json else _has_last_lines(call, fitting, last, raw=raw)
        if is_all or (enough and fitting):
            return iter(lines)
        size *= 8


def _has_last_lines(call: Context, lines: list[EventLine], last: int, *, raw: bool) -> bool:
    """Return whether these lines are printed as at least `last` lines, and the last of those do not depend on earlier
    events."""
    from beam import events
    from beam.cli.render.last_lines import LastLines
    from beam.cli.render.stream import Stream

    tail = LastLines(sys.stdout, last)
    out = cast("TextIO", tail)
    stream = Stream(out, as_json=False, verbose=call.verbose, days=tail)
    for tail.position, line in enumerate(lines):
        _print(line, stream, out, raw=raw)
    stream.end()
    known = {event.call_id for line in lines if isinstance(event := line.event, events.ToolCalled)}
    failed = {event.message_id for line in lines if isinstance(event := line.event, events.TurnFinished)}
    for line in lines[tail.first_position :]:
        match line.event:
            case events.ToolReturned(call_id=call_id) if call_id not in known:
                return False
            case events.MessageDead(message_id=message_id) if message_id not in failed:
                return False
            case events.MessageQueued(thread=thread, sender=sender) if thread and sender != "human":
                return False  # its thread has a number, counted from the beginning
    return tail.is_full


def _print_conversation(call: Context, agent: str, lines: Iterator[EventLine], form: str, last: int | None) -> int:
    """Print the conversation of an agent in the format `form`, turn by turn: all turns, or only the last `last`
    turns."""
    import msgspec

    from beam import events, transcripts
    from beam.cli.render.text import safe_json, write

    found = transcripts.transcript(
        agent, (events.with_image_in(line.event, str(line.agent_dir or "")) for line in lines)
    )
    if last is not None:
        found = msgspec.structs.replace(found, turns=found.turns[-last:] if last else ())
    if form == "html":
        from beam.cli.render.transcript_html import html

        text = html(found)
    elif form == "md":
        from beam.cli.render.transcript_md import markdown

        text = markdown(found)
    else:
        text = safe_json(msgspec.json.encode(found).decode(), sys.stdout) + "\n"
    write(sys.stdout, text, verbatim=form == "json")
    if not found.turns:
        call.note(f"{agent} has no turns of that time yet")
    return 0


def _verify(call: Context, agent: str) -> int:
    from beam.cli.errors import complain
    from beam.cli.render.text import safe, write_line

    damage = call.beam.verify(agent)
    for damaged in damage:
        write_line(safe(damaged, sys.stdout))
    if not damage:
        call.note(f"the journal of {agent} is undamaged")
        return 0
    complain(f"the journal of {agent} is damaged in {len(damage)} place(s); restore those files from a backup")
    return int(ExitCode.CHECK_FAILED)


def _find_lines(beam: Beam, name: str, *, after: int, once: bool) -> tuple[str, Iterator[EventLine]]:
    """Return an agent's name and the lines of its journal. If `name` is a message's id, return the name of the
    message's agent, and only the lines about that message."""
    from beam.cli.render.stream import EventLine

    try:
        if once:
            return name, _lines_with_lanes(beam, name)
        agent = beam.agent_of(name)
        place = beam.home.agent(agent).dir
        return agent, (EventLine(event, agent_dir=place) for event in beam.events(agent, after=after))
    except NotFoundError:
        try:
            agent, message_id = beam.find_message(name)
        except (NotFoundError, UsageError) as error:
            if isinstance(error, UsageError) and error.subject:  # several messages have such an id
                raise
        else:
            return agent, (line for line in _lines_with_lanes(beam, agent) if line.event.message_id == message_id)
        raise


def _lines_with_lanes(beam: Beam, agent: str) -> Iterator[EventLine]:
    """Yield the lines of the agent's journal and of the journals of its `--once` sessions, merged in the order of
    time."""
    from beam import watch_root
    from beam.cli.render.stream import EventLine

    agent = beam.agent_of(agent)
    for placed in watch_root(beam.context, agents=[agent], follow=False, history=True):
        yield from (EventLine(one.event, lane=one.lane, agent_dir=one.agent_dir) for one in placed)


def _parse_times(since: str | None, until: str | None) -> tuple[str | None, str | None]:
    import time

    from beam import moments

    now = time.time_ns()
    begin, end = (moments.parse(text, now) if text is not None else None for text in (since, until))
    return begin, end


def _print_raw(line: EventLine, out: TextIO) -> None:
    from beam.cli.render.text import safe, write

    native = getattr(line.event, "raw", None)
    if isinstance(native, str):
        write(out, safe(native, sys.stdout) + "\n")


# -- subagents ---------------------------------------------------------------------------------------------------------
# Selects the lines of a journal that are about subagents: their prompts, actions, texts and results.


ALL = "all"
_MAX_IDS = 10


def subagent_lines(agent: str, found: Iterable[EventLine], wanted: str) -> list[EventLine]:
    """Return the lines about all subagents if `wanted` is `all`. Otherwise return the lines about the one subagent
    whose id is `wanted` or begins with `wanted`, and about the subagents that it started.

    The id of a subagent is the id of the tool call that started it. Raises NotFoundError if no subagent has such an id,
    UsageError if several have.
    """
    lines = list(found)
    known = dict.fromkeys(parent for line in lines if (parent := _parent(line)))
    if not known:
        raise NotFoundError(
            f"no subagent of {agent} said anything that is in its journal",
            "docs/history.md says which CLIs tell what their subagents do",
            subject=agent,
        )
    fitting = [one for one in known if one == wanted] or [one for one in known if one.startswith(wanted)]
    if wanted != ALL and len(fitting) != 1:
        ids = ", ".join(list(known)[-_MAX_IDS:])
        if fitting:
            raise UsageError(f"{wanted[:80]!r} names {len(fitting)} subagents of {agent}", ids, subject=wanted[:80])
        raise NotFoundError(f"{agent} has no subagent {wanted[:80]!r}", f"there are {ids}", subject=wanted[:80])
    chosen = set(known if wanted == ALL else fitting)
    for line in lines:
        if isinstance(line.event, events.ToolCalled) and line.event.parent in chosen and line.event.call_id in known:
            chosen.add(line.event.call_id)
    return [line for line in lines if _parent(line) in chosen or getattr(line.event, "call_id", None) in chosen]


def _parent(line: EventLine) -> str | None:
    parent: str | None = getattr(line.event, "parent", None)
    return parent
