"""What bad luck with agents gets: one clear line, the right exit code, nothing lost, nothing hangs."""

from __future__ import annotations

import pytest

from tests.support.claims import refused, said_once
from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance


def script(beam: Cli, text: str) -> None:
    """Makes `tester` a scripted agent that plays this."""
    (beam.project / "tester.yaml").write_text(text)
    beam.config("agents:\n  tester: {adapter: scripted, script: ./tester.yaml}\n")


def test_an_unknown_agent_is_told_the_nearest_name_and_makes_nothing(beam: Cli) -> None:
    refused(beam("send", "scriptd", "hi"), 4, "'scriptd'", "did you mean scripted?")
    assert not beam.root.exists()


def test_an_unknown_agent_far_from_all_is_told_what_there_is(beam: Cli) -> None:
    refused(beam("send", "nobody", "hi"), 4, "'nobody'", "beam agent list --all")


def test_a_missing_cli_is_told_how_to_install_it(beam: Cli) -> None:
    refused(beam("send", "claude", "hi", env={"PATH": "/nonexistent"}), 4, "claude", "install")
    assert not beam.root.exists()


def test_a_missing_program_of_a_command_agent_is_named(beam: Cli) -> None:
    beam.config("agents:\n  gone: {command: [no-such-program-here]}\n")
    done = beam("send", "gone", "hi")
    refused(done, 4, "no-such-program-here")


def test_a_program_that_goes_missing_while_a_message_waits_fails_that_message(beam: Cli) -> None:
    program = beam.project / "agent.sh"
    program.write_text("#!/bin/sh\ncat\n")
    program.chmod(0o755)
    beam.config("agents:\n  mine: {command: [./agent.sh]}\n")
    assert beam("send", "mine", "one").code == 0
    program.write_text("#!/nonexistent/interpreter\n")
    assert beam("trust", "--yes").code == 0
    done = beam("send", "mine", "two", "--json")
    assert done.code in (1, 4), done
    assert done.json["status"] == "failed"
    said_once(done, "mine")


def test_a_line_of_a_megabyte_arrives_whole(beam: Cli) -> None:
    script(beam, "default: [{big: 1048576}]\n")
    done = beam("send", "tester", "go")
    assert (done.code, len(done.out), done.err) == (0, 1048577, "")


def test_invalid_utf8_from_an_agent_is_replaced_and_the_turn_completes(beam: Cli) -> None:
    beam.config("agents:\n  raw: {command: [printf, 'a\\377b\\n']}\n")
    done = beam("send", "raw", "go")
    assert (done.code, done.out) == (0, "a\ufffdb\n")


def test_lone_surrogates_from_an_agent_are_no_crash(beam: Cli) -> None:
    beam.config(r"""
agents:
  odd:
    command: [printf, '%s\n', '{"reply": "a\ud800b"}']
    format: json
    reply_path: reply
""")
    done = beam("send", "odd", "go")
    assert done.code == 0, done
    assert done.out == "a\ufffdb\n"


def test_garbage_between_the_lines_of_an_agent_is_kept_and_survived(beam: Cli) -> None:
    script(beam, 'default:\n  - garbage: ["not json", "{\\"frame\\": 7}", "\\u0000"]\n  - still here\n')
    done = beam("send", "tester", "go")
    assert (done.code, done.out) == (0, "still here\n")
    assert beam.types("tester").count("unknown") >= 2


def test_an_agent_that_crashes_is_a_failure_with_its_last_words(beam: Cli) -> None:
    script(beam, "default: [{stderr: out of luck}, {crash: SIGKILL}]\n")
    done = beam("send", "tester", "go")
    refused(done, 1, "tester", "crashed", "out of luck")


def test_an_agent_that_says_nothing_completes_with_nothing(beam: Cli) -> None:
    script(beam, "default: [{silent: true}]\n")
    done = beam("send", "tester", "go")
    assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.parametrize(
    ("step", "code", "status", "out"),
    [
        ("{refuse: not that}", 6, "refused", "so far\n"),
        ("{truncate: true}", 11, "truncated", "so far\n"),
        ("{limit: too dear}", 7, "limit", ""),
        ("{deny: Bash}", 5, "denied", "so far\n"),
        ("{fail: {class: overloaded, reason: busy}}", 1, "failed", ""),
        ("{crash: 3}", 1, "failed", ""),
    ],
)
def test_each_end_of_a_turn_has_its_exit_code_and_one_line(
    beam: Cli, step: str, code: int, status: str, out: str
) -> None:
    script(beam, f"default: [so far, {step}]\n")
    done = beam("send", "tester", "go")
    assert (done.code, done.out) == (code, out), done
    said_once(done, "tester", status)


