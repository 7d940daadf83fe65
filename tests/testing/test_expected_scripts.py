"""Scripts, directives and steps of what is scripted: what each is taken for, what is said of each that is wrong, and
the frames that are written. Whole.

`BEAM_WRITE_EXPECTED=1 pytest tests/testing/test_expected_scripts.py` writes the expectations anew
(tests/testing/expected); read the difference before you keep it.
"""

from __future__ import annotations

import io
import itertools
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from beam.base.errors import ConfigError
from beam.proxy.wire.values import ModelRequest
from beam.testing import player, script
from beam.testing.fake_model import directives
from beam.testing.fake_model import script as model_script
from beam.testing.fake_model.player import Player as ModelPlayer
from beam.testing.player import Player
from beam.testing.script import ScriptError
from tests.support import expected

HERE = Path(__file__).parent / "expected"
WORDS = {
    "name": "ls",
    "text": "hello",
    "path": "a",
    "tool": "Bash",
    "state": "busy",
    "reason": "why",
    "class": "auth",
    "input": {"a": 1},
    "output": "out",
    "is_error": True,
    "progress": "half",
    "delay": 0.5,
    "unfinished": True,
    "chunk": 2,
    "detail": "d",
    "attempt": 1,
    "of": 2,
    "http_status": 429,
    "delay_s": 1.5,
    "kind": "update",
    "by": "rule",
    "input_tokens": 3,
    "calls": 1,
}
VALUES: list[Any] = [
    *("hello", "", "SIGKILL", 3, 0, 1.5, -1, 255, 256, 1e6, 1e6 + 1, True, False, b"\xff", None),
    *([], ["a"], ["a", b"b"], ["a", 1], [{"text": "a"}], [{"text": "a", "status": "completed"}], [{"status": "x"}]),
    *([{"text": "a", "status": "done"}], {}, {"novel": 1}, {"text": "a", "chunk": 0}, {"text": "a", "chunk": 1}),
    *({"state": "x", "class": "novel"}, {"name": 1}),
]


def parsed(value: object) -> Any:
    """The script as text, or what is said of it."""
    try:
        return expected_script(script.parse(value, "s.yaml"))
    except ScriptError as error:
        return str(error)


def expected_script(found: script.Script) -> Any:
    replies = [[f"{step.verb} {step.value!r} {dict(step.beside)!r}" for step in reply] for reply in found.replies]
    rules = [[pattern.pattern, [repr(step.value) for step in reply]] for pattern, reply in found.rules]
    return {
        "replies": replies,
        "rules": rules,
        "loop": found.loop,
        "default": repr(found.default),
        "model": found.model,
    }


@pytest.mark.parametrize("verb", script.STEPS)
def test_each_value_of_a_step_is_taken_or_refused_as_checked_in(verb: str) -> None:
    form = script.STEPS[verb]
    own = {key: WORDS[key] for key in form.keys if key in WORDS}
    values = [*VALUES, own, *({key: WORDS[key]} for key in own), *({**own, key: []} for key in own)]
    told = {repr(value): parsed({"replies": [{verb: value}]}) for value in values}
    told = {key: found if isinstance(found, str) else found["replies"][0][0] for key, found in told.items()}
    for key in ("stubborn", "novel", "text" if verb != "text" else "delay"):
        told[f"beside {key}"] = parsed({"replies": [{verb: own or "hello", key: True}]})
    expected.check(HERE / "steps" / f"{verb}.json", expected.document(told))


SCRIPTS: list[Any] = [
    *(None, [], "x", {}, {"replies": []}, {"replies": "x"}, {"replies": {}}, {"rules": {}}, {"loop": 1}, {"model": 1}),
    {"replies": ["a"], "loop": True, "model": "m", "description": "d"},
    {"replies": ["a"], "novel": 1},
    {"replies": ["a"], "default": "b"},
    {"default": ["a", {"think": "b"}]},
    {"default": []},
    {"rules": [{"match": "^x", "reply": "y"}, {"match": "z", "reply": {"delay": 1}}], "default": "d"},
    *({"rules": [rule]} for rule in ("x", {}, {"match": "x"}, {"reply": "x"}, {"match": "(", "reply": "x"})),
    *({"rules": [{"match": 1, "reply": "x"}]}, {"rules": [{"match": "x", "reply": "y", "novel": 1}]}),
    *(
        {"replies": [reply]}
        for reply in (1, {}, [], [[]], [1], {"novel": 1}, {"txt": 1}, [{"text": "a"}, {"tet": "b"}])
    ),
]


