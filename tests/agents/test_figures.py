"""The figures of one turn out of what a CLI has counted so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from beam.agents import figures, registry
from beam.agents.base import Exit, Turn, Verdict
from beam.agents.figures import NOTHING_YET, of_turn, sum_by_model, usage_since
from beam.model import events
from beam.model.outcome import FIGURES, ModelUsage, Status, Total, Usage

RECORDINGS = Path(__file__).parents[1] / "recordings"


QWEN_USAGE = {"input_tokens": 1000, "output_tokens": 5, "cache_read_input_tokens": 400}


def tokens(given: int, got: int, **more: Any) -> Total:
    return Total(input_tokens=given, output_tokens=got, **more)


def played(adapter: str, file: str, **turn: Any) -> tuple[list[events.Event], Verdict]:
    """A recorded turn: all its events, and the verdict."""
    module: Any = registry.adapter(adapter)
    decoder = module.exec.decoder(Turn(text="hi", message_id="m", agent=adapter, **turn))
    bodies = []
    for line in (RECORDINGS / adapter / file).read_bytes().splitlines():
        bodies += decoder.line(line)
    last, verdict = decoder.end(Exit(code=0))
    return [*bodies, *last], verdict


def total_of(bodies: list[events.Event]) -> Total:
    """The CLI's total in the last of these events that has one."""
    (*_, last) = (body.total for body in bodies if isinstance(body, events.UsageSeen) and body.total is not None)
    return last


def test_the_difference_is_null_if_the_total_before_is_unknown_or_was_reset() -> None:
    assert usage_since(None, tokens(5, 5)) == Usage()
    assert usage_since(tokens(6, 1), tokens(5, 5)) == Usage()
    assert usage_since(tokens(1, 1), tokens(5, 5)) == Usage(input_tokens=4, output_tokens=4)


def test_a_resumed_session_that_the_cli_went_on_counting_gives_the_difference() -> None:
    assert of_turn(tokens(1000, 27), tokens(900, 20), tokens(100, 7)) == tokens(100, 7)


def test_a_resumed_session_that_the_cli_began_to_count_anew_gives_the_whole() -> None:
    assert of_turn(tokens(104, 20), tokens(102, 20), tokens(104, 20)) == tokens(104, 20)


def test_without_a_total_from_before_the_figures_are_known_only_if_all_calls_were_seen() -> None:
    assert of_turn(tokens(104, 20), None, tokens(104, 20)) == tokens(104, 20)
    assert of_turn(tokens(1000, 27), None, tokens(100, 7)) is None


def test_a_difference_by_model_leaves_out_models_that_had_no_part_in_the_turn() -> None:
    def share(model: str, given: int, cost: float) -> ModelUsage:
        return ModelUsage(model=model, usage=tokens(given, 1), cost_usd=cost)

    before = tokens(10, 2, cost_usd=0.3, models=(share("a", 5, 0.1), share("b", 5, 0.2)))
    after = tokens(14, 2, cost_usd=0.7, models=(share("a", 5, 0.1), share("b", 9, 0.6)))
    found = of_turn(after, before, Usage())
    assert found is not None and found.cost_usd == 0.4
    more = Usage(input_tokens=4, output_tokens=0)
    assert found.models == (ModelUsage(model="b", usage=more, cost_usd=0.4),)


def test_one_model_is_one_share_whatever_number_of_calls_it_had() -> None:
    one = ModelUsage(model="a", usage=Usage(input_tokens=1, calls=1), cost_usd=0.1)
    assert sum_by_model((one, one)) == (ModelUsage(model="a", usage=Usage(input_tokens=2, calls=2), cost_usd=0.2),)


def test_a_model_of_which_one_call_has_no_cost_has_none() -> None:
    one = ModelUsage(model="a", usage=Usage(input_tokens=1, calls=1), cost_usd=0.1)
    unpriced = ModelUsage(model="a", usage=one.usage)
    for shares in ((one, unpriced), (unpriced, one), (one, unpriced, one)):
        assert [share.cost_usd for share in sum_by_model(shares)] == [None]


