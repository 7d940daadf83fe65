"""The session files of CLIs that beam did not start, as the real ones wrote them, and what beam makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam.agents import registry
from beam.agents.session_files import EventMaker, ReadsBeside, SessionReader
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Usage

PLACE = Path(__file__).parents[1] / "recordings" / "sessions"
PATHS = {
    "claude": "-tmp-rec/0a.jsonl",
    "codex": "2026/11/24/rollout-2026-11-24T10-47-45-01a20d2b-3828-77f0-b701-39ce922b26cb.jsonl",
    "gemini": "project/chats/session-x.jsonl",
    "copilot": "s/events.jsonl",
    "pi": "p/x_0a.jsonl",
    "qwen": "p/chats/0a.jsonl",
    "kimi": "wd/s/agents/main/wire.jsonl",
    "vibe": "s/journal/1.jsonl",
    "cline": "s/s.messages.json",
    "cn": "0a.json",
}
RECORDINGS = sorted(PLACE.glob("*/session.json*"))
TURN = ["session.prompted", "tool.called", "tool.returned", "text", "session.idle"]


def opened(cli: str) -> SessionReader:
    reader = registry.sessions_of(cli).reader(PATHS[cli])
    if isinstance(reader, ReadsBeside):
        told = {"gemini": b"/tmp/rec/gemini/project", "vibe": b'{"environment":{"working_directory":"/tmp/rec/vibe"}}'}
        reader.beside(told[cli])
    return reader


def read(reader: SessionReader, recording: Path) -> list[Event]:
    data = recording.read_bytes()
    parts = data.splitlines() if recording.suffix == ".jsonl" else [data]
    return [event for part in parts for event in reader.read(part)]


def tags(found: list[Event]) -> list[str]:
    return [str(event.__struct_config__.tag) for event in found]


def cli_of(recording: Path) -> str:
    return recording.parent.name.partition("-")[0]


@pytest.mark.parametrize("recording", RECORDINGS, ids=cli_of)
def test_prompt_call_result_and_answer_are_reported_once_with_what_the_turn_used(recording: Path) -> None:
    cli = cli_of(recording)
    reader = opened(cli)
    found = read(reader, recording)
    assert tags(found) == TURN
    prompted, called, returned, text, idle = found
    assert isinstance(prompted, events.SessionPrompted)
    assert prompted.text.startswith("!tool ")
    assert isinstance(called, events.ToolCalled)
    assert b"hello.txt" in bytes(called.input)
    assert isinstance(returned, events.ToolReturned)
    assert "the content of hello" in returned.output
    assert (returned.call_id, returned.is_error) == (called.call_id, False)
    assert isinstance(text, events.Text)
    assert text.text.startswith("RESULT[")
    assert isinstance(idle, events.SessionIdle)
    assert idle.usage.calls == 2
    assert (idle.usage.input_tokens or 0) > (idle.usage.output_tokens or 0) > 0
    assert reader.session.cwd.startswith(f"/tmp/rec/{cli}")
    assert all(event.ts or cli == "cn" for event in found)


@pytest.mark.parametrize("recording", RECORDINGS, ids=cli_of)
def test_a_file_that_is_read_a_second_time_tells_no_call_or_result_again(recording: Path) -> None:
    reader = opened(cli_of(recording))
    read(reader, recording)
    assert not {"tool.called", "tool.returned"} & {*tags(read(reader, recording))}


@pytest.mark.parametrize("cli", registry.WITH_SESSIONS)
@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"type":7}', b'{"type":"user","message":[]}', b"[" * 5000, b'"\\ud800"'],
)
def test_what_is_no_record_is_no_event_that_is_told_and_raises_nothing(cli: str, line: bytes) -> None:
    reader = registry.sessions_of(cli).reader(PATHS.get(cli, "/f/.aider.chat.history.md"))
    assert {*tags(list(reader.read(line)))} <= {"unknown"}


@pytest.mark.slow
@pytest.mark.parametrize("recording", RECORDINGS, ids=cli_of)
def test_values_of_the_wrong_kind_raise_nothing(recording: Path) -> None:
    lines = recording.read_bytes().splitlines() if recording.suffix == ".jsonl" else [recording.read_bytes()]
    for wrong in (None, 7, "x", [], {}, -1e308, True):
        reader = opened(cli_of(recording))
        for line in lines:
            value = json.loads(line)
            for key in list(value):
                reader.read(json.dumps({**value, key: wrong}).encode())


def asks_of(recording: Path) -> list[Event]:
    kinds = events.PermissionAsked | events.PermissionDecided | events.SessionIdle
    reader = opened(cli_of(recording))
    return [event for event in [*read(reader, recording), *read(reader, recording)] if isinstance(event, kinds)]


@pytest.mark.parametrize(
    ("recording", "kinds"),
    [
        ("copilot-1.0.102/approved", ["permission.asked", "permission.decided", "session.idle"]),
        ("copilot-1.0.102/denied", ["permission.asked", "session.idle", "permission.decided"]),
        ("vibe-3.0.2/approved", ["permission.asked", "permission.decided", "session.idle"]),
    ],
)
def test_a_request_for_a_permission_is_told_once_with_its_answer(recording: str, kinds: list[str]) -> None:
    found = asks_of(PLACE / f"{recording}.jsonl")
    assert tags(found)[: len(kinds)] == kinds
    assert tags(found).count("permission.asked") == 1
    asked = found[0]
    assert isinstance(asked, events.PermissionAsked)
    assert json.loads(bytes(asked.input))["command"] == "touch made && rm -rf zz"
    assert asked.expires is None and asked.ts
    (decided,) = [event.decision for event in found if isinstance(event, events.PermissionDecided)]
    assert decided == ("cancelled" if "denied" in recording else "allow")


def test_an_answer_to_an_unreported_request_is_not_reported(
    recording: Path = PLACE / "copilot-1.0.102/approved.jsonl",
) -> None:
    lines = [line for line in recording.read_bytes().splitlines() if b"permission.requested" not in line]
    reader = opened("copilot")
    assert not [tag for tag in tags([event for line in lines for event in reader.read(line)]) if "permission" in tag]


ASKED = [{"type": "text", "text": "hi"}]
# Each has a call whose input has 40 tokens read from a cache, 7000 written to one, and 100 others.
SESSIONS_WITH_A_CACHE: dict[str, list[dict[str, object]]] = {
    "pi": [
        {"type": "message", "id": "1", "message": {"role": "user", "content": "hi"}},
        {
            "type": "message",
            "id": "2",
            "message": {
                "role": "assistant",
                "stopReason": "stop",
                "usage": {"input": 100, "output": 7, "cacheRead": 40, "cacheWrite": 7000},
            },
        },
    ],
    "kimi": [
        {"type": "turn.prompt", "input": ASKED},
        {
            "type": "context.append_loop_event",
            "event": {
                "type": "step.end",
                "uuid": "u",
                "usage": {"inputOther": 100, "output": 7, "inputCacheRead": 40, "inputCacheCreation": 7000},
            },
        },
        {"type": "turn.ended", "reason": "completed"},
    ],
    "cline": [
        {
            "messages": [
                {"id": "1", "role": "user", "content": ASKED},
                {
                    "id": "2",
                    "role": "assistant",
                    "content": [],
                    "metrics": {
                        "inputTokens": 7140,
                        "outputTokens": 7,
                        "cacheReadTokens": 40,
                        "cacheWriteTokens": 7000,
                    },
                },
            ]
        }
    ],
}


@pytest.mark.parametrize("cli", SESSIONS_WITH_A_CACHE)
def test_the_input_of_a_session_is_what_was_not_read_from_a_cache_with_what_was_written_to_one(cli: str) -> None:
    reader = opened(cli)
    found = [event for line in SESSIONS_WITH_A_CACHE[cli] for event in reader.read(json.dumps(line).encode())]
    usage = next(event.usage for event in found if isinstance(event, events.SessionIdle))
    assert (usage.input_tokens, usage.output_tokens) == (7100, 7)
    assert (usage.cached_tokens, usage.cache_write_tokens) == (40, 7000)


def test_aiders_history_is_reported_by_prompt_answer_and_tokens() -> None:
    lines = [
        "# aider chat started at 2026-11-24 10:48:19",
        "> Aider v0.86.2  ",
        "> Model: openai/scripted with whole edit format  ",
        "",
        "#### first line  ",
        "#### second line  ",
        "",
        "the answer",
        "goes on",
        "",
        "> Tokens: 1.2k sent, 222 received.  ",
    ]
    reader = registry.sessions_of("aider").reader("/folder/.aider.chat.history.md")
    found = [event for line in lines for event in reader.read(line.encode())]
    assert tags(found) == ["session.prompted", "text", "session.idle"]
    prompted, text, idle = found
    assert isinstance(prompted, events.SessionPrompted)
    assert prompted.text == "first line\nsecond line"
    assert isinstance(text, events.Text)
    assert text.text == "the answer\ngoes on"
    assert isinstance(idle, events.SessionIdle)
    assert (idle.usage.input_tokens, idle.usage.output_tokens) == (1200, 222)
    assert (reader.session.cwd, reader.session.model) == ("/folder", "openai/scripted")


def test_a_line_of_claude_that_its_cli_wrote_in_a_persons_place_is_no_prompt() -> None:
    reader = registry.sessions_of("claude").reader("p/0a.jsonl")
    for text in ("<system-reminder>x</system-reminder>", "<task-notification>x", "<local-command-stdout>x"):
        assert list(reader.read(json.dumps({"type": "user", "message": {"content": text}}).encode())) == []
    meta = {"type": "user", "isMeta": True, "message": {"content": "hello"}}
    assert list(reader.read(json.dumps(meta).encode())) == []


def test_a_subagent_of_claude_names_the_session_that_it_works_for() -> None:
    reader = registry.sessions_of("claude").reader("p/lead-id/subagents/agent-a1.jsonl")
    assert (reader.session.id, reader.session.root_id) == ("agent-a1", "lead-id")


def test_the_files_of_vibes_sessions_are_the_journals_of_its_folders() -> None:
    import re

    from beam.agents.vibe.sessions import files

    assert re.fullmatch(files.name, "20260101_abc/journal/17.jsonl")
    for other in ("journal/17.jsonl", "a/journal/17.jsonlX", "a/b/journal/17.jsonl", "a/journal/x.jsonl"):
        assert not re.fullmatch(files.name, other), other


@pytest.mark.parametrize(
    ("cli", "variable"),
    [
        ("claude", "CLAUDE_CONFIG_DIR"),
        ("cline", "CLINE_DATA_DIR"),
        ("cn", "CONTINUE_GLOBAL_DIR"),
        ("codex", "CODEX_HOME"),
        ("copilot", "COPILOT_HOME"),
        ("gemini", "GEMINI_CLI_HOME"),
        ("pi", "PI_CODING_AGENT_DIR"),
        ("vibe", "VIBE_HOME"),
    ],
)
def test_a_clis_own_variable_moves_the_folder_of_its_sessions(cli: str, variable: str) -> None:
    from importlib import import_module

    assert import_module(f"beam.agents.{cli}.sessions").files.moved_by == variable


@pytest.mark.parametrize(
    ("costs", "total"),
    [((0.25, None), None), ((None, 0.25), None), ((0.1, 0.2), 0.3), ((0.0, 0.25), 0.25), ((0.0, 0.0), None)],
)
def test_the_cost_of_only_some_calls_is_not_reported_as_the_cost_of_the_turn(
    costs: tuple[float | None, ...], total: float | None
) -> None:
    maker = EventMaker()
    maker.prompt("hi", "")
    for number, cost_usd in enumerate(costs):
        maker.count_call(str(number), Usage(input_tokens=1, calls=1), cost_usd)
    (idle,) = maker.end_turn("", None)
    assert isinstance(idle, events.SessionIdle)
    assert (idle.usage.calls, idle.cost_usd) == (len(costs), total)
    maker.prompt("again", "")
    maker.count_call("x", Usage(input_tokens=1, calls=1), 0.5)
    (idle,) = maker.end_turn("", None)
    assert isinstance(idle, events.SessionIdle) and idle.cost_usd == 0.5
