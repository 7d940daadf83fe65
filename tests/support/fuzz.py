"""Mutated inputs for every reader, in a process of its own that may take 200 MB more and a second for each.

`python -m tests.support.fuzz [--seed N] [--inputs N | --seconds S] [--only WORD]`. The same seed and number of inputs
give the same inputs; one that fails is printed as bytes, and shrunk. Mutations are AFL's, and some that know JSON.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import importlib
import mmap
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

MAX_BYTES = 128 * 1024  # of an ordinary input; one in a hundred may have two megabytes
MONSTROUS_BYTES = 2 << 20
MEMORY_BYTES = 200 << 20
CPU_S = 1.0
STUCK = "is stuck"
CORPUS = 60  # inputs that a reader took in a new way are mutated further, so many of them
REPORTS = 20
SHRINK_S = 5.0

TOKENS = (
    *(
        b"null",
        b"true",
        b"-1",
        b"0",
        b"1e308",
        b"1e999",
        b"-0.0",
        b"9" * 20,
        b"9" * 400,
        b"9" * 5000,
        b"0." + b"1" * 99,
    ),
    *(b"18446744073709551615", b"18446744073709551616", b"9223372036854775807", b"-9223372036854775808"),
    *(b'""', b"[]", b"{}", b"[[]]", b'{"":{}}', b'"\\ud800"', b'"\\udfff\\ud800"', b'"\\u0000"', b"\0", b"\xff\xfe"),
    *(
        b"\xed\xa0\x80",
        b"\xf0\x9f\x92\xa9",
        b"\xef\xbb\xbf",
        b"\xc2\xb2",
        b"\r\n",
        b"\n\n",
        b"\x1b[2J",
        b"\x1b]0;",
        b"\x9b",
    ),
    *(b'"type":', b'"v":', b'"id":', b'"seq":', b'"ts":', b'"covers":', b'"attempt":', b'"text":', b'"turn":'),
    *(b'"0001-01-01T00:00:00Z"', b'"9999-12-31T23:59:59-23:59"', b'"2262-04-12T00:00:00Z"', b'"1969-12-31"'),
    *(b"&a [*a, *a]", b"<<: *a", b"!!python/object:os.system", b"? ", b"- ", b"1:1:1:1", b"0x" + b"f" * 99, b"%s%n"),
    *(b"../../../etc/passwd", b"/dev/zero", b"a" * 300, b"NaN", b"Infinity", b"-Infinity", b"\\", b'"', b",", b":"),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_VALUE = re.compile(rb'(?<=[:,\[])\s*(?:"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)')


@dataclass
class Reader:
    """One reader: `feed` gets an input and may raise what is `allowed`, nothing else."""

    name: str
    seeds: Sequence[bytes]
    feed: Callable[[bytes], object]
    allowed: tuple[type[BaseException], ...] = ()
    tokens: Sequence[bytes] = ()
    corpus: list[bytes] = field(default_factory=list)
    shapes: set[str] = field(default_factory=set)
    slowest: float = 0.0
    inputs: int = 0


class Failure(Exception):
    """What a reader did that it must not."""


# -- mutations ---------------------------------------------------------------------------------------------------------


def mutated(chance: random.Random, reader: Reader) -> bytes:
    """One input more."""
    pool = [*reader.seeds, *reader.corpus] or [b""]
    data = chance.choice(pool)[:MAX_BYTES]
    most = MONSTROUS_BYTES if chance.random() < 0.01 else MAX_BYTES
    for _ in range(chance.choice((1, 1, 1, 2, 3, 5, 9))):
        data = chance.choice(_MUTATIONS)(chance, data, pool, (*TOKENS, *reader.tokens), most)[:most]
    return data


def _at(chance: random.Random, data: bytes) -> int:
    return chance.randrange(len(data) + 1)


def _span(chance: random.Random, data: bytes) -> tuple[int, int]:
    begin = _at(chance, data)
    return begin, min(len(data), begin + chance.choice((1, 2, 8, 40, 400, 5000)))


def _flip(chance: random.Random, data: bytes, *_: object) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _byte(chance: random.Random, data: bytes, *_: object) -> bytes:
    at = _at(chance, data)
    return data[:at] + bytes([chance.choice((0, 10, 13, 27, 34, 44, 58, 91, 92, 123, 127, 128, 255))]) + data[at + 1 :]


def _delete(chance: random.Random, data: bytes, *_: object) -> bytes:
    begin, end = _span(chance, data)
    return data[:begin] + data[end:]


def _truncate(chance: random.Random, data: bytes, *_: object) -> bytes:
    return data[: _at(chance, data)]


def _token(chance: random.Random, data: bytes, _: object, tokens: Sequence[bytes], __: object) -> bytes:
    at = _at(chance, data)
    return data[:at] + chance.choice(tokens) + data[at:]


def _replace(chance: random.Random, data: bytes, _: object, tokens: Sequence[bytes], __: object) -> bytes:
    """Another value in place of one of JSON's."""
    found = [match.span() for match in _VALUE.finditer(data[:20_000])]
    if not found:
        return _token(chance, data, _, tokens, __)
    begin, end = chance.choice(found)
    return data[:begin] + chance.choice(tokens) + data[end:]


