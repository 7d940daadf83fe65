"""Options as keyword arguments: a type checker knows them as well as beam does."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api as mypy

from beam import Beam, Options, UsageError

GOOD = """
from beam import Beam, Options, Outcome
beam = Beam()
async def inside() -> Outcome:
    return await beam.send.aio("a", "hi", access="read", timeout=60)
outcome: Outcome = beam.send("a", "hi", new=True, model="opus", schema=None, budget_usd=1, tolerate="denied")
again: Outcome = beam.send("a", "hi", options=Options(once=True), key="k", require="structured")
put: str = beam.put(beam.message("a", "hi", wait=False, no_circuit=True, max_turns=3))
"""
BAD = {
    'beam.send("a", "hi", modle="opus")': 'Unexpected keyword argument "modle"',
    'beam.send("a", "hi", new="yes")': 'Argument "new"',
    'later = beam.send.aio("a", "hi", access="all")': 'Argument "access"',
    'beam.message("a", "hi", timeout="60s")': 'Argument "timeout"',
    'beam.send("a", "hi").replay': '"Outcome" has no attribute "replay"',
    'beam.wait("a-1", timeout="1s")': 'Argument "timeout"',
}


@pytest.fixture
def beam(tmp_path: Path) -> Beam:
    (tmp_path / "beam.yaml").write_text("agents:\n  box: {mailbox: true}\n")
    return Beam(cwd=tmp_path, environ={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "BEAM_TRUST": "1"})


@pytest.mark.slow
def test_a_type_checker_takes_good_calls_and_names_bad_ones(tmp_path: Path) -> None:
    file = tmp_path / "calls.py"
    file.write_text(GOOD + "".join(f"{call}\n" for call in BAD))
    said, wrong, _ = mypy.run(["--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), str(file)])
    assert wrong == ""
    errors = [line for line in said.splitlines() if ": error: " in line]
    first = GOOD.count("\n") + 1
    assert [int(line.split(":")[1]) for line in errors] == list(range(first, first + len(BAD))), said
    assert [part for part, line in zip(BAD.values(), errors, strict=True) if part not in line] == []


def test_the_keywords_are_the_message_s_options(beam: Beam) -> None:
    message = beam.message("box", "hi", new=True, timeout=60, options=Options(model="opus", new=False))
    assert message.options == Options(model="opus", new=True, timeout=60.0)
    assert beam.message("box", "hi").options == Options()


def test_a_wrong_keyword_is_refused_with_the_near_one_before_anything_is_put(beam: Beam) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'modle'; did you mean 'model'"):
        beam.send("box", "hi", modle="opus")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'attach'"):
        beam.message("box", "hi", atach=[])  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="Expected `bool`, got `str`"):
        beam.send("box", "hi", new="yes")  # type: ignore[arg-type]
    assert beam.queue() == []
