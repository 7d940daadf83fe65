"""`beam run` as people and CI systems meet it: the real beam, scripted agents."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from beam import Beam, Recording, UsageError
from tests.support.cli import Cli, Ended, eventually, processes_with

pytestmark = pytest.mark.acceptance
SCRIPT = r"""
rules:
  - {match: refuse, reply: [{refuse: I will not.}]}
  - {match: deny, reply: [{deny: Bash}, Done without it.]}
  - {match: cut, reply: [Half a, {truncate: true}]}
  - {match: empty, reply: [{silent: true}]}
  - {match: idle, reply: [{usage: {input_tokens: 0, output_tokens: 0, calls: 0}}, Nothing.]}
  - {match: hang, reply: [{hang: true}]}
  - {match: crash, reply: [{crash: 3}]}
  - {match: slow, reply: [{delay: 0.6}, "slow"]}
  - {match: spend, reply: [{usage: {input_tokens: 90, output_tokens: 10}}, {cost_usd: 0.5}, Spent.]}
  - {match: burn, reply: [{cost_usd: 0.5}, {usage: {input_tokens: 90, output_tokens: 10}}, {hang: true}]}
  - {match: evil, reply: ["::error::owned\n]]> ##[error]owned \e[31m"]}
default: "You said: {prompt}"
"""


@pytest.fixture
def place(beam: Cli) -> Cli:
    (beam.project / "script.yaml").write_text(SCRIPT)
    beam.config(
        "agents:\n  a: {adapter: scripted, script: script.yaml}\n  b: {adapter: scripted, script: script.yaml}\n"
    )
    return beam


def scenario(place: Cli, steps: str, head: str = "") -> None:
    (place.project / "s.yaml").write_text(f"beam: 1\n{head}steps:\n{steps}")


def one(prompt: str, more: str = "") -> str:
    return f"- send: a\n  id: it\n  prompt: {prompt}\n{more}"


def run(place: Cli, *args: str) -> Ended:
    return place("run", "s.yaml", "--junit", "r.xml", "--format", "github", *args)


def ends(place: Cli) -> dict[str, str]:
    """Each case of the report, and how it ended."""
    found = {}
    for case in ElementTree.parse(place.project / "r.xml").getroot().iter("testcase"):
        wrong = [child for child in case if child.tag != "system-out"]
        found[case.get("name", "")] = f"{wrong[0].tag} {wrong[0].get('type') or ''}".strip() if wrong else "passed"
    return found


@pytest.mark.parametrize(
    ("prompt", "more", "code", "annotated", "case"),
    [
        ("hello", "  expect: {contains: bye}\n", 13, "'bye' is not in it", "failure contains"),
        ("refuse", "", 6, "I will not.", "error refused"),
        ("deny", "", 5, "Bash", "error denied"),
        ("hang", "  timeout: 300ms\n", 3, "stopped after 300ms", "error timeout"),
        ("crash", "", 1, "crashed", "error crashed"),
        ("cut", "", 11, "truncated", "error truncated"),
    ],
)
def test_a_failure_has_its_exit_code_its_annotation_and_its_case(
    place: Cli, prompt: str, more: str, code: int, annotated: str, case: str
) -> None:
    scenario(place, one(prompt, more))
    done = run(place)
    assert done.code == code, done
    (line,) = [line for line in done.out.splitlines() if line.startswith("::error")]
    assert annotated in line
    assert re.search(r"file=s\.yaml,line=\d+", line)
    assert case in ends(place).values()


@pytest.mark.parametrize(
    ("prompt", "word"), [("empty", "empty"), ("idle", "no_calls"), ("cut", "truncated"), ("deny", "denied")]
)
def test_a_run_in_which_nothing_happened_is_red_in_ci(place: Cli, prompt: str, word: str) -> None:
    scenario(place, one(prompt))
    done = place("run", "s.yaml", env={"CI": "true"})
    assert done.code in (5, 11, 13)
    assert f"ci: not {word}" in done.out
    scenario(place, one(prompt, f"  allow: [{word}]\n"))
    assert place("run", "s.yaml", env={"CI": "true"}).code == 0


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("- send: nobody\n  prompt: x\n", 4, "s.yaml:3:3: steps.0.send.0: no agent is called 'nobody'"),
        ("- send: claude\n  prompt: x\n", 4, "claude is not installed here"),
        ("- send: a\n  promt: x\n", 2, "s.yaml:4:3: steps.0.promt: unknown key; did you mean prompt?"),
        ("- send: a\n  prompt: x\n  schema: {type: object}\n", 10, "s.yaml:3:3: steps.0.send.0: "),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(place: Cli, text: str, code: int, said: str) -> None:
    scenario(place, f"{text}")
    done = place("run", "s.yaml", env={"PATH": "/usr/bin:/bin"})
    assert (done.code, done.out) == (code, ""), done
    assert said in done.err
    assert place.home.agents() == []


@pytest.mark.parametrize(
    ("text", "code", "kind", "place"),
    [
        ("- send: nobody\n  prompt: x\n", 4, "not_found", "file=s.yaml,line=3,col=3"),
        ("- send: claude\n  prompt: x\n", 4, "not_installed", "file=s.yaml,line=3,col=3"),
        ("- send: scripted\n  promt: x\n", 2, "config", "file=s.yaml,line=4,col=3"),
        ("- {run: [sh, x.sh]}\n", 2, "untrusted", "file=s.yaml"),
    ],
    ids=["no agent", "no CLI", "bad file", "no trust"],
)
def test_what_could_not_run_has_its_exit_code_its_annotation_and_its_case(
    beam: Cli, text: str, code: int, kind: str, place: str
) -> None:
    scenario(beam, text)
    summary = beam.base / "summary.md"
    done = beam(
        "run", "s.yaml", "--junit", "r.xml", "--format", "github",
        env={"PATH": "/usr/bin:/bin", "GITHUB_STEP_SUMMARY": str(summary)},
    )  # fmt: skip
    assert done.code == code, done
    (line,) = done.out.splitlines()
    assert line.startswith("::error title=beam run,"), line
    assert f"{place}::" in line
    assert ends(beam) == {"the scenario can run": f"error {kind}"}
    assert f"exit code {code}" in summary.read_text()
    (beam.project / "r.xml").unlink()
    assert beam("run", "s.yaml", "--dry-run", "--junit", "r.xml", env={"PATH": "/usr/bin:/bin"}).out.count("::") == 0
    assert not (beam.project / "r.xml").exists()


def test_a_file_that_is_not_there_is_red_in_each_report(place: Cli) -> None:
    done = place("run", "gone.yaml", "--junit", "r.xml", "--format", "github")
    assert (done.code, ends(place)) == (4, {"the scenario can run": "error not_found"}), done
    assert "file=gone.yaml::there is no file gone.yaml" in done.out


def test_a_summary_that_cannot_be_written_leaves_the_report(place: Cli) -> None:
    scenario(place, one("hello"))
    done = place("run", "s.yaml", "--junit", "r.xml", "--format", "github", env={"GITHUB_STEP_SUMMARY": "/"})
    assert (done.code, ends(place)) == (74, {"it (send a)": "passed"}), done


def test_a_budget_warns_stops_and_tells_what_was_used(place: Cli) -> None:
    scenario(place, "".join(f"- send: a\n  prompt: spend {n}\n" for n in range(4)))
    done = run(place, "--budget", "1.1", "--json")
    assert done.code == 7, done
    result = done.json
    assert (result["spent"]["turns"], result["spent"]["cost_usd"], result["exit_code"]) == (3, 1.5, 7)
    assert [step["verdict"] for step in result["steps"]][-1] == "skipped"
    scenario(place, "".join(f"- send: a\n  prompt: spend {n}\n" for n in range(2)))
    warned = run(place, "--max-tokens", "220")
    assert (warned.code, warned.out.count("::warning")) == (0, 1), warned
    assert "the run has used 200 of 220 tokens" in warned.out


@pytest.mark.parametrize("words", [("--budget", "0.4"), ("--max-tokens", "90")])
@pytest.mark.parametrize("steps", ["- {chat: [b, a], prompt: burn}\n", "- {send: a, prompt: burn}\n"])
def test_a_budget_ends_a_turn_that_goes_on(place: Cli, words: tuple[str, str], steps: str) -> None:
    scenario(place, steps)
    result = run(place, *words, "--json").json
    assert (result["exit_code"], result["spent"]["turns"], result["spent"]["cost_usd"]) == (7, 1, 0.5), result
    assert result["why"].endswith("its budget")
    assert result["steps"][0]["turns"][0]["outcome"]["status"] == "cancelled"


@pytest.mark.parametrize("limit", ["cost_usd: 0.4", "tokens: 90"])
@pytest.mark.parametrize("who", ["chat: [b, a]", "chat: [b, a], order: moderator, moderator: c"])
def test_a_limit_of_a_chat_ends_its_turn_in_the_middle_and_the_next_step_is_taken(
    place: Cli, who: str, limit: str
) -> None:
    place.config("agents:\n" + "".join(f"  {n}: {{adapter: scripted, script: script.yaml}}\n" for n in "abc"))
    scenario(place, f"- {{{who}, prompt: burn, until: {{{limit}}}}}\n- {{send: a, prompt: idle}}\n")
    ended = run(place, "--json")
    result = ended.json
    assert "steps" in result, ended
    chat, after = result["steps"]
    assert (chat["verdict"], after["verdict"], result["exit_code"]) == ("passed", "passed", 0), result
    assert [turn["outcome"]["status"] for turn in chat["turns"]] == ["cancelled"]
    assert chat["why"] in ("ended: it cost $0.4", "ended: it used 90 tokens")


@pytest.mark.parametrize("number", ["nan", "inf", "-1"])
def test_a_budget_that_would_limit_nothing_is_refused(place: Cli, number: str) -> None:
    scenario(place, one("spend"))
    for words in (("run", "s.yaml", "--budget", number), ("run", "s.yaml", "--pass-rate", number)):
        done = place(*words)
        assert (done.code, done.out) == (2, ""), done
    assert place("send", "a", "x", "--budget", number).code == 2
    python = Beam(cwd=place.project, environ=place.env)
    for options in ({"budget_usd": float(number)}, {"pass_rate": float(number)}):
        with pytest.raises(UsageError):
            python.run("s.yaml", **options)
    assert place.home.agents() == []


def test_steps_at_the_same_time_are_shown_in_the_order_of_the_file(place: Cli) -> None:
    scenario(place, "- parallel:\n  - {send: a, prompt: slow}\n  - {send: b, prompt: quick}\n  - {run: 'echo hi'}\n")
    done = place("run", "s.yaml")
    assert [line.split()[1] for line in done.out.splitlines() if line.startswith("ok")] == ["1.1", "1.2", "1.3"]


def test_the_turns_are_in_ordinary_journals_and_leave_the_persons_session_alone(place: Cli) -> None:
    before = place("send", "a", "mine", "--json").json["session_id"]
    scenario(place, one("hello") + one("again").replace("id: it", "id: two"))
    assert place("run", "s.yaml").code == 0
    assert place.types("a@s").count("turn.finished") == 2
    sessions = {e["session_id"] for e in place.journal("a@s") if e["type"] == "turn.finished"}
    assert len(sessions) == 1
    assert before not in sessions
    assert place("send", "a", "still", "--json").json["session_id"] == before
    assert "a@s\tidle" in place("status", "--all").out
    assert place("run", "s.yaml").code == 0  # a run begins anew
    assert len({e["session_id"] for e in place.journal("a@s") if e["type"] == "turn.finished"}) == 2


def test_agents_of_the_file_alone_run_beside_a_broker_and_touch_no_configuration(place: Cli) -> None:
    assert place("broker", "start").code == 0
    try:
        config = (place.project / "beam.yaml").read_bytes()
        scenario(
            place, "- {send: own, prompt: x, expect: {contains: done}}\n", "agents: {own: {command: [echo, done]}}\n"
        )
        for _ in range(2):
            done = place("run", "s.yaml")
            assert done.code == 0, done
        assert (place.project / "beam.yaml").read_bytes() == config
        assert [path.name for path in (place.root / "agents").glob("*/agent.json")] == []
        assert "completed" in place("status", "--all").out
    finally:
        place("broker", "stop")


def test_a_scenario_of_a_clone_counts_only_once_its_file_is_trusted(beam: Cli) -> None:
    marker = beam.base / "ran"
    (beam.project / "check.sh").write_text(f"touch {marker}\n")
    steps = "- run: [sh, check.sh]\n- {send: scripted, prompt: x, access: full}\n"
    scenario(beam, steps, "agents: {own: {command: [touch, x]}}\n")
    done = beam("run", "s.yaml")
    assert (done.code, marker.exists()) == (2, False)
    assert "nobody trusts s.yaml" in done.err
    assert "beam trust s.yaml" in done.err
    planned = beam("run", "s.yaml", "--dry-run")
    assert (planned.code, "beam trust s.yaml" in planned.err) == (0, True)
    listed = beam("trust", "--yes", "s.yaml").err
    for said in ("it runs 'sh check.sh'", "it runs check.sh", "full access", "own run 'touch x'"):
        assert said in listed
    assert beam("run", "s.yaml").code == 0
    assert marker.exists()
    scenario(beam, steps, "variables: {x: }\n")
    assert beam("trust", "--yes", "s.yaml").code == 2
    assert beam("trust", "--yes", "s.yaml", "--set", "x=1").code == 0
    assert beam("run", "s.yaml", "--set", "x=2").code == 0
    (beam.project / "check.sh").write_text("true\n")
    assert "nobody trusts" in beam("run", "s.yaml", "--set", "x=1").err  # another program
    scenario(beam, "- {send: scripted, prompt: x}\n")
    assert beam("run", "s.yaml").code == 0  # needs none


def test_a_file_from_elsewhere_in_a_prompt_needs_trust(beam: Cli) -> None:
    (beam.base / "key").write_text("secret")
    (beam.project / "near").symlink_to(beam.base / "key")
    for path in ("../key", "near"):
        scenario(beam, f"- {{send: scripted, prompt: {{file: {path}}}}}\n")
        done = beam("run", "s.yaml")
        assert (done.code, "outside of this folder" in done.err) == (2, True), done


def test_a_schema_from_elsewhere_needs_trust(beam: Cli) -> None:
    (beam.base / "key.json").write_text('{"secret": 1}')
    scenario(beam, "- {send: scripted, prompt: x, expect: {schema: ../key.json}}\n")
    done = beam("run", "s.yaml")
    assert (done.code, "outside of this folder" in done.err) == (2, True), done


def test_an_agent_that_puts_a_link_in_the_place_of_a_file_gets_nothing_from_elsewhere_into_a_prompt(
    place: Cli,
) -> None:
    (place.base / "key").write_text("secret")
    (place.project / "notes").mkdir()
    (place.project / "notes" / "one").write_text("harmless")
    for there in (
        "ln -sf ../../key notes/one",
        "rm -r notes; mkdir ../other; ln ../key ../other/one; ln -s ../other notes",
    ):
        scenario(place, f"- run: '{there}'\n- send: a\n  prompt: {{file: notes/one}}\n")
        done = place("run", "s.yaml", "--json")
        assert (done.code, "leads elsewhere now" in done.json["why"]) == (2, True), done
        assert "secret" not in done.out
        place.shell("rm -r notes; mkdir notes; echo harmless > notes/one")


@pytest.mark.parametrize("there", ["ln -sf {0} r.xml", "ln -f {0} r.xml", "mkfifo r.xml; rm r.xml; ln -s {0} r.xml"])
def test_an_agent_that_puts_a_link_in_the_place_of_a_report_has_nothing_written_elsewhere(
    place: Cli, there: str
) -> None:
    profile = place.base / "home" / ".profile"
    profile.write_text("mine")
    scenario(place, f"- run: '{there.format(profile)}'\n")
    done = place("run", "s.yaml", "--junit", "r.xml")
    assert profile.read_text() == "mine"
    is_link = "-s" in there
    assert (done.code, "leads elsewhere now" in done.err) == ((74, True) if is_link else (0, False)), done
    assert is_link or ends(place) == {"1 (run)": "passed"}


@pytest.mark.parametrize("named", ["/dev/stdout", "deep/r.xml", "link.xml"])
def test_a_report_goes_where_its_name_leads_when_the_run_begins(place: Cli, named: str) -> None:
    (place.project / "old.xml").write_text("old")
    (place.project / "link.xml").symlink_to("old.xml")
    scenario(place, "- run: 'true'\n")
    done = place.cold("run", "s.yaml", "--junit", named)
    text = done.out if named.startswith("/dev") else (place.project / named).read_text()
    assert (done.code, "<testsuite" in text) == (0, True), done
    assert (place.project / "link.xml").is_symlink()


def test_a_person_is_shown_all_of_what_a_scenario_runs_or_how_much_is_left_out(beam: Cli) -> None:
    end = "; touch hidden"
    scenario(beam, f"- run: 'true {' ' * 500}{end}'\n")
    assert end in beam("trust", "--yes", "s.yaml").err
    scenario(beam, f"- run: 'true {' ' * 5000}{end}'\n")
    assert "… and 4021 more characters" in beam("trust", "--yes", "s.yaml").err


def test_an_agent_runs_no_scenario_and_trusts_none(place: Cli) -> None:
    (place.project / "loop.yaml").write_text("replies: [[{run: [sh, -c, 'beam run s.yaml; beam trust s.yaml']}, x]]\n")
    place.config("agents: {loop: {adapter: scripted, script: loop.yaml}}\n")
    scenario(place, "- {send: scripted, prompt: x}\n")
    from tests.support.console import installed

    assert installed(place)("send", "loop", "go").code == 0
    said = next(e["output"] for e in place.journal("loop") if e["type"] == "tool.returned")
    assert said.count("only a person") == 2


def test_repeats_pass_by_rate_and_have_recordings_of_their_own(place: Cli) -> None:
    (place.project / "flaky.yaml").write_text("replies: [good]\n")
    scenario(place, one("hello", "  expect: {contains: hello}\n"))
    done = place("run", "s.yaml", "--repeat", "3", "--record", "rec")
    assert (done.code, "3 of 3 runs passed" in done.out) == (0, True)
    assert sorted(path.name for path in (place.project / "rec").iterdir()) == ["1", "2", "3"]
    scenario(place, one("hello", "  expect: {contains: bye}\n"))
    assert place("run", "s.yaml", "--repeat", "2", "--pass-rate", "0.5").code == 13
    assert place("run", "s.yaml", "--repeat", "2", "--pass-rate", "0").code == 0


def test_a_replay_needs_no_cli_and_says_that_no_tool_ran(place: Cli) -> None:
    scenario(place, one("hello", "  expect: {contains: hello}\n"))
    assert place("run", "s.yaml", "--record", "rec").code == 0
    place.config("agents: {a: {adapter: claude}}\n")  # whose CLI is not here
    done = place("run", "s.yaml", "--replay", "rec", "--json", env={"PATH": "/usr/bin:/bin"})
    result = done.json
    assert (done.code, result["replay"]["exact"]) == (0, 1), done
    assert "no tool was run again" in result["note"]
    assert [t["outcome"]["via"] for s in result["steps"] for t in s["turns"]] == ["replay"]
    assert "replayed" in [e.get("code") for e in place.journal("a@s")]
    scenario(place, one("other"))
    missed = place("run", "s.yaml", "--replay", "rec", env={"PATH": "/usr/bin:/bin"})
    assert (missed.code, "differs from character 1" in missed.out) == (1, True), missed
    assert place("run", "s.yaml", "--replay", "rec", "--on-miss", "nearest", env={"PATH": "/usr/bin:/bin"}).code == 0


def test_a_step_is_told_what_another_agent_did_in_this_run_and_a_replay_has_the_same_prompt(place: Cli) -> None:
    told = (
        one("crash").replace("id: it", "id: before")
        + one("hello")
        + ("- send: c\n  prompt: go on\n  context_from: a\n  context: full\n")
    )
    scenario(place, told, "agents: {c: {command: [cat]}}\n")
    assert "sends 5 characters and what a did (full)" in place("run", "s.yaml", "--dry-run").out
    assert place("run", "s.yaml", "--fail-fast").out.count("skip") >= 1
    for words in (("--record", "rec"), ("--replay", "rec"), ("--replay", "rec")):
        done = place("run", "s.yaml", *words, "--json")
        (turn,) = done.json["steps"][-1]["turns"]
        quoted = turn["outcome"]["reply"].splitlines()
        assert quoted[0] == "go on"
        assert [line for line in quoted if line.endswith("asked:")] == ["| human asked:"] * 2
        assert {"|     crash", "|     hello", "|     You said: hello"} <= set(quoted)
        assert any(line.startswith("| this turn of a was failed: ") for line in quoted)
        assert not any("again" in line for line in quoted)


def test_a_step_whose_agent_had_no_turn_to_quote_is_skipped(place: Cli) -> None:
    scenario(
        place,
        "- {send: b, id: gone, prompt: empty}\n- {send: a, prompt: {reply: gone}}\n"
        "- {send: b, prompt: go on, context_from: a}\n",
    )
    result = place("run", "s.yaml", "--json").json
    assert [step["verdict"] for step in result["steps"]] == ["passed", "skipped", "skipped"]
    assert result["steps"][-1]["why"] == "a had no turn before"


def test_a_replay_of_more_turns_waits_no_longer_for_the_disk(place: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    python = Beam(cwd=place.project, environ=place.env)
    counts = []
    for turns in (1, 8):
        scenario(place, "- {send: a, prompt: hello}\n" * turns)
        python.run("s.yaml", recording=Recording(record="rec"))
        synced: list[int] = []
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", synced.append)
            assert python.run("s.yaml", recording=Recording(replay="rec")).exit_code == 0
        counts.append(len(synced))
    assert counts[0] == counts[1]


def test_one_message_is_recorded_and_replayed_and_what_is_missing_is_filled_in(place: Cli) -> None:
    assert place("send", "a", "hello", "--record", "rec").out == "You said: hello\n"
    place.config("agents: {a: {adapter: scripted, script: script.yaml}}\n")
    (place.project / "script.yaml").write_text("replies: [live]\n")
    assert place("send", "a", "hello", "--replay", "rec").out == "You said: hello\n"
    assert place("send", "a", "new", "--replay", "rec").code == 1
    assert place("send", "a", "new", "--replay", "rec", "--on-miss", "live").out == "live\n"
    assert place("send", "a", "new", "--replay", "rec").out == "live\n"
    assert place("send", "a", "x", "--replay", "rec", "--no-wait").code == 2


def test_a_folder_or_a_report_that_cannot_be_written_is_said_before_any_turn(place: Cli) -> None:
    scenario(place, one("hello"))
    (place.project / "file").write_text("mine")
    for words in (("run", "s.yaml", "--record", "file"), ("run", "s.yaml", "--junit", "/")):
        done = place(*words)
        assert (done.code, done.out) == (74, ""), done
    done = place("send", "a", "hello", "--record", "file")
    assert (done.code, "is no folder" in done.err) == (74, True), done
    assert not (place.root / "agents" / "a" / "journal").exists()


def test_a_recording_that_fails_in_the_middle_leaves_the_turn_as_it_ended(place: Cli) -> None:
    (place.project / "r").mkdir()
    (place.project / "r" / "a.jsonl").mkdir()
    done = place("send", "a", "hello", "--record", "r")
    assert (done.code, "beam show a-" in done.err) == (74, True), done
    assert place.types("a")[-1] == "turn.closed"
    scenario(place, one("hello") + one("next").replace("id: it", "id: two"))
    result = place("run", "s.yaml", "--record", "r", "--json").json
    assert (result["exit_code"], result["spent"]["turns"]) == (74, 1), result
    assert place.types("a@s").count("turn.finished") == 1


def test_a_replay_that_is_filled_in_says_that_agents_ran(place: Cli) -> None:
    scenario(place, one("hello"))
    assert place("run", "s.yaml", "--record", "rec").code == 0
    scenario(place, one("hello") + one("other").replace("id: it", "id: two"))
    done = place("run", "s.yaml", "--replay", "rec", "--on-miss", "live")
    assert (done.code, "the others by the agents" in done.out, "no tool was run again" in done.out) == (0, True, False)


def test_what_a_replay_fills_in_is_added_to_the_turns_that_it_answered_from(place: Cli) -> None:
    scenario(place, one("hello"))
    assert place("run", "s.yaml", "--record", "flat").code == 0
    assert place("run", "s.yaml", "--record", "each", "--repeat", "2").code == 0
    scenario(place, one("hello") + one("other").replace("id: it", "id: two"))
    (place.project / "none").mkdir()
    for folder, times in (("flat", "2"), ("each", "1"), ("each", "2"), ("none", "2")):
        words = ("run", "s.yaml", "--json", "--replay", folder, "--repeat", times, "--on-miss")
        assert place(*words, "live").code == 0
        again = place(*words, "stop")
        assert (again.code, again.json["replay"]["exact"]) == (0, 2 * int(times)), (folder, times, again)


def test_a_signal_ends_the_turns_and_the_report_is_written_all_the_same(place: Cli) -> None:
    scenario(place, one("hang") + one("after").replace("id: it", "id: two"))
    process = place.start("run", "s.yaml", "--junit", "r.xml")
    eventually(lambda: (place.root / "agents" / "a@s").is_dir() and "prompt.sent" in place.types("a@s"))
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == -signal.SIGINT
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()
    assert ends(place) == {"it (send a)": "error cancelled", "two (send)": "skipped"}
    assert place.types("a@s").count("turn.finished") == 1


def test_text_of_an_agent_is_obeyed_by_nothing(place: Cli) -> None:
    scenario(place, one("evil", "  expect: {contains: nothing}\n"))
    done = run(place)
    assert [line for line in done.out.splitlines() if line.startswith("::error::owned")] == []
    assert "\x1b" not in done.out
    assert [line for line in done.out.splitlines() if "##[" in line and not line.startswith("::error ")] == []
    assert ends(place) == {"it (send a)": "passed", "1. contains: nothing": "failure contains"}


def test_a_failing_step_does_not_keep_others_from_running_unless_it_is_asked_for(place: Cli) -> None:
    steps = one("refuse") + "- {send: b, prompt: {reply: it}}\n- {send: b, prompt: alone}\n"
    scenario(place, steps)
    verdicts = [step["verdict"] for step in place("run", "s.yaml", "--json").json["steps"]]
    assert verdicts == ["failed", "skipped", "passed"]
    fast = [step["verdict"] for step in place("run", "s.yaml", "--json", "--fail-fast").json["steps"]]
    assert fast == ["failed", "skipped", "skipped"]


def test_reports_say_what_was_asked_done_and_paid_and_link_to_a_page_of_each_turn(place: Cli) -> None:
    scenario(place, "- {send: a, prompt: spend it}\n- {send: b, prompt: Look.}\n- {send: a, prompt: And now?}\n")
    summary = place.base / "summary"
    for there in (place, place.with_env({"GITHUB_STEP_SUMMARY": str(summary)})):  # the pages have the last run alone
        assert run(there).code == 0
    suite = ElementTree.parse(place.project / "r.xml").getroot()
    told = [case.findtext("system-out") for case in suite.iter("testcase")]
    assert told == [
        "a, turn 3: completed\nasked: spend it\ncost: $0.5000, 100 tokens\npage: r.a.html#t1\nSpent.",
        "b, turn 2: completed\nasked: Look.\npage: r.b.html#t1\nYou said: Look.",
        "a, turn 4: completed\nasked: And now?\npage: r.a.html#t2\nYou said: And now?",
    ]
    assert "| 1 | a | spend it |  | $0.5000, 100 tokens | r.a.html\\#t1 |" in summary.read_text()
    page = (place.project / "r.a.html").read_text()
    second = page.partition('<h2 id="t2">')[2]
    assert (page.count("<h2 "), "And now?" in second, "spend it" in second) == (2, True, False)
    job = {"GITLAB_CI": "true", "CI_JOB_URL": "https://ci.example/jobs/1"}
    assert place.with_env(job)("run", "s.yaml", "--junit", "r.xml").code == 0
    assert "page: https://ci.example/jobs/1/artifacts/file/r.b.html#t1\n" in (place.project / "r.xml").read_text()


def test_two_agents_that_would_talk_for_ever_stop_and_say_why(place: Cli) -> None:
    scenario(place, "- {chat: [a, b], prompt: go, until: {turns: 4}}\n- {chat: [a, b], prompt: empty}\n")
    first, second = place("run", "s.yaml", "--json").json["steps"]
    assert (len(first["turns"]), first["why"]) == (4, "ended: 4 turns were taken")
    assert second["why"] == "ended: a fell silent"


def test_a_work_tree_keeps_the_persons_files_and_leaves_a_branch(place: Cli) -> None:
    from tests.support.repository import make_repository

    make_repository(place.project, place.base / "home")
    steps = "- {send: own, prompt: x, expect: {files_changed: {only: [made]}, diff: {lines: 1}}}\n"
    steps += "- {run: [test, -f, made]}\n"
    scenario(place, steps, "worktree: true\nagents: {own: {command: [sh, -c, 'echo x > made']}}\n")
    result = place("run", "s.yaml", "--json").json
    (tree,) = result["worktrees"]
    assert (result["exit_code"], tree["files"], tree["path"]) == (0, ["made"], None), result
    assert "+x" in tree["diff"]
    assert not (place.project / "made").exists()
    shown = git(place, "show", f"{tree['branch']}:made")
    assert shown == "x\n"
    assert git(place, "worktree", "list").count("\n") == 1
    assert list((place.base / "home" / ".local/share/beam/worktrees").iterdir()) == []
    head = "worktree: {keep: true, branch: mine}\nagents: {own: {command: ['true']}}\n"
    scenario(place, "- {send: own, prompt: x}\n", head)
    (kept,) = place("run", "s.yaml", "--json").json["worktrees"]
    assert (kept["branch"], Path(kept["path"]).is_dir()) == ("mine", True)


def test_git_runs_no_program_of_a_repository_that_nobody_trusted(beam: Cli) -> None:
    from tests.support.repository import make_repository

    make_repository(beam.project, beam.base / "home")
    marker = beam.base / "ran"
    evil = f"sh -c 'touch {marker}; cat'"
    for key in ("filter.x.clean", "filter.x.smudge", "core.fsmonitor", "diff.x.textconv"):
        git(beam, "config", key, evil)
    hook = beam.project / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    (beam.project / ".gitattributes").write_text("* filter=x diff=x\n")
    scenario(
        beam, "- {send: scripted, prompt: [x, {diff: true}], expect: {files_changed: false}}\n", "worktree: true\n"
    )
    done = beam("run", "s.yaml")
    assert (done.code, marker.exists()) == (0, False), done
    git(beam, "add", ".gitattributes")
    assert marker.exists()  # git alone runs it


AGENT = {  # what an agent with `edit` could write in its folder
    "a filter in the repository": "git config filter.x.clean 'touch {ran}; cat'; echo '* filter=x' > .gitattributes",
    "a repository in the folder": (
        "mkdir -p sub/.git/objects sub/.git/refs/heads; cd sub/.git; echo 'ref: refs/heads/main' > HEAD; "
        "printf %040d 1 > refs/heads/main; git config -f config core.repositoryformatversion 1; "
        "git config -f config extensions.partialClone x; git config -f config remote.x.url /; "
        "git config -f config remote.x.uploadpack 'touch {ran}; false'"
    ),
    "another repository in the place of its own": (
        "[ -f .git ] || exit 0; git init -q other; git -C other config filter.x.clean 'touch {ran}; cat'; "
        "echo '* filter=x' > .gitattributes; echo gitdir: other/.git > .git"
    ),
}


@pytest.mark.parametrize("way", AGENT)
@pytest.mark.parametrize("head", ["", "worktree: true\n"])
def test_git_runs_no_program_that_was_configured_during_the_run(place: Cli, head: str, way: str) -> None:
    git(place, "init", "-q")
    git(place, "-c", "user.name=p", "-c", "user.email=p@x", "commit", "-q", "--allow-empty", "-m", "first")
    ran = place.base / "ran"
    (place.project / "evil.sh").write_text(AGENT[way].format(ran=ran))
    checked = "- check: {files_changed: true}\n"
    scenario(place, f"- run: [sh, {place.project}/evil.sh]\n- run: date +%N > made.txt\n{checked}{checked}", head)
    del place.env["BEAM_TRUST"]
    assert place("trust", "--yes", "s.yaml").code == 0
    for env in ({"BEAM_TRUST": "1"}, {}):
        done = place("run", "s.yaml", "--json", env=env)
        assert not ran.exists(), done
        is_kept = head and way == "another repository in the place of its own"
        assert (done.code, "stays in" in done.json["why"]) == ((1, True) if is_kept else (0, False)), done


def test_a_filter_of_a_trusted_repository_keeps_its_secret_out_of_the_commit_of_a_work_tree(place: Cli) -> None:
    git(place, "init", "-q")
    git(place, "config", "filter.crypt.clean", "tr a-z b-za")
    git(place, "config", "filter.crypt.smudge", "tr b-za a-z")
    git(place, "config", "filter.crypt.required", "true")
    (place.project / ".gitattributes").write_text("secret filter=crypt\n")
    (place.project / "secret").write_text("abc\n")
    git(place, "add", ".gitattributes", "secret")
    git(place, "-c", "user.name=p", "-c", "user.email=p@x", "commit", "-qm", "first")
    scenario(place, "- run: cat secret; echo abd > secret\n", "worktree: {branch: made}\n")
    del place.env["BEAM_TRUST"]
    assert place("trust", "--yes").code == 0
    assert place("trust", "--yes", "s.yaml").code == 0
    done = place("run", "s.yaml", "--json")
    assert done.json["steps"][0]["output"] == "abc\n", done
    assert git(place, "cat-file", "blob", "made:secret") == "bce\n", done


def git(place: Cli, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=place.project, env=place.env, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("words", ["sleep 300 &", "setsid sleep 300 & sleep 0.2;", "(sleep 300 &) ;"])
def test_a_command_is_over_when_it_ends_and_nothing_of_it_goes_on(place: Cli, words: str) -> None:
    scenario(place, f"- run: '{words} echo said'\n")
    done = place("run", "s.yaml", "--json", env={"MARKED": str(place.base)}, timeout=60)
    (step,) = done.json["steps"]
    assert (done.code, step["output"]) == (0, "said\n"), done
    assert processes_with(str(place.base)) == []


def test_a_command_that_takes_too_long_is_ended_with_what_it_said(place: Cli) -> None:
    scenario(place, "- {run: 'echo begun; setsid sleep 300', timeout: 1s}\n")
    done = place("run", "s.yaml", "--json", timeout=60)
    (step,) = done.json["steps"]
    assert (done.code, step["output"], step["why"]) == (13, "begun\n", "stopped after 1 s, its timeout"), done
    assert processes_with(str(place.base)) == []


@pytest.mark.parametrize(
    "step",
    [
        "{run: 'echo begun; setsid sleep 300'}",
        "{send: a, prompt: hello, expect: {command: 'echo begun; setsid sleep 300'}}",
        "{chat: [a, b], prompt: go, until: {check: {command: 'echo begun; setsid sleep 300'}}}",
    ],
    ids=["a step", "a check", "the end of a chat"],
)
def test_a_command_is_ended_where_the_run_takes_too_long(place: Cli, step: str) -> None:
    scenario(place, f"- {step}\n- {{send: b, prompt: never}}\n", "limits: {time: 3s}\n")
    done = place("run", "s.yaml", "--json", timeout=60)
    why = "the run took longer than 3 s, its limit"
    assert (done.code, done.json["why"]) == (7, why), done
    first, second = done.json["steps"]
    assert (second["verdict"], second["why"]) == ("skipped", why), done
    if "run:" in step:
        assert (first["verdict"], first["why"], first["output"]) == ("failed", why, "begun\n"), done
    if "expect:" in step:
        assert [(check["verdict"], check["detail"]) for check in first["checks"]] == [("failed", f"{why}: begun")], done
    assert processes_with(str(place.base)) == []


def test_a_signal_ends_the_command_of_a_step(place: Cli) -> None:
    scenario(place, "- {run: 'echo x > begun; setsid sleep 300', id: it}\n" + one("after").replace("id: it", "id: two"))
    process = place.start("run", "s.yaml", "--junit", "r.xml")
    eventually((place.project / "begun").exists)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == -signal.SIGINT
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()
    assert ends(place) == {"it (run)": "error error", "two (send)": "skipped"}
    assert processes_with(str(place.base)) == []


def test_each_repeat_has_a_branch_of_its_own_and_one_that_is_there_is_refused_first(place: Cli) -> None:
    git(place, "init", "-q")
    git(place, "-c", "user.name=p", "-c", "user.email=p@x", "commit", "-q", "--allow-empty", "-m", "first")
    scenario(place, "- run: echo x > made.txt\n", "worktree: {branch: try}\n")
    done = place("run", "s.yaml", "--repeat", "2", "--json")
    assert (done.code, [tree["branch"] for tree in done.json["worktrees"]]) == (0, ["try-1", "try-2"]), done
    git(place, "branch", "-D", "try-1")
    again = place("run", "s.yaml", "--repeat", "2", "--junit", "r.xml")
    assert (again.code, again.out, "there is a branch try-2 already" in again.err) == (2, "", True), again
    assert ends(place) == {"the scenario can run": "error config"}
    assert "try-1" not in git(place, "branch")


def listed(place: Cli, *words: str) -> bool:
    """Whether the output of this command has a line of fixer@gate."""
    return any("fixer@gate" in line.split() for line in place(*words).out.splitlines())


OWN_LISTS = (("status",), ("agent", "list"), ("completion", "words", "--", "log", ""))
WHOLE_LISTS = (
    *(("status", "--all"), ("agent", "list", "--all"), ("status", "--usage")),
    *(("completion", "words", "--", "log", "fix"), ("agent", "sessions")),
)


def test_the_agents_of_a_scenario_are_listed_while_they_work_and_with_all(place: Cli) -> None:
    head = "name: gate\nagents: {fixer: {adapter: scripted, script: script.yaml}}\n"
    scenario(place, "- {send: fixer, prompt: hang}\n", head)
    process = place.start("run", "s.yaml")
    eventually(lambda: listed(place, "status"))
    assert not listed(place, "agent", "list")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert [words for words in OWN_LISTS if listed(place, *words)] == []
    checked = {check["what"] for check in place("doctor", "--json").lines}
    assert "journal fixer@gate" in checked and "agent fixer@gate" not in checked
    assert [words for words in WHOLE_LISTS if not listed(place, *words)] == []
    for words in (("--all",), ("fixer@gate",)):
        (check,) = [check for check in place("doctor", *words, "--json").lines if check["what"] == "agent fixer@gate"]
        assert check["detail"].startswith("only a scenario declares it")
    assert 'beam_turns_total{agent="fixer@gate"' in place("status", "--metrics").out
    place.config("agents:\n  fixer: {adapter: scripted}\n  fixer@gate: {access: read}\n")
    assert listed(place, "status") and listed(place, "agent", "list"), "what is declared is no scenario's alone"


def test_an_agent_of_a_scenario_that_needs_somebody_is_listed(place: Cli) -> None:
    scenario(place, one("say hi"), "name: gate\n")
    assert place.cold("run", "s.yaml", env={"BEAM_CRASH_AT": "claim.before"}).code == 137
    place("wait", place("queue", "list", "a@gate", "--json").json["id"])
    (line,) = [line for line in place("status", "--json").lines if line["of_run"]]
    assert (line["agent"], line["dead"]) == ("a@gate", 1)
    assert place("queue", "drop", "--dead").code == 0
    assert not any(line["of_run"] for line in place("status", "--json").lines)
    assert place("queue", "pause", "a@gate").code == 0
    assert "a@gate\tpaused" in place("status").out


BY_NAME = (
    *(("log",), ("diff",), ("undo", "--dry-run"), ("status",), ("status", "--usage"), ("watch", "--now"), ("report",)),
    *(("search", "hi", "--agent"), ("asks",), ("agent", "sessions"), ("wait", "--until", "idle", "--agent")),
)


@pytest.mark.parametrize("words", BY_NAME, ids=" ".join)
def test_an_agent_of_a_scenario_is_found_by_its_name_alone(place: Cli, words: tuple[str, ...]) -> None:
    for name in ("gate", "other"):
        scenario(place, "- {send: fixer, prompt: hi}\n", f"name: {name}\nagents: {{fixer: {{adapter: scripted}}}}\n")
        assert place("run", "s.yaml").code == 0
        done = place(*words, "fixer")
        if name == "gate":
            assert "no agent is called" not in done.err, done
        else:
            assert (done.code, "fixer@gate, fixer@other" in done.err) == (2, True), done


def test_what_waits_when_a_run_is_killed_does_not_run_afterwards(place: Cli) -> None:
    scenario(place, one("say hi"))
    assert place.cold("run", "s.yaml", env={"BEAM_CRASH_AT": "claim.before"}).code == 137
    assert place("send", "a@s", "after it").out == "You said: after it\n"
    assert place.types("a@s").count("turn.started") == 1
    assert "a@s" in place("status").out, "a person sent the last message"
    dead = place("queue", "list", "a@s", "--json").json
    assert (dead["box"], dead["text"]) == ("dead", "say hi")
    assert place("queue", "retry", dead["id"]).code == 0
    assert place("wait", dead["id"]).out == "You said: say hi\n"


def test_a_work_tree_of_a_run_that_was_killed_is_removed_by_the_next(place: Cli) -> None:
    git(place, "init", "-q")
    git(place, "-c", "user.name=p", "-c", "user.email=p@x", "commit", "-q", "--allow-empty", "-m", "first")
    scenario(place, "- run: echo x > made.txt\n" + one("hang"), "worktree: true\n")
    process = place.start("run", "s.yaml")
    eventually(lambda: (place.root / "agents" / "a@s").is_dir() and "prompt.sent" in place.types("a@s"))
    trees = place.base / "home" / ".local" / "share" / "beam" / "worktrees"
    (killed,) = [path for path in trees.iterdir() if path.is_dir()]
    assert place("run", "s.yaml", "--name", "other", "--timeout", "1s").code == 2  # no such option: nothing is touched
    scenario(place, "- run: echo x > made.txt\n", "worktree: {keep: true}\n")
    assert place("run", "s.yaml", "--name", "beside").code == 0
    assert killed.is_dir(), "a run that lives keeps its work tree"
    process.kill()
    process.communicate()
    assert place("run", "s.yaml", "--name", "next").code == 0
    assert not killed.is_dir()
    left = [path.name.rpartition("-")[0] for path in trees.iterdir() if path.is_dir()]
    assert sorted(left) == ["beside", "next"], "what is to be kept is kept"
    assert "made.txt" in git(place, "show", "--stat", f"beam/{killed.name}"), "what it changed is in its branch"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--record", "x", "--depth", "model"), 10, "beam can't lead the model calls of a (scripted) through a proxy"),
        (("--replay", "x", "--depth", "model"), 10, "beam can't lead the model calls of a (scripted) through a proxy"),
        (("--record", "x", "--replay", "y"), 2, "a recording is made or replayed, not both"),
        (("--replay", "x", "--depth", "turn,model"), 2, "a replay answers at one depth"),
        (("--replay", "x", "--depth", "model", "--on-miss", "nearest"), 2, "--on-miss nearest is for turns"),
        (("--record", "x", "--on-miss", "live"), 2, "--on-miss is for --replay DIR"),
    ],
)
def test_model_calls_that_cant_be_recorded_are_refused_before_anything_runs(
    place: Cli, words: tuple[str, ...], code: int, said: str
) -> None:
    scenario(place, one("hello"))
    done = place("run", "s.yaml", *words)
    assert (done.code, done.out) == (code, ""), done
    assert said in done.err
