"""The options of `beam send`, each as a script would use it."""

from __future__ import annotations

import json

import pytest

from tests.support.claims import refused, said_once
from tests.support.cli import Cli, Started, eventually

pytestmark = pytest.mark.acceptance

SLOW = "agents:\n  slow: {command: [sh, -c, 'sleep 1.5; cat']}\n  echo: {command: [cat]}\n"


def finish(process: Started) -> tuple[int, str]:
    out, _ = process.communicate(timeout=60)
    return process.returncode, out.decode()


def test_the_same_key_and_text_gives_the_first_outcome_and_no_second_turn(beam: Cli) -> None:
    first = beam("send", "scripted", "hi", "--key", "job-1", "--json").json
    second = beam("send", "scripted", "hi", "--key", "job-1", "--json").json
    assert first == second
    assert beam.types("scripted").count("turn.started") == 1
    assert beam("send", "scripted", "hi", "--key", "job-1").out == "You said: hi\n"


def test_the_same_key_with_another_text_is_refused(beam: Cli) -> None:
    beam("send", "scripted", "hi", "--key", "job-1")
    refused(beam("send", "scripted", "ho", "--key", "job-1"), 2, "job-1", "beam show")
    assert beam.types("scripted").count("turn.started") == 1


def test_two_at_once_with_one_key_are_one_turn(beam: Cli) -> None:
    beam.config(SLOW)
    both = [beam.start("send", "slow", "hi", "--key", "k") for _ in range(2)]
    assert [finish(process) for process in both] == [(0, "hi\n"), (0, "hi\n")]
    assert beam.types("slow").count("turn.started") == 1


def test_a_key_with_no_wait_gives_the_same_id(beam: Cli) -> None:
    ids = {beam("send", "scripted", "hi", "--key", "k", "--no-wait").out for _ in range(3)}
    assert len(ids) == 1
    assert beam("wait", ids.pop().strip()).code == 0
    assert beam.types("scripted").count("turn.started") == 1


def test_a_message_whose_turn_has_not_begun_by_its_deadline_never_runs(beam: Cli) -> None:
    beam.config("agents:\n  slow: {command: [sh, -c, 'until [ -e ../go ]; do sleep 0.05; done; cat']}\n")
    first = beam("send", "slow", "--no-wait", "first").out.strip()
    eventually(lambda: "turn.started" in beam.types("slow"))
    refused(beam("-q", "send", "slow", "second", "--deadline", "200ms"), 3, "deadline", "nothing ran")
    (beam.base / "go").touch()
    assert beam("wait", first).out == "first\n"
    assert beam.types("slow").count("turn.started") == 1


def test_wait_with_a_timeout_stops_nothing(beam: Cli) -> None:
    beam.config(SLOW)
    message = beam("send", "slow", "--no-wait", "hi").out.strip()
    refused(beam("wait", message, "--timeout", "200ms"), 12, message, "nothing was stopped", "beam wait")
    assert beam("wait", message).out == "hi\n"


def test_eight_throw_away_sessions_run_beside_the_main_turn(beam: Cli) -> None:
    here = "touch ../begun.$$; until [ -e ../go ]; do sleep 0.05; done; cat"
    beam.config(f"agents:\n  slow: {{command: [sh, -c, '{here}']}}\n")
    main = beam.start("send", "slow", "main")
    eventually(lambda: "turn.started" in beam.types("slow"))
    once = [beam.start("send", "slow", f"once {number}", "--once", "--json") for number in range(8)]

    def begun() -> bool:
        assert all(process.poll() is None for process in (main, *once)), [p.communicate() for p in once if p.poll()]
        return len(list(beam.base.glob("begun.*"))) == 9

    eventually(begun, 60, lambda: f"they run one after another: {beam('status', '--json').out}")
    (beam.base / "go").touch()
    outcomes = [finish(process) for process in once]
    assert [code for code, _ in outcomes] == [0] * 8
    assert [json.loads(out)["reply"] for _, out in outcomes] == [f"once {number}" for number in range(8)]
    assert finish(main) == (0, "main\n")
    assert beam("send", "slow", "after", "--json").json["turn"] == 2
    shown = beam("show", json.loads(outcomes[3][1])["message_id"])
    assert (shown.code, shown.out) == (0, "once 3\n")


def test_once_leaves_the_session_of_the_agent_alone(beam: Cli) -> None:
    first = beam("send", "scripted", "one", "--json").json
    assert beam("send", "scripted", "aside", "--once", "--json").json["session_id"] != first["session_id"]
    assert beam("send", "scripted", "two", "--json").json["session_id"] == first["session_id"]


def test_new_puts_the_session_aside(beam: Cli) -> None:
    first = beam("send", "scripted", "one", "--json").json
    second = beam("send", "scripted", "two", "--new", "--json").json
    assert (second["session"], second["session_id"] != first["session_id"]) == ("new", True)
    assert "session.archived" in beam.types("scripted")


def test_from_sends_as_another_and_the_journal_says_who_did(beam: Cli) -> None:
    (beam.project / "who.yaml").write_text("default: 'hello {from}'\n")
    beam.config("agents:\n  who: {adapter: scripted, script: ./who.yaml}\n")
    assert beam("send", "who", "hi", "--from", "planner").out == "hello planner\n"
    queued = next(event for event in beam.journal("who") if event["type"] == "message.queued")
    assert (queued["from"], queued["kind"], queued["actor"]) == ("planner", "inject", "human")


