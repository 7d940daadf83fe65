"""Where agents stand, for people and for Prometheus."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from beam.api.status import AgentStatus, LastOutcome
from beam.api.turns_now import KeptProcess, OnceTurn, OpenAsk, OpenCall, Running
from beam.api.usage import UsageLine
from beam.cli.render import status, tables
from beam.model.outcome import Status, Usage
from beam.model.state import Totals
from beam.root.git_place import GitPlace
from tests.support.statuses import agent_status as agent

NOW = 1_800_000_000.0
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)+)\})? (\S+)')


RUNNING = Running(
    message_id="a-1", turn=3, since="2027-01-15T07:59:00.000000Z", pid=1, host="h", alive=True, tools=("Bash",),
    processes=2, rss_mb=10.5,
)  # fmt: skip


def test_a_row_says_the_oldest_the_tools_the_processes_and_the_circuit(capsys: pytest.CaptureFixture[str]) -> None:
    last = LastOutcome(message_id="b-1", turn=1, status=Status.FAILED, reason="no", at="2020-01-01T00:00:00Z")
    status.print_table(
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
    status.print_table([agent("a", state="running", running=turn)], Path("/p"))
    (row,) = capsys.readouterr().out.splitlines()[1:]
    assert re.search(r"turn 3 for \S+, Bash make test for \d+d and 1 more, 1,234 tokens, \$0.0100, 2 proc", row), row


def test_costs_that_were_estimated_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    priced = Totals(turns=2, cost_usd=0.5)
    status.print_table([agent("a", totals=priced, estimated_usd=0.25), agent("b", totals=priced)], Path("/p"))
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
    status.print_usage(
        [
            UsageLine(agent="a", model="opus", turns=2, usage=used, cost_usd=0.5),
            UsageLine(agent=None, model=None, turns=2, usage=used, cost_usd=None),
        ]
    )
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[1][:10] == ["a", "opus", "2", "3", "5", "0", "", "4", "", "$0.5000"]
    assert rows[2][:10] == ["total", "", "2", "3", "5", "0", "", "4", "", ""]


def test_a_terminal_gets_no_control_characters_of_a_tool_or_a_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.model.state import ToolSum

    used = UsageLine(agent="a", model="m\x1b]0;t\x07", turns=1, usage=Usage(input_tokens=5), cost_usd=0.25)
    totals = Totals(by_tool={"B\x1b[2Jash": ToolSum(calls=1, failed=0)})
    status.print_metrics([agent("a", totals=totals)], [used, used_total()], broker=True, now=NOW)
    assert "\x1b" in capsys.readouterr().out
    monkeypatch.setattr("beam.cli.render.text.is_terminal", lambda _: True)
    status.print_metrics([agent("a", totals=totals)], [used, used_total()], broker=True, now=NOW)
    shown = capsys.readouterr().out
    assert 'tool="B␛[2Jash"' in shown and 'model="m␛]0;t␇"' in shown and "\x1b" not in shown


def test_every_metric_is_declared_once_and_before_its_samples(capsys: pytest.CaptureFixture[str]) -> None:
    strange = 'mo"del\\of\nlines'
    used = UsageLine(agent="a", model=strange, turns=2, usage=Usage(input_tokens=5), cost_usd=0.25)
    agents = [
        agent("a", waiting=2, oldest="2027-01-15T07:59:50.000000Z", running=RUNNING, state="running"),
        agent("b", circuit="half open", dead=1, totals=Totals(by_status={"failed": 3})),
    ]
    status.print_metrics(agents, [used, used_total()], broker=True, now=NOW)
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
    status.print_table([agent("a", once=once)], project="/p")
    assert "--once: 1 running, 2 waiting" in capsys.readouterr().out


def test_tools_are_listed_by_their_calls(capsys: pytest.CaptureFixture[str]) -> None:
    from beam.model.state import ToolSum

    by_tool = {"Read": ToolSum(calls=2), "Bash": ToolSum(calls=5, failed=1), "Edit": ToolSum(calls=2, failed=2)}
    status.print_tools([agent("a", totals=Totals(by_tool=by_tool)), agent("b")])
    assert [line.split("\t") for line in capsys.readouterr().out.splitlines()] == [
        ["AGENT", "TOOL", "CALLS", "FAILED"],
        ["a", "Bash", "5", "1"],
        ["a", "Edit", "2", "2"],
        ["a", "Read", "2", "0"],
    ]


def row(capsys: pytest.CaptureFixture[str], line: AgentStatus, project: str = "/p") -> list[str]:
    status.print_table([line], Path(project))
    return capsys.readouterr().out.splitlines()[1].split("\t")


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hours after `SINCE`."""
    monkeypatch.setattr("time.time", lambda: NOW)


