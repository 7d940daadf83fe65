"""Options as keyword arguments: a type checker knows them as well as beam does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mypy import api as mypy

from beam import Beam, NotFoundError, Options, UsageError

GOOD = """
from beam import Beam, Options, Outcome
beam = Beam()
async def inside() -> Outcome:
    return await beam.send.aio("a", "hi", access="read", timeout="1m")
outcome: Outcome = beam.send("a", "hi", new=True, model="opus", schema=None, budget_usd=1, tolerate="denied")
again: Outcome = beam.send("a", "hi", options=Options(once=True), key="k", require="structured")
put: str = beam.put(beam.message("a", "hi", wait=False, no_circuit=True, max_turns=3))
"""
BAD = {
    'beam.send("a", "hi", modle="opus")': 'Unexpected keyword argument "modle"',
    'beam.send("a", "hi", new="yes")': 'Argument "new"',
    'later = beam.send.aio("a", "hi", access="all")': 'Argument "access"',
    'beam.message("a", "hi", timeout=[60])': 'Argument "timeout"',
    'beam.send("a", "hi").replay': '"Outcome" has no attribute "replay"',
    'beam.wait("a-1", timeout=[1])': 'Argument "timeout"',
}


@pytest.fixture
def beam(tmp_path: Path) -> Beam:
    (tmp_path / "beam.yaml").write_text("agents:\n  box: {adapter: mailbox}\n")
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


def test_a_file_to_attach_is_a_path_or_a_text_and_one_needs_no_list(beam: Beam, tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    file.touch()
    for given in ([file], [str(file)], str(file), file):
        assert beam.message("box", "hi", attach=given).payload.attach == (str(file),)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="there is no file"):
        beam.message("box", "hi", attach="plan.txt")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"text": 3}, "`text` is int, and not a text"),
        ({"text": None}, "`text` is NoneType, and not a text"),
        ({"agent": 3}, "`agent` is int, and not a text"),
        ({"sender": 3}, "`sender` is int, and not a text"),
        ({"key": 3}, "`key` is int, and not a text"),
        ({"deadline": "soon"}, "'soon' is not a duration"),
        ({"replies": "3"}, "`replies` is str, and not a number"),
        ({"attach": None}, "`attach` is NoneType, and not a list of paths"),
        ({"attach": [3]}, "`attach` is int, and not a path"),
        ({"attach": b"x"}, "`attach` is bytes, and not a list of paths"),
        ({"options": {"new": True}}, "the options are dict, and not Options"),
        ({"options": Options(timeout="soon")}, "'soon' is not a duration"),  # type: ignore[arg-type]
    ],
)
def test_an_argument_of_a_wrong_type_is_named_before_anything_is_put(
    beam: Beam, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        beam.message(**{"agent": "box", "text": "hi", **given})
    assert beam.queue() == []


def test_one_text_is_one_agent_and_not_its_letters(beam: Beam) -> None:
    assert [line.agent for line in beam.status("box")] == ["box"]
    beam.put(beam.message("box", "hi", wait=False))
    assert not beam.are_idle("box")
    assert len(beam.queue("box")) == 1
    with pytest.raises(NotFoundError, match="no agent is called 'bax'"):
        beam.are_idle(["bax"])


def test_other_calls_name_what_is_of_a_wrong_type(beam: Beam) -> None:
    calls: dict[str, Callable[[], object]] = {
        "`message_id` is NoneType": lambda: beam.show(None),  # type: ignore[arg-type]
        "`settings` is dict": lambda: beam.add_agent("other", {"adapter": "claude"}),  # type: ignore[arg-type]
        "`older_than` is str": lambda: beam.gc(older_than="3d"),  # type: ignore[arg-type]
        "`text` is int": lambda: beam.search(3),  # type: ignore[arg-type]
        "`since` is 'yesterday', and not a time": lambda: beam.search("x", since="yesterday"),
        "`topic` is int": lambda: beam.live_chat(["box", "claude"], 3),  # type: ignore[arg-type]
    }
    for said, call in calls.items():
        with pytest.raises(UsageError, match=re.escape(said)):
            call()
