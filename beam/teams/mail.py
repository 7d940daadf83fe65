"""Turns observations of a team's mail (inboxes, transcripts, hook calls) into events: mail was sent, delivered or lost.

An inbox is a queue: a message that is no longer in it was delivered. A message is identified by its id or, without one,
by a digest of its sender, time and text. A message in the recipient's transcript has no id; it is matched by sender and
text. Does not depend on files or clocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from beam.model.events import Event, MailDelivered, MailLost, MailSent
from beam.teams.event_factory import Deduplicator, EventFactory, KeyOwners
from beam.teams.model import Mail

_KEPT_LETTERS = 20_000


class Letter(Struct):
    """The known state of one message. `at_ns` is when it was sent; `ended_ns` is when it was delivered or lost (0: not
    yet). Both are in nanoseconds since 1970."""

    mail: Mail
    to: str
    at_ns: int
    in_inbox: bool = False
    ended_ns: int = 0
    is_lost: bool = False


class TeamMail:
    """The mail of one team. `ids` records which team of the home each message id belongs to."""

    def __init__(self, tell: EventFactory, once: Deduplicator, ids: KeyOwners) -> None:
        self._tell = tell
        self._once = once
        self._ids = ids
        self._letters: dict[tuple[str, str], Letter] = {}
        self._by_text: dict[tuple[str, str, str], list[Letter]] = {}
        self._inboxes: dict[str, set[str]] = {}

    @property
    def waiting(self) -> list[Letter]:
        """Return the messages that are in an inbox and not delivered, the oldest first."""
        found = [letter for letter in self._letters.values() if letter.in_inbox and not letter.ended_ns]
        return sorted(found, key=lambda letter: letter.at_ns)

    @property
    def letters(self) -> list[Letter]:
        """Return all known messages, the oldest first."""
        return sorted(self._letters.values(), key=lambda letter: letter.at_ns)

    def inboxes(self) -> list[str]:
        """Return the names of the inboxes that were seen."""
        return sorted(self._inboxes)

    def inbox(self, to: str, mails: Sequence[Mail], at_ns: int) -> tuple[list[Event], list[Letter]]:
        """Apply the current content of an inbox. Return the events, and the messages that were not reported before."""
        events: list[Event] = []
        fresh: list[Letter] = []
        now = set()
        for mail in mails:
            now.add(mail.id)
            letter = self._letters.get((to, mail.id))
            if letter is None:
                letter = self._replace_provisional_id(to, mail) or self._add(to, mail, at_ns)
                sent = self._sent(letter, "files")
                if sent is not None:
                    events.append(sent)
                    fresh.append(letter)
            letter.in_inbox = True
            if mail.is_read:
                events += self._delivered(letter, at_ns, "files")
        for gone in self._inboxes.get(to, set()) - now:
            events += self._delivered(self._letters[to, gone], at_ns, "files")
        self._inboxes[to] = now
        self._forget_ended()
        return events, fresh

    def _replace_provisional_id(self, to: str, mail: Mail) -> Letter | None:
        """Replace the provisional id of a message by the id of `mail`, and return the message. A message has a
        provisional id if it is known only from the recipient's transcript. Return None if there is no such message."""
        for letter in self._by_text.get((to, mail.sender, mail.text.strip()), ()):
            if letter.mail.id.startswith("~") and letter.mail.id != mail.id and not letter.in_inbox:
                self._letters.pop((to, letter.mail.id), None)
                letter.mail = mail
                self._letters[to, mail.id] = letter
                self._is_new(letter)
                return letter
        return None

    def on_gone(self, to: str, at_ns: int, why: str) -> list[Event]:
        """Record that the file of an inbox is gone. The messages that were still in it are lost."""
        events: list[Event] = []
        for mail_id in sorted(self._inboxes.pop(to, set())):
            letter = self._letters[to, mail_id]
            if not letter.ended_ns:
                letter.ended_ns, letter.is_lost = at_ns, True
                events.append(self._lost(letter.mail, to, at_ns, why, "files"))
        return events

    def on_sent(self, to: str, mail: Mail, source: str) -> list[Event]:
        """Apply the sender's record of a message that was put into an inbox."""
        if (to, mail.id) in self._letters:
            return []
        sent = self._sent(self._replace_provisional_id(to, mail) or self._add(to, mail, mail.sent_ns), source)
        self._forget_ended()
        return [] if sent is None else [sent]

    def on_failed(self, to: str, mail: Mail, why: str, source: str) -> list[Event]:
        """Apply the sender's record of a message that never reached an inbox. `mail.id` is the id of the tool call."""
        if not self._once.add_if_new(("lost", to, mail.id)):
            return []
        return [self._lost(mail, to, mail.sent_ns, why, source)]

    def on_received(self, to: str, mail: Mail, source: str, *, is_proof: bool) -> tuple[list[Event], Letter | None]:
        """Apply a message found in the transcript of its recipient. Return the events, and the message if it was
        unknown.

        `is_proof`: the transcript alone proves that the message was sent, because there will be no other record of it.
        Otherwise an unknown message is ignored.
        """
        known = self._by_text.get((to, mail.sender, mail.text.strip()), [])
        open_ = next((letter for letter in known if not letter.ended_ns), None)
        if open_ is not None:
            return self._delivered(open_, mail.sent_ns, source), None
        if known or not is_proof:
            return [], None
        letter = self._add(to, mail, mail.sent_ns)
        sent = self._sent(letter, source)
        events = [*([] if sent is None else [sent]), *self._delivered(letter, mail.sent_ns, source)]
        self._forget_ended()
        return events, letter

    def _add(self, to: str, mail: Mail, at_ns: int) -> Letter:
        letter = Letter(mail, to, mail.sent_ns or at_ns)
        self._letters[to, mail.id] = letter
        self._by_text.setdefault((to, mail.sender, mail.text.strip()), []).append(letter)
        return letter

    def _forget_ended(self) -> None:
        """Forget a part of the messages that were delivered or lost, if too many are known. A message that is still in
        an inbox (marked as read) is kept; otherwise the next look at the inbox would report it again."""
        if len(self._letters) <= _KEPT_LETTERS:
            return
        ended = [key for key, letter in self._letters.items() if letter.ended_ns and not self._is_in_inbox(*key)]
        gone = [self._letters.pop(key) for key in ended[: _KEPT_LETTERS // 4]]
        gone_ids = {id(letter) for letter in gone}
        for text in {(letter.to, letter.mail.sender, letter.mail.text.strip()) for letter in gone}:
            kept = [letter for letter in self._by_text.pop(text, ()) if id(letter) not in gone_ids]
            if kept:
                self._by_text[text] = kept

    def _is_in_inbox(self, to: str, mail_id: str) -> bool:
        return mail_id in self._inboxes.get(to, ())

    def _sent(self, letter: Letter, source: str) -> Event | None:
        mail = letter.mail
        if not self._is_new(letter):
            return None
        return self._tell(
            MailSent,
            letter.at_ns,
            mail.sender,
            f"sent/{letter.to}/{mail.id}",
            source,
            mail_id=mail.id,
            sender=mail.sender,
            to=letter.to,
            text=mail.text,
            summary=mail.summary,
            kind=mail.kind,
            colour=mail.colour,
        )

    def _is_new(self, letter: Letter) -> bool:
        """Return whether the message was never reported before, neither for this team nor for another one."""
        mail_id = letter.mail.id
        is_own = mail_id.startswith("~") or self._ids.claim((letter.to, mail_id), self._tell.team)
        return is_own and self._once.add_if_new(("mail", letter.to, mail_id))

    def _delivered(self, letter: Letter, at_ns: int, source: str) -> list[Event]:
        if letter.ended_ns:
            return []
        letter.ended_ns = max(at_ns, letter.at_ns)
        return [
            self._tell(
                MailDelivered,
                letter.ended_ns,
                letter.to,
                f"delivered/{letter.to}/{letter.mail.id}",
                source,
                mail_id=letter.mail.id,
                sender=letter.mail.sender,
                to=letter.to,
                waited_s=round((letter.ended_ns - letter.at_ns) / 1e9, 3),
            )
        ]

    def _lost(self, mail: Mail, to: str, at_ns: int, why: str, source: str) -> Event:
        return self._tell(
            MailLost,
            at_ns,
            mail.sender,
            f"lost/{to}/{mail.id}",
            source,
            mail_id="" if source != "files" else mail.id,
            sender=mail.sender,
            to=to,
            why=why,
            text=mail.text,
        )
