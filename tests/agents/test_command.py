"""The command adapter: argv from placeholders, events and a verdict from text, JSON and JSON Lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.agents import command
from beam.agents.base import Exit, Host, Launch, PieceReader, Turn, Verdict
from beam.base.errors import LimitError, UnsupportedError, UsageError
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Status
from beam.model.settings import DEFAULT_LIMITS, AgentSettings
from beam.process.pipes import LineSplitter, Piece


def turn(*argv: str | tuple[str, ...], text: str = "hi", settings: dict[str, Any] | None = None, **fields: Any) -> Turn:
    made = AgentSettings(adapter="command", command=argv, **(settings or {}))
    fields = {"message_id": "tool-1", "agent": "tool", "fresh_session_id": "fresh", **fields}
    return Turn(text=text, settings=made, **fields)


def launched(*argv: str | tuple[str, ...], **fields: Any) -> Launch:
    return command.launch(turn(*argv, **fields), Host())


def played(output: bytes, exit: Exit | None = None, **fields: Any) -> tuple[list[Event], Verdict]:
    """The events and the verdict of a whole stdout, cut into lines as a spawner cuts it."""
    decoder = command.decoder(turn("prog", **fields))
    lines = output.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    bodies = [body for line in lines for body in decoder.line(line)]
    last, verdict = decoder.end(exit or Exit(code=0))
    return [*bodies, *last], verdict


PATHS = {"session_path": "sid"}


@pytest.mark.parametrize(
    ("argv", "fields", "expected"),
    [
        (("prog", "-x"), {}, ("prog", "-x")),
        (("prog", "{message_id}"), {}, ("prog", "tool-1")),
        (("prog", "--m={model}"), {"model": "big"}, ("prog", "--m=big")),
        (("prog", "--m={model}"), {}, ("prog",)),
        (("prog", ("--model", "{model}"), "-x"), {}, ("prog", "-x")),
        (("prog", ("--model", "{model}"), "-x"), {"model": "big"}, ("prog", "--model", "big", "-x")),
        (("prog", ("--resume", "{session}")), {"settings": PATHS}, ("prog",)),
        (("prog", ("--resume", "{session}")), {"settings": PATHS, "session_id": "s1"}, ("prog", "--resume", "s1")),
        (("prog", "{session}"), {}, ("prog", "fresh")),
        (("prog", "{session}"), {"session_id": "s1"}, ("prog", "s1")),
        (("jq", "{a: {b}}", "${x}", "{}"), {}, ("jq", "{a: {b}}", "${x}", "{}")),
    ],
)
def test_placeholders_are_filled_in_and_groups_without_a_value_are_left_out(
    argv: tuple[Any, ...], fields: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert launched(*argv, **fields).argv == expected


def test_the_prompt_goes_to_stdin_byte_for_byte() -> None:
    launch = launched("prog", text="-x\0 ü\n")
    assert launch.stdin == b"-x\0 \xc3\xbc\n"
    assert launch.prompt_in_argv == ()


def test_a_prompt_in_argv_is_not_on_stdin_and_its_arguments_are_named() -> None:
    launch = launched("prog", ("--model", "{model}"), "-p", "say: {prompt}", text="hi")
    assert launch == Launch(argv=("prog", "-p", "say: hi"), stdin=None, prompt_in_argv=(2,))


def test_a_placeholder_in_the_prompt_is_text() -> None:
    assert launched("prog", "{prompt}", text="{model} {session}").argv == ("prog", "{model} {session}")


@pytest.mark.parametrize(
    ("argv", "fields"),
    [
        (("prog", "--model", "{model}"), {"model": "--yolo"}),
        (("prog", "--resume", "{session}"), {"session_id": "-x", "settings": PATHS}),
        (("prog", "{prompt}"), {"text": "--yolo", "sender": "another"}),
    ],
)
def test_what_others_choose_is_no_option_of_the_program(argv: tuple[str, ...], fields: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="begins with -"):
        launched(*argv, **fields)
    assert launched(argv[0], "--", argv[-1], **fields).argv[:2] == ("prog", "--")
    assert launched("prog", f"--it={argv[-1]}", **fields).argv[1].startswith("--it=-")


def test_what_a_person_writes_may_be_an_option_of_the_program() -> None:
    assert launched("prog", "{prompt}", text="--help", sender="human").argv == ("prog", "--help")


def test_a_prompt_too_long_for_an_argument_is_a_limit() -> None:
    with pytest.raises(LimitError, match="122881 bytes"):
        launched("prog", "{prompt}", text="x" * (DEFAULT_LIMITS.argv_text_bytes + 1))
    assert (
        len(launched("prog", "{prompt}", text="x" * DEFAULT_LIMITS.argv_text_bytes).argv[1])
        == DEFAULT_LIMITS.argv_text_bytes
    )
    assert launched("prog", text="x" * (DEFAULT_LIMITS.argv_text_bytes + 1)).stdin is not None


def test_a_nul_in_an_argument_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="NUL"):
        launched("prog", "{prompt}", text="a\0b")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": "big"}, r"its command has no \{model\}"),
    ],
)
def test_what_the_command_has_no_place_for_is_unsupported(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        launched("prog", **fields)


def test_an_agent_without_a_command_says_so() -> None:
    with pytest.raises(UsageError, match="no command"):
        launched()


@pytest.mark.parametrize(
    ("output", "reply"),
    [
        (b"hello\n", "hello"),
        (b"hello", "hello"),
        (b"a\n\nb\n\n", "a\n\nb\n"),
        (b"\na", "\na"),
        (b"\n", ""),
        (b"", ""),
        (b"a\0b\n", "a\0b"),
        (b"a\r\n", "a\r"),
        (b"x" * 1_000_000 + b"\n", "x" * 1_000_000),
    ],
)
def test_text_is_the_whole_of_stdout_without_its_last_newline(output: bytes, reply: str) -> None:
    bodies, verdict = played(output)
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, reply)
    assert "".join(body.text for body in bodies if isinstance(body, events.TextDelta)) == reply
    assert [body.text for body in bodies if isinstance(body, events.Text)] == ([reply] if reply else [])


def test_invalid_utf8_becomes_fffd_with_one_notice() -> None:
    bodies, verdict = played(b"a\xff\nb\xfe\n")
    assert verdict.reply == "a\ufffd\nb\ufffd"
    assert verdict.lossy is True
    assert [body.code for body in bodies if isinstance(body, events.Notice)] == ["invalid_utf8"]


@pytest.mark.parametrize(
    ("exit", "reason"),
    [
        (Exit(code=3, stderr_tail="warming up\nno key\n\n"), "no key"),
        (Exit(code=75), "prog exited with 75"),
        (Exit(signal="SIGKILL"), "prog was ended by SIGKILL"),
        (Exit(), "prog was lost"),
    ],
)
@pytest.mark.parametrize("format", ["text", "json", "jsonl"])
def test_any_exit_but_0_is_a_crash_with_the_last_line_of_stderr(exit: Exit, reason: str, format: str) -> None:
    _, verdict = played(b'{"reply": "half"}\n', exit, settings={"format": format})
    assert (verdict.status, verdict.class_, verdict.reason) == (Status.FAILED, Class.CRASHED, reason)


@pytest.mark.parametrize(
    ("path", "document", "reply"),
    [
        (None, {"reply": "yes"}, "yes"),
        ("result.text", {"result": {"text": "yes"}}, "yes"),
        ("items.0.text", {"items": [{"text": "yes"}]}, "yes"),
        ("items.-1", {"items": ["no", "yes"]}, "yes"),
        ("0", ["yes"], "yes"),
        ("reply", {"reply": ""}, ""),
        ("reply", {"reply": {"a": [1, None]}}, '{"a":[1,null]}'),
        ("reply", {"reply": False}, "false"),
    ],
)
def test_the_reply_of_a_json_document_is_what_lies_at_its_path(path: str | None, document: Any, reply: str) -> None:
    bodies, verdict = played(json.dumps(document, indent=1).encode(), settings={"format": "json", "reply_path": path})
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, reply)
    assert [body.text for body in bodies if isinstance(body, events.Text)] == [reply]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (b'{"answer": 1}', "nothing at reply_path 'a.b'"),
        (b'{"a": {"b": null}}', "nothing at reply_path 'a.b'"),
        (b'{"a": [1]}', "nothing at reply_path 'a.b'"),
        (b"Traceback", "not a JSON document"),
        (b"", "it wrote nothing"),
        (b"[" * 100_000, "not a JSON document: nested too deeply"),
    ],
)
def test_json_without_a_reply_fails_and_names_the_path(output: bytes, said: str) -> None:
    _, verdict = played(output, settings={"format": "json", "reply_path": "a.b"})
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.UNKNOWN)
    assert verdict.reason is not None
    assert said in verdict.reason


def test_session_and_cost_are_read_at_their_paths() -> None:
    settings = {"format": "json", "session_path": "meta.sid", "cost_path": "meta.usd"}
    output = b'{"reply": "ok", "meta": {"sid": "s9", "usd": 0.25}}'
    bodies, verdict = played(output, settings=settings)
    assert (verdict.session_id, verdict.session, verdict.cost_usd) == ("s9", "new", 0.25)
    assert [body.session_id for body in bodies if isinstance(body, events.SessionStarted)] == ["s9"]


@pytest.mark.parametrize("cost", ["true", '"1"', "-1", "1e300", "9" * 400, "null"])
def test_a_cost_that_is_no_amount_is_not_known(cost: str) -> None:
    settings = {"format": "json", "cost_path": "usd"}
    _, verdict = played(b'{"reply": "ok", "usd": %s}' % cost.encode(), settings=settings)
    assert (verdict.status, verdict.cost_usd) == (Status.COMPLETED, None)


@pytest.mark.parametrize(
    ("asked", "printed", "session_id", "note"),
    [
        (None, "s1", "s1", "new"),
        ("s1", "s1", "s1", "resumed"),
        ("s1", "s2", "s2", "resumed"),
        ("s1", None, "s1", "resumed"),
    ],
)
def test_a_session_that_the_program_names_is_resumed(
    asked: str | None, printed: str | None, session_id: str, note: str
) -> None:
    settings = AgentSettings(command=("prog", ("-r", "{session}")), format="json", session_path="sid")
    decoder = command.decoder(Turn(text="", message_id="m", agent="a", session_id=asked, settings=settings))
    decoder.line(json.dumps({"reply": "ok", "sid": printed}).encode())
    _, verdict = decoder.end(Exit(code=0))
    assert (verdict.session_id, verdict.session) == (session_id, note)


@pytest.mark.parametrize(
    ("asked", "note"),
    [(None, "new"), ("fresh", "resumed")],
)
@pytest.mark.parametrize(
    ("format", "output"), [("text", b"ok"), ("json", b'{"reply":"ok"}'), ("jsonl", b'{"reply":"ok"}')]
)
def test_a_program_that_prints_no_session_is_given_one(
    asked: str | None, note: str, format: str, output: bytes
) -> None:
    settings = AgentSettings(command=("prog", "{session}"), format=format)  # type: ignore[arg-type]
    made = Turn(text="", message_id="m", agent="a", session_id=asked, fresh_session_id="fresh", settings=settings)
    assert command.launch(made, Host()).argv == ("prog", "fresh")
    decoder = command.decoder(made)
    bodies = list(decoder.line(output))
    last, verdict = decoder.end(Exit(code=0))
    (told,) = [body for body in [*bodies, *last] if isinstance(body, events.SessionStarted)]
    assert (told.session_id, told.resumed) == ("fresh", note == "resumed")
    assert (verdict.session_id, verdict.session) == ("fresh", note)


def test_a_command_without_a_place_for_a_session_has_none() -> None:
    _, verdict = played(b"ok")
    assert (verdict.session_id, verdict.session) == (None, None)


JSONL = b"""{"type": "text", "text": "Looking."}
{"type": "tool.called", "call_id": "1", "name": "ls", "input": {"path": "."}, "seq": "mine"}
{"type": "tool.returned", "call_id": "1", "output": "a b", "is_error": false}
{"type": "usage", "usage": {"input_tokens": 5}, "cost_usd": 0.5}

