"""The player: chooses the answer to each request to one scripted model.

The player remembers which rules are used up. It recognises the results of its own tool calls by their ids, so that
parallel conversations do not mix. Does not depend on any wire format, sockets or clocks.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from beam.proxy.wire.values import Answer, Call, ModelRequest, Reply
from beam.testing.fake_model import directives
from beam.testing.fake_model.script import ECHO, RESULT, Script, as_answer, expand


class Player:
    """Plays one script; safe to ask from several threads. `new_id` returns a fresh id each time."""

    def __init__(self, script: Script, *, new_id: Callable[[], str]) -> None:
        self._script = script
        self._new_id = new_id
        self._lock = threading.Lock()
        self._used = [0] * len(script.rules)
        self._asked: Counter[tuple[str, int]] = Counter()
        self._follow_ups: dict[str, Answer] = {}

    def reply(self, asked: ModelRequest) -> Reply:
        """Return the reply to this request. If a rule with `times` gives the answer, one of its uses is counted."""
        with self._lock:
            answer = self._answer(asked)
            calls = tuple(Call(id=self._new_id(), name=tool.name, input=tool.input) for tool in answer.tools)
            for call in calls:
                self._follow_ups[call.id] = as_answer(RESULT if answer.then is None else answer.then)
            message_id = self._new_id()
        text = answer.text
        if text is None:
            text = "" if answer.tools or answer.stop == "refusal" else ECHO
        return Reply(
            text=expand(text, asked),
            thinking=expand(answer.thinking or "", asked),
            calls=calls,
            answer=answer,
            id=message_id,
        )

    def _answer(self, asked: ModelRequest) -> Answer:
        if asked.call_ids:
            followers = [self._follow_ups[call_id] for call_id in asked.call_ids if call_id in self._follow_ups]
            return followers[0] if followers else Answer(text=RESULT)
        for index, rule in enumerate(self._script.rules):
            if (rule.times is None or self._used[index] < rule.times) and rule.fits(asked):
                self._used[index] += 1
                return rule
        if not self._script.directives:
            return Answer()
        key = (asked.prompt, asked.turns)
        self._asked[key] += 1
        return directives.answer(asked, before=self._asked[key] - 1)
