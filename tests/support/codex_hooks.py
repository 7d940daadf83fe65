"""A hook of Codex that the person trusts: Codex runs no other."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

from tests.support.cli import Cli


def stop_prompts(cli: Cli, answer: Any) -> None:
    """Make a hook of the person's own that answers this to each prompt, and trust it as Codex does."""
    home = Path(cli.env["HOME"]) / ".codex"
    hook = {"type": "command", "command": f"echo {shlex.quote(json.dumps(answer))}"}
    (home / "hooks.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}))
    begin = {"clientInfo": {"name": "test", "version": "1"}, "capabilities": {"experimentalApi": True}}
    asked = [
        {"id": 1, "method": "initialize", "params": begin},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(cli.project)]}},
    ]
    with subprocess.Popen(
        ["codex", "app-server"], env=cli.env, cwd=cli.project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write("".join(json.dumps(each) + "\n" for each in asked))
        server.stdin.flush()
        listed = next(value for value in map(json.loads, server.stdout) if value.get("id") == 2)
        server.kill()
    (found,) = listed["result"]["data"][0]["hooks"]
    with (home / "config.toml").open("a") as config:
        config.write(f"\n[hooks.state.{json.dumps(found['key'])}]\ntrusted_hash = {json.dumps(found['currentHash'])}\n")
