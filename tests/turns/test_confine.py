"""What holds an agent below full access: by its card, by what the system has, and by where beam's own files lie."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.agents import registry
from beam.agents.base import Face, Turn
from beam.base.errors import BeamError
from beam.model.message import Access
from beam.process import landlock
from beam.process.confinement import Confinement
from beam.process.links import LinkSearch
from beam.turns.confine import (
    NOTICE_CODE,
    OwnDirectories,
    TurnConfinement,
    confinement_means,
    confinement_notice,
    link_search_report,
    turn_confinement,
)

KEPT = (".cache", ".local/share", ".local/state")  # where OpenCode and Kilo have a folder that they write
CONFINED = (
    "acp",
    "aider",
    "claude",
    "claude-agent-acp",
    "copilot",
    "gemini",
    "kilo",
    "kimi",
    "opencode",
    "pi",
    "qwen",
    "vibe",
)


class World:
    """A home with beam's state in it, and a project beside it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home, self.project, self.scratch = base / "home", base / "project", base / "home/.local/state/beam/turns/1"
        self.project.mkdir()
        self.scratch.mkdir(parents=True)
        self.environ = {"HOME": str(self.home)}
        self.state = self.home / ".local/state/beam"
        self.root = self.state / "projects/one"
        self.root.mkdir(parents=True)

    def held(
        self,
        *,
        agent: str = "opencode",
        access: Access = "edit",
        root: Path | None = None,
        cwd: Path | None = None,
        version: int | None = 7,
        face: Face = "exec",
    ) -> TurnConfinement:
        turn = self.turn(access, cwd)
        own = OwnDirectories.of(root or self.root, self.environ)
        return asyncio.run(turn_confinement(registry.adapter(agent).card, face, turn, own, version=version))

    def turn(self, access: Access = "edit", cwd: Path | None = None, session_id: str | None = None) -> Turn:
        return Turn(
            text="",
            message_id="m",
            agent="a",
            access=access,
            cwd=str(cwd or self.project),
            scratch=str(self.scratch),
            session_id=session_id,
        )


@pytest.fixture
def context(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


# -- who is held -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in registry.ADAPTERS if registry.adapter(name).card.faces])
def test_every_agent_with_an_access_below_full_is_held_by_a_sandbox_of_its_own_or_by_landlock(name: str) -> None:
    expected = "own sandbox" if name in ("codex", "codex-acp") else "Landlock (ABI 7)" if name in CONFINED else ""
    assert confinement_means(registry.adapter(name).card, 7) == expected


def test_without_landlock_a_cli_without_a_sandbox_is_only_looked_after() -> None:
    assert confinement_means(registry.adapter("opencode").card, 0) == "looked for links only"
    assert confinement_means(registry.adapter("codex").card, 0) == "own sandbox"


@pytest.mark.parametrize("access", ["read", "ask", "edit"])
@pytest.mark.parametrize("agent", ["claude", "opencode"])
def test_below_full_access_beams_own_places_are_protected_and_the_turns_scratch_is_not(
    agent: str, access: Access, context: World
) -> None:
    found = context.held(agent=agent, access=access)
    assert found.confinement is not None
    assert found.confinement.protected == (str(context.state), str(context.home / ".config/beam"), str(context.root))
    assert found.confinement.allowed == (str(context.scratch), str(context.project))
    assert (found.held, found.open, found.notice) == ("Landlock", (), "")


@pytest.mark.parametrize(("agent", "access"), [("opencode", "full"), ("codex", "edit"), ("command", "edit")])
def test_full_access_a_sandbox_of_its_own_and_a_program_without_access_are_left_alone(
    agent: str, access: Access, context: World
) -> None:
    (context.project / "link").symlink_to(context.state)
    found = context.held(agent=agent, access=access, version=0)
    assert (found.confinement, found.notice) == (None, "")


def test_beams_files_in_the_folder_of_a_cli_with_a_sandbox_of_its_own_are_not_protected_and_it_says_so(
    context: World,
) -> None:
    found = context.held(agent="codex", cwd=context.home)
    assert found.open == (str(context.state), str(context.home / ".config/beam"), str(context.root))
    assert f"{context.state} lies in the folder where codex works" in found.notice
    assert context.held(agent="codex", cwd=context.home, access="read").notice == ""
    assert context.held(agent="codex", cwd=context.state / "turns").notice == ""


def test_a_second_name_of_beams_files_is_refused_also_for_a_cli_with_a_sandbox_of_its_own(context: World) -> None:
    (context.state / "trust.json").write_text("{}")
    (context.project / "second.json").hardlink_to(context.state / "trust.json")
    with pytest.raises(BeamError, match=r"trust\.json has a second name .*, by which codex could write it"):
        context.held(agent="codex")
    assert context.held(agent="codex", access="read").held == "own sandbox"


# -- where beam's files lie --------------------------------------------------------------------------------------------


def test_a_root_in_the_project_is_not_protected_and_it_says_so(context: World) -> None:
    root = context.project / ".beam"
    found = context.held(root=root)
    assert found.confinement is not None
    assert str(root) not in found.confinement.protected
    assert str(context.state) in found.confinement.protected
    assert found.open == (str(root),)
    assert str(root) in found.notice


def test_a_home_that_is_the_project_is_not_protected_and_it_says_so(context: World) -> None:
    found = context.held(cwd=context.home)
    assert found.confinement is None
    assert found.open == (str(context.state), str(context.home / ".config/beam"), str(context.root))


def test_an_agent_that_works_in_beams_own_state_can_not_write_there(context: World) -> None:
    found = context.held(cwd=context.state / "projects")
    assert found.confinement is not None
    assert found.confinement.allowed == (str(context.scratch),)


def test_what_a_link_in_the_configuration_leads_to_is_protected_too(context: World) -> None:
    dotfiles = context.base / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "config.yaml").write_text("")
    (context.home / ".config/beam").mkdir(parents=True)
    link = context.home / ".config/beam/config.yaml"
    link.symlink_to(dotfiles / "config.yaml")
    found = context.held()
    assert found.confinement is not None
    assert str(link) in found.confinement.protected
    assert str(dotfiles) in found.confinement.closed_folders()


