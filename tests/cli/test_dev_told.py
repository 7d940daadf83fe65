"""`beam dev`, the manual page, completion and the entrance in this process; no process is started."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.main import get_command

import beam
from beam import ExitCode
from beam.base import own_program
from beam.base.errors import BeamError, NotFoundError, SignalledError
from beam.cli import app, completion, dev, errors, main, man, streams
from beam.cli.context import Context
from tests.support.inside import Inside, Told

pytestmark = pytest.mark.slow

# -- the manual page ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain", "plain"),
        ("a-b", r"a\-b"),
        ("back\\slash", r"back\eslash"),
        ("~/x ^\\ `code`", r"\(ti/x \(ha\e \(gacode\(ga"),
        ("…", r"\[u2026]"),
        (".TH", r"\&.TH"),
        ("'quoted'", r"\&'quoted'"),
        ("", ""),
    ],
)
def test_no_text_is_a_request_of_roff(text: str, escaped: str) -> None:
    assert man.escaped(text) == escaped


def small() -> typer.Typer:
    """A command line of three commands, one of them hidden, and one in a group."""
    found, group = typer.Typer(help="Does it.\n\nIn short.", add_completion=False), typer.Typer(help="Of a group.")

    @found.command()
    def send(
        agent: str = typer.Argument(..., help="Who."), new: bool = typer.Option(False, "--new", help="A  new one.")
    ) -> None:
        """Send it.

        As it is.
        """

    @found.command(hidden=True)
    def secret() -> None:
        """Not shown."""

    @group.command("list")
    def list_(old: bool = typer.Option(False, "--old", hidden=True)) -> None:
        """List them."""

    found.add_typer(group, name="agent")
    return found


def test_the_manual_page_has_every_command_option_and_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(man, "__version__", "1.0-x")
    page = man.page(get_command(small()))
    head, _, rest = page.partition(".SH EXIT STATUS\n")
    before, _, commands = head.partition(".SH COMMANDS\n")
    assert before.splitlines()[:9] == [
        '.TH BEAM 1 "" "beam 1.0\\-x" "User Commands"',
        ".SH NAME",
        "beam \\- use every coding agent through one command",
        ".SH SYNOPSIS",
        ".B beam",
        "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]",
        ".SH DESCRIPTION",
        "Does it.",
        ".PP",
    ]
    assert before.splitlines()[9:12] == ["In short.", ".SH OPTIONS", ".TP"]
    assert before.endswith("Show this message and exit.\n")
    send, listed = commands.split(".SS ")[1:]
    lines = send.splitlines()
    assert lines[0].startswith("beam send [OPTIONS] ") and lines[1:4] == ["Send it.", ".PP", "As it is."]
    assert lines[4:] == [*lines[4:-3], ".TP", ".B \\-\\-new", "A new one."]
    assert listed.splitlines() == ["beam agent list [OPTIONS]", "List them."]
    codes, _, files = rest.partition(".SH FILES\n")
    assert codes.splitlines() == [
        line for code in ExitCode for line in (".TP", str(int(code)), man.escaped(code.meaning))
    ]
    known, _, variables = files.partition(".SH ENVIRONMENT\n")
    assert known.splitlines()[:3] == [
        ".TP", ".B beam.yaml", "the agents of a project folder, their settings, limits and policy"
    ]  # fmt: skip
    assert known.splitlines()[3:6] == [
        *(".TP", ".B \\(ti/.config/beam/config.yaml"),
        "the same for all your folders, and what tells you of things (notify:)",
    ]
    assert known.splitlines()[6:] == [
        *(".TP", ".B \\(ti/.local/state/beam/"),
        "queues, journals and what you trust; \\(gabeam root\\(ga prints a folder's part",
    ]
    assert variables.splitlines() == [
        *(".TP", ".B BEAM_ROOT", "the root to use"),
        *(".TP", ".B BEAM_STATE", "where state lies instead of \\(ti/.local/state/beam"),
        *(".TP", ".B BEAM_TRUST", "1 trusts any folder, for this command"),
        ".TP",
        ".B BEAM_DISABLE",
        "names of adapters that are switched off, with commas between them",
    ]
    assert page.endswith("them\n")


def test_the_manual_page_of_beam_is_printed(inside: Inside) -> None:
    page = inside("dev", "man")
    assert page.code == 0 and page.out == man.page(get_command(app.app))
    assert ".SS beam send [OPTIONS] [AGENT] [TEXT]..." in page.out.replace("\\-", "-")


# -- dev ---------------------------------------------------------------------------------------------------------------


def test_the_skill_has_the_exit_codes_and_the_schemas_their_names(inside: Inside) -> None:
    skill = inside("dev", "skill").out
    for code in ExitCode:
        assert (f"\n- {int(code)}: {code.meaning}\n" in skill) is (code < ExitCode.BUG)
    assert "{codes}" not in skill and skill.startswith("---\n")
    names = inside("dev", "schema").out.split()
    assert len(names) > 5
    assert json.loads(inside("dev", "schema", names[0]).out)["$schema"]


class Model:
    """Stands in for the scripted model."""

    made: list[Any] = []  # noqa: RUF012

    def __init__(self, script: Any, *, port: int, log: Any) -> None:
        self.url = "http://127.0.0.1:1"
        Model.made.append((script, port, log))

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        Model.made.append("closed")

    def env(self, adapter: str, home: Path) -> dict[str, str]:
        assert home.is_dir()
        return {"URL": f"http://x/{adapter} y", "SHARED": "" if adapter == "b" else "mine", f"ONLY_{adapter}": ""}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    import threading

    Model.made = []
    monkeypatch.setattr(beam.fake_model, "FakeModel", Model)
    monkeypatch.setattr(beam.fake_model, "load", lambda path: f"read {path}")
    monkeypatch.setattr(threading, "Event", lambda: SimpleNamespace(wait=lambda: Model.made.append("waits")))
    return Model.made


def test_a_scripted_model_prints_where_it_is_and_serves(inside: Inside, model: list[Any]) -> None:
    served = inside("dev", "fake-model")
    assert (served.code, served.out) == (0, "http://127.0.0.1:1\n")
    assert served.err == "a scripted model listens at http://127.0.0.1:1; ^C ends it\n"
    assert model == [(None, 0, None), "waits", "closed"]
    model.clear()
    inside("dev", "fake-model", "--script", "s.yaml", "--port", "81", "--log", "log")
    assert model[0] == ("read s.yaml", 81, Path("log"))
    inside("dev", "fake-model", "--script", "-")
    assert model[3][0] == "read /dev/stdin"


def test_a_scripted_model_prints_the_variables_of_clis(inside: Inside, model: list[Any]) -> None:
    served = inside("dev", "fake-model", "--env", "a", "--env", "b")
    assert served.out.splitlines() == [
        "export URL='http://x/b y'",
        "export SHARED=mine",
        "export ONLY_a=''",
        "export ONLY_b=''",
    ]


class Child:
    """Stands in for a process."""

    def __init__(self, *codes: Any) -> None:
        self.codes = list(codes)
        self.signals: list[int] = []

    def wait(self) -> int:
        code = self.codes.pop(0)
        if callable(code):
            return int(code())
        if isinstance(code, BaseException):
            raise code
        return int(code)

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


def test_a_command_runs_with_the_variables_and_its_code_is_the_exit_code(
    inside: Inside, model: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(dev, "_start_command", lambda command, environ: ran.append((command, environ)) or Child(7))
    done = inside("dev", "fake-model", "--env", "a", "--", "claude", "-p", "hi")
    assert (done.code, done.out) == (7, "")
    command, environ = ran[0]
    assert command == ["claude", "-p", "hi"]
    assert (environ["SHARED"], environ["HOME"]) == ("mine", str(inside.project.parent / "home"))
    assert model == [(None, 0, None), "closed"]
    refused = inside("dev", "fake-model", "--", "claude")
    assert refused.err == "beam: which CLI is the command?; name its adapter: --env claude -- claude -p hi\n"
    assert refused.code == 2


@pytest.mark.parametrize(("code", "exit_code"), [(0, 0), (3, 3), (-9, 137)])
def test_the_end_of_a_command_is_its_code_or_its_signal(
    monkeypatch: pytest.MonkeyPatch, code: int, exit_code: int
) -> None:
    monkeypatch.setattr(dev, "_start_command", lambda *_: Child(KeyboardInterrupt(), code))
    assert dev._run_command(["x"], {}) == exit_code


def test_signals_are_passed_on_to_the_command_also_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]

    def interrupted() -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    child = Child(interrupted)

    def start(*_: Any) -> Child:
        signal.raise_signal(signal.SIGHUP)
        return child

    monkeypatch.setattr(dev, "_start_command", start)
    assert dev._run_command(["x"], {}) == 0
    assert child.signals == [signal.SIGHUP, signal.SIGTERM]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before


def test_a_command_that_can_not_be_run_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    def popen(argv: list[str], *, env: Any) -> Any:
        if argv == ["fine"]:
            return env
        raise OSError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(subprocess, "Popen", popen)
    assert dev._start_command(["fine"], {"A": "1"}) == {"A": "1"}  # type: ignore[comparison-overlap]
    with pytest.raises(NotFoundError) as raised:
        dev._start_command(["none", "x"], {})
    assert str(raised.value) == "can't run none: No such file or directory (give a program of PATH, or its path)"
    assert raised.value.subject == "none"


CAST = '{"version": 2, "width": 20, "height": 4}\n[0.1, "o", "hello"]\n[1.0, "i", "\\r"]\n[2.0, "o", "\\r\\n> done"]\n'


def test_a_recorded_screen_is_decoded(inside: Inside) -> None:
    (inside.project / "x.cast").write_text(CAST)
    found = inside("dev", "decode", "terminal", "x.cast", "--profile", "codex")
    assert found.code == 0 and len(found.lines) >= 1
    explained = inside("dev", "decode", "terminal", "x.cast", "--profile", "codex", "--explain")
    assert len(explained.out) >= len(found.out)
    (inside.project / "x.raw").write_bytes(b"one\r\ntwo\r\nthree\r\nfour four four\r\n> ")
    raw = inside("dev", "decode", "terminal", "x.raw", "--profile", "codex", "--size", "9x4", "--explain")
    assert raw.lines[-1]["unknown"] == ["three", "four four", " four", ">"]
    assert inside("dev", "decode", "terminal", "-", "--profile", "codex", stdin=CAST).out == found.out


@pytest.mark.parametrize("size", ["100", "0x40", "40x0", "1000x40", "axb", "100x40x1"])
def test_a_size_is_columns_and_rows(inside: Inside, size: str) -> None:
    refused = inside("dev", "decode", "terminal", "--size", size)
    said = f"--size {size}: not a size; columns and rows, like 100x40"
    assert (refused.code, refused.err) == (2, f"beam: {said}\n")


def test_what_is_no_recording_of_a_terminal_is_refused(inside: Inside) -> None:
    (inside.project / "x.cast").write_text('{"version": 2}\nnonsense\n')
    refused = inside("dev", "decode", "terminal", "x.cast", "--profile", "codex")
    assert refused.code == 2 and refused.err.startswith("beam: x.cast is no recording of a terminal: ")
    assert refused.err.endswith("; an asciicast of version 2, or raw bytes\n")
    refused = inside("dev", "decode", "terminal", "--profile", "codex", stdin='{"version": 2}\nnonsense\n')
    assert refused.err.startswith("beam: stdin is no recording of a terminal: ")


# -- completion --------------------------------------------------------------------------------------------------------


def candidates(inside: Inside, *typed: str) -> list[str]:
    return inside("completion", "words", "--", *typed).out.splitlines()


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (("se",), ["send", "search", "secret"]),
        (("queue", "p"), ["pause"]),
        (("send", "wor"), ["worker"]),
        (("send", "worker", ""), []),
        (("send", "worker", "--acc"), ["--access"]),
        (("send", "worker", "--access", "e"), ["edit"]),
        (("send", "worker", "--access=read", "--jud"), ["--judge"]),
        (("send", "worker", "-f", ""), [":"]),
        (("send", "worker", "--attach", ""), [":"]),
        (("send", "worker", "--", "--acc"), []),
        (("send", "--", "wor"), ["worker"]),
        (("watch", "worker", "as"), ["asker"]),
        (("-q", "send", "wor"), ["worker"]),
        (("--root", "nowhere", "sta"), ["status"]),
        (("-C", "/", "send", "wor"), []),
        (("wait", "--agent", "wor"), ["worker"]),
        (("send", "worker", "--timeout", ""), []),
        (("wait", "--until", ""), ["idle", "asking", "finished"]),
        (("log", "worker", "--until", ""), []),
        (("nonsense", "x"), []),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("run", ""), [":"]),
        (("run", "x", ""), []),
        (("agent", "show", "worker", ""), []),
        (("queue", "drop", "-"), ["--dead"]),
    ],
)
def test_what_may_follow_is_offered(inside: Inside, typed: tuple[str, ...], found: list[str]) -> None:
    offered = candidates(inside, *typed)
    assert (offered if typed[-1] != "-" else [word for word in offered if word in found]) == found


def test_a_single_dash_offers_short_options_too(inside: Inside) -> None:
    assert {"-f", "--file", "-m"} <= set(candidates(inside, "send", "-"))
    assert "-f" not in candidates(inside, "send", "--")
    assert not {"-q", "--quiet"} & set(candidates(inside, "send", "-")), "what holds everywhere is not repeated"


def test_models_and_ids_are_offered_and_what_fails_is_nothing(inside: Inside, told: Told) -> None:
    told.replace("models", ["good/m:1", "$(touch made)", "m-2"], BeamError("torn"))
    assert candidates(inside, "send", "worker", "--model", "") == ["good/m:1", "m-2"]
    assert candidates(inside, "send", "worker", "-m", "") == []
    told.replace("message_ids", ["worker-1", "box-1"], OSError())
    assert candidates(inside, "wait", "wor") == ["worker-1"]
    assert candidates(inside, "wait", "") == []
    assert told.calls[2:] == [((50,), {}), ((50,), {})]


@pytest.mark.parametrize(
    ("current", "sign", "at"), [("a=b", "=", 2), ("a=b=c", "=", 4), ("a@b", "@", 1), ("$a", "$", 0), ("ab", "=", 0)]
)
def test_a_shell_that_parts_words_itself_gets_the_rest_of_the_word(current: str, sign: str, at: int) -> None:
    assert completion._word_start(current, sign) == at


def test_the_rest_of_a_word_is_offered_where_the_shell_parts_it(inside: Inside) -> None:
    words = inside("completion", "words", "--line", "beam --root=x sen", "--breaks", "=:'\" ")
    assert words.out == "send\n"


# -- the entrance ------------------------------------------------------------------------------------------------------


@pytest.fixture
def died(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals by which the process would have ended."""
    found: list[int] = []

    def kill(pid: int, number: int) -> None:
        assert pid == os.getpid()
        found.append(number)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)}
    monkeypatch.setattr(errors.os, "kill", kill)
    yield found  # type: ignore[misc]
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_what_a_signal_ended_ends_by_that_signal(died: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.handle(KeyboardInterrupt(), []) == 130
    assert errors.handle(SignalledError(15, message="stopped", hint="again"), ["--json"]) == 143
    said = capsys.readouterr()
    assert said.err == "beam: stopped; again\n"
    assert json.loads(said.out)["error"] == {
        "exit_code": 143,
        "kind": "signalled",
        "message": "stopped",
        "hint": "again",
        "subject": "",
    }
    assert errors.handle(SignalledError(2, "an outcome"), ["--json"]) == 130
    assert errors.handle(typer.Abort(), []) == 130
    assert capsys.readouterr() == ("", "")
    assert died == [2, 15, 2, 2]
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


def test_where_nobody_reads_stdout_the_process_ends_as_others_do(
    died: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[int] = []
    monkeypatch.setattr(errors.streams, "drop_stdout", lambda: dropped.append(1))

    class Gone(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", Gone())
    assert (errors.handle(BrokenPipeError(), []), died, dropped) == (141, [13], [1, 1])


@pytest.mark.parametrize(
    ("found", "code"), [(SystemExit(3), 3), (SystemExit("words"), 1), (SystemExit(None), 1), (typer.Exit(5), 5)]
)
def test_an_exit_is_its_code(found: BaseException, code: int) -> None:
    assert errors.handle(found, []) == code


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The entrance with a stand-in for the command and the streams."""
    import gc

    found = SimpleNamespace(code=0, prepared=0, argv=None, dropped=0)
    monkeypatch.setattr(streams, "prepare", lambda: setattr(found, "prepared", found.prepared + 1))
    monkeypatch.setattr(streams, "drop_stdout", lambda: setattr(found, "dropped", found.dropped + 1))

    def run(argv: list[str]) -> int:
        found.argv = argv
        return int(found.code)

    monkeypatch.setattr(main, "run", run)
    monkeypatch.setattr(sys, "argv", ["beam", "status", "-q"])
    monkeypatch.setitem(sys.modules, "ssl", sys.modules.get("ssl"))
    before = gc.get_threshold()
    yield found
    gc.set_threshold(*before)


def test_the_process_runs_its_command_line(entered: Any) -> None:
    import gc

    entered.code = 4
    assert main.run_and_flush() == 4
    assert (entered.prepared, entered.argv, entered.dropped) == (1, ["status", "-q"], 0)
    assert gc.get_threshold() == (100_000, 20, 100)


class Lost(io.StringIO):
    """A stream that can't be flushed."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def flush(self) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code", "ends"),
    [
        (OSError(errno.ENOSPC, "full"), 0, 74),
        (OSError(errno.ENOSPC, "full"), 3, 3),
        (BrokenPipeError(), 3, 141),
    ],
)
def test_what_can_not_be_flushed_is_an_error_of_a_command_that_had_none(
    entered: Any, died: list[int], monkeypatch: pytest.MonkeyPatch, error: OSError, code: int, ends: int
) -> None:
    entered.code = code
    monkeypatch.setattr(sys, "stdout", Lost(error))
    assert main.run_and_flush() == ends
    assert entered.dropped >= 1


def test_the_process_ends_at_once_with_the_code(entered: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(own_program.os, "_exit", ended.append)
    entered.code = 5
    main.main()
    monkeypatch.setattr(sys, "stderr", Lost(OSError()))
    main.main()
    assert ended == [5, 5]


@pytest.mark.parametrize(("umask", "kept"), [(0o022, 0o022), (0o777, 0o077), (0o700, 0o000), (0o077, 0o077)])
def test_files_of_beam_are_readable_by_their_owner(monkeypatch: pytest.MonkeyPatch, umask: int, kept: int) -> None:
    before = os.umask(umask)
    try:
        streams.prepare()
        assert os.umask(umask) == kept
    finally:
        os.umask(before)


class Stream(io.StringIO):
    """A stream that says how it was set up."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal
        self.set: dict[str, str] = {}

    def isatty(self) -> bool:
        return self.terminal

    def reconfigure(self, **named: str) -> None:
        self.set = named


@pytest.mark.parametrize(
    ("terminal", "lang", "out", "err"),
    [
        (False, "C.UTF-8", {"encoding": "utf-8", "errors": "replace"}, {}),
        (False, "C", {"encoding": "utf-8", "errors": "replace"}, {}),
        (True, "C.UTF-8", {}, {}),
        (True, "C", {"encoding": "ascii", "errors": "backslashreplace"},
         {"encoding": "ascii", "errors": "backslashreplace"}),
    ],
)  # fmt: skip
def test_a_pipe_is_utf_8_and_a_terminal_what_its_locale_shows(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, lang: str, out: dict[str, str], err: dict[str, str]
) -> None:
    for name in ("LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", lang)
    stdout, stderr = Stream(terminal=terminal), Stream(terminal=terminal)
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(streams, "is_terminal", lambda stream: stream.isatty())
    streams.prepare()
    assert (stdout.set, stderr.set) == (out, err)


def test_streams_that_the_parent_closed_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    pointed: list[Any] = []
    closed = {0, 1, 2}

    def fstat(number: int) -> None:
        if number in closed:
            raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(streams, "os", SimpleNamespace(**{**vars(os), "fstat": fstat}))
    monkeypatch.setattr(streams, "_open_dev_null", lambda number, mode: pointed.append((number, mode)))
    opened: list[Any] = []
    monkeypatch.setattr(
        streams, "open", lambda number, *mode, **named: opened.append((number, mode, named)) or Stream(terminal=False),
        raising=False,
    )  # fmt: skip
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    streams.prepare()
    assert pointed == [(0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)]
    assert opened == [
        (0, (), {"encoding": "utf-8"}),
        (1, ("w",), {"encoding": "utf-8"}),
        (2, ("w",), {"encoding": "utf-8", "errors": "backslashreplace"}),
    ]
    pointed.clear()
    streams.drop_stdout()
    assert pointed == [(1, os.O_WRONLY)]


def test_a_descriptor_is_pointed_at_nothing() -> None:
    read, write = os.pipe()
    try:
        streams._open_dev_null(write, os.O_WRONLY)
        assert os.write(write, b"lost") == 4 and os.get_blocking(read)
        assert Path(f"/proc/self/fd/{write}").readlink() == Path(os.devnull)
        os.close(write)
        count = len(list(Path("/proc/self/fd").iterdir()))
        streams._open_dev_null(write, os.O_WRONLY)
        assert Path(f"/proc/self/fd/{write}").readlink() == Path(os.devnull)
        assert len(list(Path("/proc/self/fd").iterdir())) == count + 1 and os.get_inheritable(write)
    finally:
        os.close(read)
        os.close(write)


# -- the call's context ------------------------------------------------------------------------------------------------


def test_a_folder_that_is_gone_or_is_none_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(BeamError) as raised:
        _ = Context(directory=str(tmp_path / "none")).cwd
    assert str(raised.value) == f"-C {tmp_path}/none: no such directory (check the path)"
    monkeypatch.setattr(Path, "cwd", lambda: (_ for _ in ()).throw(FileNotFoundError()))
    with pytest.raises(BeamError) as raised:
        _ = Context().cwd
    assert str(raised.value) == "the current directory no longer exists (cd to one that does)"
