"""Adapters of other packages, from the entry point group `beam.agents`. An entry point names a module, or an object in
a module.

An unusable adapter raises an error that names it. An adapter that raises in a turn fails that turn only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from beam.agents.base import Adapter, Card, Decoder, Exit, Host, Launch, Turn, Verdict
from beam.base import own_program, typed_values
from beam.base.errors import BeamError, ConfigError, UnsupportedError
from beam.model import events
from beam.model.events import Event
from beam.model.message import PLAIN
from beam.model.outcome import Class, Status
from beam.model.screen_profile import Profile

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "beam.agents"
_FACES = ("exec", "terminal")

_entries_by_name: dict[str, tuple[EntryPoint, ...]] = {}
_loaded_adapters: dict[str, Adapter] = {}


def names(built_in: Iterable[str]) -> list[str]:
    """Return the names of other packages' adapters, sorted, without built-in and invalid names."""
    _find_entry_points()
    return sorted(name for name in _entries_by_name if PLAIN.match(name) and name not in built_in)


def is_offered(name: str) -> bool:
    """Return whether an installed package offers an adapter of this name. A name that was found once is remembered."""
    if name not in _entries_by_name and PLAIN.match(name):
        _find_entry_points()
    return name in _entries_by_name and PLAIN.match(name) is not None