def test_state_that_variables_moved_leaves_the_usual_one_protected_too(context: World) -> None:
    context.environ = {
        **context.environ,
        "XDG_STATE_HOME": str(context.base / "s"),
        "XDG_CONFIG_HOME": str(context.base / "c"),
    }
    (context.base / "s/beam").mkdir(parents=True)
    found = context.held(root=context.base / "s/beam/projects/one")
    assert found.confinement is not None
    assert set(found.confinement.protected) == {
        *(str(context.base / name) for name in ("s/beam", "c/beam", "s/beam/projects/one")),
        str(context.state),
    }


@pytest.mark.slow
def test_a_second_name_of_a_waiting_message_is_refused_and_the_hint_gives_it_one_name(context: World) -> None:
    waiting = context.root / "agents/a b/queue/new/x.json"
    waiting.parent.mkdir(parents=True)
    waiting.write_text("{}")
    (context.project / "innocent.json").hardlink_to(waiting)
    with pytest.raises(BeamError, match="second name") as caught:
        context.held()
    assert caught.value.kind == "second_name"
    assert os.system(caught.value.hint.partition(": ")[2]) == 0
    assert context.held().confinement is not None


# -- without Landlock --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["home/.local/state/beam", "home/.local/state/beam/new.json", "home", ""])
def test_without_landlock_a_link_in_the_project_to_beams_files_ends_the_turn(target: str, context: World) -> None:
    link = context.project / "link"
    link.symlink_to(context.base / target)
    with pytest.raises(BeamError, match="no Landlock") as caught:
        context.held(version=0)
    assert (caught.value.kind, caught.value.subject) == ("link_out", str(link))


def test_without_landlock_it_says_that_only_the_cli_itself_keeps_its_limits(context: World) -> None:
    found = context.held(version=0)
    assert (found.held, found.confinement) == ("links", None)
    assert "only opencode's own limits" in found.notice
    assert "did not look" not in found.notice


def test_without_landlock_it_says_where_it_did_not_look() -> None:
    said = link_search_report(
        registry.adapter("kilo").card, LinkSearch(entries=5, skipped=("/p/a", "/p/b", "/p/c", "/p/d"))
    )
    assert said.endswith("after 5 entries it did not look into /p/a, /p/b, /p/c and 1 more")


def test_it_is_reported_once_a_session(context: World) -> None:
    found = context.held(version=0)
    said = confinement_notice(found, context.turn())
    assert said is not None
    assert (said.code, said.text) == (NOTICE_CODE, found.notice)
    assert confinement_notice(found, context.turn(session_id="s")) is None
    assert confinement_notice(context.held(), context.turn()) is None


# -- what the CLI needs ------------------------------------------------------------------------------------------------


def test_what_a_cli_would_make_in_a_home_that_is_new_is_made_for_it(context: World) -> None:
    context.held().prepare(context.environ)
    made = (".cache/opencode", ".config/opencode", ".local/share/opencode", ".local/state/opencode")
    assert all((context.home / name).is_dir() for name in made)


def test_a_variable_says_where_a_cli_makes_its_folders(context: World) -> None:
    (context.home / "data").mkdir()
    context.held().prepare({**context.environ, "XDG_DATA_HOME": str(context.home / ".d"), "XDG_CACHE_HOME": "relative"})
    assert (context.home / ".d/opencode").is_dir()
    assert (context.home / ".cache/opencode").is_dir()
    assert not (context.home / ".local/share").exists()


def test_what_a_cli_can_make_itself_is_not_made_for_it(context: World) -> None:
    elsewhere = context.base / "elsewhere"
    elsewhere.mkdir()
    context.held(agent="copilot").prepare({**context.environ, "HOME": str(elsewhere)})
    assert list(elsewhere.iterdir()) == []


