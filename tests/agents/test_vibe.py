"""Vibe: each pitfall of its headless mode is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.agents.base import Host, Turn
from beam.agents.vibe import exec
from beam.base.errors import UnsupportedError
from beam.model import events
from beam.model.outcome import Class, Status
from tests.agents import recorded
from tests.agents.test_headless_recordings import load

PLACE = Path(__file__).parent.parent / "recordings" / "vibe" / "3.0.2"
ID = "f48d3d39-9639-2a8d-82c3-d9f5a661a87c"


def decoded(name: str) -> tuple[list[events.Event], recorded.Verdict]:
    found = load("vibe", "3.0.2", name)
    return recorded.decode(exec.decoder, found, [found.stdout])


@pytest.mark.parametrize(
    ("name", "status", "class_"),
    [
        ("hello", Status.COMPLETED, None),
        ("401", Status.FAILED, Class.AUTH),
        ("500", Status.FAILED, Class.OVERLOADED),
        ("dropmid", Status.FAILED, Class.NETWORK),
        ("refused", Status.FAILED, Class.NETWORK),
        ("unknown", Status.FAILED, Class.BAD_REQUEST),
        ("look-write", Status.DENIED, None),
    ],
)
def test_what_went_wrong_is_read_from_stderr_and_the_exit_code_is_not_believed_alone(
    name: str, status: Status, class_: Class | None
) -> None:
    verdict = decoded(name)[1]
    assert (verdict.status, verdict.class_) == (status, class_)
    assert (verdict.reply is None) == (status is Status.FAILED)


def test_an_answer_that_vibe_threw_away_is_no_part_of_the_reply() -> None:
    found, verdict = decoded("maxtok")
    assert [event.code for event in found if isinstance(event, events.Notice)] == ["discarded"]
    assert verdict.reply is not None and verdict.reply.startswith("ECHO[Your previous response was discarded")


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("look-read", "the notes\n"),
        ("write-full", "Created made3.txt"),
        ("bash-full", "hi\n"),
        ("look-write", "Tool execution denied by approval policy"),
    ],
)
def test_the_result_of_a_call_is_what_it_returned(name: str, output: str) -> None:
    assert [event.output for event in decoded(name)[0] if isinstance(event, events.ToolReturned)] == [output]


def test_a_file_that_did_not_exist_is_added() -> None:
    changed = [event.kind for event in decoded("write-full")[0] if isinstance(event, events.FileChanged)]
    assert changed == ["add"]


def test_a_session_that_is_not_there_is_proven_lost() -> None:
    found, verdict = decoded("unknown")
    assert any(isinstance(event, events.SessionLost) for event in found)
    assert verdict.session == "lost"


def test_reading_enables_no_tool_that_changes_anything_and_only_full_trusts_the_folder() -> None:
    def argv(access: str) -> tuple[str, ...]:
        turn = Turn(text="-x", message_id="m", agent="vibe", access=access, session_id=ID)  # type: ignore[arg-type]
        return exec.launch(turn, Host(executable="/bin/vibe")).argv

    resumed = ("--resume", ID)
    start = ("/bin/vibe", "-p", "--output", "streaming")
    assert argv("read") == (*start, "--enabled-tools", "read_file", "--enabled-tools", "grep", *resumed)
    assert argv("full") == (*start, "--yolo", "--trust", *resumed)
    with pytest.raises(UnsupportedError, match="access"):
        argv("edit")


def test_vibe_is_asked_for_a_stream_since_its_json_would_be_the_whole_conversation() -> None:
    argv = exec.launch(Turn(text="x", message_id="m", agent="vibe"), Host()).argv
    assert argv[1:4] == ("-p", "--output", "streaming")
    text = [event.text for event in decoded("resume")[0] if isinstance(event, events.Text)]
    assert len(text) == 1, "the answers of the turns before are not told again"


def test_a_session_id_that_is_none_is_refused_and_the_prompt_goes_to_stdin() -> None:
    turn = Turn(text="--resume x", message_id="m", agent="vibe")
    assert exec.launch(turn, Host()).stdin == b"--resume x"
    with pytest.raises(UnsupportedError, match="not a session id"):
        exec.launch(Turn(text="x", message_id="m", agent="vibe", session_id="--yolo"), Host())
