"""What one agent does in its own way, as a value. What all agents do alike is the link's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from msgspec import Struct

from beam.model.message import Access

Counts = Literal["nothing", "calls", "turn", "process", "session"]


class Dialect(Struct, frozen=True, kw_only=True):
    """One agent.

    `modes` are the modes of a session in which it has the right of an access, by the access; none: its process was
    started with that right. `prefers` are names of which the first that the session has is its mode, where nobody has
    tried it. `resume` is the method by which a session goes on in another process ("": none does). `lists`: its
    sessions are looked up first, because it begins an empty one for an id that it does not know, or does not say so.
    `lost` are words of an error that prove that it has no such session. `fork`: it can copy a session. `counts`: what
    its figures are the sum of; those of `calls` are told one by one, the others at the end of a turn. `sets_model`: the
    model is a setting of the session, and no argument of the process. `never` are options of the session, and the value
    that each must not have below full access. `noise` are beginnings of texts that are no part of an answer, `failed`
    is that of one which tells of a failure of the model in the place of an answer, `denied` those of what comes of a
    call that it denied by itself, and `left_out` the tools that it does not have with an access.
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
    left_out: Mapping[Access, Collection[str]] = {}
