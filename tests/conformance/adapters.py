"""What differs between the CLIs of the conformance cases. The cases themselves are the same code for all of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from beam.agents import registry
from beam.agents.base import Face
from tests.support import codex_hooks
from tests.support.cli import Cli as Place


@dataclass(frozen=True)
class Tool:
    """How the scripted model makes the CLI use one of its tools: the tool's name, and its arguments with `{path}`,
    `{text}` or `{command}` where those belong. `in_text`: the CLI has no such tools, and takes this in an answer, which
    is an echo of the prompt, for one."""

    name: str = ""
    given: Any = None
    in_text: str = ""

    def prompt(self, **values: str) -> str:
        """The directive that makes the model do it."""
        if self.in_text:
            return f"Say this:\n\n{_filled(self.in_text, values)}\n"
        return f"!tool {self.name} {json.dumps(_filled(self.given, values))}"


def _filled(value: Any, values: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, text in values.items():
            value = value.replace("{" + name + "}", text)
        return value
    if isinstance(value, dict):
        return {key: _filled(inner, values) for key, inner in value.items()}
    return [_filled(inner, values) for inner in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Cli:
    """One CLI: the package that the lock file pins, tools of its own that look, write a file, change one (from `{old}`
    to `{text}`) and run a command, a model that it is not started with, how the model answers to a schema, the files of
    the folder that a session is, the files under HOME and in the folder that hold its settings, and the environment
    that it wants to run with. `asking`: the command as a tool of it asks for it where `shell` does not; `background`:
    one that goes on after the turn, whose end makes the CLI work by itself; `login`: without one it answers nothing;
    `stopping_hook`: the JSON files under HOME with a hook that stops each prompt, saying `HOOK_WORDS`; `stop_prompts`
    makes one where a file is not enough."""

    package: str
    look: Tool | None
    write: Tool
    shell: Tool | None
    other_model: str
    structured: str = '!say {"n": 3}'
    session_files: str = ""
    settings: str = ""
    folder_settings: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    edit: Tool | None = None
    asking: Tool | None = None
    background: Tool | None = None
    login: bool = True
    stopping_hook: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stop_prompts: Callable[[Place, Mapping[str, Any]], None] | None = None


def _saying(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a hook that gives this answer."""
    return {"type": "command", "name": "stop", "command": f"echo {shlex.quote(json.dumps(answer))}"}


_WRITE = {"path": "{path}", "content": "{text}"}
_REPLACE = {"old_string": "{old}", "new_string": "{text}"}
_ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "May I?"}
_COMMAND: dict[str, Any] = {"command": "{command}"}

HOOK_WORDS = "policy says stop"

MAIN = ("claude", "codex", "gemini")
"""The CLIs with which `make test` tries more than a first turn."""

TWINS = ("kilo",)
"""The CLIs made from another one, OpenCode: `make test` tries their protocol with that one alone."""

