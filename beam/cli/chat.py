"""`beam chat`: a person talks with one agent at a terminal, or watches several agents talk and joins them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from beam import Options, UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.send import default_agent, with_folder_trust
from beam.cli.streams import is_terminal

if TYPE_CHECKING:
    from beam import LiveChat

app = App()
_FOR_SEVERAL = "With several agents: "


@app.verb()
def chat(
    call: Context,
    agent: list[str] | None = argument(
        None,
        metavar="[AGENT]...",
        help="The agent to talk with; several talk with each other. Default: the `agent` of `defaults:` in beam.yaml.",
    ),
    topic: str | None = option(None, "--topic", metavar="TEXT", help=f"{_FOR_SEVERAL}what they talk about."),
    model: str | None = option(None, "-m", "--model", metavar="NAME", help="The model for all turns."),
    access: str | None = option(None, "--access", metavar="WORD", help="read, edit, full or ask."),
    allow: list[str] = option([], "--allow", metavar="RULE", help="Let this through, as in 'Bash(git log *)'."),
    ask: list[str] = option([], "--ask", metavar="RULE", help="Ask a person about this."),
    deny: list[str] = option([], "--deny", metavar="RULE", help="Deny this, whatever else allows it."),
    via: str | None = option(
        None,
        "--via",
        metavar="MODE",
        help="exec, dialogue or terminal; default: the agent's own protocol if it has one.",
    ),
    new: bool = option(False, "--new", help="With one agent: begin a new session."),
    timeout: str | None = option(None, "--timeout", metavar="D", help="Stop each turn after this long (90s, 30m)."),
    turns: int | None = option(
        None, "--turns", metavar="N", min=1, help=f"{_FOR_SEVERAL}end after N turns; default 20."
    ),
    until: str | None = option(None, "--until", metavar="TEXT", help=f"{_FOR_SEVERAL}end once one of them says this."),
    budget: float | None = option(None, "--budget", metavar="USD", min=0, help=f"{_FOR_SEVERAL}end at this cost."),
    max_tokens: int | None = option(
        None, "--max-tokens", metavar="N", min=1, help=f"{_FOR_SEVERAL}end at this many tokens."
    ),
    time: str | None = option(
        None, "--time", metavar="D", help=f"{_FOR_SEVERAL}end after the turn in which D is over."
    ),
    moderator: str | None = option(
        None, "--moderator", metavar="AGENT", help=f"{_FOR_SEVERAL}this agent names who speaks next."
    ),
    by_address: bool = option(False, "--by-address", help=f"{_FOR_SEVERAL}who speaks names the next one: @NAME."),
    name: str | None = option(
        None, "--name", metavar="NAME", help=f"{_FOR_SEVERAL}they speak in sessions AGENT@NAME; default: chat."
    ),
) -> int:
    """Talk with an agent, or have several talk with each other.

    With one agent you type its messages; its process stays until you leave. With several and --topic they talk in
    turns, in new sessions of their own, until a limit; you see it, and can step in as anyone. What you type while a
    turn runs goes into that turn if its agent accepts this; otherwise it is the next message. /help lists the other
    commands.
    """
    import asyncio

    from beam import durations
    from beam.cli import prompt

    given = {
        "topic": topic, "turns": turns, "until": until, "budget": budget, "max-tokens": max_tokens, "time": time,
        "moderator": moderator, "by-address": by_address or None, "name": name,
    }  # fmt: skip
    beam = call.beam
    beam.check_person("chats")
    agent = agent or [default_agent(call, "chat", [])]
    is_watched = _is_watched()
    options = Options(
        access=prompt.parse_word("--access", access, prompt.ACCESSES),
        model=model,
        via=prompt.parse_word("--via", via, prompt.MODES),
        timeout=durations.parse(timeout) if timeout is not None else None,
        rules=prompt.rule_lists(allow=allow, ask=ask, deny=deny),
    )
    if len(agent) == 1:
        alone = next((each for each, value in given.items() if value is not None), None)
        if alone is not None:
            raise UsageError(f"--{alone} is for several agents", f"beam chat {agent[0]} ANOTHER --topic TEXT")
        if not is_watched:
            raise UsageError("beam chat needs a terminal", f"in a script: beam send {agent[0]} TEXT")
        options = _options_for(call, agent[0], options, is_watched=True)
        with_folder_trust(call, lambda: beam.message(agent[0], "?", options=options))
        from beam.cli.chatting.alone import AloneChat

        async def talk() -> None:
            await AloneChat(call, agent[0], options, new=new).run()

        asyncio.run(talk())
        return 0
    if new:
        raise UsageError("--new is for one agent", "several always begin new sessions")
    if topic is None:
        raise UsageError("several agents need something to talk about", f"beam chat {' '.join(agent)} --topic TEXT")
    live = beam.live_chat(
        agent,
        topic,
        by_address=by_address,
        moderator=moderator,
        phrase=until,
        turns=turns or 20,
        cost_usd=budget,
        tokens=max_tokens,
        time=durations.parse(time) if time is not None else None,
    )
    return _run_together(call, live, name or "chat", options, is_watched=is_watched)


def _run_together(call: Context, live: LiveChat, name: str, options: Options, *, is_watched: bool) -> int:
    import asyncio

    from beam.cli.chatting.together import TogetherChat

    speakers = [*live.agents, *([live.moderator] if live.moderator is not None else [])]
    each = {agent: _options_for(call, agent, options, is_watched=is_watched) for agent in speakers}
    for agent in speakers:
        with_folder_trust(call, lambda agent=agent: call.beam.message(f"{agent}@{name}", "?", options=each[agent]))  # type: ignore[misc]

    async def talk() -> int:
        return await TogetherChat(call, live, name, each, is_watched=is_watched).run()

    return asyncio.run(talk())


def _options_for(call: Context, agent: str, options: Options, *, is_watched: bool) -> Options:
    """Return the options for one agent: `options` with the agent's mode for a chat. If a person watches and gave no
    access, the access is `ask` for an agent that supports it."""
    from msgspec.structs import replace

    via = call.beam.chat_mode(agent, options.via)
    access = options.access
    if access is None and is_watched:
        given = ["model"] if options.model is not None else []
        access = call.beam.default_access(agent, via, given)
    return replace(options, via=via, access=access)


def _is_watched() -> bool:
    """Return whether a person is at a terminal that can show an input line below other text."""
    import os

    return is_terminal(sys.stdin) and is_terminal(sys.stdout) and os.environ.get("TERM", "dumb") != "dumb"
