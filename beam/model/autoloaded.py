"""Values that describe files of a folder that an agent CLI obeys without asking: the declarations of adapters, and the
findings in a folder.

Does not depend on the search of a folder (`beam.trust.scan`) or on the trust ledger (`beam.trust.ledger`).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from beam.model.message import Access

EVERY_ACCESS: tuple[Access, ...] = ("read", "ask", "edit", "full")


class AutoloadedFile(Struct, frozen=True, kw_only=True):
    """A file, or a directory with everything in it, that an agent CLI obeys without asking. It can make the CLI run
    programs or send its API key elsewhere.

    `path` is relative to the folder in which the CLI looks for the file. `reach` says in which folders the CLI looks:
    `here` is only the turn's own folder, `worktree` adds the folders above it up to the top of the git work tree, and
    `upward` adds all folders above it. The person's home directory is never one of them. `says` are words: a file that
    contains none of them is harmless (empty: every file counts). `at` are the accesses with which the CLI obeys the
    file. With an access in `ignored`, the adapter can launch the CLI so that it ignores the file (`Turn.leave_out`); a
    test with the real CLI shows this.
    """

    path: str
    at: tuple[Access, ...] = EVERY_ACCESS
    ignored: tuple[Access, ...] = ()
    reach: Literal["here", "worktree", "upward"] = "here"
    says: tuple[str, ...] = ()


class Finding(Struct, frozen=True, kw_only=True):
    """One thing in a folder that takes effect only after the folder is trusted.

    `name` distinguishes the finding from the others in the folder. It is a path relative to the folder or, with `says`,
    the sentence that describes a declaration. `digest` covers the complete content; it is "" if the content is larger
    than beam reads, and then nobody can trust the finding. `text` is the content of a short file, for display. `by`
    names the programs or agents that obey the file, or run it if `runs` is true. `ignored`: the CLI can be made to
    ignore the finding; `quiet`: nobody need be told that it is ignored.
    """

    name: str
    digest: str
    text: str | None = None
    says: bool = False
    by: tuple[str, ...] = ()
    runs: bool = False
    ignored: bool = False
    quiet: bool = False