# -- what users see of it ----------------------------------------------------------------------------------------------


def test_claude_s_tokens_are_of_all_calls_that_its_cost_is_of_and_not_of_the_last_result_alone() -> None:
    _, verdict = played("claude", "2.1.330/background.out")
    assert (verdict.usage.input_tokens, verdict.usage.output_tokens) == (47724, 270)
    assert verdict.usage.calls == 4 and verdict.cost_usd == pytest.approx(0.196296)
    (share,) = verdict.models or ()
    assert (share.model, share.usage.input_tokens) == ("claude-opus-5-5", 47724)
    assert share.cost_usd == verdict.cost_usd


def test_claude_s_cost_of_a_resumed_turn_is_that_turn_s_like_its_tokens() -> None:
    _, verdict = played("claude", "2.1.330/second.out", session_id="s")
    assert (verdict.usage.input_tokens, verdict.usage.output_tokens, verdict.usage.calls) == (100, 7, 1)
    assert verdict.cost_usd == pytest.approx(0.00054)
    assert verdict.models is not None and verdict.models[0].cost_usd == verdict.cost_usd


def test_qwen_s_figures_of_a_resumed_turn_are_null_where_nobody_knows_the_session_s_before() -> None:
    _, verdict = played("qwen", "0.24.4/second.out", session_id="s")
    assert (verdict.usage, verdict.cost_usd, verdict.models) == (Usage(), None, None)


@pytest.mark.parametrize(
    ("adapter", "lines"),
    [
        (
            "qwen",
            (
                {"type": "assistant", "message": {"content": [], "usage": QWEN_USAGE}},
                {"type": "result", "subtype": "success", "result": "a", "usage": QWEN_USAGE},
            ),
        ),
        (
            "cline",
            (
                {
                    "type": "run_result",
                    "finishReason": "completed",
                    "usage": {"inputTokens": 1000, "outputTokens": 5, "cacheReadTokens": 400, "cacheWriteTokens": 50},
                },
            ),
        ),
        (
            "codex",
            (
                {
                    "type": "turn.completed",
                    "usage": {"input_tokens": 1000, "cached_input_tokens": 400, "output_tokens": 5},
                },
            ),
        ),
    ],
)
def test_input_is_that_from_no_cache_though_the_cli_counts_all_of_it(
    adapter: str, lines: tuple[dict[str, Any], ...]
) -> None:
    module: Any = registry.adapter(adapter)
    decoder = module.exec.decoder(Turn(text="hi", message_id="m", agent=adapter))
    for line in lines:
        decoder.line(msgspec.json.encode(line))
    usage = decoder.end(Exit(code=0))[1].usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (600, 5, 400)


def test_an_older_claude_counts_each_process_by_itself() -> None:
    first, _ = played("claude", "2.1.197/02-streamjson.out")
    _, verdict = played("claude", "2.1.197/11-resume.out", session_id="s", carried=total_of(first))
    assert (verdict.usage.input_tokens, verdict.usage.cached_tokens, verdict.cost_usd) == (104, 10, 0.001025)


def test_claude_s_number_of_calls_is_null_where_a_subagent_s_are_not_reported() -> None:
    _, verdict = played("claude", "2.1.197/80-agents.out")
    assert (verdict.usage.input_tokens, verdict.usage.output_tokens, verdict.usage.cached_tokens) == (308, 60, 30)
    assert verdict.usage.calls is None


def test_qwen_s_tokens_have_the_call_that_no_message_of_its_shows() -> None:
    first, begun = played("qwen", "0.24.4/first.out")
    assert (begun.usage.input_tokens, begun.usage.output_tokens) == (11905, 654)
    assert (begun.usage.calls, begun.models) == (None, None)
    _, verdict = played("qwen", "0.24.4/second.out", session_id="s", carried=total_of(first))
    assert (verdict.usage.input_tokens, verdict.usage.output_tokens) == (23052 - 11905, 1295 - 654)


