"""Notifications that reach a person outside of any terminal, and the targets that they are sent to."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
from msgspec import Struct

from beam.base.digest import sha256

Occasion = Literal["ask", "finished", "failed", "budget", "idle"]
OCCASIONS: tuple[str, ...] = get_args(Occasion)
BodyFormat = Literal["json", "text", "slack"]


class ValueReference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reference to a value that must not be written in a configuration: the value of the environment variable `env`,
    or the content of the file `file`."""

    env: str | None = None
    file: str | None = None


class NotifyTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of `notify:`. It has either a `command` or a `webhook`.

    `command` is a program with its arguments; the program gets the notification as JSON on stdin. `webhook` is a URL
    (https, or http on loopback), or a reference to one: `{env: NAME}` or `{file: PATH}`. `on` lists the occasions, and
    `agents` the agents, of which the target is notified; without `agents`, it is notified of every agent. `secret`
    signs the body, `token` is sent as a bearer token; both are references to a variable or a file. `body` is json, text
    (only the sentence) or slack. With `reply`, the notification contains the first 2,000 characters of the answer.
    """

    on: tuple[Occasion, ...]
    command: tuple[str, ...] = ()
    webhook: str | ValueReference | None = None
    agents: tuple[str, ...] = ()
    secret: ValueReference | None = None
    token: ValueReference | None = None
    body: BodyFormat = "json"
    reply: bool = False

    @property
    def key(self) -> str:
        """Return a short digest that identifies exactly this target. The names of the target's files in the spool begin
        with it."""
        return sha256(msgspec.json.encode(self)).hexdigest()[:16]

    def wants(self, notification: Notification) -> bool:
        """Return whether this target gets the notification. A target with the occasion `failed` also gets notifications
        about a budget. Every target gets a test notification."""
        occasion = notification.event
        named = occasion in self.on or (occasion == "budget" and "failed" in self.on) or occasion == "test"
        return named and (not self.agents or notification.agent in self.agents or occasion == "test")

    def named(self) -> str:
        """Return a text that names the target for a person. A URL appears without its path, which may be a secret."""
        if self.command:
            return " ".join(self.command)
        if isinstance(self.webhook, ValueReference):
            return f"webhook of ${self.webhook.env}" if self.webhook.env else f"webhook in {self.webhook.file}"
        return f"{'/'.join((self.webhook or '').split('/', 3)[:3])}/…"


class Notification(Struct, frozen=True, kw_only=True):
    """One notification, in the form in which a command or a webhook gets it. `id` is the same each time a notification
    is sent again.

    `text` is one sentence for people. `ask_id`, `tool` and `expires` describe a permission request; `status`, `class`,
    `cost_usd` and `reply` describe a message that is over.
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
