"""Methods for a program in which a person talks with agents: the mode of their turns, signals, earlier texts, and a
conversation of several agents."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from beam.agents import registry
from beam.api import argument_types
from beam.api.verbs.opened import OpenedRoot
from beam.base.errors import UsageError

if TYPE_CHECKING:
    from signal import Signals

    from beam.conversations.live_chat import LiveChat
    from beam.turns.handle import StopReason

_LONGEST_RECALLED = 20_000  # characters


class ChatVerbs(OpenedRoot):
    """Talk with agents, and have them talk with each other."""

    def chat_mode(self, agent: str, via: str | None = None) -> str | None:
        """Return the mode for an agent's turns in a chat: `via`, else `dialogue` if the agent has that mode, because
        its process can stay between turns and can ask for permission. None leaves the mode to beam."""
        card = registry.adapter(self.context.config.resolve(agent).settings.adapter).card
        if via is not None or "dialogue" not in card.faces or "dialogue" in card.never_auto:
            return via
        return "dialogue"

    @contextlib.contextmanager
    def ending_signals(self, end: Callable[[], None]) -> Iterator[list[Signals]]:
        """Call `end` for each signal INT, TERM or HUP inside the context, during turns and between them. Yield a list
        to which each of these signals is added when it comes. Needs a running event loop."""
        from beam.turns.handle import Stop, stop_on_signals

        class End(Stop):
            def request(self, reason: StopReason, *, by: str | None = None, why: str = "") -> None:
                end()

        with stop_on_signals(End(), by="human (signal)") as came:
            yield came

    def recalled(self, agent: str, limit: int = 200) -> list[str]:
        """Return the last texts that a person sent to the agent, oldest first, each text once."""
        from beam.model import events
        from beam.store.reader import Reader

        texts: dict[str, None] = {}
        for event in Reader(self._existing_paths(agent).journal).poll():
            if not isinstance(event, events.MessageQueued) or event.sender != "human":
                continue
            if 0 < len(event.text) <= _LONGEST_RECALLED:
                texts.pop(event.text, None)
                texts[event.text] = None
        return list(texts)[-limit:]

    def live_chat(
        self,
        agents: Sequence[str],
        topic: str,
        *,
        by_address: bool = False,
        moderator: str | None = None,
        phrase: str | None = None,
        turns: int = 20,
        cost_usd: float | None = None,
        tokens: int | None = None,
        time: float | None = None,
    ) -> LiveChat:
        """Return a conversation of agents about a topic. It ends as soon as `phrase` is said, `turns` turns are taken,
        `cost_usd` or `tokens` are used up, or `time` seconds have passed.

        The caller runs its turns. With `by_address`, each agent names the next speaker (`@NAME`); with a `moderator`,
        that agent names the next speaker; otherwise the agents speak in turn. Raises UsageError, NotFoundError.
        """
        from beam.conversations.live_chat import LiveChat
        from beam.conversations.scenario import Until

        argument_types.check_is_text(topic=topic)
        agents = argument_types.agent_names(agents)
        names = [*agents, *([moderator] if moderator is not None else [])]
        for at, name in enumerate(names):
            if name in names[:at]:
                raise UsageError(f"{name} is named twice", "name each agent once", subject=name)
            if "@" in name:
                raise UsageError(
                    f"{name} names a session; each agent speaks in one of the chat's own", "name the agent alone"
                )
            self.context.config.resolve(name)
        if len(agents) < 2:
            raise UsageError("a conversation needs two agents", "beam chat A B --topic TEXT")
        if by_address and moderator is not None:
            raise UsageError("either a moderator names the next speaker, or the agents do", "leave one out")
        if not topic.strip():
            raise UsageError("the topic is empty", "say what it is about: --topic TEXT")
        until = Until(phrase=phrase, turns=turns, cost_usd=cost_usd, tokens=tokens, time=time)
        return LiveChat(
            agents, topic, order="address" if by_address else "round_robin", moderator=moderator, until=until
        )
