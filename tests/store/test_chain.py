"""The hashes of a journal's lines: what they notice, and that every way in which a journal grows keeps them true."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from beam.api.verify import find_damage
from beam.base import files
from beam.base.errors import CorruptError, DiskError
from beam.model import events
from beam.model.outcome import Status
from beam.model.settings import DEFAULT_LIMITS, Limits
from beam.store.chain import Chain, ChainCheck
from beam.store.journal import Journal, Reader, read_state, segments
from tests.support.context import SMALL, FakeClock

DONE = events.TurnFinished(status=Status.COMPLETED, reply="done")


def begin(directory: Path, limits: Limits = DEFAULT_LIMITS) -> Journal:
    directory.mkdir(exist_ok=True)
    return Journal.open(directory, "a", FakeClock(), limits)


def filled(directory: Path, *texts: str, limits: Limits = DEFAULT_LIMITS) -> Path:
    """A journal that says these texts, closed; its newest segment."""
    journal = begin(directory, limits)
    for text in texts:
        journal.append(events.Text(text=text))
        journal.rotate_if_due()
    journal.close()
    return directory / segments(directory)[-1]


def test_a_changed_word_is_named_by_its_line_and_only_that(tmp_path: Path) -> None:
    segment = filled(tmp_path / "j", "one", "two", "three", "four")
    segment.write_bytes(segment.read_bytes().replace(b"two", b"2wo").replace(b"four", b"f0ur"))
    assert [line.partition(": ")[0] for line in find_damage(tmp_path / "j")] == [f"{segment}:3", f"{segment}:5"]
    assert len(Reader(tmp_path / "j").poll()) == 4, "readers don't look at hashes"


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [lines[0].replace(b'"paused":false', b'"paused":true '), *lines[1:]],
        lambda lines: [*lines[:2], *lines[3:]],
        lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],
        lambda lines: [*lines[:2], lines[2].partition(b',"hash"')[0] + b"}\n", *lines[3:]],
        lambda lines: [*lines[:2], b"\n", *lines[2:]],
        lambda lines: [*lines[:2], lines[2].replace(b'"hash":"', b'"hash":"0')[:-4] + b'"}\n', *lines[3:]],
    ],
    ids=["snapshot", "taken out", "moved", "without its hash", "a blank line", "another hash"],
)
def test_whatever_is_changed_before_the_last_line_is_seen(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    segment = filled(tmp_path / "j", "one", "two", "three")
    segment.write_bytes(b"".join(change(segment.read_bytes().splitlines(keepends=True))))
    assert any("the hash is another" in line for line in find_damage(tmp_path / "j"))


@pytest.mark.slow
def test_a_line_cut_anywhere_is_mended_and_the_chain_goes_on(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole", "one", "last")
    data = whole.read_bytes()
    last = len(data.splitlines(keepends=True)[-1])
    for kept in range(1, last):
        directory = tmp_path / str(kept)
        directory.mkdir()
        (directory / whole.name).write_bytes(data[: len(data) - last + kept])
        filled(directory, "next", "and next")
        assert find_damage(directory) == [], kept


def test_a_write_that_failed_half_way_leaves_a_true_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text="one"))
    real = os.write

    def fails(handle: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", full)
        return real(handle, bytes(data)[:30])

    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fails)
    with pytest.raises(DiskError):
        journal.append(events.Text(text="lost"))
    monkeypatch.setattr(os, "write", real)
    journal.append(events.Text(text="two"))
    journal.append(DONE)
    journal.close()
    assert find_damage(tmp_path / "j") == []
    assert any(isinstance(event, events.Notice) for event in Reader(tmp_path / "j").poll())


@pytest.mark.slow
def test_segments_follow_each_other_and_a_segment_of_another_history_is_named(tmp_path: Path) -> None:
    limits = SMALL
    for name in ("j", "other"):
        filled(tmp_path / name, *(f"{name} {number}" * 50 for number in range(200)), limits=limits)
    names = segments(tmp_path / "j")
    assert len(names) > 2
    assert find_damage(tmp_path / "j") == []
    (tmp_path / "j" / names[0]).unlink()  # as `beam doctor --gc` does
    assert find_damage(tmp_path / "j") == []
    second = tmp_path / "j" / names[1]
    shorter = second.read_bytes().splitlines(keepends=True)[:-1]
    second.write_bytes(b"".join(shorter))
    said = find_damage(tmp_path / "j")
    assert any(f"{names[2]}:1: it follows another segment" in line for line in said)
    assert any(f"{names[2]}:1: its snapshot says seq" in line for line in said)


def test_a_snapshot_that_says_what_no_line_says_is_named(tmp_path: Path) -> None:
    journal = begin(tmp_path / "j")
    journal.append(DONE, turn=3)
    journal.append(events.QueuePaused())
    journal._begin_segment()
    journal.append(DONE, turn=4)
    journal.close()
    last = tmp_path / "j" / segments(tmp_path / "j")[-1]
    lines = last.read_bytes().splitlines(keepends=True)
    forged = Chain().seal(lines[0].partition(b',"hash":"')[0].replace(b'"paused":true', b'"paused":false') + b"}\n")
    last.write_bytes(b"".join([forged, *lines[1:]]))
    assert any("its snapshot says paused False" in line for line in find_damage(tmp_path / "j"))


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_version_that_this_beam_does_not_know_is_refused_and_left_as_it_is(tmp_path: Path, which: int) -> None:
    segment = filled(tmp_path / "j", "one", "two")
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[which] = lines[which].replace(b'"v":1', b'"v":2', 1)
    segment.write_bytes(b"".join(lines))
    before = segment.read_bytes()
    for read in (read_state, begin):
        with pytest.raises(CorruptError, match="has version 2, but this beam reads version 1"):
            read(tmp_path / "j")
    assert any("has version 2" in line for line in find_damage(tmp_path / "j"))
    assert segment.read_bytes() == before


@pytest.mark.parametrize("size", [1, 7, 27, 28, 1000])
def test_pieces_of_any_size_give_the_same_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    segment = filled(tmp_path / "j", "one", "two" * 500, "three")
    data = segment.read_bytes().replace(b"three", b"thr33")
    wanted = list(ChainCheck().feed([data]))
    assert [wrong.line for wrong in wanted] == [4]
    assert list(ChainCheck().feed(data[at : at + size] for at in range(0, len(data), size))) == wanted
    monkeypatch.setattr(files, "PIECE_BYTES", size)
    assert Chain.read_end(segment, segment.stat().st_size).last == Chain.read_end(segment, len(data)).last


def test_what_looks_like_a_hash_in_an_agent_s_words_is_none(tmp_path: Path) -> None:
    looks = '{"a":1,"hash":"0123456789abcdef"}'
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text=looks + "\n"))
    journal.append(events.ToolCalled(call_id="1", name="x", input=msgspec.Raw(looks.encode())))
    journal.close()
    filled(tmp_path / "j", "next")
    assert find_damage(tmp_path / "j") == []


@pytest.mark.slow
def test_a_last_line_longer_than_the_first_look_is_found(tmp_path: Path) -> None:
    segment = filled(tmp_path / "j", "one", "long " * 100_000)
    size = segment.stat().st_size
    assert Chain.read_end(segment, size).last.encode() in segment.read_bytes()[-30:]
    filled(tmp_path / "j", "next")
    assert find_damage(tmp_path / "j") == []
