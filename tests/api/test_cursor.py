"""Cursors: a stream that goes on where it stopped."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from beam.api import cursor as module
from beam.api.cursor import SAME_EVENT_NS, WINDOW_NS, Cursor, open_cursor
from beam.base.clock import rfc3339
from beam.base.errors import CorruptError, UsageError
from beam.model.events import Event, MailDelivered, MailLost, MailSent, TaskStarted, Text

NOW = 1_795_300_000_000_000_000
S = 1_000_000_000


def started(at_ns: int, task: str = "1") -> Event:
    key = f"t/task/{task}/started/{at_ns // 1_000_000}"
    return TaskStarted(team="t", task_id=task, ts=rfc3339(at_ns), agent="bob@t", key=key)


def again(path: Path, now_ns: int = NOW) -> Cursor:
    return Cursor(path, now_ns=now_ns)


def put(cursor: Cursor, *told: Event) -> None:
    """Record the events as if they were printed into a pipe."""
    cursor.record_before_print(told, io.StringIO(), lines=True)
    cursor.record_after_print()


def test_a_new_cursor_begins_now_and_an_old_one_a_little_before_it_stopped(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    assert cursor.since == ""
    cursor.save()
    assert again(tmp_path / "c.json", NOW + 99 * S).since == rfc3339(NOW - WINDOW_NS)


def test_what_was_printed_is_not_printed_again_even_if_another_source_gives_it_another_time(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    assert cursor.passes(started(NOW))
    put(cursor, started(NOW))
    for late in (0, SAME_EVENT_NS):
        assert not again(tmp_path / "c.json").passes(started(NOW + late))
    assert again(tmp_path / "c.json").passes(started(NOW + SAME_EVENT_NS + S))
    assert again(tmp_path / "c.json").passes(started(NOW, "2"))


def test_the_same_happening_twice_is_printed_twice(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    for at_ns in (NOW, NOW + S):
        assert cursor.passes(started(at_ns))
        put(cursor, started(at_ns))
    cursor = again(tmp_path / "c.json")
    assert [cursor.passes(started(NOW + n * S)) for n in range(3)] == [False, False, True]


def test_what_was_skipped_once_is_skipped_by_the_next_one_too(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    cursor.passes(started(NOW))
    put(cursor, started(NOW))
    for _ in range(3):
        cursor = again(tmp_path / "c.json")
        assert not cursor.passes(started(NOW))
        put(cursor, Text(text="x", ts=rfc3339(NOW + S), agent="a", seq=3))


def test_mail_is_known_by_what_it_says_whatever_its_id(tmp_path: Path) -> None:
    def mail(mail_id: str) -> Event:
        return MailSent(
            team="t", mail_id=mail_id, sender="a", to="b", text="x", ts=rfc3339(NOW), key=f"t/sent/b/{mail_id}"
        )

    cursor = again(tmp_path / "c.json")
    put(cursor, mail("uuid"))
    assert not again(tmp_path / "c.json").passes(mail("~digest"))


def test_events_of_a_journal_are_known_by_their_number(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    put(cursor, Text(text="x", ts=rfc3339(NOW), agent="a", seq=3))
    cursor = again(tmp_path / "c.json")
    assert not cursor.passes(Text(text="x", ts=rfc3339(NOW), agent="a", seq=3))
    assert cursor.passes(Text(text="x", ts=rfc3339(NOW), agent="a", seq=4))


def test_of_a_write_into_a_file_that_was_killed_only_what_arrived_is_known(tmp_path: Path) -> None:
    found = [started(NOW, str(number)) for number in range(4)]
    for arrived, known in (("", 0), ("one\ntwo\n", 2), ("one\ntwo\nthr", 2), ("one\ntwo\nthree\nfour\n", 4)):
        path, output = tmp_path / f"{known}{len(arrived)}.json", tmp_path / f"{known}{len(arrived)}.out"
        with output.open("w") as file:
            file.write("before\n")
            file.flush()
            cursor = again(path)
            cursor.record_before_print(found, file, lines=True)
            file.write(arrived)
        cursor = again(path)
        assert [cursor.passes(event) for event in found] == [number >= known for number in range(4)]
        assert output.read_text() == "before\n" + arrived + ("\n" if arrived.endswith("thr") else "")


def test_a_write_into_a_pipe_that_a_kill_interrupted_is_repeated(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    put(cursor, started(NOW))
    cursor.record_before_print([started(NOW, "2")], io.StringIO(), lines=True)
    cursor = again(tmp_path / "c.json")
    assert [cursor.passes(started(NOW, task)) for task in "12"] == [False, True]


def test_half_a_line_of_a_cursor_is_no_damage(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    put(cursor, started(NOW))
    with (tmp_path / "c.json").open("ab") as file:
        file.write(b'{"out": [')
    cursor = again(tmp_path / "c.json")
    assert not cursor.passes(started(NOW))
    put(cursor, started(NOW, "2"))
    cursor = again(tmp_path / "c.json")
    assert [cursor.passes(started(NOW, task)) for task in "12"] == [False, False]


def test_a_damaged_cursor_and_a_bad_name_are_reported(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(CorruptError, match="is not a cursor"):
        again(tmp_path / "c.json")
    with pytest.raises(UsageError):
        open_cursor("../x", {"HOME": str(tmp_path)})


def test_a_cursor_is_written_anew_before_it_grows_too_large_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REWRITTEN_BYTES", 1000)
    cursor = again(tmp_path / "c.json")
    for number in range(200):
        put(cursor, started(NOW + number * 10 * S, str(number)))
    assert (tmp_path / "c.json").stat().st_size < 5000
    assert not again(tmp_path / "c.json").passes(started(NOW + 1990 * S, "199"))


@pytest.mark.parametrize(
    "data",
    [
        b'{"at":' * 100_000,
        b'{"at":"0001-01-01T00:00:00Z"}\n',
        b'{"at":"2026-01-01T00:00:00Z"}\n{"out":[["a","2026-01-01T00:00:00Z"]],"path":"/x","size":18446744073709551615}\n',
        b'{"at":"2026-01-01T00:00:00Z"}\n{"out":[],"path":"/x\\u0000","size":-1}\n',
    ],
)
def test_whatever_a_cursor_says_it_is_one_or_it_is_said_to_be_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "c.json").write_bytes(data)
    try:
        again(tmp_path / "c.json").passes(started(NOW))
    except CorruptError as error:
        assert "remove it to start over" in error.hint


def test_each_event_has_what_identifies_it() -> None:
    key = started(NOW)
    found = [
        module._identity(Text(text="x", seq=5, agent="a")),
        module._identity(key),
        module._identity(MailSent(team="t", sender="a", to="b", text="x", mail_id="1")),
        module._identity(MailDelivered(team="t", sender="a", to="b", mail_id="1")),
        module._identity(MailLost(team="t", sender="a", to="b", mail_id="1")),
        module._identity(Text(text="x", agent="a")),
    ]
    assert found[0] == "a#5" and len(set(found)) == 6 and all(len(each) == 16 for each in found[1:])
    assert module._identity(started(NOW + S)) == found[1] != module._identity(started(NOW, "2"))
    assert module._identity(MailSent(team="t", sender="a", to="b", text="x", mail_id="2", ts="t")) == found[2]
    for other in ({"team": "u"}, {"sender": "c"}, {"to": "c"}):
        fields = {"team": "t", "sender": "a", "to": "b", "mail_id": "1", **other}
        assert module._identity(MailDelivered(**fields)) != found[3]
        assert module._identity(MailSent(text="x", **fields)) != found[2]
    assert (
        module._identity(Text(text="x", agent="a", ts="t")) == found[5] != module._identity(Text(text="y", agent="a"))
    )


def test_what_is_too_old_is_not_printed_and_forgotten_when_the_file_is_written_anew(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    put(cursor, started(NOW), started(NOW + 200 * S, "2"))
    cursor = again(tmp_path / "c.json", NOW + 999 * S)
    assert cursor.since == rfc3339(NOW + 80 * S)
    assert not cursor.passes(started(NOW + 79 * S, "3")) and cursor.passes(started(NOW + 80 * S, "3"))
    cursor.save()
    assert [at for _, at in again(tmp_path / "c.json")._all] == [rfc3339(NOW + 200 * S)]
    assert len((tmp_path / "c.json").read_bytes().splitlines()) == 1


@pytest.mark.parametrize(("lines", "rows"), [(2, [2, 3, 2, 3, 2]), (5000, [2, 3, 4, 5, 6])])
def test_a_cursor_is_written_anew_after_so_many_lines(
    lines: int, rows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LINES", lines)
    cursor = again(tmp_path / "c.json")
    seen = []
    for number in range(5):
        put(cursor, started(NOW + number, str(number)))
        seen.append(len((tmp_path / "c.json").read_bytes().splitlines()))
    assert seen == rows


def test_nothing_printed_makes_a_cursor_once(tmp_path: Path) -> None:
    cursor = again(tmp_path / "c.json")
    cursor.record_before_print([], io.StringIO(), lines=True)
    assert not (tmp_path / "c.json").exists()
    cursor.record_after_print()
    assert (tmp_path / "c.json").exists()
    (tmp_path / "c.json").unlink()
    cursor.record_after_print()
    assert not (tmp_path / "c.json").exists()


def test_what_is_wrong_with_a_cursor_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text("{")
    with pytest.raises(CorruptError) as damaged:
        again(path)
    assert damaged.value.message.startswith(f"{path} is not a cursor: ")
    assert (damaged.value.hint, damaged.value.subject) == ("remove it to start over", str(path))
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    for name in ("", "A", "-a", "a" * 65, "a.b"):
        with pytest.raises(UsageError) as wrong:
            open_cursor(name, environ)
        assert (wrong.value.message, wrong.value.hint, wrong.value.subject) == (
            f"{name!r} is not a name for a cursor",
            "use lower-case letters, digits, - and _",
            name,
        )
    cursor = open_cursor("a" * 64, environ)
    put(cursor, started(NOW))
    assert (tmp_path / "state/beam/cursors" / f"{'a' * 64}.json").exists()