SINCE = "2027-01-15T06:00:00.000000Z"
LAST = LastOutcome(message_id="b-1", turn=1, status=Status.COMPLETED, reason=None, at=SINCE)
KEPT = KeptProcess(pid=7, via="dialogue", turn=1, since=SINCE, until=None, holder=9, host="h")
ASKED = OpenAsk(id="a-0abc4k2xyz", tool="Bash", expires="2027-01-15T08:01:00.000000Z")


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({}, ""),
        ({"last": LAST}, "completed 2h ago"),
        ({"last": LAST, "kept": KEPT}, "dialogue kept by pid 9; completed 2h ago"),
        ({"last": LAST, "kept": replace(KEPT, rss_mb=10.4)}, "dialogue kept (10 MB) by pid 9; completed 2h ago"),
        ({"kept": KEPT}, ""),
        ({"error": "torn", "blocked": "gone", "running": RUNNING}, "torn"),
        ({"blocked": "gone", "last": LAST}, "gone"),
        ({"untrusted": "beam.yaml"}, "beam.yaml: beam trust"),
        ({"circuit": "open", "circuit_until": "2027-01-15T08:00:09Z"}, "circuit open for 9s more"),
        ({"circuit": "open"}, ""),
        ({"circuit": "half open"}, "circuit half open"),
        ({"running": replace(RUNNING, tools=(), processes=1, rss_mb=None)}, "turn 3 for 1m, 1 process"),
        ({"running": replace(RUNNING, tools=("A", "B"), processes=None)}, "turn 3 for 1m, A, B, 10 MB"),
        (
            {"running": replace(RUNNING, asks=(ASKED,), tools=(), processes=None, rss_mb=None)},
            "asks for Bash (beam approve 4k2xyz, 1m00s left); turn 3 for 1m",
        ),
        (
            {"running": replace(RUNNING, tools=(), processes=None, rss_mb=None, usage=Usage(), cost_usd=0.0)},
            "turn 3 for 1m, $0.0000",
        ),
        ({"folder": "/p"}, ""),
        ({"folder": "/q"}, "in /q"),
        (
            {"folder": "/q", "git": GitPlace(branch="b", commit=None, work_tree="/q", repository="/q/.git")},
            "in /q on branch b",
        ),
    ],
)
def test_the_last_column_says_what_counts_most(
    capsys: pytest.CaptureFixture[str], more: dict[str, object], what: str
) -> None:
    assert row(capsys, agent("a", **more))[-1] == what


@pytest.mark.parametrize(
    ("reported", "estimated", "cost"),
    [(None, None, ""), (0.0, None, "$0.0000"), (None, 0.5, "~$0.5000"), (0.25, 0.5, "~$0.7500")],
)
def test_a_cost_says_whether_it_is_an_estimate(reported: float | None, estimated: float | None, cost: str) -> None:
    assert status._cost(reported, estimated) == cost


