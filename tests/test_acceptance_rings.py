"""Agents that send to agents: hops and chains are counted, and nobody waits for himself."""

from __future__ import annotations

import pytest
from tests.support.claims import said_once
from tests.support.cli import BEAM, Cli, eventually

pytestmark = pytest.mark.acceptance


def agents(beam: Cli, **scripts: str) -> None:
    """Agents that are shell scripts; `beam` in them is this beam."""
    lines = ["agents:"]
    for name, text in scripts.items():
        prelude = f"beam() {{ {' '.join(BEAM)} \"$@\"; }}\n"
        (beam.project / f"{name}.sh").write_text(prelude + text)
        lines.append(f"  {name}: {{command: [bash, {name}.sh]}}")
    beam.config("\n".join(lines) + "\n")
    beam.env["PYTHONPATH"] = ""


def test_an_agent_that_waits_for_itself_is_refused_at_once(beam: Cli) -> None:
    agents(beam, narcissus='beam send narcissus "mirror" 2>&1; echo "exit $?"')
    done = beam("send", "narcissus", "hi")
    assert done.code == 0, done
    assert "exit 7" in done.out
    assert "narcissus → narcissus" in done.out
    assert "--no-wait" in done.out
    assert beam.types("narcissus").count("message.queued") == 1


def test_a_ring_of_three_that_waits_is_refused_where_it_closes(beam: Cli) -> None:
    agents(
        beam,
        a='beam send b "from a" 2>&1; echo "a: $?"',
        b='beam send c "from b" 2>&1; echo "b: $?"',
        c='beam send a "from c" 2>&1; echo "c: $?"',
    )
    done = beam("send", "a", "go")
    assert done.code == 0, done
    assert "c: 7" in done.out
    assert "a → b → c → a" in done.out
    assert "b: 0" in done.out
    assert "a: 0" in done.out
    assert [beam.types(name).count("turn.finished") for name in "abc"] == [1, 1, 1]


def test_an_agent_may_leave_itself_a_message_one_hop_further(beam: Cli) -> None:
    agents(beam, diary='test "$BEAM_HOPS" = 0 && beam send diary --no-wait "later"; cat > /dev/null; echo "hops $BEAM_HOPS"')
    done = beam("send", "diary", "hi")
    assert done.code == 0, done
    eventually(lambda: beam.types("diary").count("turn.closed") >= 2)
    queued = [event for event in beam.journal("diary") if event["type"] == "message.queued"]
    assert [(event["from"], event["hops"], event["kind"]) for event in queued[:2]] == [
        ("human", 0, "message"),
        ("diary", 1, "message"),
    ]
    assert queued[0]["thread"] == queued[1]["thread"]


def test_messages_that_go_round_end_at_the_limit_of_hops_and_that_is_said(beam: Cli) -> None:
    agents(beam, ping='beam send pong --no-wait "ping $BEAM_HOPS" 2>&1', pong='beam send ping --no-wait "pong $BEAM_HOPS" 2>&1')
    (beam.project / "beam.yaml").write_text(
        "limits: {hops: 4}\n" + (beam.project / "beam.yaml").read_text().replace("{command:", "{command:")
    )
    assert beam("send", "ping", "go").code == 0

    def is_quiet() -> bool:
        lines = beam("status", "--json").lines
        return all(line["state"] == "idle" and line["waiting"] == 0 for line in lines)

    eventually(lambda: is_quiet() and is_quiet(), timeout=40)
    turns = [event for name in ("ping", "pong") for event in beam.journal(name) if event["type"] == "message.queued"]
    assert max(event["hops"] for event in turns) <= 5
    assert "the limit is 4" in beam("log", "ping").out + beam("log", "pong").out


def test_damaged_variables_of_a_turn_are_an_error_not_a_guess(beam: Cli) -> None:
    done = beam("send", "scripted", "hi", env={"BEAM_AGENT": "a", "BEAM_HOPS": "many"})
    assert (done.code, done.out) == (2, "")
    said_once(done, "BEAM_HOPS", "many")


def test_a_name_in_the_environment_that_is_no_name_is_an_error(beam: Cli) -> None:
    done = beam("send", "scripted", "hi", env={"BEAM_AGENT": "../../etc"})
    assert (done.code, done.out) == (2, "")
    said_once(done, "../../etc")
