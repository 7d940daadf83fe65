"""`beam send --at TIME` and `--every SPEC`: the line with which cron or systemd sends the message later.

Nothing is installed: the line is printed, and a person decides.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from pathlib import Path

from beam import UsageError, durations
from beam.cli.parameters import Parameter

_NICKNAMES = ("hourly", "daily", "weekly", "monthly", "yearly", "reboot")
_CRON_FIELDS = ("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("day of the week", 0, 7)
_CRON_NAMES: tuple[Sequence[str], ...] = (
    (),
    (),
    (),
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
)
_SHORTEST_INTERVAL_S = 60
_HINT_EVERY = "write 5 fields as in a crontab ('0 9 * * mon-fri'), daily, or a duration (2h)"
_HINT_AT = "write 14:30, 2026-11-23T14:30, or a duration from now (2h)"
_FILE_HINT = "put the text into a file, and send it with -f FILE"


class LocalZone(tzinfo):
    """The time zone of this system, with its changes between summer and winter time."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """Return the offset that is in force at the local time `moment`."""
        return None if moment is None else moment.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, moment: datetime | None) -> timedelta | None:
        """Return None: the part of the offset that is summer time is not needed."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """Return None: the name is not needed."""
        return None

    def fromutc(self, moment: datetime) -> datetime:
        """Return the local time of a moment that is given in UTC."""
        return moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)


def schedule_line(words: Sequence[str], cwd: Path, *, at: str | None, every: str | None, now: datetime) -> str:
    """Return a crontab line, or a shell command line with `systemd-run`, that runs the command `words` in the folder
    `cwd` later.

    Raises UsageError for an invalid time, and for words that can't stand in such a line.
    """
    for word in (*words, str(cwd)):
        if not all(character.isprintable() or character in "\n\t" for character in word):
            raise UsageError("the text holds a control character, which no line for a shell shows", _FILE_HINT)
    if at is not None:
        moment = _parse_moment(at, now)
        return _systemd_line([f"--on-calendar={moment:%Y-%m-%d %H:%M:%S}"], words, cwd)
    assert every is not None
    fields = _cron_fields(every)
    if fields is not None:
        return _cron_line(fields, words, cwd)
    try:
        seconds = durations.parse(every)
    except UsageError as error:
        raise UsageError(f"{every[:80]!r} is no interval", _HINT_EVERY, subject=every[:80]) from error
    if seconds < _SHORTEST_INTERVAL_S:
        raise UsageError(f"{every} is shorter than a minute", _HINT_EVERY, subject=every)
    period = f"{seconds:.0f}s"
    return _systemd_line([f"--on-active={period}", f"--on-unit-active={period}"], words, cwd)


def command_words(
    parameters: Sequence[Parameter], given: Mapping[str, object], *, without: frozenset[str]
) -> list[str]:
    """Return the words of a command line that gives these values to these parameters. Parameters in `without` and
    default values are left out."""
    options: list[str] = []
    arguments: list[str] = []
    for parameter in parameters:
        value = given[parameter.name]
        if parameter.name in without or value in (None, False, [], parameter.declared.default):
            continue
        values = [str(each) for each in value] if isinstance(value, list) else [str(value)]
        if not parameter.names:
            arguments += values
        elif parameter.is_flag:
            options.append(max(parameter.names, key=len))
        else:
            options += [f"{max(parameter.names, key=len)}={each}" for each in values]
    return [*options, *(["--"] if any(word.startswith("-") for word in arguments) else []), *arguments]


def program(argv0: str) -> list[str]:
    """Return the words that run this installation of beam from any folder: the path `argv0` if it is the program
    `beam`, else this Python interpreter with `-m beam`."""
    path = os.path.abspath(argv0)  # noqa: PTH100 - a link stays a link
    is_beam = os.path.basename(path) == "beam" and os.access(path, os.X_OK)  # noqa: PTH119
    return [path] if is_beam else [sys.executable, "-P", "-m", "beam"]  # -P: nothing of the folder is imported


def _cron_line(fields: str, words: Sequence[str], cwd: Path) -> str:
    for word in (*words, str(cwd)):
        if "\n" in word or "\\" in word:
            what = "has several lines" if "\n" in word else "has a backslash, which each cron reads in its own way"
            raise UsageError(f"a line of a crontab can't hold this: the text {what}", _FILE_HINT)
    command = f"cd {shlex.quote(str(cwd))} && {shlex.join(words)}"
    return f"{fields} {command}".replace("%", "\\%")  # cron would end the command at a bare `%`


def _systemd_line(when: Sequence[str], words: Sequence[str], cwd: Path) -> str:
    escaped = [word.replace("$", "$$") for word in words]  # systemd fills in ${VARIABLES} by itself
    own = ["systemd-run", "--user", "--collect", *when, f"--working-directory={cwd}", "--"]
    return shlex.join([*own, *escaped])


def _parse_moment(text: str, now: datetime) -> datetime:
    plain = text.strip()
    try:
        moment = datetime.fromisoformat(plain) if "-" in plain else datetime.combine(now.date(), _parse_clock(plain))
        found = moment.astimezone(now.tzinfo) if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)
    except (ValueError, OverflowError):
        try:
            later = now.astimezone(UTC) + timedelta(seconds=durations.parse(plain))
            found = later.astimezone(now.tzinfo)
        except (UsageError, OverflowError) as error:
            raise UsageError(f"{text[:80]!r} is no point in time", _HINT_AT, subject=text[:80]) from error
    if found <= now and ":" in plain and "-" not in plain:
        found += timedelta(days=1)  # a time of day that is over today means tomorrow
    if found <= now:
        raise UsageError(f"{text[:80]} is over", _HINT_AT, subject=text[:80])
    return found


def _parse_clock(text: str) -> time:
    if ":" not in text:
        raise ValueError(text)
    return time.fromisoformat(text)


def _cron_fields(text: str) -> str | None:
    """Return the text as fields of a crontab; None if it is one word, such as an interval. Raises UsageError for
    invalid fields."""
    plain = text.strip().lower()
    if plain.removeprefix("@") in _NICKNAMES:
        return f"@{plain.removeprefix('@')}"
    fields = plain.split()
    if len(fields) == 1 and not plain.startswith(("@", "*")):
        return None
    if len(fields) != len(_CRON_FIELDS):
        raise UsageError(f"{text[:80]!r} has {len(fields)} fields, and a crontab has 5", _HINT_EVERY, subject=text[:80])
    for field, (name, least, most), names in zip(fields, _CRON_FIELDS, _CRON_NAMES, strict=True):
        if not all(_is_valid_part(part, least, most, names) for part in field.split(",")):
            raise UsageError(f"{field[:40]!r} is no {name} ({least} to {most})", _HINT_EVERY, subject=text[:80])
    return " ".join(fields)


def _is_valid_part(part: str, least: int, most: int, names: Sequence[str]) -> bool:
    found = re.fullmatch(r"(\*|\w+(?:-\w+)?)(?:/(\d{1,3}))?", part, re.ASCII)
    if found is None or (found[2] is not None and not 1 <= int(found[2]) <= most):
        return False
    ends = [] if found[1] == "*" else found[1].split("-")
    numbers = [names.index(end) + least if end in names else int(end) if end.isdigit() else -1 for end in ends]
    return all(least <= number <= most for number in numbers) and numbers == sorted(numbers)
