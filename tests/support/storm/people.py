"""People, scripts and takers of mailboxes in the storm: threads that run one `beam` after the other, from a seed."""

from __future__ import annotations

import itertools
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from beam.base.faults import CRASH_POINTS
from tests.support.cli import Ended
from tests.support.storm.archive import OLD_S
from tests.support.storm.place import AGENTS, BOX, LANES, TERMINALS, Place, names

WAITERS = 6  # senders that wait at once
SLOW_S = 90.0  # so long a command may take, on a busy machine and stopped in between


@dataclass
class Said:
    """What beam told the people: what the journals have to agree with."""

    accepted: dict[str, str] = field(default_factory=dict)  # id of a message to its agent
    outcomes: list[dict[str, Any]] = field(default_factory=list)  # as `send --json` and `wait --json` print them
    keys: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # (agent, key) to ids
    dropped: set[str] = field(default_factory=set)  # ids that somebody asked to drop
    answered: list[tuple[str, str]] = field(default_factory=list)  # (id, text) that `reply` accepted
    edited: list[tuple[str, str]] = field(default_factory=list)  # (id, token) that `queue edit` accepted
    retried: list[tuple[str, int]] = field(default_factory=list)  # (id, attempt) that `queue retry` promised
    wrong: list[str] = field(default_factory=list)  # commands that ended as none may
    codes: Counter[tuple[str, int]] = field(default_factory=Counter)


