"""Where the program of an agent is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beam.agents import registry
from beam.base.errors import NotFoundError
from beam.model.settings import AgentSettings
from beam.turns.request import find_executable


def test_a_cli_is_found_by_its_name_its_path_or_where_the_runner_runs_it(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    claude, mailbox = registry.adapter("claude"), registry.adapter("mailbox")
    path = {"PATH": f"relative:{program.parent}", "HOME": "/none"}

    def found(**fields: Any) -> str:
        return find_executable(claude, AgentSettings(**fields), path, tmp_path)

    assert found() == found(executable=str(program)) == found(executable="bin/claude") == str(program)
    assert found(executable="bin/../bin/claude") == str(program)
    assert found(runner=("docker", "run")) == "claude"
    assert found(executable="other", runner=("docker", "run")) == "other"
    assert find_executable(mailbox, AgentSettings(), path, tmp_path) == ""
    for fields in ({"executable": "nobody"}, {"executable": "bin/nobody"}, {"executable": "bin"}):
        with pytest.raises(NotFoundError) as missing:
            found(**fields)
        error = missing.value
        assert (error.message, error.subject, error.kind) == (
            f"{fields['executable']} is not installed here",
            "claude",
            "not_installed",
        )
        assert error.hint == claude.card.install
    with pytest.raises(NotFoundError):
        find_executable(claude, AgentSettings(), {"PATH": "bin"}, tmp_path)
