"""Whole pages of a conversation, and all words of asks, calls and long turns."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from beam.api.asks import AskLine
from beam.base import clock
from beam.cli.render import asks, calls
from beam.cli.render.calls import Calls
from beam.cli.render.live import progress_line
from beam.cli.render.long_turns import LongTurns, describe
from beam.cli.render.text import ascii_only, display_width, fold, safe_json, truncate, write_json
from beam.cli.render.transcript_html import html
from beam.cli.render.transcript_md import markdown
from beam.cli.render.trouble import HeldNotices
from beam.model import events
from beam.model.events import PermissionAsked
from beam.model.outcome import Status, Unfinished, Usage
from beam.model.transcript import Item, Transcript, TurnRecord

ITEMS = (
    Item(kind="text", ts="", text="\nUse:\n```sh\nmake <in>\n```\nthen\n"),
    Item(kind="thinking", ts="", text="hm & hm"),
    Item(kind="plan", ts="", text="[ ] a"),
    Item(kind="tool", ts="", name="Bash", input='{"command":"make"}', text="ok\n```\n"),
    Item(kind="tool", ts="", name="", input="null", is_error=True, text="bad"),
    Item(kind="tool", ts="", name="Read", input="x" * 101, is_open=True),
    Item(kind="ask", ts="", name="Bash", input="ls"),
    Item(kind="ask", ts="", name="Edit", input="", text="allowed by ann"),
    Item(kind="file", ts="", name="add", text="a*.py"),
    Item(kind="note", ts="", text="be careful", parent="c"),
    Item(kind="note", ts="", text=" "),
    Item(kind="plan", ts="", text="[x] a", parent="c"),
)
TURNS = (
    TurnRecord(
        number=3,
        begin="2026-03-01T10:00:00.000000Z",
        sender="human",
        prompt="Do\nit.\n",
        adapter="claude",
        model="opus",
        items=ITEMS,
        status="failed",
        class_="auth",
        reason="no\nkey",
        exit_code=1,
        duration_s=2.0,
        cost_usd=0.5,
        reply="the end",
        usage=Usage(input_tokens=1000, cached_tokens=200, output_tokens=None),
    ),
    TurnRecord(number=4, begin="", sender="", prompt="", adapter="claude", items=(), status=None),
    TurnRecord(number=5, begin="", sender="", prompt="", adapter="", items=(), status="completed", usage=Usage()),
    TurnRecord(number=None, begin="", sender="", prompt="", adapter="", items=(), status=None),
    TurnRecord(number=None, begin="", sender="", prompt="again", adapter="", items=(), status=None),
)
PAGE = Transcript(agent="bot", turns=TURNS)


def test_a_page_in_markdown() -> None:
    assert markdown(PAGE).splitlines() == [
        "# bot",
        "",
        "## Turn 3",
        "",
        "2026-03-01 10:00:00 UTC · from human · claude (opus)",
        "",
        "**Prompt**",
        "",
        "> Do",
        "> it.",
        "",
        "**Answer**",
        "",
        "> Use:",
        "> ```sh",
        "> make <in>",
        "> ```",
        "> then",
        "",
        "**Thinking**",
        "",
        "> hm & hm",
        "",
        '<details><summary>Bash {"command":"make"}</summary>',
        "",
        "```",
        '{"command":"make"}',
        "```",
        "",
        "````",
        "ok",
        "```",
        "````",
        "",
        "</details>",
        "",
        "<details><summary>tool (failed)</summary>",
        "",
        "```",
        "bad",
        "```",
        "",
        "</details>",
        "",
        f"<details><summary>Read {'x' * 99}… (did not return)</summary>",
        "",
        "```",
        "x" * 101,
        "```",
        "",
        "</details>",
        "",
        "<details><summary>asked for Bash ls: nobody decided</summary>",
        "",
        "```",
        "ls",
        "```",
        "",
        "</details>",
        "",
        "- asked for Edit : allowed by ann",
        "",
        "- file add: a&#42;.py",
        "",
        "- be careful (subagent)",
        "",
        "**Plan** (subagent)",
        "",
        "```",
        "[x] a",
        "```",
        "",
        "**Answer**",
        "",
        "> the end",
        "",
        "*failed (auth): no key · 2s · 1,200 tokens · $0.5000*",
        "",
        "## Turn 4",
        "",
        "claude",
        "",
        "*not finished*",
        "",
        "## Turn 5",
        "",
        "*completed*",
        "",
        "## Between turns",
        "",
        "## A prompt that beam did not send",
        "",
        "**Prompt**",
        "",
        "> again",
    ]


def test_a_page_in_html() -> None:
    page = html(PAGE)
    head, _, body = page.partition("</head>\n")
    assert head.splitlines()[:4] == ["<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">']
    assert head.splitlines()[5:8] == [
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        "<title>bot</title>",
    ]
    assert head.splitlines()[8] == "<style>" and head.splitlines()[-1] == "</style>"
    shown = "{&quot;command&quot;:&quot;make&quot;}"
    assert body.splitlines() == [
        "<body>",
        "<h1>bot</h1>",
        '<h2 id="t1">Turn 3</h2>',
        '<p class="about">2026-03-01 10:00:00 UTC · from human · claude (opus)</p>',
        '<div class="prompt">Do',
        "it.",
        "</div>",
        '<div class="text">Use:<pre>make &lt;in&gt;</pre>then</div>',
        '<details><summary>thinking</summary><div class="thinking">hm &amp; hm</div></details>',
        f"<details><summary>Bash {shown}</summary><pre>{shown}</pre><pre>ok",
        "```</pre></details>",
        '<details><summary class="bad">tool (failed)</summary><pre>bad</pre></details>',
        f"<details><summary>Read {'x' * 99}… (did not return)</summary><pre>{'x' * 101}</pre></details>",
        "<details><summary>asked for Bash ls: nobody decided</summary><pre>ls</pre></details>",
        '<div class="line">asked for Edit : allowed by ann</div>',
        '<div class="line">file add: a*.py</div>',
        '<div class="sub"><div class="line">be careful</div></div>',
        '<div class="sub"><pre>[x] a</pre></div>',
        '<div class="text">the end</div>',
        '<p class="ended bad">failed (auth): no key · 2s · 1,200 tokens · $0.5000</p>',
        '<h2 id="t2">Turn 4</h2>',
        '<p class="about">claude</p>',
        '<p class="ended">not finished</p>',
        '<h2 id="t3">Turn 5</h2>',
        '<p class="about"></p>',
        '<p class="ended">completed</p>',
        '<h2 id="t4">Between turns</h2>',
        '<p class="about"></p>',
        '<h2 id="t5">A prompt that beam did not send</h2>',
        '<p class="about"></p>',
        '<div class="prompt">again</div>',
        "</body>",
        "</html>",
    ]


def test_a_reply_that_a_subagent_said_is_shown_as_the_agents_too() -> None:
    turn = TurnRecord(
        number=1,
        begin="",
        sender="",
        prompt="",
        adapter="",
        status="completed",
        items=(Item(kind="text", ts="", text="yes", parent="c"),),
        reply=" yes ",
    )
    assert markdown(Transcript(agent="a", turns=(turn,))).count("> yes") == 2
    said = msgspec.structs.replace(turn, items=(Item(kind="text", ts="", text="so yes\n"),))
    assert markdown(Transcript(agent="a", turns=(said,))).count("yes") == 1


@pytest.mark.parametrize(
    ("fence", "shown"),
    [
        ("~~~\na\n~~~\nb", "<pre>a</pre>b"),
        ("````\n```\n````", "<pre>```</pre>"),
        ("```\nopen", "<pre>open</pre>"),
        ("a\n\n```\nb\n```", "a<pre>b</pre>"),
    ],
)
def test_code_between_fences_is_code(fence: str, shown: str) -> None:
    turn = TurnRecord(
        number=1,
        begin="",
        sender="",
        prompt="",
        adapter="",
        status="completed",
        items=(Item(kind="text", ts="", text=fence),),
    )
    assert f'<div class="text">{shown}</div>' in html(Transcript(agent="a", turns=(turn,)))


# -- asks --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        ([], ""),
        ({"x": 1}, ""),
        (["all of it", "all of it"], "all of it"),
        ([1, None], ""),
        ([{"rules": [{"toolName": "Bash"}]}], "Bash, as the agent keeps it"),
        (
            [{"destination": "session", "rules": [{"toolName": "Bash", "ruleContent": "ls"}, {"toolName": "Read"}, 7]}],
            "Bash(ls), Read, in this session",
        ),
        (
            [{"destination": "localSettings", "directories": ["/a", "/b"]}],
            "files in /a, files in /b, in this folder for good",
        ),
        ([{"destination": "projectSettings", "directories": ["/a"]}], "files in /a, in this folder for good"),
        ([{"destination": "userSettings", "type": "setMode", "mode": "plan"}], "mode plan, for you everywhere"),
        ([{"type": "setMode", "mode": "acceptEdits"}], "all edits of files, as the agent keeps it"),
        ([{"destination": "session", "rules": "x", "directories": "y"}], ""),
        ([{"rules": [{"toolName": "A"}]}, "B"], "A, as the agent keeps it; B"),
    ],
)
def test_what_always_would_allow_is_reported_in_words(offered: object, words: str) -> None:
    assert asks.always_words(msgspec.json.encode(offered)) == words


def whole(description: str, input: bytes) -> list[str]:
    ask = AskLine(id="a-1", agent="bot", tool="Bash", description=description, input=Raw(input), asked="")
    return asks.full_ask_lines(ask)


LONG = "x" * 200


@pytest.mark.parametrize(
    ("description", "input", "lines"),
    [
        ("ls", b'{"a":1}', []),
        (LONG, b"null", [LONG]),
        ("", f'"{LONG}"'.encode(), [f'"{LONG}"']),
        ("", f"{LONG}\n2".encode(), [LONG, "2"]),
        ("", f'{{"a":"{LONG}","b":["c\\nd"]}}'.encode(), ["a:", f"  {LONG}", "b:", '  ["c\\nd"]']),
        (LONG, f'{{"a":"{LONG}\\nmore"}}'.encode(), [LONG, "a:", "  more"]),
        ("x" * 160, b"null", []),
        ("x" * 161, b"null", ["x" * 161]),
        ("x" * 20_001, b"null", ["x" * 20_000, "… and 1 more characters, which are not shown"]),
    ],
)
def test_all_that_would_run_is_shown_below_a_long_question(description: str, input: bytes, lines: list[str]) -> None:
    head = ["bot asks for Bash:"] if lines else []
    assert whole(description, input) == [*head, *(f"  | {line}" for line in lines)]


def test_asks_are_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    at = "2026-01-02T03:04:05Z"
    monkeypatch.setattr(time, "time", lambda: clock.parse_rfc3339(at) / 1e9 + 60.4)
    offer = Raw(b'[{"destination":"session","rules":[{"toolName":"Bash"}]}]')
    first = AskLine(id="a-1", agent="a", tool="Bash", description="ls\nps", asked=at, expires="2026-01-02T03:06:05Z")
    asks.print_table([first, AskLine(id="b-1", agent="b", tool="T", asked=at, suggestions=offer, input=Raw(b"1"))])
    assert [row.split("\t") for row in capsys.readouterr().out.splitlines()] == [
        ["ID", "AGENT", "AGE", "LEFT", "TOOL", "WHAT", "ALWAYS"],
        ["a-1", "a", "1m", "1m00s", "Bash", "ls ⏎ ps", ""],
        ["b-1", "b", "1m", "", "T", "1", "Bash, in this session"],
    ]
    asked = PermissionAsked(agent="a", ask_id="a-0abc4k2xyz", tool="T", expires="2026-01-02T03:04:00Z")
    assert asks.line(asked) == "a asks for T: ; beam approve 4k2xyz, or beam deny 4k2xyz (0ms left)"


# -- calls, long turns, trouble ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        *((f'{{"x":"1","{key}":"this"}}'.encode(), "this") for key in (
            "command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt", "text"
        )),
        (b'{"text":"b","command":"a"}', "a"),
        (b'{"command":"","text":"b"}', "b"),
        (b'{"command":["a"],"x":1}', '{"command":["a"],"x":1}'),
        (b'{"at":1.5}', "1.5"),
        (b'{"at":null}', '{"at":null}'),
        (b'{"at":["x"]}', '{"at":["x"]}'),
        (b"[]", ""),
        (b"[1]", "[1]"),
        (b"7", "7"),
        (b"no json", "no json"),
    ],
)  # fmt: skip
def test_of_an_input_the_most_telling_part_is_reported(data: bytes, words: str) -> None:
    call = events.ToolCalled(call_id="1", name="T", input=Raw(data))
    assert calls.telling_input(call) == words
    assert calls.call_text(call) == f"T {words}".rstrip()


@pytest.mark.parametrize(
    ("doing", "words"),
    [('Bash {"command":"make"}', "Bash make"), ("Bash {}", "Bash"), ("task 3", "task 3"), ("", ""), ("Bash", "Bash")],
)
def test_what_a_member_does_is_reported_as_a_call(doing: str, words: str) -> None:
    assert calls.brief_doing(doing) == words


def test_what_was_left_undone_is_one_line() -> None:
    long = Unfinished(tool="Bash", input=Raw(msgspec.json.encode({"command": "x" * 200})), how="killed")
    assert calls.unfinished_line([long, Unfinished(tool="Task")]) == (
        f"unfinished when its turn ended: Bash {'x' * 94}… (killed), Task (running)"
    )
    assert calls.unfinished_line([]) == ""


def at(seconds: float) -> str:
    return f"2026-01-02T03:04:{seconds:09.6f}Z"


@pytest.mark.parametrize(
    ("begin", "end", "took"),
    [(at(1), at(1.001), "1ms"), (at(1), at(1.0005), ""), (at(2), at(1), ""), ("", at(1), ""), (at(1), "", "")],
)
def test_a_time_that_is_not_known_or_too_short_is_not_said(begin: str, end: str, took: str) -> None:
    call, back = events.ToolCalled(call_id="1", name="T", ts=begin), events.ToolReturned(call_id="1", ts=end)
    assert calls.duration_text(call, back) == took


def test_only_so_many_calls_are_kept() -> None:
    found = Calls()
    for number in range(2_001):
        found.on_called(events.ToolCalled(call_id=str(number), name="T", agent="a"))
    assert found.take_returned(events.ToolReturned(call_id="0", agent="a")) is None
    assert found.take_returned(events.ToolReturned(call_id="1", agent="a")) is not None
    last = found.last_of("a")
    assert last is not None and last.call_id == "2000" and found.last_of("b") is None


def turn(agent: str = "a", **more: Any) -> events.TurnStarted:
    owner = events.Owner(pid=1, start_ticks=1)
    given: dict[str, Any] = {"turn_key": "k", "adapter": "codex", "via": "exec", "turn": 3, "ts": at(0), **more}
    return events.TurnStarted(owner=owner, agent=agent, **given)


def later(minutes: float) -> str:
    return clock.rfc3339(clock.parse_rfc3339(at(0)) + round(minutes * 60e9))


def test_a_turn_is_told_of_when_its_time_has_doubled() -> None:
    turns, none = LongTurns(), Calls()
    turns.update(turn())
    told = [len(turns.due(later(each), none)) for each in (0.99, 1, 1.5, 2, 3.9, 4, 30, 31, 32)]
    assert told == [0, 1, 0, 1, 0, 1, 1, 0, 1]


def test_what_a_long_turn_used_is_what_was_seen_last() -> None:
    turns, none = LongTurns(), Calls()
    assert turns.progress_of("a", later(1), none) is None
    for early in (events.UsageSeen(usage=Usage(), agent="a"), events.SessionStarted(session_id="s", agent="a")):
        turns.update(early)
    turns.update(turn())
    assert turns.progress_of("a", later(1), none) == (turn(), "turn 3 runs for 1m00s")
    turns.update(
        events.UsageSeen(usage=Usage(input_tokens=1, cached_tokens=2, output_tokens=3), cost_usd=0.5, agent="a")
    )
    turns.update(events.UsageSeen(usage=Usage(input_tokens=1000), agent="a"))
    turns.update(events.SessionStarted(resumed=True, session_id="s", model="gpt-6-sol", agent="a"))
    found = turns.progress_of("a", later(1), none)
    assert found is not None and found[1] == "turn 3 runs for 1m00s, 1,000 tokens, $0.5000"
    turns.update(events.MessageRequeued(attempt=2, reason="retry", agent="a"))
    assert turns.progress_of("a", later(1), none) is None and turns.due(later(9), none) == []
    turns.update(turn("b"))
    turns.update(events.TurnFinished(status=Status.COMPLETED, agent="b"))
    turns.update(events.TurnFinished(status=Status.COMPLETED, agent="nobody"))
    assert turns.progress_of("b", later(1), none) is None
    assert describe(61, 0, "", "Bash make") == "runs for 1m01s: Bash make"


def test_a_cost_of_a_model_without_a_price_is_not_said() -> None:
    turns = LongTurns()
    turns.update(turn())
    turns.update(events.SessionStarted(session_id="s", model="nobody's", agent="a"))
    turns.update(events.UsageSeen(usage=Usage(input_tokens=5), agent="a"))
    found = turns.progress_of("a", later(1), Calls())
    assert found is not None and found[1] == "turn 3 runs for 1m00s, 5 tokens"


def notice(text: str, **more: Any) -> events.Notice:
    given: dict[str, Any] = {"agent": "a", "turn": 1, "raw": "{}", "ts": at(1), **more}
    return events.Notice(text=text, **given)


def test_a_notice_is_held_back_until_its_agents_next_event() -> None:
    trouble = HeldNotices()
    assert [trouble.hold_back(each) for each in (notice("x", turn=None), notice("x", raw=msgspec.UNSET))] == [
        False,
        False,
    ]
    assert (
        trouble.hold_back(notice("one"))
        and trouble.hold_back(notice("one  two"))
        and trouble.hold_back(notice("three"))
    )
    quiet = (
        events.UsageSeen(usage=Usage(), agent="a"),
        events.TextDelta(text="x", agent="a"),
        events.ToolProgress(call_id="1", agent="a"),
        events.AgentExited(agent="a", code=0),
        events.MessageDead(reason="x", agent="a"),
        notice("more"),
        events.Text(text="x", agent="b"),
    )
    assert [trouble.due_before(each) for each in quiet] == [[]] * len(quiet)
    assert [each.text for each in trouble.due_before(events.Text(text="x", agent="a"))] == ["one", "three"]
    assert trouble.due_before(events.Text(text="x", agent="a")) == []


def test_what_a_failure_repeats_is_not_said_twice() -> None:
    def ended(reason: str, code: int = 1) -> events.TurnFinished:
        return events.TurnFinished(status=Status.FAILED, reason=reason, exit_code=code, agent="a")

    for reason, said in (("429: one", ""), ("else", "two"), ("", "two")):
        trouble = HeldNotices()
        trouble.hold_back(notice("one"))
        trouble.hold_back(notice("two"))
        assert trouble.due_before(ended(reason)) == []
        assert trouble.last_notice(ended(reason)) == said
        assert trouble.due_at_end() == []
    trouble = HeldNotices()
    trouble.hold_back(notice("one"))
    assert trouble.last_notice(ended("x", 0)) == "" and len(trouble.due_at_end()) == 1


def test_a_notice_that_nothing_follows_is_due_after_a_second() -> None:
    trouble = HeldNotices()
    trouble.hold_back(notice("one"))
    trouble.hold_back(notice("two", agent="b", ts=at(1.5)))
    assert trouble.due(at(1.9)) == []
    assert [each.text for each in trouble.due(at(2))] == ["one"]
    assert [each.text for each in trouble.due_at_end()] == ["two"] and trouble.due_at_end() == []


def test_the_line_of_progress_names_whose_turn_runs() -> None:
    from beam.api.progress import Progress

    assert progress_line("a-m", None, waited_s=7.6) == "a-m waits, 8s"
    call = events.ToolCalled(call_id="1", name="Bash", input=Raw(b'{"command":"make"}'))
    now = Progress(message_id="x-a-m", seconds=1.4, call=call, tokens=0)
    assert progress_line("a-m", now, waited_s=0) == "x-a-m: 1s, Bash: make"


# -- text --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("abc", 0, "…"),
        ("日本", 3, "日…"),
        ("é" * 4, 4, "é" * 4),
        ("é" * 5, 4, "ééé…"),
    ],
)
def test_a_line_is_cut_at_its_width(text: str, width: int, cut: str) -> None:
    assert truncate(text, width) == cut and display_width(cut) <= max(1, width)


def test_signs_have_their_nearest_ones_in_ascii() -> None:
    signs = "…→←↩–—\u2018\u2019“”•│⏎␛␀␡é"
    assert ascii_only(signs) == "...-><-<---''\"\"*|\\n^[^@^?\\xe9"
    assert fold(" a \n\n b\tc \r\n") == "a ⏎ b c"


def test_a_path_that_is_no_text_is_written_as_json_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"path": "a\udcff"})
    assert capsys.readouterr().out == '{"path":"a\\\\udcff"}\n'


def test_json_for_a_terminal_has_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from beam.cli.render import text as module

    assert safe_json('"\x7f\x9b"', io.StringIO()) == '"\x7f\x9b"'
    monkeypatch.setattr(module, "is_terminal", lambda _: True)
    assert safe_json('"\x7f\x9bé"', io.StringIO()) == '"\\u007f\\u009bé"'
