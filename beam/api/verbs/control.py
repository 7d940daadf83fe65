"""Methods that send requests to an agent's holder, about the agent's queue, its running turn, and its asks (permission
requests); and `with Beam() as beam`, which keeps the agents' processes alive between messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from beam.api.methods import waiting_verb
from beam.api.verbs.opened import OpenedRoot
from beam.base.clock import Steps
from beam.base.errors import DiskError, NotFoundError, UsageError
from beam.base.typed_values import replace_surrogates
from beam.model.message import base_of

if TYPE_CHECKING:
    from beam.api.asks import AskLine
    from beam.api.messages import QueueItem
    from beam.store.control import Verb


class ControlVerbs(OpenedRoot):
    """Change waiting messages and running turns, and decide asks."""

    def queue(self, agents: Sequence[str] = ()) -> list[QueueItem]:
        """Return the messages in the queues of these agents (default: of all agents)."""
        from beam.api import messages

        names = self._existing_names(agents) or self.home.agents()
        return list(messages.queue_items(self.context, names))

    @waiting_verb
    def drop(self, message_id: str) -> Steps[str]:
        """Remove a message from its queue; its outcome is `cancelled`. Return what was done, as text."""
        self.check_person("drops messages")
        return (yield from self._request("drop", message_id))

    @waiting_verb
    def drop_dead(self, agents: Sequence[str] = ()) -> Steps[list[str]]:
        """Drop every dead letter of these agents (default: of all agents); return the ids of the dropped messages."""
        self.check_person("drops messages")
        dead = [item.id for item in self.queue(agents) if item.box == "dead"]
        gone = []
        for message_id in dead:
            try:
                yield from self._request("drop", message_id)
            except NotFoundError:
                continue  # somebody else was quicker
            gone.append(message_id)
        return gone

    @waiting_verb
    def retry(self, message_id: str) -> Steps[str]:
        """Retry a dead letter: its message is queued again, as its next attempt. Return what was done, as text."""
        self.check_person("retries messages")
        return (yield from self._request("retry", message_id))

    @waiting_verb
    def edit(self, message_id: str, text: str) -> Steps[str]:
        """Change the text of a waiting message. Return what was done, as text."""
        self.check_person("edits messages")
        from beam.broker.inbox.compose import check_text

        text = replace_surrogates(text)
        check_text(text, self.context.config.limits)
        return (yield from self._request("edit", message_id, text=text))

    @waiting_verb
    def pause(self, agent: str) -> Steps[str]:
        """Stop claiming messages from the agent's queue; a running turn continues. Return what was done, as text."""
        self.check_person("pauses agents")
        from beam.broker.asking.requests import request

        return (yield from request(self.context, self._existing_paths(agent), "pause", by=self.me))

    @waiting_verb
    def resume(self, agent: str) -> Steps[str]:
        """Resume claiming messages from the agent's queue. Return what was done, as text."""
        self.check_person("resumes agents")
        from beam.broker.asking.requests import request

        return (yield from request(self.context, self._existing_paths(agent), "resume", by=self.me))

    @waiting_verb
    def interrupt(self, message_id: str) -> Steps[str]:
        """Interrupt the turn of this message if the turn runs, or withdraw the message if it waits. Other messages are
        not affected. Return what was done, as text."""
        if self.turn is not None:
            return (yield from self.turn.interrupt(self._whole_id(message_id), self._clock))
        return (yield from self._request("interrupt", message_id))

    @waiting_verb
    def steer(self, agent: str, text: str) -> Steps[str]:
        """Pass a text to the agent's running turn and wait until the agent has read it. Return what was done, as text.

        Raises NotFoundError if no turn runs, UnsupportedError if the turn takes no text, UnfinishedError if the turn
        was over before the agent read it.
        """
        self.check_person("tells a running turn something")
        from beam.api import live
        from beam.broker.inbox.compose import check_text

        text = replace_surrogates(text)
        check_text(text, self.context.config.limits)
        return (yield from live.steer(self.context, self._existing_paths(agent), text, by=self.me))

    def asks(self, agents: Sequence[str] = ()) -> list[AskLine]:
        """Return the open asks of these agents (default: of all agents), oldest first."""
        from beam.api import asks

        return asks.open_asks(self.context, self._existing_names(agents) or None)

    @waiting_verb
    def approve(
        self, ask_id: str, *, always: bool = False, input: object = None, rule: str | None = None
    ) -> Steps[str]:
        """Allow the requested call; with `always` also similar calls from now on, if the agent offers that.

        `input` replaces the requested input: an object, or its JSON text. `rule` is added to the agent's own settings
        as an allow rule, which counts from the agent's next turn on.

        Return what was done, as text. Raises NotFoundError if the ask is no longer open, UnsupportedError if the agent
        does not offer this answer, and UsageError inside an agent's turn, because agents may not widen each other's
        rights.
        """
        from beam.api import asks, rules

        if self.is_agent:
            raise UsageError(
                f"{self.me} is an agent, and can't approve another agent's request",
                "a person can: beam asks",
                subject=ask_id,
            )
        if input is not None and always:
            raise UsageError("a changed input is allowed once, and never always", "leave one of the two out")
        agent = base_of(asks.find_ask(self.context, ask_id)[0].agent) if rule is not None else ""
        if rule is not None:
            rules.check_allow(self.context, agent, rule)
        text = None if input is None else input if isinstance(input, str) else msgspec.json.encode(input).decode()
        verb: Literal["approve", "amend"] = "approve" if text is None else "amend"
        answer = yield from asks.decide(self.context, ask_id, verb, by=self.me, message=text, always=always)
        if rule is not None:
            rules.add(self.context, agent, "allow", rule, by=self.me)
            answer += f"; from its next turn on {agent} is allowed {rule}"
        return answer

    @waiting_verb
    def deny(self, ask_id: str, *, message: str | None = None, stop: bool = False) -> Steps[str]:
        """Deny the requested call and return what was done, as text. `message` is a text for the agent; `stop` ends the
        agent's turn."""
        from beam.api import asks

        if self.turn is not None:
            whole = asks.find_ask(self.context, ask_id)[1]
            return (yield from self.turn.deny(whole, self._clock, message=message, stop=stop))
        return (yield from asks.decide(self.context, ask_id, "deny", by=self.me, message=message, stop=stop))

    def _whole_id(self, message_id: str) -> str:
        """Return the whole id of a message if this process may read the root; otherwise return the given text."""
        try:
            return self._find(message_id)[1]
        except DiskError:
            return message_id

    def _request(self, verb: Verb, message_id: str, text: str | None = None) -> Steps[str]:
        from beam.broker.asking.requests import request

        paths, whole = self._find(message_id)
        return (yield from request(self.context, paths, verb, whole, by=self.me, text=text))


class KeepVerbs(OpenedRoot):
    """Keep processes between messages."""

    def __enter__(self) -> Self:
        """Keep the process of each agent that gets a message in this block, in dialogue and terminal mode, until the
        block ends.

        Inside an agent's turn nothing is kept.
        """
        if self._keeping is not None:
            raise UsageError("this Beam keeps its agents' processes already", "use it in one `with` at a time")
        if not self.is_agent:
            from beam.api.keeping import AgentKeeper

            self._keeping = AgentKeeper(self.context)
        return self

    def __exit__(self, *_: object) -> None:
        """End the kept processes."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.close()

    async def __aenter__(self) -> Self:
        """Keep processes as `__enter__` does, from an event loop."""
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        """End the kept processes without blocking the event loop."""
        import asyncio

        await asyncio.to_thread(self.__exit__)
