"""Maps each access to settings of a thread of `codex app-server`. No other module of this face gives Codex rights.

A thread always begins with the right to read only. If it could write from the start, Codex would record in the person's
own configuration that the folder is trusted. Each turn then sets its rights. A resumed thread gets its rights again,
because Codex would otherwise continue with the earlier rights of the session.

With `read` and `ask` Codex runs with a permission profile made by beam. The profile denies reading one path that does
not exist. This keeps the person's own rules from letting a command leave the sandbox without asking.
"""

from __future__ import annotations

from beam.agents.base import Turn
from beam.agents.codex import tool_rules
from beam.agents.fields import Object, obj, object_of, string, strings
from beam.base.errors import UnsupportedError
from beam.model.message import Access

PROFILE_NAME = "beam-read"
_CLOSED_PATHS = "/.beam-closed/*"  # a pattern: for a plain path, Codex would create a mount point
_FILE_PERMISSIONS = f'{{":root"="read","{_CLOSED_PATHS}"="deny"}}'

APPROVAL_POLICY: dict[Access, str] = {"read": "never", "ask": "on-request", "edit": "never", "full": "never"}
_READ_ONLY = ("read", "ask")


def check_access(access: Access) -> None:
    """Raise UnsupportedError for an access that Codex can't enforce."""
    if access not in APPROVAL_POLICY:
        raise UnsupportedError(
            f"codex has no access {access!r}", f"use one of: {', '.join(APPROVAL_POLICY)}", subject=access
        )


def approval_policy(turn: Turn) -> str:
    """Return Codex's approval policy for a turn, which follows from its access and its rules."""
    return "on-request" if tool_rules.asks_because_of_rules(turn) else APPROVAL_POLICY[turn.access]


def profile_flags(access: Access) -> tuple[str, ...]:
    """Return the arguments with the settings of the process. Only a process with access `read` or `ask` gets the
    permission profile."""
    profile = (
        "-c",
        f'default_permissions="{PROFILE_NAME}"',
        "-c",
        f"permissions.{PROFILE_NAME}.filesystem={_FILE_PERMISSIONS}",
    )
    return profile if access in _READ_ONLY else ()


def thread_params(turn: Turn) -> Object:
    """Return the parameters that give a thread its rights when it is started or resumed. Only beam answers Codex's
    requests."""
    sandbox: Object = {"permissions": PROFILE_NAME} if turn.access in _READ_ONLY else {"sandbox": "read-only"}
    return {**sandbox, "approvalPolicy": approval_policy(turn), "approvalsReviewer": "user"}


def turn_params(turn: Turn, own: Object) -> Object:
    """Return the parameters that give one turn its rights. `own` is the person's configuration of the `workspace-write`
    sandbox."""
    rights: Object = {"approvalPolicy": approval_policy(turn), "approvalsReviewer": "user"}
    if turn.access == "edit":
        roots = [*strings(own, "writable_roots"), *([turn.scratch] if turn.scratch else [])]
        rights["sandboxPolicy"] = {
            "type": "workspaceWrite",
            "writableRoots": roots,
            "networkAccess": own.get("network_access") is True,
            "excludeTmpdirEnvVar": own.get("exclude_tmpdir_env_var") is True,
            "excludeSlashTmp": True,
        }
    elif turn.access == "full":
        rights["sandboxPolicy"] = {"type": "dangerFullAccess"}
    return rights


def sandbox_config_in(result: object) -> Object:
    """Return the person's configuration of the `workspace-write` sandbox from the answer to `config/read`."""
    return obj(obj(object_of(result), "config"), "sandbox_workspace_write")


def setting_not_applied(turn: Turn, result: object) -> str:
    """Return the first setting of `thread_params` that Codex did not apply, according to its answer; "" if Codex
    applied all settings."""
    answer = object_of(result)
    wanted = {"approvalPolicy": approval_policy(turn), "approvalsReviewer": "user"}
    for name, value in wanted.items():
        if answer.get(name) != value:
            return f"{name} {value}"
    if string(obj(answer, "sandbox"), "type") != "readOnly":
        return "a sandbox that only reads"
    if turn.access in _READ_ONLY and string(obj(answer, "activePermissionProfile"), "id") != PROFILE_NAME:
        return f"the profile {PROFILE_NAME}"
    return ""
