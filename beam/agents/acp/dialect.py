"""How one agent's use of the protocol differs from the others', as a value. The link does what all agents have in
common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from msgspec import Struct

from beam.model.message import Access

Counts = Literal["nothing", "calls", "turn", "process", "session"]


class Dialect(Struct, frozen=True, kw_only=True):
    """The differences of one agent.

    `modes` maps an access to the session mode that grants it; an access without an entry was granted when the process
    was started. `prefers` lists mode names for an untested agent: the first one that the session has becomes its mode.
    `resume` is the method that continues a session in another process (`as it says`: the one that the agent announces;
    "": there is none). `lists`: its sessions are listed first, because for an unknown id it begins an empty session, or
    does not report the error. `lost` are parts of an error's text that prove that the session does not exist. `fork`:
    it can copy a session. `counts`: what its token figures cover; for `calls` they come with each model call, otherwise
    at the end of a turn. `sets_model`: the model is a setting of the session, not an argument of the process. `never`
    maps options of the session to the value that each must not have below full access. Four fields are beginnings of
    texts: `noise` of texts that are no part of an answer, `failed` of a text that reports a failed model in place of an
    answer, `denied` of the result of a call that the agent itself denied, `aside` of a text that names a file of a call
    that is not over. `describes`: the title of a call describes it, and is never the name of its tool. `plan` is the
    mode in which the agent only plans, for a live session; "" if it has none, or one that allows more than `read`.
    `left_out` maps an access to the tools that are missing with it. `fails_at` is a path of keys in the `_meta` of the
    session's status, followed by the value there that means that the model failed: from then on the agent's text is the
    error. `files_as_text`: attached texts, and the paths of other files but images, are sent as text, because with the
    protocol's own parts for files the model would not get images or contents. `starts_with_system`: the system prompt
    is an argument of the process. `meta` is what the agent wants beside the protocol's own fields when a session is
    opened.
    """

    name: str
    modes: Mapping[Access, str] = {}
    prefers: Mapping[Access, tuple[str, ...]] = {}
    resume: Literal["", "session/load", "session/resume", "as it says"] = "session/load"
    lists: bool = False
    lost: tuple[str, ...] = ()
    fork: bool = False
    counts: Counts = "nothing"
    sets_model: bool = False
    never: Mapping[str, str] = {}
    noise: tuple[str, ...] = ()
    failed: str = ""
    denied: tuple[str, ...] = ()
    aside: str = ""
    describes: bool = False
    plan: str = ""
    left_out: Mapping[Access, Collection[str]] = {}
    fails_at: tuple[str, ...] = ()
    files_as_text: bool = False
    starts_with_system: bool = False
    meta: Mapping[str, object] = {}
