"""The other commands in this process, with the library's verbs replaced: what is passed on, printed and refused."""

from __future__ import annotations

import asyncio
import errno
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from beam.api import Beam
from beam.api.agents import AgentLine
from beam.api.asks import AskLine
from beam.api.messages import QueueItem
from beam.api.rewind import RewindResult
from beam.api.sessions import SessionLine
from beam.base import clock
from beam.base.errors import BeamError, DiskError, UnsupportedError, UsageError
from beam.broker.inbox import launch
from beam.cli import agent as agents
from beam.cli import chat as chatting
from beam.cli import queue as queues
from beam.cli import secret as secrets
from beam.cli import sent as sending
from beam.cli.context import Context
from beam.model.message import Options
from tests.support.chatting import message
from tests.support.inside import Inside, Told

# -- agents ------------------------------------------------------------------------------------------------------------


def line(name: str, **more: Any) -> AgentLine:
    given: dict[str, Any] = {
        "adapter": "claude",
        "declared_in": "beam.yaml",
        "face": "exec",
        "model": None,
        "access": None,
        "installed": "/bin/x",
    }
    return AgentLine(agent=name, **{**given, **more})


def test_agents_are_a_table_with_what_is_wrong_with_them(inside: Inside, told: Told) -> None:
    found = [
        line("a", model="opus", access="read"),
        line("b", installed=None),
        line("c", installed=""),
        line("d", error="no such adapter"),
    ]
    told.replace("agents", found, found)
    shown = inside("agent", "list")
    assert [row.split("\t") for row in shown.out.splitlines()[1:]] == [
        ["a", "claude", "exec", "opus", "read", "beam.yaml", "/bin/x"],
        ["b", "claude", "exec", "", "", "beam.yaml", "not installed"],
        ["c", "claude", "exec", "", "", "beam.yaml", "-"],
        ["d", "claude", "exec", "", "", "beam.yaml", "no such adapter"],
    ]
    assert shown.err == ""
    inside("agent", "list", "--all")
    assert told.calls == [((), {"all": False}), ((), {"all": True})]


