"""The differences between agents that speak the Agent Client Protocol, as one value per agent. The link does what all
agents have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from beam.agents.base import Turn, Verdict
from beam.agents.fields import Object
from beam.model.events import FileChanged
from beam.model.message import Access

Counts = Literal["nothing", "calls", "turn", "process", "session"]


class EndReader(Protocol):
    """Reads an agent's own messages about one turn, which say more about its end than the protocol can. `is_open`: a
    line of stderr that belongs to the turn is still missing, and comes within a moment."""

    @property
    def is_open(self) -> bool: ...

    def read(self, method: str, params: Object) -> None:
        """Read a notification that is not part of the protocol, or the answer that ends the turn (`session/prompt`)."""

    def error_line(self, line: bytes) -> None:
        """Read a line of stderr."""

    def refine(self, verdict: Verdict) -> Verdict:
        """Return the verdict on the turn with what the messages say. `verdict` is the one by the protocol alone."""


class Dialect(Struct, frozen=True, kw_only=True):
    """The differences of one agent.

    `modes` maps an access to the session mode that grants it; an access without an entry was granted when the process
    was started. `prefers` lists mode names for an untested agent: the session gets the first mode that it offers.
    `resume` is the method that continues a session in another process; `as it says` means the method that the agent
    announces, and "" means that there is none. `lists`: beam first looks for the session in the agent's list, because
    with an unknown id the agent begins an empty session, or does not report the error. `lost` are parts of texts: an
    error that contains one of them proves that the session does not exist. `fork`: the agent can copy a session.
    `counts` says what the agent's token figures cover; figures for `calls` come with each model call, all others at the
    end of a turn. `sets_model`: the model is a setting of the session, not an argument of the process. `never` maps
    options of the session to a value that the option must not have below full access.

    Five fields are the beginnings of texts. `noise`: texts that are not part of an answer. `failed`: a text that
    reports a failed model in place of an answer. `stopped`: a text with the words of a hook that stopped the turn, in
    place of an answer. `denied`: the result of a call that the agent itself denied. `aside`:
    a text that only names a file of a call that is not over.

    `describes`: the title of a call describes the call, and is never the name of its tool. `plan` is the mode in which
    the agent only plans, for a live session; "" if there is none, or if it allows more than `read`. `left_out` maps an
    access to the tools that the agent does not have with this access. `fails_at` is a path of keys in the `_meta` of
    the session's status, and then the value at that path which means that the model failed. After such a failure the
    agent's text is the error. `files_as_text`: attached texts, and the paths of all other files except images, are sent
    as text, because with the protocol's own parts for files the model would not get images or contents.
    `starts_with_system`: the system prompt is an argument of the process. `meta` are the fields that the agent wants in
    `_meta` when a session is opened. `notices`: the agent can send its notices apart from its answer. `ends` maps the
    last text of a turn whose model failed to how the answer ended (`length`, `refused`). `uncounted` are the beginnings
    of the names, or the titles, of calls that start a subagent, if the agent's figures lack the subagent's.
    `end_reader` makes a reader of the agent's own messages about the end of a turn; None if there are none.
    `file_changes` returns the events of the files that a call changed, from the call's name, and its input and output
    as `input` and the agent's own fields; None if the agent names these files as the protocol has it.
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
    stopped: str = ""
    denied: tuple[str, ...] = ()
    aside: str = ""
    describes: bool = False
    plan: str = ""
    left_out: Mapping[Access, Collection[str]] = {}
    fails_at: tuple[str, ...] = ()
    files_as_text: bool = False
    starts_with_system: bool = False
    meta: Mapping[str, object] = {}
    notices: bool = False
    ends: Mapping[str, str] = {}
    uncounted: tuple[str, ...] = ()
    end_reader: Callable[[Turn], EndReader] | None = None
    file_changes: Callable[[str, Object], Sequence[FileChanged]] | None = None
