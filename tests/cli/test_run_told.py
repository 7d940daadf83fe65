"""`beam run` in this process: its plan, its lines for people and for CI, its files, and consent."""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam import RunResult, StepResult
from beam.base.errors import DiskError, NotFoundError, SignalledError, UntrustedError
from beam.cli import errors, reporter
from beam.cli import run as running
from beam.cli.report_file import ReportFile
from beam.conversations import github, gitlab
from beam.conversations.play import Warned
from beam.conversations.result import Spent, Verdict
from tests.support.inside import Inside, Told

SCENARIO = "beam: 1\nname: talk\nvariables: {who: me}\nsteps:\n  - id: ask\n    run: echo ${who}\n"


def step(verdict: Verdict = Verdict.PASSED, **more: Any) -> StepResult:
    return StepResult(id="ask", kind="run", verdict=verdict, line=4, duration_s=1.0, **more)


def result(verdict: Verdict = Verdict.PASSED, code: int = 0) -> RunResult:
    why = "too late" if code else ""
    return RunResult(
        name="talk",
        file="talk.yaml",
        verdict=verdict,
        exit_code=code,
        why=why,
        steps=(step(),),
        spent=Spent(turns=1),
    )


@pytest.fixture
def scenario(inside: Inside) -> Path:
    path = inside.project / "talk.yaml"
    path.write_text(SCENARIO)
    return path


def seen(*progress: Any, then: Any) -> Any:
    """A run that tells this, and ends so."""

    def run(_: Any, *, seen: Any, **named: Any) -> Any:
        for each in progress:
            seen(each)
        if isinstance(then, BaseException):
            raise then
        return then

    return run


@pytest.mark.slow
@pytest.mark.usefixtures("scenario")
def test_a_run_is_reported_step_by_step_and_its_code_is_the_exit_code(inside: Inside, told: Told) -> None:
    bad = result(Verdict.FAILED, 13)
    told.replace("run", *[seen(Warned("careful"), SimpleNamespace(), step(), then=bad)] * 2)
    done = inside("run", "talk.yaml")
    assert done.code == 13
    assert done.out.splitlines() == ["ok    ask  run  1s", "failed: 1 step, 1 turn, $0.0000, 0ms", "too late"]
    assert done.err == "beam: careful\n"
    as_json = inside("run", "talk.yaml", "--json")
    assert (as_json.code, as_json.json["verdict"], as_json.err) == (13, "failed", "beam: careful\n")


@pytest.mark.slow
@pytest.mark.usefixtures("scenario")
def test_a_plan_is_printed_and_nothing_is_run(inside: Inside, told: Told) -> None:
    told.replace("run")
    planned = inside("run", "talk.yaml", "--dry-run", "--set", "who=you", "--name", "x")
    assert (planned.code, told.calls) == (0, [])
    right = "everything in the file is right, and nothing was run"
    assert planned.out == f"x: 1 step; {right}\nask  run: echo ${{who}}\n"
    as_json = inside("run", "talk.yaml", "--dry-run", "--json").json
    assert (as_json["v"], as_json["steps"][0]["id"]) == (1, "ask")
    assert not list(inside.project.glob("*.xml"))


def test_what_a_plan_must_be_trusted_for_is_noted(
    inside: Inside, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BEAM_TRUST")
    planned = inside("run", "talk.yaml", "--dry-run")
    assert planned.code == 0 and planned.err.startswith("beam: ") and planned.err.count("\n") == 1


@pytest.mark.parametrize("word", ["who", "=x", ""])
def test_a_variable_has_a_name_and_a_value(inside: Inside, scenario: Path, word: str) -> None:
    refused = inside("run", "talk.yaml", "--set", word)
    assert (refused.code, refused.err) == (2, f"beam: --set {word!r} has no value; write NAME=VALUE\n")
    assert running.variables_of(["a=b=c", "b="]) == {"a": "b=c", "b": ""}


@pytest.mark.usefixtures("scenario")
def test_a_run_that_a_signal_ended_is_told_too(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "die_by_signal", lambda number: 128 + number)
    told.replace("run", seen(then=SignalledError(15, result())), seen(then=SignalledError(2)))
    done = inside("run", "talk.yaml", "--junit", "out.xml")
    assert (done.code, done.out) == (143, "passed: 1 step, 1 turn, $0.0000, 0ms\n")
    assert ET.parse(inside.project / "out.xml").getroot().tag.startswith("testsuite")
    assert inside("run", "talk.yaml", "--junit", "none.xml").code == 130
    assert not (inside.project / "none.xml").exists()


# -- for CI ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "environ", "style"),
    [
        (None, {}, "text"),
        (None, {"GITHUB_ACTIONS": "true"}, "github"),
        (None, {"GITHUB_ACTIONS": "1"}, "text"),
        (None, {"GITLAB_CI": "true"}, "gitlab"),
        (None, {"GITLAB_CI": "true", "GITHUB_ACTIONS": "true"}, "github"),
        ("text", {"GITHUB_ACTIONS": "true"}, "text"),
        ("gitlab", {}, "gitlab"),
        ("github", {}, "github"),
    ],
)
def test_the_form_is_that_of_the_ci_system(asked: str | None, environ: dict[str, str], style: str) -> None:
    assert reporter._select_style(asked, environ) == style