{"type": "heartbeat"}
{"type": "text", "text": 7}
{"reply": "first"}
[1]
noise
{"reply": "second"}
"""


def test_json_lines_become_events_and_the_last_reply_wins() -> None:
    bodies, verdict = played(JSONL, settings={"format": "jsonl"})
    kinds = [str(body.__struct_config__.tag) for body in bodies]
    assert kinds == [
        "text",
        "tool.called",
        "tool.returned",
        "usage",
        "unknown",
        "unknown",
        "text",
        "unknown",
        "unknown",
        "text",
    ]
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "second")
    assert (verdict.usage.input_tokens, verdict.cost_usd) == (5, 0.5)


def test_each_json_line_is_kept_once_as_raw() -> None:
    bodies, _ = played(JSONL, settings={"format": "jsonl"})
    assert [body.raw for body in bodies] == JSONL.decode().replace("\n\n", "\n").splitlines()  # type: ignore[attr-defined]


def test_json_lines_without_a_reply_fail_and_name_the_path() -> None:
    _, verdict = played(b'{"x": 1}', settings={"format": "jsonl", "reply_path": "answer"})
    assert verdict.reason == "no record of its output has anything at reply_path 'answer'"


def test_a_lone_surrogate_in_json_becomes_fffd() -> None:
    _, verdict = played(b'{"reply": "a\\ud800b"}', settings={"format": "jsonl"})
    assert verdict.reply == "a\ufffdb"


words = st.text(alphabet='a0"\\\ud800\u00e9\0', max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
keys = ["type", "text", "reply", "sid", "usd", "usage", "call_id", "name", "input", "steps", "covers", "raw"]
types = ["text", "tool.called", "usage", "notice", "plan.updated"]
records = st.dictionaries(st.sampled_from(keys), json_values | st.sampled_from(types), max_size=4)


@pytest.mark.slow
@given(
    lines=st.lists(st.binary(max_size=20) | records.map(lambda value: json.dumps(value).encode()), max_size=3),
    format=st.sampled_from(["text", "json", "jsonl"]),
)
def test_no_output_raises_and_every_event_can_be_written(lines: list[bytes], format: str) -> None:
    settings = {"format": format, "session_path": "sid", "cost_path": "usd"}
    decoder = command.decoder(turn("prog", settings=settings))
    bodies = [body for line in lines for body in decoder.line(line.replace(b"\n", b""))]
    last, verdict = decoder.end(Exit(code=0))
    for body in [*bodies, *last]:
        events.decode(events.encode(body))
    msgspec.json.encode(verdict)


def test_the_card_says_that_it_runs_code_and_has_no_access_of_its_own() -> None:
    assert command.card.runs_code
    assert command.card.faces["exec"].access == ()


def test_the_example_of_the_docs_is_settings_that_launch_as_the_docs_say() -> None:
    import yaml

    docs = (Path(__file__).parents[2] / "docs" / "command.md").read_text()
    example = yaml.safe_load(docs.split("```yaml\n")[1].split("```")[0])["agents"]
    agents = {name: msgspec.convert(value, AgentSettings) for name, value in example.items()}
    first = Turn(text="hi", message_id="m", agent="helper", fresh_session_id="f", settings=agents["helper"])
    assert command.launch(first, Host()).argv == ("./helper.sh", "--json")
    second = msgspec.structs.replace(first, session_id="s1", model="big")
    assert command.launch(second, Host()).argv == ("./helper.sh", "--json", "--model", "big", "--resume", "s1")
    for name in (type_ for type_ in events.types() if type_ in command._OWN_EVENT_TYPES):
        assert f"`{name}`" in docs


def test_what_is_no_json_is_kept_as_it_came_and_nothing_is_not_an_event() -> None:
    bodies, verdict = played(b"not json\n", settings={"format": "json"})
    assert [body.raw for body in bodies if isinstance(body, events.Unknown)] == ["not json"]
    assert "its output is not a JSON document" in (verdict.reason or "")
    bodies, verdict = played(b"", settings={"format": "json"})
    assert not [body for body in bodies if isinstance(body, events.Unknown)]
    assert "it wrote nothing" in (verdict.reason or "")


@pytest.mark.parametrize("output", ["", "a", "é│\U0001f600" * 3, "one\n\U0001f600\n\nlast", "\n", "a\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_long_line_in_pieces_is_the_same_text(output: str, size: int) -> None:
    def told(piece_bytes: int) -> tuple[str, str | None, object]:
        decoder = command.decoder(turn("prog"))
        assert isinstance(decoder, PieceReader)
        split = LineSplitter(1000, piece_bytes=piece_bytes)
        data = output.encode()
        parts = [part for at in range(len(data)) for part in split.feed(data[at : at + 1])] + split.end()
        found = [each for part in parts for each in (decoder.piece if isinstance(part, Piece) else decoder.line)(part)]
        _, verdict = decoder.end(Exit(code=0))
        deltas = [each.text for each in found if isinstance(each, events.TextDelta)]
        assert not piece_bytes or max(map(len, deltas), default=0) <= size + 1
        return "".join(deltas), verdict.reply, verdict.lossy

    assert told(size) == told(0) == (output.removesuffix("\n"), output.removesuffix("\n"), msgspec.UNSET)


@pytest.mark.parametrize("data", [b"a\xff", b"\xf0\x9f", b"\x80\x80\x80\x80\x80", b"\xc3"])
def test_bytes_that_are_no_text_stay_no_text_in_pieces(data: bytes) -> None:
    decoder = command.decoder(turn("prog"))
    assert isinstance(decoder, PieceReader)
    for at in range(len(data)):
        decoder.piece(data[at : at + 1])
    decoder.line(b"")
    _, verdict = decoder.end(Exit(code=0))
    assert (verdict.reply, verdict.lossy) == (data.decode("utf-8", "replace"), True)