def ignored_entries(built_in: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each entry point that beam ignores, and the reason."""
    _find_entry_points()
    for name, entries in sorted(_entries_by_name.items()):
        if name in built_in:
            yield name, f"{_package_names(entries)} may not replace the built-in adapter {name}"
        elif not PLAIN.match(name):
            yield name, f"{_package_names(entries)} names an adapter {name[:80]}, and no agent can have that name"


def module_of(name: str) -> str:
    """Return the name of the module in the entry point. Raises ConfigError if several packages offer the adapter."""
    return _entry_point(name).module


def load_adapter(name: str) -> Adapter:
    """Return the adapter that a package offers under this name, imported and checked.

    Raises ConfigError, with the name and the package, if several packages offer the name, if the module can't be
    imported, or if the object is not an adapter.
    """
    if name not in _loaded_adapters:
        entry = _entry_point(name)
        own_program.allow_tls()  # the adapter may import what it needs
        try:
            found = entry.load()
            why = why_not_an_adapter(name, found)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - its import can raise anything
            why = f"its import failed ({error})"[:500] if str(error) else "its import failed"
        if why:
            raise ConfigError(
                f"adapter {name} of {_package_names([entry])} can't be used: {why}",
                "mend or uninstall that package",
                subject=name,
            )
        _loaded_adapters[name] = cast(Adapter, _Guarded(name, found))
    return _loaded_adapters[name]


def _find_entry_points() -> None:
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        same = found.setdefault(entry.name, [])
        if entry not in same:  # an installation may be found twice on the path
            same.append(entry)
    _entries_by_name.clear()
    _entries_by_name.update((name, tuple(entries)) for name, entries in found.items())


def _entry_point(name: str) -> EntryPoint:
    entries = _entries_by_name[name]
    if len(entries) > 1:
        raise ConfigError(
            f"several packages offer an adapter {name}: {_package_names(entries)}",
            "uninstall all but one",
            subject=name,
        )
    return entries[0]


def _package_names(entries: Iterable[EntryPoint]) -> str:
    known = (entry.dist for entry in entries)
    return ", ".join(f"{dist.name} {dist.version}" if dist is not None else "a package" for dist in known)


# -- checks of an adapter ----------------------------------------------------------------------------------------------


def why_not_an_adapter(name: str, found: object) -> str:
    """Return why the object is not an adapter of this name; "" if it is one."""
    card: object = getattr(found, "card", None)
    if not isinstance(card, Card):
        return "it has no `card`, a beam.agents.base.Card"
    if card.name != name:
        return f"its card's name is {card.name!r}"
    try:
        typed_values.convert(msgspec.to_builtins(card), Card)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        return f"its card is wrong: {error}"
    others = [face for face in card.faces if face not in _FACES]
    if others or not (card.faces or card.unverified):
        return f"its faces are {', '.join(others) or 'none'}, and can be {' and '.join(_FACES)}"
    return _why_wrong_faces(card.faces, found)


def _why_wrong_faces(faces: Mapping[Any, object], found: object) -> str:
    exec_: object = getattr(found, "exec", None)
    if ("exec" in faces) != (exec_ is not None):
        return "its card and its `exec` differ on whether it has a headless face"
    if exec_ is not None and not _has_functions(exec_, "launch", "decoder"):
        return "its `exec` has no functions `launch` and `decoder`"
    terminal: object = getattr(found, "terminal", None)
    if "terminal" in faces and not (
        _has_functions(terminal, "launch") and isinstance(getattr(terminal, "profile", 0), Profile)
    ):
        return "its `terminal` has no function `launch` and no `profile`, a Profile"
    history: object = getattr(found, "transcripts", None)
    if history is not None and not _has_functions(history, "where", "transcript"):
        return "its `transcripts` has no functions `where` and `transcript`"
    return ""


def _has_functions(value: object, *functions: str) -> bool:
    return all(callable(getattr(value, name, None)) for name in functions)


# -- guards during a turn ----------------------------------------------------------------------------------------------


class _Guarded:
    """A wrapper of another package's adapter. If a function of the adapter raises, the turn fails with an error that
    names the adapter."""

    def __init__(self, name: str, found: Any) -> None:
        self.card: Card = found.card
        self.exec = _GuardedExec(name, found.exec) if "exec" in self.card.faces else None
        if "terminal" in self.card.faces:
            self.terminal = _GuardedTerminal(name, found.terminal)
        if getattr(found, "transcripts", None) is not None:
            self.transcripts = found.transcripts


class _GuardedTerminal:
    def __init__(self, name: str, found: Any) -> None:
        self.profile: Profile = found.profile
        self.launch = functools.partial(_guarded_launch, name, found.launch)


class _GuardedExec:
    def __init__(self, name: str, found: Any) -> None:
        self._name = name
        self._found = found
        self.launch = functools.partial(_guarded_launch, name, found.launch)

    def decoder(self, turn: Turn) -> Decoder:
        """Return a decoder whose functions don't raise. Raises UnsupportedError if the adapter's `decoder` raises."""
        try:
            found = self._found.decoder(turn)
        except Exception as error:
            raise _broken_adapter_error(self._name, "decoder", error) from error
        kind = _GuardedErrorReader if _has_functions(found, "error_line") else _GuardedDecoder
        return kind(self._name, found)


def _guarded_launch(name: str, launch: Callable[[Turn, Host], object], turn: Turn, host: Host) -> Launch:
    """Return the checked result of the adapter's `launch`. A BeamError of `launch` is passed on; raises
    UnsupportedError for any other error."""
    try:
        made = launch(turn, host)
        if not isinstance(made, Launch):
            raise TypeError(f"it returned {type(made).__name__}, not a Launch")  # noqa: TRY301
        return typed_values.convert(msgspec.structs.asdict(made), Launch)
    except BeamError:
        raise
    except Exception as error:
        raise _broken_adapter_error(name, "launch", error) from error


def _broken_adapter_error(name: str, function: str, error: Exception) -> UnsupportedError:
    return UnsupportedError(
        f"the adapter {name} is broken: {function}: {type(error).__name__}: {error}"[:500],
        "that is a bug of its package",
        subject=name,
    )


class _GuardedDecoder:
    def __init__(self, name: str, found: Any) -> None:
        self._name = name
        self._found = found

    def line(self, line: bytes) -> Sequence[Event]:
        return self._checked_events(self._found.line, line)

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        try:
            bodies, verdict = self._found.end(exit)
            _check_events(bodies)
            verdict = typed_values.decode(msgspec.json.encode(verdict), Verdict)
        except Exception as error:  # noqa: BLE001 - whatever it raises, the turn has an outcome
            return (), Verdict(
                status=Status.FAILED, class_=Class.UNKNOWN, reason=str(_broken_adapter_error(self._name, "end", error))
            )
        return tuple(bodies), verdict

    def _checked_events(self, function: Callable[[bytes], Sequence[Event]], line: bytes) -> Sequence[Event]:
        try:
            bodies = tuple(function(line))
            _check_events(bodies)
        except Exception as error:  # noqa: BLE001 - keep the line, and say what went wrong
            what = f"{self._name} broke: {type(error).__name__}: {error}"[:200]
            return (events.Unknown(what=what, raw=line.decode("utf-8", "replace")),)
        return bodies


class _GuardedErrorReader(_GuardedDecoder):
    def error_line(self, line: bytes) -> Sequence[Event]:
        return self._checked_events(self._found.error_line, line)


def _check_events(bodies: Iterable[object]) -> None:
    """Raise an error for an event that a decoder may not return: an event that only beam writes, or one that a reader
    of the journal would reject."""
    known = events.types().values()
    for body in bodies:
        if not isinstance(body, Event) or type(body) not in known:
            raise TypeError(f"{type(body).__name__} is no event")
        if "raw" not in body.__struct_fields__ and not isinstance(body, events.TextDelta):
            raise TypeError(f"{type(body).__name__} is no event of an agent")
        events.decode(events.encode(body))
