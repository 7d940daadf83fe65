from __future__ import annotations

import asyncio
import gc
import itertools
import os
import resource
import signal
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam.base.errors import BeamError, ConfigError, NotFoundError, ShortageError
from beam.process import guard, spawn, tree
from tests.process import trees

pytestmark = pytest.mark.acceptance

T = TypeVar("T")
ENV = {"PATH": os.environ["PATH"]}
KEY = f"spawntest{os.getpid()}"  # guards of one key end each other
PYTHON = [sys.executable, "-I", "-S", "-c"]


def run(work: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(30):
            return await work

    return asyncio.run(bounded(), debug=False)


async def hold(argv: list[str], on_line: Callable[[bytes], None] = lambda line: None, **more: Any) -> spawn.Child:
    return await spawn.start(argv, **{"env": ENV, "cwd": "/", "turn_key": KEY, "on_line": on_line, **more})


async def start(argv: list[str], on_line: Callable[[bytes], None] = lambda line: None, **more: Any) -> spawn.Child:
    child = await hold(argv, on_line, **more)
    child.go()
    return child


def outcome(argv: list[str], *, feed: bytes | None = None, **more: Any) -> tuple[spawn.ProcessEnd, list[bytes]]:
    lines: list[bytes] = []

    async def main() -> spawn.ProcessEnd:
        child = await start(argv, lines.append, stdin=feed is not None, **more)
        if feed is not None:
            await child.feed(feed)
        return await child.wait()

    return run(main()), lines


def test_an_agent_that_exits_has_a_code_its_lines_and_the_end_of_its_stderr() -> None:
    ended, lines = outcome(["sh", "-c", "echo one; echo two; echo oops >&2; exit 3"])
    assert (ended, lines) == (spawn.ProcessEnd(code=3, stderr_tail="oops\n"), [b"one", b"two"])


@pytest.mark.parametrize("name", ["KILL", "TERM", "INT", "PIPE", "USR1"])
def test_an_agent_that_is_killed_has_a_signal(name: str) -> None:
    ended, _ = outcome(["sh", "-c", f"kill -{name} $$; exit 9"])
    assert (ended.code, ended.signal) == (None, f"SIG{name}")


def test_a_child_is_named_by_pid_and_start() -> None:
    async def main() -> None:
        child = await start(["cat"], stdin=True)
        assert tree.start_ticks(child.pid) == child.start_ticks
        assert tree.start_ticks(child.guard_pid) == child.guard_start_ticks
        assert child.stopped_by is None
        await child.feed(b"")
        assert (await child.wait()).code == 0
        assert tree.start_ticks(child.pid) is None
        assert tree.start_ticks(child.guard_pid) is None

    run(main())


@pytest.mark.parametrize("size", [1_000_000, 20_000_000])
def test_a_line_may_be_very_long(size: int) -> None:
    ended, lines = outcome([*PYTHON, f"print('x' * {size}); print('end', end='')"])
    assert (ended.code, [len(line) for line in lines], lines[1]) == (0, [size, 3], b"end")


HASTY = """
import os
os.set_blocking(1, False)
rest = memoryview(b"0123456789abcde\\n" * 327_680 + b"the result\\n")
try:
    while rest:
        rest = rest[os.write(1, rest):]
except BlockingIOError:
    pass
"""


def hasty(**more: Any) -> tuple[int | None, int, bool]:
    """Code, bytes and whether the last line came, of an agent that writes 5 MiB, drops what does not fit, exits 0."""
    ended, lines = outcome([*PYTHON, HASTY], **more)
    return ended.code, sum(len(line) + 1 for line in lines), lines[-1] == b"the result"


def test_an_agent_that_does_not_wait_for_its_reader_loses_output_to_a_pipe_and_nothing_to_a_file(
    tmp_path: Path,
) -> None:
    whole = 16 * 327_680 + len("the result\n")
    code, received, complete = hasty()
    assert (code, received < whole, complete) == (0, True, False)
    for _ in range(5):
        assert hasty(stdout_in=tmp_path) == (0, whole, True)


def test_a_reader_that_is_late_loses_nothing_of_a_file(tmp_path: Path) -> None:
    lines: list[bytes] = []

    async def main() -> spawn.ProcessEnd:
        child = await start([*PYTHON, HASTY], lines.append, stdout_in=tmp_path)
        while tree.start_ticks(child.pid):
            time.sleep(0.01)  # the event loop is busy until the agent is over
        return await child.wait()

    assert run(main()).code == 0
    assert (len(lines), lines[-1]) == (327_681, b"the result")


def test_a_file_tells_each_line_when_it_is_written(tmp_path: Path) -> None:
    async def main() -> list[bytes]:
        lines: list[bytes] = []
        arrived = asyncio.Event()

        def on_line(line: bytes) -> None:
            lines.append(line)
            arrived.set()

        child = await start(["cat"], on_line, stdin=True, stdout_in=tmp_path)
        await child.write(b"one\n")
        await arrived.wait()
        assert lines == [b"one"]
        await child.feed(b"two")
        await child.wait()
        return lines

    assert run(main()) == [b"one", b"two"]


def test_a_megabyte_waits_in_the_pipe_for_a_reader_that_is_late() -> None:
    lines: list[bytes] = []
    write = "import os; os.set_blocking(1, False); os._exit(os.write(1, b'x' * 1_000_000) != 1_000_000)"

    async def main() -> spawn.ProcessEnd:
        child = await start([*PYTHON, write], lines.append)
        while tree.start_ticks(child.pid):
            time.sleep(0.01)
        return await child.wait()

    assert (run(main()).code, [len(line) for line in lines]) == (0, [1_000_000])


def test_what_the_pipe_holds_at_the_end_is_delivered_although_a_process_out_of_reach_keeps_it_open() -> None:
    lines: list[bytes] = []

    async def main() -> None:
        child = await start(["sh", "-c", "echo last; read x"], lines.append, stdin=True)
        kept = os.dup(child._process.stdout.fileno())  # keeps the pipe; its writing end is opened again
        again = os.open(f"/proc/self/fd/{kept}", os.O_WRONLY)
        os.write(again, b"later\n")
        await child.feed(b"go\n")
        await child.wait()
        os.close(again)
        os.close(kept)

    run(main())
    assert sorted(lines) == [b"last", b"later"]


def test_a_line_beyond_the_limit_is_cut_and_told() -> None:
    told: list[None] = []
    ended, lines = outcome(
        [*PYTHON, "print('x' * 300_000); print('next')"],
        line_bytes=100_000,
        on_long_line=lambda: told.append(None),
    )
    assert (ended.code, [len(line) for line in lines], told) == (0, [100_000, 4], [None])


def test_bytes_that_are_no_text_arrive_as_they_are() -> None:
    code = (
        r"import sys; sys.stdout.buffer.write(b'\xff\xfe\0\x80\n\0\n\n\xc3'); sys.stderr.buffer.write(b'\xff\0 oops')"
    )
    ended, lines = outcome([*PYTHON, code])
    assert (lines, ended.stderr_tail) == ([b"\xff\xfe\0\x80", b"\0", b"", b"\xc3"], "\N{REPLACEMENT CHARACTER}\0 oops")


def test_only_the_last_lines_of_stderr_are_kept() -> None:
    ended, _ = outcome([*PYTHON, "import sys; [print(i, file=sys.stderr) for i in range(10_000)]"], stderr_lines=3)
    assert ended.stderr_tail == "9997\n9998\n9999\n"


@given(st.lists(st.binary(max_size=2000), max_size=5))
@settings(max_examples=5)
def test_what_is_fed_is_what_a_copying_agent_says(parts: list[bytes]) -> None:
    data = b"\n".join(parts) + b"\n"
    assert outcome(["cat"], feed=data)[1] == data.split(b"\n")[:-1]


def test_five_megabytes_are_fed_to_an_agent_that_reads_and_writes_at_once() -> None:
    data = b"0123456789abcde\n" * (5 * 65536)
    ended, lines = outcome(["cat"], feed=data)
    assert (ended.code, len(lines), lines[-1]) == (0, 5 * 65536, b"0123456789abcde")


@pytest.mark.parametrize("script", ["exec <&-; sleep 0.1; exit 4", "head -c 10 >/dev/null; exit 4", "exit 4"])
def test_an_agent_that_does_not_read_its_stdin_is_no_error(script: str) -> None:
    assert outcome(["sh", "-c", script], feed=b"x" * 5_000_000)[0].code == 4


def test_stdin_may_be_written_in_steps() -> None:
    async def main() -> list[bytes]:
        lines: list[bytes] = []
        arrived = asyncio.Event()

        def on_line(line: bytes) -> None:
            lines.append(line)
            arrived.set()

        child = await start(["cat"], on_line, stdin=True)
        await child.write(b"one\n")
        await arrived.wait()
        assert lines == [b"one"]
        await child.feed(b"two")
        await child.wait()
        return lines

    assert run(main()) == [b"one", b"two"]


def test_without_stdin_the_agent_reads_nothing() -> None:
    assert outcome(["cat"]) == (spawn.ProcessEnd(code=0), [])


def test_any_output_is_activity_also_without_a_newline_or_on_stderr() -> None:
    async def main(argv: list[str]) -> None:
        seen = asyncio.Event()
        child = await start(argv, on_output=seen.set)
        await seen.wait()
        child.end(0)
        await child.wait()

    run(main(["sh", "-c", "printf x; sleep 600"]))
    run(main(["sh", "-c", "printf x >&2; sleep 600"]))


def test_a_background_child_that_holds_stdout_does_not_hold_up_the_turn() -> None:
    ended, lines = outcome(["sh", "-c", "(trap '' TERM; sleep 600) & echo done; exit 6"])
    assert (ended.code, ended.left, lines) == (6, 0, [b"done"])
    assert ended.swept >= 1


@pytest.mark.parametrize("kind", ["plain", "cleared-daemon", "many"])
def test_nothing_is_left_when_the_child_was_waited_for(kind: str, tmp_path: Path) -> None:
    ended, lines = outcome([sys.executable, "-I", "-S", trees.__file__, kind, str(tmp_path), "exit"])
    assert (ended.code, ended.left, lines) == (7, 0, [b"ready"])
    assert ended.swept >= 1
    assert trees.is_gone(tmp_path)


def test_a_child_is_not_executed_before_it_is_let_go(tmp_path: Path) -> None:
    async def main() -> spawn.ProcessEnd:
        child = await hold(["touch", str(tmp_path / "ran")], unstarted=tmp_path / "unstarted")
        assert tree.start_ticks(child.pid) == child.start_ticks
        assert list(tmp_path.iterdir()) == []
        child.go()
        assert await child.wait_for_exec()
        return await child.wait()

    assert run(main()).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["ran"]


def test_a_child_that_is_ended_before_it_was_let_go_leaves_word(tmp_path: Path) -> None:
    async def main() -> None:
        child = await hold(["touch", str(tmp_path / "ran")], unstarted=tmp_path / "unstarted")
        child.end(60)
        child.go()
        assert not await child.wait_for_exec()
        await child.wait()

    run(main())
    assert [path.name for path in tmp_path.iterdir()] == ["unstarted"]


WEDGED = (
    "guard._wait = wedged; guard.main(told)",
    (
        "wedged = lambda guard, **more: "
        "(guard.release_agent(), guard.report_exec_result(9), [time.sleep(9) for _ in range(99)])"
    ),
)


@pytest.mark.parametrize("grandchild", ["sleep 600 &", "env -i setsid sleep 600 &"])
@pytest.mark.parametrize("then", ["sleep 600", "exit 3"])
def test_a_guard_that_does_nothing_any_more_is_killed_with_all_that_the_agent_left(
    then: str, grandchild: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = guard._BOOT.replace("guard.main(told)", f"import time; {WEDGED[1]}; {WEDGED[0]}")
    monkeypatch.setattr(guard, "_BOOT", boot)
    monkeypatch.setattr(spawn, "WEDGED_SECONDS", 0.5)
    monkeypatch.setattr(spawn, "LOOK_SECONDS", 0.1)

    async def main() -> spawn.ProcessEnd:
        ready = asyncio.Event()
        pids: list[int] = []

        def on_line(line: bytes) -> None:
            pids.extend(map(int, line.split()))
            ready.set()

        child = await start(["sh", "-c", f"{grandchild} echo $!; exec >&- 2>&-; {then}"], on_line)
        await ready.wait()
        if then != "exit 3":  # it ended by itself: the guard should have seen that
            child.end(0.1)
        ended = await child.wait()
        assert all(tree.start_ticks(pid) is None for pid in [child.guard_pid, child.pid, *pids])
        return ended

    ended = run(main())
    assert (ended.code, ended.signal, ended.left) == (None, None, 0)


def test_a_guard_that_somebody_stopped_goes_on_when_the_end_is_wanted() -> None:
    async def main() -> spawn.ProcessEnd:
        ready = asyncio.Event()
        child = await start(
            ["sh", "-c", "trap 'exit 4' TERM; echo up; while :; do sleep 0.01; done"], lambda _: ready.set()
        )
        await ready.wait()
        os.kill(child.guard_pid, signal.SIGSTOP)
        child.end(5)
        return await child.wait()

    assert run(main()).code == 4


def test_ending_gives_the_agent_its_grace() -> None:
    async def main() -> spawn.ProcessEnd:
        ready = asyncio.Event()
        script = "trap 'echo bye; exit 8' TERM; echo ready; while :; do sleep 0.01; done"
        child = await start(["sh", "-c", script], lambda line: ready.set())
        await ready.wait()
        child.end(10)
        return await child.wait()

    assert run(main()).code == 8


def test_an_interrupt_reaches_the_agent() -> None:
    async def main() -> spawn.ProcessEnd:
        ready = asyncio.Event()
        child = await start(
            ["sh", "-c", "trap 'exit 12' TERM; echo ready; while :; do sleep 0.01; done"], lambda line: ready.set()
        )
        await ready.wait()
        child.interrupt("SIGTERM")
        ended = await child.wait()
        child.interrupt("SIGTERM")
        child.end(0)
        return ended

    assert run(main()).code == 12


@pytest.mark.parametrize("grandchild", ["sleep 600 &", "env -i setsid sleep 600 &", ""])
def test_a_killed_guard_is_an_end_that_nobody_knows(grandchild: str) -> None:
    async def main() -> spawn.ProcessEnd:
        ready = asyncio.Event()
        pids: list[int] = []

        def on_line(line: bytes) -> None:
            pids.extend(map(int, line.split()))
            ready.set()

        child = await start(["sh", "-c", f"{grandchild} echo $!; sleep 600"], on_line)
        await ready.wait()
        os.kill(child.guard_pid, signal.SIGKILL)
        ended = await child.wait()
        assert all(tree.start_ticks(pid) is None for pid in [child.pid, *pids])
        return ended

    assert tree.become_subreaper()
    ended = run(main())
    assert (ended.code, ended.signal, ended.left) == (None, None, 0)


def test_children_at_once_do_not_touch_each_other() -> None:
    async def main() -> list[spawn.ProcessEnd]:
        children = [
            await start(["sh", "-c", f"setsid sleep 600 & read x; exit {n}"], turn_key=f"{KEY}n{n}", stdin=True)
            for n in range(6)
        ]
        os.kill(children[5].guard_pid, signal.SIGKILL)
        first = await children[5].wait()
        for child in children[:5]:
            await child.feed(b"go\n")
        return [first, *(await asyncio.gather(*(child.wait() for child in children[:5])))]

    tree.become_subreaper()
    first, *others = run(main())
    assert (first.code, first.left) == (None, 0)
    assert [ended.code for ended in others] == [0, 1, 2, 3, 4]


def test_what_a_callback_raises_ends_the_tree_and_is_raised_by_wait() -> None:
    def fail(line: bytes) -> None:
        raise ZeroDivisionError(line)

    async def main() -> None:
        child = await start(["sh", "-c", "setsid sleep 600 & echo $!; sleep 600"], fail)
        with pytest.raises(ZeroDivisionError) as caught:
            await child.wait()
        assert tree.start_ticks(int(caught.value.args[0])) is None
        assert tree.start_ticks(child.pid) is None

    run(main())


def test_waiting_may_be_given_up_and_taken_up_again() -> None:
    async def main() -> spawn.ProcessEnd:
        child = await start(["cat"], stdin=True)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await child.wait()
        assert tree.start_ticks(child.pid) == child.start_ticks
        await child.feed(b"")
        await child.wait()
        return await child.wait()

    assert run(main()).code == 0


def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    async def main() -> None:
        starting = asyncio.ensure_future(start(["sleep", "600"], turn_key=f"{KEY}cancelled"))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    run(main())
    assert tree.end_processes(spawn.marker_name(f"{KEY}cancelled"), []) == tree.CleanupResult()


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program"])
def test_a_program_that_is_not_there_is_not_installed(program: str) -> None:
    with pytest.raises(NotFoundError, match="was not found") as caught:
        outcome([program])
    assert (caught.value.kind, caught.value.subject) == ("not_installed", program)


def script(folder: Path, text: bytes, mode: int) -> str:
    path = folder / "program"
    path.write_bytes(text)
    path.chmod(mode)
    return str(path)


def test_a_script_whose_interpreter_is_not_there_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="interpreter"):
        outcome([script(tmp_path, b"#!/no/such/interpreter\n", 0o755)])


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [(b"#!/bin/sh\n", 0o644, "may not be executed"), (b"just text\n", 0o755, "not a program")],
)
def test_a_file_that_cannot_be_executed_is_an_error(text: bytes, mode: int, said: str, tmp_path: Path) -> None:
    with pytest.raises(BeamError, match=said) as caught:
        outcome([script(tmp_path, text, mode)])
    assert not isinstance(caught.value, NotFoundError)


