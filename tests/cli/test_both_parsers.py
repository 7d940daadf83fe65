"""A command line means the same whether the fast parser or Typer reads it."""

from __future__ import annotations

from typing import Any

import pytest

from beam.api import Beam
from beam.cli import commands
from beam.cli.commands import App
from beam.cli.context import Context
from tests.support.chatting import message
from tests.support.inside import Inside, Told

pytestmark = pytest.mark.slow


@pytest.fixture(params=["fast", "typer"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which parser reads the command lines."""
    if request.param == "typer":
        monkeypatch.setattr(commands, "command", lambda words: None)
    return str(request.param)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (("queue", "list"), 0, "", "beam: the queues are empty, and there are no dead letters\n"),
        (("-q", "queue", "list"), 0, "", ""),
        (("queue", "-q", "list"), 0, "", ""),
        (("queue", "list", "-q"), 0, "", ""),
        (("queue", "list", "--quiet"), 0, "", ""),
        (("queue", "list", "--json"), 0, "", ""),
        (("--json", "queue", "list"), 0, "", ""),
        (("queue", "--json", "list"), 0, "", ""),
        (("asks",), 0, "", "beam: no agent waits for a decision\n"),
        (("asks", "--json"), 0, "", ""),
        (("reply", "x-1234", "hi"), 4, "", None),
        (("recv", "box"), 12, "", "beam: no message waits for box; beam recv box --wait\n"),
        (("broker", "status"), 4, "", None),
        (("secret", "rm"), 2, "", "beam: missing argument 'NAME'; beam secret rm --help\n"),
        (("queue", "drop", "a", "b"), 2, "", "beam: got unexpected extra argument(s) (b); beam queue drop --help\n"),
        (("log", "box", "-n", "x"), 2, "", None),
        (("log", "box", "-n", "-1"), 2, "", None),
        (("send", "box", "hi", "--budget", "nan"), 2, "", None),
        (("--json", "attach", "x"), 2, None, "beam: beam attach has no --json; beam attach --help\n"),
        (("-C", "none", "status"), 2, "", "beam: -C none: no such directory; check the path\n"),
        (("queue", "list", "--nonsense"), 2, "", None),
    ],
)
def test_what_a_command_line_does(inside: Inside, words: tuple[str, ...], code: int, out: Any, err: Any) -> None:
    found = inside(*words)
    assert found.code == code
    assert out is None or found.out == out
    assert (found.err.startswith("beam: ") and found.err.count("\n") == 1) if err is None else found.err == err


@pytest.mark.usefixtures("parser")
def test_what_is_said_more_of_is_said_wherever_it_is_asked_for(inside: Inside) -> None:
    inside.sent()
    said = f"beam: the agents of {inside.project}\n"
    for words in (("-v", "status"), ("status", "-v"), ("status", "--verbose")):
        assert inside(*words).err == said
    assert inside("status").err == ""


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("words", [(), ("agent",), ("queue",), ("help",), ("--help",), ("-h",)])
def test_a_group_alone_prints_its_help(inside: Inside, words: tuple[str, ...]) -> None:
    found = inside(*words)
    name = " ".join(("beam", *(word for word in words if word in ("agent", "queue"))))
    assert found.code == 0 and found.out.startswith(f"Usage: {name} [OPTIONS] COMMAND [ARGS]...\n")
    if name == "beam":
        assert "\nExamples:\n  beam " in found.out or "\nExamples:" in found.out


@pytest.mark.usefixtures("parser")
def test_a_command_that_there_is_not_is_told_what_there_is(inside: Inside) -> None:
    near = inside("queue", "lst")
    assert near.err == "beam: no command of beam queue is called 'lst'; did you mean `beam queue list`?\n"
    far = inside("queue", "zzzzzz")
    assert far.err == (
        "beam: no command of beam queue is called 'zzzzzz'; there are: list, retry, drop, pause, resume, edit\n"
    )
    agent = inside("box", "-p", "hi there")
    assert agent.err == "beam: 'box' is an agent, and no command; to send it a message: beam send box 'hi there'\n"
    (inside.project / "beam.yaml").write_text("agents: [")
    assert inside("box", "hi").err.startswith("beam: no command of beam is called 'box'; ")


@pytest.mark.usefixtures("parser")
def test_a_group_that_does_something_alone_has_options_of_its_own(inside: Inside, told: Told) -> None:
    told.replace("serve", None, None, None)
    told.replace("broker", None, None)
    assert inside("broker", "--cap", "3", "--poll-only").code == 0
    assert inside("-q", "broker", "-q").code == 0
    assert inside("broker").code == 0
    assert [(named["cap"], named["poll_only"]) for _, named in told.taken()] == [
        (3, True),
        (None, False),
        (None, False),
    ]
    for words in (("status",), ("--cap", "3", "status")):
        found = inside("broker", *words)
        assert (found.code, found.subject) == (4, "broker")


@pytest.mark.usefixtures("parser")
def test_values_are_numbers_lists_and_flags(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    told.replace("message", lambda name, text, **_: message(f"{name}-1", name, text))
    monkeypatch.setattr(Beam, "put", lambda _, sent: sent.id)
    monkeypatch.setattr(Beam, "notes", lambda *_, **__: [])
    words = ("--budget", "0.5", "--max-turns", "2", "--new", "--attach", "a", "--attach", "b", "--access=read")
    assert inside("send", "box", "hi", "you", *words, "--no-wait").out == "box-1\n"
    (given, named), *_ = told.calls
    options = named["options"]
    assert given == ("box", "hi you")
    assert (options.budget_usd, options.max_turns, options.new, options.access) == (0.5, 2, True, "read")
    assert [path.name for path in named["attach"]] == ["a", "b"]


def test_a_function_that_becomes_a_command_stays_what_it_is() -> None:
    def command(call: Context) -> None:
        """Do nothing, as a command."""

    app = App("Of a group.")
    assert app.verb()(command) is command and app.verb("other", interspersed=False)(command) is command
    assert app.without_command(command) is command and app.bare is command
    assert [(each.name, each.function, each.interspersed) for each in app.verbs.values()] == [
        ("command", command, True),
        ("other", command, False),
    ]
    assert (app.help, App().help, App().bare) == ("Of a group.", None, None)


@pytest.mark.parametrize("turn", [None, "a turn"])
def test_what_is_to_be_known_of_a_root_is_noted_to_people(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], turn: str | None
) -> None:
    monkeypatch.setattr(Beam, "turn", turn, raising=False)
    monkeypatch.setattr(Beam, "root_notes", lambda _: ["it is old"])
    assert isinstance(Context(directory=str(inside.project)).beam, Beam)
    assert capsys.readouterr().err == ("" if turn else "beam: it is old\n")


def test_what_is_noted_is_reported_unless_it_is_to_be_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, verbose, said in ((False, False, "note"), (True, True, ""), (False, True, "note detail")):
        call = Context(quiet=quiet, verbose=verbose)
        call.note("note")
        call.detail("detail")
        assert capsys.readouterr().err.replace("beam: ", "").split() == said.split()