ADAPTERS = {
    "claude": Cli(
        package="@anthropic-ai/claude-code",
        look=Tool("Read", {"file_path": "{path}"}),
        write=Tool("Write", {"file_path": "{path}", "content": "{text}"}),
        edit=Tool("Edit", {"file_path": "{path}", **_REPLACE}),
        shell=Tool("Bash", _COMMAND),
        background=Tool("Bash", _COMMAND | {"run_in_background": True, "description": "x"}),
        other_model="claude-haiku-4-5-20251001",
        structured='!tool StructuredOutput {"n": 3}',
        env={"IS_SANDBOX": "1"},  # else it refuses full access to root, which many a CI is
        settings=".claude/settings.json",
        folder_settings=".claude/settings.json",
        stopping_hook={
            ".claude/settings.json": {
                "hooks": {"UserPromptSubmit": [{"hooks": [_saying({"decision": "block", "reason": HOOK_WORDS})]}]}
            }
        },
    ),
    "codex": Cli(
        package="@openai/codex",
        look=Tool("exec_command", {"cmd": "cat '{path}'"}),
        write=Tool("apply_patch", {"input": "*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch\n"}),
        edit=Tool(
            "apply_patch", {"input": "*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{text}\n*** End Patch\n"}
        ),
        shell=Tool("exec_command", {"cmd": "{command}"}),
        asking=Tool("exec_command", {"cmd": "{command}", **_ESCALATED}),
        other_model="gpt-5.6-sol",
        settings=".codex/config.toml",
        folder_settings=".codex/config.toml",
        stop_prompts=codex_hooks.stop_prompts,
    ),
    "gemini": Cli(
        package="@google/gemini-cli",
        look=Tool("read_file", {"file_path": "{path}"}),
        write=Tool("write_file", {"file_path": "{path}", "content": "{text}"}),
        edit=Tool("replace", {"file_path": "{path}", "instruction": "x", **_REPLACE}),
        shell=Tool("run_shell_command", _COMMAND),
        other_model="gemini-2.5-pro",
        settings=".gemini/settings.json",
        folder_settings=".gemini/settings.json",
        stopping_hook={
            ".gemini/settings.json": {
                "hooks": {"BeforeAgent": [{"hooks": [_saying({"continue": False, "stopReason": HOOK_WORDS})]}]},
                "hooksConfig": {"enabled": True},
                "tools": {"enableHooks": True},
            }
        },
    ),
    "opencode": Cli(
        package="opencode-ai",
        look=Tool("read", {"filePath": "{path}"}),
        write=Tool("write", {"filePath": "{path}", "content": "{text}"}),
        edit=Tool("edit", {"filePath": "{path}", "oldString": "{old}", "newString": "{text}"}),
        shell=Tool("bash", {"command": "{command}", "description": "x"}),
        other_model="fake/other",
        login=False,
        settings=".config/opencode/opencode.json",
        folder_settings="opencode.json",
    ),
    "kilo": Cli(
        package="@kilocode/cli",
        look=Tool("read", {"filePath": "{path}"}),
        write=Tool("write", {"filePath": "{path}", "content": "{text}"}),
        edit=Tool("edit", {"filePath": "{path}", "oldString": "{old}", "newString": "{text}"}),
        shell=Tool("bash", {"command": "{command}", "description": "x"}),
        other_model="fake/other",
        login=False,
        settings=".config/kilo/kilo.json",
        folder_settings="kilo.json",
    ),
    "qwen": Cli(
        package="@qwen-code/qwen-code",
        look=Tool("read_file", {"file_path": "{path}"}),
        write=Tool("write_file", {"file_path": "{path}", "content": "{text}"}),
        edit=Tool("edit", {"file_path": "{path}", **_REPLACE}),
        shell=Tool("run_shell_command", {"command": "{command}", "is_background": False}),
        other_model="other",
        settings=".qwen/settings.json",
        folder_settings=".qwen/settings.json",
        stopping_hook={
            ".qwen/settings.json": {
                "hooks": {"UserPromptSubmit": [{"hooks": [_saying({"decision": "block", "reason": HOOK_WORDS})]}]}
            }
        },
    ),
    "copilot": Cli(
        package="@github/copilot",
        look=Tool("view", {"path": "{path}"}),
        write=Tool("create", {"path": "{path}", "file_text": "{text}"}),
        edit=Tool("edit", {"path": "{path}", "old_str": "{old}", "new_str": "{text}"}),
        shell=Tool("bash", {"command": "{command}", "description": "x"}),
        other_model="other",
        settings=".copilot/mcp-config.json",
        folder_settings=".github/hooks/hooks.json",
    ),
    "pi": Cli(
        package="@earendil-works/pi-coding-agent",
        look=Tool("read", {"path": "{path}"}),
        write=Tool("write", _WRITE),
        edit=Tool("edit", {"path": "{path}", "edits": [{"oldText": "{old}", "newText": "{text}"}]}),
        shell=Tool("bash", _COMMAND),
        other_model="other",
        settings=".pi/agent/settings.json",
        folder_settings=".pi/settings.json",
    ),
    "aider": Cli(
        package="aider-chat",
        look=None,
        write=Tool(in_text="{path}\n```\n{text}\n```"),
        shell=None,
        other_model="openai/other",
        session_files=".aider.chat.history.*",
        settings=".aider.conf.yml",
        folder_settings=".aider.conf.yml",
    ),
    "kimi": Cli(
        package="@moonshot-ai/kimi-code",
        look=Tool("Read", {"path": "{path}"}),
        write=Tool("Write", _WRITE),
        edit=Tool("Edit", {"path": "{path}", **_REPLACE}),
        shell=Tool("Bash", _COMMAND),
        other_model="other",
    ),
    "cline": Cli(
        package="cline",
        look=Tool("read_files", {"files": [{"path": "{path}"}]}),
        write=Tool("editor", {"path": "{path}", "new_text": "{text}"}),
        edit=Tool("editor", {"path": "{path}", "old_text": "{old}", "new_text": "{text}"}),
        shell=Tool("run_commands", {"commands": ["{command}"]}),
        other_model="other",
    ),
    "cn": Cli(
        package="@continuedev/cli",
        look=Tool("Read", {"filepath": "{path}"}),
        write=Tool("Write", {"filepath": "{path}", "content": "{text}"}),
        edit=Tool("Edit", {"file_path": "{path}", **_REPLACE}),
        shell=Tool("Bash", _COMMAND),
        other_model="other",
    ),
    "vibe": Cli(
        package="mistral-vibe",
        look=Tool("read_file", {"path": "{path}"}),
        write=Tool("write_file", _WRITE),
        edit=Tool("edit", {"file_path": "{path}", **_REPLACE}),
        shell=Tool("bash", _COMMAND),
        other_model="other",
        settings=".vibe/config.toml",
        folder_settings=".vibe/config.toml",
    ),
}

