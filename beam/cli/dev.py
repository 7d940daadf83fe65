"""`beam dev`: tools for authors of adapters and tests: a scripted model, a decoder of recordings, the schemas."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beam.cli.commands import App

if TYPE_CHECKING:
    import subprocess

app = App("A scripted model, recordings decoded, JSON Schemas, the manual page, a skill for agents.")


@app.verb("fake-model", interspersed=False)
def fake_model(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]...", help="Run this with the environment of --env, and end with its exit code."
        ),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML or JSON of scripted answers (default: echoes and directives)."),
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port on 127.0.0.1; 0 chooses a free one.")
    ] = 0,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append each request to this file as JSON Lines.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADAPTER",
            help="Print (or set for COMMAND) the variables that point this CLI at the model; repeatable.",
        ),
    ] = None,
) -> None:
    """Serve a scripted model for real agent CLIs.

    They need no account and use no tokens: the server listens on loopback and answers as a script says. Alone, it
    prints its URL and serves until ^C. With --env it prints `export` lines instead of the URL. With --env and a command
    (after --) it serves for as long as the command runs. A CLI that needs a configuration file, or asks questions when
    it first starts, gets a temporary HOME, which is removed afterwards.
    """
    import os
    import tempfile

    from beam import UsageError, fake_model

    if command and not env:
        raise UsageError("which CLI is the command?", "name its adapter: --env claude -- claude -p hi")
    with (
        fake_model.FakeModel(fake_model.load(_input_path(script)) if script else None, port=port, log=log) as model,
        ExitStack() as stack,
    ):
        variables: dict[str, str] = {}
        if env:
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="beam-home-", ignore_cleanup_errors=True))
            for adapter in env:
                more = model.env(adapter, Path(home))
                variables.update({name: value for name, value in more.items() if value or name not in variables})
        if command:
            raise typer.Exit(_run_command(command, {**os.environ, **variables}))
        _serve(model.url, variables)


def _serve(url: str, variables: Mapping[str, str]) -> None:
    import shlex
    import threading

    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()] or [url]
    typer.echo("\n".join(lines))
    typer.echo(f"a scripted model listens at {url}; ^C ends it", err=True)
    threading.Event().wait()


def _run_command(command: list[str], environ: Mapping[str, str]) -> int:
    """Run the command and return its exit code, or 128 + n if signal n ended it. SIGTERM and SIGHUP are passed on to
    the command."""
    import signal

    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _: object) -> None:
        early.append(number)
        for child in children:
            child.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        child = _start_command(command, environ)
        children.append(child)
        for missed in early:
            child.send_signal(missed)
        while True:
            try:
                code = child.wait()
            except KeyboardInterrupt:  # the terminal sent it to the command too, which decides
                continue
            return 128 - code if code < 0 else code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start_command(command: list[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    import subprocess

    from beam import NotFoundError

    try:
        return subprocess.Popen(command, env=environ)
    except OSError as error:
        hint = "give a program of PATH, or its path"
        raise NotFoundError(f"can't run {command[0]}: {error.strerror}", hint, subject=command[0]) from error


@app.verb()
def decode(
    adapter: Annotated[str, typer.Argument(metavar="ADAPTER", help="The adapter whose CLI wrote it.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            exists=True,
            dir_okay=False,
            readable=True,
            allow_dash=True,
            help="Recorded stdout; default: our stdin, as `-`.",
        ),
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="The resume id that the turn asked for.")] = None,
    exit_code: Annotated[int, typer.Option(metavar="N", help="The CLI's exit code.")] = 0,
    signal: Annotated[str | None, typer.Option(metavar="NAME", help="The signal that ended it, like SIGTERM.")] = None,
    stderr: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, readable=True, allow_dash=True, help="What it wrote to stderr."
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Keep the CLI's own lines on the events.")] = False,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="For `terminal`: the adapter whose screen it is.")
    ] = None,
    size: Annotated[
        str, typer.Option(metavar="CxR", help="For `terminal`: columns and rows, if FILE does not contain them.")
    ] = "100x40",
    explain: Annotated[
        bool, typer.Option("--explain", help="For `terminal`: also print the rows that decided, and unknown screens.")
    ] = False,
    enter: Annotated[
        list[float] | None,
        typer.Option(metavar="S", help="For `terminal`: Enter was pressed after S seconds, if FILE does not say."),
    ] = None,
) -> None:
    """Print a recorded output's events as JSON Lines.

    The last event is `turn.finished`. With `terminal` as ADAPTER, FILE is an asciicast (or raw bytes, with FILE's
    .timeline.jsonl beside it); the output is then what the detector of a turn's end sees on that screen: states,
    dialogs, signals.
    """
    if file is not None and str(file) == "-":
        file = None
    if adapter == "terminal":
        _decode_terminal(file, profile, size, enter or [], explain=explain)
        return
    import sys

    from beam import Exit, events, recordings
    from beam.cli.render.text import safe_json, write_line

    tail = _read_file(stderr).decode(errors="replace") if stderr else ""
    ended = Exit(code=None if signal else exit_code, signal=signal, stderr_tail=tail)
    with file.open("rb") if file else sys.stdin.buffer as lines:
        for event in recordings.replay(adapter, lines, session_id=session, exit=ended):
            write_line(safe_json(events.encode(event if raw else recordings.without_raw(event)).decode(), sys.stdout))


def _input_path(file: Path) -> Path:
    return Path("/dev/stdin") if str(file) == "-" else file


def _read_file(file: Path) -> bytes:
    from beam.cli.prompt import read_bounded

    with _input_path(file).open("rb") as opened:
        return read_bounded(opened, str(file))


def _decode_terminal(file: Path | None, profile: str | None, size: str, enters: list[float], *, explain: bool) -> None:
    import re
    import sys

    from beam import NoCastError, UsageError, screens
    from beam.cli.prompt import read_bounded
    from beam.cli.render.text import write_json

    dimensions = re.fullmatch(r"(\d{1,3})x(\d{1,3})", size)
    if dimensions is None or "0" in dimensions.groups():
        raise UsageError(f"--size {size}: not a size", "columns and rows, like 100x40", subject=size)
    screen = screens.profile_of(profile)
    data = _read_file(file) if file else read_bounded(sys.stdin.buffer, "stdin")
    beside = file.with_suffix(".timeline.jsonl") if file else None
    timeline = _read_file(beside) if beside is not None and beside.is_file() else None
    try:
        recording = screens.read(data, timeline, columns=int(dimensions[1]), rows=int(dimensions[2]), enters=enters)
    except NoCastError as error:
        hint = "an asciicast of version 2, or raw bytes"
        raise UsageError(f"{file or 'stdin'} is no recording of a terminal: {error}", hint) from error
    for noted in screens.replay(recording, screen, explain=explain):
        write_json(noted)


@app.verb()
def schema(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The schema's name; without one, list the names.")
    ] = None,
) -> None:
    """Print the JSON Schema of a file or value that beam reads or writes."""
    import json

    from beam.cli import schemas

    if name is None:
        typer.echo("\n".join(schemas.names()))
    else:
        typer.echo(json.dumps(schemas.schema(name), indent=2))


@app.verb()
def skill() -> None:
    """Print the text that teaches an agent in any CLI to use beam, as a SKILL.md.

    Put it where the agent's CLI reads skills or instructions, such as .claude/skills/beam/SKILL.md or AGENTS.md.
    """
    from beam import ExitCode

    codes = "\n".join(f"- {int(code)}: {code.meaning}" for code in ExitCode if code < ExitCode.BUG)
    text = Path(__file__).with_name("skill.md").read_text(encoding="utf-8")
    typer.echo(text.replace("{codes}", codes), nl=False)


@app.verb()
def man() -> None:
    """Print the manual page, for `man -l` or a folder of MANPATH."""
    from typer.main import get_command

    from beam.cli import app as command_line
    from beam.cli import man as manual

    typer.echo(manual.page(get_command(command_line.app)), nl=False)