def _number(chance: random.Random, data: bytes, *_: object) -> bytes:
    found = [match.span() for match in _NUMBER.finditer(data[:20_000])]
    if not found:
        return data
    begin, end = chance.choice(found)
    huge = (b"9" * 19, b"9" * 20, b"9" * 310, b"9" * 4500, b"-1", b"-" + b"9" * 19, b"0", b"1e400", b"0.5", b"\xc2\xb2")
    return data[:begin] + chance.choice(huge) + data[end:]


def _repeat(chance: random.Random, data: bytes, _: object, __: object, most: int) -> bytes:
    begin, end = _span(chance, data)
    block = data[begin:end]
    times = min(chance.choice((2, 10, 200, 100_000)), max(0, most - len(data)) // max(1, len(block)))
    return data[:end] + block * times + data[end:]


def _splice(chance: random.Random, data: bytes, pool: Sequence[bytes], *_: object) -> bytes:
    other = chance.choice(pool)
    return data[: _at(chance, data)] + other[_at(chance, other) :]


def _nest(chance: random.Random, data: bytes, *_: object) -> bytes:
    at, depth = _at(chance, data), chance.choice((5, 40, 400, 990, 1100, 20_000))
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"- ", b""), (b"{a: ", b"}"), (b"(", b")")))
    inner = chance.choice((b"", b"1", b"null", data[at : at + 50]))
    return data[:at] + opening * depth + inner + (closing * depth if chance.random() < 0.7 else b"") + data[at:]


def _lines(chance: random.Random, data: bytes, *_: object) -> bytes:
    lines = data.split(b"\n")
    for _ in range(chance.choice((1, 2, 5))):
        a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a]
    if chance.random() < 0.3:
        lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
    return b"\n".join(lines)


def _zeros(chance: random.Random, data: bytes, *_: object) -> bytes:
    begin, end = _span(chance, data)
    return data[:begin] + bytes(end - begin) + data[end:]


_MUTATIONS: tuple[Callable[..., bytes], ...] = (
    *(_flip, _byte, _delete, _truncate, _token, _replace, _replace, _number, _repeat, _splice, _nest, _lines, _zeros),
)


# -- running -----------------------------------------------------------------------------------------------------------


def shape(outcome: object) -> str:
    """What is new about how a reader took an input: the words of an error, without what differs each time."""
    if isinstance(outcome, BaseException):
        return re.sub(r"[\d'\"`].*", "", f"{type(outcome).__name__} {str(outcome)[-60:]}")
    return type(outcome).__name__


def feed(reader: Reader, data: bytes) -> None:
    """One input. Raises Failure."""
    took = _fed(reader, data)
    if took > CPU_S:
        took = min(took, _fed(reader, data))  # the first time it may have been the machine
    reader.slowest = max(reader.slowest, took)
    if took > CPU_S:
        raise Failure("takes more than a second")


def _fed(reader: Reader, data: bytes) -> float:
    """The seconds of CPU that it took."""
    began = time.process_time()
    try:
        outcome: object = reader.feed(data)
    except Failure:
        raise
    except reader.allowed as error:
        outcome = error
    except MemoryError as error:
        raise Failure(f"takes more than {MEMORY_BYTES >> 20} MB") from error
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise Failure(f"{type(error).__name__} in {where.filename.rpartition('/')[2]}: {where.name}") from error
    took = time.process_time() - began
    new = shape(outcome)
    if new not in reader.shapes and len(reader.corpus) < CORPUS:
        reader.shapes.add(new)
        reader.corpus.append(data[:MAX_BYTES])
    return took


def shrunk(reader: Reader, data: bytes, why: str) -> bytes:
    """A shorter input that fails in the same way, as far as that is found in a moment."""
    until, size = time.monotonic() + SHRINK_S, len(data) // 2
    while size and time.monotonic() < until:
        at = 0
        while at < len(data) and time.monotonic() < until:
            shorter = data[:at] + data[at + size :]
            if _fails(reader, shorter, why):
                data = shorter
                continue
            at += size
        size //= 2
    return data


