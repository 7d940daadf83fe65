"""A recording, decoded: what the machine sees in it that finds the end of a turn."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from beam.base.errors import NotFoundError, UnsupportedError
from beam.model.screen_profile import GENERIC_PROFILE
from beam.pty_adapter.cast import NoCastError, Recorder
from beam.pty_adapter.replay import Observation, profile_of, read, replay

PLACE = Path(__file__).parents[1] / "recordings" / "pty"


def noted(name: str, adapter: str, *enters: float) -> list[Observation]:
    timeline = (PLACE / f"{name}.timeline.jsonl").read_bytes()
    return list(replay(read((PLACE / f"{name}.raw").read_bytes(), timeline, enters=enters), profile_of(adapter)))


def states(found: list[Observation]) -> list[str]:
    return [each.state for each in found if each.state is not None]


@pytest.mark.slow
def test_a_recorded_turn_shows_its_states_and_what_decided_them() -> None:
    found = noted("codex-vt100-noalt", "codex", 4.2)
    assert states(found)[:1] == ["starting"] and states(found)[-3:] == ["accepted", "busy", "done"]
    assert (found[-1].via, found[-1].t) == ("osc7501", pytest.approx(12.8, abs=0.2))
    assert {"state=working:app=codex", "state=done:app=codex"} <= {each.text for each in found if each.signal == 7501}


@pytest.mark.slow
def test_a_dialog_is_named_when_it_comes() -> None:
    found = noted("claude-perm", "claude", 8.5)
    assert [each.dialog for each in found if each.dialog is not None] == ["permission"]
    assert states(found)[-1] == "waiting"


@pytest.mark.slow
def test_without_an_enter_no_turn_is_seen() -> None:
    assert "sent" not in states(noted("claude", "claude"))


def test_an_asciicast_of_beams_own_tells_when_enter_was_pressed() -> None:
    file, now = io.BytesIO(), [0.0]
    film = Recorder(file, columns=80, rows=24, title="", timestamp=0, now=lambda: now[0])
    film.record_output(b"\x1b]133;A\x07>>> ")
    for seconds, typed, wrote in ((1.0, b"1 + 1", b"1 + 1"), (0.2, b"\r", b"\r\n2\r\n\x1b]133;A\x07>>> ")):
        now[0] += seconds
        film.record_typed(typed)
        film.record_output(wrote)
    film.end()
    found = list(replay(read(file.getvalue()), profile_of("python")))
    assert states(found) == ["starting", "ready", "sent", "accepted", "done"]
    assert [each.key for each in found if each.key] == ["enter"]


def test_what_is_no_recording_is_refused() -> None:
    with pytest.raises(NoCastError):
        read(b'{"version": 1}')
    with pytest.raises(NoCastError):
        read(b"x", b"no timeline\n")


@pytest.mark.slow
def test_a_profile_is_an_adapters() -> None:
    assert profile_of(None) is GENERIC_PROFILE
    with pytest.raises(UnsupportedError):
        profile_of("mailbox")
    with pytest.raises(NotFoundError):
        profile_of("nobody")


def test_what_is_printed_leaves_out_what_is_not_there() -> None:
    import msgspec

    assert json.loads(msgspec.json.encode(Observation(t=1.0, title="x"))) == {"t": 1.0, "title": "x"}


def explained(name: str, adapter: str) -> list[Observation]:
    recording = read((PLACE / f"{name}.raw").read_bytes(), (PLACE / f"{name}.timeline.jsonl").read_bytes())
    return list(replay(recording, profile_of(adapter), explain=True))


@pytest.mark.slow
def test_what_is_explained_names_the_rows_that_decided_and_by_which_field() -> None:
    dialog = next(each for each in explained("claude-perm", "claude") if each.dialog == "permission")
    rows = [(found.field, found.text.strip()) for found in dialog.because]
    assert [field for field, _ in rows] == ["dialogs: permission"] * 2
    assert rows[0][1].startswith("───") and rows[1][1].startswith("Esc to cancel")
    ready = next(each for each in explained("claude-perm", "claude") if each.state == "ready")
    assert "prompt" in [found.field for found in ready.because]
    assert all(not each.because for each in noted("claude-perm", "claude"))


def test_a_screen_of_another_agent_is_explained_as_unknown_with_what_it_shows() -> None:
    (unknown,) = [each.unknown for each in explained("gemini", "claude") if each.unknown]
    assert any("Do you trust the files in this folder?" in row for row in unknown)
