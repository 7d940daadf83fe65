"""The exceptions that beam raises when beam itself can't continue.

A turn that failed is data (`outcome.Outcome`), never an exception. The classes differ by who must act: the caller, the
author of the configuration, or the owner of the disk. Only `cli.errors` prints them.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from enum import IntEnum

_NEAR = 0.7  # ratio of difflib: one letter in four may differ; at its default 0.6, `resume` matches `remove`


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most similar to this one, ignoring case; None if none is similar enough."""
    import difflib

    words = {str(each).lower(): str(each) for each in known}
    near = difflib.get_close_matches(word.lower(), words, 1, _NEAR)
    return words[near[0]] if near else None


PASSING = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})  # shortages that pass by themselves


class ExitCode(IntEnum):
    """Exit codes of `beam`; the one table that code, docs and tests share (docs/exit-codes.md is made from it)."""

    COMPLETED = 0, "the turn completed"
    FAILED = 1, "the agent failed; `class` says how"
    USAGE = 2, "usage, configuration, an untrusted folder, an ambiguous id"
    TIMEOUT = 3, "the turn timed out and was stopped, or its deadline passed in the queue"
    NOT_FOUND = 4, "no such agent, message, ask or session, or its CLI is not installed"
    DENIED = 5, "the turn ended because a request was denied"
    REFUSED = 6, "the model refused"
    LIMIT = 7, "a limit: queue, hops, turns, budget, circuit, chain"
    UNKNOWN = 8, "the outcome is unknown: the holder died after the prompt was sent"
    CANCELLED = 9, "cancelled by someone else"
    UNSUPPORTED = 10, "this agent can't do what was asked"
    TRUNCATED = 11, "the answer was cut off"
    UNFINISHED = 12, "not finished yet; nothing was stopped"
    CHECK_FAILED = 13, "a check failed"
    BUG = 70, "a bug in beam; the traceback is in a file whose path is printed"
    DISK = 74, "the root or its disk can't be used"
    HANGUP = 129, "ended by SIGHUP, after cleaning up"
    INTERRUPTED = 130, "ended by ^C, after cleaning up"
    TERMINATED = 143, "ended by SIGTERM, after cleaning up"

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


class BeamError(Exception):
    """Base class of all errors that a person sees. An error says what happened to which thing, and what to do next.

    `message` says what happened, and names the thing; `hint` is the next step, or "" if there is none; `subject` is the
    thing's name alone (an agent, a message id, a path), for programs; `kind` is a stable identifier of this kind of
    error, for programs.
    """

    exit_code = ExitCode.USAGE
    kind = "usage"

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        subject: str = "",
        kind: str | None = None,
        exit_code: ExitCode | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.subject = subject
        if kind is not None:
            self.kind = kind
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(BeamError):
    """The caller asked for something invalid."""


class ConfigError(BeamError):
    """beam.yaml, agent.json or an environment variable contains something that beam does not understand."""

    kind = "config"


class UntrustedError(BeamError):
    """Files of the folder would run code, and nobody has allowed that yet."""

    kind = "untrusted"


class NotFoundError(BeamError):
    """No such agent, message, ask or session; or the agent's CLI is not installed."""

    exit_code = ExitCode.NOT_FOUND
    kind = "not_found"


class LimitError(BeamError):
    """A limit stops the message before it enters a queue."""

    exit_code = ExitCode.LIMIT
    kind = "limit"


class UnsupportedError(BeamError):
    """This agent can't do what the caller asked for."""

    exit_code = ExitCode.UNSUPPORTED
    kind = "unsupported"


class UnfinishedError(BeamError):
    """The wait ended before the turn did. Nothing was stopped."""

    exit_code = ExitCode.UNFINISHED
    kind = "unfinished"


class SignalledError(BeamError):
    """A signal ended the command, which has cleaned up. The command line raises the signal again.

    `number` is the number of the signal; `outcome` is the outcome of the message that was sent, if there is one.
    """

    kind = "signalled"

    def __init__(self, number: int, outcome: object = None, *, message: str = "", hint: str = "") -> None:
        super().__init__(message or f"ended by signal {number}", hint)
        self.number = number
        self.outcome = outcome


class DiskError(BeamError):
    """The root or its disk can't be used; state on disk is as it was before the step that failed."""

    exit_code = ExitCode.DISK
    kind = "disk"


class ShortageError(BeamError):
    """The system has no process, memory or file descriptor to spare now. Nothing was started, and a later attempt may
    succeed."""

    exit_code = ExitCode.FAILED
    kind = "shortage"


MEMORY_KIND = "memory"  # of a shortage that may come at any moment, also after the agent has begun


def memory_error() -> ShortageError:
    """Return the error in place of a MemoryError: the system, or a limit of this process, gave beam no more memory."""
    return ShortageError("beam got no more memory", "try it again when less runs", kind=MEMORY_KIND)


class CorruptError(DiskError):
    """A file of the root contains something that beam did not write."""

    kind = "corrupt"


class RefusedFileError(CorruptError):
    """A path that beam would read is not a plain file, is a symbolic link, is too large, or belongs to another user."""


def exit_code_of(kind: str) -> ExitCode | None:
    """Return the exit code of the errors with this `kind`; None if no class has this kind."""
    classes: list[type[BeamError]] = [BeamError, *_descendants(BeamError)]
    return next((cls.exit_code for cls in classes if cls.kind == kind), None)


def _descendants(cls: type[BeamError]) -> list[type[BeamError]]:
    return [found for child in cls.__subclasses__() for found in (child, *_descendants(child))]
