from __future__ import annotations

import pytest

from beam.process.program import DENIED_VARIABLES, LOADER_VARIABLES, absolute_folders, environment, fingerprint


def test_a_child_gets_the_environment_of_the_process_and_what_was_configured() -> None:
    assert environment({"PATH": "/bin", "X": "1"}, {"X": "2", "Y": "3"}, deny=frozenset()) == {
        "PATH": "/bin",
        "X": "2",
        "Y": "3",
    }


@pytest.mark.parametrize("name", sorted(DENIED_VARIABLES))
def test_what_would_change_or_follow_the_child_is_not_inherited(name: str) -> None:
    assert environment({name: "x"}, {}, deny=frozenset()) == {}


def test_a_longer_deny_list_adds_to_the_constant_one() -> None:
    assert environment({"CLAUDECODE": "1", "MINE": "x", "OTHER": "y"}, {}, deny=frozenset({"MINE"})) == {"OTHER": "y"}


def test_what_a_trusted_configuration_sets_counts() -> None:
    assert environment({}, {"NODE_OPTIONS": "--max-old-space-size=4096"}) == {
        "NODE_OPTIONS": "--max-old-space-size=4096"
    }


@pytest.mark.parametrize("name", sorted(LOADER_VARIABLES))
def test_nothing_sets_the_variables_of_the_loader(name: str) -> None:
    assert environment({name: "a"}, {name: "b"}) == {}


def test_the_marker_of_an_outer_turn_stays() -> None:
    assert environment({"BEAM_TURN_outer": "1"}, {}) == {"BEAM_TURN_outer": "1"}


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/bin:/usr/bin", "/bin:/usr/bin"),
        ("./node_modules/.bin:/bin:.:bin", "/bin"),
        (":/bin:", "/bin"),
        ("..", ""),
    ],
)
def test_relative_folders_of_the_path_would_be_folders_of_the_project_and_are_not_inherited(
    path: str, kept: str
) -> None:
    assert absolute_folders(path) == kept
    assert environment({"PATH": path}, {}) == {"PATH": kept}
    assert environment({"PATH": path}, {"PATH": "bin:/bin"}) == {"PATH": "bin:/bin"}, "trusted settings say so"


def test_a_fingerprint_is_of_what_an_agent_gets_and_of_one_message() -> None:
    here = {"PATH": "/bin", "TOKEN": "x", "PWD": "/a", "SHLVL": "1"}
    same = fingerprint({**here, "PWD": "/b", "SHLVL": "2", "NODE_OPTIONS": "--inspect"}, "m-1")
    assert fingerprint(here, "m-1") == same
    assert fingerprint({**here, "TOKEN": "y"}, "m-1") != same
    assert fingerprint({**here, "MORE": ""}, "m-1") != same
    assert fingerprint(here, "m-2") != same


def test_a_fingerprint_takes_any_bytes_and_keeps_names_and_values_apart() -> None:
    assert fingerprint({"A": "\udcff"}, "m") != fingerprint({"A": "\udcfe"}, "m")
    assert fingerprint({"A": "b", "C": "d"}, "m") != fingerprint({"A": "bC=d"}, "m")


@pytest.mark.parametrize(
    "name",
    sorted(
        [
            "_",
            "COLUMNS",
            "GPG_TTY",
            "ITERM_SESSION_ID",
            "KITTY_WINDOW_ID",
            "LINES",
            "OLDPWD",
            "PWD",
            "SHELL_SESSION_ID",
            "SHLVL",
            "SSH_CLIENT",
            "SSH_CONNECTION",
            "SSH_TTY",
            "STY",
            "TERM_SESSION_ID",
            "TMUX_PANE",
            "WEZTERM_PANE",
            "WINDOW",
            "WINDOWID",
            "XDG_SESSION_ID",
        ]
    ),
)
def test_where_a_command_was_typed_is_not_in_the_fingerprint(name: str) -> None:
    assert fingerprint({name: "here"}, "m-1") == fingerprint({name: "there"}, "m-1") == fingerprint({}, "m-1")
    assert fingerprint({f"{name}X": "here"}, "m-1") != fingerprint({}, "m-1")
