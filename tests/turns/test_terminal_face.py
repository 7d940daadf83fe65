"""The terminal face against a terminal agent with bad manners: each its own outcome, and none a false answer."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.agents.base import Host, Launch, Turn, Verdict
from beam.agents.claude.screen import profile as CLAUDE
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Status
from beam.model.screen_profile import Profile
from beam.turns import terminal
from beam.turns.handle import Stop
from beam.turns.input import TurnInput
from tests.support import tui
from tests.support.memory import PROCESS_ALONE
from tests.support.turns import handle, services, turn_input

pytestmark = [pytest.mark.usefixtures("memory"), pytest.mark.slow]  # and as acceptance tests with real processes


class Face:
    """The agent `tui.py`, as an adapter's terminal face."""

    def __init__(self, manner: str, profile: Profile = CLAUDE) -> None:
        self.profile = structs.replace(profile, columns=100, rows=40, start_seconds=10.0)
        self.manner = manner

    def launch(self, turn: Turn, host: Host) -> Launch:
        return Launch(argv=(sys.executable, tui.__file__, self.manner))


def resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Played:
    """One turn, played."""

    def __init__(
        self,
        face: Any,
        tmp_path: Path,
        text: str = "hello",
        *,
        session_id: str | None = None,
        stop_after: float | None = None,
        **fields: Any,
    ) -> None:
        self.events: list[Event] = []
        self.longest_gap = 0.0
        self.memory = self.most_memory = resident()
        self.seconds = 0.0
        (tmp_path / "scratch").mkdir(parents=True)
        turn = Turn(
            text=text,
            message_id="x-1",
            agent="x",
            cwd=str(tmp_path),
            scratch=str(tmp_path / "scratch"),
            session_id=session_id,
            fresh_session_id="f-1",
        )
        input = turn_input(
            turn,
            environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            timeout=fields.pop("timeout", 60.0),
        )
        self.verdict: Verdict = asyncio.run(self._run(face, input, stop_after))

    async def _run(self, face: Any, input: TurnInput, stop_after: float | None) -> Verdict:
        stop = Stop()
        if stop_after is not None:
            asyncio.get_running_loop().call_later(stop_after, lambda: stop.request("cancelled", by="a test"))
        began = time.monotonic()
        beat = asyncio.create_task(self._beat())
        try:
            return await terminal.run_turn(face, None, input, services(self._record), handle(self._record, stop))
        finally:
            self.seconds = time.monotonic() - began
            beat.cancel()

    async def _beat(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.01)
            self.longest_gap = max(self.longest_gap, time.thread_time() - before)
            self.most_memory = max(self.most_memory, resident())

    def _record(self, body: Event, *, sync: bool = False) -> Event:
        self.events.append(body)
        return body

    def has(self, kind: type[Event]) -> bool:
        return any(isinstance(event, kind) for event in self.events)


def test_an_answer_is_read_from_the_screen_and_marked_lossy(tmp_path: Path) -> None:
    played = Played(Face("echo"), tmp_path, "first line\n  second ❯ line\n\nlast")
    assert played.verdict.status is Status.COMPLETED
    assert played.verdict.reply == "ECHO[first line\n  second ❯ line\n\nlast]"
    assert played.verdict.lossy is True
    kinds = [type(event).__name__ for event in played.events]
    assert kinds == ["AgentStarted", "PromptSent", "StatusChanged", "Text", "AgentExited"]


@pytest.mark.parametrize(
    ("text", "reply"), [("\x1b[31mred\x1b[0m, and more", "ECHO[[31mred[0m, and more]"), ("\x07/help", "ECHO[ /help]")]
)
def test_a_message_is_typed_without_its_control_characters_and_is_no_command(
    tmp_path: Path, text: str, reply: str
) -> None:
    played = Played(Face("echo"), tmp_path, text)
    assert (played.verdict.status, played.verdict.reply) == (Status.COMPLETED, reply)


def test_an_agent_that_leaves_may_say_its_session_first(tmp_path: Path) -> None:
    played = Played(Face("parting", structs.replace(CLAUDE, session=r"--resume (\S+)")), tmp_path)
    assert (played.verdict.reply, played.verdict.session_id) == ("ECHO[hello]", "s-1")
    assert played.has(events.SessionStarted)


def test_a_session_is_the_one_that_the_agent_was_given_where_it_says_nothing(tmp_path: Path) -> None:
    class Given(Face):
        def launch(self, turn: Turn, host: Host) -> Launch:
            return Launch(argv=(*super().launch(turn, host).argv, f"--session-id={turn.fresh_session_id}"))

    played = Played(Given("echo", structs.replace(CLAUDE, session=r"--resume (\S+)")), tmp_path)
    assert played.verdict.session_id == "f-1"
    assert Played(Given("echo"), tmp_path / "another").verdict.session_id is None


def test_a_session_whose_file_is_gone_is_said_and_the_turn_begins_afresh(tmp_path: Path) -> None:
    asked: list[str | None] = []

    class Kept(Face):
        def launch(self, turn: Turn, host: Host) -> Launch:
            asked.append(turn.session_id or turn.fresh_session_id)
            file = None if turn.session_id is None else f"{turn.cwd}/{turn.session_id}.md"
            return structs.replace(super().launch(turn, host), session_file=file)

    played = Played(Kept("echo"), tmp_path, session_id="old")
    (lost,) = [event for event in played.events if isinstance(event, events.SessionLost)]
    assert (lost.session_id, lost.reason) == ("old", f"{tmp_path}/old.md is gone")
    assert (played.verdict.reply, played.verdict.session) == ("ECHO[hello]", "lost")
    assert asked[0] == "old" and asked[1] not in ("old", "f-1")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "old.md").touch()
    assert not Played(Kept("echo"), tmp_path / "there", session_id="old").has(events.SessionLost)


