"""`beam run`: checks a scenario, runs it and reports its result on stdout, in files for CI and as an exit code."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, TypeVar

from beam import BeamError, DiskError, SignalledError, UntrustedError, UsageError
from beam.cli import prompt
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, group, option
from beam.cli.report_file import ReportFile
from beam.cli.streams import is_interactive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from beam import RunResult, Scenario
    from beam.cli.pages import TurnPages
    from beam.cli.reporter import Reporter

T = TypeVar("T")
_limit, _repeats, _report = group("Limits"), group("Repeats"), group("Reports")

app = App()


@app.verb()
def run(
    call: Context,
    file: str = argument(..., metavar="FILE", help="The scenario: a YAML file."),
    set_: list[str] = option([], "--set", metavar="K=V", help="Give a variable of the file this value."),
    name: str | None = option(None, "--name", metavar="NAME", help="Run it under another name: AGENT@NAME."),
    dry_run: bool = option(False, "--dry-run", help="Check everything, print the plan and run nothing."),
    ci: bool = option(False, "--ci", help="Fail a turn with a denial or without an answer; as with CI=true."),
    no_ci: bool = option(False, "--no-ci", help="Leave this to the file's checks, even with CI=true."),
    fail_fast: bool = option(False, "--fail-fast", help="End the run at the first step that fails."),
    as_json: bool = option(False, "--json", help="Print the result, or the plan, as one JSON object."),
    budget: float | None = _limit(
        None, "--budget", metavar="USD", min=0, help="Stop the run at this cost (exit code 7)."
    ),
    max_tokens: int | None = _limit(
        None, "--max-tokens", metavar="N", min=1, help="Stop the run at this many tokens (exit code 7)."
    ),
    repeat: int | None = _repeats(None, "--repeat", metavar="N", min=1, help="Run it N times."),
    pass_rate: float | None = _repeats(
        None, "--pass-rate", metavar="R", min=0, max=1, help="The share of runs that must pass, 0 to 1; default 1."
    ),
    record: str | None = prompt.RECORD,
    replay: str | None = prompt.REPLAY,
    depth: str | None = prompt.DEPTH,
    on_miss: str | None = prompt.ON_MISS,
    junit: str | None = _report(None, "--junit", metavar="FILE", help="Write the result as JUnit XML."),
    style: str | None = _report(
        None, "--format", metavar="WORD", help="text, github or gitlab; default: as the environment says."
    ),
) -> int:
    """Run a scenario: several agents, in one file, with checks.

    Everything in the file is checked before anything runs. The exit code is 0 if all steps passed, 13 if a check
    failed, 7 at a budget, else that of the first turn that failed: docs/scenarios.md, docs/exit-codes.md.
    """
    from beam import RunResult
    from beam.cli.pages import TurnPages
    from beam.cli.render.run import plan_lines
    from beam.cli.render.text import write_json, write_line
    from beam.cli.reporter import Reporter

    if ci and no_ci:
        raise UsageError("--ci and --no-ci don't go together", "leave one out")
    reporter = Reporter(call, file, style, as_json=as_json)
    report = ReportFile(call.path(junit), junit) if junit is not None and not dry_run else None
    with _report_refusals(reporter, file, report):
        recording = prompt.parse_recording(call, record, replay, depth, on_miss)
        beam = call.beam
        scenario = beam.scenario(file, variables=variables_of(set_), name=name)
        if dry_run:
            steps = beam.plan(scenario, replay=not recording.needs_agents)
            if as_json:
                write_json({"v": 1, "name": scenario.name, "steps": steps})
            for line in () if as_json else plan_lines(scenario.name, steps):
                write_line(line)
            untrusted = beam.untrusted_scenario(scenario)
            if untrusted is not None:
                call.note(untrusted)
            return 0
        pages = None
        if report is not None and junit is not None and report.is_regular:
            pages = TurnPages(call.path(junit), junit, scenario.speakers())

        def play() -> RunResult:
            return beam.run(
                scenario,
                ci=True if ci else False if no_ci else None,
                fail_fast=fail_fast,
                budget_usd=budget,
                max_tokens=max_tokens,
                repeat=repeat,
                pass_rate=pass_rate,
                recording=recording,
                seen=reporter.on_progress,
            )

        try:
            result = _run_with_trust(call, scenario, play)
        except SignalledError as error:
            if isinstance(error.outcome, RunResult):
                _report_result(call, reporter, report, pages, error.outcome)
            raise
    _report_result(call, reporter, report, pages, result)
    return result.exit_code


def variables_of(given: list[str]) -> dict[str, str]:
    """Return the variables that the --set options define, each given as NAME=VALUE. Raises UsageError for any other
    text."""
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {each[:80]!r} has no value", "write NAME=VALUE", subject=each[:80])
        found[name] = value
    return found


@contextlib.contextmanager
def _report_refusals(reporter: Reporter, file: str, report: ReportFile | None) -> Iterator[None]:
    """Report an error to the CI system, too, if it prevents the scenario from running: as an annotation, and as a test
    case in the JUnit XML. Raises the error again."""
    try:
        yield
    except SignalledError:
        raise
    except BeamError as error:
        from beam import junit as reports
        from beam import refusal_of

        refusal = refusal_of(file, error)
        with contextlib.suppress(DiskError):  # the original error is more important
            reporter.on_refused(refusal)
            if report is not None:
                report.write(reports.refusal_report(refusal))
        raise


def _report_result(
    call: Context, reporter: Reporter, report: ReportFile | None, pages: TurnPages | None, result: RunResult
) -> None:
    """Write the pages of the turns, and report the result on stdout and in files for CI. All that can be written is
    written before an error is raised."""
    from beam import junit as reports

    links: dict[str, str] = {}
    with contextlib.ExitStack() as last:
        if report is not None:
            last.callback(lambda: report.write(reports.junit(result, links)))
        last.callback(lambda: reporter.result(result, links))
        if pages is not None:
            links |= pages.write(call.beam, result)


def _run_with_trust(call: Context, scenario: Scenario, act: Callable[[], T]) -> T:
    """Call `act` and return its result. If the scenario file must be trusted first and there is a terminal, ask the
    person once; after a yes, trust the file and call `act` again."""
    try:
        return act()
    except UntrustedError as error:
        wants = call.beam.scenario_wants(scenario)
        if error.subject != scenario.source.name or not is_interactive(sys.stdin, sys.stderr):
            raise
        from beam.cli.render.text import confirm

        listed = "".join(f"  {line}\n" for line in wants)
        if not confirm(f"beam: {error.message}\n{listed}Trust {scenario.path} with this?"):
            raise
        call.beam.trust_scenario(scenario)
        return act()
