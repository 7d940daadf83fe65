"""What each adapter declares, whole: its card, its screen, its sessions' files, what points its CLI at one model, and
how its calls are told in the words of rules.

`BEAM_WRITE_EXPECTED=1 pytest tests/agents/test_expected_declared.py` writes the expectations anew
(tests/agents/expected/declared); read the difference before you keep it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import HasHistory, HasRules, HasTerminal, Host, Turn
from beam.agents.link import HasDialogue
from beam.model.settings import AgentSettings
from tests.support import expected

HERE = Path(__file__).parent / "expected" / "declared"
URL = "http://127.0.0.1:1234"
CALLS: list[tuple[str, Any]] = [
    (tool, arguments)
    for tool in (
        *("Bash", "bash", "shell", "run_shell_command", "exec", "execute", "command", "run_command", "terminal"),
        *("Edit", "Write", "edit", "write", "write_file", "replace", "apply_patch", "create", "MultiEdit", "patch"),
        *("Read", "read", "read_file", "view", "Glob", "Grep", "LS", "list_directory", "search", "NotebookEdit"),
        *("WebFetch", "webfetch", "web_fetch", "fetch", "WebSearch", "mcp__docs__ping", "Task", "permissions", "other"),
    )
    for arguments in (
        {"command": "git log -1", "cmd": "git log -1", "description": "look"},
        {"file_path": "/p/a", "path": "/p/a", "filePath": "/p/a", "absolute_path": "/p/a", "content": "x"},
        {"url": "https://example.org/x", "prompt": "https://example.org/x"},
        {"kind": "execute"},
        {},
        None,
    )
]


# What a person set: nothing, keys, and addresses.
_KEYS = ("ANTHROPIC", "OPENAI", "GEMINI", "GOOGLE", "MISTRAL", "DEEPSEEK", "MOONSHOT", "KIMI", "CLINE", "COPILOT")
_ENVIRON = {f"{name}_{word}": f"{name}-{word}" for name in _KEYS for word in ("API_KEY", "MODEL", "AUTH_TOKEN")}
_ADDRESSES = {f"{name}_{word}": f"https://{name}.example/{word}" for name in _KEYS for word in ("BASE_URL", "API_BASE")}
ROUTED: dict[str, tuple[dict[str, str], bool]] = {
    "nothing": ({}, False),
    "files": ({}, True),
    "keys": (_ENVIRON, False),
    "addresses": (_ENVIRON | _ADDRESSES, False),
    "addresses and files": (_ENVIRON | _ADDRESSES, True),
}


def routed(env: Any, environ: dict[str, str], has_files: bool) -> Any:
    """How the CLI's model calls are led through a proxy."""
    files = env.fake_model_files(URL) if has_files and hasattr(env, "fake_model_files") else {}
    return expected.told(env.model_route("http://127.0.0.1:9", environ, files))


def found_in(module: str) -> Any:
    """The module, None if there is none."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        return None


def declared(name: str) -> dict[str, Any]:
    """All of it, by where it stands."""
    adapter = registry.adapter(name)
    module = registry.module_of(name)
    turn = Turn(text="hi", message_id="m-1", agent=name, cwd="/p", settings=AgentSettings(command=("prog",)))
    told: dict[str, Any] = {"card": expected.told(adapter.card)}
    if isinstance(adapter, HasTerminal):
        told["screen"] = expected.told(adapter.terminal.profile)
    if isinstance(adapter, HasHistory):
        told["transcript"] = {
            "tells_end": adapter.transcripts.tells_end,
            "new": adapter.transcripts.where(turn, Host(home="/home/me")),
        }
    if isinstance(adapter, HasDialogue):
        link = adapter.dialogue.link(turn, Host())
        told["dialect"] = expected.told(getattr(link, "_dialect", None))
        told["says first"] = [expected.of_step(step) for step in link.open(0.0)]
        told["waits until"] = link.due
    if isinstance(adapter, HasRules):
        calls = {f"{tool} {given}": adapter.tool_rules.call(tool, given) for tool, given in CALLS}
        told["calls"] = {word: expected.told(call) for word, call in calls.items() if call is not None}
    if name in registry.WITH_SESSIONS:
        sessions: Any = registry.sessions_of(name)
        told["sessions"] = {
            word: expected.told(getattr(sessions, word))
            for word in ("files", "calls", "register")
            if hasattr(sessions, word)
        }
    if (env := found_in(f"{module}.env")) is not None:
        told["model"] = {
            word: expected.told(getattr(env, word)(URL))
            for word in ("fake_model_env", "fake_model_files")
            if hasattr(env, word)
        }
        if hasattr(env, "model_route"):
            told["routes"] = {word: routed(env, *given) for word, given in ROUTED.items()}
        told["masks"] = expected.told(getattr(env, "masks", None))
    return told


@pytest.mark.parametrize("name", registry.ADAPTERS)
def test_an_adapter_declares_what_is_checked_in(name: str) -> None:
    expected.check(HERE / f"{name}.json", expected.document(declared(name), depth=3))
