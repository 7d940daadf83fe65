"""Scripts of scripted agents: what is right, what is said of what is wrong, and which reply answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beam.testing import script
from beam.testing.player import Player
from beam.testing.script import ScriptError, Step


def text(reply: script.Reply | None) -> str:
    assert reply is not None
    return str(reply[0].value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("hi", [Step("text", "hi", {})]),
        ({"delay": 1}, [Step("delay", 1, {})]),
        (["a", {"think": "b"}], [Step("text", "a", {}), Step("think", "b", {})]),
        ({"stream": "abc"}, [Step("stream", {"text": "abc"}, {})]),
        ({"tool": "ls"}, [Step("tool", {"name": "ls"}, {})]),
        ({"fail": "why"}, [Step("fail", {"reason": "why"}, {})]),
        ({"plan": ["a"]}, [Step("plan", [{"text": "a"}], {})]),
        ({"garbage": "x"}, [Step("garbage", ["x"], {})]),
        ({"hang": True, "stubborn": True}, [Step("hang", True, {"stubborn": True})]),
        ([], []),
    ],
)
def test_a_reply_is_a_text_a_step_or_a_list_of_them(value: Any, expected: list[Step]) -> None:
    assert script.parse({"replies": [value]}, "s.yaml").replies == (tuple(expected),)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("hi", "s.yaml: a script is a mapping with `replies` or `rules`"),
        ({}, "s.yaml: it has no replies and no rules"),
        ({"replys": []}, "s.yaml: unknown key 'replys' (did you mean 'replies'?)"),
        ({"replies": "hi"}, "s.yaml.replies: it takes a list, not 'hi'"),
        ({"replies": [{"tex": "a"}]}, "s.yaml: replies[0]: unknown key 'tex' (did you mean 'text'?)"),
        ({"replies": [["a", {"tool": {"nam": "x"}}]]}, "replies[0][1].tool: unknown key 'nam' (did you mean 'name'?)"),
        ({"replies": [{"text": "a", "delay": 1}]}, "`text` and `delay` are two steps"),
        ({"replies": [{"text": "a", "stubborn": True}]}, "unknown key 'stubborn'"),
        ({"replies": [{"delay": "1s"}]}, "replies[0].delay: it takes a number, not '1s'"),
        ({"replies": [{"delay": True}]}, "not True"),
        ({"replies": [{"text": 3}]}, "it takes a text, not 3"),
        ({"replies": [3]}, "a step is a text or a mapping"),
        ({"replies": [{"usage": 3}]}, "it takes a mapping of input_tokens"),
        ({"replies": [{"tool": {}}]}, "it needs a `name`"),
        ({"replies": [{"stream": {"text": "a", "chunk": 0}}]}, "a `chunk` of at least 1"),
        (
            {"replies": [{"file": {"path": "a", "kind": "create"}}]},
            "file.kind: unknown word 'create' (there are: add, ",
        ),
        ({"replies": [{"file": {"kind": "add"}}]}, "it needs a `path`"),
        ({"replies": [{"usage": {"input_tokens": -1}}]}, "usage.input_tokens: it can't be less than 0"),
        ({"replies": [{"big": -1}]}, "big: it can't be less than 0"),
        ({"replies": [{"delay": -1}]}, "it can't be less than 0"),
        ({"replies": [{"tool": {"name": "a", "delay": -1}}]}, "tool.delay: it can't be less than 0"),
        ({"replies": [{"fail": {"class": "auht"}}]}, "unknown word 'auht' (did you mean 'auth'?)"),
        ({"replies": [{"plan": [{"status": "done"}]}]}, "plan[0]: a step of a plan is a text"),
        ({"replies": [{"plan": [{"text": "a", "status": "complete"}]}]}, "(did you mean 'completed'?)"),
        ({"replies": [{"crash": "SIGKIL"}]}, "(did you mean 'SIGKILL'?)"),
        ({"replies": [{"crash": 300}]}, "an exit code is 0 to 255"),
        ({"replies": [{"run": ["a", 1]}]}, "each a text"),
        ({"rules": [{"match": "("}]}, "rules[0]: a rule has `match` and `reply`"),
        ({"rules": [{"match": "(", "reply": "a"}]}, "rules[0].match: not a regular expression"),
        ({"replies": ["a"], "default": "b"}, "`default` and `replies`"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_the_nearest_right_word(value: Any, said: str) -> None:
    with pytest.raises(ScriptError) as raised:
        script.parse(value, "s.yaml")
    assert said in str(raised.value)


def test_replies_are_played_in_turn_and_the_last_one_repeats() -> None:
    made = script.parse({"replies": ["a", "b"]}, "s")
    assert [text(made.reply("", turn)) for turn in (1, 2, 3)] == ["a", "b", "b"]


def test_a_loop_begins_again() -> None:
    made = script.parse({"replies": ["a", "b"], "loop": True}, "s")
    assert [text(made.reply("", turn)) for turn in (1, 2, 3)] == ["a", "b", "a"]


def test_the_first_rule_that_matches_answers_then_the_default() -> None:
    rules = [{"match": "^x", "reply": "first"}, {"match": "x", "reply": "second"}]
    made = script.parse({"rules": rules, "default": "none"}, "s")
    assert [text(made.reply(prompt, 1)) for prompt in ("xy", "yx", "y")] == ["first", "second", "none"]
    assert script.parse({"rules": rules}, "s").reply("y", 1) is None


def test_a_bare_name_is_a_shipped_script_and_a_path_is_relative_to_the_base(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("replies: [a]\n")
    assert script.find("demo", tmp_path).parent == script.SHIPPED_SCRIPTS
    assert script.find("mine.yaml", tmp_path) == tmp_path / "mine.yaml"
    assert script.find(str(tmp_path / "mine.yaml"), Path("/")) == tmp_path / "mine.yaml"
    with pytest.raises(ScriptError, match="did you mean 'demo'"):
        script.find("dmo", tmp_path)
    with pytest.raises(ScriptError, match=r"no script .*/yours\.yaml"):
        script.find("yours.yaml", tmp_path)


@pytest.mark.parametrize("content", [b"replies: [", b"\xff\xfe\x00", b"a: \x00"])
def test_what_is_not_yaml_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.yaml").write_bytes(content)
    with pytest.raises(ScriptError, match=r"bad\.yaml"):
        script.load(tmp_path / "bad.yaml")


@pytest.mark.parametrize("path", sorted(script.SHIPPED_SCRIPTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_shipped_scripts_are_right_and_run_no_program(path: Path) -> None:
    made = script.load(path)
    assert made.replies
    assert "run" not in {step.verb for reply in made.replies for step in reply}


def test_every_step_has_a_player_and_is_in_the_docs() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "scripted.md").read_text()
    for verb in script.STEPS:
        assert callable(getattr(Player, f"step_{verb}"))
        assert f"| `{verb}: " in docs