def test_from_a_name_that_is_none_is_refused(beam: Cli) -> None:
    refused(beam("send", "scripted", "hi", "--from", "No Name"), 2, "No Name", "sender")


@pytest.mark.parametrize(
    "option",
    [
        ["--access", "read"],
        ["--attach", "beam.yaml"],
        ["--via", "dialogue"],
        ["--model", "big"],
        ["--max-turns", "3"],
        ["--budget", "1"],
    ],
    ids=lambda option: option[0],
)
def test_what_an_agent_can_not_do_is_unsupported(beam: Cli, option: list[str]) -> None:
    beam.config(SLOW)
    refused(beam("send", "echo", "hi", *option), 10, "echo", "unsupported")


def test_a_schema_that_an_agent_can_not_keep_is_unsupported(beam: Cli) -> None:
    beam.config(SLOW)
    (beam.project / "schema.json").write_text('{"type": "object"}')
    refused(beam("send", "echo", "hi", "--schema", "schema.json"), 10, "unsupported", "--schema")


@pytest.mark.parametrize(("text", "code"), [("not json", 2), ("[1]", 2)])
def test_a_schema_that_is_none_is_refused(beam: Cli, text: str, code: int) -> None:
    (beam.project / "schema.json").write_text(text)
    refused(beam("send", "scripted", "hi", "--schema", "schema.json"), code, "schema.json")


def test_a_schema_that_leads_elsewhere_is_refused_before_the_turn(beam: Cli) -> None:
    (beam.project / "schema.json").write_text('{"items": {"$ref": "other.json"}}')
    refused(beam("send", "scripted", "hi", "--schema", "schema.json"), 2, "'other.json' is no place in the schema")
    assert not beam.root.exists()


def test_a_missing_attachment_or_schema_is_named(beam: Cli) -> None:
    refused(beam("send", "scripted", "hi", "--attach", "absent.png"), 4, "absent.png")
    refused(beam("send", "scripted", "hi", "--schema", "absent.json"), 4, "absent.json")


def test_a_paused_agents_sender_hears_of_the_deadline_when_it_passes(beam: Cli) -> None:
    beam("queue", "pause", "scripted")
    refused(beam("-q", "send", "scripted", "hi", "--deadline", "100ms"), 3, "deadline", "nothing ran")


@pytest.mark.parametrize("option", ["--timeout", "--deadline"])
@pytest.mark.parametrize("value", ["soon", "-1s", "", "1y", "nan", "inf"])
def test_a_duration_that_is_none_is_refused(beam: Cli, option: str, value: str) -> None:
    refused(beam("send", "scripted", "hi", f"{option}={value}"), 2)
    assert not beam.root.exists()


def test_the_queue_is_bounded_and_says_so(beam: Cli) -> None:
    beam.config("limits: {waiting: 2}\nagents:\n  box: {adapter: mailbox}\n")
    for number in range(2):
        assert beam("send", "box", "--no-wait", str(number)).code == 0
    refused(beam("send", "box", "--no-wait", "3"), 7, "2 messages wait for box", "beam queue list")


def test_quiet_keeps_notes_away_but_not_errors(beam: Cli) -> None:
    assert "UTF-8" in beam("send", "scripted", "-", stdin=b"caf\xe9").err
    assert beam("-q", "send", "scripted", "-", stdin=b"caf\xe9").err == ""
    said_once(beam("-q", "send", "nobody", "hi"), "nobody")


def test_verbose_gives_the_figures(beam: Cli) -> None:
    done = beam("-v", "send", "scripted", "hi")
    assert (done.code, done.out) == (0, "You said: hi\n")
    folder, figures = done.err.splitlines()
    assert folder == f"beam: scripted works in {beam.project}"
    assert "scripted turn 1" in figures and "session" in figures


def test_a_command_that_only_a_shell_understands_is_warned_about(beam: Cli) -> None:
    warning, wrote = beam("agent", "add", "piped", "--command", "ls | wc -l").err.splitlines()
    assert "no shell runs this command, so '|' is one of its arguments" in warning
    assert "bash -c" in warning and "wrote" in wrote
    said_once(beam("agent", "add", "shell", "--command", "sh -c 'ls | wc -l'"), "wrote")


def test_a_variable_of_the_loader_that_is_not_set_is_named(beam: Cli) -> None:
    beam.config("agents:\n  a: {command: [env], env: {LD_PRELOAD: ./x.so, OTHER: 1}}\n")
    done = beam("send", "a", "hi")
    assert "OTHER=1\n" in done.out
    assert "LD_PRELOAD" not in done.out
    said_once(done, "LD_PRELOAD of a's `env` is not set")


def test_variables_are_set_from_the_command_line(beam: Cli) -> None:
    assert beam("agent", "add", "a", "--command", "env", "--set", "env.ONE=1").code == 0
    assert beam("agent", "set", "a", "env.TWO=2 and more").code == 0
    out = beam("send", "a", "hi").out
    assert "ONE=1\n" in out and "TWO=2 and more\n" in out
    assert beam("agent", "set", "a", "env.ONE=").code == 0
    assert "ONE=1\n" not in beam("send", "a", "hi").out
