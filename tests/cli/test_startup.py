"""Start-up is a feature: what a command does not use, it does not import."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import msgspec
import pytest

import beam.model.events
import beam.model.message
import beam.model.outcome
import beam.model.state
from tests.support.cli import Cli, eventually

pytestmark = pytest.mark.acceptance

HEAVY = (
    "typer",
    "importlib.metadata",
    "asyncio",
    "yaml",
    "rich",
    "pydantic",
    "watchfiles",
    "http",
    "ssl",
    "unittest",
    "xml",
    "email",
)
REPORT = """
import sys
from beam.cli.main import run_and_flush
sys.argv = ["beam", *sys.argv[1:]]
try:
    run_and_flush()
finally:
    loaded = {name for name, module in sys.modules.items() if module is not None}
    import json
    sys.stderr.write("\\n" + json.dumps(sorted({name.partition(".")[0] for name in loaded} | loaded)))
"""


def imported(beam: Cli, *args: str) -> set[str]:
    """The modules that the command had imported when it ended, in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *args],
        cwd=beam.project,
        env=beam.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return set(json.loads(done.stderr.decode().splitlines()[-1]))


@pytest.mark.parametrize("args", [["--help"], ["send", "--help"]], ids=" ".join)
def test_help_imports_typer_and_nothing_else_that_is_heavy(beam: Cli, args: list[str]) -> None:
    found = imported(beam, *args)
    assert [name for name in HEAVY if name in found] == ["typer"]


@pytest.mark.parametrize(
    "args",
    [
        ["send", "scripted", "hi", "--no-wait"],
        ["wait", "PUT"],
        ["show", "PUT"],
        ["log", "scripted"],
        ["log", "scripted", "--json"],
        ["watch", "--now"],
        ["status"],
        ["queue", "list"],
    ],
    ids=" ".join,
)
def test_a_command_imports_nothing_heavy_that_it_does_not_use(beam: Cli, args: list[str]) -> None:
    message = beam("send", "scripted", "before", "--json").json["message_id"]
    found = imported(beam, *(message if word == "PUT" else word for word in args))
    assert [name for name in HEAVY if name in found] == []


# Each takes a millisecond or more, with what it imports itself; none is for a command that only puts or reads.
_NOT_TO_READ = ("typing_extensions", "inspect", "json", "shlex", "shutil", "beam.secrets.redact", "beam.store.journal")


@pytest.mark.parametrize(
    "args",
    [
        ["send", "scripted", "hi", "--no-wait"],
        ["wait", "PUT"],
        ["show", "PUT"],
        ["log", "scripted"],
        ["status"],
        ["queue", "list"],
    ],
    ids=" ".join,
)
def test_a_command_that_puts_or_reads_imports_no_writer(beam: Cli, args: list[str]) -> None:
    message = beam("send", "scripted", "before", "--json").json["message_id"]
    found = imported(beam, *(message if word == "PUT" else word for word in args))
    assert [name for name in _NOT_TO_READ if name in found] == []


def test_the_version_needs_no_parser_of_command_lines(beam: Cli) -> None:
    found = imported(beam, "--version")
    assert [name for name in (*HEAVY, "msgspec", "pathlib", "subprocess") if name in found - {"pathlib"}] == []


def test_a_put_imports_no_holder_and_no_journal(beam: Cli) -> None:
    found = imported(beam, "send", "scripted", "hi", "--no-wait")
    assert [
        name
        for name in ("beam.broker.holder.lease", "beam.turns.exec", "beam.store.journal", "beam.cli.see")
        if name in found
    ] == []


def test_yaml_is_imported_only_where_there_is_a_beam_yaml(beam: Cli) -> None:
    assert "yaml" not in imported(beam, "status")
    beam.config("agents:\n  a: {adapter: scripted}\n")
    assert "yaml" in imported(beam, "status")


def test_a_turn_loads_an_event_loop_but_no_openssl(beam: Cli) -> None:
    found = imported(beam, "send", "scripted", "hi")
    assert "asyncio" in found
    openssl = ["_hashlib", "_ssl", "ssl"]
    assert [name for name in openssl if name in found] == ([] if sys.platform == "linux" else openssl)


def test_a_cold_send_imports_few_modules(beam: Cli) -> None:
    """Each takes a tenth of a millisecond of CPU, whatever is in it. A new small module costs that in every turn: it is
    imported only where it is needed, or stands in the module that says more of the same."""
    beam("send", "scripted", "before")
    found = imported(beam, "send", "scripted", "hi")
    own = [name for name in found if name.partition(".")[0] == "beam"]
    assert len(own) <= 140, sorted(own)


def test_a_worker_loads_what_the_command_does_and_nothing_more(beam: Cli) -> None:
    beam("send", "scripted", "hi", "--no-wait", env={"PYTHONPROFILEIMPORTTIME": "1"})
    log = beam.root / "agents/scripted/worker.log"
    eventually(lambda: log.exists() and "beam.turns.run" in log.read_text())
    found = [line.rpartition("|")[2].strip() for line in log.read_text().splitlines()]
    assert found.index("msgspec") < found.index("inspect") < found.index("asyncio"), "typing_extensions needs inspect"
    assert [name for name in ("_ssl", "typer", "yaml") if name in found] == (
        [] if sys.platform == "linux" else ["_ssl"]
    )


def test_structs_that_are_read_at_start_have_no_annotations_to_evaluate() -> None:
    """With them as text msgspec evaluates each of some hundreds: 15 ms of every command."""
    for module in (beam.model.events, beam.model.message, beam.model.outcome, beam.model.state):
        texts = [
            f"{struct.__name__}.{name}"
            for struct in vars(module).values()
            if isinstance(struct, type) and issubclass(struct, msgspec.Struct) and struct.__module__ == module.__name__
            for name, kind in inspect.get_annotations(struct).items()
            if isinstance(kind, str)
        ]
        assert texts == []


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (0, "send scripted hi"),
        (12, "recv desk"),
        (4, "reply nosuch yes"),
        (0, "asks"),
        (4, "approve nosuch"),
        (4, "deny nosuch"),
        (4, "interrupt nosuch"),
        (4, "attach nosuch --print"),
        (0, "watch --now"),
        (0, "log scripted"),
        (0, "team list"),
        (0, "agent list --matrix"),
        (0, "agent show scripted"),
        (0, "queue list"),
        (4, "broker status"),
        (0, "broker service"),
        (0, "trust"),
        (0, "doctor"),
        (0, "dev schema"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_command_imports_all_that_it_needs_itself(beam: Cli, code: int, line: str) -> None:
    """Most tests run commands in processes that have imported all of beam."""
    assert beam("agent", "add", "desk", "mailbox").code == beam("send", "scripted", "before").code == 0
    done = beam.cold(*line.split())
    assert done.code == code, done


def test_importing_the_api_is_light(beam: Cli) -> None:
    code = "import json, sys, beam.api; sys.stderr.write(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    found = set(json.loads(done.stderr))
    assert [name for name in (*HEAVY, "subprocess") if name in found] == []