def test_arguments_that_are_too_long_are_an_error() -> None:
    with pytest.raises(BeamError, match="too long"):
        outcome(["true", "x" * 200_000])


def test_an_argument_with_a_nul_is_an_error() -> None:
    with pytest.raises(BeamError, match="could not be started"):
        outcome(["true", "x\0y"])


def test_a_folder_that_is_not_there_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        outcome(["true"], cwd=str(tmp_path / "gone"))


@pytest.mark.parametrize("terminal", [False, True])
def test_a_shortage_of_descriptors_is_said_as_such_wherever_it_strikes(terminal: bool, tmp_path: Path) -> None:
    async def main() -> list[str]:
        said = []
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        for room in range(1, 30):
            tempfile.tempdir = None  # as in a process that has not looked for one yet
            names = descriptors()
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit_for(room), before[1]))
            try:
                if terminal:
                    what = {"columns": 80, "rows": 24, "on_data": lambda data: None, "turn_key": KEY}
                    child = await spawn.start_in_terminal(["true"], env=ENV, cwd="/", **what)
                else:
                    child = await hold(["true"], stdin=True, stdout_in=tmp_path / str(room))
                child.go()
                await child.wait()
                said.append("ran")
            except ShortageError:
                said.append("shortage")
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
            assert descriptors() == names
        return said

    said = run(main())
    assert said == sorted(said, reverse=True), "less room is no better"
    assert set(said) == {"shortage", "ran"}


