"""JUnit XML, GitHub's and GitLab's lines: their form, and that no text of an agent breaks out of them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from beam.base.errors import ConfigError, NotFoundError
from beam.conversations import github, gitlab
from beam.conversations.junit import junit, refusal_report
from beam.conversations.refusal import Refusal, refusal_of
from beam.conversations.result import (
    CheckResult,
    ReplayCounts,
    RunResult,
    Spent,
    StepResult,
    TurnResult,
    Verdict,
    WorktreeResult,
)
from beam.model.outcome import Class, ModelCallCounts, Outcome, Status

if TYPE_CHECKING:
    import xmlschema

HERE = Path(__file__).parent
ORACLE = json.loads((HERE.parent / "recordings" / "actions-core" / "3.0.1.json").read_text())
EVIL = (
    "]]> <x>&amp; \x1b[31m\x00\x07\ud800\uffff\n::error::owned\n  ::set-output name=a::b\n##[error]x\r"
    "::warning::y\u2028::z::\u202e"
)


@cache
def schema() -> xmlschema.XMLSchema:
    """The form of JUnit's reports. To import what reads it takes as long as many tests."""
    import xmlschema

    return xmlschema.XMLSchema(HERE / "junit.xsd")


def run(said: str, *, verdict: Verdict = Verdict.FAILED) -> RunResult:
    """A run whose texts are all of this one."""
    outcome = Outcome(
        message_id="a-1", agent="a@s", turn=1, attempt=1, status=Status.FAILED, class_=Class.NETWORK, reason=said,
        reply=said, exit_code=1,
    )  # fmt: skip
    turn = TurnResult(agent="a", outcome=outcome, tools=(said,), cost_usd=0.5, tokens=7, replayed="exact")
    checks = tuple(CheckResult(name=said, verdict=each, detail=said, kind="contains", line=9) for each in Verdict)
    steps = (
        StepResult(id="1", kind="send", verdict=verdict, line=3, why=said, exit_code=1, turns=(turn,), checks=checks),
        StepResult(id="2", kind="send", verdict=Verdict.FAILED, line=4, why=said, exit_code=1, turns=(turn,)),
        StepResult(id="3", kind="run", verdict=Verdict.SKIPPED, line=5, why=said, repeat=2),
        StepResult(id="4", kind="run", verdict=Verdict.PASSED, line=6, output=said),
    )
    return RunResult(
        name="s", file=said or "s.yaml", verdict=verdict, exit_code=13, why=said, steps=steps, spent=Spent(turns=2),
        repeats=2, passes=1, replay=ReplayCounts(exact=2), worktrees=(WorktreeResult(branch=said, files=(said,)),),
        note=said,
    )  # fmt: skip


@pytest.mark.slow
def test_a_run_that_failed_though_each_step_passed_has_a_failure_and_the_counts_of_model_calls() -> None:
    passed = StepResult(id="1", kind="run", verdict=Verdict.PASSED, line=1)
    calls = ModelCallCounts(calls=3, exact=1, minor=2)
    why = "1 model calls were replayed exactly, and at least 2 must be"
    result = RunResult(
        name="s", file="s.yaml", verdict=Verdict.FAILED, exit_code=13, why=why, steps=(passed,), model_calls=calls
    )
    data = junit(result)
    assert schema().is_valid(data.decode())
    top = ElementTree.fromstring(data)
    assert top.get("failures") == "1"
    (failure,) = top.iter("failure")
    assert failure.get("message") == why
    told = {each.get("name"): each.get("value") for each in top.iter("property")}
    assert (told["model_calls_calls"], told["model_calls_exact"], told["model_calls_minor"]) == ("3", "1", "2")
    assert "3 model calls: 1 exact, 2 minor" in github.summary(result)


