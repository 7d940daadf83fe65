"""Tables: tabs for programs, columns for people."""

from __future__ import annotations

import pytest

from beam.base.clock import rfc3339
from beam.cli.render import tables
from beam.cli.render.tables import ago, print_columns, print_pairs
from beam.cli.render.text import display_width


def test_on_a_terminal_columns_line_up_and_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "40")
    print_columns(("NAME", "TEXT"), [("a", "word " * 30), ("longer", "\x1b[2J")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert {line.index(text) for line, text in zip(lines, ("TEXT", "word", "␛[2J"), strict=True)} == {8}
    assert max(map(len, lines)) <= 40
    assert lines[1].rstrip().endswith("…")


@pytest.mark.parametrize("columns", [80, 60, 40, 20, 5])
def test_what_a_row_is_about_is_cut_last_and_the_widest_column_first(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    head = ("AGENT", "ADAPTER", "MODE", "MODEL", "INSTALLED")
    print_columns(
        head, [("claude-agent-acp", "名" * 10, "dialogue", "", "/a/path" * 20), ("pi", "pi", "exec", "", "-")]
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and max(map(display_width, lines)) <= max(columns, len(head) * 3 - 2)
    assert lines[1].startswith("claude-agent-acp ") == (columns >= 60)
    assert (" 名名名名名名名名名名 " in lines[1], " dialogue " in lines[1]) == (columns == 80, columns >= 60)


def test_pairs_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_pairs([("a", "1"), ("long", "\x1b")])
    assert capsys.readouterr().out == "a     1\nlong  ␛\n"


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0s"), (59, "59s"), (61, "1m"), (7300, "2h"), (200_000, "2d")])
def test_times_are_printed_in_one_unit(seconds: int, shown: str) -> None:
    import time

    assert ago(rfc3339(time.time_ns() - seconds * 1_000_000_000)) == shown


def test_a_time_in_the_future_is_now_and_nonsense_is_unknown() -> None:
    assert ago("2999-01-01T00:00:00Z") == "0s"
    assert ago("soon") == "?"
