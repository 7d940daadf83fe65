"""A CLI in a version that beam was not tested with: when its protocol is used without being named."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.agents.base import BrokenVersion, Capabilities, Card
from beam.base.clock import SystemClock, rfc3339
from beam.broker.inbox import closing
from beam.broker.inbox.build_request import build_turn_request
from beam.model import events
from beam.model.message import Options
from beam.model.outcome import Class, Status
from beam.turns.choice import REASON_KEPT
from beam.turns.cli_version import NpmPackage, is_older, last_seen_version, npm_package, version_output
from beam.turns.run import run
from tests.support.context import FakeClock, Root
from tests.support.lines import Lines
from tests.support.memory import Memory, Streams
from tests.support.turns import handle, services
from tests.turns.dialogue.test_dialogue import Agent, Headless, Unready, leaves_with_3

# "memory": and as acceptance tests with real processes.

ONE = Card(name="x", summary="", versions=("1.2.0",), faces={})
BROKEN = (BrokenVersion(first="6.6.6", what="it asks nobody"),)


class Updated:
    """An agent with both modes, whose CLI names the version in a file."""

    def __init__(self, base: Path) -> None:
        self.root = Root(base)
        self.root.clock.drawn = os.getpid() << 8  # no turn of another test at the same time has the same key
        self.program, self.calls = base / "the-cli", base / "calls"
        self.number = 0
        self.install("1.9.0")

    def install(self, version: str) -> None:
        """Puts another version in the CLI's place, as an update does."""
        new = self.program.with_name("new")
        new.write_text(f"#!/bin/sh\npwd >> '{self.calls}'\necho 'the cli {version} (stable)'\n")
        new.chmod(0o755)
        new.rename(self.program)

    @property
    def file(self) -> Path:
        return self.root.place("worker").cli_version_file

    @property
    def times_asked(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    def turn(self, text: str = "say hi", face: Lines | None = None, **options: Any) -> events.TurnFinished:
        adapter = Agent()
        adapter.dialogue = face or Lines()
        adapter.exec = Headless()  # type: ignore[assignment]
        adapter.card = Card(
            name="lines",
            summary="",
            executable=str(self.program),
            versions=("1.2.0",),
            broken=BROKEN,
            faces={
                "exec": Capabilities(access=("read",)),
                "dialogue": Capabilities(access=("read", "ask"), resume=True),
            },
            by_name=("dialogue",),
        )
        self.number += 1
        self.root.put("worker", text, options=Options(**options))
        lease = self.root.hold("worker")
        (entry,) = lease.waiting.scan()
        claimed = lease.waiting.claim(entry)
        assert claimed is not None
        order = structs.replace(
            build_turn_request(lease.log, claimed[1]), adapter=adapter, adapter_name="lines", is_kept=True
        )

        def record(body: events.Event, *, sync: bool = False) -> events.Event:
            return lease.log.record(body, turn=order.turn, message_id=order.message.id, sync=sync)

        try:
            finished = asyncio.run(run(order, services(record), handle(record)))
            closing.close_message(lease.log, entry, order.message, finished)
            return finished
        finally:
            lease.close()

    def notices(self) -> list[tuple[str, str]]:
        return [(event.code, event.text) for event in self.root.events("worker") if isinstance(event, events.Notice)]


@pytest.fixture
def updated(tmp_path: Path, memory: Memory | None) -> Updated:
    updated = Updated(tmp_path)
    if memory is not None:
        memory.programs[str(updated.program)] = script
        memory.programs["sh -c echo what; exit 3"] = leaves_with_3
    return updated


def script(streams: Streams) -> None:
    """What `Updated.install` writes, as a shell would run it."""
    _, calls, said = Path(streams.argv[0]).read_text().splitlines()
    with Path(calls.removeprefix("pwd >> ").strip("'")).open("a") as file:
        file.write(f"{streams.cwd}\n")
    streams.stdout.write(said.removeprefix("echo ").strip("'") + "\n")
    streams.stdout.flush()


@pytest.mark.slow
def test_an_untested_version_gets_its_protocol_after_the_handshake_and_is_named_once(updated: Updated) -> None:
    assert [updated.turn().via, updated.turn().via] == ["dialogue", "dialogue"]
    said = "lines 1.9.0 is newer than the tested 1.2.0: its protocol works so far, and is used"
    assert updated.notices() == [("untested_version", said)]
    assert updated.times_asked == 1
    updated.install("1.10.0")
    updated.turn()
    assert [text.split()[1] for _, text in updated.notices()] == ["1.9.0", "1.10.0"]


@pytest.mark.slow
def test_the_version_is_asked_for_outside_of_the_project_folder(updated: Updated) -> None:
    updated.turn()
    assert updated.calls.read_text() == "/\n"


@pytest.mark.slow
def test_a_tested_version_is_not_named(updated: Updated) -> None:
    updated.install("1.2.0")
    assert (updated.turn().via, updated.notices()) == ("dialogue", [])


@pytest.mark.slow
def test_an_untested_version_whose_handshake_fails_is_run_headless_for_a_day(updated: Updated) -> None:
    first = updated.turn(face=Unready())
    assert (first.via, first.status) == ("exec", Status.COMPLETED)
    assert first.why is not None and first.why.startswith("without its own protocol, which failed: ")
    later = updated.turn()
    assert later.via == "exec" and later.why is not None
    assert later.why.startswith("its protocol did not work in version 1.9.0: ")
    assert [code for code, _ in updated.notices()] == ["headless"]
    now = SystemClock().now_ns()
    for hours, is_unfit in ((0, True), (23, True), (25, False)):
        seen = last_seen_version(updated.file, ONE, FakeClock(now + hours * 3600 * 10**9))
        assert seen is not None and bool(seen.unfit) == is_unfit, hours
    updated.install("1.9.1")
    assert updated.turn().via == "dialogue"


@pytest.mark.slow
def test_a_tested_version_whose_handshake_failed_once_is_tried_again(updated: Updated) -> None:
    updated.install("1.2.0")
    assert [updated.turn(face=Unready()).via, updated.turn().via] == ["exec", "dialogue"]


@pytest.mark.slow
def test_a_version_that_is_known_to_be_broken_is_run_headless(updated: Updated) -> None:
    updated.install("6.6.6")
    finished = updated.turn()
    assert (finished.via, finished.why) == ("exec", "its protocol is broken in version 6.6.6: it asks nobody")
    assert [event.why for event in updated.root.events("worker") if isinstance(event, events.TurnStarted)] == [
        finished.why
    ]
    assert updated.turn(via="dialogue").via == "dialogue"


@pytest.mark.slow
def test_what_only_a_broken_protocol_could_do_is_refused(updated: Updated) -> None:
    updated.install("6.6.6")
    finished = updated.turn(access="ask")
    assert (finished.status, finished.class_, finished.exit_code) == (Status.FAILED, Class.UNSUPPORTED, 10)
    said = "lines asks only over its protocol: its protocol is broken in version 6.6.6: it asks nobody"
    assert finished.reason is not None and finished.reason.startswith(said)


@pytest.mark.slow
def test_a_mode_that_was_named_asks_for_no_version(updated: Updated) -> None:
    finished = updated.turn(via="dialogue")
    assert (finished.via, finished.why, updated.times_asked) == ("dialogue", None, 0)


@pytest.mark.slow
def test_a_damaged_file_is_a_cli_that_was_never_looked_at(updated: Updated) -> None:
    for damage in (b"", b"[" * 10_000, b'{"v":1,"stamp":7}', b"\xff"):
        updated.file.write_bytes(damage)
        assert updated.turn().why == REASON_KEPT


@pytest.mark.slow
def test_a_cli_that_prints_no_version_gets_its_protocol_and_is_asked_again(updated: Updated) -> None:
    updated.program.write_text(f"#!/bin/sh\npwd >> '{updated.calls}'\necho who knows\n")
    assert (updated.turn().via, updated.turn().via, updated.notices()) == ("dialogue", "dialogue", [])
    assert updated.times_asked == 2 and not updated.file.exists()


@pytest.mark.slow
def test_the_version_of_an_npm_package_is_read_and_its_cli_is_not_started(updated: Updated) -> None:
    package = {"version": "1.3.0", "bin": {"the-cli": updated.program.name}}
    (updated.program.parent / "package.json").write_text(json.dumps(package))
    assert (updated.turn().via, updated.times_asked) == ("dialogue", 0)
    assert [text.split()[1] for _, text in updated.notices()] == ["1.3.0"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"version": "9.9.9"}', '{"version": "9.9.9", "bin": "other"}', "[" * 10_000]
)
def test_another_package_around_a_cli_says_nothing_of_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "cli"
    program.touch()
    (tmp_path / "package.json").write_text(text)
    assert npm_package(str(program)) is None
    (tmp_path / "package.json").write_text('{"version": "1.2.3-beta.1", "bin": "./bin/cli"}')
    assert npm_package(str(program)) == NpmPackage("1.2.3", "")


