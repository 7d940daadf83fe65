"""`beam proxy`: a proxy between an agent CLI and its model. It records model calls, replays them, explains differences,
and finds what is not deterministic."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from beam import ExitCode, UsageError
from beam.cli import prompt
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.text import one_line, truncate, write_json, write_line

if TYPE_CHECKING:
    from beam import ProxyCounts, RequestDifference, ServedRequest

app = App("Stand between an agent CLI and its model: record its calls, or answer them from a recording.")
_WIDTH = 200


@app.without_command
def proxy(
    call: Context,
    record: str | None = option(None, "--record", metavar="DIR", help="Record all model calls into this folder."),
    replay: str | None = option(None, "--replay", metavar="DIR", help="Answer model calls from this folder."),
    upstream: str = option("", "--upstream", metavar="URL", help="The model's API, as https://api.anthropic.com."),
    on_miss: str | None = option(
        None,
        "--on-miss",
        metavar="WORD",
        help="With --replay: refuse what was not recorded (stop), or ask the model and record it (live).",
    ),
    fork_at: int | None = option(
        None, "--fork-at", metavar="N", min=1, help="With --replay: from the N-th model call on, ask the model."
    ),
    model: str = option("", "--model", metavar="NAME", help="With --fork-at: the model that is asked."),
    agent: str = option("", "--agent", metavar="ADAPTER", help="The agent CLI that sends the requests; default: any."),
    place: list[str] = option(
        [], "--place", metavar="NAME=DIR", help="A folder that requests may name, such as cwd=/srv/project; repeatable."
    ),
    port: int = option(0, "--port", metavar="N", min=0, max=65535, help="Port on 127.0.0.1; 0 chooses a free one."),
    max_tokens: int | None = option(None, "--max-tokens", metavar="N", min=1, help="Refuse calls beyond this."),
    budget: float | None = option(None, "--budget", metavar="USD", min=0, help="Refuse calls beyond this cost."),
    shield: str = option(
        "", "--shield", metavar="KEY", help="Where the API key is, fd:3 or its name in the keyring; needs --token."
    ),
    token: str = option("", "--token", metavar="WORD", help="The dummy key that the agent must give."),
    as_json: bool = option(False, "--json", help="Print JSON Lines: the URL, each call, and the counts."),
) -> int:
    """Serve a proxy on loopback until ^C.

    It prints its URL on the first line; point the CLI's base URL there. stderr says what happens to each model call,
    and at the end how many were exact, minor, major and unmatched.
    """
    places = {}
    for word in place:
        name, mark, directory = word.partition("=")
        if not (mark and name and directory):
            raise UsageError(f"--place {word} is not NAME=DIR", "like --place cwd=/srv/project", subject=word)
        places[name] = str(call.path(directory))

    def seen(served: ServedRequest) -> None:
        if as_json:
            write_json({"served": _json_value(served)})
            sys.stdout.flush()
        elif served.kind == "ask":
            call.note(_call_line(served))

    with (
        call.beam.proxy(
            record=None if record is None else call.path(record),
            replay=None if replay is None else call.path(replay),
            upstream=upstream,
            on_miss=prompt.parse_word("--on-miss", on_miss, ("stop", "live")) or "stop",
            fork_at=fork_at,
            fork_model=model,
            agent=agent,
            port=port,
            max_tokens=max_tokens,
            budget_usd=budget,
            token=token,
            shield=shield,
            places=places or {"cwd": str(call.cwd), "home": call.beam.environ.get("HOME", "")},
            seen=seen,
        ) as running,
        _signal_waiter() as until_one_comes,  # until it is ready, a signal ends beam, and the kernel ends the proxy
    ):
        if as_json:
            write_json({"url": running.url})
        else:
            write_line(running.url)
        sys.stdout.flush()
        until_one_comes()
        counts = running.stop()
    if as_json:
        write_json({"counts": _json_value(counts)})
    else:
        call.note(_counts_text(counts, is_replay=replay is not None))
    return int(ExitCode.FAILED) if counts.unmatched else 0


@contextlib.contextmanager
def _signal_waiter() -> Iterator[Callable[[], object]]:
    """Yield a function that waits for the first ^C, SIGTERM or SIGHUP. If such a signal has come already, the function
    returns immediately.

    The second signal has its usual effect. A signal that was ignored before, as with nohup, stays ignored.
    """
    import os
    import signal

    heard, came = os.pipe()

    def hear(number: int, frame: object) -> None:
        restore()
        os.write(came, b".")

    before = {
        number: signal.signal(number, hear)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    }

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        yield lambda: os.read(heard, 1)
    finally:
        restore()
        os.close(heard)
        os.close(came)


@app.verb()
def why(
    call: Context,
    message: str = argument(..., metavar="ID", help="The message whose turn was replayed."),
    as_json: bool = option(False, "--json", help="Print JSON Lines, one object per model call."),
) -> int:
    """Say how the model calls of a replayed turn differed from what was recorded, field by field."""
    calls = call.beam.model_calls(message)
    for each in calls:
        if as_json:
            write_json(_json_value(each))
            continue
        nearest = f", recorded call {each.nearest}" if each.nearest is not None else ""
        write_line(one_line(f"call {each.n} ({each.model}): {each.step}{nearest} {each.detail}".rstrip(), _WIDTH))
        for difference in each.differences:
            for line in _difference_lines(difference):
                write_line(f"    {line}")
    if not calls:
        call.note(f"no model call of {message} went through a proxy: beam send --replay DIR --depth model")
    return 0


@app.verb()
def doctor(
    call: Context,
    agent: str = argument(..., metavar="AGENT", help="The agent to check."),
    text: str = argument(..., metavar="TEXT", help="The prompt, which is sent twice."),
    as_json: bool = option(False, "--json", help="Print one JSON object."),
) -> int:
    """Send a prompt twice, the second time from a recording of the first, and name what is not deterministic.

    Both run in temporary sessions. The first one costs what a turn costs.
    """
    found = call.beam.check_determinism(agent, text)
    if as_json:
        write_json(_json_value(found))
    else:
        write_line(
            f"first {found.first.status}, second {found.second.status}: {found.counts.exact} exact, "
            f"{found.counts.minor} minor, {found.counts.major} major, {found.counts.unmatched} unmatched"
        )
        for outcome in (found.first, found.second):
            if outcome.reason:
                write_line(f"  {one_line(outcome.reason, _WIDTH)}")
        for path, count in found.places:
            first = next(each for one in found.calls for each in one.differences if each.path == path)
            write_line(f"  {one_line(path, _WIDTH)}: in {count} request{'s' if count > 1 else ''}")
            for line in _difference_lines(first)[1:]:
                write_line(f"    {line}")
        if not found.places and found.counts.exact:
            write_line("  every request was the same")
    return 0 if found.counts.exact == found.counts.calls and found.counts.calls else int(ExitCode.CHECK_FAILED)


def _difference_lines(difference: RequestDifference) -> list[str]:
    """Return a difference as lines of text. Values are quoted with all their spaces, because two values may differ only
    in spaces."""

    def quoted(text: str | None) -> str:
        return "is not there" if text is None else truncate(repr(text), _WIDTH)

    return [
        one_line(f"{difference.path} ({difference.characters} characters)", _WIDTH),
        f"recorded {quoted(difference.recorded)}",
        f"got      {quoted(difference.got)}",
    ]


def _call_line(served: ServedRequest) -> str:
    text = f"call {served.number} {served.model}: {served.step}"
    if served.step in ("minor", "major") and served.differences:
        first = served.differences[0]
        text += f", first in {first.path}: {first.recorded!r} → {first.got!r}"
    elif served.step == "unmatched":
        from beam import explain

        text += f": {explain(served)}"
    elif served.why:
        text += f": {served.why}"
    return one_line(text, 500)


def _counts_text(counts: ProxyCounts, *, is_replay: bool) -> str:
    if not is_replay:
        return f"{counts.live} model calls went to the model"
    return (
        f"{counts.calls} model calls: {counts.exact} exact, {counts.minor} minor, {counts.major} major, "
        f"{counts.unmatched} unmatched"
        + (f", {counts.filled} filled" if counts.filled else "")
        + (f", {counts.live} live" if counts.live else "")
    )


def _json_value(value: object) -> object:
    import msgspec

    return msgspec.to_builtins(value)