def test_each_script_is_taken_or_refused_as_checked_in() -> None:
    told = {repr(value): parsed(value) for value in SCRIPTS}
    expected.check(HERE / "scripts.json", expected.document(told))


def test_each_turn_of_a_script_has_its_reply() -> None:
    told = {}
    for value in ({"replies": ["a", "b", "c"]}, {"replies": ["a", "b"], "loop": True}, {"default": "d"}):
        found = script.parse(value, "s")
        told[repr(value)] = [repr(found.reply("x", turn)) for turn in range(1, 6)]
    expected.check(HERE / "turns.json", expected.document(told))


# -- the frames --------------------------------------------------------------------------------------------------------

REPLIES: dict[str, Any] = {
    "text": ["hello {prompt} {turn} {session} {agent} {model} {from} {env.A} {env.NONE} {novel}", "again"],
    "delta": [{"delta": "a {turn}"}],
    "stream": [{"stream": {"text": "hello you", "chunk": 4, "delay": 0.5}}],
    "stream in pieces of the usual size": [{"stream": "x" * 30}],
    "big": [{"big": 20}],
    "think": [{"think": "hm"}],
    "delay": [{"delay": 0.12}],
    "tool": [{"tool": "ls"}, {"tool": {**{key: WORDS[key] for key in ("name", "input", "output", "progress")}}}],
    "tool in error": [{"tool": {"name": "ls", "is_error": True, "delay": 0.2}}],
    "tool without an end": [{"tool": {"name": "ls", "unfinished": True, "progress": "half"}}, "on"],
    "plan": [{"plan": ["a", {"text": "b", "status": "completed"}]}],
    "file": [{"file": "a"}, {"file": {"path": "b", "kind": "delete"}}],
    "status": [{"status": "busy"}, {"status": {"state": "retrying", "attempt": 1, "class": "auth"}}],
    "usage": [{"usage": {"input_tokens": 3}}, {"cost_usd": 0.5}, {"usage": {"input_tokens": 4}}],
    "stderr": [{"stderr": "oh {turn}\n\n"}],
    "garbage": [{"garbage": ["x", b"\xff\xfe"]}],
    "lose_session": [{"lose_session": False}, {"lose_session": True}],
    "silent": [{"silent": False}, "a", {"silent": True}, "b"],
    "truncate": ["a", {"truncate": False}, {"truncate": True}, "b"],
    "refuse": ["a", {"refuse": "no"}, "b"],
    "limit": ["a", {"limit": "enough"}, "b"],
    "fail": ["a", {"fail": "why"}, "b"],
    "fail with a class": ["a", {"fail": {"class": "auth"}}, "b"],
    "deny": ["a", {"deny": "Bash"}, "b"],
    "deny by a rule": [{"deny": {"tool": "Bash", "input": {"a": 1}, "by": "rule"}}, {"deny": {"tool": "X"}}, "b"],
    "listen": [{"listen": True}, "told {steered}", {"listen": False}, "told {steered}"],
    "hang": [{"hang": False}, "on"],
    "hang, stubborn": [{"hang": False, "stubborn": True}, "on"],
}


