"""`with Beam()`: a program keeps its agents' processes, and nothing of them is left when it has done."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.support.cli import Cli, eventually, is_held, processes_with
from tests.support.warm_agent import kept, place, reasons, send, started

pytestmark = pytest.mark.acceptance

HEAD = """\
import asyncio, sys
from beam import Beam, events

def say(outcome):
    print(outcome.reply or outcome.status, flush=True)

"""
WAITS = """\
with Beam() as beam:
    say(beam.send("worker", "one", via="dialogue"))
    sys.stdin.readline()
    say(beam.send("worker", "three", via="dialogue"))
"""


def program(beam: Cli, source: str) -> subprocess.Popen[str]:
    """Start a program of Python in the project."""
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + source],
        cwd=beam.project, env=beam.env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def ended(process: subprocess.Popen[str], words: str = "") -> tuple[Any, str, str]:
    out, err = process.communicate(words, timeout=60)
    return process.returncode, out, err


def nothing_left(beam: Cli) -> None:
    eventually(lambda: not processes_with(str(beam.base)), what="a process is left")


def test_its_messages_share_a_process_also_in_an_event_loop(beam: Cli) -> None:
    place(beam)
    source = """
with Beam() as beam:
    say(beam.send("worker", "one", via="dialogue"))
    say(beam.send("worker", "two", via="dialogue"))
    say(beam.wait(beam.put(beam.message("worker", "three", via="dialogue", wait=False))))
    async def main():
        say(await beam.send.aio("worker", "four", via="dialogue"))
    asyncio.run(main())

async def main():
    async with Beam() as beam:
        say(await beam.send.aio("worker", "five", via="dialogue"))
        say(await beam.send.aio("worker", "six", via="dialogue", model="big"))
asyncio.run(main())
"""
    code, out, err = ended(program(beam, source))
    assert (code, err) == (0, "")
    words = ("one", "two", "three", "four", "five")
    assert out.splitlines() == [*(f"{n} {word} small" for n, word in enumerate(words, 1)), "6 six big"]
    assert [since for _, since in started(beam)] == [None, 1, 1, 1, None, None]
    assert reasons(beam)[0] == "its holder ends"
    nothing_left(beam)


def test_other_programs_messages_are_run_by_it_or_left_to_them(beam: Cli) -> None:
    place(beam)
    running = program(beam, WAITS)
    assert line(running) == "1 one small\n"
    held = kept(beam)
    assert held is not None and (held["holder"], held["until"]) == (running.pid, None)
    assert send(beam, "two").out == "2 two small\n"
    assert [since for _, since in started(beam)] == [None, 1]
    assert send(beam, "who", env={"WHO": "bob"}).out == "[bob]\n"
    eventually(lambda: not is_held(beam, "worker"))
    assert ended(running, "\n") == (0, "4 three small\n", "")
    nothing_left(beam)


def test_a_program_that_is_killed_leaves_nothing(beam: Cli) -> None:
    place(beam)
    running = program(beam, WAITS)
    assert line(running) == "1 one small\n"
    running.kill()
    running.communicate(timeout=60)
    nothing_left(beam)
    assert kept(beam) is None
    assert send(beam, "two").out == "2 two small\n"


def test_a_signal_ends_the_turn_and_the_block(beam: Cli) -> None:
    place(beam)
    running = program(beam, 'with Beam() as beam:\n    say(beam.send("worker", "hang", via="dialogue"))\n')
    eventually(lambda: "prompt.sent" in beam.types("worker"))
    running.send_signal(signal.SIGINT)
    code, out, err = ended(running)
    assert code == 1 and "SignalledError" in err and out == ""
    assert [event["status"] for event in beam.journal("worker") if event["type"] == "turn.finished"] == ["cancelled"]
    nothing_left(beam)


def test_a_beam_keeps_once_at_a_time(beam: Cli) -> None:
    place(beam)
    code, _, err = ended(program(beam, "with Beam() as beam:\n    with beam:\n        pass\n"))
    assert code == 1 and "keeps its agents' processes already" in err
    nothing_left(beam)
