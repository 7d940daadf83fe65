"""Reads a scenario file: YAML in, a checked scenario out. Every error has its line, its column and a hint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from beam.base import files
from beam.base.digest import sha256
from beam.base.errors import ConfigError, DiskError, NotFoundError, UsageError
from beam.config.source import Source, nearest_or_all_hint, parse_with_source
from beam.conversations.expect import STEPLESS_CHECKS
from beam.conversations.language import FILE, VARIABLE, VERSION
from beam.conversations.scenario import (
    At,
    Chat,
    Check,
    CheckStep,
    Command,
    Judge,
    Judging,
    Parallel,
    Part,
    Run,
    Scenario,
    Send,
    Spending,
    Step,
    TurnOptions,
    Until,
    Worktree,
    agents_of,
)
from beam.model.message import PLAIN

LARGEST_FILE = 1 << 20
_VARIABLE = re.compile(r"\$(\$?)\{([^{}\n]*)\}")
_TURN_OPTIONS = TurnOptions.__struct_fields__
_HINT = "docs/scenarios.md has all keys; editors take `beam dev schema scenario`"
TableValues = dict[str, Any]  # the values of a table, already checked by its shape


def read(path: Path, variables: Mapping[str, str], *, shown: str | None = None) -> Scenario:
    """Return the scenario in a file, with these values for its variables. `shown` is the file's name in errors.

    Raises NotFoundError if there is no such file, ConfigError with line and column, UsageError for a variable that the
    file does not declare.
    """
    name = shown or str(path)
    try:
        data = files.read(path, LARGEST_FILE, follow=True)
    except FileNotFoundError as error:
        hint = "beam run takes the path of a scenario" + (
            "" if path.suffix else f"; to an agent: beam send {name} TEXT"
        )
        raise NotFoundError(f"there is no file {name}", hint, subject=name) from error
    except DiskError as error:
        raise ConfigError(f"{name}:1:1: {error.message}", "a scenario is a small YAML file", subject=name) from error
    return parse(data, path, variables, name=name)


def parse(data: bytes, path: Path, variables: Mapping[str, str], *, name: str) -> Scenario:
    """Return the scenario in the bytes of a file. Raises ConfigError, UsageError."""
    try:
        value, source = parse_with_source(data, name)
        _check_version(value, source)
        top = FILE.read(value, (), source)
        return _ScenarioReader(source, top, path, variables).scenario(sha256(data).hexdigest())
    except ConfigError as error:
        if error.hint:
            raise
        raise ConfigError(error.message, _HINT, subject=error.subject) from error


def _check_version(value: object, source: Source) -> None:
    """Raise ConfigError if the file has another version or none, before any other error in the file is reported."""
    if not isinstance(value, dict):
        raise source.error((), "this is no scenario", f"begin with `beam: {VERSION}`, then `steps:`")
    if "beam" not in value:
        what = "unknown key" if value and next(iter(value)) not in FILE.fields else "says no version"
        at = (str(next(iter(value))),) if what == "unknown key" else ()
        near = nearest_or_all_hint(at[0], tuple(FILE.fields)) + "; " if at else ""
        raise source.error(at, what, f"{near}begin with `beam: {VERSION}`")
    FILE.fields["beam"].read(value["beam"], ("beam",), source)
    if value["beam"] != VERSION:
        raise source.error(
            ("beam",), f"version {str(value['beam'])[:20]} is unknown", f"this beam reads version {VERSION}"
        )


class _ScenarioReader:
    """Makes a `Scenario` from the tables of one file. A step can refer only to steps that were read before it."""

    def __init__(self, source: Source, top: TableValues, path: Path, given: Mapping[str, str]) -> None:
        self._source = source
        self._top = top
        self._path = path
        self._variables = self._variable_values(given)
        self._speaks: dict[str, bool] = {}  # id of a step -> whether it has a reply
        self._last = ""  # id of the last step with a reply
        self._schemas: dict[str, None] = {}  # paths of files with a JSON Schema
        self._took_part: set[str] = set()  # the agents of the steps before this one
        self._defaults = _options(top.get("defaults", {}))

    def scenario(self, digest: str) -> Scenario:
        top = self._top
        steps = tuple(self._steps(top["steps"], ("steps",), ""))
        worktree = top.get("worktree", False)
        repeat = top.get("repeat", {})
        return Scenario(
            name=top.get("name") or _name_of(self._path),
            path=self._path,
            folder=self._path.parent,
            source=self._source,
            digest=digest,
            description=top.get("description", ""),
            variables=self._variables,
            agents=self._agents(top.get("agents", {})),
            worktree=self._worktree(worktree) if worktree is not False else None,
            limits=Spending(**top.get("limits", {})),
            allow=frozenset(top.get("allow", ())),
            times=repeat.get("times", 1),
            pass_rate=repeat.get("pass_rate", 1.0),
            steps=steps,
            schemas=tuple(self._schemas),
        )

    def _variable_values(self, given: Mapping[str, str]) -> dict[str, str]:
        declared: TableValues = self._top.get("variables", {})
        for name in given:
            if name not in declared:
                raise UsageError(
                    f"{self._source.name} has no variable {name!r}",
                    nearest_or_all_hint(name, tuple(declared)) if declared else "declare it under `variables:`",
                    subject=name,
                )
        values = {}
        for name, default in declared.items():
            if name not in given and default is None:
                hint = f"give it one: --set {name}=VALUE"
                raise self._source.error(("variables", name), "this variable has no value", hint)
            value = given.get(name, default)
            values[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return values

    def _agents(self, given: TableValues) -> dict[str, Mapping[str, object]]:
        found: dict[str, Mapping[str, object]] = {}
        for name, settings in given.items():
            fields = dict(settings)
            script = fields.get("script")
            if isinstance(script, str) and not PLAIN.match(script):
                fields["script"] = str(self._existing_file(script, ("agents", name, "script")))
            found[name] = fields
        return found

    def _worktree(self, given: object) -> Worktree:
        if not isinstance(given, dict):
            return Worktree()
        branch = self._fill_variables(given.get("branch", ""), ("worktree", "branch")) if "branch" in given else ""
        return Worktree(keep=given.get("keep", False), start=given.get("from", "HEAD"), branch=branch)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _steps(self, given: tuple[Any, ...], at: At, prefix: str) -> list[Step]:
        before = self._last
        found = []
        spoken: dict[str, bool] = {}
        for number, (kind, table) in enumerate(given):
            place = (*at, str(number))
            name = table.get("id") or f"{prefix}{number + 1}"
            if name in self._speaks or name in spoken:
                raise self._source.error((*place, "id"), f"another step is called {name!r}", "give it another name")
            if prefix:
                self._last = before  # parallel steps can't refer to each other
            found.append(self._step(kind, table, place, name))
            if not prefix:
                self._took_part.update(agent for agent, _ in agents_of(found[-1]))
            spoken[name] = kind in ("send", "chat", "judge", "run")
            if not prefix:
                self._speaks |= spoken
                spoken = {}
                if self._speaks[name]:
                    self._last = name
        if prefix:
            self._speaks |= spoken
            self._took_part.update(agent for step in found for agent, _ in agents_of(step))
            self._last = next((name for name in reversed(spoken) if spoken[name]), before)
        return found

    def _step(self, kind: str, given: TableValues, at: At, name: str) -> Step:
        any_step: TableValues = {
            "id": name,
            "at": at,
            "expect": self._checks(given.get("expect", ()), (*at, "expect")),
            "allow": frozenset(given.get("allow", ())),
        }
        options = _options(given).with_defaults(self._defaults)
        if options.model is not None:
            options = msgspec.structs.replace(options, model=self._fill_variables(options.model, (*at, "model")))
        match kind:
            case "send":
                self._check_named_once(given["send"], (*at, "send"))
                schema = given.get("schema")
                return Send(
                    agents=given["send"],
                    prompt=self._prompt(given["prompt"], (*at, "prompt")),
                    context_from=self._context_agent(given, at),
                    context=given.get("context", "recent"),
                    options=options,
                    schema=None if schema is None else self._schema(schema, (*at, "schema")),
                    **any_step,
                )
            case "chat":
                return self._chat(given, at, options, any_step)
            case "judge":
                judging = Judging(
                    agent=given["judge"], rubric=given["rubric"], score=given.get("score", 7.0), options=options
                )
                return Judge(judging=judging, of=self._referenced_step(given, at), **any_step)
            case "run":
                command = self._command(given["run"], (*at, "run"))
                return Run(command=command, timeout=given.get("timeout", 600.0), **any_step)
            case "check":
                checks = self._checks(given["check"], (*at, "check"))
                needs_step = any(each.kind not in STEPLESS_CHECKS for each in checks)
                any_step["expect"] = checks
                return CheckStep(of=self._referenced_step(given, at, needed=needs_step), **any_step)
        inner = self._steps(given["parallel"], (*at, "parallel"), f"{name}.")
        if any(isinstance(step, Parallel) for step in inner):
            raise self._source.error(
                (*at, "parallel"), "a parallel step inside of one", "put its steps beside each other"
            )
        return Parallel(steps=tuple(inner), **any_step)

    def _chat(self, given: TableValues, at: At, options: TurnOptions, any_step: TableValues) -> Chat:
        agents, order, moderator = given["chat"], given.get("order", "round_robin"), given.get("moderator")
        self._check_named_once(agents, (*at, "chat"))
        if len(agents) < 2:
            raise self._source.error((*at, "chat"), "a chat needs two agents", "for one alone, use `send`")
        if (order == "moderator") != (moderator is not None):
            key = "moderator" if moderator is not None else "order"
            raise self._source.error(
                (*at, key), "`order: moderator` and `moderator:` go together", "write both, or neither"
            )
        if moderator in agents:
            raise self._source.error((*at, "moderator"), f"{moderator} takes part itself", "name an agent beside them")
        until = given.get("until", {})
        checks = self._checks((until["check"],), (*at, "until", "check")) if "check" in until else ()
        return Chat(
            agents=agents,
            prompt=self._prompt(given["prompt"], (*at, "prompt")),
            order=order,
            moderator=moderator,
            until=Until(**{**until, "check": checks}),
            options=options,
            **any_step,
        )

    def _check_named_once(self, agents: tuple[str, ...], at: At) -> None:
        for number, name in enumerate(agents):
            if name in agents[:number]:
                raise self._source.error((*at, str(number)), f"{name} is named twice", "name each agent once")

    def _context_agent(self, given: TableValues, at: At) -> str | None:
        """Return the agent whose turns so far are quoted in the prompt; None if nothing is quoted. That agent must take
        part in an earlier step."""
        agent: str | None = given.get("context_from")
        if agent is None:
            return None
        at = (*at, "context_from")
        if agent in given["send"]:
            raise self._source.error(at, f"{agent} knows what it did itself", "name another agent, or leave it out")
        if agent not in self._took_part:
            known = tuple(sorted(self._took_part))
            hint = nearest_or_all_hint(agent, known) if known else "put a step before it that sends to the agent"
            raise self._source.error(at, f"{agent} takes part in no step before this one", hint)
        return agent

    def _referenced_step(self, given: TableValues, at: At, *, needed: bool = True) -> str:
        if "of" in given:
            return self._earlier_step(given["of"], (*at, "of"))
        if needed and not self._last:
            raise self._source.error(at, "there is no step before it that says anything", "name one: `of: STEP`")
        return self._last

    def _earlier_step(self, name: str, at: At) -> str:
        if name not in self._speaks:
            known = [each for each in self._speaks if self._speaks[each] and not each[0].isdigit()]
            hint = nearest_or_all_hint(name, known) if known else "give an earlier step an `id:`"
            raise self._source.error(at, f"no step before this one is called {name!r}", hint)
        if not self._speaks[name]:
            raise self._source.error(at, f"step {name!r} says nothing", "name one that sends, chats, judges or runs")
        return name

    # -- parts of steps ------------------------------------------------------------------------------------------------

    def _prompt(self, given: object, at: At) -> tuple[Part, ...]:
        if not isinstance(given, tuple):
            return (self._prompt_part(given, at),)
        return tuple(self._prompt_part(each, (*at, str(number))) for number, each in enumerate(given))

    def _prompt_part(self, given: object, at: At) -> Part:
        if not isinstance(given, dict):
            return Part(kind="text", value=cast(str, given), at=at)
        ((kind, value),) = given.items()
        at = (*at, kind)
        match kind:
            case "template":
                return Part(kind="text", value=self._fill_variables(value, at), at=at)
            case "file":
                return Part(kind="file", value=str(self._existing_file(self._fill_variables(value, at), at)), at=at)
            case "reply":
                return Part(kind="reply", value=self._earlier_step(value, at), at=at)
            case "diff" if not value:
                raise self._source.error(at, "a diff that is not wanted", "leave it out")
        return Part(kind=kind, value=str(value), at=at)

    def _existing_file(self, path: str, at: At) -> Path:
        found = self._path.parent / path
        try:
            is_file = found.is_file()
        except (OSError, ValueError):
            is_file = False
        if not is_file:
            names = files.unsorted_names(found.parent) if found.parent.is_dir() else []
            hint = nearest_or_all_hint(found.name, names) if names else f"paths start in {self._path.parent}"
            raise self._source.error(at, f"there is no file {path[:200]}", hint[:200])
        return found

    def _schema(self, given: object, at: At) -> str:
        if isinstance(given, dict):
            return msgspec.json.encode(given).decode()
        path = self._existing_file(str(given), at)
        from beam.conversations.shape import JsonSchema

        try:
            value = msgspec.json.decode(files.read(path, LARGEST_FILE, follow=True))
        except (ValueError, RecursionError) as error:
            raise self._source.error(at, f"{path.name} is not JSON: {error}", "a schema is a JSON file") from error
        JsonSchema().read(value, at, self._source)
        self._schemas[str(path)] = None
        return msgspec.json.encode(value).decode()

    def _command(self, given: str | tuple[str, ...], at: At) -> Command:
        if isinstance(given, str):
            return given
        return tuple(self._fill_variables(word, (*at, str(number))) for number, word in enumerate(given))

    def _checks(self, given: tuple[TableValues, ...], at: At) -> tuple[Check, ...]:
        found = []
        for number, table in enumerate(given):
            place = (*at, str(number)) if (*at, str(number)) in self._source.lines else at
            for kind, value in table.items():
                here = (*place, kind)
                match kind:
                    case "schema":
                        value = self._schema(value, here)
                    case "command":
                        value = self._command(value, here)
                    case "judge":
                        judge = dict(value)
                        value = Judging(
                            agent=judge["agent"],
                            rubric=judge["rubric"],
                            score=judge.get("score", 7.0),
                            options=_options(judge).with_defaults(self._defaults),
                        )
                found.append(Check(kind=kind, value=value, at=here))
        return tuple(found)

    def _fill_variables(self, text: str, at: At) -> str:
        """Return the text with the values of its variables; `$${name}` stands for `${name}` itself."""

        def value(match: re.Match[str]) -> str:
            if match[1]:
                return match[0][1:]
            name = match[2].strip()
            if name in self._variables:
                return self._variables[name]
            known = tuple(self._variables)
            near = nearest_or_all_hint(name, known) if known else f"declare it: variables: {{{name}: VALUE}}"
            if re.fullmatch(VARIABLE, name) is None:
                near = "write $${…} for a text that is no variable"
            raise self._source.error(at, f"there is no variable {name[:60]!r}", near)

        return _VARIABLE.sub(value, text)


def _options(given: TableValues) -> TurnOptions:
    return TurnOptions(**{name: given[name] for name in _TURN_OPTIONS if name in given})


def _name_of(path: Path) -> str:
    """Return the name of a scenario, made from the name of its file: small letters, digits and dashes."""
    plain = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:20].strip("-")
    return plain or "scenario"