def test_a_project_without_agents_lists_those_that_it_could_use(inside: Inside, told: Told) -> None:
    all_of_them = [line("a"), line("b", installed=None), line("c", face="unverified"), line("d", installed=None)]
    told.replace("agents", [], all_of_them, [], all_of_them[:1], [], all_of_them)
    shown = inside("agent", "list")
    assert [row.split("\t")[0] for row in shown.out.splitlines()] == ["AGENT", "a"]
    assert shown.err.splitlines() == [
        "beam: this project has no agents; you can send to any of these. Not installed: b, d",
        "beam: untested, so listed only by beam agent list --all: c",
    ]
    assert "Not installed: none" in inside("agent", "list").err
    assert [each["agent"] for each in inside("agent", "list", "--json").lines] == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_what_clis_can_do_is_shown_in_the_form_that_fits(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.cli.render import matrix

    drawn: list[str] = []
    monkeypatch.setattr(matrix, "print_table", lambda _: drawn.append("table"))
    monkeypatch.setattr(matrix, "print_tabs", lambda _: drawn.append("tabs"))
    assert inside("agent", "list", "--matrix").code == 0
    monkeypatch.setattr(agents, "is_terminal", lambda stream: stream is sys.stdout)
    assert inside("agent", "list", "--matrix").code == 0
    assert drawn == ["tabs", "table"]
    lines = inside("agent", "list", "--matrix", "--json").lines
    assert len(lines) > 100 and {"adapter", "case", "status"} <= set(lines[0]) and len(drawn) == 2


def test_what_a_running_process_says_of_itself_is_shown(inside: Inside, told: Told) -> None:
    answers = {"modes": ["plan", "edit"], "none": [], "account": None, "use": {"used": 1}, "mixed": ["a", 1]}
    told.replace("ask_live", answers, answers)
    assert inside("agent", "show", "bot", "--live").out.splitlines() == [
        "modes    plan, edit",
        "none     -",
        "account  -",
        'use      {"used":1}',
        'mixed    ["a",1]',
    ]
    assert inside("agent", "show", "bot", "--live", "--json").json == answers
    assert told.calls == [(("bot",), {})] * 2


@pytest.mark.slow
def test_where_each_setting_comes_from_is_shown(inside: Inside) -> None:
    inside("agent", "set", "worker", "timeout=90s")
    shown = inside("agent", "show", "worker", "--origin").out
    assert '["cat"]   [beam.yaml]' in shown and "90.0   [agent.json]" in shown and "[default]" not in shown
    plain = inside("agent", "show", "worker").out
    assert "[beam.yaml]" not in plain and '["cat"]\n' in plain


def test_a_session_of_a_cli_becomes_an_agent(inside: Inside, told: Told) -> None:
    told.replace("adopt_session", "it continues")
    words = ("--session", "codex:0abc", "-m", "m", "--access", "read", "--set", "env.A=b=c")
    assert inside("agent", "add", "mine", "codex", *words).err == "beam: it continues\n"
    ((name, session, settings), named), *_ = told.calls
    assert (name, session, named) == ("mine", "codex:0abc", {})
    assert (settings.adapter, settings.model, settings.access, settings.env) == ("codex", "m", "read", {"A": "b=c"})


@pytest.mark.parametrize(
    ("command", "sign"),
    [
        ("make | tee log", "|"),
        ("cat > out", ">"),
        ("make && make install", "&&"),
        ("bash -c 'a | b'", None),
        ("cat", None),
    ],
)
def test_a_command_that_needs_a_shell_is_warned_of(inside: Inside, command: str, sign: str | None) -> None:
    said = f"no shell runs this command, so {sign!r} is one of its arguments; for a shell: --command \"bash -c '…'\""
    added = inside("agent", "add", "mine", "--command", command)
    assert added.code == 0 and added.err.startswith(f"beam: warning: {said}\n" if sign else "beam: wrote ")


def test_a_setting_of_the_running_process_alone(inside: Inside, told: Told) -> None:
    told.replace("set_live", "from now on", "")
    done = inside("agent", "set", "bot", "--live", "model=m", "effort=")
    assert done.err == "beam: model=m in the running process: from now on\nbeam: effort= in the running process\n"
    assert told.calls == [(("bot", "model", "m"), {}), (("bot", "effort", ""), {})]


@pytest.mark.slow
def test_a_model_that_the_running_process_can_not_change_is_the_next_turns(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.replace("set_live", UnsupportedError("it can't"), "")
    monkeypatch.setattr(Beam, "is_live", lambda *_: True)
    said = inside("agent", "set", "bot", "model=m").err
    assert said.endswith("beam: the next turn has it, in a new process: it can't\n")
    assert inside("agent", "set", "bot", "model=m2").err.endswith("beam: the running process has it\n")


def test_sessions_are_a_table(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    at = "2026-01-02T03:04:05Z"
    monkeypatch.setattr("time.time", lambda: clock.parse_rfc3339(at) / 1e9 + 7200)
    given: dict[str, Any] = {"agent": "a", "adapter": "claude"}
    found = [
        SessionLine(**given, session_id="s1", state="current", started_at=at, turns=3, first="go"),
        SessionLine(**given, session_id="s0", state="earlier", archived=True, last_at=at, first="go", error="torn"),
        SessionLine(**given, session_id=None, state="none"),
    ]
    told.replace("sessions", found, found)
    assert [row.split("\t") for row in inside("agent", "sessions", "a").out.splitlines()[1:]] == [
        ["a", "current", "s1", "2h ago", "3", "go"],
        ["a", "earlier, archived", "s0", "2h ago", "0", "torn"],
        ["a", "none", "", "", "0", ""],
    ]
    assert [each["session_id"] for each in inside("agent", "sessions", "--json").lines] == ["s1", "s0", None]
    assert told.calls == [((["a"],), {}), (([],), {})]


def test_a_fork_and_a_return_to_a_session_are_reported(inside: Inside, told: Told) -> None:
    told.replace("fork_agent", "s1", "s1")
    told.replace("resume_session", "s0")
    told.replace("remove_agent", "gone", "gone")
    copies = "the first turn of new copies session s1 of bot"
    assert inside("agent", "fork", "bot", "new").err == f"beam: {copies} and continues there: beam send new …\n"
    at = inside("agent", "fork", "bot", "new", "--at", "3").err
    assert at == f"beam: {copies}, up to 3, and continues there: beam send new …\n"
    assert inside("agent", "resume", "bot", "s").err == "beam: the next turn of bot continues in session s0\n"
    assert (inside("agent", "rm", "bot").err, inside("agent", "rm", "bot", "--purge").code) == ("beam: gone\n", 0)
    assert told.calls == [
        (("bot", "new"), {"at": None}),
        (("bot", "new"), {"at": "3"}),
        (("bot", "s"), {}),
        (("bot",), {"purge": False}),
        (("bot",), {"purge": True}),
    ]


@pytest.mark.slow
def test_what_is_taken_back_is_reported_and_the_files_listed(inside: Inside, told: Told) -> None:
    given: dict[str, Any] = {"agent": "bot", "session_id": "s"}
    both = RewindResult(**given, to=2, turns=(3, 4), conversation=True, files=("a.py", "b\x1b"))
    told.replace(
        *("rewind_agent", both, both, both),
        RewindResult(**given, to=2, turns=(), conversation=True),
        RewindResult(**given, to=2, turns=(3,), conversation=False, files=()),
    )
    done = inside("agent", "rewind", "bot", "--what", "both")
    assert (done.out, done.err.splitlines()) == (
        "a.py\nb␛\n",
        [
            "beam: bot goes back to the end of turn 2; its next turn will not know of turn 3, 4",
            "beam: 2 files are as they were before turn 3",
        ],
    )
    tried = inside("agent", "rewind", "bot", "--dry-run")
    assert tried.err.splitlines() == [
        "beam: bot would go back to the end of turn 2; its next turn will not know of turn 3, 4",
        "beam: 2 files would be as they were before turn 3",
    ]
    assert inside("agent", "rewind", "bot", "--json").json["turns"] == [3, 4]
    less = inside("agent", "rewind", "bot")
    assert less.err == "beam: bot goes back to the end of turn 2; its next turn will not know less\n"
    assert inside("agent", "rewind", "bot").err == "beam: 0 files are as they were before turn 3\n"


# -- asks --------------------------------------------------------------------------------------------------------------


def asked(ask_id: str, **more: Any) -> AskLine:
    given: dict[str, Any] = {"agent": "bot", "tool": "Bash", "description": "ls", "asked": "2026-01-02T03:04:05Z"}
    return AskLine(id=ask_id, **{**given, **more})


OFFER = msgspec.Raw(b'[{"destination":"session","rules":[{"toolName":"Bash","ruleContent":"ls"}]}]')


def test_asks_are_a_table_or_json(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.cli.render import asks as render

    drawn: list[Any] = []
    monkeypatch.setattr(render, "print_table", drawn.append)
    told.replace("asks", [asked("bot-1")], [asked("bot-1")])
    assert (inside("asks", "bot").out, drawn) == ("", [[asked("bot-1")]])
    assert inside("asks", "--json").json["id"] == "bot-1"
    assert told.calls == [((["bot"],), {}), (([],), {})]


def test_an_ask_is_allowed_as_the_options_say(inside: Inside, told: Told) -> None:
    told.replace("approve", "allowed", "allowed", "allowed")
    told.replace("asks", [asked("bot-12", suggestions=OFFER), asked("bot-13", suggestions=OFFER)])
    assert inside("approve", "t-12").err == "beam: t-12: allowed\n"
    always = inside("approve", "t-12", "--always").err
    assert always == "beam: t-12: always: Bash(ls), in this session\nbeam: t-12: allowed\n"
    (inside.project / "in.json").write_text('{"command":"ps"}')
    inside("approve", "t-12", "--input", "in.json", "--rule", "Bash(ps)")
    assert told.calls == [
        (("t-12",), {"always": False, "input": None, "rule": None}),
        ((), {}),
        (("t-12",), {"always": True, "input": None, "rule": None}),
        (("t-12",), {"always": False, "input": '{"command":"ps"}', "rule": "Bash(ps)"}),
    ]


def test_who_allows_at_a_terminal_sees_all_of_it_first(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.cli import streams

    monkeypatch.setattr(streams, "is_interactive", lambda *found: sys.stdin not in found)
    long = asked("bot-12", description=f"ls {'a' * 200}; rm x")
    told.replace("asks", [asked("bot-13"), long], [asked("bot-12")], [long])
    told.replace("approve", *["allowed"] * 4)
    shown = inside("approve", "t-12").err.splitlines()
    assert shown[0] == "beam: bot asks for Bash:" and "; rm x" in shown[1] and shown[2:] == ["beam: t-12: allowed"]
    assert inside("approve", "t-12").err == "beam: t-12: allowed\n"
    assert inside("-q", "approve", "t-12", "--always").err == ""
    assert len(told.calls) == 6
    inside("-q", "approve", "t-12")
    assert len(told.calls) == 7, "nobody looks at what is open"


@pytest.mark.parametrize("verb", ["approve", "deny"])
@pytest.mark.parametrize(
    ("given", "typed", "decided"),
    [
        ([], "2\n", "cat-1"),
        ([], "", None),
        ([], "0\n", None),
        ([], "4\n", None),
        ([], "yes\n", None),
        (["cat"], "", "cat-1"),
        (["bot"], "2\n", "bot-2"),
        (["t-1"], "", "t-1"),
        (["nobody"], "", "nobody"),
    ],
)
def test_a_person_takes_the_only_ask_or_chooses_one(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch, verb: str, given: list[str], typed: str, decided: str
) -> None:
    from beam.cli import streams

    monkeypatch.setattr(streams, "is_interactive", lambda *found: True)
    cat = asked("cat-1", agent="cat")
    told.replace("asks", *[[asked("bot-1"), cat, asked("bot-2")]] * 2)
    told.replace(verb, *["decided"] * (decided is not None))
    done = inside(verb, *given, stdin=typed)
    assert [call[0] for call in told.calls if call[0]] == ([(decided,)] if decided else [])
    assert done.code == (0 if decided else 2)
    if not decided:
        assert done.err.endswith("is none of them, so nothing was decided\n"), done.err


def test_nobody_chooses_where_nothing_is_open(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.cli import streams

    monkeypatch.setattr(streams, "is_interactive", lambda *found: True)
    for verb in ("approve", "deny"):
        done = inside(verb)
        assert (done.code, done.err) == (4, "beam: no agent waits for a decision\n")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "--input is not JSON: "),
        ("[1]", "--input is no JSON object; give the tool's whole input, as beam asks --json has it"),
    ],
)
def test_another_input_is_a_json_object(inside: Inside, told: Told, given: str, said: str) -> None:
    told.replace("approve")
    (inside.project / "in.json").write_text(given)
    refused = inside("approve", "t-12", "--input", "in.json")
    assert (refused.code, told.calls) == (2, []) and refused.err.startswith(f"beam: {said}")


def test_an_ask_is_denied_with_a_reason_and_the_turn_stopped(inside: Inside, told: Told) -> None:
    told.replace("deny", "denied", "denied")
    assert inside("deny", "t-12").err == "beam: t-12: denied\n"
    inside("deny", "t-12", "--message", "late", "--stop")
    assert told.calls == [(("t-12",), {"message": None, "stop": False}), (("t-12",), {"message": "late", "stop": True})]


# -- queue -------------------------------------------------------------------------------------------------------------


def test_messages_of_queues_are_a_table(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    at = "2026-01-02T03:04:05Z"
    monkeypatch.setattr("time.time", lambda: clock.parse_rfc3339(at) / 1e9 + 60)
    found = [
        QueueItem(id="a-1", agent="a", box="waiting", sender="ann", timestamp=at, text="one\ntwo"),
        QueueItem(id="a-2", agent="a", box="dead", sender="bob", text="x", reason="failed", error="torn"),
    ]
    told.replace("queue", found, [])
    assert [row.split("\t") for row in inside("queue", "list", "a").out.splitlines()] == [
        ["ID", "WHERE", "FROM", "AGE", "TEXT"],
        ["a-1", "waiting", "ann", "1m", "one two"],
        ["a-2", "dead (failed)", "bob", "", "torn"],
    ]
    assert inside("queue", "list").err == "beam: the queues are empty, and there are no dead letters\n"
    assert told.calls == [((["a"],), {}), (([],), {})]


def test_messages_are_dropped_and_run_again(inside: Inside, told: Told) -> None:
    told.replace("drop_dead", ["a-1"], [], ["a-1", "a-2"])
    assert inside("queue", "drop", "--dead", "a").err == "beam: 1 dead letter was removed\n"
    assert inside("queue", "drop", "--dead").err == "beam: 0 dead letters were removed\n"
    assert inside("queue", "drop", "--dead").err == "beam: 2 dead letters were removed\n"
    assert told.taken() == [((["a"],), {}), (([],), {}), (([],), {})]
    refused = inside("queue", "drop")
    said = "there is no message to remove; beam queue drop ID, or beam queue drop --dead"
    assert (refused.code, refused.err) == (2, f"beam: {said}\n")
    told.replace("retry", "it waits again")
    assert inside("queue", "retry", "a-1").err == "beam: it waits again; beam wait a-1\n"


@pytest.mark.slow
def test_a_message_is_edited_in_the_persons_editor(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [
        QueueItem(id="a-12", agent="a", box="dead", text="dead"),
        QueueItem(id="b-12", agent="b", box="waiting", text="one"),
    ]
    told.replace("queue", *[items] * 5)
    told.replace("edit", "revision 1", "revision 1")
    edits: list[Any] = ["two", "one", None]
    seen: list[str] = []
    monkeypatch.setattr(queues, "_edit_text", lambda text: seen.append(text) or edits.pop(0))
    assert inside("queue", "edit", "-12").code == 2, "an option"
    assert inside("queue", "edit", "b-12").err == "beam: revision 1\n"
    assert inside("queue", "edit", "b-12").err == inside("queue", "edit", "b-12").err == "beam: nothing was changed\n"
    assert seen == ["one"] * 3
    refused = inside("queue", "edit", "a-12")
    assert (refused.code, refused.err) == (2, "beam: a-12 does not wait; beam queue list\n")
    assert inside("queue", "edit", "b-12", "three", "four").err == "beam: revision 1\n"
    assert [words for words, _ in told.calls if words] == [("b-12", "two"), ("b-12", "three four")]


@pytest.mark.parametrize(
    ("environ", "program"),
    [({"VISUAL": "code -w", "EDITOR": "ed"}, ["code", "-w"]), ({"EDITOR": "ed"}, ["ed"]), ({}, ["vi"])],
)
def test_the_editor_is_the_persons_own(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], program: list[str]
) -> None:
    import subprocess

    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    codes = [0, 1]

    def run(argv: list[str], *, check: bool) -> Any:
        assert (argv[:-1], check) == (program, False)
        path = Path(argv[-1])
        assert path.read_text() == "ä" and path.suffix == ".md"
        path.write_bytes("two\xff\n\n".encode("latin-1"))
        return SimpleNamespace(returncode=codes.pop(0))

    monkeypatch.setattr(subprocess, "run", run)
    assert queues._edit_text("ä") == "two\ufffd"
    assert queues._edit_text("ä") is None

    def missing(argv: list[str], *, check: bool) -> Any:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(subprocess, "run", missing)
    with pytest.raises(BeamError) as raised:
        queues._edit_text("x")
    editor = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    assert str(raised.value) == (
        f"can't run the editor {editor}: No such file or directory (set EDITOR, or give the text)"
    )


def test_an_editor_with_an_open_quote_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "'vi")
    with pytest.raises(BeamError) as raised:
        queues._edit_text("x")
    assert str(raised.value) == "can't run the editor 'vi: No closing quotation (set EDITOR, or give the text)"


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_key_is_read_from_stdin_or_asked_for_without_an_echo(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    import getpass

    told.replace("keep_secret", None, None)
    kept = inside("secret", "set", "work", stdin=" sk-1 \nmore\n")
    assert (kept.code, kept.out) == (0, "")
    assert kept.err == "beam: kept; use it, such as: beam send claude TEXT --shield work\n"
    asked_for: list[str] = []
    monkeypatch.setattr(secrets, "is_terminal", lambda stream: stream is sys.stdin)
    monkeypatch.setattr(getpass, "getpass", lambda prompt: asked_for.append(prompt) or "sk-2\n")
    inside("secret", "set", "work", stdin="never read")
    assert told.calls == [(("work", "sk-1"), {}), (("work", "sk-2"), {})]
    assert asked_for == ["key for work: "]


def test_a_key_that_is_not_typed_is_no_key(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    import getpass

    def end(_: str) -> str:
        raise EOFError

    told.replace("keep_secret", UsageError("that is no key"))
    monkeypatch.setattr(secrets, "is_terminal", lambda stream: stream is sys.stdin)
    monkeypatch.setattr(getpass, "getpass", end)
    refused = inside("secret", "set", "work")
    assert (refused.code, refused.err, told.calls) == (2, "beam: that is no key\n", [(("work", ""), {})])


# -- an id that can't be written ---------------------------------------------------------------------------------------


class Full(io.StringIO):
    """A file on a full disk, which can't be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        raise self._error


def test_an_id_that_can_not_be_written_is_said_so_that_nobody_sends_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call: Any = Context()
    call.beam = SimpleNamespace(
        put=lambda message: message.id,
        show=lambda message_id: {"id": message_id},
        unstarted_reason=lambda message_id: "",
    )
    sending.put_and_print_id(call, message("bot-1"), as_json=False)
    sending.put_and_print_id(call, message("bot-1"), as_json=True)
    assert capsys.readouterr().out == 'bot-1\n{"id":"bot-1"}\n'
    dropped: list[int] = []
    monkeypatch.setattr(sending.streams, "drop_stdout", lambda: dropped.append(1))
    monkeypatch.setattr(sys, "stdout", Full(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(DiskError) as raised:
        sending.put_and_print_id(call, message("bot-1"), as_json=False)
    said = "bot-1 was sent; its id can't be written to stdout"
    assert str(raised.value) == f"{said}: No space left on device (beam wait bot-1)"
    assert (raised.value.subject, dropped) == ("bot-1", [1])
    monkeypatch.setattr(sys, "stdout", Full(BrokenPipeError()))
    with pytest.raises(BrokenPipeError):
        sending.put_and_print_id(call, message("bot-1"), as_json=False)
    assert capsys.readouterr().err == f"beam: {said}: nobody reads it; beam wait bot-1\n"
    assert dropped == [1]


@pytest.mark.parametrize("words", [(), ("--json",), ("-q",)])
def test_a_message_that_waits_because_no_process_could_be_started_has_an_id_and_a_note(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def fail(*_: object) -> None:
        raise DiskError("can't start a process in x: Resource temporarily unavailable")

    monkeypatch.setattr(launch, "start_worker", fail)
    done = inside(*(word for word in words if word == "-q"), "send", "worker", "hi", "--no-wait", *words[:1])
    assert done.code == 0
    sent = done.json["message_id"] if words == ("--json",) else done.out.strip()
    (waiting,) = inside("queue", "list", "worker", "--json").lines
    assert waiting["id"] == sent
    why = "can't start a process in x: Resource temporarily unavailable"
    assert (
        done.err.splitlines()[-1] == f"beam: {sent} waits: no process could be started for it: {why}; beam wait {sent}"
    )


def test_a_message_whose_state_can_not_be_shown_is_said_so_that_nobody_sends_it_again() -> None:
    def fail(message_id: str) -> None:
        raise DiskError("can't open journal: Too many open files", "raise it", subject="journal")

    call: Any = Context()
    call.beam = SimpleNamespace(put=lambda message: message.id, show=fail, unstarted_reason=lambda message_id: "")
    with pytest.raises(DiskError) as raised:
        sending.put_and_print_id(call, message("bot-1"), as_json=True)
    said = "bot-1 was sent; its state can't be shown: can't open journal: Too many open files (beam wait bot-1)"
    assert (str(raised.value), raised.value.subject) == (said, "bot-1")


# -- chat --------------------------------------------------------------------------------------------------------------


class Talk:
    """Stands in for a chat; what it was made with."""

    made: list[Any] = []  # noqa: RUF012

    def __init__(self, call: Context, *given: Any, **named: Any) -> None:
        Talk.made.append((given, named))

    async def run(self) -> int:
        await asyncio.sleep(0)
        return 7


@pytest.fixture
def talk(told: Told, monkeypatch: pytest.MonkeyPatch) -> type[Talk]:
    from beam.cli.chatting import alone, together

    Talk.made = []
    monkeypatch.setattr(alone, "AloneChat", Talk)
    monkeypatch.setattr(together, "TogetherChat", Talk)
    monkeypatch.setattr(chatting, "_is_watched", lambda: True)
    monkeypatch.setattr(Beam, "check_person", lambda _, what: told.calls.append(((what,), {})))
    monkeypatch.setattr(Beam, "chat_mode", lambda _, agent, via: via or f"{agent}'s")
    monkeypatch.setattr(Beam, "default_access", lambda _, agent, via, given: "ask" if not given else "read")
    told.replace("message", *[None] * 9)
    return Talk


def test_a_person_talks_with_one_agent_as_the_options_say(inside: Inside, told: Told, talk: type[Talk]) -> None:
    assert inside("chat", "bot").code == 0
    options = Options(via="bot's", access="ask")
    assert talk.made == [(("bot", options), {"new": False})]
    assert told.taken() == [(("chats",), {}), (("bot", "?"), {"options": options})]
    words = ("--via", "exec", "--access", "full", "--timeout", "2m", "--deny", "Bash", "-m", "opus", "--new")
    inside("chat", "bot", *words)
    (given, named) = talk.made[1]
    assert named == {"new": True}
    assert (given[1].via, given[1].access, given[1].timeout, given[1].model) == ("exec", "full", 120.0, "opus")
    assert given[1].rules.deny == ("Bash",)
    inside("chat", "bot", "-m", "opus")
    assert talk.made[2][0][1] == Options(via="bot's", access="read", model="opus")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *(
            (("bot", *words), f"{words[0]} is for several agents; beam chat bot ANOTHER --topic TEXT")
            for words in (
                ("--topic", "x"), ("--turns", "3"), ("--until", "x"), ("--budget", "1"), ("--max-tokens", "1"),
                ("--time", "1m"), ("--moderator", "m"), ("--by-address",), ("--name", "x"),
            )
        ),
        (("a", "b", "--new"), "--new is for one agent; several always begin new sessions"),
        (("a", "b"), "several agents need something to talk about; beam chat a b --topic TEXT"),
    ],
)  # fmt: skip
def test_what_a_chat_can_not_be_is_refused(inside: Inside, talk: type[Talk], words: tuple[str, ...], said: str) -> None:
    refused = inside("chat", *words)
    assert (refused.code, refused.err, talk.made) == (2, f"beam: {said}\n", [])


def test_a_chat_with_one_agent_needs_a_terminal(
    inside: Inside, talk: type[Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chatting, "_is_watched", lambda: False)
    refused = inside("chat", "bot")
    assert refused.err == "beam: beam chat needs a terminal; in a script: beam send bot TEXT\n"
    assert (refused.code, talk.made) == (2, [])


def test_several_agents_talk_as_the_options_say(
    inside: Inside, told: Told, talk: type[Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = SimpleNamespace(agents=("a", "b"), moderator=None)
    told.replace("live_chat", live, SimpleNamespace(agents=("a", "b"), moderator="m"), live)
    assert inside("chat", "a", "b", "--topic", "tea?").code == 7
    limits = {"phrase": None, "turns": 20, "cost_usd": None, "tokens": None, "time": None}
    _, made, *checked = told.taken()
    assert made == ((["a", "b"], "tea?"), {"by_address": False, "moderator": None, **limits})
    each = {name: Options(via=f"{name}'s", access="ask") for name in ("a", "b", "m")}
    assert checked == [(("a@chat", "?"), {"options": each["a"]}), (("b@chat", "?"), {"options": each["b"]})]
    two = {name: each[name] for name in ("a", "b")}
    assert talk.made == [((live, "chat", two), {"is_watched": True})]
    monkeypatch.setattr(chatting, "_is_watched", lambda: False)
    words = ["--turns", "3", "--until", "DONE", "--budget", "0.5", "--max-tokens", "9", "--time", "1m"]
    inside("chat", "a", "b", "--topic", "tea?", *words, "--moderator", "m", "--by-address", "--name", "x")
    _, made, *checked = told.taken()
    limits = {"phrase": "DONE", "turns": 3, "cost_usd": 0.5, "tokens": 9, "time": 60.0}
    assert made == ((["a", "b"], "tea?"), {"by_address": True, "moderator": "m", **limits})
    assert [words[0] for words, _ in checked] == ["a@x", "b@x", "m@x"]
    (_, name, options), named = talk.made[1]
    assert (name, options["m"], named) == ("x", Options(via="m's"), {"is_watched": False})


@pytest.mark.parametrize(
    ("ends", "term", "is_watched"),
    [(2, "xterm", True), (1, "xterm", False), (0, "xterm", False), (2, "dumb", False), (2, None, False)],
)
def test_a_chat_is_watched_at_a_terminal_that_can_show_an_input_line(
    monkeypatch: pytest.MonkeyPatch, ends: int, term: str | None, is_watched: bool
) -> None:
    terminals = [sys.stdin, sys.stdout][:ends]
    monkeypatch.setattr(chatting, "is_terminal", lambda stream: stream in terminals)
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    assert chatting._is_watched() is is_watched


# -- mailboxes ---------------------------------------------------------------------------------------------------------


def test_a_message_is_taken_with_a_lease_and_waited_for(inside: Inside, told: Told) -> None:
    found = message("box-1", "box", "hello")
    told.replace("recv", found, None, found, found)
    assert inside("recv", "box", "--lease", "5m").out == "hello\n"
    none = inside("recv", "box")
    assert (none.code, none.err) == (12, "beam: no message waits for box; beam recv box --wait\n")
    inside("recv", "box", "--wait")
    inside("recv", "box", "--wait", "--timeout", "1m", "--lease", "2m")
    assert told.calls == [
        (("box",), {"lease": 300.0, "timeout": 0.0}),
        (("box",), {"lease": None, "timeout": 0.0}),
        (("box",), {"lease": None, "timeout": None}),
        (("box",), {"lease": 120.0, "timeout": 60.0}),
    ]


def test_a_limit_of_a_wait_needs_the_wait(inside: Inside, told: Told) -> None:
    told.replace("recv")
    refused = inside("recv", "box", "--timeout", "1m")
    said = "beam: --timeout is for --wait; beam recv box --wait --timeout 1m\n"
    assert (refused.code, refused.err, told.calls) == (2, said, [])


@pytest.mark.parametrize(
    ("status", "words"),
    [("waiting", "waiting, 2 ahead of it"), ("running", "running"), ("died", "left by a holder that died")],
)
def test_a_message_without_an_outcome_is_said_to_have_none(inside: Inside, told: Told, status: str, words: str) -> None:
    from beam.api.messages import PendingMessage

    found = PendingMessage(message_id="a-1", agent="a", attempt=1, status=status, position=2, text="hi")  # type: ignore[arg-type]
    told.replace("show", found, found)
    shown = inside("show", "a-1")
    assert (shown.code, shown.out, shown.err) == (12, "", f"beam: a-1 is {words}; beam wait a-1\n")
    assert inside("show", "a-1", "--json").json["status"] == status
