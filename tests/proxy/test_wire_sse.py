from __future__ import annotations

import pytest

from beam.proxy.wire import sse


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hi", "hi"),
        ("  spaces stay \n", "  spaces stay \n"),
        ("<environment_context>\n<cwd>/w</cwd>\n</environment_context>", ""),
        ("<session_context>a</session_context>\n<system-reminder>b</system-reminder>\nhi", "hi"),
        ("hi\n<system-reminder>b</system-reminder>\n", "hi"),
        ("a <system-reminder> b </system-reminder> c", "a <system-reminder> b </system-reminder> c"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("</system-reminder>", "</system-reminder>"),
        ("# AGENTS.md instructions for /w\n\nbe brief", ""),
        ("[Request interrupted by user]", ""),
    ],
)
def test_what_a_cli_put_around_a_persons_words_is_not_spoken(text: str, said: str):
    assert sse.person_text(text) == said


def test_an_event_has_a_name_only_where_it_is_given_one():
    assert sse.event({"a": 1}) == b'data: {"a":1}\n\n'
    assert sse.event({"a": 1}, "x") == b'event: x\ndata: {"a":1}\n\n'


def test_pieces_are_of_that_many_characters():
    assert sse.pieces("abcde", 2) == ["ab", "cd", "e"]


def test_content_is_a_text_or_parts_of_it():
    assert sse.join_texts([{"text": "a"}, {"type": "image"}, 1, {"text": "b"}]) == "a\nb"
    assert (sse.join_texts("x"), sse.join_texts(None)) == ("x", "")
