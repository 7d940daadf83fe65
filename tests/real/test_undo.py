"""`beam undo` after the first turn of a real agent CLI: every CLI, in every mode in which it can write."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from beam.agents import registry
from tests.conformance import screens
from tests.conformance.adapters import COLUMNS, Tool
from tests.conformance.subject import Subject, place
from tests.support.repository import content

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
QUICK = ("claude", "codex-dialogue", "outside-codex")
OUTSIDE = "outside-"  # of git
IN_GIT = list(COLUMNS)
PATCH_INPUT = {"codex": "input", "codex-acp": "input", "cline": "input", "opencode": "patchText", "kilo": "patchText"}
PATCHING = [name for name, column in COLUMNS.items() if column.adapter in PATCH_INPUT]
PATCH = """*** Begin Patch
*** Add File: made
+new
*** Update File: old
@@
-first
+changed
 second
*** Delete File: gone
*** Update File: from
*** Move to: to
@@
 first
 second
-third
+changed
*** End Patch
"""


@pytest.fixture
def agent(request: pytest.FixtureRequest, tmp_path: Path, agents_path: str) -> Iterator[Subject]:
    """The CLI that the test is for: in a git work tree, or outside of git."""
    name: str = request.param.removeprefix(OUTSIDE)
    if COLUMNS[name].face == "terminal":
        yield from screens.place(name, tmp_path, agents_path)
    else:
        yield from place(name, tmp_path, agents_path, is_repository=name == request.param)


def work(agent: Subject) -> dict[str, tuple[bool, str | bytes]]:
    """Every file of the folder as git knows it, but those that the CLI keeps for itself, such as aider's sessions."""
    keeps, files = registry.adapter(agent.name).card.keeps, content(agent.cli.project)
    own = {path for path in files if keeps and re.fullmatch(keeps, path)}
    return {path: (bool(mode & 0o100), data) for path, (mode, data) in files.items() if path not in own}


def send(agent: Subject, prompt: str, *options: str) -> None:
    """Have the agent work with the access that it needs for it."""
    access = next((each for each in ("edit", "full") if each in agent.can.access), None)
    begins = screens.SCREENS[agent.name].begins if agent.face == "terminal" else ""
    outcome = agent.send(begins + prompt, *options, access=access).json
    assert outcome["status"] == "completed", outcome


def check_undo(agent: Subject, before: dict[str, tuple[bool, str | bytes]], left: Collection[str] = ()) -> None:
    """Check that an undo makes the folder what it was, and a redo what it is now. With `--all-files` it takes back what
    the first one leaves: the files `left`, and all if the CLI does not say which files it changed."""
    after = work(agent)
    done = agent.cli("undo", agent.name, timeout=120)
    if not agent.can.edits:
        assert done.out.count(f"{agent.name} does not say which files it changed") == len(done.out.splitlines()), done
        left = {path for path in after if after[path] != before.get(path)}
    if left:
        assert work(agent) == before | {path: after[path] for path in left}, done
        assert f"beam undo {agent.name} --all-files" in done.err, done
        done = agent.cli("undo", agent.name, "--all-files", timeout=120)
    assert (done.code, work(agent)) == (0, before), done
    for _ in range(2 if left and agent.can.edits else 1):  # each takes back one undo that wrote something
        redone = agent.cli("undo", agent.name, "--redo", timeout=120)
        assert redone.code == 0, redone
    assert work(agent) == after


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.conformance)
        for name in (*IN_GIT, *(f"{OUTSIDE}{name}" for name in IN_GIT if COLUMNS[name].face == "exec"))
    ],
    indirect=True,
)
def test_the_files_that_its_first_turn_changed_and_added_are_as_before_and_others_stay(agent: Subject) -> None:
    old, made, mine = (agent.cli.project / name for name in ("README.md", "made", "mine"))
    old.write_text("A project.\n")
    mine.write_text("by a person\n")
    before = work(agent)
    send(agent, changing(agent, old, made))
    assert old.read_text() == "A changed project.\n" and made.read_text().strip() == "by the agent", work(agent)
    mine.write_text("by a person since\n")
    made_by_aider = {".gitignore"} & {*work(agent)}  # where there is no repository, it makes one
    check_undo(agent, before | {"mine": work(agent)["mine"]}, left=made_by_aider)


def changing(agent: Subject, old: Path, made: Path) -> str:
    """The prompt that makes the agent change the one file and add the other."""
    data, text = agent.data, "A changed project."
    steps = [data.write.prompt(path=str(made), text="by the agent")]
    if data.edit is None:
        return "\n".join([data.write.prompt(path=str(old), text=text), *steps])
    steps.insert(0, data.edit.prompt(path=str(old), old="A project.", text=text))
    if data.edit.name != "apply_patch":
        assert data.look is not None
        steps.insert(0, data.look.prompt(path=str(old)))  # some change only a file that they read
    return " !then ".join([*steps, "!say done"])


@pytest.mark.conformance
@pytest.mark.parametrize("agent", PATCHING, indirect=True)
def test_files_that_a_patch_changed_added_removed_and_moved_are_as_before(agent: Subject) -> None:
    for name in ("old", "gone", "from"):
        (agent.cli.project / name).write_text("first\nsecond\nthird\n")
    before = work(agent)
    patch = Tool("apply_patch", {PATCH_INPUT[agent.name]: "{text}"})
    settings = {name: text.replace("scripted", "gpt-5") for name, text in agent.cli.env.items() if "CONFIG" in name}
    agent.cli = agent.cli.with_env(settings)  # all but Codex have the tool for such a model alone
    send(agent, patch.prompt(text=PATCH), *(("--model", "gpt-5") if agent.name == "cline" else ()))
    assert {"made", "to"} <= {*work(agent)} and not {"gone", "from"} & {*work(agent)}
    check_undo(agent, before)


@pytest.mark.conformance
@pytest.mark.parametrize("agent", ["claude-dialogue", "codex-dialogue"], indirect=True)
@pytest.mark.parametrize("keeper", ["worker", "broker"])
def test_a_process_that_is_kept_ends_and_the_session_goes_on(agent: Subject, keeper: str) -> None:
    made = agent.cli.project / "made"
    if keeper == "broker":
        assert agent.cli("broker", "start").code == 0
    prompt = agent.data.write.prompt(path=str(made), text="by the agent")
    outcome = agent.send(prompt, *(("--keep", "5m") if keeper == "worker" else ()), access="edit").json
    assert outcome["status"] == "completed" and made.exists(), outcome
    done = agent.cli("undo", agent.name, timeout=120)
    assert (done.code, done.out, made.exists()) == (0, "remove\tmade\n", False), done
    again = agent.send("PLAIN", access="edit").json
    assert (again["status"], again["session"]) == ("completed", "resumed"), again
    agent.cli("broker", "stop", "--grace", "0s")
    agent.cli("agent", "release", agent.name)