@pytest.mark.parametrize("exit_code", [1, 13])
def test_a_step_that_failed_itself_is_reported_beside_its_failed_checks(exit_code: int) -> None:
    why = "a: failed (rate_limit): 429 slow down, says the vendor"
    outcome = Outcome(
        message_id="a-1", agent="a", turn=1, attempt=1, status=Status.FAILED, class_=Class.RATE_LIMIT,
        reason="429 slow down, says the vendor", exit_code=1,
    )  # fmt: skip
    failed = CheckResult(
        name="contains: x", verdict=Verdict.FAILED, detail="the answer was empty", kind="contains", line=9
    )
    step = StepResult(
        id="1", kind="send", verdict=Verdict.FAILED, line=3, why=why, exit_code=exit_code,
        turns=(TurnResult(agent="a", outcome=outcome),), checks=(failed,),
    )  # fmt: skip

    def told(step: StepResult) -> tuple[list[tuple[str, str | None, str | None]], list[str]]:
        result = RunResult(name="s", file="s.yaml", verdict=Verdict.FAILED, exit_code=1, steps=(step,))
        data = junit(result)
        schema().validate(data.decode())
        cases = ElementTree.fromstring(data).iter("testcase")
        found = [(str(each.tag), each.get("message"), each.get("type")) for case in cases for each in case]
        lines = [line for line in github.step_lines("s.yaml", step) if line.startswith("::error")]
        return [each for each in found if each[0] != "system-out"], lines

    check = ("failure", "the answer was empty", "contains")
    annotation = "::error title=step 1%3A contains%3A x,file=s.yaml,line=9::the answer was empty"
    assert told(step) == (
        [("error", why, "rate_limit"), check],
        [f"::error title=step 1,file=s.yaml,line=3::{why}", annotation],
    )
    only_checked = structs.replace(step, why="contains: x: the answer was empty", exit_code=13)
    assert told(only_checked) == ([check], [annotation])


@pytest.mark.parametrize("said", ["fine", EVIL, ""], ids=["plain", "evil", "empty"])
def test_the_report_follows_the_schema_and_counts_what_is_in_it(said: str) -> None:
    data = junit(run(said))
    schema().validate(data.decode())
    (suite,) = ElementTree.fromstring(data)
    cases = suite.findall("testcase")
    assert suite.get("tests") == str(len(cases)) == "7"  # a case for each step and each check
    assert [suite.get(name) for name in ("failures", "errors", "skipped")] == ["1", "2", "2"]
    told = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert (told["replay_exact"], told["exit_code"]) == ("2", "13")


@pytest.mark.slow
@settings(max_examples=60)
@given(st.text(max_size=60))
def test_no_text_breaks_out_of_the_report(said: str) -> None:
    (suite,) = ElementTree.fromstring(junit(run(said)))
    assert {case.tag for case in suite} == {"properties", "testcase"}
    assert len(suite.findall("testcase")) == 7


@pytest.mark.parametrize("case", ORACLE["cases"], ids=lambda case: case["name"])
def test_a_command_is_byte_for_byte_what_the_package_of_github_writes(case: dict[str, Any]) -> None:
    assert github.command(case["name"], case["message"], **case["properties"]) == case["said"]


def obeyed(lines: list[str]) -> list[str]:
    """The commands that GitHub's runner takes from these lines: it stops at stop-commands, until the token comes."""
    found, token = [], ""
    for line in "\n".join(lines).replace("\r\n", "\n").split("\n"):
        match = re.match(r"\s*::([^: ]+)(?: [^:]*)?::(.*)", line)
        if token:
            token = "" if match and match[1] == token else token
        elif match and match[1] == "stop-commands":
            token = match[2]
        elif match:
            found.append(match[1])
        elif "##[" in line:
            found.append("##[")
    assert not token
    return found


