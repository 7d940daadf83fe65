"""What a broker keeps, for how long, and when it ends by itself; `status` says all of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cli import Cli, eventually, processes_with
from tests.support.warm_agent import kept, place, reasons, send

pytestmark = pytest.mark.acceptance


@pytest.fixture
def three(beam: Cli) -> Iterator[Cli]:
    """beam with three agents whose processes can be kept."""
    place(beam, "one", "two", "three")
    yield beam
    beam("broker", "stop", "--grace", "0s")
    eventually(lambda: not processes_with(str(beam.base)), what="a process is left")


def test_of_more_processes_than_it_keeps_the_one_used_least_lately_ends(three: Cli) -> None:
    with (three.project / "beam.yaml").open("a") as config:
        config.write("limits: {kept: 2}\ndefaults: {keep: 20m}\n")
    assert three("broker", "start").code == 0
    for agent in ("one", "two", "one", "three"):
        assert send(three, "hi", agent=agent).code == 0
    eventually(lambda: reasons(three, "two") == ["the broker keeps no more than 2 processes"])
    assert kept(three, "one") is not None and kept(three, "three") is not None
    status = three("broker", "status", "--json").json
    assert (status["kept"], status["idle"]) == (2, None)
    assert "up to 2 processes" in three("broker", "status").out
    assert send(three, "again", agent="two").out == "2 again small\n"


def test_a_broker_without_work_ends_itself_with_all_that_it_keeps(three: Cli) -> None:
    assert three("broker", "start", "--idle", "8s").code == 0
    assert send(three, "hi", agent="one").code == 0
    assert three("broker", "status", "--json").json["idle"] == 8.0
    eventually(lambda: three("broker", "status").code == 4, timeout=60)
    assert reasons(three, "one") == ["the broker stops"]
    assert "nothing to do for 8s" in (three.root / "broker.log").read_text()
    assert send(three, "again", agent="one").out == "2 again small\n"


def test_a_turn_is_work_however_long_it_takes(three: Cli) -> None:
    (three.project / "script.yaml").write_text("replies: [[{delay: 3}, done]]\n")
    assert three("broker", "start", "--idle", "2s").code == 0
    assert send(three, "hi", agent="one").out == "done\n"
    eventually(lambda: three("broker", "status").code == 4, timeout=60)
    assert "turns have" not in (three.root / "broker.log").read_text(), "it stopped in the middle of it"


def test_a_broker_that_would_end_before_it_began_is_refused(three: Cli) -> None:
    assert three("broker", "start", "--idle", "0").code == 2
