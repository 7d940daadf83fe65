"""What each access means in a thread of `codex app-server`; the only place of this face that gives Codex rights.

A thread begins as one that only reads, whatever the access: Codex would write into the person's own configuration
that the folder is trusted, if a thread could write in it from its start. Each turn then says what it may. Rights are
said anew in every thread that is resumed, because Codex goes on with those of the session.

Where Codex is confined to reading (`read`, `ask`) it runs with a profile of beam's. One path in it that must not be
read, and that does not exist, keeps the person's own rules from letting a command out of the sandbox unasked.
"""

from __future__ import annotations

from beam.agents.base import Turn
from beam.agents.codex import tool_rules
from beam.agents.fields import Object, obj, object_of, string, strings
from beam.base.errors import UnsupportedError
from beam.model.message import Access

PROFILE = "beam-read"
_CLOSED = "/.beam-closed/*"  # a pattern: for a path Codex would want to make a place to mount on
_FILES = f'{{":root"="read","{_CLOSED}"="deny"}}'

APPROVAL: dict[Access, str] = {"read": "never", "ask": "on-request", "edit": "never", "full": "never"}
_READS = ("read", "ask")


def check(access: Access) -> None:
    """Raise UnsupportedError for an access that Codex can't enforce."""
    if access not in APPROVAL:
        raise UnsupportedError(f"codex has no access {access!r}", f"use one of: {', '.join(APPROVAL)}", subject=access)


def approval(turn: Turn) -> str:
    """Return what Codex is to ask about in a turn with this access and these rules."""
    return "on-request" if tool_rules.asks(turn) else APPROVAL[turn.access]


def argv(access: Access) -> tuple[str, ...]:
    """Return the settings of the process. Only a process that reads alone knows the profile."""
    profile = ("-c", f'default_permissions="{PROFILE}"', "-c", f"permissions.{PROFILE}.filesystem={_FILES}")
    return profile if access in _READS else ()


def of_thread(turn: Turn) -> Object:
    """Return what a thread is begun or resumed with. Nobody but beam answers what Codex asks."""
    sandbox: Object = {"permissions": PROFILE} if turn.access in _READS else {"sandbox": "read-only"}
    return {**sandbox, "approvalPolicy": approval(turn), "approvalsReviewer": "user"}


def of_turn(turn: Turn, own: Object) -> Object:
    """Return what one turn may. `own` is the person's configuration of the sandbox that writes in the workspace."""
    rights: Object = {"approvalPolicy": approval(turn), "approvalsReviewer": "user"}
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


def own_sandbox(result: object) -> Object:
    """Return the person's configuration of that sandbox, as `config/read` answers it."""
    return obj(obj(object_of(result), "config"), "sandbox_workspace_write")


def denied(turn: Turn, result: object) -> str:
    """Return what Codex did not take over from `of_thread`, as it answers; "" if it took all."""
    answer = object_of(result)
    wanted = {"approvalPolicy": approval(turn), "approvalsReviewer": "user"}
    for name, value in wanted.items():
        if answer.get(name) != value:
            return f"{name} {value}"
    if string(obj(answer, "sandbox"), "type") != "readOnly":
        return "a sandbox that only reads"
    if turn.access in _READS and string(obj(answer, "activePermissionProfile"), "id") != PROFILE:
        return f"the profile {PROFILE}"
    return ""
