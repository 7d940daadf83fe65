"""The configuration of a root: its sources (agent.json, beam.yaml, the user's configuration, BEAM_* variables) and
their precedence.

Does not depend on adapters (their names are an argument), on whether a folder is trusted, or on the effect of a
setting.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from beam.base.digest import Stamp, sha256, stamp_of
from beam.base.errors import ConfigError, DiskError, NotFoundError, UsageError, nearest
from beam.config import file
from beam.config.fields import Fields, adapter_of, check_adapter, check_session, setting_from_text, settings_fields
from beam.config.file import ConfigFile
from beam.config.source import ParsedFiles, Source
from beam.config.source import nearest_or_all_hint as nearest_profile
from beam.model.message import NAME, RuleLists, base_of, check_name
from beam.model.settings import AgentSettings, Limits, Policy, limit_to_agent, without_allowing
from beam.root.paths import RootPaths, config_dir, user_home

BEAM_YAML = "beam.yaml"
USER_CONFIG_NAME = "config.yaml"
AGENT_JSON = "agent.json"
AGENT_JSON_VERSION = 1
USER_CONFIG = "user config"
BUILT_IN = "built in"
DEFAULT = "default"
SCENARIO = "the scenario"  # of `beam run`: its own settings win over every file, for the run alone

DISABLE_VARIABLE = "BEAM_DISABLE"  # a variable with the names of adapters, separated by commas

# BEAM_* variables that set a field of every agent, over any file.
VARIABLES = {
    "BEAM_MODEL": "model",
    "BEAM_ACCESS": "access",
    "BEAM_TIMEOUT": "timeout",
    "BEAM_IDLE_TIMEOUT": "idle_timeout",
    "BEAM_MAX_TURNS": "max_turns",
    "BEAM_BUDGET_USD": "budget_usd",
    "BEAM_RETRIES": "retries",
}


class AgentFile(Struct, frozen=True):
    """An agent.json file that was read: its path, and the SHA-256 of its bytes (hex)."""

    path: Path
    digest: str


class WrittenRules(Struct, frozen=True):
    """The rules that one source has for an agent. `whose` is that source. `is_general`: the rules are under `defaults`
    and hold for all agents."""

    lists: RuleLists
    whose: str
    is_general: bool = False


class Layer(Struct, frozen=True):
    """The settings that one source has for an agent. `is_general`: they are under `defaults`, for all agents."""

    origin: str
    fields: Fields
    is_general: bool = False


class ResolvedAgent(Struct, frozen=True, kw_only=True):
    """An agent with all its settings. `agent` is the agent that a session belongs to; for an agent, it is its own name.

    `origin` maps each field (and `env.NAME`) to its source: a BEAM_* variable, agent.json, beam.yaml, user config or
    default. `declared_in` is the source that declares the agent, `built in` for an adapter's own name. `base` is the
    folder that relative paths in the settings start from. A session has its agent's settings, and its own settings
    override them. `own` names the fields (and `env.NAME`) that the session itself sets, and `agent_files` are the
    agent.json files of the agent and the session. `rules` are the rules in `settings`, with the source of each.
    `is_access_own`: the access is written for this agent, and does not come from `defaults` or BEAM_ACCESS. `layers`
    are what `settings` were merged from, in the order of increasing precedence.
    """

    name: str
    agent: str
    settings: AgentSettings
    origin: Mapping[str, str]
    declared_in: str
    base: Path
    agent_files: tuple[AgentFile, ...] = ()
    own: frozenset[str] = frozenset()
    rules: tuple[WrittenRules, ...] = ()
    is_access_own: bool = False
    layers: tuple[Layer, ...] = ()

    def without(self, origins: Collection[str]) -> dict[str, object]:
        """Return the fields that the agent has from other sources than these."""
        return _merge([(layer.origin, layer.fields) for layer in self.layers if layer.origin not in origins])[0]


class _Layers(Struct, frozen=True):
    """The settings of one agent in all files: one layer for each file, in the order of increasing precedence. `files`
    has the agent's agent.json, if it exists."""

    layers: list[tuple[str, Fields]] = []
    files: tuple[AgentFile, ...] = ()

    @property
    def declared_in(self) -> list[str]:
        return [origin for origin, _ in self.layers]


