"""What every command gets: the global options, the `Beam` they name, and the notes it may say."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from beam import UsageError

if TYPE_CHECKING:
    import typer

    from beam import Beam


class Context:
    """The global options of one call."""

    def __init__(
        self, *, directory: str | None = None, root: str | None = None, quiet: bool = False, verbose: bool = False
    ) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self._root = root
        self._directory = directory

    @cached_property
    def cwd(self) -> Path:
        """The directory that paths on the command line are relative to."""
        if self._directory is None:
            try:
                return Path.cwd()
            except FileNotFoundError as error:
                raise UsageError("the current directory is gone", "cd somewhere that exists") from error
        path = Path(self._directory).absolute()
        if not path.is_dir():
            raise UsageError(f"-C {self._directory}: no such directory", "name one that is", subject=self._directory)
        return path

    @cached_property
    def environ(self) -> dict[str, str]:
        """The environment, with what the user's own configuration says of where beam's state lies."""
        from beam import settled

        return settled(os.environ)

    @cached_property
    def beam(self) -> Beam:
        """The root that this call is about."""
        from beam import Beam

        found = Beam(self._root, cwd=self.cwd)
        if found.turn is None:
            for note in found.root_notes():
                self.note(note)
        return found

    def path(self, given: str) -> Path:
        """A path of the command line."""
        return self.cwd / given

    def note(self, text: str) -> None:
        """Talk: a line on stderr, unless -q."""
        if not self.quiet:
            from beam.cli.errors import complain

            complain(text)

    def detail(self, text: str) -> None:
        """Talk for -v only."""
        if self.verbose:
            self.note(text)


def context(ctx: typer.Context) -> Context:
    """The options of this call."""
    found = ctx.find_object(Context)
    assert found is not None
    return found


def is_interactive(*streams: object) -> bool:
    """Whether a person sits at all these streams: terminals, and not those of a CI job."""
    return all(is_terminal(stream) for stream in streams) and os.environ.get("CI", "") in ("", "0", "false")


def is_colourful(stream: object) -> bool:
    """Whether colour is welcome there (NO_COLOR, TERM=dumb and CI say no)."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
    return is_interactive(stream) and not plain


def is_terminal(stream: object) -> bool:
    """Whether the stream is a terminal, which would obey escape sequences."""
    try:
        return os.isatty(stream.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
