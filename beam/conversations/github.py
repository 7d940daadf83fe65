"""Formats a run for GitHub Actions: groups, annotations and a step summary. Values in, text out.

An agent's text can't become a workflow command: each of its lines is prefixed, and stands inside `stop-commands`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from beam.base import durations
from beam.base.digest import sha256
from beam.base.typed_values import one_line
from beam.conversations.plain import cut, plain
from beam.conversations.refusal import Refusal
from beam.conversations.result import RunResult, StepResult, TurnResult, Verdict

_MAX_OUTPUT = 20_000
_MAX_ANNOTATION = 4000
_MAX_LINE = 300
_MAX_SUMMARY = 900_000  # GitHub takes a mebibyte
_SIGNS = {Verdict.PASSED: "✅", Verdict.FAILED: "❌", Verdict.SKIPPED: "⚪"}


def escape_data(text: str) -> str:
    """Return the text with the escapes that it needs as the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Return the text with the escapes that it needs as the value of a property of a workflow command."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def command(name: str, message: str, **properties: str | int | None) -> str:
    """Return a workflow command. Properties without a value are left out."""
    given = [f"{key}={escape_property(str(value))}" for key, value in properties.items() if value]
    return f"::{name}{' ' + ','.join(given) if given else ''}::{escape_data(message)}"


def step_lines(result_file: str, step: StepResult) -> list[str]:
    """Return the lines of the log for a finished step: a group with its output, then its failures as annotations."""
    head = f"{step.verdict} {step.id} ({step.kind}) {durations.show(step.duration_s)}"
    lines = [command("group", plain(head)), *quoted(said(step)), "::endgroup::"]
    failed = [check for check in step.checks if check.verdict is Verdict.FAILED]
    if is_failed_itself(step):
        lines.append(_annotation("error", f"step {step.id}", step.why, result_file, step.line))
    lines += [
        _annotation("error", f"step {step.id}: {check.name}", check.detail, result_file, check.line or step.line)
        for check in failed
    ]
    return lines


def is_failed_itself(step: StepResult) -> bool:
    """Return whether the step failed not only because of its checks: by a turn, by its command or by an error. If only
    checks failed, the step's `why` is that of the first one."""
    failed = next((check for check in step.checks if check.verdict is Verdict.FAILED), None)
    return step.verdict is Verdict.FAILED and (failed is None or step.why != f"{failed.name}: {failed.detail}")


def said(step: StepResult) -> str:
    """Return as text the answers of a step's turns or the output of its command, and how its checks ended."""
    lines = [step.why] if step.why else []
    lines += [line for turn in (*step.turns, *step.judged) for line in turn_lines(turn, {})]
    lines += [step.output] if step.output else []
    lines += [f"{check.verdict} {check.name}{f': {check.detail}' if check.detail else ''}" for check in step.checks]
    return cut("\n".join(lines), _MAX_OUTPUT)


def turn_lines(turn: TurnResult, pages: Mapping[str, str]) -> list[str]:
    """Return what a turn was asked, what it did and said, what it cost, and where its page is."""
    outcome = turn.outcome
    replayed = f" [replayed: {turn.replayed}]" if turn.replayed else ""
    calls = f" [{outcome.model_calls.told}]" if outcome.model_calls else ""
    lines = [f"{turn.agent}, turn {outcome.turn}: {outcome.status}{replayed}{calls}"]
    told = {"asked": one_line(turn.asked, _MAX_LINE), "did": _did(turn), "cost": _cost(turn)}
    told["page"] = pages.get(outcome.message_id, "")
    return [*lines, *(f"{name}: {text}" for name, text in told.items() if text), outcome.reply or outcome.reason or ""]


def _did(turn: TurnResult) -> str:
    """Return which tools the turn called, which of the calls failed, and which files it changed."""
    failed = Counter(turn.failed_tools)
    calls = Counter(turn.tools) - failed + Counter({f"{name} (failed)": n for name, n in failed.items()})
    tools = (f"{name} × {n}" if n > 1 else name for name, n in calls.items())
    parts = (
        f"called {', '.join(tools)}" if turn.tools else "",
        f"changed {', '.join(turn.files)}" if turn.files else "",
    )
    return one_line("; ".join(part for part in parts if part), _MAX_LINE)


def _cost(turn: TurnResult) -> str:
    cost = "" if turn.cost_usd is None else f"${turn.cost_usd:.4f}"
    return ", ".join(part for part in (cost, f"{turn.tokens:,} tokens" if turn.tokens else "") if part)


def quoted(text: str) -> list[str]:
    """Return the lines of a text that anybody may have written, so that none of them is a workflow command."""
    token = f"beam-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
    lines = [f"| {line}" for line in unmarked(plain(text)).split("\n")]
    return [f"::stop-commands::{token}", *lines, f"::{token}::"] if text else []


def unmarked(line: str) -> str:
    """Return the line with each `##[` broken up. `##[` begins a command in GitHub's old syntax, anywhere in a line."""
    return line.replace("##[", "##\u200b[")


def warning(text: str, file: str) -> str:
    """Return the text as a warning annotation of the run."""
    return _annotation("warning", "beam run", text, file, None)


