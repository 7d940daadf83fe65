"""What a person is notified of, outside of any terminal: the notification, and the targets that it may go to."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
from msgspec import Struct

from beam.base.digest import sha256

Occasion = Literal["ask", "finished", "failed", "budget", "idle"]
OCCASIONS: tuple[str, ...] = get_args(Occasion)
Form = Literal["json", "text", "slack"]


class FromPlace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reference to a value that must not be in a configuration: the value of a variable, or the content of a file."""

    env: str | None = None
    file: str | None = None


class NotifyTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of `notify:`. It has a `command` or a `webhook`.

    `command` is a program and its arguments, which gets the notification as JSON on stdin. `webhook` is a URL, https or
    on loopback, or where to read one: `{env: NAME}` or `{file: PATH}`. `on` names the occasions, and `agents` the
    agents; without `agents`, every agent counts. `secret` signs the body, `token` is sent as a bearer token; both are
    read from a variable or a file. `body` is json, text (the sentence alone) or slack. With `reply`, the notification
    contains the first 2,000 characters of the answer.
    """

    on: tuple[Occasion, ...]
    command: tuple[str, ...] = ()
    webhook: str | FromPlace | None = None
    agents: tuple[str, ...] = ()
    secret: FromPlace | None = None
    token: FromPlace | None = None
    body: Form = "json"
    reply: bool = False

    @property
    def key(self) -> str:
        """Return a short name of exactly this target. The names of its files in the spool begin with it."""
        return sha256(msgspec.json.encode(self)).hexdigest()[:16]

    def wants(self, notification: Notification) -> bool:
        """Return whether this target gets the notification. A notification about a budget also goes to a target that
        wants failures."""
        occasion = notification.event
        named = occasion in self.on or (occasion == "budget" and "failed" in self.on) or occasion == "test"
        return named and (not self.agents or notification.agent in self.agents or occasion == "test")

    def named(self) -> str:
        """Return a text that names the target for a person. A URL appears without its path, which may be a secret."""
        if self.command:
            return " ".join(self.command)
        if isinstance(self.webhook, FromPlace):
            return f"webhook of ${self.webhook.env}" if self.webhook.env else f"webhook in {self.webhook.file}"
        return f"{'/'.join((self.webhook or '').split('/', 3)[:3])}/…"


class Notification(Struct, frozen=True, kw_only=True):
    """What happened, as a command or a webhook gets it. `id` is the same in each repetition.

    `text` is one sentence for people. `ask_id`, `tool` and `expires` belong to an ask, `status`, `class`, `cost_usd`,
    `turn` and `reply` to a message that is over.
    """

    v: int = 1
    id: str
    event: Occasion | Literal["test"]
    at: str
    agent: str
    project: str
    text: str
    message_id: str | None = None
    turn: int | None = None
    status: str | None = None
    class_: str | None = msgspec.field(default=None, name="class")
    cost_usd: float | None = None
    ask_id: str | None = None
    tool: str | None = None
    expires: str | None = None
    reply: str | None = None
