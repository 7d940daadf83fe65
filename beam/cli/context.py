"""The context that every command gets: the global options, the `Beam` object they select, and a way to print notes."""

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
    """The global options of one call of beam, and the objects that they select."""

    def __init__(
        self,
        *,
        directory: str | None = None,
        root: str | None = None,
        quiet: bool = False,
        verbose: bool = False,
        as_json: bool = False,
    ) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self.as_json = as_json
        self._root = root
        self._directory = directory

    @cached_property
    def cwd(self) -> Path:
        """Return the directory that relative paths on the command line start from."""
        if self._directory is None:
            try:
                return Path.cwd()
            except FileNotFoundError as error:
                raise UsageError("the current directory no longer exists", "cd to one that does") from error
        path = Path(self._directory).absolute()
        if not path.is_dir():
            raise UsageError(f"-C {self._directory}: no such directory", "check the path", subject=self._directory)
        return path

    @cached_property
    def environ(self) -> dict[str, str]:
        """Return the environment, plus the state directory that the user's own configuration names."""
        from beam import with_state_dir

        return with_state_dir(os.environ)

    @cached_property
    def beam(self) -> Beam:
        """Return the `Beam` of the root that this call works on."""
        from beam import Beam

        found = Beam(self._root, cwd=self.cwd)
        if found.turn is None:
            for note in found.root_notes():
                self.note(note)
        return found

    def path(self, given: str) -> Path:
        """Return a path of the command line as an absolute path."""
        return self.cwd / given

    def note(self, text: str) -> None:
        """Print a note on stderr, unless -q was given."""
        if not self.quiet:
            from beam.cli.errors import complain

            complain(text)

    def detail(self, text: str) -> None:
        """Print a note on stderr if -v was given."""
        if self.verbose:
            self.note(text)


def context(ctx: typer.Context) -> Context:
    """Return the `Context` with the global options of this call."""
    found = ctx.find_object(Context)
    assert found is not None
    return found
