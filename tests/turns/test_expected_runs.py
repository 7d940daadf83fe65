"""Whole runs of messages with agents in memory, from `turn.started` to `turn.finished`; and what is read of texts in a
turn: links to log in, secrets in pieces, programs.

`BEAM_WRITE_EXPECTED=1 pytest tests/turns/test_expected_runs.py` writes the expectations anew (tests/turns/expected);
read the difference before you keep it.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.agents import registry
from beam.agents.base import Capabilities, Card
from beam.base.errors import NotFoundError
from beam.broker.inbox.build_request import build_turn_request
from beam.model import events
from beam.model.events import Event
from beam.model.message import Options
from beam.model.settings import AgentSettings
from beam.turns import run as run_module
from beam.turns.installed import find_executable
from beam.turns.login import asks_to_log_in, login_link_in
from beam.turns.pieces import PieceRecorder
from beam.turns.run import run
from tests.support import expected, lines
from tests.support.context import NOON_NS, FakeClock, Root
from tests.support.memory import MEMORY_ALONE, Memory
from tests.support.secrets import PLANTED
from tests.support.turns import Recorded, handle, services
from tests.turns.dialogue.test_dialogue import Agent, Headless, Unready
from tests.turns.test_expected_turns import SCENES, file_of

HERE = Path(__file__).parent / "expected"
in_memory = MEMORY_ALONE

RUNS: dict[str, dict[str, Any]] = {
    "a plain turn": {},
    "named": {"options": Options(via="dialogue")},
    "named headless": {"options": Options(via="exec")},
    "a mode that it has not": {"options": Options(via="terminal")},
    "an access that it has not": {"options": Options(access="full")},
    "a schema": {"options": Options(schema="{}")},
    "once": {"is_kept": True, "options": Options(once=True)},
    "out of time": {"text": "deaf", "options": Options(via="dialogue", timeout=2.0)},
    "out of time while it asks": {"text": "ask", "options": Options(via="dialogue", access="ask", timeout=2.0)},
    "denied": {"text": "described", "options": Options(via="dialogue")},
    "nobody decides": {"text": "described", "options": Options(via="dialogue", access="ask")},
    "dies": {"text": "dies", "options": Options(via="dialogue")},
    "garbage": {"text": "garbage", "options": Options(via="dialogue")},
    "kept": {"is_kept": True},
    "kept, and its protocol fails": {"is_kept": True, "face": Unready()},
    "kept, named, and its protocol fails": {"is_kept": True, "face": Unready(), "options": Options(via="dialogue")},
    "kept, and leaves": {"is_kept": True, "face": lines.Lines("leaves")},
    "kept, and dies": {"is_kept": True, "text": "dies"},
}


@pytest.mark.slow
@in_memory
@pytest.mark.parametrize("name", RUNS)
def test_a_message_runs_to_its_checked_in_outcome(
    name: str, memory: Memory, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dict(RUNS[name])
    adapter = Agent()
    adapter.dialogue = given.pop("face", None) or lines.Lines()
    adapter.exec = Headless()  # type: ignore[assignment]
    can = Capabilities(access=("read", "ask"), model=True, resume=True)
    adapter.card = Card(name="lines", summary="", faces={"exec": can, "dialogue": can}, by_name=("dialogue",))
    is_kept, text = given.pop("is_kept", False), given.pop("text", "say hi")
    memory.programs["sh -c echo what; exit 3"] = lambda streams: (
        streams.stdout.write("what\n"),
        streams.stdout.flush(),
        sys.exit(3),
    )
    root.put("worker", text, **given)
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    order = structs.replace(
        build_turn_request(lease.log, claimed[1]), adapter=adapter, adapter_name="lines", is_kept=is_kept
    )
    order = structs.replace(order, settings=structs.replace(order.settings, adapter="lines"))
    told: list[Any] = []
    monkeypatch.setattr(run_module, "crash_point", lambda point: told.append({"point": point}))

    class Clock(FakeClock):
        def monotonic(self) -> float:
            return memory.now()

        def now_ns(self) -> int:
            return NOON_NS + round(memory.now() * 1000) * 1_000_000

    def record(body: Event, *, sync: bool = False) -> Event:
        told.append({**expected.of_event(body), **({"sync": True} if sync else {})})
        return body

    clock = Clock()
    turn = handle(record, clock=clock, limit=3.0)
    finished = asyncio.run(run(order, services(record, clock, poll=turn.asks.expire), turn))
    told.append({"finished": finished.status, "left": order.scratch.exists(), "above": order.scratch.parent.exists()})
    shown = expected.lines([*told, *(given["argv"] for given in memory.given)])
    for text_of, word in ((str(root.base.parent), "BASE"), (lines.__file__, "lines.py"), (sys.executable, "PYTHON")):
        shown = shown.replace(text_of, word)
    shown = re.sub(
        r'"(pid|start_ticks|boot_id|pid_namespace|host|turn_key|version)": ("[^"]*"|\d+)', r'"\1": "…"', shown
    )
    shown = re.sub(r"worker-[0-9a-z]+", "worker-ID", shown)
    expected.check(file_of_run(name), shown)


def file_of_run(name: str) -> Path:
    return HERE / "runs" / f"{re.sub('[^a-z]+', '-', name)}.jsonl"


def test_each_scene_has_a_file_of_its_own_and_each_file_its_scene() -> None:
    wanted = [*map(file_of_run, RUNS), *map(file_of, SCENES)]
    there = [path for place in ("runs", "dialogue", "terminal", "exec") for path in (HERE / place).iterdir()]
    assert sorted(there) == sorted(wanted)


# -- texts -------------------------------------------------------------------------------------------------------------

WORDS = [
    "login",
    "log-in",
    "signin",
    "sign-in",
    "auth",
    "device",
    "activate",
    "verif",
    "account",
    "apikey",
    "api-key",
    "console",
    "LOGIN",
    "novel",
]
TEXTS = [
    *(f"see https://one.example/x or https://two.example/{word}/go." for word in WORDS),
    *(
        "none",
        "https://x",
        "https://abc",
        "(https://a.example/login).",
        "'https://a.example/login'",
        "<https://a.example/b>",
    ),
    *(
        "\x1b[31mhttps://a.example/\x1b[0mlogin",
        "\x1b]8;;https://a.example/login\x07here\x1b]8;;\x07",
        "http://[::1]/auth!",
    ),
    "https://a.example/auth " + "x" * 8192,
    "https://a.example/auth " + "x" * 8100,
    "https://a.example/" + "a" * 2100,
    'say "https://a.example/login" or https://a.example/b,',
]


def test_the_link_to_log_in_is_found_in_what_a_cli_says() -> None:
    told = {text[:90]: [login_link_in([text]), asks_to_log_in(text)] for text in TEXTS}
    told["several"] = [
        login_link_in(TEXTS[-3:]),
        login_link_in(["https://a.example/1", "https://a.example/2/login"]),
        login_link_in([]),
    ]
    expected.check(HERE / "texts" / "links.json", expected.document(told))


KEY = PLANTED["anthropic-key"][0]
PIECES: dict[str, list[Any]] = {
    "cut": [f"a {KEY[:20]}", f"{KEY[20:]} b"],
    "cut and late": [f"a {KEY[:20]}", 2.0, 0.1, f"{KEY[20:]} b", "c"],
    "just in time": [f"a {KEY[:20]}", 2.0, f"{KEY[20:]} b"],
    "cut and over": [f"a {KEY[:20]}", None, f"{KEY[20:]} b"],
    "cut, over and late": [f"a {KEY[:20]}", 2.1, None, f"{KEY[20:]} b"],
    "of another speaker": [f"a {KEY[:20]}", ("p", f"{KEY[20:]} b"), "c"],
    "in three": [KEY[:12], KEY[12:30], KEY[30:], " z"],
    "open to the end": ["a sk-ant-api03-", None],
    "closed before it is open": [f"{KEY} and sk-ant-api03-", "abc d"],
    "a long one": ["x" * 70_000 + KEY[:20], KEY[20:] + " b"],
    "a piece, a key, a piece": ["one", KEY, "two", None, "three"],
}


@pytest.mark.parametrize("name", PIECES)
def test_a_secret_in_pieces_is_recorded_as_checked_in(name: str) -> None:
    journal, clock = Recorded(), FakeClock()
    pieces = PieceRecorder(journal, clock)
    told: list[Any] = []
    for piece in PIECES[name]:
        if isinstance(piece, float):
            clock.sleep(piece)
            pieces.record_overdue()
        elif piece is None:
            pieces(events.StatusChanged(state="idle"))
        else:
            parent, text = piece if isinstance(piece, tuple) else (None, piece)
            pieces(events.Thinking(text=text, parent=parent, raw=f"raw {text}"))
        told.append([f"{getattr(event, 'text', '·')[-60:]} {hasattr(event, 'raw')}" for event in journal.events])
        journal.events.clear()
    expected.check(HERE / "texts" / f"pieces-{name.replace(' ', '-').replace(',', '')}.jsonl", expected.lines(told))


def test_a_cli_is_found_by_its_name_its_path_or_where_the_runner_runs_it(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    claude, mailbox = registry.adapter("claude"), registry.adapter("mailbox")
    path = {"PATH": f"relative:{program.parent}", "HOME": "/none"}

    def found(**fields: Any) -> str:
        return find_executable(claude, AgentSettings(**fields), path, tmp_path)

    assert found() == found(executable=str(program)) == found(executable="bin/claude") == str(program)
    assert found(executable="bin/../bin/claude") == str(program)
    assert found(runner=("docker", "run")) == "claude"
    assert found(executable="other", runner=("docker", "run")) == "other"
    assert find_executable(mailbox, AgentSettings(), path, tmp_path) == ""
    for fields in ({"executable": "nobody"}, {"executable": "bin/nobody"}, {"executable": "bin"}):
        with pytest.raises(NotFoundError) as missing:
            found(**fields)
        error = missing.value
        assert (error.message, error.subject, error.kind) == (
            f"{fields['executable']} is not installed here",
            "claude",
            "not_installed",
        )
        assert error.hint == claude.card.install
    with pytest.raises(NotFoundError):
        find_executable(claude, AgentSettings(), {"PATH": "bin"}, tmp_path)
