"""The limits of what is shown, and the words of a chat, a question and a warning, each at its boundary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from beam.api import Beam
from beam.base.errors import NotFoundError, UsageError
from beam.cli import agent as agents
from beam.cli.chatting.completing import completions
from beam.cli.chatting.transcript import Style, Transcript
from beam.cli.chatting.words import (
    ALONE_COMMANDS,
    TOGETHER_COMMANDS,
    AgentCommand,
    Answer,
    Command,
    InvalidLine,
    Text,
    help_lines,
    parse_answer,
    parse_line,
)
from beam.cli.context import Context
from beam.cli.log import subagent_lines
from beam.cli.printer import Printer
from beam.cli.render import charts
from beam.cli.render.stream import EventLine
from beam.model import events
from tests.support import inside as support
from tests.support.inside import Inside, Told

# -- chat --------------------------------------------------------------------------------------------------------------

KEYS = [
    "Enter sends; Alt-Enter, ^J, or a \\ at the end begins a new line",
    "Tab completes /commands and @files; ^R searches what was sent before",
    "^C ends the running turn; ^D leaves",
]


def test_the_help_of_a_chat_names_every_command_and_key() -> None:
    assert help_lines(ALONE_COMMANDS, ["/compact", "/init"]) == [
        "/help           list these commands",
        "/new            begin a new session with the next message",
        "/model [NAME]   from the next message on; without a name its own",
        "/access [WORD]  from the next message on; without a word its own",
        "/attach PATH    attach this file to the next message",
        "/queue TEXT     send this after the running turn, and never into it",
        "/steer TEXT     give this to the running turn, or fail",
        "/drop           take back what waits to be sent",
        "/usage          say what this chat has used so far",
        "/quit           leave; ^D does the same",
        *KEYS,
        "commands of the agent itself: /compact /init",
    ]
    assert help_lines(TOGETHER_COMMANDS) == [
        "/help          list these commands",
        "/as NAME TEXT  say this in the name of that agent, as its turn",
        "/next NAME     have that agent speak next",
        "/steer TEXT    give this to the running turn",
        "/pause         stop after the running turn",
        "/go            go on; so does Enter on an empty line",
        "/drop          take back what waits to be said",
        "/usage         say what this chat has used so far",
        "/quit          end the conversation; ^D does the same",
        *KEYS,
    ]


@pytest.mark.parametrize("name", ["help", "new", "drop", "usage", "quit"])
def test_a_command_that_takes_nothing_says_so(name: str) -> None:
    assert parse_line(f" /{name} ", ALONE_COMMANDS, passes_on=True) == Command(name)
    assert parse_line(f"/{name} x", ALONE_COMMANDS, passes_on=True) == InvalidLine(f"/{name} takes no text after it")


@pytest.mark.parametrize("name", ["help", "pause", "go", "drop", "usage", "quit"])
def test_a_command_of_several_that_takes_nothing_says_so(name: str) -> None:
    assert parse_line(f"/{name} x", TOGETHER_COMMANDS, passes_on=False) == InvalidLine(
        f"/{name} takes no text after it"
    )


@pytest.mark.parametrize(
    ("line", "table", "passes_on", "what"),
    [
        ("hi", ALONE_COMMANDS, True, Text("hi")),
        ("//hi", ALONE_COMMANDS, True, Text("/hi")),
        ("/", ALONE_COMMANDS, True, Text("/")),
        ("/etc/passwd is", ALONE_COMMANDS, True, Text("/etc/passwd is")),
        ("/model opus 4", ALONE_COMMANDS, True, Command("model", "opus 4")),
        ("/model", ALONE_COMMANDS, True, Command("model")),
        ("/attach", ALONE_COMMANDS, True, InvalidLine("/attach needs more: /attach PATH")),
        ("/compact  all", ALONE_COMMANDS, True, AgentCommand("/compact  all")),
        ("/as bob  hi", TOGETHER_COMMANDS, False, Command("as", "bob  hi")),
        ("/nxt", TOGETHER_COMMANDS, False, InvalidLine("/nxt is no command of this chat; did you mean /next?")),
        ("/zzzzzz", TOGETHER_COMMANDS, False, InvalidLine("/zzzzzz is no command of this chat; /help lists them")),
    ],
)
def test_a_line_means_one_thing(line: str, table: dict[str, str], passes_on: bool, what: object) -> None:
    assert parse_line(line, table, passes_on=passes_on) == what


@pytest.mark.parametrize(
    ("line", "offers", "found"),
    [
        *((word, False, Answer(allow=True)) for word in ("y", "yes", " YES ", "y,", "yes:")),
        *((word, False, Answer(allow=False)) for word in ("n", "no", "No,")),
        ("no too late", False, Answer(allow=False, reason="too late")),
        *((word, True, Answer(allow=True, always=True)) for word in ("a", "always")),
        *((word, False, None) for word in ("a", "always", "", "perhaps", "yes please", "stop now", "always yes")),
        ("always yes", True, None),
        *((word, True, Answer(allow=False, stop=True)) for word in ("s", "stop")),
    ],
)
def test_an_answer_is_one_word_or_a_no_with_a_reason(line: str, offers: bool, found: object) -> None:
    assert parse_answer(line, offers=offers) == found


def test_what_is_offered_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "doc").touch()

    def found(before: str) -> list[tuple[str, int, str]]:
        return list(completions(before, TOGETHER_COMMANDS, folder=tmp_path, names=("dan", "eve"), own=("/do",)))

    assert found("/dr") == [("/drop", -3, "take back what waits to be said")]
    assert found("/do") == [("/do", -3, "of the agent")]
    assert found("/as d") == found("/next d") == [("dan", -1, "agent")]
    assert found("/as dan d") == []
    assert found("hi @d") == [("@dan", -2, "agent"), ("dir/", -2, "folder"), ("doc", -2, "file")]
    assert found("/attach d") == [("dir/", -1, "folder"), ("doc", -1, "file")]
    assert found("/attach ") == [("dir/", 0, "folder"), ("doc", 0, "file")]
    assert found("") == found("hi ") == found("d") == []
    assert found("./d") == [("./dir/", -3, "folder"), ("./doc", -3, "file")]
    assert found("@none/x") == [] and found("@~nobody-there/x") == []
    assert found(f"@{tmp_path}/do") == [(f"{tmp_path}/doc", -len(f"@{tmp_path}/do"), "file")]


@pytest.mark.slow
def test_only_so_many_files_are_offered(tmp_path: Path) -> None:
    for number in range(201):
        (tmp_path / f"f{number:03}").touch()
    assert len(list(completions("@f", ALONE_COMMANDS, folder=tmp_path))) == 200


def test_of_an_answer_that_is_written_the_last_rows_are_shown_and_asides_are_cut() -> None:
    shown = Transcript(Style(is_colourful=False))
    shown.begin(0.0)
    shown.event(events.TextDelta(text="".join(f"{row:<10}" for row in range(9))), 0.0)
    assert shown.live_rows(0.0, 11)[:-1] == [f"{row:<10}" for row in range(3, 9)]
    assert [len(line) for line in shown.event(events.Notice(text="x" * 200), 0.0)] == [90, 162]
    call = events.ToolCalled(call_id="1", name="T", input=msgspec.Raw(b'"' + b"x" * 200 + b'"'))
    shown.event(call, 0.0)
    returned = shown.event(events.ToolReturned(call_id="1", output="y" * 200, is_error=True), 0.9)
    assert [len(line) for line in returned] == [162, 164]
    shown.event(call, 0.0)
    back = events.ToolReturned(call_id="1")
    assert shown.event(back, 1.0)[0].endswith("…") and not shown.event(back, 1.0)
    short = events.ToolCalled(call_id="2", name="T")
    for seconds, took in ((0.99, ""), (1.0, " (1s)"), (2.04, " (2s)"), (2.06, " (2.1s)")):
        shown.event(short, 0.0)
        assert shown.event(events.ToolReturned(call_id="2"), seconds) == [f"  ⚙ T{took}"]


# -- warnings and signs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["approved_differs", "reason_not_told", "unknown_screen", "untested_version"])
@pytest.mark.parametrize("as_events", [True, False])
def test_a_warning_that_matters_is_reported_in_every_format(
    capsys: pytest.CaptureFixture[str], code: str, as_events: bool
) -> None:
    printer = Printer(as_json=not as_events, as_events=as_events, call=Context())
    printer.event(events.Notice(agent="bot", text="x" * 1001, code=code))
    assert capsys.readouterr().err == f"beam: bot: {'x' * 999}…\n"
    printer.event(events.Notice(agent="bot", text="x", code="other"))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("sign", ["|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1"])
def test_a_sign_of_a_shell_is_warned_of_unless_a_shell_reads_it(capsys: pytest.CaptureFixture[str], sign: str) -> None:
    agents._warn_of_shell(Context(), ["cat", sign, "x"])
    assert f"so {sign!r} is one of its arguments" in capsys.readouterr().err
    for command in (["bash", "-c", sign], ["/bin/sh", sign], [sign], ["cat", f"{sign}x"], None, []):
        agents._warn_of_shell(Context(), command)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("value", "most", "bar"),
    [
        (8.0, 8.0, "█" * 10),
        (9.0, 8.0, "█" * 10),
        (4.0, 8.0, "█" * 5 + " " * 5),
        *((part, 80.0, f"{sign}{' ' * 9}") for part, sign in enumerate("▏▎▍▌▋▊▉", 1)),
        (9.0, 80.0, f"█▏{' ' * 8}"),
        (0.0001, 8.0, f"▏{' ' * 9}"),
        (0.0, 8.0, " " * 10),
        (-1.0, 8.0, " " * 10),
        (1.0, 0.0, " " * 10),
    ],
)
def test_a_bar_is_drawn_in_eighths(monkeypatch: pytest.MonkeyPatch, value: float, most: float, bar: str) -> None:
    monkeypatch.setattr(charts, "_is_ascii", lambda: False)
    assert charts.bar(value, most) == bar


def test_a_sparkline_has_eight_heights_or_five(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "_is_ascii", lambda: False)
    assert charts.sparkline([0, *(number - 0.5 for number in range(1, 9)), 8]) == " ▁▂▃▄▅▆▇██"
    monkeypatch.setattr(charts, "_is_ascii", lambda: True)
    assert charts.sparkline([0, 0.5, 1.5, 2.5, 3.5, 5]) == " ._-=^"
    assert (charts.bar(0.1, 8, width=4), charts.bar(4, 8, width=4)) == ("#   ", "##  ")


@pytest.mark.parametrize(("encoding", "is_ascii"), [("utf-8", False), ("UTF8", False), ("ascii", True), (None, False)])
def test_a_stream_without_utf_8_has_no_blocks(monkeypatch: pytest.MonkeyPatch, encoding: Any, is_ascii: bool) -> None:
    from types import SimpleNamespace

    monkeypatch.setattr(charts, "sys", SimpleNamespace(stdout=SimpleNamespace(encoding=encoding)))
    assert charts._is_ascii() is is_ascii
    monkeypatch.setattr(charts, "sys", SimpleNamespace(stdout=object()))
    assert not charts._is_ascii()


def test_of_many_subagents_the_last_ten_are_named() -> None:
    found = [EventLine(events.Text(text="x", parent=f"toolu_{number:02}")) for number in range(12)]
    names = ", ".join(f"toolu_{number:02}" for number in range(2, 12))
    with pytest.raises(UsageError) as several:
        subagent_lines("boss", found, "toolu_")
    assert (several.value.message, several.value.hint) == ("'toolu_' names 12 subagents of boss", names)
    with pytest.raises(NotFoundError) as none:
        subagent_lines("boss", found, "x" * 90)
    assert (none.value.message, none.value.hint) == (f"boss has no subagent {'x' * 80!r}", f"there are {names}")
    with pytest.raises(NotFoundError) as nothing:
        subagent_lines("boss", [], "all")
    assert nothing.value.message == "no subagent of boss said anything that is in its journal"
    assert nothing.value.hint == "docs/history.md says which CLIs tell what their subagents do"


# -- what was left -----------------------------------------------------------------------------------------------------


def test_on_a_terminal_a_diff_is_printed_line_by_line_without_control_characters(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    monkeypatch.setattr(support.Stream, "isatty", lambda _: True)
    monkeypatch.setattr(Beam, "agent_of", lambda _, name: name)
    changes = SimpleNamespace(files=[1], patch=b"--- a\n+\xff\n")
    told.replace("diff", SimpleNamespace(agent="bot", folder="/p", turn=3, ts="2026-01-02T03:04:05Z", changes=changes))
    shown = inside("diff", "bot")
    assert (shown.out, shown.err) == ("--- a\n+\ufffd\n", "beam: since turn 3 of bot began (2026-01-02 03:04:05)\n")


@pytest.mark.slow
def test_the_session_of_an_agent_is_shown(inside: Inside, told: Told) -> None:
    found = Beam(cwd=inside.project).agent("worker")
    status = msgspec.structs.replace(found.status, session_id="s-1")
    told.replace(
        "agent", msgspec.structs.replace(found, status=status), msgspec.structs.replace(found, fork="s-2 of x")
    )
    assert inside("agent", "show", "worker").out.splitlines()[-1].split(None, 1) == ["session", "s-1"]
    copied = inside("agent", "show", "worker").out.splitlines()[-1]
    assert copied.split(None, 1) == ["session", "none yet; its first turn continues in a copy of s-2 of x"]


def test_servers_of_an_agents_process_are_controlled(inside: Inside, told: Told) -> None:
    told.replace(
        "act_live", None, {"added": [], "removed": ["a", "b"], "errors": {}}, {"content": [], "isError": False}
    )
    assert inside("agent", "mcp", "bot", "enable", "db").err == "beam: db: enabled\n"
    servers = inside("agent", "mcp", "bot", "set", '{"db":{}}', "--json")
    assert (servers.code, servers.json["removed"]) == (0, ["a", "b"])
    assert inside("agent", "mcp", "bot", "call", "db", "tool", "--json").json == {"content": [], "isError": False}
    told.replace("mcp_servers", [])
    assert inside("agent", "mcp", "bot").out == "SERVER\tSTATUS\tTOOLS\tERROR\n"


def test_a_key_has_a_bound(inside: Inside, told: Told) -> None:
    told.replace("keep_secret", None)
    inside("secret", "set", "work", stdin="k" * 20_000)
    assert told.calls == [(("work", "k" * 16 * 1024), {})]