@pytest.mark.usefixtures("scenario")
def test_another_form_is_refused(inside: Inside) -> None:
    refused = inside("run", "talk.yaml", "--format", "xml")
    assert (refused.code, refused.err) == (2, "beam: --format xml: no such format; text, github, gitlab\n")


@pytest.mark.usefixtures("scenario")
def test_for_github_there_are_groups_annotations_and_a_summary(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = inside.project / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    bad, good = result(Verdict.FAILED, 13), result()
    told.replace("run", *[seen(Warned("careful"), step(), then=each) for each in (bad, bad, good)])
    done = inside("run", "talk.yaml", "--format", "github")
    failure = github.failure(bad)
    assert failure is not None
    assert done.out.splitlines() == [
        github.warning("careful", "talk.yaml"),
        *github.step_lines("talk.yaml", step()),
        "failed: 1 step, 1 turn, $0.0000, 0ms",
        "too late",
        failure,
    ]
    assert (done.err, summary.read_text()) == ("", github.summary(bad))
    as_json = inside("run", "talk.yaml", "--format", "github", "--json")
    assert (as_json.json["verdict"], as_json.err) == ("failed", "beam: careful\n")
    assert summary.read_text() == github.summary(bad) * 2
    assert "::error" not in inside("run", "talk.yaml", "--format", "github").out.splitlines()[-1]


@pytest.mark.usefixtures("scenario")
def test_for_gitlab_there_are_sections(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter.time, "time", lambda: 1_800_000_000.9)
    told.replace("run", seen(step(), then=result()))
    lines = inside("run", "talk.yaml", "--format", "gitlab").out.splitlines()
    assert lines == [
        *"\n".join(gitlab.step_lines(step(), 1_800_000_000)).splitlines(),
        "passed: 1 step, 1 turn, $0.0000, 0ms",
    ]


@pytest.mark.usefixtures("scenario")
def test_a_summary_that_can_not_be_written_is_an_error(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(inside.project / "no" / "summary.md"))
    told.replace("run", seen(then=result()))
    done = inside("run", "talk.yaml", "--format", "github")
    said = "can't write the step summary: No such file or directory; check GITHUB_STEP_SUMMARY"
    assert (done.code, done.err) == (74, f"beam: {said}\n")


@pytest.mark.slow
def test_what_keeps_a_scenario_from_running_is_told_to_ci(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = inside.project / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    (inside.project / "talk.yaml").write_text("beam: 1\nsteps:\n  - nonsense: x\n")
    refused = inside("run", "talk.yaml", "--format", "github", "--junit", "out.xml")
    assert refused.code == 2 and refused.out.startswith("::error ") and refused.out.count("\n") == 1
    assert refused.err.startswith("beam: talk.yaml:3:") and summary.read_text()
    assert ET.parse(inside.project / "out.xml").getroot().tag.startswith("testsuite")
    as_json = inside("run", "talk.yaml", "--format", "github", "--json")
    assert "::error" not in as_json.out and as_json.json["error"]["kind"] == "config"
    plain = inside("run", "talk.yaml")
    assert (plain.code, plain.out) == (2, "")


# -- the JUnit file ----------------------------------------------------------------------------------------------------


def test_a_report_replaces_what_was_there_and_makes_its_folder(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "out.xml"
    report = ReportFile(target, "out.xml")
    assert not target.parent.exists(), "nothing is written yet"
    report.write(b"one")
    report.write(b"two")
    assert target.read_bytes() == b"two"
    assert [path.name for path in target.parent.iterdir()] == ["out.xml"]


def test_a_second_name_of_another_file_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    other, target = tmp_path / "other", tmp_path / "out.xml"
    other.write_text("mine")
    os.link(other, target)
    ReportFile(target, "out.xml").write(b"report")
    assert (other.read_text(), target.read_text()) == ("mine", "report")


def test_a_link_of_the_person_is_followed_and_one_that_came_later_is_not(tmp_path: Path) -> None:
    real, target = tmp_path / "real.xml", tmp_path / "out.xml"
    real.touch()
    target.symlink_to(real)
    report = ReportFile(target, "out.xml")
    report.write(b"one")
    assert real.read_bytes() == b"one" and target.is_symlink()
    target.unlink()
    target.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DiskError) as raised:
        report.write(b"two")
    said = f"out.xml led to {real} when the command began, and leads elsewhere now: nothing is written"
    assert (raised.value.message, raised.value.hint) == (said, "an agent may have put a link there")
    assert raised.value.subject == "out.xml" and real.read_bytes() == b"one"


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ReportFile(pipe, "pipe").write(b"report")
        assert os.read(reader, 100) == b"report" and pipe.is_fifo()
    finally:
        os.close(reader)


@pytest.mark.parametrize(("name", "wrong"), [("folder", "is a folder"), ("file/out.xml", "is no folder")])
def test_where_no_report_can_be_that_is_reported_before_anything_runs(tmp_path: Path, name: str, wrong: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(DiskError) as raised:
        ReportFile(tmp_path / name, name)
    at = tmp_path / name.partition("/")[0]
    assert raised.value.message == f"--junit {name}: {at} {wrong}"
    assert (raised.value.hint, raised.value.subject) == ("name another file", name)


def test_a_place_that_can_not_be_written_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.cli import report_file

    (tmp_path / "out.xml").touch()
    closed = {tmp_path}
    monkeypatch.setattr(report_file.os, "access", lambda path, mode: Path(path) not in closed and mode == os.W_OK)
    with pytest.raises(DiskError, match=f"--junit x: {tmp_path} can't be written"):
        ReportFile(tmp_path / "out.xml", "x")
    with pytest.raises(DiskError, match=f"--junit x: {tmp_path} can't be written"):
        ReportFile(tmp_path / "new" / "x.xml", "x")
    closed.clear()
    closed.add(tmp_path / "out.xml")
    with pytest.raises(DiskError, match=r"out.xml can't be written"):
        ReportFile(tmp_path / "out.xml", "x")


def test_a_report_is_whole_before_it_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: seen.append(self.read_bytes()) or replace(self, to))
    stale = tmp_path / f".out.xml.{os.getpid()}.tmp"
    stale.write_text("of a process that had this number before")
    ReportFile(tmp_path / "out.xml", "out.xml").write(b"report")
    assert seen == [b"report"] and [path.name for path in tmp_path.iterdir()] == ["out.xml"]


def test_a_report_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.xml"
    report = ReportFile(target, "out.xml")

    def fail(self: Path, other: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(DiskError) as raised:
        report.write(b"x")
    assert raised.value.message == "can't write out.xml: No space left on device"
    assert (raised.value.hint, raised.value.subject) == ("check the path", "out.xml")
    assert list(tmp_path.iterdir()) == []


def test_the_report_is_written_also_where_the_result_can_not_be_printed(
    inside: Inside, scenario: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(inside.project / "no" / "summary.md"))
    told.replace("run", seen(then=result()))
    assert inside("run", "talk.yaml", "--format", "github", "--junit", "out.xml").code == 74
    assert (inside.project / "out.xml").exists()


# -- consent -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_who_must_trust_a_scenario_first_is_asked_at_a_terminal(
    inside: Inside, scenario: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = UntrustedError("talk.yaml is not trusted", "beam trust talk.yaml", subject="talk.yaml")
    told.replace("run", *[seen(then=wrong)] * 3, seen(then=result()), seen(then=UntrustedError("other", subject="x")))
    told.replace("scenario_wants", *[["run echo\x1b"]] * 9)
    trusted: list[str] = []
    told.replace("trust_scenario", lambda scenario: trusted.append(scenario.source.name))
    said = "beam: talk.yaml is not trusted; beam trust talk.yaml\n"
    assert inside("run", "talk.yaml", stdin="y\n").err == said, "nobody is there"
    monkeypatch.setattr(running, "is_interactive", lambda *found: found == (sys.stdin, sys.stderr))
    question = f"beam: talk.yaml is not trusted\n  run echo␛\nTrust {scenario} with this? [y/N] "
    refused = inside("run", "talk.yaml", stdin="n\n")
    assert (refused.code, refused.err, trusted) == (UntrustedError("").exit_code, question + said, [])
    agreed = inside("run", "talk.yaml", stdin="Yes\n")
    assert (agreed.code, agreed.err, trusted) == (0, question, ["talk.yaml"])
    assert inside("run", "talk.yaml", stdin="y\n").err == "beam: other\n", "another file's matter"


def test_a_scenario_that_is_not_there_is_an_error(inside: Inside) -> None:
    assert inside("run", "none.yaml").code == NotFoundError("").exit_code
