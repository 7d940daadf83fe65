"""Reads one file of settings. The input is YAML, the result is the checked fields, and every error names its place in
the file.

Does not depend on the precedence of files, or on the effect of a setting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from beam.base import files
from beam.base.errors import ConfigError, DiskError, RefusedFileError
from beam.config.fields import Fields, check_adapter, check_adapter_exists, check_session, fields_of, settings_fields
from beam.config.source import ParsedFiles, Source, as_mapping, nearest_or_all_hint
from beam.model.message import NAME, NAME_RULE, PLAIN
from beam.model.settings import Limits, Policy

if TYPE_CHECKING:
    from beam.model.notification import NotifyTarget

_KEYS = ("defaults", "agents", "limits", "policy", "notify", "env_profiles", "disable", "allow_fs")  # of every file
ENV_PROFILES = "env_profiles"
_LARGEST_FILE = 1 << 20
_MOMENT_S, _TRIES = 0.05, 20


class ConfigFile(Struct, frozen=True, kw_only=True):
    """The settings in one file: only the fields that are written in it, each with its checked value."""

    path: Path
    default_agent: str | None = None
    defaults: Fields = {}
    agents: Mapping[str, Fields] = {}
    limits: Fields = {}
    policy: Fields = {}
    notify: tuple[NotifyTarget, ...] = ()
    env_profiles: Mapping[str, Mapping[str, str]] = {}
    disable: tuple[str, ...] = ()
    allow_fs: tuple[str, ...] = ()
    state_dir: str | None = None


def read(path: Path, *, adapters: Collection[str], parsed: ParsedFiles | None = None) -> ConfigFile | None:
    """Return the settings in a YAML file; None if there is no file. If the cache `parsed` has the content of the file,
    it is not parsed again.

    Raises ConfigError for an invalid setting or invalid YAML, DiskError if the file can't be read.
    """
    data = _read_settled(path)
    return None if data is None else parse(data, path, adapters=adapters, parsed=parsed)


def _read_settled(path: Path) -> bytes | None:
    """Return the bytes of the file; None if there is no file. If the file was emptied a moment ago, wait, because most
    programs empty a file before they write it.

    The wait ends after `_MOMENT_S`, however often the file is emptied.
    """
    data = read_bytes(path, follow=True)
    for _ in range(_TRIES):
        if data != b"" or not _is_new(path):
            break
        time.sleep(_MOMENT_S / _TRIES)
        data = read_bytes(path, follow=True)
    return data


def _is_new(path: Path) -> bool:
    try:
        return 0 <= time.time() - path.stat().st_mtime < _MOMENT_S
    except OSError:
        return False


def read_bytes(path: Path, *, follow: bool = False) -> bytes | None:
    """Return the bytes of a settings file; None if there is no such file. With `follow` the path may be a symbolic
    link, which is allowed for the person's own files."""
    try:
        return files.read(path, _LARGEST_FILE, follow=follow)
    except FileNotFoundError:
        return None
    except RefusedFileError as error:
        raise ConfigError(
            error.message, "settings are small; check that this is the right file", subject=str(path)
        ) from error
    except DiskError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            return None
        raise


def parse(data: bytes, path: Path, *, adapters: Collection[str], parsed: ParsedFiles | None = None) -> ConfigFile:
    """Return the settings in the bytes of a YAML file. Raises ConfigError."""
    values, lines = (parsed or ParsedFiles()).parse(data, path)
    source = Source(str(path), lines)
    top = as_mapping(values, (), source)
    for key in top:
        if key not in _SECTIONS:
            raise source.error((key,), "unknown key", nearest_or_all_hint(key, _KEYS))
    written = {key: _SECTIONS[key](given, source, adapters) for key, given in top.items() if given is not None}
    return ConfigFile(path=path, default_agent=_default_agent(top, source), **written)  # type: ignore[arg-type]


# -- its sections: only those that are written are read ----------------------------------------------------------------


def _agents(given: object, source: Source, adapters: Collection[str]) -> dict[str, Fields]:
    agents: dict[str, Fields] = {}
    for name, settings in as_mapping(given, ("agents",), source).items():
        if not NAME.match(name):
            raise source.error(("agents", name), "not an agent's name", NAME_RULE)
        agents[name] = settings_fields(settings, ("agents", name), source)
        check_session(name, agents[name], ("agents", name), source)
        check_adapter(name, agents[name], ("agents", name), source=source, adapters=adapters)
    return agents


