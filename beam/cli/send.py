"""`beam send`: makes a message of the arguments, sends it, and prints its outcome on stdout and stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from beam import Message, Options, Outcome, SignalledError, UnsupportedError, UntrustedError, UsageError
from beam.cli import prompt
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, group, option
from beam.cli.streams import is_interactive

T = TypeVar("T")
_session, _limit, _answer = group("Sessions"), group("Limits"), group("Answers")
_program, _several, _api_key = group("Messages from a program"), group("Several agents"), group("API key")

app = App()


@app.verb()
def send(
    call: Context,
    agent: str | None = argument(
        None,
        metavar="AGENT",
        help="The receiver: a declared agent, or the name of an adapter; several: A,B,C. It can be left out if "
        "`defaults:` in beam.yaml names an `agent`.",
    ),
    text: list[str] | None = argument(None, metavar="[TEXT]...", help="The prompt; `-` stands for stdin."),
    file: list[str] = option([], "-f", "--file", metavar="FILE", help="Append this file's text to the prompt."),
    attach: list[str] = option([], "--attach", metavar="PATH", help="Attach this file."),
    model: str | None = option(None, "-m", "--model", metavar="NAME", help="The model for this turn."),
    access: str | None = option(None, "--access", metavar="WORD", help="read, edit, full or ask."),
    via: str | None = option(
        None,
        "--via",
        metavar="MODE",
        help="How to run the agent: exec (headless), dialogue (its own protocol) or terminal (its TUI); default: auto.",
    ),
    new: bool = option(False, "--new", help="Start a new session; the agent's current one is archived."),
    timeout: str | None = option(None, "--timeout", metavar="D", help="Stop the turn after this long (90s, 30m)."),
    budget: float | None = option(None, "--budget", metavar="USD", min=0, help="Limit the turn's cost."),
    no_wait: bool = option(False, "--no-wait", help="Print the message's id and return."),
    steer: bool = option(
        False, "--steer", help="Give the text to the turn that runs; exit 0 once the agent has read it."
    ),
    as_json: bool = option(False, "--json", help="Print the outcome as one JSON object."),
    as_events: bool = option(False, "--events", help="Print events as JSON Lines, ending with turn.finished."),
    once: bool = _session(False, "--once", help="Run in a temporary session, in parallel to the agent's queue."),
    keep: str | None = _session(
        None, "--keep", metavar="D", help="Keep the agent's process for the next message, for at most this long."
    ),
    context_from: str | None = _session(
        None, "--context-from", metavar="AGENT", help="Quote that agent's history below the prompt."
    ),
    context: str | None = _session(
        None, "--context", metavar="WORD", help="With --context-from: recent (default), full or summary."
    ),
    slash: bool = _session(False, "--slash", help="TEXT is a slash command of the agent's CLI, such as /compact."),
    allow: list[str] = option(
        [], "--allow", metavar="RULE", help="Let this through, as in 'Bash(git log *)'.", rich_help_panel="Rules"
    ),
    ask: list[str] = option([], "--ask", metavar="RULE", help="Ask a person about this.", rich_help_panel="Rules"),
    deny: list[str] = option(
        [], "--deny", metavar="RULE", help="Deny this, whatever else allows it.", rich_help_panel="Rules"
    ),
    max_turns: int | None = _limit(None, "--max-turns", metavar="N", min=1, help="Limit the agent's model calls."),
    max_tokens: int | None = _limit(
        None, "--max-tokens", metavar="N", min=1, help="Limit the tokens of the turn's model calls."
    ),
    deadline: str | None = _limit(
        None, "--deadline", metavar="D", help="Give up if the turn has not begun within this time."
    ),
    no_circuit: bool = _limit(
        False, "--no-circuit", help="Send also to an agent that failed so often that beam pauses it."
    ),
    schema: str | None = _answer(
        None, "--schema", metavar="FILE", help="A JSON Schema for the answer; or as 'name str, age int'."
    ),
    require: str | None = _answer(
        None,
        "--require",
        metavar="WORD",
        help="`structured`: fail if the turn's end is only visible on a screen. `whole`: fail if nobody would know "
        "that the answer was cut off; the turn's model calls go through a proxy if that is needed.",
    ),
    tolerate: str | None = _answer(
        None, "--tolerate", metavar="WORD", help="`denied`: exit with 0 even if a request was denied."
    ),
    key: str | None = _answer(
        None, "--key", metavar="K", help="Idempotency key: sending again with the same key returns the first outcome."
    ),
    message: str | None = _program(
        None,
        "--message",
        metavar="FILE",
        help='Send this message: a JSON object with the fields of a message file, such as {"to": "claude", "payload": '
        '{"text": "hi"}}.',
    ),
    each: bool = _program(
        False,
        "--each",
        help="Send each line of stdin, one after the other: a text, or such an object. Print the outcomes as JSON "
        "Lines.",
    ),
    on_failure: str | None = _program(
        None, "--on-failure", metavar="WORD", help="With --each, after a line without success: stop (default) or next."
    ),
    to_all: bool = _several(False, "--to-all", help="Send TEXT to every agent that is declared here; name none."),
    judge: str | None = _several(
        None, "--judge", metavar="AGENT", help="With several receivers: the agent that compares their answers."
    ),
    rubric: str | None = _several(None, "--rubric", metavar="TEXT", help="What --judge scores the answers by."),
    sender: str | None = _several(
        None, "--from", metavar="NAME", help="Send in the name of another agent; the journal records who did."
    ),
    replies: int | None = _several(
        None, "--replies", metavar="N", min=0, help="How many answers to pass between the two agents; default 1."
    ),
    record: str | None = prompt.RECORD,
    replay: str | None = prompt.REPLAY,
    depth: str | None = prompt.DEPTH,
    on_miss: str | None = prompt.ON_MISS,
    shield: str | None = _api_key(
        None,
        "--shield",
        metavar="KEY",
        help="Keep the API key from the agent: it gets a dummy for this turn. The real one is at KEY: fd:3 (a "
        "descriptor), or its name in the keyring.",
    ),
) -> int:
    """Send a message to an agent and print its answer.

    The prompt is TEXT, then each -f FILE, then what is piped in, separated by blank lines. The exit code is that of
    the outcome: docs/exit-codes.md. Several agents (A,B,C) answer at the same time; their answers are
    printed in the order of their names, and the exit code is that of the first without success.
    """
    given = dict(locals())
    from beam import durations

    if as_json and as_events:
        raise UsageError("--json and --events don't go together", "use --events alone: its last line is the outcome")
    if no_wait and as_events:
        raise UsageError("--no-wait and --events don't go together", "beam wait ID --events")
    beam = call.beam
    data, said, words = None, None, text or []
    goes_on = prompt.parse_word("--on-failure", on_failure, ("stop", "next")) == "next"
    if on_failure is not None and not each:
        raise UsageError("--on-failure is for --each", "add it, or leave --on-failure out")
    if each:
        agent = None if agent == "-" else agent
        _check_goes_with_each({**given, "text": [word for word in words if word != "-"]})
        words = []
    elif message is not None:
        from beam import decode_given

        _check_goes_with_message(given)
        data = prompt.read_object(message, call)
        said = decode_given(data)
        agent = agent or said.to or default_agent(call, "send", ["--message", "FILE"])
    elif to_all:
        words = words if agent is None else [agent, *words]
        agent = _all_agents(call, words)
    else:
        agent, words = _agent_and_words(call, agent, words)
    if to_all and (each or data is not None):
        raise UsageError("--to-all sends a TEXT", "--message and --each are for one agent")
    names = [_receiver_name(name) for name in agent.split(",")] if agent is not None else []
    is_several = len(names) > 1
    if (judge is not None or rubric is not None) and not is_several:
        raise UsageError("--judge compares the answers of several agents", "beam send A,B TEXT --judge C")
    if rubric is not None and judge is None:
        raise UsageError("--rubric is for --judge", "add it, or leave --rubric out")
    prompt_text = prompt.read(words, file, call, schema) if data is None and not each else ""
    if context_from is not None or context is not None:
        prompt_text = prompt.with_history(beam, prompt_text, context_from, context, is_alone=slash or key is not None)
    if steer:
        _check_steer_options(given)
        if is_several:
            raise UsageError("--steer is for one agent", "steer them one after the other")
        call.note(beam.steer(names[0], prompt_text))
        return 0
    asked = prompt.parse_word("--access", access, prompt.ACCESSES)
    is_keyed = key is not None or (said is not None and said.own_key is not None)
    is_asked = asked is None and not no_wait and not is_keyed and not each and is_interactive(sys.stdin, sys.stderr)
    given_options = {
        "attach": bool(attach),
        "budget": budget is not None,
        "max_turns": max_turns is not None,
        "model": model is not None,
        "schema": schema is not None,
    }
    recording = prompt.parse_recording(call, record, replay, depth, on_miss)
    options = Options(
        access=asked,
        model=model,
        new=new,
        once=once,
        schema=prompt.read_schema(schema, call),
        via=prompt.parse_word("--via", via, prompt.MODES),
        timeout=durations.parse(timeout) if timeout is not None else None,
        max_turns=max_turns,
        budget_usd=budget,
        require=prompt.parse_word("--require", require, ("structured", "whole")) or UNSET,
        tolerate=prompt.parse_word("--tolerate", tolerate, ("denied",)) or UNSET,
        no_circuit=True if no_circuit else UNSET,
        keep=durations.parse(keep) if keep is not None else UNSET,
        rules=prompt.rule_lists(allow=allow, ask=ask, deny=deny),
        max_tokens=UNSET if max_tokens is None else max_tokens,
        recording=recording if recording.folder else UNSET,
        shield=UNSET if shield is None else shield,
        slash=prompt.check_slash(prompt_text) if slash else UNSET,
    )

    def compose(name: str | None, what: str | bytes, key: str | None = key, keep: float | UnsetType = UNSET) -> Message:
        default = [option for option, is_given in given_options.items() if is_given]
        access = beam.default_access(name, via, default) if is_asked and name is not None else asked
        if isinstance(what, bytes):
            make = partial(beam.message_from, what, name)
        else:
            make = partial(beam.message, name or default_agent(call, "send", ["--each"]), what)
        return make(
            wait=not no_wait,
            sender=sender,
            attach=[call.path(path) for path in attach],
            options=replace(options, access=access, keep=options.keep if keep is UNSET else keep),
            key=key,
            deadline=durations.parse(deadline) if deadline is not None else None,
            replies=replies,
        )

    if each:
        from beam.cli.each import LineSender

        if is_several:
            raise UsageError("--each is for one agent", "name one agent, or none where the lines have a `to`")
        name = names[0] if names else None
        if name is not None:
            with_folder_trust(call, lambda: compose(name, "?"))
        lines = LineSender(
            call,
            partial(compose, name),
            no_wait=no_wait,
            as_json=as_json,
            key=key,
            keeps=options.keep is UNSET and not once,
        )
        return lines.run(goes_on=goes_on)
    given_text = prompt_text if data is None else data
    if is_several:
        if data is not None:
            raise UsageError("--message is for one agent", "name one agent, or none where the message has a `to`")
        from beam.cli import several

        several.check_options(names, as_events=as_events, shield=shield, no_wait=no_wait, judge=judge)
        messages = [with_folder_trust(call, lambda name=name: compose(name, given_text)) for name in names]  # type: ignore[misc]
        return several.send(call, messages, judge=judge, rubric=rubric, no_wait=no_wait, as_json=as_json)
    made = with_folder_trust(call, lambda: compose(names[0], given_text))
    if call.verbose and not beam.is_agent:
        call.detail(f"{names[0]} works in {beam.folder(names[0])}")
    for note in beam.notes(made, waits=not no_wait):
        call.note(note)
    if no_wait:
        from beam.cli.sent import put_and_print_id

        put_and_print_id(call, made, as_json=as_json)
        return 0
    from beam.cli.printer import Printer

    printer = Printer(as_json=as_json, as_events=as_events, call=call)
    try:
        with printer.waiting(made.id, beam.progress(made)):
            outcome = beam.deliver(made, printer.event)
    except SignalledError as error:
        if isinstance(error.outcome, Outcome):
            printer.outcome(error.outcome)
        raise
    return printer.outcome(outcome)


def _agent_and_words(call: Context, agent: str | None, words: list[str]) -> tuple[str, list[str]]:
    """Return the name of the receiver, and the words of the prompt. What is `-` or has blanks is no name: then it is
    the first word of the prompt, and the receiver is the default agent. Raises UsageError if there is none."""
    if agent is not None and agent != "-" and len(agent.split()) == 1:
        return agent, words
    words = words if agent is None else [agent, *words]
    return default_agent(call, "send", words or ["TEXT"]), words


def _all_agents(call: Context, words: list[str]) -> str:
    """Return the names of all declared agents, separated by commas. Raises UsageError if there is none, or if one is
    named before the text."""
    declared = call.beam.declared()
    if not declared:
        raise UsageError("no agent is declared here", "write agents into beam.yaml, or beam agent add NAME ADAPTER")
    if len(words) > 1 and words[0] in declared:
        raise UsageError(f"--to-all sends to every agent, and {words[0]} is named", "give the text alone")
    return ",".join(declared)


def default_agent(call: Context, verb: str, words: list[str]) -> str:
    """Return the agent for a command that names none. Raises UsageError if there is none; its hint has the command with
    these words after the name."""
    try:
        return call.beam.default_agent()
    except UsageError as error:
        import shlex

        example = next((line.agent for line in call.beam.agents()), "claude")
        typed = shlex.join(["beam", verb, example, *words])
        raise UsageError(error.message, f"name it first: {typed}; or write `defaults: {{agent: NAME}}`") from error


def _receiver_name(agent: str) -> str:
    """Return the name of the agent or session that gets the message. Raises UnsupportedError if `agent` can't get
    one."""
    if "~" in agent:
        cli, _, session_id = agent.partition("~")
        raise UnsupportedError(
            f"{agent} is a session that beam did not start, and its program takes messages from its person alone",
            f"type there; a member of a Claude team has an inbox (beam team send); once it has ended, "
            f"beam agent add NAME --session {cli}:{session_id} continues in it",
            subject=agent,
        )
    return agent


def _check_steer_options(given: Mapping[str, object]) -> None:
    """Raise UsageError for an option that does not go with --steer, which sends no message of its own."""
    beside = {"call", "agent", "text", "file", "steer"}
    for name, value in given.items():
        if name not in beside and value not in (None, False, [], ()):
            raise UsageError(
                f"--steer and --{name.removeprefix('as_').replace('_', '-')} don't go together",
                "a text for the running turn is no message of its own",
            )


_OF_THE_PROMPT = ("text", "file", "steer", "slash", "context_from", "context")


def _check_goes_with_message(given: Mapping[str, object]) -> None:
    """Raise UsageError for what does not go with --message, whose object has the text."""
    _check_none_of(given, _OF_THE_PROMPT, "--message", "the text is `payload: {text: …}` of the message")
    if given["message"] == given["schema"] == "-":
        raise UsageError("`-` is given twice, and stdin can be read once", "put one of the texts into a file")


def _check_goes_with_each(given: Mapping[str, object]) -> None:
    """Raise UsageError for what does not go with --each, which reads the texts from stdin and prints JSON Lines."""
    _check_none_of(given, (*_OF_THE_PROMPT, "message"), "--each", "the texts are the lines of stdin")
    _check_none_of(given, ("as_events", "judge", "rubric"), "--each", "its outcomes are printed as JSON Lines")
    if given["schema"] == "-":
        raise UsageError("--each and --schema - don't go together", "put the schema into a file")
    if str(given["shield"]).startswith("fd:"):
        raise UsageError("--each and --shield fd:N don't go together", "a descriptor is read once; use --shield NAME")


def _check_none_of(given: Mapping[str, object], names: tuple[str, ...], option: str, hint: str) -> None:
    for name in names:
        if given[name]:
            what = "a TEXT" if name == "text" else f"--{name.removeprefix('as_').replace('_', '-')}"
            raise UsageError(f"{option} and {what} don't go together", hint)


def with_folder_trust(call: Context, act: Callable[[], T]) -> T:
    """Call `act` and return its result. If the folder must be trusted first and there is a terminal, ask the person
    once; after a yes, trust the folder and call `act` again."""
    try:
        return act()
    except UntrustedError as error:
        if not is_interactive(sys.stdin, sys.stderr):
            raise
        from beam import trusting
        from beam.cli.render.text import confirm

        looked = call.beam.look_at_folder()
        allowed = "".join(f"  {line}\n" for line in trusting.allowed(looked))
        if not confirm(f"beam: {error.message}\n{allowed}Trust {call.beam.home.project} with all of this?"):
            raise
        call.beam.trust(looked)
        return act()