OVER_ACP_ALONE = {  # the adapters of Claude and Codex have the tools of these
    "claude-agent-acp": replace(
        ADAPTERS["claude"], package="@agentclientprotocol/claude-agent-acp", other_model="haiku"
    ),
    "codex-acp": replace(ADAPTERS["codex"], package="@agentclientprotocol/codex-acp"),
}
CLIS = {**ADAPTERS, **OVER_ACP_ALONE}
"""Every CLI of the table; `ADAPTERS` are those that have a headless mode."""

_REAL = Path(__file__).parent.parent / "real"


@dataclass(frozen=True)
class Column:
    """One mode of a CLI, whose cells are one column of the table."""

    adapter: str
    face: Face

    @property
    def file(self) -> str:
        """The CLI's name as a part of a file's name."""
        return self.adapter.replace("-", "_")

    @property
    def id(self) -> str:
        """What the ids of its tests call it: the CLI's name alone is its headless mode."""
        return self.adapter if self.face == "exec" else f"{self.adapter}-{self.face}"


def columns(faces: Iterable[Face]) -> list[Column]:
    """The columns of these modes, mode by mode: each CLI of the table that has the mode."""
    return [Column(name, face) for face in faces for name in CLIS if face in registry.adapter(name).card.faces]


COLUMNS = {column.id: column for column in columns(("exec", "dialogue", "terminal"))}


def pinned() -> dict[str, str]:
    """The version of each CLI that the lock files name, by the adapter's name."""
    packages = json.loads((_REAL / "package-lock.json").read_text())["packages"]
    found = {}
    for name, cli in CLIS.items():
        entry = packages.get(f"node_modules/{cli.package}")
        found[name] = entry["version"] if entry else _required(cli.package)
    return found


def _required(package: str) -> str:
    lines = [line for name in ("requirements.txt", "vibe.txt") for line in (_REAL / name).read_text().splitlines()]
    (version,) = [line.partition("==")[2].strip() for line in lines if line.startswith(f"{package}==")]
    return version
