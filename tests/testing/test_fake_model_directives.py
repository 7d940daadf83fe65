from __future__ import annotations

import pytest

from beam.proxy.wire.values import Answer, Error, Figures, ModelRequest, Tool
from beam.testing.fake_model.directives import answer
from beam.testing.fake_model.script import RESULT


def said(prompt: str, before: int = 0) -> Answer:
    return answer(ModelRequest(prompt=prompt, turns=1), before=before)


@pytest.mark.parametrize(
    "prompt", ["hello", "wow!error 500", "!unknown 3", "!errors 500", "!tool-box", "a ! stall", ""]
)
def test_what_is_no_directive_is_plain_text(prompt: str):
    assert said(prompt) == Answer()


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("!say  hi there \nmore", Answer(text="hi there")),
        ("!think hm\n!say ok", Answer(thinking="hm", text="ok")),
        ("x !error 529", Answer(error=Error(status=529, message="scripted error 529"))),
        ("!error-mid", Answer(error=Error(status=529, message="scripted error in the stream"), at="middle")),
        ("!stall", Answer(stall=True)),
        ("!stall 2.5 now", Answer(stall=2.5)),
        ("!stall-mid", Answer(stall=True, at="middle")),
        ("!drop", Answer(drop=True)),
        ("!drop-mid", Answer(drop=True, at="middle")),
        ("!refuse", Answer(stop="refusal")),
        ("!max_tokens", Answer(stop="max_tokens")),
        ("!empty", Answer(text="")),
        ("!malformed", Answer(malformed=True)),
        ("!usage 10 20", Answer(usage=Figures(input_tokens=10, output_tokens=20))),
        ("!stall 1 !refuse", Answer(stall=1.0, stop="refusal")),
    ],
)
def test_each_directive_is_the_answer_it_names(prompt: str, expected: Answer):
    assert said(prompt) == expected


def test_a_tool_call_is_followed_by_its_result():
    assert said('please !tool Bash {"command": "ls !stall"} now') == Answer(
        tools=(Tool(name="Bash", input={"command": "ls !stall"}),), then=Answer(text=RESULT)
    )


def test_several_tools_are_parallel_and_then_makes_a_chain():
    one, two, three = (Tool(name=name, input={}) for name in "ABC")

    assert said("!tool A {} !tool B {} !then !tool C {} !then !say done") == Answer(
        tools=(one, two), then=Answer(tools=(three,), then=Answer(text="done"))
    )


def test_an_error_with_a_count_ends_after_it():
    assert said("!error 500 2", before=1).error is not None
    assert said("!error 500 2", before=2) == Answer()
    assert said("!max_tokens 1", before=1) == Answer()


def test_slow_spreads_the_text_over_the_seconds():
    slow = said("!slow 2 !say " + "x" * 100)

    assert slow.chunk == 10
    assert slow.delay * 10 == pytest.approx(2)


@pytest.mark.parametrize(
    "prompt",
    ["!error", "!error 200", "!tool Bash", "!tool Bash {oops}", "!tool Bash [1]", "!then", "!slow", "!usage 1"],
)
def test_a_directive_that_can_not_be_read_gets_an_api_error_that_says_so(prompt: str):
    bad = said(prompt)

    assert bad.error is not None
    assert bad.error.status == 400
    assert bad.error.message.startswith("bad directive: !")
