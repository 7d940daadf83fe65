"""Cursors: a stream that goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.api.cursor import SAME_NS, WINDOW_NS, Cursor, open_cursor
from beam.clock import rfc3339
from beam.errors import CorruptError, UsageError
from beam.events import Event, MailSent, TaskStarted, Text

NOW = 1_795_300_000_000_000_000
S = 1_000_000_000


def started(at_ns: int, task: str = "1") -> Event:
    key = f"t/task/{task}/started/{at_ns // 1_000_000}"
    return TaskStarted(team="t", task_id=task, ts=rfc3339(at_ns), agent="bob@t", key=key)


def again(path: Path, now_ns: int = NOW) -> Cursor:
    return Cursor(path, now_ns=now_ns)


def test_a_new_cursor_begins_now_and_an_old_one_a_little_before_it_stopped(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    assert cursor.since == ""
    cursor.save()
    assert again(tmp_path / "c.json", NOW + 99 * S).since == rfc3339(NOW - WINDOW_NS)


def test_what_was_printed_is_not_printed_again_even_if_another_source_gives_it_another_time(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    assert cursor.passes(started(NOW))
    cursor.printed(started(NOW))
    cursor.save()
    for late in (0, SAME_NS):
        assert not again(tmp_path / "c.json").passes(started(NOW + late))
    assert again(tmp_path / "c.json").passes(started(NOW + SAME_NS + S))
    assert again(tmp_path / "c.json").passes(started(NOW, "2"))


def test_the_same_happening_twice_is_printed_twice(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    for at_ns in (NOW, NOW + S):
        assert cursor.passes(started(at_ns))
        cursor.printed(started(at_ns))
    cursor.save()
    cursor = again(tmp_path / "c.json")
    assert [cursor.passes(started(NOW + n * S)) for n in range(3)] == [False, False, True]


def test_what_was_skipped_once_is_skipped_by_the_next_one_too(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    cursor.passes(started(NOW))
    cursor.printed(started(NOW))
    cursor.save()
    for _ in range(3):
        cursor = again(tmp_path / "c.json")
        assert not cursor.passes(started(NOW))
        cursor.printed(Text(text="x", ts=rfc3339(NOW + S), agent="a", seq=3))
        cursor.save()


def test_mail_is_known_by_what_it_says_whatever_its_id(tmp_path: Path) -> None:
    def mail(mail_id: str) -> Event:
        return MailSent(
            team="t", mail_id=mail_id, sender="a", to="b", text="x", ts=rfc3339(NOW), key=f"t/sent/b/{mail_id}"
        )

    cursor = again(tmp_path / "c.json")
    cursor.printed(mail("uuid"))
    cursor.save()
    assert not again(tmp_path / "c.json").passes(mail("~digest"))


def test_events_of_a_journal_are_known_by_their_number(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    cursor.printed(Text(text="x", ts=rfc3339(NOW), agent="a", seq=3))
    cursor.save()
    cursor = again(tmp_path / "c.json")
    assert not cursor.passes(Text(text="x", ts=rfc3339(NOW), agent="a", seq=3))
    assert cursor.passes(Text(text="x", ts=rfc3339(NOW), agent="a", seq=4))


def test_a_damaged_cursor_and_a_bad_name_are_said(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(CorruptError, match="is no cursor"):
        again(tmp_path / "c.json")
    with pytest.raises(UsageError):
        open_cursor("../x", {"HOME": str(tmp_path)})