def _fails(reader: Reader, data: bytes, why: str) -> bool:
    try:
        feed(reader, data)
    except Failure as failure:
        return str(failure) == why
    return False


def report(reader: Reader, data: bytes, why: str, trace: str = "") -> None:
    """Says what failed, and with which bytes."""
    shown = repr(data) if len(data) <= 2000 else f"{data[:1000]!r} … {data[-500:]!r}"
    print(f"FAILED {reader.name}: {why}\n  {len(data)} bytes: {shown}\n{trace}", flush=True)


def run(readers: Sequence[Reader], options: argparse.Namespace, now: mmap.mmap) -> int:
    """Feeds each reader so many inputs, or all of them for that long; how many ways to fail were found."""
    seed, inputs, seconds = options.seed, options.inputs, options.seconds
    failures: set[tuple[str, str]] = set()
    began = time.monotonic()
    turn = 0
    while turn < inputs if inputs else time.monotonic() - began < seconds:
        for number, reader in enumerate(readers):
            chance = random.Random(f"{seed} {reader.name} {turn}")
            for data in (*reader.seeds, b"") if turn == 0 else [mutated(chance, reader) for _ in range(10)]:
                _note(now, number, data)
                reader.inputs += 1
                signal.alarm(options.stuck)
                try:
                    feed(reader, data)
                except Failure as failure:
                    signal.alarm(0)
                    why, cause = str(failure), failure.__cause__
                    if (reader.name, why) not in failures:
                        failures.add((reader.name, why))
                        trace = "".join(traceback.format_exception(cause)[-4:]) if cause is not None else ""
                        report(reader, data if why == STUCK else shrunk(reader, data, why), why, trace)
                finally:
                    signal.alarm(0)
            if len(failures) >= REPORTS:
                return len(failures)
        turn += 10 if turn else 1
        gc.collect()
    return len(failures)


def _note(now: mmap.mmap, number: int, data: bytes) -> None:
    """Keeps the input where it outlives this process."""
    now.seek(0)
    now.write(number.to_bytes(4, "big") + len(data).to_bytes(4, "big") + data[:MONSTROUS_BYTES])


def _bounded(now: mmap.mmap, options: argparse.Namespace) -> int:
    """The child: reads until it is done, in a bounded memory."""
    wanted = _wanted(options)
    sizes = dict(line.split(":") for line in open("/proc/self/status") if line.startswith("Vm"))  # noqa: PTH123, SIM115
    limit = int(sizes["VmSize"].split()[0]) * 1024 + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    faulthandler.enable()
    signal.signal(signal.SIGALRM, _stuck)
    failed = run(wanted, options, now)
    slowest = sorted(wanted, key=lambda reader: -reader.slowest)[:5]
    print(f"seed {options.seed}: {sum(reader.inputs for reader in wanted)} inputs, {len(wanted)} readers; slowest:")
    print(", ".join(f"{reader.name} {reader.slowest * 1000:.0f} ms" for reader in slowest), flush=True)
    return 1 if failed else 0


def _stuck(*_: object) -> None:
    raise Failure(STUCK)


def _wanted(options: argparse.Namespace) -> list[Reader]:
    made: list[Reader] = importlib.import_module(options.readers).readers()
    return [reader for reader in made if options.only in reader.name]


def main(argv: list[str]) -> int:
    """The exit code: 1 where a reader failed. A reader that ends the process is told by it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=0, help="for each reader")
    parser.add_argument("--seconds", type=float, default=10.0, help="for all of them")
    parser.add_argument("--only", default="", help="readers with this in their name")
    parser.add_argument("--stuck", type=int, default=20, help="seconds until one that waits is ended")
    parser.add_argument("--readers", default="tests.support.fuzz_readers", help="the module that has them")
    options = parser.parse_args(argv)
    now = mmap.mmap(-1, MONSTROUS_BYTES + 8)
    child = os.fork()
    if not child:
        code = 3
        try:
            code = _bounded(now, options)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, 1):
        number, size = int.from_bytes(now[:4], "big"), int.from_bytes(now[4:8], "big")
        report(_wanted(options)[number], now[8 : 8 + size], f"ended the process with {code}")
    return 1 if code else 0


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in an interpreter of its own."""
    return subprocess.run([sys.executable, "-m", __name__, *arguments], capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
