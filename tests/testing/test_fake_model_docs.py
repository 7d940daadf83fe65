"""docs/fake-model.md says what is so."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from beam.proxy.wire.values import Answer, ModelRequest
from beam.testing.fake_model import directives
from beam.testing.fake_model.player import Player
from beam.testing.fake_model.script import parse

TEXT = (Path(__file__).parents[2] / "docs" / "fake-model.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def test_the_table_has_every_directive_and_no_other():
    table = set(re.findall(r"^\| `!([\w-]+)[^|]*\| [a-z]", TEXT.partition("## Scripts")[0], re.MULTILINE))
    known = set(directives._WORD.pattern.partition("!(")[2].partition(")(?!")[0].split("|"))
    named = set(re.findall(r"!([a-z][\w-]*)(?=[ ,])", directives.__doc__ or "")) - {"word"}

    assert table == known
    assert named == known


def test_the_script_does_what_its_comments_say():
    model = Player(parse(yaml.safe_load(block("yaml"))), new_id=iter(map(str, range(100))).__next__)

    def ask(prompt: str, turns: int = 1, name: str = "opus") -> Answer:
        return model.reply(ModelRequest(prompt=prompt, turns=turns, model=name)).answer

    called = model.reply(ModelRequest(prompt="please deploy it", turns=1))
    after = model.reply(ModelRequest(prompt="please deploy it", call_ids=(called.calls[0].id,), results=("ok",)))
    assert (called.calls[0].name, after.text) == ("Bash", "Deployed: ok")
    assert model.reply(ModelRequest(prompt="review it", turns=2, model="a-haiku")).text == "a-haiku looked at it."
    assert [ask("overload").error is not None for _ in range(2)] == [True, True]
    assert (ask("hang").stall, ask("hang").at) == (True, "middle")
    assert [ask("overload").text, ask("review it", 2).text] == ["First answer.", "Cut off"]
    assert [ask("x").stop for _ in range(2)] == ["max_tokens", "max_tokens"]
    assert (ask("x").drop, ask("x").malformed) == (True, True)
    assert model.reply(ModelRequest(prompt="x")).text == "You said x."


def test_it_names_every_field_of_an_answer_and_the_defaults_it_gives():
    for field in msgspec.structs.fields(Answer):
        assert f"`{field.name}`" in TEXT
    assert (Answer().chunk, Answer().delay) == (24, 0)


@pytest.mark.slow
def test_the_python_example_runs():
    names: dict[str, Any] = {"run": run}

    exec(block("python").replace("    ...  ", "    run(model.url)  "), names)

    assert names["model"].prompts() == ["hi"]


def run(url: str) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/messages", body)) as response:
        assert json.loads(response.read())["content"] == [{"type": "text", "text": "Hello!"}]
