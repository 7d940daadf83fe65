"""What holds after the storm: by all events that ever were, what the agents wrote down, and what people were told."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from beam.api.doctor import find_damage
from beam.broker.inbox.closing import GIVEN_UP_STATUSES
from tests.support.crash import OUTCOMES
from tests.support.storm.archive import Archive, events_of
from tests.support.storm.people import Said
from tests.support.storm.place import BOX, TERMINALS, TOKEN, Place

Event = dict[str, Any]


@dataclass
class Attempt:
    """One attempt of a message: the texts with which its prompt left, and how it ended. What went back did not run."""

    sent: list[str] = field(default_factory=list)
    outcomes: list[Event] = field(default_factory=list)
    lease_over: bool = False


@dataclass
class Told:
    """All that the journals say of one message."""

    agent: str
    events: list[Event] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # of each revision, its token
    attempts: dict[int, Attempt] = field(default_factory=dict)

    def attempt(self, number: int) -> Attempt:
        return self.attempts.setdefault(number, Attempt())

    @property
    def last(self) -> Attempt:
        return self.attempts[max(self.attempts)]


class Claims:
    """Collects what does not hold, a line each, so that one storm tells all that it found."""

    def __init__(self, place: Place, archive: Archive, said: Said) -> None:
        self.place = place
        self.said = said
        self.wrong: list[str] = list(said.wrong)
        self.told: dict[str, Told] = {}
        self.asks: Counter[str] = Counter()
        for journal in archive.journals():
            self.wrong += find_damage(journal)
            events = events_of(journal)
            self._check_order(str(journal), events)
            for event in events:
                self._hear(journal.relative_to(archive.kept).parts[0], event)
        self.runs = Counter(tuple(line.split(" ", 1)) for line in place.runs.read_text().splitlines())

    def _check_order(self, journal: str, events: list[Event]) -> None:
        """Numbers without gaps, time that goes on, one turn after the other, and no claim while the queue is paused."""
        if [event["seq"] for event in events] != list(range(1, len(events) + 1)):
            self.wrong.append(f"{journal}: the numbers of its events have gaps or repeats")
        times = [event["ts"] for event in events]
        if times != sorted(times):
            self.wrong.append(f"{journal}: its time goes back")
        open_turn, is_paused = None, False
        for event in events:
            kind, message_id = event["type"], event.get("message_id")
            if kind in ("queue.paused", "queue.resumed"):
                is_paused = kind == "queue.paused"
            elif kind == "message.claimed" and is_paused:
                self.wrong.append(f"{journal}: event {event['seq']} claims while the queue is paused")
            elif kind == "turn.started":
                if open_turn is not None:
                    self.wrong.append(
                        f"{journal}: event {event['seq']} begins a turn while that of {open_turn} is open"
                    )
                open_turn = message_id
            elif kind in ("turn.closed", "message.requeued", "message.dead") and message_id == open_turn:
                open_turn = None
        if open_turn is not None:
            self.wrong.append(f"{journal}: the turn of {open_turn} is open in the end")

    def _hear(self, agent: str, event: Event) -> None:
        message_id = event.get("message_id")
        if message_id is None or event.get("reason") == "id_reused":
            return
        if event["type"] == "control.done":  # it may speak of a message that never was here
            return
        told = self.told.setdefault(message_id, Told(agent))
        told.events.append(event)
        if event["type"] == "message.queued":
            found = TOKEN.search(event["text"])
            told.texts.append(found[1] if found else event["text"])
        if event["type"] == "prompt.sent":
            told.attempt(max([*told.attempts, 1])).sent.append(told.texts[-1])
        if event["type"] in ("message.claimed", "turn.started"):
            told.attempt(event["attempt"])
        if event["type"] == "message.requeued":
            self._went_back(told, event)
        if event["type"] in OUTCOMES:
            told.attempt(event["attempt"]).outcomes.append(event)

    @staticmethod
    def _went_back(told: Told, event: Event) -> None:
        if event["reason"] in ("holder_died", "shortage"):
            told.attempt(event["attempt"]).sent.clear()
        elif event["reason"] == "lease_over":
            told.attempt(event["attempt"] - 1).lease_over = True
        told.attempt(event["attempt"])

    # -- the claims ----------------------------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """All that does not hold."""
        self._nothing_twice()
        for message_id, told in self.told.items():
            for wrong in self._of_one(message_id, told):
                self.wrong.append(f"{message_id}: {wrong}: {_short(told.events)}")
        self._people_were_told_the_truth()
        self._nothing_is_left()
        return self.wrong

    def _nothing_twice(self) -> None:
        """Each text acted at most once an attempt that was sent, and a second attempt only comes after an outcome."""
        most: Counter[tuple[str, ...]] = Counter()
        least: Counter[tuple[str, ...]] = Counter()
        for message_id, told in self.told.items():
            for attempt in told.attempts.values():
                for token in attempt.sent:
                    most[self._key(message_id, told.agent, token)] += 1
                if attempt.sent and any(event["status"] == "completed" for event in attempt.outcomes):
                    least[self._key(message_id, told.agent, attempt.sent[-1])] += 1
        silent = {key for key in least if key[0].startswith(f"{BOX}-")} | self._replies()
        for key in most | self.runs:
            if not (0 if key in silent else least[key]) <= self.runs[key] <= most[key]:
                self.wrong.append(f"{key} acted {self.runs[key]} times, and {least[key]} to {most[key]} were said")

    @staticmethod
    def _key(message_id: str, agent: str, token: str) -> tuple[str, ...]:
        return ("-" if agent in TERMINALS else message_id, "-" if agent == "deaf" else token)

    def _replies(self) -> set[tuple[str, ...]]:
        """What chatty is told in return: it says nothing to that."""
        return {
            (message_id, token)
            for message_id, told in self.told.items()
            if any(event.get("kind") == "reply" for event in told.events)
            for token in told.texts
        }

    def _of_one(self, message_id: str, told: Told) -> list[str]:
        found: list[str] = []
        if not told.attempts:
            return ["nothing became of it"]
        if sorted(told.attempts) != list(range(1, max(told.attempts) + 1)):
            found.append(f"its attempts are {sorted(told.attempts)}")
        for number, attempt in told.attempts.items():
            finished = [event for event in attempt.outcomes if event["type"] == "turn.finished"]
            dead = [event for event in attempt.outcomes if event["type"] == "message.dead"]
            if len(finished) > 1 or len(dead) > 1 or len({event["status"] for event in attempt.outcomes}) > 1:
                found.append(f"attempt {number} has several outcomes")
            if not attempt.outcomes and not attempt.lease_over:
                found.append(f"attempt {number} has no outcome")
            if attempt.lease_over and attempt.outcomes:
                found.append(f"attempt {number} was offered again after its outcome")
            if len(attempt.sent) > 1:
                found.append(f"attempt {number} was sent {len(attempt.sent)} times")
            if any(event["status"] in ("completed", "unknown") for event in finished) and not attempt.sent:
                found.append(f"attempt {number} was not sent")
        if told.last.outcomes:
            status = told.last.outcomes[-1]["status"]
            is_there = self._dead()[message_id]
            wanted = status in GIVEN_UP_STATUSES
            if is_there > wanted or (is_there < wanted and message_id not in self.said.dropped):
                found.append(f"{is_there} dead letters, and it ended {status}")
        return found

    def _dead(self) -> Counter[str]:
        if not hasattr(self, "_dead_letters"):
            self._dead_letters = Counter(one for box in self.place.boxes() for one in box.ids("dead"))
        return self._dead_letters

    def _people_were_told_the_truth(self) -> None:
        for message_id, agent in self.said.accepted.items():
            if message_id not in self.told:
                self.wrong.append(f"{message_id} to {agent} was accepted and is lost")
        for outcome in self.said.outcomes:
            told = self.told.get(outcome["message_id"])
            known = told.attempts.get(outcome["attempt"]) if told is not None else None
            if known is None or outcome["status"] not in [event["status"] for event in known.outcomes]:
                self.wrong.append(f"somebody was told {outcome}, and the journal says {known}")
        for message_id, token in self.said.edited:
            if token not in self.told[message_id].texts:
                self.wrong.append(f"{message_id}: the edit to {token} was accepted and is lost")
        for message_id, number in self.said.retried:
            if number not in self.told[message_id].attempts:
                self.wrong.append(f"{message_id}: attempt {number} was promised and is lost")
        for message_id, told in self.told.items():
            for event in told.events:
                if event["type"] == "turn.closed" and event["reply"] == "queued" and event["reply_id"] not in self.told:
                    self.wrong.append(f"{message_id}: its reply {event['reply_id']} was queued and is lost")
        for (agent, key), ids in self.said.keys.items():
            if len(ids) > 1:
                self.wrong.append(f"key {key} of {agent} is {len(ids)} messages: {ids}")
        for message_id, answer in self.said.answered:
            attempts = self.told[message_id].attempts.values()  # a later one, where two had taken it in turn
            said = [event.get("reply") or event.get("reason") for each in attempts for event in each.outcomes]
            if answer not in said:
                self.wrong.append(f"{message_id}: the answer {answer!r} was accepted, and the journal says {said}")
        for line in self.place.asked.read_text().splitlines():
            token, _, answer = line.partition(" ")
            accepted = json.loads(answer).get("accepted")
            if accepted is not None and accepted not in self.told:
                self.wrong.append(f"{accepted}, which chatty sent in {token}, is lost")
        asked = Counter(
            told.texts[0]
            for told in self.told.values()
            if told.texts and told.texts[0].endswith(".a") and told.agent == "plain"
        )
        self.wrong += [
            f"chatty asked {token} {count} times" for token, count in asked.items() if count > self.runs_of(token[:-2])
        ]

    def statuses(self) -> Counter[str]:
        """How often each outcome was said."""
        return Counter(
            attempt.outcomes[0]["status"]
            for told in self.told.values()
            for attempt in told.attempts.values()
            if attempt.outcomes
        )

    def runs_of(self, token: str) -> int:
        """How often any agent acted on the text."""
        return sum(count for (_, its), count in self.runs.items() if its == token)

    def _nothing_is_left(self) -> None:
        root = self.place.beam.root
        self.wrong += [f"{path} is left" for path in self.place.open()]
        left = ("*.tmp", "*.unstarted", "terminal.sock", "asks/*", "lanes/*", "queue/tmp/*", "control/tmp/*")
        for pattern in left:
            self.wrong += [f"{path} is left" for path in root.rglob(pattern)]
        turns = root.with_name(f"{root.name}.turns")
        self.wrong += [f"{path} is left" for path in turns.rglob("*") if not path.is_dir()]
        self.wrong += [f"{path} is left" for path in self.place.beam.base.glob("beam-bug-*")]
        for log in (root / "broker.log", root / "broker.log.1", *root.rglob("worker.log")):
            if log.exists() and "Traceback" in (text := log.read_text()):
                self.wrong.append(f"{log}: {text[text.index('Traceback') :][:3000]}")
        for line in self.place.beam("status", "--json").lines:
            if line["state"] != "idle":
                self.wrong.append(f"in the end: {line}")


def _short(events: list[Event]) -> str:
    """The events of a message in one line."""
    keys = ("attempt", "status", "reason", "revision", "text", "kind", "file")
    return " · ".join(
        " ".join(
            [str(event["seq"]), event["type"], *(f"{key}={str(event[key])[:60]}" for key in keys if event.get(key))]
        )
        for event in events
        if event["type"] not in ("text", "text.delta", "tool.called", "tool.returned", "usage")
    )