class Stdout(io.TextIOWrapper):
    """A stdout that keeps what is written."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), write_through=True)


@pytest.mark.parametrize("name", REPLIES)
def test_each_step_writes_its_frames(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err, slept, signals, forgotten = Stdout(), io.StringIO(), list[float](), list[str](), list[int]()
    moments = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 3))
        moments[0] += seconds

    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(player.time, "sleep", sleep)
    monkeypatch.setattr(player.time, "monotonic", lambda: moments[0])
    monkeypatch.setattr(signal, "signal", lambda number, action: signals.append(f"{number!r} {action!r}"))
    told = iter(["one", "one\ntwo"])
    given = Player(lambda: forgotten.append(1), lambda waits: next(told) if waits else "before")
    names = {"prompt": "p", "turn": "3", "session": "s", "agent": "a", "model": "m", "from": "f", "steered": ""}
    reply = script.parse({"default": REPLIES[name]}, "s").default
    assert reply is not None
    given.play(reply, names, {"A": "1"})
    lines = out.buffer.getvalue().decode("utf-8", "replace").splitlines()  # type: ignore[attr-defined]
    seen = {"result": given.result, "stderr": err.getvalue(), "slept": slept, "signals": signals, "lost": forgotten}
    expected.check(HERE / "frames" / f"{name.replace(' ', '-')}.jsonl", expected.lines([*lines, seen]))


# -- the scripted model ------------------------------------------------------------------------------------------------

PROMPTS = [
    *("hello", "!say one two  \nthree", "!think hm\n!say a", "!tool ls {}", '!tool ls {"a": 1} !then !say done'),
    *('!tool a {} !tool b {"x": [1]}', "!tool", "!tool ls", "!tool ls x", "!tool ls [1]", "!then !say x"),
    *("!error 400", "!error 399", "!error 599", "!error 600", "!error", "!error 500 2", "!error 429 1 !say x"),
    *("!error-mid", "!stall", "!stall 2", "!stall 1.5x", "!stall-mid", "!stall-mid 3", "!drop", "!drop-mid"),
    *(
        "!refuse",
        "!max_tokens",
        "!max_tokens 1",
        "!empty",
        "!malformed",
        "!slow 5",
        "!slow",
        "!slow 2 !say " + "x" * 95,
    ),
    *("!slow 2 !empty", "!usage 3 4", "!usage 3", "!usage", "x!say y", "x !say y", "!says", "!say-x", "!novel"),
]


@pytest.mark.slow
def test_each_directive_has_its_answer() -> None:
    told = {}
    for prompt in PROMPTS:
        for before in (0, 1, 2):
            found = directives.answer(ModelRequest(prompt=prompt, turns=1, model="m"), before=before)
            told[f"{prompt} ({before})"] = expected.told(found)
    expected.check(HERE / "directives.json", expected.document(told))


MODEL_SCRIPTS: list[Any] = [
    *(
        {},
        [],
        None,
        {"novel": 1},
        {"rules": [{"match": "a", "text": "b"}]},
        {"replies": ["a", {"text": "b", "times": 2}]},
    ),
    *(
        {"otherwise": "x"},
        {"otherwise": {"stop": "refusal"}},
        {"directives": True, "replies": ["a"]},
        {"directives": False},
    ),
    *({"rules": [{"regex": "("}]}, {"rules": [{"turns": 0}]}, {"rules": [{"times": 0}]}, {"rules": [{"novel": 1}]}),
    *({"rules": [{"error": {"status": 399}}]}, {"rules": [{"error": {"status": 400}}]}, {"replies": [1]}),
]


@pytest.mark.slow
def test_each_script_of_the_model_is_taken_or_refused_and_answers_as_checked_in() -> None:
    told = {}
    for value in MODEL_SCRIPTS:
        try:
            found = model_script.parse(value, name="s")
        except ConfigError as error:
            told[repr(value)] = {"refused": f"{error.message} | {error.hint} | {error.subject}"}
            continue
        ids = itertools.count(1)
        model = ModelPlayer(found, new_id=lambda ids=ids: f"id{next(ids)}")  # type: ignore[misc]
        asked = [ModelRequest(prompt=prompt, turns=1, model="m") for prompt in ("a", "a", "!say x", "b")]
        told[repr(value)] = {
            "script": expected.told(found),
            "answers": [[reply.text, reply.id] for reply in map(model.reply, asked)],
        }
    expected.check(HERE / "model-scripts.json", expected.document(told))