def limit_for(room: int) -> int:
    """The limit of descriptors that leaves so many, whatever numbers this process has open."""
    taken = set(map(int, descriptors()))
    free = (number for number in itertools.count() if number not in taken)
    return next(itertools.islice(free, room, None))


def descriptors() -> list[str]:
    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())


def test_no_descriptor_and_no_child_is_left_behind() -> None:
    before = descriptors()
    outcome(["sh", "-c", "echo x; sleep 600 &"], feed=b"x")
    with pytest.raises(NotFoundError):
        outcome(["no-such-program"])
    with pytest.raises(BeamError):
        outcome(["true", "x" * 200_000])
    assert descriptors() == before
    assert tree.spared_pids == set()


@pytest.mark.parametrize("in_file", [False, True])
def test_a_child_that_ended_is_freed_at_once_and_not_when_garbage_is_collected(in_file: bool, tmp_path: Path) -> None:
    async def one() -> weakref.ref[spawn.Child]:
        lines: list[bytes] = []
        child = await start(["cat"], lines.append, stdin=True, stdout_in=tmp_path if in_file else None)
        await child.feed(b"x")
        await child.wait()
        assert lines == [b"x"]
        return weakref.ref(child)

    async def main() -> spawn.Child | None:
        ended = await one()
        await asyncio.sleep(0)
        return ended()

    gc.disable()
    try:
        assert run(main()) is None
    finally:
        gc.enable()


def test_a_child_started_from_a_thread_lives_as_any_other() -> None:
    with ThreadPoolExecutor(1) as pool:
        ended, lines = pool.submit(outcome, ["cat"], feed=b"x\n").result()
    assert (ended, lines) == (spawn.ProcessEnd(code=0), [b"x"])
