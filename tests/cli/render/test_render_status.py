"""Where agents stand, for people and for Prometheus."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from beam.api.status import AgentStatus, LastOutcome
from beam.api.turns_now import OnceTurn, OpenCall, Running
from beam.api.usage import UsageLine
from beam.cli.render import status
from beam.model.outcome import Status, Usage
from beam.model.state import Totals
from beam.root.git_place import GitPlace

NOW = 1_800_000_000.0
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)+)\})? (\S+)')


def agent(name: str, **fields: object) -> AgentStatus:
    given: dict[str, object] = {
        "agent": name,
        "adapter": "command",
        "state": "idle",
        "waiting": 0,
        "dead": 0,
        "oldest": None,
        "running": None,
        "session_id": None,
        "turn": 0,
        "last": None,
        "totals": Totals(),
    }
    return AgentStatus(**{**given, **fields})  # type: ignore[arg-type]


RUNNING = Running(
    message_id="a-1", turn=3, since="2027-01-15T07:59:00.000000Z", pid=1, host="h", alive=True, tools=("Bash",),
    processes=2, rss_mb=10.5,
)  # fmt: skip


def test_a_row_says_the_oldest_the_tools_the_processes_and_the_circuit(capsys: pytest.CaptureFixture[str]) -> None:
    last = LastOutcome(message_id="b-1", turn=1, status=Status.FAILED, reason="no", at="2020-01-01T00:00:00Z")
    status.table(
        [
            agent("a", state="running", waiting=2, oldest="2020-01-01T00:00:00Z", running=RUNNING),
            agent("b", last=last, circuit="open", circuit_until="2020-01-01T00:00:00Z"),
            agent("c", last=last, circuit="half open", folder="/p/sub"),
        ],
        Path("/p"),
    )
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert re.fullmatch(r"2 \(\d+d\)", rows[1][2])
    assert re.fullmatch(r"turn 3 for \S+, Bash, 2 processes, 10 MB", rows[1][-1]), rows[1]
    assert re.fullmatch(r"circuit open for 0s more; failed \d+d ago: no", rows[2][-1])
    assert rows[3][-1].startswith("circuit half open; failed")
    assert rows[3][-1].endswith("; in /p/sub")


def test_a_running_turn_has_its_tool_with_the_argument_and_what_it_used(capsys: pytest.CaptureFixture[str]) -> None:
    call = OpenCall(name="Bash", input=msgspec.Raw(b'{"command":"make\\ntest"}'), since="2020-01-01T00:00:00Z")
    used = Usage(input_tokens=1_000, cached_tokens=200, output_tokens=34)
    turn = replace(RUNNING, tools=("Bash", "Read"), call=call, usage=used, cost_usd=0.01)
    status.table([agent("a", state="running", running=turn)], Path("/p"))
    (row,) = capsys.readouterr().out.splitlines()[1:]
    assert re.search(r"turn 3 for \S+, Bash make test for \d+d and 1 more, 1,234 tokens, \$0.0100, 2 proc", row), row


def test_costs_that_were_estimated_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    priced = Totals(turns=2, cost_usd=0.5)
    status.table([agent("a", totals=priced, estimated_usd=0.25), agent("b", totals=priced)], Path("/p"))
    assert [line.split("\t")[5] for line in capsys.readouterr().out.splitlines()[1:]] == ["~$0.7500", "$0.5000"]


def test_the_project_is_named_with_its_branch_and_a_linked_work_tree_with_its_repository() -> None:
    own = GitPlace(branch="main", commit=None, work_tree="/p", repository="/p/.git")
    linked = GitPlace(branch=None, commit="0123456789ab", work_tree="/w", repository="/p/.git")
    lines = [agent("a", folder="/w", git=linked), agent("b", folder="/p", git=own)]
    assert status.project_line(Path("/p"), lines) == "/p on branch main"
    assert status.project_line(Path("/w"), lines) == "/w at commit 0123456789ab, a work tree of /p/.git"
    assert status.project_line(Path("/elsewhere"), lines) == "/elsewhere"


def test_usage_has_a_line_a_model_and_a_sum(capsys: pytest.CaptureFixture[str]) -> None:
    used = Usage(input_tokens=5, output_tokens=0, cache_write_tokens=4, calls=3)
    status.usage(
        [
            UsageLine(agent="a", model="opus", turns=2, usage=used, cost_usd=0.5),
            UsageLine(agent=None, model=None, turns=2, usage=used, cost_usd=None),
        ]
    )
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[1][:10] == ["a", "opus", "2", "3", "5", "0", "", "4", "", "$0.5000"]
    assert rows[2][:10] == ["total", "", "2", "3", "5", "0", "", "4", "", ""]


def test_every_metric_is_declared_once_and_before_its_samples(capsys: pytest.CaptureFixture[str]) -> None:
    strange = 'mo"del\\of\nlines'
    used = UsageLine(agent="a", model=strange, turns=2, usage=Usage(input_tokens=5), cost_usd=0.25)
    agents = [
        agent("a", waiting=2, oldest="2027-01-15T07:59:50.000000Z", running=RUNNING, state="running"),
        agent("b", circuit="half open", dead=1, totals=Totals(by_status={"failed": 3})),
    ]
    status.metrics(agents, [used, used_total()], broker=True, now=NOW)
    declared: set[str] = set()
    found: dict[str, float] = {}
    for line in capsys.readouterr().out.splitlines():
        if line.startswith("# TYPE "):
            assert line.split()[2] not in declared
            declared.add(line.split()[2])
        elif not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] in declared
            found[f"{match[1]}{{{match[2] or ''}}}"] = float(match[3])
    wanted = {
        "beam_broker_up{}": 1,
        'beam_queue_depth{agent="a"}': 2,
        'beam_queue_oldest_age_seconds{agent="a"}': 10,
        'beam_queue_dead{agent="b"}': 1,
        'beam_running{agent="a"}': 1,
        'beam_running{agent="b"}': 0,
        'beam_turn_age_seconds{agent="a"}': 60,
        'beam_turn_processes{agent="a"}': 2,
        'beam_turn_rss_bytes{agent="a"}': 10.5 * 2**20,
        'beam_circuit{agent="b",state="half_open"}': 1,
        'beam_circuit{agent="b",state="closed"}': 0,
        'beam_turns_total{agent="b",status="failed"}': 3,
        'beam_turns_total{agent="b",status="completed"}': 0,
        'beam_tokens_total{agent="a",model="mo\\"del\\\\of\\nlines",kind="input"}': 5,
        'beam_cost_usd_total{agent="a",model="mo\\"del\\\\of\\nlines"}': 0.25,
    }
    assert {name: found.get(name) for name in wanted} == wanted
    assert not [name for name in found if name.startswith("beam_tokens_total") and "input" not in name]


def used_total() -> UsageLine:
    return UsageLine(agent=None, model=None, turns=2, usage=Usage(input_tokens=5), cost_usd=0.25)


def test_a_row_counts_the_messages_beside_the_queue_by_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    states = ("running", "waiting", "waiting")
    once = tuple(OnceTurn(message_id=f"a-{n}", state=state) for n, state in enumerate(states))  # type: ignore[arg-type]
    status.table([agent("a", once=once)], project="/p")
    assert "--once: 1 running, 2 waiting" in capsys.readouterr().out