def test_a_session_that_is_gone_is_said_and_the_turn_begins_once_afresh(beam: Cli) -> None:
    script(beam, "rules:\n  - {match: lose, reply: [{lose_session: true}, losing it]}\ndefault: turn {turn}\n")
    first = beam("send", "tester", "lose", "--json").json
    done = beam("send", "tester", "again", "--json")
    assert done.code == 0, done
    assert (done.json["session"], done.json["reply"]) == ("lost", "turn 1")
    assert done.json["session_id"] != first["session_id"]
    assert beam.types("tester").count("session.lost") == 1
    assert beam("send", "tester", "third", "--json").json["session"] == "resumed"


def test_a_lost_session_is_one_note_for_a_person(beam: Cli) -> None:
    script(beam, "rules:\n  - {match: lose, reply: [{lose_session: true}, losing it]}\ndefault: turn {turn}\n")
    beam("send", "tester", "lose")
    done = beam("send", "tester", "again")
    assert (done.code, done.out) == (0, "turn 1\n")
    said_once(done, "session", "new")


def test_a_resume_that_fails_for_another_reason_is_a_failure_and_keeps_the_session(beam: Cli) -> None:
    (beam.project / "agent.sh").write_text(
        'test -n "$1" && test -e broken && { echo "the store is locked" >&2; exit 1; }\n'
        'cat > /dev/null; echo \'{"reply": "ok", "id": "s-1"}\'\n'
    )
    beam.config("""
agents:
  tester: {command: [sh, agent.sh, ["{session}"]], format: json, reply_path: reply, session_path: id}
""")
    assert beam("send", "tester", "one", "--json").json["session_id"] == "s-1"
    (beam.project / "broken").touch()
    refused(beam("send", "tester", "two"), 1, "tester", "failed", "the store is locked")
    assert "session.lost" not in beam.types("tester")
    (beam.project / "broken").unlink()
    third = beam("send", "tester", "three", "--json").json
    assert (third["session"], third["session_id"]) == ("resumed", "s-1")


def test_a_turn_that_hangs_is_stopped_at_its_timeout_with_what_it_said(beam: Cli) -> None:
    script(beam, "default: [so far, {hang: true}]\n")
    done = beam("send", "tester", "go", "--timeout", "1s", "--json")
    assert done.code == 3, done
    assert (done.json["status"], done.json["exit_code"]) == ("timeout", 3)
    assert done.json["reply"] == "so far"
    said_once(done, "tester", "timeout", "1s", "beam log tester", "send `continue`")


def test_a_turn_that_goes_quiet_is_stopped_as_stalled(beam: Cli) -> None:
    (beam.project / "tester.yaml").write_text("default: [{hang: true}]\n")
    beam.config("agents:\n  tester: {adapter: scripted, script: ./tester.yaml, idle_timeout: 1s}\n")
    done = beam("send", "tester", "go")
    refused(done, 3, "timeout (stalled)")


def test_a_stubborn_agent_is_ended_all_the_same(beam: Cli) -> None:
    (beam.project / "tester.yaml").write_text("default: [{hang: true, stubborn: true}]\n")
    beam.config("limits: {grace: 500ms}\nagents:\n  tester: {adapter: scripted, script: ./tester.yaml}\n")
    refused(beam("send", "tester", "go", "--timeout", "500ms"), 3, "timeout")


def test_a_script_that_is_wrong_fails_with_the_place_and_the_nearest_key(beam: Cli) -> None:
    script(beam, "default: [{txt: hello}]\n")
    refused(beam("send", "tester", "go"), 1, "bad_request", "txt", "text")


def test_a_configuration_that_is_wrong_names_the_key_and_the_nearest_one(beam: Cli) -> None:
    beam.config("agents:\n  tester: {adaptr: scripted}\n")
    refused(beam("send", "tester", "go"), 2, "adaptr", "adapter")


def test_a_beam_yaml_that_is_no_yaml_is_named(beam: Cli) -> None:
    beam.config("agents: [\n")
    refused(beam("send", "tester", "go"), 2, "beam.yaml")
