"""Lists the targets of notifications, and tries them."""

from __future__ import annotations

import sys

from msgspec import Struct

from beam.base.clock import rfc3339
from beam.base.errors import NotFoundError
from beam.broker.inbox.context import RootContext
from beam.config.resolve import BEAM_YAML
from beam.model.message import new_id
from beam.model.notification import Notification, NotifyTarget
from beam.notify import spool
from beam.notify.deliver import Targets, deliver_with
from beam.notify.spool import Item

_NO_TARGET = "notify: is in no configuration"
_CONFIG_HINT = "write it into ~/.config/beam/config.yaml, as docs/notify.md shows"


class TargetLine(Struct, frozen=True, kw_only=True):
    """One target: the file where it is configured (`origin`), the events and agents that it is told of (`on`,
    `agents`), and how many notifications wait for it, were delivered or were given up. `error` is the reason for the
    last one that was given up. `trusted` is false for a target of an untrusted folder, to which nothing is sent."""

    target: str
    origin: str
    on: tuple[str, ...]
    agents: tuple[str, ...]
    trusted: bool
    waiting: int
    delivered: int
    given_up: int
    error: str = ""


class TargetTried(Struct, frozen=True, kw_only=True):
    """The result of a test notification to one target; `error` is "" if it was delivered."""

    target: str
    error: str


def list_targets(context: RootContext) -> list[TargetLine]:
    """Return every target that is configured, the user's own first."""
    untrusted = Targets(context.home, context.environ).untrusted
    items = {box: _items(context, box) for box in (spool.NEW, spool.DONE, spool.DEAD)}
    lines = []
    for origin, target in _configured_targets(context):
        mine = {box: [item for item in found if item.target == target.key] for box, found in items.items()}
        dead = max(mine[spool.DEAD], key=lambda item: item.notification.at, default=None)
        lines.append(
            TargetLine(
                target=target.named(),
                origin=origin,
                on=tuple(target.on),
                agents=target.agents,
                trusted=origin != BEAM_YAML or target.key not in untrusted,
                waiting=len(mine[spool.NEW]),
                delivered=len(mine[spool.DONE]),
                given_up=len(mine[spool.DEAD]),
                error=dead.error if dead is not None else "",
            )
        )
    return lines


def try_targets(context: RootContext, *, agent: str) -> list[TargetTried]:
    """Send a test notification to every target, one after the other, once each. Raises NotFoundError if there is no
    target."""
    configured = _configured_targets(context)
    if not configured:
        raise NotFoundError(_NO_TARGET, _CONFIG_HINT)
    project = str(context.home.project)
    notification = Notification(
        id=new_id("test", context.clock.now_ns(), context.clock.random(4)),
        event="test",
        at=rfc3339(context.clock.now_ns()),
        agent=agent,
        project=project,
        text="this is a test of beam's notifications",
    )
    targets = Targets(context.home, context.environ)
    log = sys.stderr.fileno()
    return [_try(target, targets, log, context, notification) for _, target in configured]


def _try(
    target: NotifyTarget, targets: Targets, log: int, context: RootContext, notification: Notification
) -> TargetTried:
    if target.key not in targets.found:
        return TargetTried(target=target.named(), error="this folder is not trusted: beam trust")
    item = Item(target=target.key, notification=notification)
    deliver = deliver_with(context.home, context.environ, log)
    tried = deliver(target, item, is_folders=targets.found[target.key][1])
    return TargetTried(target=target.named(), error=tried.error)


def _configured_targets(context: RootContext) -> list[tuple[str, NotifyTarget]]:
    return [(origin, target) for origin, file in context.config.files for target in file.notify]


def _items(context: RootContext, box: str) -> list[Item]:
    directory = context.home.notify
    found = (spool.read(directory, name, box) for name in spool.file_names(directory, box))
    return [item for item in found if item is not None]
