"""Which folders `status`, `watch` and the board are about: they say it in the same words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance

MORE = "beam: 2 more in other folders: --all\n"


def elsewhere(beam: Cli) -> Path:
    """Another folder, in which two agents were used."""
    other = beam.base / "other"
    other.mkdir()
    for name in ("scripted", "scripted@docs"):
        assert beam("-C", str(other), "send", name, "hi").code == 0
    return other


def test_status_and_watch_name_their_folder_and_how_many_agents_others_have(beam: Cli) -> None:
    assert beam("send", "scripted", "hi").code == 0
    assert "more" not in beam("status").err + beam("watch", "--now").err
    other = elsewhere(beam)
    assert beam("status").err == MORE
    assert beam("watch", "--now").err == MORE
    assert beam("-C", str(other), "status").err.splitlines()[-1] == "beam: 1 more in other folders: --all"
    assert beam("status", "--all").out.count("scripted") == 3
    unused = beam.base / "unused"
    unused.mkdir()
    first, second = beam("-C", str(unused), "status").err.splitlines()
    assert "no agent was used in" in first and second == "beam: 3 more in other folders: --all"


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--json"),
        ("status", "scripted"),
        ("status", "--all"),
        ("status", "--usage"),
        ("status", "--metrics"),
        ("-q", "status"),
        ("watch", "--now", "--json"),
        ("watch", "--now", "scripted"),
        ("watch", "--now", "--agent", "scripted"),
        ("watch", "--now", "--all"),
        ("watch", "--until-idle"),
    ],
    ids=" ".join,
)
def test_nothing_is_said_of_other_folders_where_they_are_shown_or_not_asked_for(
    beam: Cli, words: tuple[str, ...]
) -> None:
    assert beam("send", "scripted", "hi").code == 0
    elsewhere(beam)
    done = beam(*words)
    assert done.code == 0 and "other folders" not in done.err + done.out
