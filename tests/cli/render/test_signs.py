"""Every sign that begins a line of the stream is explained in docs/watch.md, with what stands for it in ASCII."""

from __future__ import annotations

import re
from pathlib import Path

from beam.cli.render import event_text, stream, team
from tests.support.markdown import rows

PAGE = (Path(__file__).parents[3] / "docs" / "watch.md").read_text()
SIGN = re.compile(r'"([^\x00-\x7f]|[!?+-])"')  # a string of one character in the code


def explained() -> dict[str, str]:
    """The signs of the table, each with its stand-in."""
    found: dict[str, str] = {}
    for row in rows(PAGE):
        if len(row) == 3:
            signs, plain = (re.findall(r"`(\S+?)`", cell.replace("\\|", "|")) for cell in row[:2])
            found |= {sign: plain[min(at, len(plain) - 1)] for at, sign in enumerate(signs)}
    return found


def signs_of_the_code() -> set[str]:
    sources = [Path(module.__file__).read_text() for module in (event_text, stream, team)]
    return {sign for source in sources for sign in SIGN.findall(source)}


def test_every_sign_of_the_stream_is_in_the_table() -> None:
    signs = signs_of_the_code()
    assert {"▶", "■", "✗", "│", "?", "!", "·", "◧", "↻"} <= signs, "the search finds them"
    assert signs - {sign[0] for sign in explained()} == set()


def test_the_table_says_what_stands_for_a_sign_where_only_ascii_can_be_shown() -> None:
    told = {sign: plain for sign, plain in explained().items() if ord(sign[0]) > 127 and sign != "⏎"}
    assert {sign: plain for sign, plain in told.items() if sign.translate(team.ASCII_MARKS) != plain} == {}
    assert {chr(code) for code in team.ASCII_MARKS} - {sign[0] for sign in told} == set()
