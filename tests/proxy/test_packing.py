"""How requests are stored small, and read again: blobs, lists that go on, and what no recorder wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beam.base.errors import CorruptError, DiskError, RefusedFileError, UsageError
from beam.model.outcome import Usage
from beam.proxy.packing import Packer, Unpacker, blob_name, encode
from beam.proxy.place import OpenFolder
from beam.proxy.private import DEEPEST, json_of
from beam.proxy.recording import AnswerLine, Recorder, Recording, RecordingInfo, RequestLine, split_events, suffix_of

LONG = "x" * 256


class Blobs:
    """Blobs in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[bytes, bool]] = {}

    def put(self, data: bytes, is_text: bool) -> str:
        name = f"b{len(self.kept) + 1}"
        self.kept[name] = data, is_text
        return name

    def packed(self, *bodies: Any) -> list[Any]:
        packer = Packer(self.put)
        return [packer.pack(number, body) for number, body in enumerate(bodies, 1)]


@pytest.mark.parametrize(
    ("body", "packed", "blobs"),
    [
        (None, None, []),
        ("x" * 255, "x" * 255, []),
        (LONG, {"$blob": "b1"}, [(LONG.encode(), True)]),
        ({"a": 1, "b": {"c": [True]}}, {"a": 1, "b": {"c": [True]}}, []),
        ({"a": LONG}, {"a": {"$blob": "b1"}}, [(LONG.encode(), True)]),
        ({"a": {"$blob": "mine"}}, {"a": {"$is": {"$blob": "mine"}}}, []),
        ({"a": {"$after": 1}}, {"a": {"$is": {"$after": 1}}}, []),
        ({"a": {"b": [1] * 200}}, {"a": {"b": {"$blob": "b1"}}}, None),
        ([1, 2], [1, 2], []),
    ],
)
def test_long_parts_are_blobs_and_what_looks_like_a_mark_is_none(body: Any, packed: Any, blobs: Any) -> None:
    kept = Blobs()
    assert kept.packed(body) == [packed]
    assert blobs is None or list(kept.kept.values()) == blobs
    assert Unpacker(kept.kept.__getitem__).unpack(1, packed) == body


def test_a_list_goes_on_from_the_earlier_one_with_which_it_has_most_in_common() -> None:
    kept = Blobs()
    bodies = [{"m": [1, 2]}, {"m": [1, 2, 3]}, {"m": [1, 9]}, {"m": [7]}, {"m": [1, 2, 3, 4]}, {"m": [1, 2, 3]}]
    packed = kept.packed(*bodies)
    assert packed == [
        {"m": [1, 2]},
        {"m": {"$after": 1, "keep": 2, "then": [3]}},
        {"m": {"$after": 2, "keep": 1, "then": [9]}},
        {"m": [7]},
        {"m": {"$after": 2, "keep": 3, "then": [4]}},
        {"m": {"$after": 5, "keep": 3, "then": []}},
    ]
    unpacker = Unpacker(kept.kept.__getitem__)
    assert [unpacker.unpack(number, each) for number, each in enumerate(packed, 1)] == bodies


def test_only_the_last_eight_lists_of_a_name_are_gone_on_from() -> None:
    bodies = [{"m": [0, 0]}, *({"m": [number]} for number in range(1, 9)), {"m": [0, 0, 1]}]
    assert Blobs().packed(*bodies)[-1] == {"m": [0, 0, 1]}
    assert Blobs().packed(*bodies[:-2], bodies[-1])[-1] == {"m": {"$after": 1, "keep": 2, "then": [1]}}


def test_a_request_that_is_stored_already_is_gone_on_from() -> None:
    packer = Packer(lambda data, is_text: "b")
    packer.remember(4, {"m": [1, 2], "n": "x"})
    packer.remember(5, "no object")
    assert packer.pack(6, {"m": [1, 2, 3]}) == {"m": {"$after": 4, "keep": 2, "then": [3]}}


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        ({"m": {"$after": 9, "keep": 1, "then": []}}, "its m goes on from a request that has none"),
        ({"m": {"$after": 1, "keep": 1}}, "its m goes on from a request that has none"),
        ({"m": {"$after": 1, "keep": "1", "then": []}}, "its m goes on from a request that has none"),
        ({"n": {"$after": 1, "keep": 1, "then": []}}, "its n goes on from a request that has none"),
        ({"m": {"$blob": "bad"}}, "a blob is not JSON: "),
    ],
)
def test_what_no_packer_made_is_corrupt(packed: Any, said: str) -> None:
    unpacker = Unpacker(lambda name: (b"{", False))
    unpacker.unpack(1, {"m": [1]})
    with pytest.raises(CorruptError) as error:
        unpacker.unpack(2, packed)
    assert error.value.message.startswith(said)