class _CachedAgent(Struct, frozen=True):
    """A resolved agent, and the bytes of each agent.json that it was resolved from (None: there was no such file)."""

    resolved: ResolvedAgent
    files: tuple[tuple[Path, bytes | None], ...]

    def is_unchanged(self) -> bool:
        """Return whether the files still have the same bytes. Raises ConfigError, DiskError if they can't be read."""
        return all(file.read_bytes(path) == data for path, data in self.files)


class Config(Struct, frozen=True, kw_only=True, dict=True):
    """All settings of a root.

    `path` is the root's beam.yaml, None if there is none.
    """

    home: RootPaths
    adapters: Collection[str]
    path: Path | None
    limits: Limits
    policy: Policy
    disabled: Mapping[str, str]  # adapter -> the source that disables it
    allow_fs: tuple[str, ...]
    files: tuple[tuple[str, ConfigFile], ...]  # (origin, file), the weakest first
    variables: Mapping[str, object]  # BEAM_* name -> checked value
    stamps: tuple[Stamp, ...]  # of the files, taken before they were read; a long-lived process compares them

    def names(self) -> list[str]:
        """Return the names of all agents that a file or a command declared, sorted. An adapter whose name nobody
        declared as an agent is left out."""
        declared = {name for _, file in self.files for name in file.agents}
        return sorted(
            declared.union(name for name in self.home.agents() if _agent_json_path(self.home, name).is_file())
        )

    def with_scenario(self, path: Path, agents: Mapping[str, Fields]) -> Config:
        """Return this configuration with the settings of a scenario's agents added. They take precedence over every
        file."""
        return structs.replace(self, files=(*self.files, (SCENARIO, ConfigFile(path=path, agents=agents))))

    @property
    def default_agent(self) -> str | None:
        """Return the agent of messages that name none; None if no file says one."""
        return next((file.default_agent for _, file in reversed(self.files) if file.default_agent), None)

    @property
    def agents(self) -> dict[str, AgentSettings]:
        """Return the settings of every declared agent, by name. Raises ConfigError for the first agent with invalid
        settings."""
        return {name: self.resolve(name).settings for name in self.names()}

    def resolve(self, name: str) -> ResolvedAgent:
        """Return the agent of that name. The name of an adapter is an agent that needs no configuration.

        Raises NotFoundError, which suggests the most similar name. Raises ConfigError for an invalid agent.json or an
        agent without an adapter.
        """
        known = self._cached_agents.get(name)
        if known is not None and known.is_unchanged():
            return known.resolved
        files = {each: self._agent_file(each) for each in _agent_json_names(name)}
        resolved = self._resolve(name, files)
        self._cached_agents[name] = _CachedAgent(resolved, tuple(files.values()))
        return resolved

    @cached_property
    def _cached_agents(self) -> dict[str, _CachedAgent]:
        """Return the cache of resolved agents, by name. An entry is valid as long as its agent.json files are
        unchanged."""
        return {}

    def _agent_file(self, name: str) -> tuple[Path, bytes | None]:
        path = _agent_json_path(self.home, name)
        return path, file.read_bytes(path)

    def _resolve(self, name: str, files: Mapping[str, tuple[Path, bytes | None]]) -> ResolvedAgent:
        base = base_of(name) if files else name
        declared = self._layers_of(base, files)
        if not declared.declared_in and base not in self.adapters:
            raise self._not_found(name)
        general = [(origin, file.defaults) for origin, file in self.files if file.defaults]
        layers = [*general, *declared.layers]
        layers.sort(key=self._precedence)
        own = self._layers_of(name, files) if name != base else _Layers()
        variables = [(variable, {VARIABLES[variable]: value}) for variable, value in self.variables.items()]
        fields, origin = _merge([*layers, *own.layers, *variables])
        self._add_profile(fields, origin)
        declared_in = (*declared.declared_in, *own.declared_in)
        declared_by = declared_in[-1] if declared_in else BUILT_IN
        settings = AgentSettings(**self._with_adapter(base, fields, origin, declared_by))  # type: ignore[arg-type]
        if own.layers:
            settings = limit_to_agent(settings, AgentSettings(**_merge([*layers, *variables])[0]))  # type: ignore[arg-type]
        return ResolvedAgent(
            name=name,
            agent=base,
            settings=settings,
            origin={**dict.fromkeys(AgentSettings.__struct_fields__, DEFAULT), **origin},
            declared_in=declared_by,
            base=self.home.project,
            agent_files=(*declared.files, *own.files),
            own=frozenset(_merge(own.layers)[1]),
            rules=(*_rules_in(general, is_general=True), *_rules_in(declared.layers), *_rules_of_session(own.layers)),
            is_access_own="BEAM_ACCESS" not in self.variables
            and any("access" in layer for _, layer in (*declared.layers, *own.layers)),
            layers=(
                *(Layer(origin, each, is_general=any(each is one for _, one in general)) for origin, each in layers),
                *(Layer(origin, each) for origin, each in (*own.layers, *variables)),
            ),
        )

    def _layers_of(self, name: str, files: Mapping[str, tuple[Path, bytes | None]]) -> _Layers:
        """Return the layers of settings for exactly this agent, in the order of increasing precedence."""
        layers = [(origin, file.agents[name]) for origin, file in self.files if name in file.agents]
        path, data = files.get(name, (None, None))
        if path is None or data is None:
            return _Layers(layers)
        fields = _json_fields(data, path)
        check_session(name, fields, (), Source(str(path)))
        return _Layers([*layers, (AGENT_JSON, fields)], (AgentFile(path, sha256(data).hexdigest()),))

    def _precedence(self, layer: tuple[str, Fields]) -> int:
        origins = [origin for origin, _ in self.files]
        return [*(each for each in origins if each != SCENARIO), AGENT_JSON, SCENARIO].index(layer[0])

    def _with_adapter(
        self, name: str, fields: dict[str, object], origin: Mapping[str, str], declared_by: str
    ) -> Fields:
        adapter = adapter_of(name, fields, self.adapters)
        source = Source(self._path_of_origin(name, origin.get("adapter", declared_by)))
        if not adapter:
            known = list(self.adapters)
            some = ", ".join(known[:5]) + (", …" if len(known) > 5 else "")
            hint = f"write `adapter:` with one of {some} (beam agent list --all), or `command:` with a program"
            raise source.error(("agents", name), "says no adapter", hint)
        check_adapter(name, {"adapter": adapter}, (name,), source=source, adapters=self.adapters)
        if adapter in self.disabled:
            who = self.disabled[adapter]
            hint = f"to use it again, take it out of {who if who == DISABLE_VARIABLE else f'`disable:` in your {who}'}"
            raise ConfigError(f"{adapter} is switched off by {who}", hint, subject=name, kind="switched_off")
        return {**fields, "adapter": adapter}

    def _path_of_origin(self, name: str, origin: str) -> str:
        """Return the path of the agent's configuration file that `origin` names. If it names no file, return it
        unchanged."""
        if origin == AGENT_JSON:
            return str(_agent_json_path(self.home, name))
        return next((str(file.path) for who, file in self.files if who == origin), origin)

    def _add_profile(self, fields: dict[str, object], origin: dict[str, str]) -> None:
        """Add the variables of the agent's `env_profile` to its `env`. Variables that `env` has already are kept."""
        name = fields.get("env_profile")
        if not name:
            return
        written = [(who, file.env_profiles[str(name)]) for who, file in self.files if name in file.env_profiles]
        if not written:
            names = sorted({each for _, file in self.files for each in file.env_profiles})
            hint = nearest_profile(str(name), names) if names else "write it under `env_profiles:`"
            raise ConfigError(f"there is no environment profile {str(name)[:80]!r}", hint, subject=str(name)[:80])
        variables, whose = _merge([(who, {"env": values}) for who, values in written])
        own = fields.get("env")
        fields["env"] = {**variables["env"], **(own if isinstance(own, dict) else {})}  # type: ignore[dict-item]
        for key, who in whose.items():
            origin.setdefault(key, who)

    def _not_found(self, name: str) -> NotFoundError:
        known = list(dict.fromkeys([*self.names(), *self.adapters]))
        closest = nearest(name, known)
        if not closest or closest == base_of(name):
            check_name(name)
        declared = f"declared here: {', '.join(self.names())}; " if self.names() else ""
        every = f"{declared}beam agent list --all shows what there is, beam agent add makes one"
        hint = f"did you mean {closest}?" if closest else every
        return NotFoundError(f"no agent is called {name!r}", hint, subject=name)


