"""Recordings of teams with values of any other shape in them: all of it is shown somehow, and nothing is fatal."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from beam.api.teams import TeamsHere
from beam.cli.render.stream import EventLine, Stream
from beam.model import events
from beam.model.events import Event
from tests.teams.teams_replay import ALL, Scratch, drain

HOMES = 60
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**18, 2**63 - 1, 10**30, 1e308, 5.0, "", "\0", "a\0b", "../..", "\x1b[2J", "\ud800"),
    *([], {}, [[]], [{}], {"a": {"b": 1}}, "x" * 5000, "9999-99-99T00:00:00Z", "0001-01-01T00:00:00Z"),
)


class Mutating(Scratch):
    """A recording whose files and hook calls are changed on their way, each value with that chance."""

    def change(self, chance: random.Random, how_often: float) -> None:
        """From now on."""
        self.chance, self.how_often = chance, how_often

    def odd(self, value: Any) -> Any:
        if self.chance.random() < self.how_often:
            return self.chance.choice(ODD)
        if isinstance(value, dict):
            return {key: self.odd(one) for key, one in value.items() if self.chance.random() > self.how_often / 3}
        return [self.odd(one) for one in value] if isinstance(value, list) else value

    def text(self, text: str) -> str:
        found = []
        for line in text.split("\n") if text.startswith('{"') else [text]:
            try:
                found.append(json.dumps(self.odd(json.loads(line))))
            except ValueError:
                found.append(line[: self.chance.randrange(len(line) + 1)])
        return "\n".join(found)

    def do(self, version: dict[str, Any], at: float) -> None:
        content = version["content"]
        super().do({**version, "content": self.text(content) if content else content}, at)

    def call(self, payload: dict[str, Any], at: float) -> None:
        super().call(self.odd(payload), at)


@pytest.mark.soak
def test_whatever_the_files_of_a_team_hold_it_is_shown_and_nothing_is_fatal(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    first = pytestconfig.getoption("--soak-seed") or random.SystemRandom().randrange(1, 10**6)
    count = 0
    for seed in range(first, first + HOMES):
        print(f"--soak-seed {seed}")
        chance = random.Random(seed)
        recording = Mutating(tmp_path / str(seed), chance.choice(ALL))
        recording.change(chance, chance.choice((0.005, 0.02, 0.1)))
        told: list[Event] = []
        teams = recording.teams(since_ns=chance.choice((None, 0)))
        try:
            for number, (at, version, payload) in enumerate(recording.steps()):
                if version is not None:
                    recording.do(version, at)
                elif payload is not None:
                    recording.call(payload, at)
                if number % 20 == 0:
                    told += teams.poll()
            drain(teams, told)
        finally:
            teams.close()
        count += len(told)
        assert all(events.decode(events.encode(event)) == event for event in told)
        shown = io.StringIO()
        Stream(shown, as_json=False).batch([EventLine(event) for event in told])  # type: ignore[arg-type]
        assert not [char for char in shown.getvalue() if char != "\n" and (char < " " or "\x7f" <= char <= "\x9f")]
        here = TeamsHere({}, claude_homes=[str(recording.home)])
        for team in {line.team for line in here.teams()}:
            assert here.show(team) and here.tasks(team) is not None and here.mail(team) is not None
        here.stuck(0)
    assert count > 10 * HOMES
