from __future__ import annotations

from itertools import count

from beam.proxy.wire.values import Call, ModelRequest, Reply
from beam.testing.fake_model.player import Player
from beam.testing.fake_model.script import parse


def player(value: object) -> Player:
    ids = count(1)
    return Player(parse(value), new_id=lambda: f"id{next(ids)}")


def ask(prompt: str, turns: int = 1) -> ModelRequest:
    return ModelRequest(prompt=prompt, turns=turns, model="m")


def test_without_a_script_it_echoes():
    assert player({}).reply(ask("hi", 2)).text == "ECHO[hi] turns=2"


def test_the_first_rule_that_fits_answers():
    model = player({"rules": [{"match": "a", "text": "A {prompt}"}, {"match": "b", "text": "B"}], "otherwise": "?"})

    assert [model.reply(ask(prompt)).text for prompt in ("xax", "ab", "b", "c", "c")] == [
        "A xax",
        "A ab",
        "B",
        "?",
        "?",
    ]


def test_replies_are_used_up_in_order_then_otherwise_answers():
    model = player({"replies": ["one", {"text": "two", "times": 2}], "otherwise": "over"})

    assert [model.reply(ask("x")).text for _ in range(5)] == ["one", "two", "two", "over", "over"]


def test_a_rule_that_is_used_up_lets_the_next_one_answer():
    model = player({"rules": [{"match": "x", "error": {"status": 529}, "times": 2}, {"match": "x", "text": "now"}]})

    replies = [model.reply(ask("x")) for _ in range(3)]

    assert [reply.answer.error is not None for reply in replies] == [True, True, False]
    assert replies[2].text == "now"


def test_rules_that_are_used_up_leave_the_echo():
    model = player({"replies": ["one"]})

    assert [model.reply(ask("!refuse")).text for _ in range(2)] == ["one", "ECHO[!refuse] turns=1"]


def test_a_rule_without_text_echoes_and_one_with_tools_or_a_refusal_says_nothing():
    model = player(
        {"rules": [{"match": "a", "delay": 1}, {"match": "b", "tools": [{"name": "T"}]}, {"stop": "refusal"}]}
    )

    assert [model.reply(ask(prompt)).text for prompt in "abc"] == ["ECHO[a] turns=1", "", ""]


def test_stop_is_tool_use_where_tools_are_called():
    model = player({"rules": [{"match": "b", "tools": [{"name": "T"}]}, {"match": "r", "stop": "refusal"}]})

    assert [model.reply(ask(prompt)).stop for prompt in "abr"] == ["end_turn", "tool_use", "refusal"]


def test_the_result_of_a_tool_call_gets_what_the_script_says_then():
    model = player({"replies": [{"tools": [{"name": "T", "input": {"a": 1}}], "then": "saw {result}"}]})

    called = model.reply(ask("go"))
    after = model.reply(ModelRequest(prompt="go", turns=1, call_ids=(called.calls[0].id,), results=("42",)))

    assert called.calls == (Call(id="id1", name="T", input={"a": 1}),)
    assert after.text == "saw 42"


def test_parallel_conversations_with_one_prompt_do_not_mix():
    model = player({"replies": [{"tools": [{"name": "T"}], "then": reply} for reply in ("first", "second")]})

    def result(called: Reply) -> str:
        return model.reply(ModelRequest(prompt="go", call_ids=(called.calls[0].id,), results=("",))).text

    one, two = model.reply(ask("go")), model.reply(ask("go"))

    assert (result(two), result(one)) == ("second", "first")


def test_results_of_calls_that_it_never_made_are_told_back():
    assert player({"replies": ["x"]}).reply(
        ModelRequest(prompt="p", turns=2, call_ids=("z",), results=("42",))
    ).text == ("RESULT[42] turns=2")


def test_a_directive_counts_its_own_prompt_only():
    model = player({})

    def failed(prompt: str, turns: int = 1) -> bool:
        return model.reply(ask(prompt, turns)).answer.error is not None

    assert [failed("!error 500 1"), failed("!error 500 1"), failed("!error 500 1", 2), failed("b !error 500 1")] == [
        True,
        False,
        True,
        True,
    ]