@pytest.mark.parametrize(("depth", "is_too_deep"), [(64, False), (65, True)])
def test_what_is_nested_too_deeply_is_corrupt(depth: int, is_too_deep: bool) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    unpacker = Unpacker(lambda name: (b"", True))
    if not is_too_deep:
        assert unpacker.unpack(1, {"m": value}) == {"m": value}
        return
    with pytest.raises(CorruptError, match="it is nested too deeply"):
        unpacker.unpack(1, {"m": value})


def test_the_deepest_body_that_is_read_as_json_is_packed_and_unpacked() -> None:
    def body(depth: int) -> Any:
        value: Any = LONG
        for number in range(depth):
            value = [value, f"{LONG}{number}"]
        return {"m": value}

    deepest, blobs = body(DEEPEST - 2), Blobs()
    assert json_of(encode(deepest)) == deepest and json_of(encode(body(DEEPEST))) is None
    assert Unpacker(lambda name: blobs.kept[name]).unpack(1, blobs.packed(deepest)[0]) == deepest


def test_the_name_of_a_blob_is_of_its_content_and_its_kind() -> None:
    assert len({blob_name(b"x", is_text=True), blob_name(b"x", is_text=False), blob_name(b"y", is_text=True)}) == 3
    assert all(len(blob_name(b"x", is_text=kind)) == 32 for kind in (True, False))
    assert encode({"a": 1}) == b'{"a":1}'


# -- on disk -----------------------------------------------------------------------------------------------------------


def request(body: Any = None, **fields: Any) -> RequestLine:
    given = {"n": 0, "at": "t", "format": "anthropic", "kind": "ask", "method": "POST", "path": "/v1/messages"}
    return RequestLine(**{**given, "body": body, **fields})


def test_what_a_recorder_writes_a_recording_reads_and_a_later_recorder_goes_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    recorder = Recorder(folder, RecordingInfo(agent="claude", places={"cwd": "/work"}))
    assert recorder.begin(request({"m": [LONG], "a": 1})) == 1
    file = recorder.answer(1, "json")
    file.add(b"{")
    file.add(b"}")
    file.close()
    recorder.end(AnswerLine(n=1, status=200, file="000001.json", usage=Usage(input_tokens=1)))
    recorder.close()
    again = Recorder(folder, RecordingInfo(agent="other"))
    assert again.begin(request({"m": [LONG, 2]}, raw="x")) == 2
    file = again.answer(2, "sse")
    file.add(b"data: secret\n\n")
    file.close(b"data: 1\n\ndata: 2\n\n")
    again.end(AnswerLine(n=2, status=500, file="000002.sse", end="cut", error="e"))
    again.close()
    found = Recording(folder)
    assert found.about == RecordingInfo(agent="claude", places={"cwd": "/work"})
    assert [(each.request.n, each.body, each.data, each.events) for each in found.exchanges] == [
        (1, {"m": [LONG], "a": 1}, b"{}", ()),
        (2, {"m": [LONG, 2]}, b"", (b"data: 1\n\n", b"data: 2\n\n")),
    ]
    second = found.exchanges[1]
    assert (second.request.raw, second.answer.end, second.answer.error, second.answer.status) == ("x", "cut", "e", 500)
    name = blob_name(LONG.encode(), is_text=True)
    assert [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.txt"))] == [f"blobs/{name[:2]}/{name}.txt"]
    assert (folder / "recording.json").read_text().startswith('{\n  "v": 1,\n  "agent": "claude"')


def test_one_process_records_at_a_time(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r", RecordingInfo())
    with pytest.raises(UsageError) as error:
        Recorder(tmp_path / "r", RecordingInfo())
    assert (error.value.message, error.value.hint) == (
        f"another proxy records into {tmp_path / 'r'}",
        "give each a directory of its own",
    )
    recorder.close()
    Recorder(tmp_path / "r", RecordingInfo()).close()


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_line_that_a_kill_tore_is_cut_off_by_the_next_recorder(tmp_path: Path, is_alone: bool) -> None:
    folder = tmp_path / "r"
    recorder = Recorder(folder, RecordingInfo())
    if not is_alone:
        recorder.begin(request({"a": 1}))
    recorder.close()
    index = folder / "model.exchanges.jsonl"
    whole = index.read_bytes()
    index.write_bytes(whole + b'{"line": "req')
    again = Recorder(folder, RecordingInfo())
    assert index.read_bytes() == whole
    assert again.begin(request()) == (1 if is_alone else 2)
    again.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"line":"request"}', "line 1 of model.exchanges.jsonl is not a call: "),
        ("nonsense", "line 1 of model.exchanges.jsonl is not a call: "),
        ('{"line":"request","n":1,"at":"","format":"","kind":"","method":"","path":"","body":{"m":{"$after":0}}}',
         "call 1 can't be read: its m goes on from a request that has none"),
        ('{"line":"request","n":1,"at":"","format":"","kind":"","method":"","path":"","body":{"$blob":"../x"}}',
         "call 1 can't be read: '../x' is no name of a blob"),
        ('{"line":"request","n":1,"at":"","format":"","kind":"","method":"","path":"","body":{"$blob":"' + "0" * 32
         + '"}}', f"call 1 can't be read: blob {'0' * 32} is missing"),
    ],
)  # fmt: skip
def test_a_recording_that_is_damaged_says_where(tmp_path: Path, text: str, said: str) -> None:
    Recorder(tmp_path / "r", RecordingInfo()).close()
    (tmp_path / "r/model.exchanges.jsonl").write_text(f"{text}\n")
    with pytest.raises(CorruptError) as error:
        Recording(tmp_path / "r")
    assert error.value.message.startswith(f"the recording {tmp_path / 'r'} is damaged: {said}")
    assert (error.value.hint, error.value.subject) == ("record it anew", str(tmp_path / "r"))


