"""Adds beam's hook command to Claude Code's settings files, and removes it again.

All other content of a settings file stays unchanged and in its order. A file that can't be parsed is not changed. The
content from before the installation is saved; if nobody changed the file since the installation, the removal restores
that content byte for byte. Does not depend on the purpose of the hooks.
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
from beam.base.typed_values import escape_surrogates
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
_MATCHERS = {  # the tools whose calls become events of the team, and those that need permission
    "PostToolUse": "SendMessage|TaskCreate|TaskUpdate|Agent|Task|Bash|Edit|Write",
}
TIMEOUT_S = 5
_MAX_BYTES = 4 << 20  # of somebody's settings


class InstallResult(Struct, frozen=True, kw_only=True):
    """The result for one settings file. `action` is installed or removed; `changed` names the hook events whose entries
    were changed."""

    path: str
    action: str
    changed: tuple[str, ...] = ()


def command(state: str = "") -> str:
    """Return the command line that Claude Code runs as a hook.

    `state` is beam's state directory, or "" for the default one. A given directory becomes part of the command line,
    because Claude Code's environment may not contain the variable BEAM_STATE.
    """
    where = f"BEAM_STATE={shlex.quote(state)} " if state else ""
    return f"{where}{shlex.quote(sys.executable)} -I -S {shlex.quote(str(Path(hook.__file__).resolve()))} {MARK}"


def settings_path(scope: str, *, home: Path, project: Path) -> Path:
    """Return the settings file of a scope: user, project, or local (in the project, but not shared)."""
    name = "settings.local.json" if scope == "local" else "settings.json"
    return home / name if scope == "user" else project / ".claude" / name


class _SavedSettings(Struct, frozen=True):
    """A saved copy of a settings file from before the command was added.

    `before` is its content at that time (None: there was no file), `after` a digest of its content with the command.
    `has_folder` says whether its directory existed.
    """

    path: str
    before: bytes | None
    after: str
    has_folder: bool = True
    v: int = 1


def install(path: Path, *, kept: Path | None = None, state: str = "") -> InstallResult:
    """Add the command to the settings of every hook event that lacks it.

    `kept` is the directory in which the earlier content is saved; `state` is passed to `command`. Raises ConfigError
    for a file that can't be parsed.
    """
    before = _read_bytes(path)
    settings = _parse_settings(path, before)
    hooks = settings.setdefault("hooks", {})
    _check_hooks(path, hooks)
    is_first = all(_without_command(groups) == groups for groups in hooks.values())
    changed = []
    for event in EVENTS:
        entry = _entry(event, command(state))
        groups = hooks.get(event, [])
        others = _without_command(groups)
        if groups.count(entry) != 1 or [group for group in groups if group != entry] != others:
            hooks[event] = [*others, entry]
            changed.append(event)
    if changed:
        after = _settings_text(settings, before or b"")
        if kept is not None:
            known = _saved_settings(path, kept, before)
            if is_first:
                known = _SavedSettings(escape_surrogates(str(path.resolve())), before, "", path.parent.is_dir())
            if known is not None:
                files.make_directory(kept)
                record = msgspec.structs.replace(known, after=_digest(after))
                files.replace(_record_path(path, kept), msgspec.json.encode(record) + b"\n")
        _write(path, after)
    return InstallResult(path=str(path), action="installed", changed=tuple(changed))


def uninstall(path: Path, *, kept: Path | None = None) -> InstallResult:
    """Remove the command from all hook events, and each group and list that becomes empty. If the file is unchanged
    since `install`, its earlier content is restored from the directory `kept`. Raises ConfigError for a file that can't
    be parsed."""
    data = _read_bytes(path)
    settings = _parse_settings(path, data)
    hooks = settings.get("hooks", {})
    _check_hooks(path, hooks)
    changed = []
    for event, groups in list(hooks.items()):
        if (left := _without_command(groups)) != groups:
            changed.append(event)
            hooks[event] = left
            if not left:
                del hooks[event]
    known = _saved_settings(path, kept, data) if kept is not None else None
    if changed and known is not None:
        _restore(path, known)
    elif changed:
        if not hooks:
            del settings["hooks"]
        _write(path, _settings_text(settings, data or b""))
    if kept is not None and _record_path(path, kept).exists():
        files.remove(_record_path(path, kept))
    return InstallResult(path=str(path), action="removed", changed=tuple(changed))


def _record_path(path: Path, kept: Path) -> Path:
    return kept / f"{_digest(bytes(path.resolve()))}.json"


def _saved_settings(path: Path, kept: Path, now: bytes | None) -> _SavedSettings | None:
    """Return the settings that `install` saved before its change. Return None if it saved nothing, or if the present
    content of the file (`now`) is not what `install` wrote."""
    try:
        known = typed_values.decode(files.read(_record_path(path, kept), 2 * _MAX_BYTES), _SavedSettings)
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return known if known.after == _digest(now or b"") else None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _restore(path: Path, known: _SavedSettings) -> None:
    if known.before is not None:
        _write(path, known.before)
        return
    path.resolve().unlink(missing_ok=True)
    if not known.has_folder:
        with contextlib.suppress(OSError):  # a directory with other files in it stays
            path.parent.rmdir()


def _entry(event: str, run: str) -> dict[str, Any]:
    matcher = {"matcher": _MATCHERS[event]} if event in _MATCHERS else {}
    return {**matcher, "hooks": [{"type": "command", "command": run, "timeout": TIMEOUT_S}]}


def _without_command(groups: list[Any]) -> list[Any]:
    """Return the groups of hooks without beam's command. A group that contains only this command is left out."""
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


def _read_bytes(path: Path) -> bytes | None:
    try:
        return files.read(path, _MAX_BYTES, follow=True)
    except FileNotFoundError:
        return None


def _parse_settings(path: Path, data: bytes | None) -> dict[str, Any]:
    try:
        settings = json.loads(data) if data and data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not JSON: {error}", "repair it first; nothing was changed", subject=str(path)
        ) from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{path} holds no settings", "repair it first; nothing was changed", subject=str(path))
    return settings


def _check_hooks(path: Path, hooks: object) -> None:
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise ConfigError(
            f"{path}: beam can't read its `hooks`", "repair it first; nothing was changed", subject=str(path)
        )


def _settings_text(settings: dict[str, Any], like: bytes) -> bytes:
    """Return the settings as the JSON of a file, indented like the content `like`."""
    found = re.search(rb"\n([ \t]+)", like)
    indent = found[1].decode() if found else 2
    try:
        return json.dumps(settings, indent=indent, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair is in it, and stays an escape
        return json.dumps(settings, indent=indent).encode() + b"\n"
    except RecursionError as error:
        raise ConfigError("the settings are nested too deeply", "nothing was changed") from error


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    target = path.resolve()
    files.replace(target, data)
    target.chmod(mode)
