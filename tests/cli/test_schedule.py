"""The lines of `beam send --at` and `--every`: a shell reads exactly the words that were typed."""

from __future__ import annotations

import subprocess
import time as clock
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam.base.errors import UsageError
from beam.cli import schedule
from beam.cli.parameters import parameters_of
from beam.cli.send import send

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=timezone(timedelta(hours=1)))
PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.sampled_from(" $%'\"`!#&;|*~<>()"))
HOSTILE = ["$(touch /tmp/x)", "`id`", "'; rm -rf ~; '", '"$HOME"', "50%", "a  b", "#x", "--x", "~", "*", "!!", "é", ""]


def cron(*words: str, cwd: Path = Path("/tmp")) -> str:
    return schedule.schedule_line(words, cwd, at=None, every="0 9 * * *", now=NOON)


def once(*words: str, cwd: Path = Path("/tmp")) -> str:
    return schedule.schedule_line(words, cwd, at="13:00", every=None, now=NOON)


def as_cron_runs_it(line: str) -> str:
    """The command that cron gives to sh: the fields are gone, and `\\%` is `%`."""
    return line.split(" ", 5)[5].replace("\\%", "%")


def read_by_sh(command: str, *, cwd: Path) -> list[str]:
    """The words of the last command, as sh splits them: `show` prints its own, a NUL after each."""
    script = "show() { for word; do printf '%s\\0' \"$word\"; done; }\n" + command
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True, cwd=cwd, env={"PATH": "/usr/bin:/bin"})
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(PRINTABLE, max_size=4))
def test_sh_reads_of_a_line_for_cron_exactly_the_words(words: list[str]) -> None:
    if not any("\\" in word for word in words):
        assert read_by_sh(as_cron_runs_it(cron("show", *words)), cwd=Path("/")) == words


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(PRINTABLE | st.just("two\nlines"), max_size=4))
def test_sh_reads_of_a_line_for_systemd_exactly_the_words_with_each_dollar_doubled(words: list[str]) -> None:
    found = read_by_sh(once("beam", *words).replace("systemd-run", "show", 1), cwd=Path("/"))
    assert found[found.index("--") + 2 :] == [word.replace("$", "$$") for word in words]


@pytest.mark.slow
def test_hostile_words_and_folders_are_words(tmp_path: Path) -> None:
    folder = tmp_path / "it's $(touch x) 100%"
    folder.mkdir()
    assert read_by_sh(as_cron_runs_it(cron("show", *HOSTILE, cwd=folder)), cwd=tmp_path) == HOSTILE
    there = as_cron_runs_it(cron("show", cwd=folder)) + '; show "$PWD"'
    assert read_by_sh(there, cwd=tmp_path) == [str(folder)]
    assert list(folder.iterdir()) == []


def test_no_percent_sign_of_a_line_for_cron_is_without_a_backslash_before_it() -> None:
    line = cron("beam", "100%", "%d")
    assert line.count("%") == line.count("\\%") == 2


@pytest.mark.parametrize("word", ["a\nb", "back\\slash", "\x1b[31m", "a\0b", "\u202eabc", "a\rb"])
def test_what_a_line_of_a_crontab_can_not_hold_is_refused_with_the_way_out(word: str) -> None:
    with pytest.raises(UsageError) as refused:
        cron("beam", word)
    assert "-f FILE" in refused.value.hint


@pytest.mark.parametrize(
    ("spec", "begins"),
    [
        ("0 9 * * 1-5", "0 9 * * 1-5 cd"),
        ("*/10 8-18 * jan,feb MON-FRI", "*/10 8-18 * jan,feb mon-fri cd"),
        ("daily", "@daily cd"),
        ("@hourly", "@hourly cd"),
        ("2h", "systemd-run --user --collect --on-active=7200s --on-unit-active=7200s --working-directory=/tmp --"),
    ],
)
def test_an_interval_becomes_fields_of_a_crontab_or_a_timer(spec: str, begins: str) -> None:
    assert schedule.schedule_line(["beam"], Path("/tmp"), at=None, every=spec, now=NOON).startswith(f"{begins} ")


@pytest.mark.parametrize(
    "spec",
    [
        "", "soon", "10s", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "* * * *", "* * * * * *",
        "5-1 * * * *", "*/0 * * * *", "* * * * mon-", "$(id) * * * *", "* * * * *;id", "-1 * * * *", "1- * * * *",
        "٣ * * * *",
    ],
)  # fmt: skip
def test_what_is_no_interval_is_refused(spec: str) -> None:
    with pytest.raises(UsageError):
        schedule.schedule_line(["beam"], Path("/tmp"), at=None, every=spec, now=NOON)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("13:30", "2026-01-15 13:30:00"),
        ("09:00", "2026-01-16 09:00:00"),
        ("2h", "2026-01-15 14:00:00"),
        ("2026-02-01T08:00", "2026-02-01 08:00:00"),
        ("2026-01-15T12:00:00+00:00", "2026-01-15 13:00:00"),
    ],
)
def test_a_time_is_the_next_one_of_that_kind_in_local_time(text: str, moment: str) -> None:
    assert f"'--on-calendar={moment}'" in schedule.schedule_line(["beam"], Path("/tmp"), at=text, every=None, now=NOON)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-12-01T12:00+00:00", "2026-12-01 13:00:00"),
        ("2026-12-01T12:00", "2026-12-01 12:00:00"),
        ("2026-08-01T12:00Z", "2026-08-01 14:00:00"),
        ("200d", "2027-01-17 11:00:00"),
        ("2h", "2026-07-01 14:00:00"),
    ],
)
def test_a_time_is_local_also_after_the_change_from_summer_to_winter(
    monkeypatch: pytest.MonkeyPatch, text: str, moment: str
) -> None:
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        clock.tzset()
        now = datetime(2026, 7, 1, 12, 0, tzinfo=schedule.LocalZone())
        line = schedule.schedule_line(["beam"], Path("/tmp"), at=text, every=None, now=now)
    clock.tzset()
    assert f"'--on-calendar={moment}'" in line


@pytest.mark.parametrize("text", ["", "noon", "2025-01-01", "2026-01-15T11:59", "25:00", "-5m", "9999999999h"])
def test_what_is_no_time_to_come_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        schedule.schedule_line(["beam"], Path("/tmp"), at=text, every=None, now=NOON)


def test_the_words_of_a_command_line_are_those_that_were_given() -> None:
    parameters = parameters_of(send)
    assert parameters is not None
    values: dict[str, object] = {parameter.name: parameter.value([]) if parameter.name != "agent" else "a"
                                 for parameter in parameters}  # fmt: skip
    values |= {
        "text": ["--hi", "you"],
        "file": ["a b.md", "-x"],
        "once": True,
        "timeout": "5m",
        "max_turns": 3,
        "at": "1h",
    }
    words = schedule.command_words(parameters, values, without=frozenset({"at", "every"}))
    assert words == ["--file=a b.md", "--file=-x", "--once", "--timeout=5m", "--max-turns=3", "--", "a", "--hi", "you"]


def test_a_program_that_is_not_called_beam_is_run_as_a_module(tmp_path: Path) -> None:
    (tmp_path / "beam").touch(mode=0o755)
    assert schedule.program(str(tmp_path / "beam")) == [str(tmp_path / "beam")]
    assert schedule.program("/nowhere/__main__.py")[1:] == ["-P", "-m", "beam"]
