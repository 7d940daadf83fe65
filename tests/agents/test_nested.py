"""Around the depth at which Python gives up, what a CLI prints can be read and yet be too deep to be written again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from beam.agents import registry
from beam.agents.base import Turn
from beam.agents.codex import exec as codex
from beam.agents.fields import json_text
from beam.agents.gemini import history as gemini
from beam.model import events
from beam.model.events import Event

OF_PI = b'{"type":"tool_execution_end","toolCallId":"c","toolName":"bash","result":%s}'
OF_QWEN = b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":%s}]}}'
OF_CLINE = (
    b'{"type":"agent_event","event":{"type":"content_end","contentType":"tool","toolCallId":"c","toolName":"x",'
    b'"output":%s}}'
)
OF_CODEX = b'{"type":"item.completed","item":{"id":"c","type":"web_search","query":"q","action":%s}}'
OF_GEMINI = (
    b'{"type":"gemini","id":"g","content":"","toolCalls":[{"id":"c","name":"x","status":"success","result":%s}]}'
)
IN_CLINE = b'{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":%s}]}]}'
IN_QWEN = (
    b'{"type":"tool_result","uuid":"u","message":{"parts":[{"functionResponse":{"id":"c","response":{"deep":%s}}}]}}'
)
IN_VIBE = (
    b'{"payload":{"delta":[{"op":"append_entry","entry":{"id":"c","type":"effect","generationStatus":"completed",'
    b'"detail":{"toolName":"x"},"state":{"output":%s}}}]}}'
)
PATHS = {"cline": "s/s.messages.json", "qwen": "p/chats/0a.jsonl", "vibe": "s/journal/1.jsonl"}


def nested(line: bytes) -> Iterator[bytes]:
    """The line with values of every depth that matters."""
    limit = sys.getrecursionlimit()
    for depth in (*range(limit - 120, limit + 5), 100_000):
        yield line.replace(b"%s", b'{"a":' * depth + b"1" + b"}" * depth)


def turn(name: str) -> Turn:
    return Turn(text="hello", message_id="x-1", agent=name, session_id="11111111-2222-4333-8444-555555555555")


def of_decoder(name: str) -> Callable[[bytes], list[Event]]:
    face = registry.adapter(name).exec
    assert face is not None
    decoder = face.decoder(turn(name)) if name != "codex" else codex.decoder(turn(name))
    return lambda line: list(decoder.line(line))


def of_transcript() -> Callable[[bytes], list[Event]]:
    transcript = gemini.transcript(turn("gemini"))
    transcript.line(b'{"type":"user","content":[{"text":"hello"}]}')
    assert transcript.state == "working"
    return lambda line: list(transcript.line(line))


def of_session(name: str) -> Callable[[bytes], list[Event]]:
    reader = registry.sessions_of(name).reader(PATHS[name])
    return lambda data: list(reader.read(data))


def outputs(read: Callable[[], Callable[[bytes], list[Event]]], line: bytes) -> set[str]:
    found = (event for each in nested(line) for event in read()(each))
    return {event.output for event in found if isinstance(event, events.ToolReturned)}


@pytest.mark.parametrize(
    ("name", "line"),
    [("pi", OF_PI), ("qwen", OF_QWEN), ("cline", OF_CLINE), ("codex", OF_CODEX)],
    ids=["pi", "qwen", "cline", "codex"],
)
def test_a_result_nested_too_deeply_breaks_no_turn(name: str, line: bytes) -> None:
    assert "[nested too deeply]" in outputs(lambda: of_decoder(name), line)


def test_a_result_nested_too_deeply_breaks_no_transcript_of_geminis() -> None:
    assert "[nested too deeply]" in outputs(of_transcript, OF_GEMINI)


@pytest.mark.parametrize(
    ("name", "data"), [("cline", IN_CLINE), ("qwen", IN_QWEN), ("vibe", IN_VIBE)], ids=["cline", "qwen", "vibe"]
)
def test_a_result_nested_too_deeply_breaks_no_session_that_is_watched(name: str, data: bytes) -> None:
    assert outputs(lambda: of_session(name), data)


def test_json_that_a_person_reads_has_its_letters_as_they_are() -> None:
    assert json_text({"a": ["é", None, 1.5]}) == '{"a": ["é", null, 1.5]}'
