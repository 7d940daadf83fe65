"""What Qwen Code makes of words with @ is known, so that a prompt which it changes is said to be changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.agents.qwen.mentions import change_notice, text_as_received


@pytest.mark.parametrize(
    ("text", "arrives"),
    [
        ("mail a@b.c, please", "mail a @b.c, please"),
        ("the end\n@nobody, the end", "the end\n @nobody, the end"),
        ("@first\n@second\n  go()", "@first @second\n  go()"),
        ("a @b\\ c d", "a @b c d"),
    ],
)
def test_a_prompt_whose_blanks_qwen_changes_is_reported_with_the_words(text: str, arrives: str) -> None:
    assert text_as_received(text) == arrives
    assert change_notice(text).startswith("qwen takes words with @ for files")


@pytest.mark.parametrize("text", ["", "no such word\n\n  here", "see @README.md. It is", "@", "a \\@b", " @a, @b"])
def test_of_a_prompt_that_arrives_as_it_is_nothing_is_reported(text: str) -> None:
    assert change_notice(text) == ""


@pytest.mark.slow
@given(st.text(alphabet="a@ \n.,\\"))
def test_only_blanks_and_backslashes_are_ever_changed(text: str) -> None:
    assert "".join(text_as_received(text).replace("\\", "").split()) == "".join(text.replace("\\", "").split())
