"""The whole lines of `beam send --at` and `--every`, and what is no time."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from beam.base.errors import UsageError
from beam.cli import schedule
from beam.cli.parameters import parameters_of
from beam.cli.send import send

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=timezone(timedelta(hours=1)))
HINT_AT = "write 14:30, 2026-11-23T14:30, or a duration from now (2h)"


@pytest.mark.parametrize(
    ("at", "moment"),
    [
        ("14:30", "2026-01-15 14:30:00"),
        (" 12:00:01 ", "2026-01-15 12:00:01"),
        ("12:00", "2026-01-16 12:00:00"),
        ("09:00", "2026-01-16 09:00:00"),
        ("2026-01-15T12:01", "2026-01-15 12:01:00"),
        ("2026-02-01", "2026-02-01 00:00:00"),
        ("2026-01-15T11:30+00:00", "2026-01-15 12:30:00"),
        ("2h", "2026-01-15 14:00:00"),
        ("90s", "2026-01-15 12:01:30"),
        ("90", "2026-01-15 12:01:30"),
    ],
)
def test_a_message_for_later_is_a_line_for_systemd(at: str, moment: str) -> None:
    line = schedule.schedule_line(["beam", "send", "a b", "$HOME"], Path("/tmp/x y"), at=at, every=None, now=NOON)
    when = f"'--on-calendar={moment}' '--working-directory=/tmp/x y'"
    assert line == f"systemd-run --user --collect {when} -- beam send 'a b' '$$HOME'"


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("soon", "'soon' is no point in time"),
        ("25:00", "'25:00' is no point in time"),
        ("2026-13-01", "'2026-13-01' is no point in time"),
        ("2026-01-15T12:00", "2026-01-15T12:00 is over"),
        ("2001-01-01", "2001-01-01 is over"),
        ("0", "0 is over"),
    ],
)
def test_what_is_no_time_to_come_is_refused(at: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        schedule.schedule_line(["x"], Path("/"), at=at, every=None, now=NOON)
    assert (raised.value.message, raised.value.hint) == (said, HINT_AT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("every", "fields"),
    [
        ("0 9 * * *", "0 9 * * *"),
        (" 0  9 * * 1-5 ", "0 9 * * 1-5"),
        ("*/15 * * * *", "*/15 * * * *"),
        ("0,30 0-12/2 1 jan,feb mon", "0,30 0-12/2 1 jan,feb mon"),
        ("59 23 31 12 7", "59 23 31 12 7"),
        ("@daily", "@daily"),
        ("DAILY", "@daily"),
        ("@hourly", "@hourly"),
    ],
)
def test_what_is_repeated_by_a_calendar_is_a_line_for_cron(every: str, fields: str) -> None:
    line = schedule.schedule_line(["beam", "send", "50%"], Path("/x y"), at=None, every=every, now=NOON)
    assert line == f"{fields} cd '/x y' && beam send 50\\%"


@pytest.mark.parametrize(("every", "seconds"), [("60s", "60s"), ("1h30m", "5400s"), ("90", "90s")])
def test_what_is_repeated_after_a_time_is_a_line_for_systemd(every: str, seconds: str) -> None:
    line = schedule.schedule_line(["x"], Path("/"), at=None, every=every, now=NOON)
    active = f"--on-active={seconds} --on-unit-active={seconds}"
    assert line == f"systemd-run --user --collect {active} --working-directory=/ -- x"


@pytest.mark.parametrize(
    ("every", "said"),
    [
        ("59s", "59s is shorter than a minute"),
        ("often", "'often' is no interval"),
        ("1 2 3", "'1 2 3' has 3 fields, and a crontab has 5"),
        ("@often", "'@often' has 1 fields, and a crontab has 5"),
        ("*", "'*' has 1 fields, and a crontab has 5"),
        ("60 * * * *", "'60' is no minute (0 to 59)"),
        ("* 24 * * *", "'24' is no hour (0 to 23)"),
        ("* * 0 * *", "'0' is no day (1 to 31)"),
        ("* * 32 * *", "'32' is no day (1 to 31)"),
        ("* * * 13 *", "'13' is no month (1 to 12)"),
        ("* * * * 8", "'8' is no day of the week (0 to 7)"),
        ("5-1 * * * *", "'5-1' is no minute (0 to 59)"),
        ("*/0 * * * *", "'*/0' is no minute (0 to 59)"),
        ("*/60 * * * *", "'*/60' is no minute (0 to 59)"),
        ("x * * * *", "'x' is no minute (0 to 59)"),
        ("1,,2 * * * *", "'1,,2' is no minute (0 to 59)"),
    ],
)
def test_what_is_no_interval_is_refused(every: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        schedule.schedule_line(["x"], Path("/"), at=None, every=every, now=NOON)
    assert raised.value.message == said and raised.value.hint == schedule._HINT_EVERY


@pytest.mark.parametrize(
    ("word", "cwd", "every", "what"),
    [
        ("a\x1b", "/", "@daily", "the text holds a control character, which no line for a shell shows"),
        ("a", "/\x07", "2h", "the text holds a control character, which no line for a shell shows"),
        ("a\nb", "/", "@daily", "a line of a crontab can't hold this: the text has several lines"),
        (
            *("a\\b", "/", "@daily"),
            "a line of a crontab can't hold this: the text has a backslash, which each cron reads in its own way",
        ),
        ("a", "/b\nc", "@daily", "a line of a crontab can't hold this: the text has several lines"),
    ],
)
def test_what_no_line_can_hold_is_refused(word: str, cwd: str, every: str, what: str) -> None:
    with pytest.raises(UsageError) as raised:
        schedule.schedule_line([word], Path(cwd), at=None, every=every, now=NOON)
    assert raised.value.message == what
    assert raised.value.hint == "put the text into a file, and send it with -f FILE"


def test_a_tab_and_a_line_break_are_no_harm_to_systemd() -> None:
    line = schedule.schedule_line(["a\tb\nc"], Path("/"), at=None, every="2h", now=NOON)
    assert line.endswith("-- 'a\tb\nc'")


def test_the_words_of_a_command_are_those_that_were_given() -> None:
    parameters = parameters_of(send)
    assert parameters is not None
    given = {each.name: each.declared.default for each in parameters}
    given |= {"agent": "bot", "text": ["hi", "you"], "file": ["a", "b"], "new": True, "budget": 0.5, "at": "13:00"}
    words = schedule.command_words(parameters, given, without=frozenset({"at", "every"}))
    assert words == ["--file=a", "--file=b", "--new", "--budget-usd=0.5", "bot", "hi", "you"]
    dashed = schedule.command_words(parameters, {**given, "text": ["-x"]}, without=frozenset({"at", "every"}))
    assert dashed[-3:] == ["--", "bot", "-x"]


def test_the_program_is_the_one_that_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "beam"
    module = [sys.executable, "-P", "-m", "beam"]
    assert schedule.program(str(program)) == module
    program.touch()
    assert schedule.program(str(program)) == module
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert schedule.program("./beam") == [str(program)]
    other = tmp_path / "other"
    other.symlink_to(program)
    assert schedule.program(str(other)) == module
    link = tmp_path / "d" / "beam"
    link.parent.mkdir()
    link.symlink_to(program)
    assert schedule.program(str(link)) == [str(link)] and os.access(link, os.X_OK)
