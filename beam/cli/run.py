"""`beam run`: checks a scenario, runs it and reports its result on stdout, in files for CI and as an exit code."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, TypeVar

from beam import BeamError, DiskError, SignalledError, UntrustedError, UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.report_file import ReportFile
from beam.cli.streams import is_interactive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from beam import RunResult, Scenario
    from beam.cli.reporter import Reporter

T = TypeVar("T")

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
    budget: float | None = option(
        None, "--budget-usd", metavar="USD", min=0, help="Stop the run at this cost (exit code 7)."
    ),
    max_tokens: int | None = option(
        None, "--max-tokens", metavar="N", min=1, help="Stop the run at this many tokens (exit code 7)."
    ),
    repeat: int | None = option(None, "--repeat", metavar="N", min=1, help="Run it N times."),
    pass_rate: float | None = option(
        None, "--pass-rate", metavar="R", min=0, max=1, help="The share of runs that must pass, 0 to 1; default 1."
    ),
    record: str | None = option(None, "--record", metavar="DIR", help="Write each turn into this folder."),
    replay: str | None = option(
        None, "--replay", metavar="DIR", help="Answer from these recorded turns: no agent runs, and no tool."
    ),
    replay_mode: str | None = option(
        None,
        "--replay-mode",
        metavar="WORD",
        help="strict: the same prompts only; lenient: else the next turn; fill: else the agent runs.",
    ),
    record_model: str | None = option(
        None, "--record-model", metavar="DIR", help="Record the model calls of all turns into this folder."
    ),
    replay_model: str | None = option(
        None,
        "--replay-model",
        metavar="DIR",
        help="Run the agents with their tools; answer their model calls from this folder.",
    ),
    fill: bool = option(False, "--fill", help="With --replay-model: let the model answer what was not recorded."),
    exact_at_least: int | None = option(
        None,
        "--exact-at-least",
        metavar="N",
        min=0,
        help="Fail if fewer model calls were replayed exactly (exit code 13).",
    ),
    junit: str | None = option(None, "--junit", metavar="FILE", help="Write the result as JUnit XML."),
    style: str | None = option(
        None, "--format", metavar="WORD", help="text, github or gitlab; default: as the environment says."
    ),
    as_json: bool = option(False, "--json", help="Print the result, or the plan, as one JSON object."),
) -> int:
    """Run a scenario: several agents, in one file, with checks.

    Everything in the file is checked before anything runs. The exit code is 0 if all steps passed, 13 if a check
    failed, 7 at a budget, else that of the first turn that failed: docs/scenarios.md, docs/exit-codes.md.
    """
    from beam import recordings_of_turns
    from beam.cli.render.run import plan_lines
    from beam.cli.render.text import write_json, write_line
    from beam.cli.reporter import Reporter

    mode = recordings_of_turns.mode_of(replay_mode)
    if ci and no_ci:
        raise UsageError("--ci and --no-ci don't go together", "leave one out")
    if replay_mode is not None and replay is None:
        raise UsageError("--replay-mode is for --replay DIR", "add it, or leave --replay-mode out")
    from beam.cli.model_calls import run_settings

    reporter = Reporter(call, file, style, as_json=as_json)
    report = ReportFile(call.path(junit), junit) if junit is not None and not dry_run else None
    with _report_refusals(reporter, file, report):
        calls = run_settings(
            call, record=record_model, replay=replay_model, fill=fill, exact_at_least=exact_at_least, turns=replay
        )
        beam = call.beam
        scenario = beam.scenario(file, variables=variables_of(set_), name=name)
        is_answered = replay is not None and mode != "fill"
        if dry_run:
            steps = beam.plan(scenario, replay=is_answered)
            if as_json:
                write_json({"v": 1, "name": scenario.name, "steps": steps})
            for line in () if as_json else plan_lines(scenario.name, steps):
                write_line(line)
            untrusted = beam.untrusted_scenario(scenario)
            if untrusted is not None:
                call.note(untrusted)
            return 0

        def play() -> RunResult:
            return beam.run(
                scenario,
                ci=True if ci else False if no_ci else None,
                fail_fast=fail_fast,
                budget_usd=budget,
                max_tokens=max_tokens,
                repeat=repeat,
                pass_rate=pass_rate,
                record=call.path(record) if record is not None else None,
                replay=call.path(replay) if replay is not None else None,
                replay_mode=mode,
                model_calls=calls,
                seen=reporter.on_progress,
            )

        try:
            result = _run_with_trust(call, scenario, play)
        except SignalledError as error:
            reporter.on_stopped(error.outcome)
            _write_junit(report, error.outcome)
            raise
    try:
        reporter.result(result)
    finally:
        _write_junit(report, result)
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


def _write_junit(report: ReportFile | None, result: object) -> None:
    from beam import RunResult

    if report is None or not isinstance(result, RunResult):
        return
    from beam import junit as reports

    report.write(reports.junit(result))


def _run_with_trust(call: Context, scenario: Scenario, act: Callable[[], T]) -> T:
    """Call `act` and return its result. If the scenario file must be trusted first and there is a terminal, ask the
    person once; after a yes, trust the file and call `act` again."""
    try:
        return act()
    except UntrustedError as error:
        wants = call.beam.scenario_wants(scenario)
        if error.subject != scenario.source.name or not is_interactive(sys.stdin, sys.stderr):
            raise
        from beam.cli.render.text import escape_controls, write

        listed = "".join(f"  {line}\n" for line in wants)
        question = f"Trust {scenario.path} with this? [y/N] "
        write(sys.stderr, escape_controls(f"beam: {error.message}\n{listed}{question}"))
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise
        call.beam.trust_scenario(scenario)
        return act()