@pytest.mark.parametrize(
    ("engines", "node"),
    [
        ({"node": ">=22.19.0"}, "22.19.0"),
        ({"node": ">= v20"}, "20"),
        ({"node": "^18.17.0 || >=20.5.0"}, ""),
        ({"node": 20}, ""),
        ([], ""),
        (None, ""),
    ],
)
def test_a_package_says_which_node_it_wants(tmp_path: Path, engines: object, node: str) -> None:
    program = tmp_path / "cli"
    program.touch()
    (tmp_path / "package.json").write_text(json.dumps({"version": "1.0.0", "bin": "cli", "engines": engines}))
    assert npm_package(str(program)) == NpmPackage("1.0.0", node)


def test_a_version_is_older_by_its_numbers() -> None:
    assert is_older("v18.19.1", "20") and is_older("v22.9.0", "22.19.0")
    assert not any(is_older(*pair) for pair in (("v22.19.0", "22.19"), ("v22.1", "22"), ("", "20"), ("lts", "20")))


@pytest.mark.acceptance
def test_a_program_that_never_says_its_version_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam.turns.cli_version._TIMEOUT_S", 0.5)
    left = tmp_path / "left"
    argv = ("/bin/sh", "-c", f"sleep 60 & echo $! > {left}; wait")
    assert asyncio.run(version_output(argv, os.environ, "0" * 32)) == ""
    assert not Path(f"/proc/{left.read_text().strip()}").exists()


@pytest.mark.acceptance
def test_a_flood_of_output_is_cut(tmp_path: Path) -> None:
    argv = ("/bin/sh", "-c", "i=0; while [ $i -lt 100 ]; do echo $i; i=$((i+1)); done")
    assert asyncio.run(version_output(argv, os.environ, "0" * 32)).splitlines() == [str(number) for number in range(20)]


def test_a_time_that_nobody_can_read_does_not_count(updated: Updated) -> None:
    clock = FakeClock()
    for failed_at, is_unfit in (("soon", False), (rfc3339(clock.now), True)):
        updated.file.write_text(f'{{"v":1,"stamp":"x","version":"9.9","failed":"x","failed_at":"{failed_at}"}}')
        seen = last_seen_version(updated.file, ONE, clock)
        assert seen is not None and bool(seen.unfit) == is_unfit
