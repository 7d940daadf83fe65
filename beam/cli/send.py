"""`beam send`: makes a message of the arguments, sends it, and prints its outcome on stdout and stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from beam import Message, Options, Outcome, SignalledError, UnsupportedError, UntrustedError, UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.streams import is_interactive

T = TypeVar("T")

app = App()


@app.verb()
def send(
    call: Context,
    agent: str = argument(
        ..., metavar="AGENT", help="The receiver: a declared agent, or the name of an adapter; several: A,B,C."
    ),
    text: list[str] | None = argument(None, metavar="[TEXT]...", help="The prompt; `-` stands for stdin."),
    file: list[str] = option([], "-f", "--file", metavar="FILE", help="Append this file's text to the prompt."),
    attach: list[str] = option([], "--attach", metavar="PATH", help="Attach this file."),
    model: str | None = option(None, "-m", "--model", metavar="NAME", help="The model for this turn."),
    access: str | None = option(None, "--access", metavar="WORD", help="read, edit, full or ask."),
    allow: list[str] = option([], "--allow", metavar="RULE", help="Let this through, as in 'Bash(git log *)'."),
    ask: list[str] = option([], "--ask", metavar="RULE", help="Ask a person about this."),
    deny: list[str] = option([], "--deny", metavar="RULE", help="Deny this, whatever else allows it."),
    schema: str | None = option(None, "--schema", metavar="FILE", help="A JSON Schema that the answer must follow."),
    via: str | None = option(
        None,
        "--via",
        metavar="MODE",
        help="How to run the agent: exec (headless), dialogue (its own protocol) or terminal (its TUI); default: auto.",
    ),
    require: str | None = option(
        None,
        "--require",
        metavar="WORD",
        help="`structured`: fail if the turn's end is only visible on a screen. `whole`: fail if nobody would know "
        "that the answer was cut off; the turn's model calls go through a proxy if that is needed.",
    ),
    tolerate: str | None = option(
        None, "--tolerate", metavar="WORD", help="`denied`: exit with 0 even if a request was denied."
    ),
    new: bool = option(False, "--new", help="Start a new session; the agent's current one is archived."),
    once: bool = option(False, "--once", help="Run in a temporary session, in parallel to the agent's queue."),
    session: str | None = option(
        None, "--session", metavar="NAME", help="The same as AGENT@NAME: a session beside the agent's own."
    ),
    context_from: str | None = option(
        None, "--context-from", metavar="AGENT", help="Quote that agent's history below the prompt."
    ),
    context: str | None = option(
        None, "--context", metavar="WORD", help="With --context-from: recent (default), full or summary."
    ),
    key: str | None = option(
        None, "--key", metavar="K", help="Idempotency key: sending again with the same key returns the first outcome."
    ),
    sender: str | None = option(
        None, "--from", metavar="NAME", help="Send in the name of another agent; the journal records who did."
    ),
    judge: str | None = option(
        None, "--judge", metavar="AGENT", help="With several receivers: the agent that compares their answers."
    ),
    rubric: str | None = option(None, "--rubric", metavar="TEXT", help="What --judge scores the answers by."),
    no_wait: bool = option(False, "--no-wait", help="Print the message's id and return."),
    slash: bool = option(False, "--slash", help="TEXT is a slash command of the agent's CLI, such as /compact."),
    steer: bool = option(
        False, "--steer", help="Give the text to the turn that runs; exit 0 once the agent has read it."
    ),
    replies: int | None = option(
        None, "--replies", metavar="N", min=0, help="How many answers to pass between the two agents; default 1."
    ),
    timeout: str | None = option(None, "--timeout", metavar="D", help="Stop the turn after this long (90s, 30m)."),
    deadline: str | None = option(
        None, "--deadline", metavar="D", help="Give up if the turn has not begun within this time."
    ),
    no_circuit: bool = option(
        False, "--no-circuit", help="Send also to an agent that failed so often that beam pauses it."
    ),
    keep: str | None = option(
        None, "--keep", metavar="D", help="Keep the agent's process for the next message, for at most this long."
    ),
    max_turns: int | None = option(None, "--max-turns", metavar="N", min=1, help="Limit the agent's model calls."),
    budget: float | None = option(
        None, "--budget", "--budget-usd", metavar="USD", min=0, help="Limit the turn's cost."
    ),
    max_tokens: int | None = option(
        None, "--max-tokens", metavar="N", min=1, help="Limit the tokens of the turn's model calls."
    ),
    record_model: str | None = option(
        None, "--record-model", metavar="DIR", help="Record the turn's model calls into this folder."
    ),
    replay_model: str | None = option(
        None, "--replay-model", metavar="DIR", help="Answer the turn's model calls from this folder; ask no model."
    ),
    fill: bool = option(False, "--fill", help="With --replay-model: let the model answer what was not recorded."),
    exact_at_least: int | None = option(
        None, "--exact-at-least", metavar="N", min=0, help="Fail if fewer model calls were replayed exactly."
    ),
    upstream: str | None = option(
        None, "--upstream", metavar="URL", help="Where the model's API is, if the agent's settings don't say it."
    ),
    shield: bool = option(False, "--shield", help="Keep the API key from the agent: it gets a dummy for this turn."),
    key_fd: int | None = option(
        None, "--key-fd", metavar="N", min=3, help="With --shield: read the API key from this descriptor."
    ),
    secret: str | None = option(
        None, "--secret", metavar="NAME", help="With --shield: take the API key of this name from the keyring."
    ),
    record: str | None = option(None, "--record", metavar="DIR", help="Add the turn to this folder of recorded turns."),
    replay: str | None = option(
        None, "--replay", metavar="DIR", help="Answer from these recorded turns: no agent runs, and no tool."
    ),
    replay_mode: str | None = option(
        None,
        "--replay-mode",
        metavar="WORD",
        help="strict, lenient or fill: what answers a prompt that is not recorded.",
    ),
    as_json: bool = option(False, "--json", help="Print the outcome as one JSON object."),
    as_events: bool = option(False, "--events", help="Print events as JSON Lines, ending with turn.finished."),
) -> int:
    """Send a message to an agent and print its answer.

    The prompt is TEXT, then each -f FILE, then what is piped in, separated by blank lines. The exit code is that of
    the outcome: docs/exit-codes.md. Several agents (A,B,C) answer at the same time; their answers are
    printed in the order of their names, and the exit code is that of the first without success.
    """
    given = dict(locals())
    from beam import durations
    from beam.cli import prompt
    from beam.cli.model_calls import send_settings

    if as_json and as_events:
        raise UsageError("--json and --events don't go together", "use --events alone: its last line is the outcome")
    if no_wait and as_events:
        raise UsageError("--no-wait and --events don't go together", "beam wait ID --events")
    names = [_receiver_name(name, session, has_text=bool(text)) for name in agent.split(",")]
    is_several = "," in agent
    if (judge is not None or rubric is not None) and not is_several:
        raise UsageError("--judge compares the answers of several agents", "beam send A,B TEXT --judge C")
    if rubric is not None and judge is None:
        raise UsageError("--rubric is for --judge AGENT", "add it, or leave --rubric out")
    prompt_text = prompt.read(text or [], file, call, schema)
    beam = call.beam
    if context_from is not None or context is not None:
        prompt_text = prompt.with_history(beam, prompt_text, context_from, context, is_alone=slash or key is not None)
    if steer:
        _check_steer_options(given)
        if is_several:
            raise UsageError("--steer is for one agent", "steer them one after the other")
        call.note(beam.steer(names[0], prompt_text))
        return 0
    if record is not None or replay is not None or replay_mode is not None:
        _use_recording(call, record, replay, replay_mode, no_wait=no_wait)
    asked = prompt.parse_access(access)
    is_asked = asked is None and not no_wait and key is None and is_interactive(sys.stdin, sys.stderr)
    given_options = {
        "attach": bool(attach),
        "budget": budget is not None,
        "max_turns": max_turns is not None,
        "model": model is not None,
        "schema": schema is not None,
    }
    options = Options(
        access=asked,
        model=model,
        new=new,
        once=once,
        schema=prompt.read_schema(schema, call),
        via=prompt.parse_mode(via),
        timeout=durations.parse(timeout) if timeout is not None else None,
        max_turns=max_turns,
        budget_usd=budget,
        require=prompt.parse_require(require),
        tolerate=prompt.parse_tolerate(tolerate),
        no_circuit=True if no_circuit else UNSET,
        keep=durations.parse(keep) if keep is not None else UNSET,
        rules=prompt.rule_lists(allow=allow, ask=ask, deny=deny),
        max_tokens=UNSET if max_tokens is None else max_tokens,
        model_calls=send_settings(
            call,
            record=record_model,
            replay=replay_model,
            fill=fill,
            exact_at_least=exact_at_least,
            upstream=upstream,
            shield=shield,
            key_fd=key_fd,
            secret=secret,
        ),
        slash=prompt.check_slash(prompt_text) if slash else UNSET,
    )

    def compose(name: str) -> Message:
        default = [option for option, is_given in given_options.items() if is_given]
        access = beam.default_access(name, via, default) if is_asked else asked
        return beam.message(
            name,
            prompt_text,
            wait=not no_wait,
            sender=sender,
            attach=[call.path(path) for path in attach],
            options=replace(options, access=access),
            key=key,
            deadline=durations.parse(deadline) if deadline is not None else None,
            replies=replies,
        )

    if is_several:
        from beam.cli import several

        several.check_options(names, as_events=as_events, key_fd=key_fd, no_wait=no_wait, judge=judge)
        messages = [with_folder_trust(call, lambda name=name: compose(name)) for name in names]  # type: ignore[misc]
        return several.send(call, messages, judge=judge, rubric=rubric, no_wait=no_wait, as_json=as_json)
    message = with_folder_trust(call, lambda: compose(names[0]))
    if key_fd is not None:
        if no_wait:
            raise UsageError("--key-fd and --no-wait don't go together", "the descriptor ends with this process")
        beam.lend_key(message, key_fd)
    if call.verbose and not beam.is_agent:
        call.detail(f"{names[0]} works in {beam.folder(names[0])}")
    for note in beam.notes(message, waits=not no_wait):
        call.note(note)
    if no_wait:
        from beam.cli.sent import put_and_print_id

        put_and_print_id(call, message, as_json=as_json)
        return 0
    from beam.cli.printer import Printer

    printer = Printer(as_json=as_json, as_events=as_events, call=call)
    try:
        with printer.waiting(message.id, beam.progress(message)):
            outcome = beam.deliver(message, printer.event)
    except SignalledError as error:
        if isinstance(error.outcome, Outcome):
            printer.outcome(error.outcome)
        raise
    return printer.outcome(outcome)


def _receiver_name(agent: str, session: str | None, *, has_text: bool) -> str:
    """Return the name of the agent or session that gets the message. Raises UsageError or UnsupportedError if `agent`
    can't get one."""
    if session is not None:
        if "@" in agent:
            raise UsageError(f"{agent} names a session already", "leave --session out", subject=agent)
        agent = f"{agent}@{session}"
    if "~" in agent:
        cli, _, session_id = agent.partition("~")
        raise UnsupportedError(
            f"{agent} is a session that beam did not start, and its program takes messages from its person alone",
            f"type there; a member of a Claude team has an inbox (beam team send); once it has ended, "
            f"beam agent add NAME --session {cli}:{session_id} continues in it",
            subject=agent,
        )
    if " " in agent.strip() and not has_text:
        import shlex

        raise UsageError(
            f"{agent!r} is not an agent's name", f"the agent comes first: beam send AGENT {shlex.quote(agent)}"
        )
    return agent