def test_an_enter_that_was_dropped_is_pressed_again_and_the_text_is_there_once(tmp_path: Path) -> None:
    assert Played(Face("drop"), tmp_path).verdict.reply == "ECHO[hello]"


def test_an_agent_that_shows_the_text_late_gets_it_once(tmp_path: Path) -> None:
    assert Played(Face("late"), tmp_path).verdict.reply == "ECHO[hello]"


def test_an_agent_that_never_takes_the_text_is_stalled_with_its_screen(tmp_path: Path) -> None:
    verdict = Played(Face("hang"), tmp_path).verdict
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.STALLED, None)
    assert "❯ hello" in (verdict.reason or "")


def test_an_agent_that_exits_is_crashed_with_its_last_words(tmp_path: Path) -> None:
    played = Played(Face("exit"), tmp_path)
    verdict = played.verdict
    assert [event.stopped_by for event in played.events if isinstance(event, events.AgentExited)] == [None]
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.CRASHED)
    assert "exited with 3" in (verdict.reason or "") and "fatal: no such model" in (verdict.reason or "")


def test_an_agent_that_ends_right_after_a_dialog_at_its_start_is_started_once_more(tmp_path: Path) -> None:
    given: list[str] = []

    class WithScratch(Face):
        def launch(self, turn: Turn, host: Host) -> Launch:
            given.append(turn.fresh_session_id)
            there = 'test -d "$0" || exit 9; exec "$@"'
            return Launch(argv=("/bin/sh", "-c", there, turn.scratch, *super().launch(turn, host).argv))

    played = Played(WithScratch("setup"), tmp_path)
    assert (played.verdict.status, played.verdict.reply) == (Status.COMPLETED, "ECHO[hello]")
    kinds = [type(event).__name__ for event in played.events]
    assert kinds[:5] == ["AgentStarted", "Notice", "AgentExited", "AgentStarted", "PromptSent"]
    (exited, _) = (event for event in played.events if isinstance(event, events.AgentExited))
    assert (exited.code, exited.stopped_by) == (1, None)
    (notice,) = (event for event in played.events if isinstance(event, events.Notice))
    assert notice.text.startswith(
        "it ended right after its dialog (api key: yes) and is started once more; its screen:\n"
    )
    assert notice.text.endswith("Error: timed out discarding buffered terminal input")
    assert len(set(given)) == 2


def test_an_agent_that_ends_so_again_is_crashed_with_its_last_words(tmp_path: Path) -> None:
    played = Played(Face("hopeless"), tmp_path)
    assert (played.verdict.status, played.verdict.class_) == (Status.FAILED, Class.CRASHED)
    assert "timed out discarding" in (played.verdict.reason or "")
    assert sum(isinstance(event, events.AgentStarted) for event in played.events) == 2
    assert not played.has(events.PromptSent)


@PROCESS_ALONE
def test_a_flood_neither_blocks_nor_fills_the_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    played = Played(Face("flood"), tmp_path)
    assert played.verdict.reply == "ECHO[hello]"
    assert played.longest_gap < 1.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
    assert played.most_memory - played.memory < 64 * 2**20


def test_invalid_bytes_do_no_harm(tmp_path: Path) -> None:
    assert Played(Face("garbage"), tmp_path).verdict.reply == "ECHO[hello]"


def test_an_unknown_question_ends_the_turn_with_its_screen_and_no_answer(tmp_path: Path) -> None:
    verdict = Played(Face("ask"), tmp_path).verdict
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.STALLED, None)
    assert "does not know" in (verdict.reason or "") and "shed" in (verdict.reason or "")


def test_a_permission_is_denied_where_nobody_can_be_asked(tmp_path: Path) -> None:
    played = Played(Face("permission"), tmp_path)
    assert played.verdict.status is Status.DENIED
    assert played.verdict.reply == "did not run hello"
    assert [denial.by for denial in played.verdict.denials] == ["default"]
    assert played.has(events.PermissionAsked) and played.has(events.PermissionDecided)


def test_a_stop_interrupts_and_leaves_nothing(tmp_path: Path) -> None:
    played = Played(Face("hang"), tmp_path, stop_after=2.0)
    assert played.verdict.status is not Status.COMPLETED


def test_an_agent_that_reads_no_keys_holds_up_no_stop(tmp_path: Path) -> None:
    played = Played(Face("deaf"), tmp_path, "x" * 200_000, stop_after=2.0)
    assert played.verdict.status is Status.CANCELLED
    assert played.has(events.AgentExited)


def test_a_long_prompt_arrives_verbatim(tmp_path: Path) -> None:
    text = "\n".join(f"line {number} of fifty ─ ❯ 日本" for number in range(30))
    assert Played(Face("echo"), tmp_path, text).verdict.reply == f"ECHO[{text}]"


def test_a_start_that_is_never_ready_is_stalled(tmp_path: Path) -> None:
    class Sleeper(Face):
        def launch(self, turn: Turn, host: Host) -> Launch:
            return Launch(argv=("sleep", "100"))

    face = Sleeper("")
    face.profile = structs.replace(face.profile, start_seconds=1.0)
    verdict = Played(face, tmp_path).verdict
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.STALLED)
    assert "not ready" in (verdict.reason or "")
