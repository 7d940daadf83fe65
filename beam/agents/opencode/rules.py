"""The rules of the agent profiles that beam gives OpenCode and Kilo, one per access, and what they leave out."""

from __future__ import annotations

from beam.model.message import Access

_LOOK = {"*": "deny", "read": "allow", "glob": "allow", "grep": "allow", "list": "allow", "todowrite": "allow"}
RULES: dict[str, dict[str, str]] = {  # `task` stays out: a subagent has rights of its own
    "read": {**_LOOK, "external_directory": "deny"},
    "edit": {**_LOOK, "edit": "allow", "external_directory": "deny"},
    "ask": {**_LOOK, "edit": "ask", "bash": "ask", "webfetch": "ask", "external_directory": "ask"},
}
_BY_KIND = {  # the tools that a kind of rule is about, where they have another name
    "edit": ("edit", "write", "multiedit", "patch", "apply_patch"),
}
_KINDS = ("edit", "bash", "webfetch", "websearch", "codesearch", "task")


def left_out(access: Access) -> frozenset[str]:
    """Return the names of the tools that the profile of this access denies completely.

    The model is not offered them, and a call of one comes back as an error.
    """
    given = RULES.get(access)
    if given is None:
        return frozenset()
    denied = [kind for kind in _KINDS if given.get(kind, given["*"]) == "deny"]
    return frozenset(name for kind in denied for name in _BY_KIND.get(kind, (kind,)))