@pytest.mark.parametrize("said", ["fine", EVIL], ids=["plain", "evil"])
def test_github_obeys_our_commands_and_no_agents(said: str) -> None:
    first, second, third, fourth = run(said).steps
    assert obeyed(github.step_lines("s.yaml", first)) == ["group", "endgroup", "error", "error"]
    assert obeyed(github.step_lines("s.yaml", second)) == ["group", "endgroup", "error"]
    assert obeyed(github.step_lines("s.yaml", third)) == ["group", "endgroup"]
    assert obeyed(github.step_lines("s.yaml", fourth)) == ["group", "endgroup"]
    assert obeyed([github.warning(said, said)]) == ["warning"]


@pytest.mark.slow
@settings(max_examples=60)
@given(st.text(alphabet=st.sampled_from("::error group#[]%\r\n\x1bx-stop"), max_size=60))
def test_no_text_becomes_a_command_of_the_workflow(said: str) -> None:
    for step in run(said).steps:
        kind, *errors = "".join(obeyed(github.step_lines(said, step))).partition("groupendgroup")[1:]
        assert kind == "groupendgroup" and errors in ([""], ["error"], ["errorerror"])


def test_a_quoted_text_that_ends_its_own_quotation_does_not() -> None:
    token = github.quoted("x")[0].rpartition("::")[2]
    assert obeyed(github.quoted(f"::{token}::\n::error::x")) == []


def test_the_summary_has_tables_whose_cells_are_no_markup() -> None:
    text = github.summary(run("a|b\n<script>[x](y) @someone #1 `c`"))
    assert "<script>" not in text
    assert "\\[x\\](y) \\@someone \\#1" in text
    rows = [line for line in text.splitlines() if line.startswith("| 1 ")]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [7, 7, 4]
    assert "| step |" in text
    assert "| agent | turns | tokens | cost |" in text


def test_gitlab_gets_a_section_for_each_step_and_folds_what_passed() -> None:
    for step in run(EVIL).steps:
        lines = gitlab.step_lines(step, 1_700_000_000)
        folded = "true" if step.verdict is not Verdict.FAILED else "false"
        assert re.match(rf"\x1b\[0Ksection_start:\d+:beam_\d_\d\[collapsed={folded}\]\r\x1b\[0K", lines[0])
        assert "".join(lines).count("section_start") == "".join(lines).count("section_end") == 1
        assert all("\x1b" not in line and "\r" not in line for line in lines[1:-1])


def test_no_line_outside_of_a_group_keeps_the_mark_of_an_old_command() -> None:
    assert github.unmarked("step a: ##[error]x ##[add-mask]y") == "step a: ##\u200b[error]x ##\u200b[add-mask]y"


# -- a scenario that could not run -------------------------------------------------------------------------------------


def test_an_error_of_the_file_has_its_place_and_any_other_has_none() -> None:
    wrong = refusal_of("a:1:2: b.yaml", ConfigError("a:1:2: b.yaml:7:5: steps.0: unknown key", "did you mean id?"))
    assert (wrong.line, wrong.column, wrong.exit_code, wrong.kind) == (7, 5, 2, "config")
    assert wrong.text == "steps.0: unknown key (did you mean id?)"
    gone = refusal_of("s.yaml", NotFoundError("there is no file s.yaml"))
    assert (gone.line, gone.column, gone.exit_code, gone.text) == (None, None, 4, "there is no file s.yaml")


@pytest.mark.parametrize("said", ["fine", EVIL], ids=["plain", "evil"])
def test_a_scenario_that_could_not_run_is_one_error_in_each_report(said: str) -> None:
    why = Refusal(file=said or "s.yaml", kind="config", text=said, exit_code=2, line=7, column=5)
    schema().validate(refusal_report(why).decode())
    (case,) = ElementTree.fromstring(refusal_report(why)).iter("testcase")
    assert [(child.tag, child.get("type")) for child in case] == [("error", "config")]
    assert obeyed([github.refusal_line(why)]) == ["error"]
    assert re.search(r",line=7,col=5::", github.refusal_line(why))
    assert github.refusal_summary(why).count("\n") == 3