class People:
    """All of them. `budget` is how many messages they send."""

    def __init__(self, place: Place, seed: int, budget: int) -> None:
        self.place = place
        self.beam = place.beam
        self.seed = seed
        self.budget = budget
        self.said = Said()
        self.sent = 0
        self.over = threading.Event()  # no more of this: what is there is brought to its end
        self.done = threading.Event()  # nobody takes or decides any more
        self._tokens = itertools.count()
        self._lock = threading.Lock()
        self._waiters: list[threading.Thread] = []
        self._threads: list[threading.Thread] = []

    # -- the threads ---------------------------------------------------------------------------------------------------

    def start(self, people: int) -> None:
        """So many who send and change things, two who take from the mailbox, and one who decides."""
        for number in range(people):
            self._start(self._person, f"person{number}")
        for number in range(2):
            self._start(self._taker, f"taker{number}")
        self._start(self._decider, "decider")

    def _start(self, run: Callable[[random.Random], None], name: str) -> None:
        def guarded() -> None:
            try:
                run(random.Random(f"{self.seed} {name}"))
            except BaseException as error:
                self.said.wrong.append(f"{name}: {error!r}")
                raise

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait_for_senders(self) -> None:
        """Wait until the budget is used up and nobody starts anything new."""
        for thread in self._threads:
            if thread.name.startswith("person"):
                thread.join()

    def wait_for_waiters(self, seconds: float) -> None:
        """Wait until every waiting sender has an outcome."""
        until = time.monotonic() + seconds
        for thread in self._waiters:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                self.said.wrong.append(f"{thread.name} still waits")

    def end(self) -> None:
        """Wait until all threads have ended."""
        self.done.set()
        for thread in self._threads:
            thread.join()

    # -- one command ---------------------------------------------------------------------------------------------------

    def call(self, *args: str, env: dict[str, str] | None = None, may: tuple[int, ...] = ()) -> Ended:
        """Runs it. A bug of beam, damage, or a traceback is wrong; with `may`, so is any other code."""
        ended = self.beam(*args, env=env or {}, timeout=SLOW_S)
        with self._lock:
            verb = " ".join(args[:2]) if args[0] in ("queue", "broker", "agent") else args[0]
            self.said.codes[verb, ended.code] += 1
            is_bug = ended.code in (70, 74) or "Traceback" in ended.err
            if is_bug or (may and ended.code not in (*may, 137)):
                self.said.wrong.append(f"{' '.join(args)}: {ended}")
        return ended

    def _token(self) -> str:
        return f"t{next(self._tokens)}"

    # -- who sends and changes things ----------------------------------------------------------------------------------

    def _person(self, chance: random.Random) -> None:
        deeds: list[tuple[int, Callable[[random.Random], None]]] = [
            (34, self._send),
            (12, self._send_and_wait),
            (6, self._send_with_key),
            (7, self._send_once),
            (7, self._retry),
            (5, self._drop),
            (6, self._edit),
            (5, self._interrupt),
            (2, self._reset),
            (2, self._pause),
            (2, self._collect),
            (4, self._broker),
            (4, self._look),
            (5, self._crash),
        ]
        weights = [weight for weight, _ in deeds]
        while self.sent < self.budget and not self.over.is_set():
            chance.choices(deeds, weights)[0][1](chance)

    def _send(self, chance: random.Random) -> None:
        agent = self._agent(chance)
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            self._put(agent)

    def _put(self, agent: str, *more: str, token: str | None = None) -> str | None:
        self.sent += 1
        text = self.place.text(agent, token or self._token())
        may = (
            (0, 2) if "--key" in more else (0,)
        )  # a message that was edited is not the one that its key names any more
        ended = self.call("send", agent, "--no-wait", *self._face(agent), *more, "--", text, may=may)
        return self._accepted(agent, ended)

    def _accepted(self, agent: str, ended: Ended) -> str | None:
        message_id = ended.out.strip()
        if ended.code != 0:
            return None
        self.said.accepted[message_id] = agent
        return message_id

    @staticmethod
    def _face(agent: str) -> tuple[str, ...]:
        return ("--via", "terminal") if agent == "tui" else ()

    @staticmethod
    def _agent(chance: random.Random) -> str:
        return chance.choices(
            AGENTS, [3 if name in ("plain", "deaf") else 1 if name == "scripted" else 2 for name in AGENTS]
        )[0]

    def _send_and_wait(self, chance: random.Random) -> None:
        self._waiters = [thread for thread in self._waiters if thread.is_alive()]
        if len(self._waiters) >= WAITERS:
            return
        agent = self._agent(chance)
        once = ["--once"] if agent in LANES and chance.random() < 0.3 else []
        args = ["send", agent, "--json", *once, *self._face(agent), "--", self.place.text(agent, self._token())]
        self._wait_in_background(args)

    def _wait_in_background(self, args: list[str]) -> None:
        self.sent += 1

        def wait() -> None:
            ended = self.beam(*args, timeout=600)
            with self._lock:
                self.said.codes["send, waiting", ended.code] += 1
                if ended.code in (70, 74) or "Traceback" in ended.err:
                    self.said.wrong.append(f"{' '.join(args)}: {ended}")
            self._told(ended)

        thread = threading.Thread(target=wait, daemon=True, name=" ".join(args))
        self._waiters.append(thread)
        thread.start()

    def _told(self, ended: Ended) -> None:
        if ended.out.count("\n") == 1 and "status" in (outcome := json.loads(ended.out)):
            self.said.outcomes.append(outcome)

    def _send_with_key(self, chance: random.Random) -> None:
        agent = chance.choice(("plain", "deaf", "given", BOX))
        key = f"k{chance.randrange(max(2, self.budget // 40))}"
        message_id = self._put(agent, "--key", key, token=f"t.{agent}.{key}")
        if message_id is not None:
            self.said.keys.setdefault((agent, key), set()).add(message_id)

    def _send_once(self, chance: random.Random) -> None:
        self._put(chance.choice(LANES), "--once")

    def _some(self, chance: random.Random, *boxes: str) -> str | None:
        """The id of a message that lies in one of these boxes."""
        found = [message_id for box in self.place.boxes() for message_id in box.ids(*boxes)]
        return chance.choice(found) if found else None

    def _retry(self, chance: random.Random) -> None:
        message_id = self._some(chance, "dead")
        if message_id is not None:
            self._retried(message_id, self.call("queue", "retry", message_id))

    def _retried(self, message_id: str, ended: Ended) -> None:
        found = re.match(r"attempt (\d+);", ended.err)
        if ended.code == 0 and found:
            self.said.retried.append((message_id, int(found[1])))

    def _drop(self, chance: random.Random) -> None:
        message_id = self._some(chance, "new", "dead")
        if message_id is not None:
            self.said.dropped.add(message_id)
            self.call("queue", "drop", message_id)

    def _edit(self, chance: random.Random) -> None:
        message_id = self._some(chance, "new")
        if message_id is not None:
            agent = next(name for name in AGENTS if message_id.startswith(f"{name}-"))
            token = self._token()
            if self.call("queue", "edit", message_id, "--", self.place.text(agent, token)).code == 0:
                self.said.edited.append((message_id, token))

    def _interrupt(self, chance: random.Random) -> None:
        target = self._some(chance, "cur", "new") if chance.random() < 0.7 else chance.choice(AGENTS)
        if target is not None:
            self.call("interrupt", target)

    def _reset(self, chance: random.Random) -> None:
        self.call("agent", "reset", chance.choice(("scripted", "scripted", *AGENTS)))

    def _pause(self, chance: random.Random) -> None:
        agent = chance.choice(AGENTS)
        self.call("queue", "pause", agent)
        for _ in range(chance.randrange(4)):
            self._put(agent)
        self.over.wait(chance.uniform(0.0, 1.0))
        self.call("queue", "resume", agent)

    def _collect(self, chance: random.Random) -> None:
        self.call("doctor", "--gc", "--older-than", f"{OLD_S}s", may=(0,))

    def _broker(self, chance: random.Random) -> None:
        if (self.beam.root / "broker.json").exists() and chance.random() < 0.5:
            self.call("broker", "stop", "--grace", chance.choice(("0s", "500ms", "2s")))
        else:
            self.call("broker", "start", "--poll", "500ms")

    def _look(self, chance: random.Random) -> None:
        agent = chance.choice(AGENTS)
        deeds = (
            ("status", "--json"),
            ("queue", "list", "--json"),
            ("log", agent, "--verify"),
            ("log", agent, "--once"),
            ("asks",),
        )
        self.call(*chance.choice(deeds), may=(0,))
        known = list(self.said.accepted)
        if known and chance.random() < 0.5:
            self._told(self.call("wait", chance.choice(known), "--timeout", "1s", "--json"))

    def _crash(self, chance: random.Random) -> None:
        """A command that dies at one of the named points; so do the workers that it starts."""
        env = {"BEAM_CRASH_AT": chance.choice(CRASH_POINTS)}
        agent = self._agent(chance)
        message_id = self._some(chance, "new", "dead")
        kind = chance.randrange(4)
        if kind == 0:
            self.sent += 1
            self._accepted(
                agent,
                self.call(
                    "send", agent, "--no-wait", *self._face(agent), "--", self.place.text(agent, self._token()), env=env
                ),
            )
        elif kind == 1 and agent not in (BOX, *TERMINALS):
            self.sent += 1
            self._told(
                self.call(
                    "send", agent, "--json", "--timeout", "20s", "--", self.place.text(agent, self._token()), env=env
                )
            )
        elif kind == 2 and message_id is not None:
            self._retried(message_id, self.call("queue", "retry", message_id, env=env))
        elif message_id is not None:
            self.said.dropped.add(message_id)
            self.call("queue", "drop", message_id, env=env)

    # -- who takes, who decides ----------------------------------------------------------------------------------------

    def _taker(self, chance: random.Random) -> None:
        """Takes a message; then it answers, says that there is no answer, forgets it, or answers too late."""
        while not self.done.is_set():
            lease = chance.choice((0.5, 1.0, 2.0))
            ended = self.call("recv", BOX, "--lease", f"{lease}s", "--json")
            if ended.code != 0 or '"payload"' not in ended.out:
                self.done.wait(0.3)
                continue
            message = json.loads(ended.out)
            what = chance.random() if not self.over.is_set() else 0.0
            if what > 0.85:
                continue
            self.done.wait(lease * 1.2 if what > 0.75 else chance.uniform(0.0, 0.1))
            answer = f"answer {self._token()}"
            failed = ("--failed",) if 0.65 < what <= 0.75 else ()
            replied = self.call("reply", message["id"], *failed, answer)
            if replied.code == 0:
                self.said.answered.append((message["id"], answer))

    def _decider(self, chance: random.Random) -> None:
        """Decides most of what is asked; what nobody decides is denied in time."""
        left: set[str] = set()
        while not self.done.wait(0.2):
            for name in names(self.beam.root / "agents" / "tui" / "asks"):
                ask_id = name.removesuffix(".json")
                if name.startswith(".") or ask_id in left:
                    continue
                what = chance.random()
                if what < 0.15 and not self.over.is_set():
                    left.add(ask_id)
                elif what < 0.6:
                    self.call("approve", ask_id, *(("--always",) if what < 0.3 else ()))
                else:
                    self.call("deny", ask_id, *(("--stop",) if what < 0.7 else ("--message", "no")))
