"""beam in shell scripts: loops, pipes, command substitution, and whatever environment a script leaves."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from tests.support.claims import refused, said_once
from tests.support.cli import BEAM, BEAM_WORDS, Cli, eventually, processes_with

pytestmark = pytest.mark.acceptance


def test_a_send_in_a_while_read_loop_eats_none_of_the_lines(beam: Cli) -> None:
    (beam.project / "lines.txt").write_text("one\ntwo\nthree\n")
    done = beam.shell('while read -r line; do beam send scripted "$line"; done < lines.txt')
    assert (done.code, done.out) == (0, "You said: one\nYou said: two\nYou said: three\n"), done
    assert done.err == ""


def test_no_wait_in_a_substitution_returns_at_once_though_a_worker_goes_on(beam: Cli) -> None:
    beam.config("agents:\n  slow: {command: [sh, -c, 'until [ -e ../go ]; do sleep 0.05; done; cat']}\n")
    done = beam.shell('id=$(beam send slow --no-wait hi 2>&1); echo "$id"')
    (beam.base / "go").touch()
    message = done.out.strip()
    assert (done.code, done.err) == (0, "")
    assert message.startswith("slow-")
    waited = beam("wait", message)
    assert (waited.code, waited.out, waited.err) == (0, "hi\n", "")


def test_a_worker_ends_when_its_queue_is_empty(beam: Cli) -> None:
    message = beam("send", "scripted", "--no-wait", "hi").out.strip()
    assert beam("wait", message).code == 0
    eventually(lambda: not processes_with(str(beam.base)))


def test_no_wait_prints_the_id_and_nothing_else(beam: Cli) -> None:
    done = beam("send", "scripted", "--no-wait", "hi")
    assert (done.code, done.err, done.out.count("\n")) == (0, "", 1)
    assert beam("wait", done.out.strip()[-6:]).out == "You said: hi\n"


def test_no_wait_with_json_prints_where_the_message_is(beam: Cli) -> None:
    done = beam("send", "scripted", "--no-wait", "hi", "--json")
    assert done.code == 0
    assert beam("wait", done.json["message_id"]).code == 0


@pytest.mark.parametrize("command", ["send scripted hi", "send scripted hi --events", "log scripted --json", "--help"])
def test_a_reader_that_leaves_early_is_no_traceback(beam: Cli, command: str) -> None:
    beam("send", "scripted", "before")
    done = beam.shell(f"set -o pipefail; beam {command} | head -c 1 > /dev/null")
    assert done.code in (0, 141), done
    assert done.err == "", done


def test_a_reader_of_events_that_leaves_does_not_end_the_turn(beam: Cli) -> None:
    beam.shell("beam send scripted hi --events | head -1 > /dev/null")
    finished = [event for event in beam.journal("scripted") if event["type"] == "turn.finished"]
    assert [event["status"] for event in finished] == ["completed"]


def test_the_exit_code_is_the_turns_in_a_condition(beam: Cli) -> None:
    (beam.project / "no.yaml").write_text("default: [{refuse: never}]\n")
    beam.config("agents:\n  no: {adapter: scripted, script: ./no.yaml}\n")
    done = beam.shell('if beam send no hi; then echo yes; else echo "no: $?"; fi')
    assert done.out == "no: 6\n"


def test_events_end_with_the_outcome(beam: Cli) -> None:
    done = beam("send", "scripted", "hi", "--events")
    assert done.code == 0
    assert done.lines[-1]["type"] == "turn.finished"
    assert done.lines[-1]["reply"] == "You said: hi"
    assert [line["seq"] for line in done.lines] == sorted(line["seq"] for line in done.lines)


def test_events_of_a_message_that_is_over_are_its_outcome(beam: Cli) -> None:
    message = beam("send", "scripted", "hi", "--json").json["message_id"]
    done = beam("wait", message, "--events")
    assert [line["type"] for line in done.lines] == ["turn.finished"]


def test_events_of_a_message_that_never_ran_end_with_its_death(beam: Cli) -> None:
    beam.config("agents:\n  slow: {command: [sh, -c, 'until [ -e ../go ]; do sleep 0.05; done; cat']}\n")
    beam("send", "slow", "--no-wait", "first")
    eventually(lambda: "turn.started" in beam.types("slow"))
    done = beam("send", "slow", "second", "--deadline", "100ms", "--events")
    (beam.base / "go").touch()
    assert done.code == 3, done
    assert done.lines[-1]["type"] == "message.dead"
    said_once(done, "deadline")


@pytest.mark.parametrize(
    "line",
    [
        "beam send where hi",
        "beam send where hi --once",
        'beam wait "$(beam send where hi --no-wait)"',
        "beam broker start > /dev/null; beam send where hi; beam broker stop",
        "beam run where.yaml > /dev/null; cat home.txt",
        "beam send asker hi",
    ],
)
def test_without_home_beam_and_all_that_it_starts_have_the_one_of_the_user_database(line: str, beam: Cli) -> None:
    asker = f"{BEAM_WORDS} send where hi"
    beam.config(f"agents:\n  where: {{command: [sh, -c, 'echo $HOME']}}\n  asker: {{command: [sh, -c, {asker!r}]}}\n")
    (beam.project / "where.yaml").write_text("beam: 1\nsteps:\n  - run: echo $HOME > home.txt\n")
    done = beam.shell(f'export BEAM_TRUST=1 BEAM_STATE="{beam.base}/state"; unset HOME; {line}')
    assert (done.code, done.out) == (0, f"{pwd.getpwuid(os.getuid()).pw_dir}\n"), done


def test_in_a_directory_that_is_gone_it_says_so(beam: Cli) -> None:
    done = beam.shell("mkdir gone; cd gone; rmdir ../gone; beam send scripted hi")
    refused(done, 2, "current directory")


def test_dash_c_runs_elsewhere(beam: Cli) -> None:
    done = beam.shell(f'cd /; beam -C "{beam.project}" send scripted hi')
    assert (done.code, done.out) == (0, "You said: hi\n")
    assert beam.types("scripted").count("turn.finished") == 1


def test_dash_c_to_nowhere_is_named(beam: Cli) -> None:
    refused(beam("-C", "/no/such/place", "status"), 2, "/no/such/place")


@pytest.mark.parametrize(
    "env",
    [
        {"BEAM_ROOT": "/proc/nothing"},
        {"BEAM_ROOT": "/etc/passwd"},
        {"BEAM_ROOT": "/"},
        {"BEAM_ALLOW_FS": "x", "BEAM_TIMEOUT": "soon"},
    ],
)
def test_nonsense_in_the_environment_is_one_line(beam: Cli, env: dict[str, str]) -> None:
    done = beam("send", "scripted", "hi", env=env)
    assert done.code in (0, 2, 74), done
    if done.code:
        said_once(done)
    assert "Traceback" not in done.err


def test_a_locale_without_unicode_gets_exact_bytes_all_the_same(beam: Cli) -> None:
    beam.config("agents:\n  echo: {command: [cat]}\n")
    for env in ({"LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"}):
        done = beam("send", "echo", "grüß → 字", env=env)
        assert (done.code, done.out) == (0, "grüß → 字\n"), (env, done)


ERRORS = [
    (["send", "nobody", "hi"], 4, "not_found"),
    (["send", "scripted", ""], 2, "usage"),
    (["send"], 2, "usage"),
    (["send", "scripted", "hi", "--nope"], 2, "usage"),
    (["send", "scripted", "hi", "--max-turns", "many"], 2, "usage"),
    (["send", "scripted", "hi", "--timeout", "soon"], 2, "usage"),
    (["send", "scripted", "hi", "--access", "root"], 2, "usage"),
    (["wait", "nothing-here"], 4, "not_found"),
    (["wait", "abc"], 2, "usage"),
    (["show", "nothing-here"], 4, "not_found"),
    (["recv", "scripted"], 10, "unsupported"),
    (["log", "nobody"], 4, "not_found"),
    (["status", "nobody"], 4, "not_found"),
    (["agent", "show", "nobody"], 4, "not_found"),
    (["queue", "list", "nobody"], 4, "not_found"),
    (["watch", "--now", "--since", "x"], 2, "usage"),
    (["nonsense"], 2, "usage"),
    (["agent", "nonsense"], 2, "usage"),
    (["-C", "/nowhere/at/all", "status"], 2, "usage"),
]


@pytest.mark.parametrize(
    ("args", "code", "kind"), ERRORS, ids=lambda value: " ".join(value) if isinstance(value, list) else None
)
def test_every_error_with_json_is_one_object_on_stdout_and_one_line_on_stderr(
    beam: Cli, args: list[str], code: int, kind: str
) -> None:
    done = beam(*args, "--json")
    assert done.code == code, done
    body = done.json
    assert set(body) == {"v", "error"}
    assert set(body["error"]) == {"exit_code", "kind", "message", "hint", "subject"}
    assert (body["error"]["exit_code"], body["error"]["kind"]) == (code, kind)
    assert said_once(done).startswith(f"beam: {body['error']['message']}")
    assert not beam.root.exists()


def test_json_after_two_dashes_is_text(beam: Cli) -> None:
    done = beam("send", "nobody", "--", "--json")
    refused(done, 4, "nobody")


def test_a_failed_turn_with_json_is_an_outcome_not_an_error(beam: Cli) -> None:
    beam.config("agents:\n  bad: {command: ['false']}\n")
    done = beam("send", "bad", "hi", "--json")
    assert (done.code, done.json["status"], done.json["exit_code"]) == (1, "failed", 1)
    said_once(done, "bad")


def test_a_bug_is_a_file_with_the_traceback_and_exit_70(beam: Cli) -> None:
    code = (
        "import sys\nfrom beam.cli import context\n"
        "context.Context.beam = property(lambda self: 1 / 0)\n"
        "sys.argv = ['beam', 'status']\nfrom beam.cli.main import main\nmain()\n"
    )
    done = beam.shell(f"'{BEAM[0]}' -c '{code.replace(chr(39), chr(34))}'")
    assert done.code == 70, done
    line = said_once(done, "bug", "ZeroDivisionError")
    path = line.rpartition(" in ")[2]
    assert "ZeroDivisionError" in Path(path).read_text()


@pytest.mark.parametrize(
    "args",
    [
        ["status"],
        ["log", "scripted"],
        ["watch", "--now"],
        ["queue", "list"],
        ["agent", "list"],
        ["doctor"],
        ["agent", "show", "scripted"],
        ["show", "nothing-here"],
    ],
)
def test_looking_creates_nothing(beam: Cli, args: list[str]) -> None:
    beam(*args)
    assert list(beam.project.iterdir()) == []


@pytest.mark.parametrize(
    "args", [[], ["agent"], ["queue"], ["dev"], ["-h"], ["help"], ["help", "send"], ["agent", "list", "-h"]]
)
def test_help_is_there_wherever_one_looks_for_it(beam: Cli, args: list[str]) -> None:
    done = beam(*args)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: beam")
    assert max(map(len, done.out.splitlines())) <= 80


def test_every_command_has_help_that_fits_and_says_what_it_does(beam: Cli) -> None:
    from beam.cli.app import COMMANDS

    groups = {"agent": ["list", "show", "add", "set", "rm", "reset"], "queue": ["list", "retry", "drop", "edit"]}
    names = [[name] for name in COMMANDS] + [[group, verb] for group, verbs in groups.items() for verb in verbs]
    pages = []
    for first in range(0, len(names), 10):
        some = names[first : first + 10]
        done = beam.shell("".join(f"beam {' '.join(name)} --help || exit 1; echo ----;\n" for name in some))
        assert done.code == 0, done
        pages += done.out.split("----\n")[:-1]
    assert len(pages) == len(names)
    for page in pages:
        assert page.startswith("Usage: beam")
        assert len(page.split("\n\n")) >= 3
        assert max(map(len, page.splitlines())) <= 80
        assert "{" not in page.splitlines()[0]


def test_outcomes_of_json_hold_all_the_fields_that_are_promised(beam: Cli) -> None:
    outcome = beam("send", "scripted", "hi", "--json").json
    promised = {
        *("v", "message_id", "agent", "turn", "attempt", "status", "class", "reason", "reply", "session_id", "session"),
        *("via", "model", "usage", "cost_usd", "models", "duration_s", "exit_code", "denials", "redacted"),
    }
    assert promised <= set(outcome)
    tokens = {"input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens"}
    assert set(outcome["usage"]) == tokens | {"calls"}
    assert json.dumps(outcome)


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LANG": "C", "LC_ALL": ""}])
def test_no_escape_is_printed_where_the_locale_has_ascii_alone(locale: dict[str, str], beam: Cli) -> None:
    said = beam.cold("agent", "add", "x", env={**locale, "PYTHONCOERCECLOCALE": "0"}).err
    assert "\\u" not in said
    assert "beam agent list --all" in said