def test_a_blob_that_was_changed_is_corrupt(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r", RecordingInfo())
    recorder.begin(request({"a": LONG}))
    recorder.close()
    (blob,) = (tmp_path / "r").rglob("*.txt")
    blob.write_text("other")
    with pytest.raises(CorruptError, match=f"blob {blob.stem} is not what was written"):
        Recording(tmp_path / "r")


def test_a_recording_of_another_version_or_none_is_refused(tmp_path: Path) -> None:
    Recorder(tmp_path / "r", RecordingInfo()).close()
    about = tmp_path / "r/recording.json"
    about.write_text('{"v": 2}')
    with pytest.raises(UsageError) as error:
        Recording(tmp_path / "r")
    assert (error.value.message, error.value.hint) == (
        f"{tmp_path / 'r'} is a recording of version 2",
        "this beam reads version 1",
    )
    about.write_text("{")
    with pytest.raises(CorruptError, match=r"recording\.json: "):
        Recording(tmp_path / "r")
    about.unlink()
    assert Recording(tmp_path / "r").about == RecordingInfo()


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [("text/event-stream; charset=utf-8", "sse"), ("application/json", "json"), ("text/html", "body"), ("", "body")],
)
def test_the_file_of_an_answer_ends_as_its_kind_is(kind: str, suffix: str) -> None:
    assert suffix_of({"content-type": kind} if kind else {}) == suffix


def test_events_of_a_stream_end_with_their_blank_line() -> None:
    assert split_events(b"a\n\nb\r\n\r\nc") == [b"a\n\n", b"b\r\n\r\n", b"c"]
    assert split_events(b"") == []


def test_a_folder_that_is_open_is_written_whatever_takes_its_place(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with OpenFolder(tmp_path / "a/b") as place, OpenFolder(tmp_path / "a/b/c", within=place) as inner:
        inner.put("x", b"1")
        inner.put("x", b"2")
        assert (inner.has("x"), inner.has("y"), place.has("c")) == (True, False, True)
        (tmp_path / "a/b/c").rename(tmp_path / "moved")
        (tmp_path / "a/b/c").symlink_to(elsewhere)
        inner.put("z", b"3")
        with pytest.raises(DiskError):
            OpenFolder(tmp_path / "a/b/c", within=place)
    assert sorted(path.name for path in (tmp_path / "moved").iterdir()) == ["x", "z"]
    assert (tmp_path / "moved/x").read_bytes() == b"2"
    assert list(elsewhere.iterdir()) == []
    assert (tmp_path / "moved/x").stat().st_mode & 0o777 == 0o600


def test_a_new_file_takes_the_place_of_a_link_and_nothing_is_added_through_one(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    with OpenFolder(tmp_path / "r") as place:
        (tmp_path / "r/link").symlink_to(target)
        with pytest.raises(RefusedFileError):
            place.open_to_append("link")
        import os

        os.close(place.create_file("link"))
    assert (target.read_text(), (tmp_path / "r/link").read_text()) == ("mine", "")
