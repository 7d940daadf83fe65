"""Writes a run as JUnit XML: one test case for each step and each check, or one test case that says why the scenario
could not run.

Values in, bytes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from xml.etree import ElementTree as ET

from beam.conversations.github import is_failed_itself, turn_lines
from beam.conversations.model_calls import FIGURES
from beam.conversations.plain import cut, plain
from beam.conversations.refusal import Refusal
from beam.conversations.result import CheckResult, ReplayCounts, RunResult, StepResult, Verdict

_MAX_OUTPUT = 64 << 10  # characters of a step's output
_MAX_MESSAGE = 1000


def junit(result: RunResult, pages: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """Return the run as JUnit XML, as CI systems read it. `pages` has the link to the page of each message's turn."""
    suite = ET.Element("testsuite", name=plain(result.name))
    _add_properties(suite, result)
    for step in result.steps:
        _add_step(suite, result, step, pages)
    if result.exit_code and not any(step.verdict is Verdict.FAILED for step in result.steps):
        case = ET.SubElement(suite, "testcase", classname=plain(result.name), name="the run", time="0.000")
        ET.SubElement(case, "failure", message=_line(result.why), type="run").text = plain(result.why)
    return _document(suite, f"{result.duration_s:.3f}")


def refusal_report(refusal: Refusal) -> bytes:
    """Return JUnit XML with one test case: an error that says why the scenario could not run."""
    name = plain(refusal.file)
    suite = ET.Element("testsuite", name=name)
    case = ET.SubElement(suite, "testcase", classname=name, name="the scenario can run", time="0.000")
    error = ET.SubElement(case, "error", message=_line(refusal.text), type=refusal.kind)
    where = f", line {refusal.line}, column {refusal.column}" if refusal.line is not None else ""
    error.text = plain(f"{refusal.text}\nexit code {refusal.exit_code}, {refusal.file}{where}")
    return _document(suite, "0.000")


def _document(suite: ET.Element, seconds: str) -> bytes:
    """Return the suite as a document of its own, with the numbers of its test cases, failures, errors and skipped
    cases."""
    cases = suite.findall("testcase")
    figures = {
        "tests": str(len(cases)),
        "failures": str(len(suite.findall("testcase/failure"))),
        "errors": str(len(suite.findall("testcase/error"))),
        "skipped": str(len(suite.findall("testcase/skipped"))),
        "time": seconds,
    }
    top = ET.Element("testsuites", {"name": suite.get("name", ""), **figures})
    for name, figure in figures.items():
        suite.set(name, figure)
    top.append(suite)
    ET.indent(top)
    data: bytes = ET.tostring(top, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _add_properties(suite: ET.Element, result: RunResult) -> None:
    spent = result.spent
    figures = {
        "file": result.file,
        "verdict": result.verdict,
        "exit_code": str(result.exit_code),
        "turns": str(spent.turns),
        "tokens": str(spent.tokens),
        "cost_usd": f"{spent.cost_usd:.6f}",
        "repeats": str(result.repeats),
        "passes": str(result.passes),
    }
    if result.replay is not None:
        figures |= {f"replay_{name}": str(getattr(result.replay, name)) for name in ReplayCounts.__struct_fields__}
    if result.model_calls is not None:
        figures |= {f"model_calls_{name}": str(getattr(result.model_calls, name)) for name in FIGURES}
    if result.note:
        figures["note"] = result.note
    properties = ET.SubElement(suite, "properties")
    for name, value in figures.items():
        ET.SubElement(properties, "property", name=name, value=plain(value))


def _add_step(suite: ET.Element, result: RunResult, step: StepResult, pages: Mapping[str, str]) -> None:
    again = f" [{step.repeat}]" if result.repeats > 1 else ""
    who = " ".join(dict.fromkeys(turn.agent for turn in step.turns))
    name = f"{step.id} ({step.kind}{f' {who}' if who else ''}){again}"
    case = ET.SubElement(
        suite, "testcase", classname=plain(result.name), name=plain(name), time=f"{step.duration_s:.3f}"
    )
    if step.verdict is Verdict.SKIPPED:
        ET.SubElement(case, "skipped", message=_line(step.why))
    elif is_failed_itself(step):
        outcome = next((turn.outcome for turn in step.turns if turn.outcome.exit_code), None)
        kind = str(outcome.class_ or outcome.status) if outcome is not None else "error"
        error = ET.SubElement(case, "error", message=_line(step.why), type=kind)
        error.text = plain(f"{step.why}\nexit code {step.exit_code}, {result.file}, line {step.line}")
    parts = [line for turn in (*step.turns, *step.judged) for line in turn_lines(turn, pages)]
    output = plain(cut("\n".join(part for part in (*parts, step.output) if part), _MAX_OUTPUT))
    if output:
        ET.SubElement(case, "system-out").text = output
    for number, check in enumerate(step.checks, 1):
        _add_check(suite, f"{result.name}.{step.id}", f"{number}. {check.name}{again}", check, result.file)


def _add_check(suite: ET.Element, classname: str, name: str, check: CheckResult, file: str) -> None:
    case = ET.SubElement(suite, "testcase", classname=plain(classname), name=_line(name), time="0.000")
    if check.verdict is Verdict.SKIPPED:
        ET.SubElement(case, "skipped", message=_line(check.detail))
    elif check.verdict is Verdict.FAILED:
        failure = ET.SubElement(case, "failure", message=_line(check.detail or check.name), type=check.kind)
        where = f"\n{file}, line {check.line}" if check.line is not None else ""
        failure.text = plain(f"{check.name}\n{check.detail}{where}")


def _line(text: str) -> str:
    return plain(" ".join(text.split()))[:_MAX_MESSAGE]
