"""In a folder that a stranger packed and nobody trusted, no file of it acts: with each CLI, in each of its modes, at
each access, with the names that any of the CLIs reads.

A turn that is refused proves nothing of the other files. So what the refusal is about is taken away, and the turn runs
among all the rest. That the files are real is shown by the same folder once it is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import Face
from beam.model.autoloaded import EVERY_ACCESS
from beam.model.message import Access
from tests.conformance import screens
from tests.conformance.adapters import COLUMNS
from tests.conformance.cases import case, refused
from tests.conformance.hostile import GIT_ACCESS, TOLD, TOLD_BY_ENVIRONMENT, Hostile
from tests.conformance.screens import OnScreen
from tests.conformance.subject import Subject, place

EVERY_FACE: tuple[Face, ...] = ("exec", "dialogue", "terminal")
QUICK = {"read": ("codex",), "edit": ("claude",)}
UNTRUSTED, TRUSTED = {"BEAM_TRUST": ""}, {"BEAM_TRUST": "1"}
NOT_SHOWN = {
    ("claude-agent-acp-dialogue", "read"): "trusted, a hook of it runs in a few turns only",
    **dict.fromkeys(
        [("codex-terminal", access) for access in EVERY_ACCESS], "trusted, the CLI itself asks about its hooks first"
    ),
}
"""Where no turn can show that a declared file acts, and why."""
_SHOWN = 3
_MADE = "made.ts"


@pytest.fixture
def subject(request: pytest.FixtureRequest, tmp_path: Path, agents_path: str) -> Iterator[Subject]:
    """The CLI in a folder of its own, where it was never used."""
    made = screens.place if COLUMNS[request.param].face == "terminal" else place
    yield from made(request.param, tmp_path, agents_path)


def _nothing_acts(subject: Subject, access: Access) -> str:
    """The evidence that no file of the folder acts unless it is trusted."""
    folder = Hostile(subject.cli.project)
    folder.lay()
    if subject.name in TOLD:
        TOLD[subject.name](Path(subject.cli.env["HOME"]), subject.cli.project)
    obeyed = [one for one in registry.adapter(subject.name).card.obeys[subject.face] if access in one.at]
    done = _turn(subject, access, UNTRUSTED)
    assert folder.acted() == set(), f"it acted in a folder that nobody trusted: {done}"
    is_refused = done.code == 2
    if is_refused:
        assert done.json["error"]["kind"] == "untrusted", done
        folder.remove([one.path for one in obeyed if access not in one.ignored], git=access == GIT_ACCESS)
        done = _turn(subject, access, UNTRUSTED)
        assert folder.acted() == set(), f"no card declares it, and it acted: {done}"
    asks = subject.face == "terminal" and (
        "(trust)" in str(done.json.get("reason")) or (access == "ask" and subject.events("permission.asked") != [])
    )
    assert asks or (done.code, done.json["status"]) in ((0, "completed"), (5, "denied")), done
    assert access != "read" or not (subject.cli.project / _MADE).exists(), f"the folder gave it more than read: {done}"
    seen = "asks a person first" if asks else f"ran among {folder.left()} files"
    seen = f"refused, then {seen}" if is_refused else seen
    if not obeyed:
        return f"{seen}, of which it obeys none"
    if (why := NOT_SHOWN.get((subject.column.id, access))) is not None:
        return f"{seen}; {why}"
    folder.lay()
    trusted = _turn(subject, access, TRUSTED)
    acted = sorted(folder.acted())
    assert any(path == one.path or path.startswith(f"{one.path}/") for one in obeyed for path in acted), (
        f"nothing that the card declares acts, so this proves nothing: {acted}, {trusted}"
    )
    others = [f"{len(acted) - _SHOWN} more"] if len(acted) > _SHOWN else []
    return f"{seen}; trusted, it obeys {', '.join(acted[:_SHOWN] + others)}"


def _turn(subject: Subject, access: Access, env: dict[str, str]) -> Any:
    """Run a turn in which the CLI reads a file, and then writes one, where it need not ask for that."""
    look, write = subject.data.look, subject.data.write
    text = "hello there"
    if access != "ask" and look is not None:
        near = subject.cli.project / "near.txt"
        near.write_text("near\n")
        begins = subject.screen.begins if isinstance(subject, OnScreen) else ""
        written = write.prompt(path=str(subject.cli.project / _MADE), text="x")
        text = f"{begins}{look.prompt(path=str(near))} !then {written}"
    env = {**TOLD_BY_ENVIRONMENT.get(subject.name, {}), **env}
    return subject.send(text, "--new", "--timeout", "60s" if access == "ask" else "120s", access=access, env=env)


@case(
    "a stranger's folder, at read",
    "access:read",
    quick_for=QUICK["read"],
    otherwise=refused(access="read"),
    faces=EVERY_FACE,
)
def test_hostile_folder_read(subject: Subject) -> str:
    return _nothing_acts(subject, "read")


@case(
    "a stranger's folder, at ask",
    "access:ask",
    otherwise=refused(access="ask"),
    faces=EVERY_FACE,
)
def test_hostile_folder_ask(subject: Subject) -> str:
    return _nothing_acts(subject, "ask")


@case(
    "a stranger's folder, at edit",
    "access:edit",
    quick_for=QUICK["edit"],
    otherwise=refused(access="edit"),
    faces=EVERY_FACE,
)
def test_hostile_folder_edit(subject: Subject) -> str:
    return _nothing_acts(subject, "edit")


@case(
    "a stranger's folder, at full",
    "access:full",
    otherwise=refused(access="full"),
    faces=EVERY_FACE,
)
def test_hostile_folder_full(subject: Subject) -> str:
    return _nothing_acts(subject, "full")
