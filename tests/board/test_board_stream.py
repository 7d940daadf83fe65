"""The stream and its filter."""

from __future__ import annotations

from msgspec import Raw

from beam import events
from beam.board.names import Names
from beam.board.stream import Stream, StreamEvent, detail_lines, draw_line, parse_filter, stream_event
from beam.board.words import as_text
from tests.board.made import HOSTILE, NOW_S, head, story


def lines() -> list[StreamEvent]:
    return [line for each in story() if (line := stream_event(each.event, each.key, each.name)) is not None]


def texts(stream: Stream) -> list[str]:
    return [line if isinstance(line := stream[at], str) else line.text for at in range(len(stream))]


def filled(text: str = "", *, key: str = "", kept: int = 100) -> Stream:
    stream = Stream(kept, now=lambda: NOW_S)
    stream.set_filter(parse_filter(text, key=key))
    for line in lines():
        stream.add(line)
    return stream


def test_each_event_for_people_is_a_line() -> None:
    assert [(line.sign, line.text[:20]) for line in lines()] == [
        ("←", "human: fix the parse"),
        ("▶", "turn 2 (claude)"),
        ("┊", "A first look."),
        ("⚙", "Bash pytest -q tests"),
        ("✗", "1 failed"),
        ("│", "One test fails: ␛[2J"),
    ]


def test_bookkeeping_is_no_line() -> None:
    assert stream_event(events.TextDelta(**head("a", 1), text="x"), "k", "a") is None


def test_words_of_a_filter_must_all_be_there_in_any_case() -> None:
    assert len(filled("PARSER fix")) == 1 and len(filled("parser nothing")) == 0


def test_a_filter_takes_the_options_of_watch() -> None:
    assert texts(filled("type:tool.*")) == ["Bash pytest -q tests/parser", "1 failed"]
    assert len(filled("agent:builder")) == 6 and len(filled("agent:other")) == 0 and len(filled("team:docs")) == 0


def test_a_filter_can_be_changed_for_what_is_kept() -> None:
    stream = filled("type:text")
    assert len(stream) == 1
    stream.set_filter(parse_filter(""))
    assert len(stream) == 6
    stream.set_filter(parse_filter("", key="nobody"))
    assert len(stream) == 0


def test_only_the_last_lines_are_kept_and_the_others_are_counted() -> None:
    stream = filled(kept=4)
    assert (len(stream), stream.dropped) == (4, 2) and texts(stream)[0] == "A first look."


def test_a_date_stays_above_the_oldest_line_as_long_as_that_is_of_its_day() -> None:
    stream, day = Stream(4, now=lambda: NOW_S), 86_400.0
    shown: list[list[str]] = []
    for days, word in ((2, "a"), (2, "b"), (1, "c"), (1, "d"), (0, "five")):
        event = events.Text(**head("builder", days * day), text=word)
        line = stream_event(event, "k", "builder")
        assert line is not None
        stream.add(line)
        shown.append(texts(stream))
    before, yesterday, today = "── 2025-06-13 ──", "── 2025-06-14 ──", "── 2025-06-15 ──"
    assert shown == [
        [before, "a"],
        [before, "a", "b"],
        [before, "b", yesterday, "c"],
        [yesterday, "c", "d"],
        [yesterday, "d", today, "five"],
    ]
    assert stream.dropped == 4
    stream.set_filter(parse_filter("five"))
    assert texts(stream) == ["five"]


def test_a_whole_event_has_its_text_and_all_its_fields_and_nothing_to_obey() -> None:
    call = Raw(b'{"command":"printf \\u001b[2J"}')
    event = events.ToolReturned(**head("a", 1), call_id="c9", output=f"first\n{HOSTILE}\nlast", is_error=True)
    text = "\n".join(detail_lines(StreamEvent(event, "k", "a", "✗", "")))
    assert "first\n" in text and "\nlast" in text and '"call_id": "c9"' in text
    asked = events.PermissionAsked(**head("a", 1), ask_id="x", tool="Bash", input=call)
    text += "\n".join(detail_lines(StreamEvent(asked, "k", "a", "?", "")))
    assert "\x1b" not in text and "\u202e" not in text


def test_a_line_says_when_who_and_what() -> None:
    assert as_text(draw_line(lines()[3], 80, Names())).split()[1:] == [
        "builder",
        "⚙",
        "Bash",
        "pytest",
        "-q",
        "tests/parser",
    ]
