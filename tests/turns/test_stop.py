"""The wish to end a turn: the first reason counts, the second wish means at once."""

from __future__ import annotations

import asyncio
import os
import signal

from beam.turns.handle import STOP_SIGNALS, Stop, stop_on_signals


def test_the_first_reason_counts_and_a_second_person_makes_it_hard() -> None:
    async def ask() -> Stop:
        stop = Stop()
        assert (stop.reason, stop.hard) == (None, False)
        stop.request("timeout")
        stop.request("idle")
        assert (stop.reason, stop.hard) == ("timeout", False)
        stop.request("interrupted", by="ann")
        return stop

    stop = asyncio.run(ask())
    assert (stop.reason, stop.by, stop.hard) == ("timeout", None, True)


def test_waiting_ends_with_a_wish_or_with_the_time() -> None:
    async def wait() -> None:
        stop = Stop()
        await stop.wait(0.0)
        asyncio.get_running_loop().call_soon(stop.request, "cancelled")
        await asyncio.wait_for(stop.wait(60), 10)
        assert stop.reason == "cancelled"
        asyncio.get_running_loop().call_soon(stop.request, "cancelled")
        await asyncio.wait_for(stop.wait(60), 10)
        assert stop.hard

    asyncio.run(wait())


def test_signals_are_wishes_inside_and_what_they_were_outside() -> None:
    before = [signal.getsignal(number) for number in STOP_SIGNALS]

    async def run() -> tuple[Stop, list[signal.Signals]]:
        stop = Stop()
        with stop_on_signals(stop, by="a test") as came:
            for number in (signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), number)
                await asyncio.wait_for(stop.wait(60), 10)
        return stop, came

    stop, came = asyncio.run(run())
    assert (stop.reason, stop.by, stop.hard) == ("interrupted", "a test", True)
    assert came == [signal.SIGTERM, signal.SIGHUP]
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before


def test_turns_at_the_same_time_all_get_a_signal_and_the_first_to_end_leaves_it_to_the_others() -> None:
    async def run() -> tuple[Stop, Stop]:
        first, second = Stop(), Stop()
        with stop_on_signals(second, by="a test"):
            with stop_on_signals(first, by="a test"):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.wait_for(first.wait(60), 10)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.05)
        return first, second

    first, second = asyncio.run(run())
    assert (first.hard, second.hard) == (False, True)


def test_a_signal_that_comes_while_the_context_ends_is_not_lost() -> None:
    """No pass of the event loop comes after the signal, so nothing but the end of the context can pass it on."""

    async def run() -> tuple[Stop, list[signal.Signals], list[signal.Signals]]:
        stop = Stop()
        with stop_on_signals(Stop(), by="another turn") as other, stop_on_signals(stop, by="a test") as came:
            os.kill(os.getpid(), signal.SIGTERM)
        return stop, came, other

    stop, came, other = asyncio.run(run())
    assert (stop.reason, came, other) == ("interrupted", [signal.SIGTERM], [signal.SIGTERM])


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def run() -> Stop:
        stop = Stop()
        with stop_on_signals(stop, by="a test"):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
        return stop

    try:
        assert asyncio.run(run()).reason is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