def test_a_file_of_a_cli_is_made_where_there_is_none_and_never_changed(context: World) -> None:
    mine = context.home / ".claude.json"
    context.held(agent="claude").prepare(context.environ)
    assert mine.read_text() == "{}\n"
    mine.write_text("of a person")
    context.held(agent="claude").prepare(context.environ)
    assert mine.read_text() == "of a person"
    assert [path.name for path in context.home.iterdir() if path.is_file()] == [".claude.json"]


def test_a_home_that_can_not_be_written_does_not_end_the_turn(context: World) -> None:
    (context.home / ".claude").symlink_to("/dev/null/x")
    context.held(agent="claude").prepare(context.environ)


def test_where_the_temporary_folder_takes_nothing_new_the_turn_gets_one_of_its_own(context: World) -> None:
    env = context.held(agent="gemini").prepare({**context.environ, "TMPDIR": str(context.base)})
    assert env["TMPDIR"] == str(context.scratch / "tmp")
    assert Path(env["TMPDIR"]).is_dir()
    (context.base / "tmp").mkdir()
    given = {**context.environ, "TMPDIR": str(context.base / "tmp")}
    assert context.held(agent="gemini").prepare(given) == given


def test_an_environment_is_left_alone_where_nothing_is_confined(context: World) -> None:
    given = {**context.environ, "TMPDIR": str(context.base)}
    assert context.held(access="full").prepare(given) == given
    assert list(context.home.iterdir()) == [context.home / ".local"]


# -- a CLI that a link leads out of its folder -------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["kilo", "opencode"])
def test_a_cli_that_a_link_leads_out_writes_in_its_folder_and_where_it_keeps_its_own_alone(
    context: World, agent: str
) -> None:
    held = context.held(agent=agent)
    env = held.prepare({**context.environ, "TMPDIR": str(context.base / "tmp")})
    confinement = held.confinement_for(env)
    assert confinement is not None
    assert confinement.protected == ("/",)
    allowed = {Path(path) for path in confinement.allowed}
    assert {context.project, context.scratch, *(context.home / place / agent for place in KEPT)} <= allowed
    assert allowed & {Path("/dev"), Path("/dev/null")}, "of /dev each device alone where the test's own files lie in it"
    assert str(context.home / ".config" / agent) not in confinement.allowed
    assert Path(env["TMPDIR"]).is_relative_to(context.scratch)


def test_a_place_of_such_a_cli_in_which_beams_own_files_lie_stays_closed(context: World) -> None:
    held = context.held()
    env = {**context.environ, "XDG_STATE_HOME": str(context.base / "state")}
    (context.base / "state").mkdir()
    (context.base / "state/opencode").symlink_to(context.state.parent)
    (context.home / ".cache/opencode").mkdir(parents=True)
    confinement = held.confinement_for(held.prepare(env))
    assert confinement is not None
    assert str(context.home / ".cache/opencode") in confinement.allowed
    assert str(context.state.parent) not in confinement.allowed


def test_a_place_of_such_a_cli_that_an_agent_replaced_by_a_link_into_beams_files_stays_closed(context: World) -> None:
    inner = context.root / "agents"
    inner.mkdir(parents=True, exist_ok=True)
    (context.home / ".cache").mkdir()
    (context.home / ".cache/opencode").symlink_to(inner)
    held = context.held()
    confinement = held.confinement_for(held.prepare(context.environ))
    assert confinement is not None
    assert str(context.home / ".local/share/opencode") in confinement.allowed
    assert [path for path in confinement.allowed if path.startswith(f"{context.state}/") and "turns" not in path] == []


@pytest.fixture
def in_shared_memory() -> Iterator[World]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield World(Path(folder))


@pytest.mark.acceptance
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="left out: this system has no /dev/shm")
@pytest.mark.parametrize("agent", ["kilo", "kimi", "opencode"])
def test_state_in_shared_memory_is_closed_to_such_a_cli_and_its_devices_are_not(
    agent: str, in_shared_memory: World
) -> None:
    held = in_shared_memory.held(agent=agent)
    confinement = held.confinement_for(held.prepare(in_shared_memory.environ))
    assert confinement is not None
    assert not {"/dev", "/dev/shm"} & set(confinement.allowed)
    assert "/dev/null" in confinement.allowed
    if landlock.abi():
        state = in_shared_memory.state / "planted"
        assert confined_says(confinement, f"echo x >/dev/null && echo x >{in_shared_memory.project}/made") == ""
        assert "denied" in confined_says(confinement, f"echo x >{state}")
        assert not state.exists()


def confined_says(confinement: Confinement, script: str) -> str:
    """What a shell that is confined like that says on its stderr."""
    protected, allowed = (
        [os.fsencode(path) for path in paths] for paths in (confinement.protected, confinement.allowed)
    )
    confine = (
        f"import os; from beam.process import landlock; landlock.confine({protected!r}, {allowed!r}, landlock.abi())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{confine}; os.execv('/bin/sh', ['sh', '-c', {script!r}])"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=False,
    )
    return done.stderr.decode()


def test_for_other_clis_only_beams_files_are_closed(context: World) -> None:
    held = context.held(agent="gemini")
    assert held.confinement_for(context.environ) == held.confinement
