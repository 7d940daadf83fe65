"""Each field that a stranger can write has a row that says what it may do, and does no more than that without trust."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest

from beam.agents import registry
from beam.broker.inbox.context import RootContext
from beam.config.fields import settings_fields
from beam.config.file import _SECTIONS
from beam.config.resolve import load
from beam.config.source import Source
from beam.conversations import language, shape
from beam.conversations.read import parse
from beam.conversations.scenario import TurnOptions
from beam.conversations.trusted import KEYS, findings_of_scenario
from beam.model.message import RuleLists
from beam.model.settings import AgentSettings, Limits, Policy
from beam.trust.declarations import AdapterFacts, findings_of_agent, findings_of_scenario_agent
from beam.trust.effects import LIMITS, POLICY, RULES, SECTIONS, SETTINGS, Effect
from tests.config.test_resolve import ADAPTERS, Folder
from tests.support.cli import Cli
from tests.support.context import Root


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def made(path: Path) -> Path:
    path.mkdir()
    return path


def fields_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {each.name: each.type for each in msgspec.structs.fields(kind)}


def keys_of(part: shape.Shape, seen: set[int]) -> set[str]:
    """Every key of every table in the language of scenarios."""
    if id(part) in seen:
        return set()
    seen.add(id(part))
    found: set[str] = set()
    tables = [part] if isinstance(part, shape.Table) else []
    inner: list[shape.Shape] = []
    if isinstance(part, shape.OneOfTables):
        tables += part.cases.values()
    if isinstance(part, (shape.OneOrMore, shape.NamedValues)):
        inner.append(part.each)
    if isinstance(part, shape.EitherKind):
        inner += part.shapes.values()
    if isinstance(part, shape.ShapeReference):
        inner.append(part.shapes[part.name])
    for table in tables:
        found |= set(table.fields)
        inner += table.fields.values()
    return found.union(*(keys_of(each, seen) for each in inner))


@pytest.mark.parametrize(
    ("rows", "fields"),
    [
        (SETTINGS, set(fields_of(AgentSettings))),
        (RULES, set(fields_of(RuleLists))),
        (LIMITS, set(fields_of(Limits))),
        (POLICY, set(fields_of(Policy))),
        (SECTIONS, set(_SECTIONS) - {"state_dir", "allow_fs"}),
        (KEYS, keys_of(language.FILE, set())),
        ({name: KEYS[name] for name in fields_of(TurnOptions)}, set(fields_of(TurnOptions))),
    ],
    ids=["settings", "rules", "limits", "policy", "sections", "scenario", "turn"],
)
def test_each_field_that_a_stranger_can_write_has_a_row_with_its_reason(
    rows: dict[str, Effect], fields: set[str]
) -> None:
    assert set(rows) == fields
    for effect in rows.values():
        assert effect.kind in ("needs trust", "may only lower", "harmless")
        assert effect.because


# -- settings ----------------------------------------------------------------------------------------------------------

HARM: dict[str, object] = {  # of the fields whose type gives no value that does harm
    "adapter": "scripted",
    "access": "full",
    "cwd": "../elsewhere",
    "envelope": "the person says by {from}:",
    "script": "./s.yaml",
    "rules": {"allow": ["Bash"]},
    "screen": {"rows": 50},
    "env_profile": "evil",
}
NO_HARM: dict[str, object] = {  # of the fields that need trust for some values only
    "adapter": "claude",
    "access": "read",
    "cwd": "src",
    "envelope": "short",
    "script": "demo",
    "rules": {"deny": ["Bash"], "ask": ["Edit"]},
}
PERSONS: dict[str, dict[str, object]] = {  # what the agent is by the person's own configuration, beside claude
    **{key: {"command": ["cat"]} for key in ("format", "reply_path", "session_path", "cost_path", "protocol")},
    "script": {"adapter": "scripted"},
    "lease": {"adapter": "mailbox"},
}
PLACES = ("agents", "defaults", "agent.json", "scenario")


def harmful(field: str) -> object:
    """A value which does harm: of the field's type, and another one than the default."""
    if field in HARM:
        return HARM[field]
    types = [part for each in (fields_of(AgentSettings)[field],) for part in (each, *get_args(each))]
    for each in types:
        if get_origin(each) is Literal:
            return get_args(each)[-1]
        if get_origin(each) is dict:
            return {"LD_PRELOAD": "./e.so"}
        if get_origin(each) is tuple:
            return ["evil", "word"]
    return True if bool in types else "evil" if str in types else 77


