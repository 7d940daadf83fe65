"""Whatever a file holds: no reader crashes, hangs, or takes much memory.

Some seconds in `make test`, with the same inputs each time; 30 minutes in `make soak` (`--fuzz-seconds`).
"""

from __future__ import annotations

import random

import pytest

from tests.support import fuzz
from tests.support.fuzz import Reader, mutated
from tests.support.fuzz_wrong import WRONG

pytestmark = pytest.mark.slow

QUICK_INPUTS = 31  # of each reader, beside its seeds


def test_no_reader_crashes_hangs_or_takes_much_memory() -> None:
    done = fuzz.fuzz("--seed", "1", "--inputs", str(QUICK_INPUTS))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
def test_no_reader_crashes_hangs_or_takes_much_memory_for_a_long_time(pytestconfig: pytest.Config) -> None:
    seed = pytestconfig.getoption("--soak-seed") or random.SystemRandom().randrange(1, 10**6)
    print(f"--soak-seed {seed}")
    done = fuzz.fuzz("--seed", str(seed), "--seconds", str(pytestconfig.getoption("--fuzz-seconds")))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_same_seed_gives_the_same_inputs() -> None:
    def some(seed: str) -> list[bytes]:
        chance = random.Random(seed)
        return [mutated(chance, Reader("r", [b'{"a": [1, 2]}\n', b"text"], len)) for _ in range(300)]

    assert some("a") == some("a") != some("b")
    assert len(set(some("a"))) > 200


@pytest.mark.parametrize(
    ("reader", "what"),
    [
        ("raises", "KeyError in fuzz_wrong.py: _raises"),
        ("is slow", "takes more than a second"),
        ("waits", "is stuck"),
        ("takes memory", "takes more than 200 MB"),
        ("kills", "ended the process with -6"),
    ],
)
def test_a_reader_with_a_fault_is_told_with_the_bytes_that_show_it(reader: str, what: str) -> None:
    stuck = "1" if reader == "waits" else "60"
    done = fuzz.fuzz("--readers", "tests.support.fuzz_wrong", "--only", reader, "--inputs", "1", "--stuck", stuck)
    assert done.returncode == 1, done
    assert f"FAILED {reader}: {what}" in done.stdout, done
    assert f"{len(WRONG)} bytes: {WRONG!r}" in done.stdout, done


def test_what_a_reader_may_raise_is_no_fault() -> None:
    done = fuzz.fuzz("--readers", "tests.support.fuzz_wrong", "--only", "refuses", "--inputs", "50")
    assert done.returncode == 0, done