def _defaults(given: object, source: Source, adapters: Collection[str]) -> Fields:
    written = as_mapping(given, ("defaults",), source)
    defaults = settings_fields({key: written[key] for key in written if key != "agent"}, ("defaults",), source)
    check_adapter_exists(defaults, ("defaults",), source, adapters)
    return defaults


def _default_agent(top: Mapping[str, object], source: Source) -> str | None:
    """Return the agent that `defaults: {agent: NAME}` names for messages that name none."""
    name = as_mapping(top.get("defaults"), ("defaults",), source).get("agent")
    if name is None or (isinstance(name, str) and NAME.match(name)):
        return name
    raise source.error(("defaults", "agent"), "not an agent's name", NAME_RULE)


def _limits(given: object, source: Source, adapters: Collection[str]) -> Fields:
    return fields_of(given, Limits, ("limits",), source)


def _policy(given: object, source: Source, adapters: Collection[str]) -> Fields:
    return fields_of(given, Policy, ("policy",), source)


def _notify(given: object, source: Source, adapters: Collection[str]) -> tuple[NotifyTarget, ...]:
    from beam.config.notify import parse_targets

    return parse_targets(given, source)


def _env_profiles(given: object, source: Source, adapters: Collection[str]) -> dict[str, Mapping[str, str]]:
    """Return the variables of each environment profile, by its name. They are checked like `env` of an agent."""
    profiles: dict[str, Mapping[str, str]] = {}
    for name, variables in as_mapping(given, (ENV_PROFILES,), source).items():
        if not PLAIN.match(name):
            raise source.error((ENV_PROFILES, name), "not a profile's name", "write it like work, or ci-2")
        at = (ENV_PROFILES, name)
        checked = settings_fields({"env": as_mapping(variables, at, source)}, at, source)["env"]
        profiles[name] = checked  # type: ignore[assignment]
    return profiles


def state_dir_in(data: bytes, path: Path, *, home: Path) -> Path | None:
    """Return the folder that `state_dir:` names in the bytes of a YAML file, with `~` replaced by `home`; None if the
    file has no `state_dir:`."""
    from beam.config.source import parse_yaml

    values, lines = parse_yaml(data, path)
    source = Source(str(path), lines)
    given = as_mapping(values, (), source).get("state_dir")
    folder = None if given is None else _state_dir(given, source, ())
    if folder is None:
        return None
    return home / folder[2:] if folder.startswith("~/") else Path(folder)


def _state_dir(given: object, source: Source, adapters: Collection[str]) -> str:
    if not isinstance(given, str) or not given.startswith(("/", "~/")) or "\0" in given:
        raise source.error(("state_dir",), "expected an absolute path", "write it like /srv/beam or ~/beam-state")
    return given


def _disabled(given: object, source: Source, adapters: Collection[str]) -> tuple[str, ...]:
    return disabled_adapters(given, ("disable",), source, adapters)


def disabled_adapters(given: object, at: tuple[str, ...], source: Source, adapters: Collection[str]) -> tuple[str, ...]:
    """Return the names of the adapters that are disabled. Raises ConfigError if a name is not the name of an
    adapter."""
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise source.error(at, "expected a list of adapters", "write it like [gemini, codex]")
    for name in given:
        if name not in adapters:
            raise source.error(at, f"there is no adapter {name[:80]!r}", nearest_or_all_hint(name, adapters))
    return tuple(given)


def _allow_fs(given: object, source: Source, adapters: Collection[str]) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(kind, str) for kind in given):
        raise source.error(("allow_fs",), "expected a list of file system types", "write it like [nfs4]")
    return tuple(given)


_SECTIONS: dict[str, Callable[[object, Source, Collection[str]], object]] = {
    "defaults": _defaults,
    "agents": _agents,
    "limits": _limits,
    "policy": _policy,
    "notify": _notify,
    "env_profiles": _env_profiles,
    "disable": _disabled,
    "allow_fs": _allow_fs,
    "state_dir": _state_dir,
}