def asked(folder: Folder, where: str, field: str, value: object, own: object = None) -> tuple[list[str], object]:
    """What has to be trusted where a stranger sets the field in that place, and the value that the agent has then.
    `own`: the person's own value of the field; None if the person has set none."""
    mine = {**PERSONS.get(field, {}), **({field: own} if own is not None else {})}
    agent = "x" if field in PERSONS else "claude"
    folder.user_config(json.dumps({"env_profiles": {"evil": {}}, "agents": {agent: mine} if mine else {}}))
    if where in ("agents", "defaults"):
        folder.yaml(json.dumps({where: {agent: {field: value}} if where == "agents" else {field: value}}))
    if where == "agent.json":
        folder.agent_json(agent, json.dumps({field: value}))
    config = load(folder.root, environ={"XDG_CONFIG_HOME": str(folder.user)}, adapters=registry.NAMES)
    facts = AdapterFacts(adapters=tuple(registry.ADAPTERS))
    if where == "scenario":
        fields = settings_fields({field: value}, (), Source("s.yaml"))
        config = config.with_scenario(folder.root.project / "s.yaml", {agent: fields})
        found = findings_of_scenario_agent(config, config.resolve(agent), facts)
    else:
        found = findings_of_agent(config, config.resolve(agent), facts)
    return [each.name for each in found], getattr(config.resolve(agent).settings, field)


def rows(kind: str) -> list[str]:
    return [name for name, effect in SETTINGS.items() if effect.kind == kind]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("field", rows("needs trust"))
def test_a_setting_that_needs_trust_is_asked_about_wherever_a_stranger_writes_it(
    folder: Folder, where: str, field: str
) -> None:
    assert asked(folder, where, field, harmful(field))[0]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("field", [name for name, effect in SETTINGS.items() if effect.when and name in NO_HARM])
def test_a_value_that_a_row_leaves_out_needs_no_trust(folder: Folder, where: str, field: str) -> None:
    assert asked(folder, where, field, NO_HARM[field])[0] == []


def test_each_setting_that_needs_trust_only_for_some_values_has_such_a_value_here() -> None:
    assert {name for name in rows("needs trust") if SETTINGS[name].when} == set(NO_HARM)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("field", rows("may only lower"))
def test_a_bound_is_lowered_without_trust_and_raised_only_with_it(tmp_path: Path, where: str, field: str) -> None:
    assert asked(Folder(made(tmp_path / "lower")), where, field, 2, own=4) == ([], 2)
    (raised,), _ = asked(Folder(made(tmp_path / "raised")), where, field, 8, own=4)
    assert f" raises the {field} of " in raised
    bound = SETTINGS[field].unset
    assert bound is not None
    if bound != math.inf:
        assert asked(Folder(made(tmp_path / "above the default")), where, field, int(bound) + 1)[0]
    if bound:
        below = 10**6 if bound == math.inf else int(bound)
        assert asked(Folder(made(tmp_path / "below the default")), where, field, below)[0] == []


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("field", rows("harmless"))
def test_a_harmless_setting_needs_no_trust(folder: Folder, where: str, field: str) -> None:
    assert asked(folder, where, field, harmful(field)) == ([], harmful(field))


def test_what_the_person_has_said_already_needs_no_trust(folder: Folder) -> None:
    assert asked(folder, "agents", "model", "opus", own="opus") == ([], "opus")


def test_an_agent_of_the_persons_own_is_not_made_another_one(folder: Folder) -> None:
    folder.user_config("agents: {reviewer: {adapter: claude, access: full}}")
    config = folder.yaml("agents: {reviewer: {adapter: scripted}}").load()
    found = findings_of_agent(config, config.resolve("reviewer"), AdapterFacts(adapters=ADAPTERS))
    assert [each.name for each in found] == ["beam.yaml makes reviewer another agent: scripted"]


@pytest.mark.parametrize("behavior", RULES)
def test_only_a_rule_that_allows_needs_trust(folder: Folder, behavior: str) -> None:
    found, _ = asked(folder, "agents", "rules", {behavior: ["Bash"]})
    assert bool(found) is (RULES[behavior].kind == "needs trust")


# -- limits and policy -------------------------------------------------------------------------------------------------


def opened(root: Root) -> RootContext:
    """The context of a root as a command has it."""
    context = root.context
    return RootContext.load(
        context.home, environ=root.environ, clock=root.clock, carry_out=context.carry_out, exposed=None
    )