def with_state_dir(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment. If it has no HOME, set HOME to the home directory in the user database, so that beam and
    all that it starts mean the same one. If it has no BEAM_STATE and the user's own configuration has `state_dir:`, set
    BEAM_STATE to that folder.

    Raises ConfigError for an invalid configuration, UsageError if BEAM_STATE is not an absolute path.
    """
    if not environ.get("HOME", "").startswith("/"):
        with contextlib.suppress(DiskError):  # who needs a home says so
            environ = {**environ, "HOME": str(user_home(environ))}
    named = environ.get("BEAM_STATE")
    if named:
        if not named.startswith("/"):
            raise UsageError(
                f"BEAM_STATE is {named[:200]!r}, not an absolute path", "set it to a path that begins with /"
            )
        return dict(environ)
    path = config_dir(environ) / USER_CONFIG_NAME
    data = file.read_bytes(path)
    if data is None or b"state_dir" not in data:  # YAML is read only where it can matter: this runs in each command
        return dict(environ)
    folder = file.state_dir_in(data, path, home=user_home(environ))
    return {**environ, "BEAM_STATE": str(folder)} if folder is not None else dict(environ)


def load(home: RootPaths, *, environ: Mapping[str, str], adapters: Collection[str], remembers: bool = False) -> Config:
    """Return the configuration of this root. `adapters` are the names of the existing adapters.

    `remembers`: agents can't write in the root, so the parsed files may be cached there. Raises ConfigError for the
    first part of a file or variable that beam does not understand. Reads no agent.json.
    """
    paths = _config_paths(home, environ)
    stamps = _stamps(paths)
    parsed = ParsedFiles(home.root if remembers else None)
    read = [(origin, file.read(path, adapters=adapters, parsed=parsed)) for origin, path in paths]
    parsed.remember()
    files = tuple((origin, file) for origin, file in read if file is not None)
    for each in (each for origin, each in files if origin == BEAM_YAML):
        for key, more in (("state_dir", ", or set BEAM_STATE"), ("allow_fs", "")):
            if getattr(each, key):
                hint = f"write it into {config_dir(environ) / USER_CONFIG_NAME}{more}"
                raise Source(str(home.config_file)).error((key,), "only your own configuration can say this", hint)
    return Config(
        home=home,
        adapters=adapters,
        path=next((file.path for origin, file in files if origin == BEAM_YAML), None),
        limits=Limits(**_merge([(origin, file.limits) for origin, file in files])[0]),  # type: ignore[arg-type]
        policy=Policy(**_merge([(origin, file.policy) for origin, file in files])[0]),  # type: ignore[arg-type]
        disabled=_disabled_adapters(files, environ.get(DISABLE_VARIABLE, ""), adapters),
        allow_fs=tuple(dict.fromkeys(kind for _, file in files for kind in file.allow_fs)),
        files=files,
        variables={
            name: setting_from_text(field, environ[name], (), Source(name))
            for name, field in VARIABLES.items()
            if environ.get(name)
        },
        stamps=stamps,
    )


def load_user_file(environ: Mapping[str, str], *, adapters: Collection[str]) -> ConfigFile | None:
    """Return the settings in the user's own configuration alone; None if there is no such file. Raises ConfigError,
    DiskError."""
    return file.read(config_dir(environ) / USER_CONFIG_NAME, adapters=adapters)


def stamps_of(home: RootPaths, environ: Mapping[str, str]) -> tuple[Stamp, ...]:
    """Return the current stamps of the configuration files of this root, to detect later changes."""
    return _stamps(_config_paths(home, environ))


def _stamps(paths: tuple[tuple[str, Path], ...]) -> tuple[Stamp, ...]:
    return tuple(stamp_of(path) for _, path in paths)


def _config_paths(home: RootPaths, environ: Mapping[str, str]) -> tuple[tuple[str, Path], ...]:
    """Return each origin with the path of its file, in the order of increasing precedence."""
    return (USER_CONFIG, config_dir(environ) / USER_CONFIG_NAME), (BEAM_YAML, home.config_file)


def _disabled_adapters(
    files: tuple[tuple[str, ConfigFile], ...], variable: str, adapters: Collection[str]
) -> dict[str, str]:
    named = [name.strip() for name in variable.split(",") if name.strip()]
    off = file.disabled_adapters(named, (), Source(DISABLE_VARIABLE), adapters)
    return {**{name: origin for origin, each in files for name in each.disable}, **dict.fromkeys(off, DISABLE_VARIABLE)}


def _merge(layers: list[tuple[str, Fields]]) -> tuple[dict[str, object], dict[str, str]]:
    """Merge the layers: later layers override earlier ones field by field, and variable by variable within `env`. Rules
    of all layers are combined. Return the fields and the origin of each."""
    fields: dict[str, object] = {}
    origin: dict[str, str] = {}
    for who, layer in layers:
        for key, value in layer.items():
            before = fields.get(key)
            if isinstance(value, RuleLists):
                fields[key] = before.plus(value) if isinstance(before, RuleLists) else value
                origin[key] = who
                continue
            fields[key] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
            origin[key] = who
            if isinstance(value, dict):
                origin.update((f"{key}.{name}", who) for name in value)
    return fields, origin


def _rules_in(layers: list[tuple[str, Fields]], *, is_general: bool = False) -> list[WrittenRules]:
    found = ((lists, who) for who, layer in layers if isinstance(lists := layer.get("rules"), RuleLists))
    return [WrittenRules(lists, who, is_general) for lists, who in found]


def _rules_of_session(layers: list[tuple[str, Fields]]) -> list[WrittenRules]:
    """Return the session's own rules that deny or ask. Rules that allow are left out, because they come from its
    agent."""
    return [structs.replace(each, lists=without_allowing(each.lists)) for each in _rules_in(layers)]


def _agent_json_names(name: str) -> tuple[str, ...]:
    """Return the names whose agent.json matters for this agent: its own and, for a session, also its agent's."""
    if not NAME.match(name):
        return ()
    return (base_of(name), name) if "@" in name else (name,)


# -- agent.json --------------------------------------------------------------------------------------------------------


def _agent_json_path(home: RootPaths, name: str) -> Path:
    return home.agent(name).dir / AGENT_JSON


def _json_fields(data: bytes, path: Path) -> dict[str, object]:
    try:
        values = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        hint = "mend it, or make it anew with beam agent add"
        raise ConfigError(f"{path}: not JSON: {error}", hint, subject=str(path)) from error
    if isinstance(values, dict):
        version = values.pop("v", AGENT_JSON_VERSION)
        if version != AGENT_JSON_VERSION:
            what = f"{path} is of version {str(version)[:20]}, and this beam reads up to {AGENT_JSON_VERSION}"
            raise ConfigError(what, "a newer beam wrote it: upgrade this one", subject=str(path))
    return settings_fields(values, (), Source(str(path)))


def parse_agent_json(data: bytes, path: Path) -> AgentSettings:
    """Return the settings in the bytes of an agent.json. Raises ConfigError, whose text names `path`."""
    return AgentSettings(**_json_fields(data, path))  # type: ignore[arg-type]


def encode_agent_json(settings: AgentSettings) -> bytes:
    """Return the bytes of an agent.json: its version and the fields that differ from the default, one per line."""
    nothing = AgentSettings()
    names = [name for name in settings.__struct_fields__ if getattr(settings, name) != getattr(nothing, name)]
    values = {"v": AGENT_JSON_VERSION, **{name: getattr(settings, name) for name in names}}
    return msgspec.json.format(msgspec.json.encode(values)) + b"\n"
