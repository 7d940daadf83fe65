"""Programs that act at once, whatever they are told and whoever dies: none acts twice unless the journal says that
nobody knows.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.support.cli import Cli, eventually, kill_hard, processes_with
from tests.support.crash import KILLED, OUTCOMES, check_numbers, count_by
from tests.test_crash_points import NOT_SENT

pytestmark = pytest.mark.acceptance
KILLS = 16  # in `make test`; `make soak` tries SOAK_KILLS
SOAK_KILLS = 400


class Hasty:
    """A place with programs that never read their prompt, and count at once that they acted: on stdin, in argv, and one
    whose interpreter is not there."""

    def __init__(self, beam: Cli) -> None:
        self.beam = beam
        self.runs = beam.base / "runs"
        self.runs.touch()
        script = beam.base / "hasty.sh"
        script.write_text(f'trap "" TERM\necho "$BEAM_MESSAGE_ID" >> {self.runs}\nsleep 0.05\necho "did it"\n')
        broken = beam.base / "broken"
        broken.write_text("#!/no/such/interpreter\n")
        broken.chmod(0o700)
        beam.config(
            f"agents:\n  deaf: {{command: [sh, {script}]}}\n"
            f"  given: {{command: [sh, {script}, '{{prompt}}']}}\n  broken: {{command: [{broken}]}}\n"
        )

    def events(self, agent: str, message_id: str) -> list[str]:
        return [event["type"] for event in self.beam.journal(agent) if event.get("message_id") == message_id]

    def statuses(self, agent: str, message_id: str) -> list[str]:
        said = [event for event in self.beam.journal(agent) if event.get("message_id") == message_id]
        return [event["status"] for event in said if event["type"] in OUTCOMES[:1]]

    def gone(self) -> None:
        eventually(lambda: not processes_with(str(self.beam.base)), 10, "processes are left")


@pytest.mark.parametrize(
    ("agent", "point"),
    [*(("deaf", point) for point in NOT_SENT), *(("given", point) for point in NOT_SENT[-3:])],
)
def test_a_program_that_acts_at_once_has_not_acted_before_its_prompt_was_sent(
    beam: Cli, agent: str, point: str
) -> None:
    place = Hasty(beam)
    assert beam("send", agent, "hi", env={"BEAM_CRASH_AT": point}).code == KILLED
    place.gone()
    assert place.runs.read_text() == ""
    message_id = next(iter({event["message_id"] for event in beam.journal(agent)}), None)
    assert beam("send", agent, "next").code == 0
    if message_id is not None:
        assert beam("wait", message_id).code == 0
        assert count_by(place.runs)[message_id] == 1
        assert place.statuses(agent, message_id) == ["completed"]


@pytest.mark.parametrize("point", ["agent.started", "prompt.sent"])
def test_a_program_that_can_not_be_executed_is_never_an_unknown_outcome(beam: Cli, point: str) -> None:
    place = Hasty(beam)
    assert beam("send", "broken", "hi", env={"BEAM_CRASH_AT": point}).code == KILLED
    place.gone()
    (message_id,) = {event["message_id"] for event in beam.journal("broken")}
    assert beam("wait", message_id).code == 4
    assert place.statuses("broken", message_id) == ["failed"]
    assert list((beam.root / "agents" / "broken").glob("*.unstarted")) == []


@pytest.mark.parametrize("kills", [KILLS, pytest.param(SOAK_KILLS, marks=pytest.mark.soak)])
def test_of_killed_sends_none_acts_twice_and_none_acts_unsaid(
    beam: Cli, pytestconfig: pytest.Config, kills: int
) -> None:
    seed = pytestconfig.getoption("--soak-seed") or random.SystemRandom().randrange(1, 10**6)
    print(f"--soak-seed {seed} in {beam.base}")
    chance = random.Random(seed)
    place = Hasty(beam)
    ended: dict[str, str] = {}
    for number in range(kills):
        agent = chance.choice(("deaf", "given"))
        message_id = _killed(place, agent, f"text {number}", chance.uniform(0.0, 0.05))
        acted = count_by(place.runs)[message_id]
        assert acted <= ("prompt.sent" in place.events(agent, message_id)), "it acted before that was on disk"
        beam("wait", message_id)
        ended[message_id] = agent
        assert count_by(place.runs)[message_id] <= 1, (seed, place.events(agent, message_id))
    statuses = {message_id: place.statuses(agent, message_id) for message_id, agent in ended.items()}
    print({status: list(statuses.values()).count([status]) for status in ("completed", "unknown")})
    for message_id, said in statuses.items():
        assert said in (["completed"], ["unknown"]), (message_id, said)
        if said == ["completed"]:
            assert count_by(place.runs)[message_id] == 1
    for agent in ("deaf", "given"):
        check_numbers(beam, agent)


def _killed(place: Hasty, agent: str, text: str, seconds: float) -> str:
    """Sends, and kills who sends so long after the turn began; the message's id."""
    before = len(place.beam.journal(agent))
    process = place.beam.start("send", agent, text)
    journal = place.beam.root / "agents" / agent / "journal"

    def began() -> bool:
        new = b"".join(path.read_bytes() for path in sorted(Path(journal).glob("*.jsonl"))).splitlines()[before + 1 :]
        return any(b'"type":"turn.started"' in line for line in new) or process.poll() is not None

    eventually(began)
    time.sleep(seconds)
    kill_hard(process)
    place.gone()
    return str(place.beam.journal(agent)[before]["message_id"])
