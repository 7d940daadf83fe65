"""Puts beam's command into Claude Code's settings, and takes exactly that out again.

A settings file belongs to a person: what is there stays as it is, in its order; a file that is not understood is left
alone. Must not know: what the hooks are for.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct

from beam import files
from beam.errors import ConfigError
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


class Done(Struct, frozen=True, kw_only=True):
    """What was done to a settings file: `changed` names the hooks."""

    path: str
    action: str
    changed: tuple[str, ...] = ()


def command() -> str:
    """The command line that Claude Code runs."""
    return f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(Path(hook.__file__).resolve()))} {MARK}"


def settings_path(scope: str, *, home: Path, project: Path) -> Path:
    """The settings file of a scope: user, project, or local (the project's, not shared)."""
    name = "settings.local.json" if scope == "local" else "settings.json"
    return home / name if scope == "user" else project / ".claude" / name


def install(path: Path) -> Done:
    """Adds the command to every hook that has it not. Raises ConfigError for a file that is not understood."""
    settings = _read(path)
    changed = []
    hooks = settings.setdefault("hooks", {})
    _check(path, hooks)
    for event in EVENTS:
        groups = [*hooks.get(event, [])]
        entry = _entry(event)
        if any(_is_mine(group) for group in groups):
            kept = [entry if _is_mine(group) else group for group in groups]
            if kept == groups:
                continue
            groups = kept
        else:
            groups.append(entry)
        hooks[event] = groups
        changed.append(event)
    if changed:
        _write(path, settings)
    return Done(path=str(path), action="installed", changed=tuple(changed))


def uninstall(path: Path) -> Done:
    """Takes the command out wherever it is, and what was empty before with it. Raises ConfigError."""
    settings = _read(path)
    hooks = settings.get("hooks", {})
    _check(path, hooks)
    changed = []
    for event in list(hooks):
        groups = [group for group in hooks[event] if not _is_mine(group)]
        if len(groups) != len(hooks[event]):
            changed.append(event)
            hooks[event] = groups
            if not groups:
                del hooks[event]
    if changed:
        if not hooks:
            del settings["hooks"]
        _write(path, settings)
    return Done(path=str(path), action="removed", changed=tuple(changed))


def _entry(event: str) -> dict[str, Any]:
    matcher = {"matcher": _ONLY[event]} if event in _ONLY else {}
    return {**matcher, "hooks": [{"type": "command", "command": command(), "timeout": TIMEOUT_S}]}


def _is_mine(group: object) -> bool:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return isinstance(hooks, list) and any(
        isinstance(one, dict) and str(one.get("command", "")).endswith(MARK) for one in hooks
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        data = files.read(path)
    except FileNotFoundError:
        return {}
    try:
        settings = json.loads(data) if data.strip() else {}
    except ValueError as error:
        raise ConfigError(
            f"{path} is not JSON: {error}", "repair it first; nothing was changed", subject=str(path)
        ) from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{path} holds no settings", "repair it first; nothing was changed", subject=str(path))
    return settings


def _check(path: Path, hooks: object) -> None:
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise ConfigError(f"{path}: `hooks` is not understood", "nothing was changed", subject=str(path))


def _write(path: Path, settings: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    target = path.resolve()
    files.replace(target, json.dumps(settings, indent=2, ensure_ascii=False).encode() + b"\n")
    target.chmod(mode)
