"""`beam agent mcp`: what is asked of the agent's process, and what is printed of its answer."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beam.base.errors import UsageError
from beam.cli import mcp
from beam.cli.context import Context


class Call:
    """A command line whose beam records what it is asked, and answers with `answer`."""

    def __init__(self, answer: Any = None) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.notes: list[str] = []

        def act_live(agent: str, action: str, given: Any) -> Any:
            self.asked.append((action, given))
            return answer

        self.beam = SimpleNamespace(act_live=act_live, mcp_servers=lambda agent: answer)
        self.note = self.notes.append


def run(call: Call, action: str, *words: str, as_json: bool = False) -> int:
    return mcp.run(cast("Context", call), "claude", action, words, as_json=as_json)


@pytest.mark.parametrize(
    ("words", "asked", "said"),
    [
        (("enable", "db"), ("mcp.enable", {"server": "db"}), "db: enabled"),
        (("disable", "db"), ("mcp.disable", {"server": "db"}), "db: disabled"),
        (("reconnect", "db"), ("mcp.reconnect", {"server": "db"}), "db: connected anew"),
        (("reconnect",), ("mcp.reconnect", {}), "its MCP servers: connected anew"),
    ],
)
def test_a_server_is_named_and_what_was_done_is_reported(words: tuple[str, ...], asked: object, said: str) -> None:
    call = Call()
    assert run(call, *words) == 0
    assert (call.asked, call.notes) == ([asked], [said])


@pytest.mark.parametrize("given", ['{"db": {"command": "x"}}', '{"mcpServers": {"db": {"command": "x"}}}'])
def test_servers_are_set_in_either_form_and_an_error_of_one_is_a_failure(given: str) -> None:
    call = Call({"added": ["db"], "removed": [], "errors": {"web": "no such program"}})
    assert run(call, "set", given) == 1
    assert call.asked == [("mcp.set", {"servers": {"db": {"command": "x"}}})]
    assert call.notes == ["added: db", "web: no such program"]


def test_a_tool_is_called_with_its_arguments_and_its_text_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    call = Call({"content": [{"type": "text", "text": "a\x1b[31m"}, {"type": "image"}]})
    assert run(call, "call", "db", "query", '{"sql": "x"}') == 0
    assert call.asked == [("mcp.call", {"server": "db", "tool": "query", "arguments": {"sql": "x"}})]
    assert capsys.readouterr().out == 'a␛[31m\n{"type":"image"}\n'
    call = Call({"isError": True})
    assert run(call, "call", "db", "query") == 1
    assert call.asked[0][1]["arguments"] == {}


def test_servers_are_a_table_or_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    servers = [{"name": "db", "status": "connected", "tools": ["query", "tell"], "error": None}]
    assert run(Call(servers), "list") == 0
    assert capsys.readouterr().out.splitlines()[1] == "db\tconnected\tquery, tell\t"
    assert run(Call(servers), "list", as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == servers[0]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("frobnicate",), "is no action"),
        (("list", "x"), "1 words are too many here"),
        (("enable",), "0 words are too few here"),
        (("set",), "0 words are too few here"),
        (("call", "db"), "1 words are too few here"),
        (("call", "a", "b", "c", "d"), "4 words are too many here"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_process_is_asked(words: tuple[str, ...], refusal: str) -> None:
    call = Call()
    with pytest.raises(UsageError, match=refusal):
        run(call, *words)
    assert call.asked == []
