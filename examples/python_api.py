"""The same verbs from Python. Usage: python_api.py TEXT AGENT [AGENT…]"""

from __future__ import annotations

import asyncio
import sys

from beam import Beam, BeamError, events


def one_after_the_other(text: str, agents: list[str]) -> None:
    """Blocking. A failed turn is an outcome; an exception says that beam could not take the message."""
    beam = Beam()
    for agent in agents:
        try:
            outcome = beam.send(agent, text)
        except BeamError as error:
            print(f"{agent}: {error} [exit code {int(error.exit_code)}]")
            continue
        print(f"{agent}: {outcome.status}: {outcome.reply or outcome.reason}")


async def all_at_once(text: str, agents: list[str]) -> None:
    """In an event loop, each verb has an `.aio`."""
    beam = Beam()
    outcomes = await asyncio.gather(*(beam.send.aio(agent, text) for agent in agents))
    print("at once:", ", ".join(f"{outcome.agent} turn {outcome.turn}" for outcome in outcomes))
    for agent in agents:
        tools = [event.name for event in beam.events(agent) if isinstance(event, events.ToolCalled)]
        print(f"{agent} called: {', '.join(tools) or 'nothing'}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python_api.py TEXT AGENT...")
    one_after_the_other(sys.argv[1], sys.argv[2:])
    known = {line.agent for line in Beam().agents()}
    asyncio.run(all_at_once(sys.argv[1], [agent for agent in sys.argv[2:] if agent in known]))