@pytest.mark.parametrize(
    ("adapter", "file", "calls"),
    [
        ("cline", "3.0.65/cline1.out", 2),
        ("copilot", "1.0.102/copilot1.out", 2),
        ("kilo", "7.7.7/kilo1.out", 2),
        ("opencode", "1.18.33/edit.out", 2),
        ("pi", "0.87.1/write.out", 2),
        ("gemini", "0.61.0/g-tool-read.out", None),
        ("qwen", "0.24.4/look.out", None),
        ("vibe", "3.0.2/hello.out", None),
        ("kimi", "2.1.0/kimi1.out", None),
        ("aider", "0.86.2/edit.out", None),
        ("cn", "1.5.47/plain.out", None),
    ],
)
def test_the_number_of_calls_is_the_cli_s_or_null(adapter: str, file: str, calls: int | None) -> None:
    _, verdict = played(adapter, file)
    assert verdict.usage.calls == calls


@pytest.mark.parametrize(
    ("adapter", "file", "model"),
    [
        ("claude", "2.1.330/first.out", "claude-opus-5-5"),
        ("gemini", "0.61.0/g-tool-read.out", "gemini-2.5-flash"),
        ("cline", "3.0.65/cline1.out", "stub-1"),
        ("pi", "0.87.1/write.out", "scripted"),
        ("opencode", "1.18.33/edit.out", None),
        ("copilot", "1.0.102/copilot1.out", None),
    ],
)
def test_what_each_model_used_adds_up_to_the_turn_s_or_is_null(adapter: str, file: str, model: str | None) -> None:
    _, verdict = played(adapter, file)
    assert [share.model for share in verdict.models or ()] == ([model] if model else [])
    for share in verdict.models or ():
        known = {name for name in share.usage.__struct_fields__ if getattr(share.usage, name) is not None}
        assert known and all(getattr(share.usage, name) == getattr(verdict.usage, name) for name in known)


def test_a_write_into_the_cache_is_told_apart_from_a_read() -> None:
    lines = [
        b'{"type":"session","id":"s"}',
        msgspec.json.encode(
            {
                "type": "message_end",
                "message": {
                    "role": "assistant",
                    "model": "m",
                    "stopReason": "stop",
                    "usage": {"input": 5, "output": 2, "cacheRead": 30, "cacheWrite": 40, "totalTokens": 77},
                },
            }
        ),
    ]
    module: Any = registry.adapter("pi")
    decoder = module.exec.decoder(Turn(text="hi", message_id="m", agent="pi"))
    for line in lines:
        decoder.line(line)
    usage = decoder.end(Exit(code=0))[1].usage
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (45, 30, 40)


def test_nothing_yet_is_nought_in_all_figures() -> None:
    assert figures.is_nothing(NOTHING_YET) and NOTHING_YET.cost_usd == 0.0 and NOTHING_YET.models == ()


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_counted_by_its_own_name(name: str) -> None:
    five, two = Usage(**{name: 5}), Usage(**{name: 2})
    assert five.plus(two) == Usage(**{name: 7}) and five.minus(two) == Usage(**{name: 3})
    assert five.plus(Usage()) == five == Usage().plus(five)
    assert usage_since(two, five) == Usage(**{name: 3}) and usage_since(NOTHING_YET, five) == five
    assert usage_since(five, two) == Usage() == usage_since(NOTHING_YET, Usage(**{name: -1})), "it was counted anew"
    whole = figures.make_total(five, cost_usd=1.0, models=())
    assert whole == Total(**{name: 5}, cost_usd=1.0, models=()) and not figures.is_nothing(whole)
    assert figures.usage_of(whole, calls=whole.calls) == five
    assert figures.covers(five, two) and figures.covers(two, five) is (name in ("calls", "reasoning_tokens"))


