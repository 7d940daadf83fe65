"""Adds beam's command to Claude Code's settings, and removes exactly that again.

A settings file belongs to a person: its content stays as it is, in its order; a file that can't be parsed is left
alone. Its earlier content is kept, and restored byte for byte if nobody changed the file since. Does not depend on what
the hooks are for.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from beam.base import files, typed_values
from beam.base.errors import ConfigError
from beam.base.surrogates import escape_surrogates
from beam.teams import hook

MARK = "# beam team hook"
EVENTS = (
    "SessionStart",
    "SessionEnd",
    "TaskCreated",
    "TaskCompleted",
    "TeammateIdle",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
)
_ONLY = {  # the tools whose calls the team's events are made of, and those that need permission
    "PostToolUse": "SendMessage|TaskCreate|TaskUpdate|Agent|Task|Bash|Edit|Write",
}
TIMEOUT_S = 5
_MOST_BYTES = 4 << 20  # of somebody's settings


class Done(Struct, frozen=True, kw_only=True):
    """What was done to a settings file: `changed` names the hooks."""

    path: str
    action: str
    changed: tuple[str, ...] = ()


def command(state: str = "") -> str:
    """Return the command line that Claude Code runs.

    `state` is beam's state directory if it is not the usual one: Claude Code's environment may not contain it.
    """
    where = f"BEAM_STATE={shlex.quote(state)} " if state else ""
    return f"{where}{shlex.quote(sys.executable)} -I -S {shlex.quote(str(Path(hook.__file__).resolve()))} {MARK}"


def settings_path(scope: str, *, home: Path, project: Path) -> Path:
    """Return the settings file of a scope: user, project, or local (the project's, not shared)."""
    name = "settings.local.json" if scope == "local" else "settings.json"
    return home / name if scope == "user" else project / ".claude" / name


class _Before(Struct, frozen=True):
    """A settings file before the command was added (None: there was none), and a digest of it with the command.

    `has_folder`: its directory existed.
    """

    path: str
    before: bytes | None
    after: str
    has_folder: bool = True
    v: int = 1


def install(path: Path, *, kept: Path | None = None, state: str = "") -> Done:
    """Add the command to every hook that lacks it.

    `kept` is the directory that keeps the earlier content, `state` as for `command`. Raises ConfigError for a file that
    can't be parsed.
    """
    before = _bytes(path)
    settings = _settings(path, before)
    hooks = settings.setdefault("hooks", {})
    _check(path, hooks)
    is_first = all(_without(groups) == groups for groups in hooks.values())
    changed = []
    for event in EVENTS:
        entry = _entry(event, command(state))
        groups = hooks.get(event, [])
        others = _without(groups)
        if groups.count(entry) != 1 or [group for group in groups if group != entry] != others:
            hooks[event] = [*others, entry]
            changed.append(event)
    if changed:
        after = _text(settings, before or b"")
        if kept is not None:
            known = _known(path, kept, before)
            if is_first:
                known = _Before(escape_surrogates(str(path.resolve())), before, "", path.parent.is_dir())
            if known is not None:
                files.make_directory(kept)
                record = msgspec.structs.replace(known, after=_digest(after))
                files.replace(_record(path, kept), msgspec.json.encode(record) + b"\n")
        _write(path, after)
    return Done(path=str(path), action="installed", changed=tuple(changed))


def uninstall(path: Path, *, kept: Path | None = None) -> Done:
    """Remove the command wherever it is, and each group and list that is empty without it. Raises ConfigError."""
    data = _bytes(path)
    settings = _settings(path, data)
    hooks = settings.get("hooks", {})
    _check(path, hooks)
    changed = []
    for event, groups in list(hooks.items()):
        if (left := _without(groups)) != groups:
            changed.append(event)
            hooks[event] = left
            if not left:
                del hooks[event]
    known = _known(path, kept, data) if kept is not None else None
    if changed and known is not None:
        _restore(path, known)
    elif changed:
        if not hooks:
            del settings["hooks"]
        _write(path, _text(settings, data or b""))
    if kept is not None and _record(path, kept).exists():
        files.remove(_record(path, kept))
    return Done(path=str(path), action="removed", changed=tuple(changed))


def _record(path: Path, kept: Path) -> Path:
    return kept / f"{_digest(bytes(path.resolve()))}.json"


def _known(path: Path, kept: Path, now: bytes | None) -> _Before | None:
    """Return the earlier content if the file is still as `install` left it."""
    try:
        known = typed_values.decode(files.read(_record(path, kept), 2 * _MOST_BYTES), _Before)
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return known if known.after == _digest(now or b"") else None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _restore(path: Path, known: _Before) -> None:
    if known.before is not None:
        _write(path, known.before)
        return
    path.resolve().unlink(missing_ok=True)
    if not known.has_folder:
        with contextlib.suppress(OSError):  # one that holds more now stays
            path.parent.rmdir()


def _entry(event: str, run: str) -> dict[str, Any]:
    matcher = {"matcher": _ONLY[event]} if event in _ONLY else {}
    return {**matcher, "hooks": [{"type": "command", "command": run, "timeout": TIMEOUT_S}]}


def _without(groups: list[Any]) -> list[Any]:
    """Return the groups without the command, and without a group that holds nothing else."""
    found = []
    for group in groups:
        hooks = group.get("hooks") if isinstance(group, dict) else None
        left = [one for one in hooks if not _is_mine(one)] if isinstance(hooks, list) else hooks
        if left == hooks:
            found.append(group)
        elif left:
            found.append({**group, "hooks": left})
    return found


def _is_mine(hook: object) -> bool:
    return isinstance(hook, dict) and str(hook.get("command", "")).endswith(MARK)


def _bytes(path: Path) -> bytes | None:
    try:
        return files.read(path, _MOST_BYTES, follow=True)
    except FileNotFoundError:
        return None


def _settings(path: Path, data: bytes | None) -> dict[str, Any]:
    try:
        settings = json.loads(data) if data and data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not JSON: {error}", "repair it first; nothing was changed", subject=str(path)
        ) from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{path} holds no settings", "repair it first; nothing was changed", subject=str(path))
    return settings


def _check(path: Path, hooks: object) -> None:
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise ConfigError(
            f"{path}: beam can't read its `hooks`", "repair it first; nothing was changed", subject=str(path)
        )


def _text(settings: dict[str, Any], like: bytes) -> bytes:
    """Return the settings as a file with the indentation of `like`."""
    found = re.search(rb"\n([ \t]+)", like)
    indent = found[1].decode() if found else 2
    try:
        return json.dumps(settings, indent=indent, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a pair is in it: it stays an escape
        return json.dumps(settings, indent=indent).encode() + b"\n"
    except RecursionError as error:
        raise ConfigError("the settings are nested too deeply", "nothing was changed") from error


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    target = path.resolve()
    files.replace(target, data)
    target.chmod(mode)
