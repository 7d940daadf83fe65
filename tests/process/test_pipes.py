from __future__ import annotations

import asyncio

import pytest

from beam.process.pipes import GuardStatus, HeldProcess, Output, do_nothing

Said = tuple[HeldProcess, bool, int, int | None, str | None, tuple[int, int] | None]


def said(*chunks: bytes) -> Said:
    async def main() -> Said:
        status = GuardStatus(asyncio.get_running_loop())
        for chunk in chunks:
            status.feed(chunk)
        status.end()
        return (
            await status.held,
            await status.executed,
            status.errno,
            status.code,
            status.signal,
            status.clean,
        )

    return asyncio.run(main())


WHOLE = b"held 12 345\nrunning\nexited 3 -\nclean 2 1 17\n"


def test_the_status_of_a_guard_reads_the_same_in_one_piece_and_byte_by_byte() -> None:
    expected = (HeldProcess(pid=12, start_ticks=345), True, 0, 3, None, (2, 1))
    assert said(WHOLE) == said(*(bytes([byte]) for byte in WHOLE)) == expected


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (15, "SIGTERM"), (40, "SIG40")])
def test_a_signal_has_its_name(number: int, name: str) -> None:
    told = said(b"held 1 2\nrunning\nexited - %d\n" % number)
    assert told == (HeldProcess(pid=1, start_ticks=2), True, 0, None, name, None)


def test_an_exec_that_failed_left_nothing_to_clean() -> None:
    assert said(b"held 1 2\nfailed 2\n") == (HeldProcess(pid=1, start_ticks=2), False, 2, None, None, (0, 0))


def test_an_agent_that_could_not_be_forked_is_not_there() -> None:
    assert said(b"failed 11\n") == (HeldProcess(), False, 11, None, None, (0, 0))


def test_an_agent_that_was_never_let_go_was_not_executed() -> None:
    assert said(b"held 1 2\nexited - 9\nclean 0 0 1\n")[1] is False


def test_a_guard_that_said_nothing_did_not_start() -> None:
    assert said() == (HeldProcess(), False, 0, None, None, None)


def output(line_bytes: int = 100) -> tuple[Output, list[object]]:
    seen: list[object] = []
    return (
        Output(seen.append, lambda: seen.append("output"), lambda: seen.append("long"), line_bytes),
        seen,
    )


def test_a_long_line_is_reported_after_it_was_given() -> None:
    out, seen = output(4)
    out.feed(b"12345\nab\nc")
    out.end()
    assert seen == [b"1234", b"ab", "output", "long", b"c"]


def test_after_a_callback_failed_none_is_called_again_and_the_failure_is_kept() -> None:
    called = []

    def fail(line: bytes) -> None:
        called.append(line)
        raise ZeroDivisionError

    out = Output(fail, do_nothing, do_nothing, 100)
    out.fail = lambda: called.append(b"fail")
    out.feed(b"a\nb\n")
    out.feed(b"c\n")
    out.end()
    assert called == [b"a", b"fail"]
    assert isinstance(out.error, ZeroDivisionError)


def test_lines_of_stderr_are_given_only_to_who_wants_them_and_are_a_sign_of_life_to_all() -> None:
    seen: list[object] = []
    wanted = Output(
        seen.append, lambda: seen.append("output"), do_nothing, 100, lambda line: seen.append((b"error", line))
    )
    wanted.feed_errors(b"one\ntw")
    wanted.feed_errors(b"o")
    wanted.end_errors()
    assert seen == [(b"error", b"one"), "output", "output", (b"error", b"two")]
    out, seen = output()
    out.feed_errors(b"one\n")
    out.end_errors()
    assert seen == ["output"]