def _use_recording(call: Context, record: str | None, replay: str | None, mode: str | None, *, no_wait: bool) -> None:
    from beam import recordings_of_turns

    if no_wait:
        raise UsageError("--no-wait and a recording don't go together", "nobody would be there to record or answer")
    if mode is not None and replay is None:
        raise UsageError("--replay-mode is for --replay DIR", "add it, or leave --replay-mode out")
    call.beam.use_recording(
        record=call.path(record) if record is not None else None,
        replay=call.path(replay) if replay is not None else None,
        replay_mode=recordings_of_turns.mode_of(mode),
    )


def _check_steer_options(given: Mapping[str, object]) -> None:
    """Raise UsageError for an option that does not go with --steer, which sends no message of its own."""
    beside = {"call", "agent", "text", "file", "session", "steer"}
    for name, value in given.items():
        if name not in beside and value not in (None, False, [], ()):
            raise UsageError(
                f"--steer and --{name.removeprefix('as_').replace('_', '-')} don't go together",
                "a text for the running turn is no message of its own",
            )


def with_folder_trust(call: Context, act: Callable[[], T]) -> T:
    """Call `act` and return its result. If the folder must be trusted first and there is a terminal, ask the person
    once; after a yes, trust the folder and call `act` again."""
    try:
        return act()
    except UntrustedError as error:
        if not is_interactive(sys.stdin, sys.stderr):
            raise
        from beam import trusting
        from beam.cli.render.text import escape_controls, write

        looked = call.beam.look_at_folder()
        allowed = "".join(f"  {line}\n" for line in trusting.allowed(looked))
        question = f"Trust {call.beam.home.project} with all of this? [y/N] "
        write(sys.stderr, escape_controls(f"beam: {error.message}\n{allowed}{question}"))
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise
        call.beam.trust(looked)
        return act()