def test_on_a_terminal_usage_has_bars_and_the_last_days(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "120")
    lines = [
        UsageLine(agent="a", model="m", turns=1, usage=Usage(), cost_usd=1.0),
        UsageLine(agent="a", model="n", turns=1, usage=Usage(), cost_usd=None, estimated_usd=0.5),
        UsageLine(agent="b", model=None, turns=1, usage=Usage(), cost_usd=None, error="torn"),
        UsageLine(agent=None, model=None, turns=3, usage=Usage(), cost_usd=9.0),
    ]
    status.print_usage(lines, activity={"a": [0, 1, 2]})
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["AGENT", "MODEL", "TURNS", "COST"]
    assert rows == [
        ["a", "m", "1", "$1.0000", "██████████", "▅█"],
        ["a", "n", "1", "~$0.5000", "█████"],
        ["b", "1", "torn"],
        ["total", "3", "$9.0000"],
    ]
    status.print_usage([])
    assert capsys.readouterr().out.split()[:3] == ["AGENT", "MODEL", "TURNS"]


def test_without_any_cost_the_bars_are_of_tokens() -> None:
    def line(tokens: int | None) -> UsageLine:
        return UsageLine(agent="a", model=None, turns=1, usage=Usage(input_tokens=tokens), cost_usd=None)

    assert status._spent(line(2000)) == 2 * status._spent(line(1000)) > status._spent(line(None)) == 0
    assert status._spent(msgspec.structs.replace(line(2000), cost_usd=0.5, estimated_usd=0.25)) == 0.75


def test_all_metrics_of_a_root(capsys: pytest.CaptureFixture[str]) -> None:
    from beam.model.state import ToolSum

    totals = Totals(
        by_status={"completed": 2}, retries=3, denials=4, unsupported=5, by_tool={"Bash": ToolSum(calls=6, failed=1)}
    )
    died = OnceTurn(message_id="a-2", state="died")
    waits = OnceTurn(message_id="a-3", state="running")
    inside = OnceTurn(message_id="a-4", state="running", turn=replace(RUNNING, since="2027-01-15T07:58:00Z"))
    gone = replace(RUNNING, alive=False)
    agents = [
        agent("a", totals=totals, once=(died, waits, inside), running=RUNNING, blocked="gone", oldest="soon"),
        agent("b", running=gone),
        agent("c", running=replace(gone, lease_until="x", processes=None, rss_mb=None, since="2999-01-01T00:00:00Z")),
    ]
    used = [
        UsageLine(agent="a", model=None, turns=1, usage=Usage(calls=7, reasoning_tokens=8), cost_usd=None),
        UsageLine(agent=None, model=None, turns=1, usage=Usage(calls=9), cost_usd=9.0),
    ]
    status.print_metrics(agents, used, broker=False, now=NOW)
    found = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    wanted = [line for line in found if '"b"' not in line and 'status="' not in line and "circuit" not in line]
    assert wanted == [
        "beam_broker_up 0",
        *('beam_queue_depth{agent="a"} 0', 'beam_queue_depth{agent="c"} 0'),
        *('beam_queue_dead{agent="a"} 0', 'beam_queue_dead{agent="c"} 0'),
        'beam_queue_oldest_age_seconds{agent="a"} 0',
        *('beam_running{agent="a"} 3', 'beam_running{agent="c"} 1'),
        *('beam_once_died{agent="a"} 1', 'beam_once_died{agent="c"} 0'),
        *('beam_turn_age_seconds{agent="a"} 120', 'beam_turn_age_seconds{agent="c"} 0'),
        'beam_turn_processes{agent="a"} 4',
        f'beam_turn_rss_bytes{{agent="a"}} {21 * 2**20}',
        *('beam_blocked{agent="a"} 1', 'beam_blocked{agent="c"} 0'),
        *('beam_retries_total{agent="a"} 3', 'beam_retries_total{agent="c"} 0'),
        *('beam_denials_total{agent="a"} 4', 'beam_denials_total{agent="c"} 0'),
        *('beam_unsupported_total{agent="a"} 5', 'beam_unsupported_total{agent="c"} 0'),
        'beam_tool_calls_total{agent="a",tool="Bash"} 6',
        'beam_tool_failures_total{agent="a",tool="Bash"} 1',
        'beam_tokens_total{agent="a",model="",kind="reasoning"} 8',
        'beam_model_calls_total{agent="a",model=""} 7',
    ]
    assert 'beam_running{agent="b"} 0' in found and 'beam_turns_total{agent="a",status="completed"} 2' in found
