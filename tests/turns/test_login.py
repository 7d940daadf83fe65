"""The link for logging in, out of what a CLI said."""

from __future__ import annotations

import pytest

from beam.model import events
from beam.turns.outcome import CliTexts, asks_to_log_in, login_link_in


@pytest.mark.parametrize(
    ("texts", "link"),
    [
        (("Open https://github.com/login/device and enter AB12-CD34.",), "https://github.com/login/device"),
        (
            ("see https://a.example/docs", "visit https://a.example/oauth/authorize?a=1&b=2"),
            "https://a.example/oauth/authorize?a=1&b=2",
        ),
        (("401 (https://a.example/help)",), "https://a.example/help"),
        (("https://a.example/\x1b[31mlogin\x1b[0m now",), "https://a.example/login"),
        (("https://a.example/login\x07\x9b2J\u202e",), "https://a.example/login"),
        (('<a href="https://a.example/login">',), "https://a.example/login"),
        (("http://127.0.0.1:8085/auth",), "http://127.0.0.1:8085/auth"),
        (("file:///etc/passwd javascript:login",), None),
        (("https://",), None),
        ((), None),
    ],
)
def test_the_link_is_the_one_that_is_for_logging_in(texts: tuple[str, ...], link: str | None) -> None:
    assert login_link_in(texts) == link


def test_no_control_character_is_part_of_a_link() -> None:
    hostile = "https://login.example/" + "".join(map(chr, range(0x250)))
    found = login_link_in((hostile,))
    assert found is not None and found.isascii() and found.isprintable()


def test_a_long_text_is_read_at_its_end() -> None:
    assert login_link_in(("x" * 1_000_000 + " https://login.example/a",)) == "https://login.example/a"


def test_what_the_model_and_tools_say_is_not_heard() -> None:
    assert not set(CliTexts.types).intersection((events.Text, events.TextDelta, events.Thinking, events.ToolReturned))
    heard = CliTexts()
    heard.add_text(events.Notice(text="no link"))
    assert heard.texts == []
    for said in (
        events.Notice(text="https://a.example/1"),
        events.StatusChanged(state="authenticating", detail="https://a.example/2"),
        events.AgentExited(stderr_tail="https://a.example/3"),
    ):
        heard.add_text(said)
    assert [text[-1] for text in heard.texts] == ["1", "2", "3"]


def test_only_a_link_with_such_words_asks_to_log_in() -> None:
    assert asks_to_log_in("go to https://a.example/device")
    assert not asks_to_log_in("see https://a.example/troubleshooting") and not asks_to_log_in("log in")
