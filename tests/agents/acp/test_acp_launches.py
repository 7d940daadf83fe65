"""How each agent is started over the Agent Client Protocol, by its access; and what it is not started for."""

from __future__ import annotations

from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import Host, Launch, Turn
from beam.agents.link import HasDialogue
from beam.base.errors import UnsupportedError
from beam.model.settings import AgentSettings
from tests.support.clis import ACP

SESSIONS = {
    "opencode": "ses_1a",
    "kilo": "ses_1a",
    "kimi": "session_5b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b10",
}
UUID = "5b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b10"


def launched(name: str, access: str, **fields: Any) -> Launch:
    adapter = registry.adapter(name)
    assert isinstance(adapter, HasDialogue)
    given = {"text": "hi", "message_id": "x-1", "agent": "x", "cwd": "/p", "scratch": "/s", "access": access}
    return adapter.dialogue.launch(Turn(**{**given, **fields}), Host(executable=f"/bin/{name}"))


def cells() -> list[tuple[str, str]]:
    return [(name, access) for name in ACP for access in registry.adapter(name).card.faces["dialogue"].access]


@pytest.mark.parametrize(("name", "access"), cells())
def test_each_access_of_the_card_has_a_launch_without_the_prompt(name: str, access: str) -> None:
    found = launched(name, access, text="SECRET")
    assert found.argv[0].startswith(f"/bin/{name}") and "SECRET" not in repr(found)
    assert found.stdin is None and not found.drops_output


@pytest.mark.parametrize("name", ACP)
def test_an_access_that_is_not_on_the_card_is_refused(name: str) -> None:
    for access in {"read", "ask", "edit", "full"} - set(registry.adapter(name).card.faces["dialogue"].access):
        with pytest.raises(UnsupportedError):
            launched(name, access)


@pytest.mark.parametrize(("name", "access"), cells())
def test_nothing_that_allows_all_is_in_a_launch_below_full(name: str, access: str) -> None:
    words = (*launched(name, access).argv, *launched(name, access).env.values())
    allows = {"yolo", "--yolo", "--allow-all", "--auto", "--allow-tool=write", "auto_edit"}
    found = allows & set(words)
    assert access == "full" or (found <= {"auto_edit"} and (not found or access == "edit")), words


@pytest.mark.parametrize("name", ACP)
def test_a_session_is_named_to_the_session_and_not_to_the_process(name: str) -> None:
    access = registry.adapter(name).card.faces["dialogue"].access[0]
    session_id = SESSIONS.get(name, UUID)
    if name == "gemini":
        with pytest.raises(UnsupportedError, match="process that has it"):
            launched(name, access, session_id=session_id)
        return
    assert launched(name, access, session_id=session_id) == launched(name, access)
    with pytest.raises(UnsupportedError):
        launched(name, access, session_id="--evil")


@pytest.mark.parametrize("name", ["gemini", "qwen", "copilot", "opencode", "kilo"])
def test_a_model_that_would_be_a_flag_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError):
        launched(name, "read", model="--yolo/x")


def test_qwen_is_started_with_a_system_prompt() -> None:
    argv = launched("qwen", "read", settings=AgentSettings(system="Speak of plums.")).argv
    assert argv[argv.index("--append-system-prompt") + 1] == "Speak of plums."
    with pytest.raises(UnsupportedError):
        launched("qwen", "read", settings=AgentSettings(system="--yolo"))


def test_with_read_the_persons_own_settings_allow_nothing_more() -> None:
    assert b'decision = "ask_user"' in launched("gemini", "read").files["policy.toml"]
    assert any("run_shell_command" in word for word in launched("qwen", "read").argv)
    assert launched("vibe", "read").env["VIBE_ENABLED_TOOLS"] == '["read_file", "grep"]'
    assert "--deny-tool=shell" in launched("copilot", "read").argv
    assert any("beam-read" in path for path in launched("opencode", "read").files)


def test_files_of_the_folder_that_nobody_trusted_are_left_out_as_headless() -> None:
    assert launched("gemini", "full", leave_out=True).env["GEMINI_CLI_TRUST_WORKSPACE"] == "false"
    assert "QWEN_CODE_TRUSTED_FOLDERS_PATH" in launched("qwen", "read", leave_out=True).env
    assert "OPENCODE_DISABLE_PROJECT_CONFIG" in launched("opencode", "edit").env