@pytest.mark.parametrize("field", LIMITS)
def test_a_limit_of_a_strangers_has_no_effect_that_loosens_where_no_turn_runs_either(
    tmp_path: Path, field: str
) -> None:
    own = int(min(getattr(Limits(), field), 1000)) * 2  # some have no bound by default
    for value in (own // 2, own + 5):
        root = Root(made(tmp_path / str(value)), limits=f"{{{field}: {value}}}")
        root.environ["BEAM_TRUST"] = ""
        mine = Path(root.environ["HOME"]) / ".config" / "beam"
        mine.mkdir(parents=True)
        (mine / "config.yaml").write_text(f"limits: {{{field}: {own}}}")
        context = opened(root)
        is_free = LIMITS[field].kind == "may only lower" and value < own
        assert getattr(context.config.limits, field) == (value if is_free else own)
        resolved = context.config.resolve("box")
        said = [each.name for each in findings_of_agent(context.config, resolved, AdapterFacts())]
        assert any(f"the limit {field} " in each for each in said) is not is_free
        root.environ["BEAM_TRUST"] = "1"
        assert getattr(opened(root).config.limits, field) == value


@pytest.mark.parametrize("field", POLICY)
def test_a_policy_of_a_strangers_has_no_effect_where_no_turn_runs_either(root: Root, field: str) -> None:
    value: object = {"retry": ["crashed"], "usage_limit": "wait", "fallback": ["other"]}.get(field, 7)
    with root.context.home.config_file.open("a") as file:
        file.write(f"policy: {json.dumps({field: value})}\n")
    root.environ["BEAM_TRUST"] = ""
    context = opened(root)
    assert context.config.policy == Policy()
    assert findings_of_agent(context.config, context.config.resolve("box"), AdapterFacts())
    root.environ["BEAM_TRUST"] = "1"
    assert opened(root).config.policy != Policy()


# -- scenarios ---------------------------------------------------------------------------------------------------------

STEPS = {
    "defaults": "defaults: {%s}\nsteps: [{send: other, prompt: x}]",
    "send": "steps: [{send: other, prompt: x, %s}]",
    "chat": "steps: [{chat: [other, worker], prompt: x, %s}]",
    "judge": "steps: [{send: worker, prompt: x}, {judge: other, rubric: x, %s}]",
    "judging check": "steps: [{send: worker, prompt: x, expect: {judge: {agent: other, rubric: x, %s}}}]",
}
OPTION_VALUES = {"model": ("opus",), "access": ("edit", "full", "ask"), "via": ()}


@pytest.mark.parametrize("where", STEPS)
@pytest.mark.parametrize("option", fields_of(TurnOptions))
def test_an_option_of_a_strangers_turn_needs_trust_where_its_row_says_so(root: Root, where: str, option: str) -> None:
    def found(value: object) -> list[str]:
        text = f"beam: 1\n{STEPS[where] % f'{option}: {value}'}\n"
        scenario = parse(text.encode(), root.base / "s.yaml", {}, name="s.yaml")
        return [each.name for each in findings_of_scenario(scenario, root.reload())]

    mine = Path(root.environ["HOME"]) / ".config" / "beam"
    mine.mkdir(parents=True)
    if KEYS[option].kind == "may only lower":
        (mine / "config.yaml").write_text(f"defaults: {{{option}: 4}}")
        assert found(3) == []
        assert f"it raises the {option} of other from " in found(5)[0]
    for value in OPTION_VALUES.get(option, ()):
        assert found(value)
    if KEYS[option].kind == "harmless":
        assert found("exec") == []


# -- the whole command -------------------------------------------------------------------------------------------------


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("agent", "top"),
    [
        ("tolerate: denied", ""),
        ("model: opus", ""),
        ("timeout: 24h", ""),
        ("schema: ../elsewhere.json", ""),
        ("", "limits: {known_ids_days: 0}"),
        ("", "policy: {attempts: 9}"),
    ],
)
def test_a_strangers_folder_runs_nothing_with_what_it_loosens(beam: Cli, agent: str, top: str) -> None:
    mine = beam.base / "home/.config/beam"
    mine.mkdir(parents=True)
    (mine / "config.yaml").write_text("agents: {act: {command: [touch, acted]}}\n")
    beam.config(f"agents: {{act: {{{agent}}}}}\n{top}\n", trusted=False)
    done = beam("send", "act", "hi")
    assert done.code == 2 and "beam trust" in done.err
    assert not (beam.project / "acted").exists()
    beam.config(f"agents: {{act: {{{agent}}}}}\n{top}\n")
    assert "beam trust" not in beam("send", "act", "hi").err


@pytest.mark.acceptance
@pytest.mark.parametrize("field", [name for name in SETTINGS if name not in ("description", "lease", "protocol")])
def test_an_agent_json_in_an_exposed_root_loosens_nothing(beam: Cli, field: str) -> None:
    beam.config("", trusted=False)
    value = harmful(field)
    if SETTINGS[field].kind == "may only lower":
        value = 10**6
        mine = beam.base / "home/.config/beam"
        mine.mkdir(parents=True)
        (mine / "config.yaml").write_text(f"defaults: {{{field}: 4}}\n")
    folder = beam.project / "state/agents/claude"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "agent.json").write_text(json.dumps({**PERSONS.get(field, {}), field: value}))
    done = beam("--root", "state", "send", "claude", "hi")
    assert done.code == 2, done
