"""Checks `notify:`, the list of commands and webhooks that get notifications."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from beam.config.fields import fields_of
from beam.config.source import Source, as_mapping, nearest_or_all_hint
from beam.model.message import NAME, NAME_RULE
from beam.model.notification import OCCASIONS, NotifyTarget, ValueReference

_MAX_TARGETS = 20
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLACE_KEYS = ("webhook", "secret", "token")
_ENTRY_EXAMPLE = "like {command: [notify-send, beam], on: [ask, failed]}"


def parse_targets(given: object, source: Source) -> tuple[NotifyTarget, ...]:
    """Return the checked targets in the value of `notify:`. Raises ConfigError."""
    if given is None:
        return ()
    if not isinstance(given, list):
        raise source.error(("notify",), "expected a list", f"each entry {_ENTRY_EXAMPLE}")
    if len(given) > _MAX_TARGETS:
        raise source.error(("notify",), f"more than {_MAX_TARGETS} entries", "one entry can have several occasions")
    return tuple(_parse_target(item, ("notify", str(number)), source) for number, item in enumerate(given))


def _parse_target(item: object, at: tuple[str, ...], source: Source) -> NotifyTarget:
    values = dict(as_mapping(item, at, source))
    occasions = values.pop("on", None)
    if not isinstance(occasions, list) or not occasions:
        raise source.error(at, "says no occasion", f"write on: [{', '.join(OCCASIONS)}], or some of these")
    for occasion in occasions:
        if occasion not in OCCASIONS:
            raise source.error(
                (*at, "on"), f"{str(occasion)[:60]!r} is no occasion", nearest_or_all_hint(str(occasion), OCCASIONS)
            )
    for key in _PLACE_KEYS:
        if isinstance(values.get(key), dict):
            values[key] = _parse_place(values[key], (*at, key), source)
        elif values.get(key) is not None and key != "webhook":
            hint = f"write {key}: {{env: NAME}} or {key}: {{file: ~/.config/beam/{key}}}"
            raise source.error((*at, key), "is never written into a configuration", hint)
    places = {key: values.pop(key) for key in _PLACE_KEYS if isinstance(values.get(key), ValueReference)}
    found = {**fields_of(values, NotifyTarget, at, source), **places}
    target = NotifyTarget(on=tuple(dict.fromkeys(occasions)), **found)  # type: ignore[arg-type]
    if bool(target.command) == bool(target.webhook):
        raise source.error(
            at, "needs either `command` or `webhook`", f"{_ENTRY_EXAMPLE}, or {{webhook: https://…, on: […]}}"
        )
    if target.command and not target.command[0]:
        raise source.error((*at, "command"), "names no program", _ENTRY_EXAMPLE)
    if target.command and any(key in found for key in ("secret", "token", "body")):
        raise source.error(at, "only a webhook has `secret`, `token` and `body`", "leave them out")
    for name in target.agents:
        if not NAME.match(name):
            raise source.error((*at, "agents"), f"{name[:60]!r} is not an agent's name", NAME_RULE)
    if isinstance(target.webhook, str):
        problem = url_problem(target.webhook)
        if problem:
            raise source.error((*at, "webhook"), problem, "write it like https://ntfy.sh/my-topic")
    return target


def _parse_place(given: object, at: tuple[str, ...], source: Source) -> ValueReference:
    fields = fields_of(given, ValueReference, at, source)
    place = ValueReference(**fields)  # type: ignore[arg-type]
    if (place.env is None) == (place.file is None):
        raise source.error(at, "needs either `env` or `file`", "write {env: NAME} or {file: ~/.config/beam/secret}")
    if place.env is not None and not _VARIABLE.match(place.env):
        raise source.error((*at, "env"), f"{place.env[:60]!r} is no variable's name", "write it like BEAM_HOOK")
    if place.file is not None and not place.file.startswith(("/", "~/")):
        raise source.error((*at, "file"), "is no absolute path", "write it like ~/.config/beam/secret")
    return place


def url_problem(url: str) -> str:
    """Return the reason why this URL can't be the URL of a webhook; "" if it can."""
    if any(not "!" <= character <= "~" for character in url):
        return "is no URL: it holds blanks, control characters or letters that a URL encodes"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no URL"
    if not host or parts.scheme not in ("https", "http"):
        return "is no https URL"
    if parts.username is not None or parts.password is not None:
        return "holds a name or password; send a `token`"
    if parts.scheme == "http" and not is_loopback(host):
        return "is not encrypted; http is for loopback alone"
    return ""


def is_loopback(host: str) -> bool:
    """Return whether the host of a URL is this machine (`localhost` or a loopback address)."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
