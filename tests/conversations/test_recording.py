"""Recordings of turns: what is written, which turn answers, and what a miss says."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from msgspec import structs

from beam.base.errors import ConfigError, DiskError, NotFoundError, RefusedFileError
from beam.conversations.plain import cut
from beam.conversations.recording import Recorder, Replay
from beam.model import events
from beam.model.message import Message, Payload
from beam.model.outcome import Status

OWNER = events.Owner(pid=1, start_ticks=1)


def turn(prompt: str, reply: str, number: int = 1) -> list[events.Event]:
    """The events of one turn, as a journal has them."""
    found: list[events.Event] = [
        events.MessageQueued(sender="human", text=prompt),
        events.TurnStarted(owner=OWNER, turn_key="k", adapter="claude", via="exec"),
        events.ToolCalled(call_id="1", name="Bash", raw="{the CLI's own line}"),
        events.Text(text=reply),
        events.TurnFinished(status=Status.COMPLETED, reply=reply),
        events.TurnClosed(),
    ]
    return [structs.replace(e, seq=1, ts="", agent="claude@s", turn=number, message_id=f"m-{number}") for e in found]


def recorded(folder: Path, *turns: tuple[str, str]) -> Path:
    recorder = Recorder(folder)
    for number, (prompt, reply) in enumerate(turns, 1):
        for event in turn(prompt, reply, number):
            recorder.take(event)
    return folder


def asked(text: str) -> Message:
    return Message(id="claude@s-1", timestamp="", sender="human", to="claude@s", payload=Payload(text=text))


def answers(replay: Replay, *prompts: str) -> list[str | None]:
    found = (replay.take(asked(prompt)) for prompt in prompts)
    return [each.finished.reply if each is not None else None for each in found]


def test_turns_answer_once_each_by_their_prompts(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "r", ("a", "1"), ("b", "2"), ("a", "3"))
    replay = Replay(folder, "stop")
    assert answers(replay, "a", "a", "b") == ["1", "3", "2"]
    assert (replay.counts.exact, replay.counts.minor) == (2, 1)
    with pytest.raises(NotFoundError, match="all 3 are used"):
        replay.take(asked("a"))
    assert replay.counts.unmatched == 1


def test_a_recording_is_lines_of_a_journal_without_the_clis_own(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "r", ("a", "1"))
    lines = (folder / "claude.jsonl").read_bytes().splitlines()
    assert [type(events.decode(line)).__name__ for line in lines] == [
        "MessageQueued", "TurnStarted", "ToolCalled", "Text", "TurnFinished",
    ]  # fmt: skip
    assert b"the CLI's own" not in (folder / "claude.jsonl").read_bytes()


def test_a_miss_names_the_nearest_and_its_first_difference(tmp_path: Path) -> None:
    replay = Replay(recorded(tmp_path / "r", ("Plan\nthe work", "1"), ("x", "2")), "stop")
    with pytest.raises(NotFoundError, match=r"turn 1, which differs from character 10 \(line 2\) on.*'Plan.nthe work'"):
        replay.take(asked("Plan\nthe play"))


def test_a_miss_is_answered_by_the_next_turn_or_by_the_agent(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "r", ("a", "1"), ("b", "2"))
    nearest = Replay(folder, "nearest")
    assert answers(nearest, "other", "b") == ["1", "2"]
    assert (nearest.counts.major, nearest.counts.exact) == (1, 1)
    live = Replay(folder, "live")
    assert answers(live, "other", "b") == [None, "2"]
    assert (live.counts.live, live.needs_agents, nearest.needs_agents) == (1, True, False)


def test_a_secret_in_a_prompt_is_compared_as_journals_have_it(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "a1B2" * 20 + "AA"
    from beam.secrets.redact import redact

    folder = recorded(tmp_path / "r", (redact(f"use {key}")[0], "1"))
    assert answers(Replay(folder, "stop"), f"use {key}") == ["1"]


def test_a_new_recording_takes_the_place_of_the_old_one_and_an_added_one_does_not(tmp_path: Path) -> None:
    recorded(tmp_path / "r", ("a", "1"))
    recorded(tmp_path / "r", ("b", "2"))
    assert answers(Replay(tmp_path / "r", "nearest"), "a") == ["2"]
    more = Recorder(tmp_path / "r", adds=True)
    for event in turn("c", "3"):
        more.take(event)
    assert answers(Replay(tmp_path / "r", "stop"), "b", "c") == ["2", "3"]


def test_a_recording_follows_no_link(tmp_path: Path) -> None:
    folder, target = tmp_path / "r", tmp_path / "profile"
    folder.mkdir()
    target.write_text("mine")
    (folder / "claude.jsonl").symlink_to(target)
    adding = Recorder(folder, adds=True)
    for event in turn("a", "1"):
        adding.take(event)
    with pytest.raises(RefusedFileError):
        adding.check()
    recorded(folder, ("a", "1"))
    assert (target.read_text(), (folder / "claude.jsonl").is_symlink()) == ("mine", False)


@pytest.mark.parametrize("adds", [False, True])
def test_a_folder_that_is_swapped_for_a_link_leads_no_turn_elsewhere(tmp_path: Path, adds: bool) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "claude.jsonl").write_text("mine")
    folder = recorded(tmp_path / "r", ("a", "1"))
    recorder = Recorder(folder, adds=adds)
    folder.rename(tmp_path / "moved")
    folder.symlink_to(home)
    for number, text in enumerate("bc", 1):
        for event in turn(text, text, number):
            recorder.take(event)
    recorder.check()
    assert ((home / "claude.jsonl").read_text(), [each.name for each in home.iterdir()]) == ("mine", ["claude.jsonl"])
    assert answers(Replay(tmp_path / "moved", "stop"), "b", "c") == ["b", "c"]


def test_a_link_that_stands_where_the_folder_would_be_made_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    recorder = Recorder(tmp_path / "r" / "deep")
    (tmp_path / "r").symlink_to(home)
    for event in turn("a", "1"):
        recorder.take(event)
    with pytest.raises(DiskError):
        recorder.check()
    assert list(home.iterdir()) == []


def test_a_turn_that_cannot_be_written_goes_on_and_is_reported_after_it(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    (tmp_path / "r").write_text("in the way")
    for event in turn("a", "1"):
        recorder.take(event)
    with pytest.raises(DiskError, match=r"Not a directory \(the turn is over, and its answer is kept: beam show m-1\)"):
        recorder.check()


def test_a_disk_that_is_full_leaves_the_recording_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recorded(tmp_path / "r", ("a", "1"))
    before = (folder / "claude.jsonl").read_bytes()

    def half(handle: int, data: bytes) -> None:
        os.write(handle, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("beam.base.files.write_all", half)
    for adds in (True, False):
        more = Recorder(folder, adds=adds)
        for event in turn("b", "2"):
            more.take(event)
        with pytest.raises(DiskError, match="No space left"):
            more.check()
        assert (folder / "claude.jsonl").read_bytes() == before
        assert [path.name for path in folder.iterdir()] == ["claude.jsonl"]


def test_a_file_in_the_place_of_the_folder_is_refused_before_any_turn(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "r"):
        with pytest.raises(DiskError, match="is no folder"):
            Recorder(folder)
    Recorder(tmp_path / "r" / "deep").check()
    assert not (tmp_path / "r").exists()


def test_a_damaged_recording_is_refused_with_its_line(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "r", ("a", "1"))
    with (folder / "claude.jsonl").open("a") as file:
        file.write("{broken\n")
    with pytest.raises(ConfigError, match=r"claude.jsonl:6:1: not an event"):
        Replay(folder, "stop").take(asked("a"))


def test_a_recording_of_another_version_is_refused_with_its_line(tmp_path: Path) -> None:
    file = recorded(tmp_path / "r", ("a", "1")) / "claude.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"v":1', b'"v":2')
    file.write_bytes(b"".join(lines))
    with pytest.raises(ConfigError, match=r"claude.jsonl:4:1: has version 2, but this beam reads version 1"):
        Replay(tmp_path / "r", "nearest").take(asked("a"))


def test_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no recording"):
        Replay(tmp_path / "no", "stop")


def test_an_event_is_recorded_and_then_shown(tmp_path: Path) -> None:
    recorder, seen = Recorder(tmp_path / "r"), list[events.Event]()
    both = recorder.beside(seen.append)
    for event in turn("a", "1"):
        both(event)
    assert seen == turn("a", "1")
    assert answers(Replay(tmp_path / "r", "stop"), "a") == ["1"]


def test_a_turn_that_was_tried_again_is_recorded_as_its_last_attempt(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    first, second = turn("a", "lost"), turn("a", "1")
    for event in (*first[:4], *second[1:]):
        recorder.take(event)
    assert b"lost" not in (tmp_path / "r" / "claude.jsonl").read_bytes()
    assert answers(Replay(tmp_path / "r", "stop"), "a") == ["1"]


@pytest.mark.parametrize(("size", "whole"), [(10, True), (11, False)])
def test_a_text_of_a_report_is_cut_in_its_middle(size: int, whole: bool) -> None:
    text = "".join(chr(ord("a") + at) for at in range(size))
    assert cut(text, 10) == (text if whole else "abcde\n… 1 characters are left out …\nghijk")


def test_an_agent_of_which_nothing_was_recorded_is_named(tmp_path: Path) -> None:
    recorded(tmp_path / "r", ("a", "1"))
    replay = Replay(tmp_path / "r", "stop")
    other = Message(id="codex-1", timestamp="", sender="human", to="codex", payload=Payload(text="a"))
    with pytest.raises(NotFoundError, match=r"^no recorded turn of codex is left in r: there is none of it "):
        replay.take(other)


@pytest.mark.slow
def test_a_recorder_keeps_no_file_open_for_each_turn(tmp_path: Path) -> None:
    recorder, opened = Recorder(tmp_path / "r"), []
    for number in range(1, 4):
        for event in turn("a", str(number), number):
            recorder.take(event)
        opened.append(len(list(Path("/proc/self/fd").iterdir())))
    assert len(set(opened)) == 1