def test_the_difference_from_nothing_is_the_difference_from_zeros() -> None:
    nought = Total(**{name: getattr(NOTHING_YET, name) for name in Total.__struct_fields__})
    for used in (Usage(), Usage(input_tokens=3, output_tokens=0), Usage(input_tokens=3, cached_tokens=-1), NOTHING_YET):
        assert usage_since(NOTHING_YET, used) == usage_since(nought, used)


def test_api_time_of_a_resumed_session_is_the_difference_and_null_where_nobody_knows_what_it_was() -> None:
    for adapter, one, other, own in (
        ("claude", "2.1.330/first.out", "2.1.330/second.out", 0.124),
        ("copilot", "1.0.102/copilot1.out", "1.0.102/copilot2.out", 0.042),
    ):
        first, before = played(adapter, one)
        assert before.api_s == total_of(first).api_s
        _, verdict = played(adapter, other, session_id=before.session_id, carried=total_of(first))
        assert verdict.api_s == own
        _, verdict = played(adapter, other, session_id=before.session_id)
        assert verdict.api_s is None


def test_api_time_of_qwen_is_of_its_process_and_so_of_the_turn() -> None:
    _, verdict = played("qwen", "0.24.4/second.out", session_id="s")
    assert verdict.api_s == 0.56


def test_api_time_that_claude_began_to_count_anew_is_the_turn_s_own() -> None:
    _, verdict = played("claude", "2.1.330/first.out", session_id="s", carried=Total(api_s=0.01))
    assert verdict.api_s == 0.069
    _, verdict = played("claude", "2.1.197/11-resume.out", session_id="s", carried=Total(api_s=0.01))
    assert verdict.api_s is None, "an older one does not tell what it counts"


@pytest.mark.parametrize(
    ("adapter", "file", "api_s", "lines"),
    [
        ("claude", "2.1.330/first.out", 0.069, None),
        ("qwen", "0.24.4/write.out", 0.919, None),
        ("copilot", "1.0.102/edit.out", 0.068, (1, 0)),
        ("gemini", "0.61.0/g-tool-read.out", None, None),
        ("opencode", "1.18.33/edit.out", None, None),
        ("pi", "0.87.1/write.out", None, None),
    ],
)
def test_api_time_and_changed_lines_are_the_cli_s_or_null(
    adapter: str, file: str, api_s: float | None, lines: tuple[int, int] | None
) -> None:
    _, verdict = played(adapter, file)
    assert (verdict.api_s, verdict.lines_added, verdict.lines_removed) == (api_s, *(lines or (None, None)))
    can = registry.adapter(adapter).card.faces["exec"]
    assert (can.api_time, can.lines) == (api_s is not None, lines is not None)


def test_what_was_counted_anew_is_null() -> None:
    assert figures.work_of_turn(
        figures.Work(api_s=1.0, lines_added=3), Total(api_s=2.0, lines_added=1)
    ) == figures.Work(lines_added=2)


@pytest.mark.parametrize("name", ["opencode", "kilo"])
@pytest.mark.parametrize(("tool", "partial"), [("task", True), ("read", UNSET)])
def test_figures_that_lack_the_calls_of_a_subagent_say_so(name: str, tool: str, partial: object) -> None:
    adapter = registry.adapter(name)
    assert adapter.exec is not None
    decoder = adapter.exec.decoder(Turn(text="hello", message_id="m", agent=name))
    state = {"status": "completed", "input": {}, "output": "done"}
    parts = [
        {"type": "tool_use", "part": {"tool": tool, "callID": "1", "state": state}},
        {"type": "step_finish", "part": {"reason": "stop", "tokens": {"input": 9, "output": 1}}},
    ]
    for part in parts:
        decoder.line(json.dumps({"sessionID": "ses_1", **part}).encode())
    _, verdict = decoder.end(Exit(code=0))
    assert (verdict.status, verdict.partial) == (Status.COMPLETED, partial)