def failure(result: RunResult) -> str | None:
    """Return the reason of a failed run as an annotation; None if the run passed, or a failed step gives the reason."""
    if result.passed or any(step.verdict is Verdict.FAILED for step in result.steps):
        return None
    return _annotation("error", "beam run", result.why, result.file, None)


def refusal_line(refusal: Refusal) -> str:
    """Return an annotation that says why the scenario could not run, at the place of the error in the file."""
    return _annotation("error", "beam run", refusal.text, refusal.file, refusal.line, refusal.column)


def _annotation(kind: str, title: str, text: str, file: str, line: int | None, column: int | None = None) -> str:
    short = plain(text)[:_MAX_ANNOTATION]
    return command(kind, short, title=plain(title)[:200], file=plain(file), line=line, col=column)


# -- the step summary --------------------------------------------------------------------------------------------------


def summary(result: RunResult, pages: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the run as Markdown: its result, then tables of its steps, turns, agents and failed checks. `pages` has
    the link to the page of each message's turn."""
    spent = result.spent
    head = f"## {_SIGNS[result.verdict]} {_cell(result.name)}: {result.verdict}"
    figures = [
        f"{len(result.steps)} step{'s' * (len(result.steps) != 1)}",
        f"{spent.turns} turn{'s' * (spent.turns != 1)}",
        f"{spent.tokens} tokens",
        f"${spent.cost_usd:.4f}{f' ({spent.unpriced} turns without a known price)' if spent.unpriced else ''}",
        durations.show(result.duration_s),
    ]
    lines = [head, "", f"{', '.join(figures)}; exit code {result.exit_code}"]
    if result.why:
        lines += ["", f"**{_cell(result.why)}**"]
    if result.repeats > 1:
        lines += ["", f"{result.passes} of {result.repeats} runs passed."]
    if result.replay is not None:
        counts = result.replay
        told = f"{counts.exact} exact, {counts.minor} minor, {counts.major} major, {counts.unmatched} unmatched"
        lines += ["", f"Replayed: {told}, {counts.live} live. {_cell(result.note)}".rstrip()]
    if result.model_calls is not None:
        lines += ["", f"{result.model_calls.told}."]
    for tree in result.worktrees:
        if tree.branch:
            lines += ["", f"Branch `{_cell(tree.branch)}`: {len(tree.files)} files changed"]
    lines += ["", "| step | | agents | time | cost | checks |", "|---|---|---|---|---|---|"]
    lines += [_step_row(step) for step in result.steps]
    turns = [(step, turn) for step in result.steps for turn in (*step.turns, *step.judged)]
    if turns:
        lines += ["", "| step | agent | asked | did | cost | page |", "|---|---|---|---|---|---|"]
    for step, turn in turns:
        page = pages.get(turn.outcome.message_id, "")
        cells = (step.id, turn.agent, one_line(turn.asked, _MAX_LINE), _did(turn), _cost(turn), page)
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    lines += ["", "| agent | turns | tokens | cost |", "|---|---|---|---|", *_agent_rows(result)]
    failed = [(step, check) for step in result.steps for check in step.checks if check.verdict is Verdict.FAILED]
    if failed:
        lines += ["", "| step | check | what was |", "|---|---|---|"]
        lines += [f"| {_cell(step.id)} | {_cell(check.name)} | {_cell(check.detail)} |" for step, check in failed]
    return cut("\n".join(lines) + "\n", _MAX_SUMMARY)


def refusal_summary(refusal: Refusal) -> str:
    """Return Markdown that says why the scenario could not run."""
    where = f", line {refusal.line}" if refusal.line is not None else ""
    head = f"## {_SIGNS[Verdict.FAILED]} {_cell(refusal.file)}: could not run"
    return f"{head}\n\n**{_cell(refusal.text)}**{where}; exit code {refusal.exit_code}\n"


def _step_row(step: StepResult) -> str:
    who = ", ".join(dict.fromkeys(turn.agent for turn in step.turns))
    known = [turn.cost_usd for turn in (*step.turns, *step.judged) if turn.cost_usd is not None]
    cost = f"${sum(known):.4f}" if known else ""
    passed = sum(check.verdict is Verdict.PASSED for check in step.checks)
    checks = f"{passed} of {len(step.checks)}" if step.checks else ""
    name = f"{step.id} [{step.repeat}]" if step.repeat > 1 else step.id
    time = durations.show(step.duration_s)
    return f"| {_cell(name)} | {_SIGNS[step.verdict]} | {_cell(who)} | {time} | {cost} | {checks} |"


def _agent_rows(result: RunResult) -> list[str]:
    turns = [turn for step in result.steps for turn in (*step.turns, *step.judged)]
    rows = []
    for name in dict.fromkeys(turn.agent for turn in turns):
        own = [turn for turn in turns if turn.agent == name]
        known = [turn.cost_usd for turn in own if turn.cost_usd is not None]
        tokens = sum(turn.tokens or 0 for turn in own)
        rows.append(f"| {_cell(name)} | {len(own)} | {tokens} | {f'${sum(known):.4f}' if known else ''} |")
    return rows


def _cell(text: str) -> str:
    """Return the text as a cell of a table: one line, in which nothing is markup."""
    line = " ".join(plain(text).split())[:500]
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{char}" if char in "\\`*_[]|!#~@" else char for char in line)
