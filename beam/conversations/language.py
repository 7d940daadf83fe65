"""The language of scenario files: every key, the shape of its value, and the JSON Schema of the whole file."""

from __future__ import annotations

from typing import get_args

from beam.conversations.shape import (
    Choice,
    EitherKind,
    Flag,
    JsonSchema,
    NamedValues,
    Nothing,
    Number,
    OneOfTables,
    OneOrMore,
    Regex,
    Schema,
    Seconds,
    Settings,
    Shape,
    ShapeReference,
    Table,
    Text,
)
from beam.model.hand_over import ContextMode
from beam.model.outcome import Status

VERSION = 1
AGENT = Text(r"[a-z0-9][a-z0-9_-]{0,39}", "an agent's name")
ID = Text(r"[a-z][a-z0-9_-]{0,39}", "the name of a step")
VARIABLE = r"[a-z][a-z0-9_]{0,39}"
ALLOWED = ("denied", "empty", "truncated", "no_calls", "unfinished")  # outcomes that count as failures in CI
MAX_STEPS = 2000

_TEXTS = OneOrMore(Text())
_COMMAND = EitherKind("a command", {"str": Text(), "list": OneOrMore(Text(), alone=False)})
_SCHEMA = EitherKind("a schema", {"str": Text(), "dict": JsonSchema()})
_COUNT = Number(0, 10**9, whole=True)
_TURN: dict[str, Shape] = {
    "model": Text(),
    "access": Choice(("read", "ask", "edit", "full")),
    "via": Choice(("auto", "exec", "dialogue", "terminal")),
    "timeout": Seconds(),
    "max_turns": Number(1, 10**6, whole=True),
    "budget_usd": Number(1e-6, 10**6),
}
_JUDGE: dict[str, Shape] = {"rubric": Text(), "score": Number(0, 10), **_TURN}
_CHECK = Table(
    {
        "contains": _TEXTS,
        "not_contains": _TEXTS,
        "equals": Text(),
        "regex": OneOrMore(Regex()),
        "not_regex": OneOrMore(Regex()),
        "schema": _SCHEMA,
        "status": Choice(tuple(Status)),
        "exit_code": Number(0, 255, whole=True),
        "file_exists": _TEXTS,
        "file_absent": _TEXTS,
        "file_contains": NamedValues(_TEXTS, r"[^\0]{1,400}", "the path of a file"),
        "files_changed": EitherKind(
            "true, a number, or keys and values",
            {
                "bool": Flag(),
                "number": _COUNT,
                "dict": Table({"least": _COUNT, "most": _COUNT, "only": _TEXTS, "never": _TEXTS}),
            },
        ),
        "diff": Table({"files": _COUNT, "lines": _COUNT, "added": _COUNT, "removed": _COUNT}),
        "tool_used": _TEXTS,
        "tool_sequence": OneOrMore(Text(), alone=False),
        "tool_args": OneOrMore(
            Table(
                {"tool": Text(), "args": NamedValues(Regex(), r"[^\0]{1,80}", "the name of an argument")},
                required=("tool", "args"),
            )
        ),
        "no_tool": EitherKind("true, a tool or a list", {"bool": Flag(), "str": Text(), "list": OneOrMore(Text())}),
        "max_steps": _COUNT,
        "cost_usd": Number(0, 10**6),
        "tokens": _COUNT,
        "time": Seconds(),
        "command": _COMMAND,
        "judge": Table({"agent": AGENT, **_JUDGE}, required=("agent", "rubric")),
    },
    description="What must be so. `cost_usd`, `tokens`, `time` and `max_steps` are the most that is allowed.",
)
_EXPECT = OneOrMore(_CHECK)
_CHAT_CHECK = Table(  # a chat that goes on has no exit code, and took no time yet
    {kind: shape for kind, shape in _CHECK.fields.items() if kind not in ("exit_code", "time")},
    description="What must be so for the chat to end.",
)
_PART = EitherKind(
    "a part of a prompt",
    {
        "str": Text(),
        "dict": Table(
            {"text": Text(), "template": Text(), "file": Text(), "reply": ID, "diff": Flag()},
            one_of=("text", "template", "file", "reply", "diff"),
        ),
    },
)
_PROMPT = EitherKind("a prompt", {"str": Text(), "dict": _PART, "list": OneOrMore(_PART, alone=False)})
_ALLOW = OneOrMore(Choice(ALLOWED))
_ANY_STEP: dict[str, Shape] = {"id": ID, "expect": _EXPECT, "allow": _ALLOW}
_SHAPES: dict[str, Shape] = {}
_STEPS = OneOrMore(ShapeReference("step", _SHAPES), alone=False, most=MAX_STEPS)
_SHAPES["step"] = OneOfTables(
    "step",
    {
        "send": Table(
            {
                "send": OneOrMore(AGENT),
                "prompt": _PROMPT,
                "context_from": AGENT,
                "context": Choice(get_args(ContextMode)),
                "schema": _SCHEMA,
                **_TURN,
                **_ANY_STEP,
            },
            required=("send", "prompt"),
            needs={"context": "context_from"},
            description="Sends a prompt to one agent, or to several at the same time.",
        ),
        "chat": Table(
            {
                "chat": OneOrMore(AGENT, alone=False),
                "prompt": _PROMPT,
                "order": Choice(("round_robin", "moderator", "address")),
                "moderator": AGENT,
                "until": Table(
                    {
                        "phrase": Text(),
                        "check": _CHAT_CHECK,
                        "turns": Number(1, 10_000, whole=True),
                        "cost_usd": Number(0, 10**6),
                        "tokens": _COUNT,
                        "time": Seconds(),
                    }
                ),
                **_TURN,
                **_ANY_STEP,
            },
            required=("chat", "prompt"),
            description="Has agents talk with each other.",
        ),
        "judge": Table(
            {"judge": AGENT, "of": ID, **_JUDGE, **_ANY_STEP},
            required=("judge", "rubric"),
            description="Has an agent score an earlier step from 0 to 10; `score` is the least that passes.",
        ),
        "run": Table(
            {"run": _COMMAND, "timeout": Seconds(), **_ANY_STEP},
            required=("run",),
            description="Runs a command: a list of words, or a text for the shell.",
        ),
        "check": Table(
            {"check": _EXPECT, "of": ID, "id": ID},
            required=("check",),
            description="Checks an earlier step, or the files.",
        ),
        "parallel": Table(
            {"parallel": _STEPS, "id": ID}, required=("parallel",), description="Runs these steps at the same time."
        ),
    },
)
FILE = Table(
    {
        "beam": Number(1, 10**6, whole=True),
        "name": Text(r"[a-z0-9][a-z0-9_-]{0,20}", "the name of a scenario"),
        "description": Text(),
        "variables": NamedValues(
            EitherKind(
                "text, a number, or nothing",
                {"str": Text(), "number": Number(-(10**12)), "bool": Flag(), "none": Nothing()},
            ),
            VARIABLE,
            "the name of a variable",
        ),
        "agents": NamedValues(Settings(), AGENT.pattern, AGENT.rule),
        "defaults": Table(_TURN),
        "worktree": EitherKind(
            "true, or keys and values",
            {
                "bool": Flag(),
                "dict": Table(
                    {"keep": Flag(), "from": Text(), "branch": Text(r"[A-Za-z0-9][\w./-]{0,80}", "a branch")}
                ),
            },
        ),
        "limits": Table({"cost_usd": Number(0, 10**6), "tokens": _COUNT, "time": Seconds()}),
        "allow": _ALLOW,
        "repeat": Table({"times": Number(1, 1000, whole=True), "pass_rate": Number(0, 1)}, required=("times",)),
        "steps": _STEPS,
    },
    required=("beam", "steps"),
    description="A scenario of beam: what agents are to do, and what must be so afterwards.",
)


def json_schema() -> Schema:
    """Return the JSON Schema of a scenario file, without `#/$defs/AgentSettings`, the schema of an agent's settings."""
    made = FILE.schema()
    properties = made["properties"]
    assert isinstance(properties, dict)
    properties["beam"] = {"const": VERSION, "description": "The version of the language."}
    return {**made, "$defs": {"step": _SHAPES["step"].schema()}}
