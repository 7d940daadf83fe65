"""Files of a folder that an agent CLI obeys without asking: how adapters declare them, and findings in a folder.

Values only. Does not depend on the search of a folder (`beam.trust.scan`) or on the trust ledger (`beam.trust.ledger`).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from beam.model.message import Access

EVERY: tuple[Access, ...] = ("read", "ask", "edit", "full")


class AutoloadedFile(Struct, frozen=True, kw_only=True):
    """A file, or a directory with everything in it, that a CLI obeys. It can make the CLI run programs or send its key
    elsewhere.

    `path` is relative to the folder that the CLI looks in. `reach` says which folders those are: `here` is the turn's
    own folder, `worktree` adds those above it up to the top of the git work tree, `upward` adds all above it; the
    person's home is never one. `says`: a file that contains none of these words is harmless. `at` are the accesses with
    which the CLI obeys the file. With those in `ignored`, the adapter's launch makes the CLI ignore it
    (`Turn.leave_out`), as a test with the real CLI shows.
    """

    path: str
    at: tuple[Access, ...] = EVERY
    ignored: tuple[Access, ...] = ()
    reach: Literal["here", "worktree", "upward"] = "here"
    says: tuple[str, ...] = ()


class Finding(Struct, frozen=True, kw_only=True):
    """One thing in a folder that takes effect only once the folder is trusted.

    `name` distinguishes it from the other findings in the folder: it is a path relative to the folder or, with `says`,
    the sentence that describes a declaration. `digest` covers all of its content; "" if it is larger than beam reads:
    then nobody can trust it. `text` is a short file's content, for display. `by` are those who obey it (with `runs`:
    who run it). `ignored`: the CLI can be made to ignore it; `quiet`: nobody need be told that it is ignored.
    """

    name: str
    digest: str
    text: str | None = None
    says: bool = False
    by: tuple[str, ...] = ()
    runs: bool = False
    ignored: bool = False
    quiet: bool = False
