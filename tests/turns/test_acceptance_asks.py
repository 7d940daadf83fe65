"""An agent asks, and somebody decides: through the real `beam`, from another process, or nobody in time."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.support import asking
from tests.support.asking import SEND, first_ask, kinds, place, started
from tests.support.cli import BEAM_WORDS, Cli, Started, eventually, kill_hard
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance


def ended(process: Started) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


def test_an_ask_is_shown_everywhere_and_approved_from_another_process(beam: Cli) -> None:
    place(beam, adapter="claude")
    process, ask = started(beam)
    assert (ask["agent"], ask["tool"], ask["description"], ask["turn"]) == ("tui", "Bash command", "touch zz", 1)
    assert ask["suggestions"] == ["Yes, and don't ask again for zz"]
    (file,) = (beam.root / "agents" / "tui" / "asks").iterdir()
    assert json.loads(file.read_bytes())["ask_id"] == ask["id"] == file.stem
    assert "waiting" in beam("status").out and f"beam approve {ask['id'][-6:]}" in beam("status").out
    assert beam("status", "--json").json["running"]["asks"][0]["id"] == ask["id"]
    assert f"asks for Bash command: touch zz [{ask['id']}]" in beam("watch", "--now").out
    head, row = beam("asks").out.splitlines()
    assert head.split("\t") == ["ID", "AGENT", "AGE", "LEFT", "TOOL", "WHAT", "ALWAYS"]
    assert row.endswith("\ttouch zz\tYes, and don't ask again for zz")
    assert beam("approve", ask["id"][-4:]).code == 0
    code, out, err = ended(process)
    assert (code, out) == (0, "ran zz\n")
    assert err.startswith(f"beam: tui asks for Bash command: touch zz; beam approve {ask['id'][-6:]}, or beam deny")
    assert err.count("\n") == 1
    assert kinds(beam) == ["asked", "allow"]
    assert list((beam.root / "agents" / "tui" / "asks").iterdir()) == []
    assert beam("asks").err == "beam: no agent waits for a decision\n"


@pytest.mark.parametrize("given", [[], ["tui"]])
def test_at_a_terminal_the_only_ask_is_shown_and_approved_without_an_id(beam: Cli, given: list[str]) -> None:
    place(beam)
    process, ask = started(beam)
    person = Terminal(beam, "approve", *given, columns=160)
    assert person.end() == 0, person.seen
    assert person.seen.splitlines()[0] == "beam: tui asks for Bash command: touch zz"
    assert person.seen.splitlines()[1].startswith(f"beam: {ask['id']}: ")
    assert ended(process)[:2] == (0, "ran zz\n")


def test_without_a_terminal_an_ask_is_named_by_its_id_and_the_open_ones_are_told(beam: Cli) -> None:
    place(beam)
    process, ask = started(beam)
    for verb in ("approve", "deny"):
        for given, code in ((["claude"], 4), (["tui"], 2), ([], 2)):
            refused = beam(verb, *given)
            assert (refused.code, refused.out) == (code, "") and f"open: {ask['id']}" in refused.err, refused
    assert kinds(beam) == ["asked"]
    assert beam("deny", ask["id"]).code == 0
    ended(process)


def test_a_denial_by_a_person_is_an_ordinary_answer_and_listed(beam: Cli) -> None:
    place(beam)
    process, ask = started(beam, "--json")
    assert beam("deny", ask["id"], "--message", "not\nthis one").code == 0
    code, out, _ = ended(process)
    outcome = json.loads(out)
    assert (code, outcome["status"], outcome["reply"]) == (0, "completed", "did not run zz: not this one")
    assert [(denial["tool"], denial["by"]) for denial in outcome["denials"]] == [("Bash command", "human")]
    assert outcome["evidence"] == "screen"


def test_what_nobody_decides_in_time_is_denied(beam: Cli) -> None:
    place(beam, limits="{ask_timeout: 1s}")
    done = beam(*SEND, "--json", "zz")
    assert (done.code, done.json["status"], done.json["reply"]) == (5, "denied", "did not run zz")
    assert done.json["denials"][0]["by"] == "default" and "nobody decided" in done.json["reason"]
    decided = next(event for event in beam.journal("tui") if event["type"] == "permission.decided")
    assert decided["why"] == "nobody decided within 1s"


@pytest.mark.parametrize("access", ["read", "edit"])
def test_with_another_access_nobody_is_asked(beam: Cli, access: str) -> None:
    place(beam, adapter="claude")
    done = beam(*SEND, "--access", access, "--json", "zz")
    assert (done.code, done.json["status"], done.json["reply"]) == (5, "denied", "did not run zz")
    assert kinds(beam) == ["asked", "deny"]


def test_each_request_is_an_ask_of_its_own_until_one_is_allowed_always(beam: Cli) -> None:
    place(beam)
    process, first = started(beam, text="a b c")
    assert beam("deny", first["id"]).code == 0
    second = first_ask(beam, but=(first["id"],))
    assert second["description"] == "touch b"
    assert beam("approve", first["id"]).code == 4
    assert beam("approve", second["id"], "--always").code == 0
    assert ended(process)[:2] == (0, "did not run a\n\nran b\n\nran c\n")
    assert kinds(beam) == ["asked", "deny", "asked", "allow"]


def test_an_ask_that_is_over_or_unknown_is_refused_and_changes_nothing(beam: Cli) -> None:
    place(beam)
    process, ask = started(beam)
    assert beam("approve", "nosuchask").code == 4
    assert beam("deny", "abc").code == 2
    assert beam("deny", ask["id"]).code == 0
    ended(process)
    late = beam("approve", ask["id"])
    assert (late.code, late.out) == (4, "") and "it was decided" in late.err
    assert kinds(beam) == ["asked", "deny"]


def test_an_answer_that_the_agent_does_not_offer_is_unsupported_and_the_ask_stays_open(beam: Cli) -> None:
    place(beam, "plain")
    process, ask = started(beam)
    refused = beam("approve", ask["id"], "--always")
    assert refused.code == 10 and "does not offer" in refused.err
    assert beam("approve", ask["id"]).code == 0
    assert ended(process)[:2] == (0, "ECHO[1]\n")


def test_an_agent_that_goes_on_without_a_decision_cancels_its_ask(beam: Cli) -> None:
    place(beam, "fickle")
    done = beam(*SEND, "zz")
    assert (done.code, done.out) == (0, "ECHO[it went on]\n")
    assert kinds(beam) == ["asked", "cancelled"]
    cancelled = next(event for event in beam.journal("tui") if event.get("decision") == "cancelled")
    assert cancelled["why"] == "it was answered on the agent's own screen"


def test_a_denial_that_stops_ends_the_turn(beam: Cli) -> None:
    place(beam)
    process, ask = started(beam, "--json", text="a b")
    assert beam("deny", ask["id"], "--stop").code == 0
    code, out, _ = ended(process)
    outcome = json.loads(out)
    assert (code, outcome["status"], outcome["reason"]) == (9, "cancelled", "stopped by human")
    assert [denial["by"] for denial in outcome["denials"]] == ["human"]


@pytest.mark.parametrize("how", ["interrupt", "^C", "timeout"])
def test_the_end_of_the_turn_cancels_the_open_ask(beam: Cli, how: str) -> None:
    place(beam)
    process, ask = started(beam, *(("--timeout", "20s") if how == "timeout" else ()))
    if how == "interrupt":
        assert beam("interrupt", "tui").code == 0
    elif how == "^C":
        process.send_signal(signal.SIGINT)
    assert ended(process)[0] == {"interrupt": 9, "^C": -signal.SIGINT, "timeout": 3}[how]
    assert kinds(beam) == ["asked", "cancelled"]
    assert beam("approve", ask["id"]).code == 4
    assert list((beam.root / "agents" / "tui" / "asks").iterdir()) == []


def test_the_idle_clock_stands_still_while_an_ask_is_open(beam: Cli) -> None:
    place(beam, limits="{}\ndefaults: {idle_timeout: 8s}")
    process, ask = started(beam)
    time.sleep(9)
    assert beam("approve", ask["id"]).code == 0
    assert ended(process)[:2] == (0, "ran zz\n")


def test_an_ask_of_a_holder_that_was_killed_is_cancelled_by_the_next(beam: Cli) -> None:
    place(beam)
    process, ask = started(beam)
    kill_hard(process)
    assert beam("asks", "--json").lines == []
    assert beam("approve", ask["id"]).code == 4
    assert beam("wait", ask["message_id"]).code == 8
    assert kinds(beam) == ["asked", "cancelled"]
    cancelled = next(event for event in beam.journal("tui") if event.get("decision") == "cancelled")
    assert (cancelled["why"], cancelled["message_id"]) == ("its holder died", ask["message_id"])
    assert list((beam.root / "agents" / "tui" / "asks").iterdir()) == []


def test_an_ask_of_a_throw_away_session_is_decided_the_same_way(beam: Cli) -> None:
    place(beam)
    process, ask = started(beam, "--once")
    assert beam("approve", ask["id"][-6:]).code == 0
    assert ended(process)[:2] == (0, "ran zz\n")


def test_an_agent_can_not_approve_and_may_deny(beam: Cli) -> None:
    place(beam)
    process, ask = started(beam)
    inside = {"BEAM_AGENT": "planner", "BEAM_HOPS": "0"}
    refused = beam("approve", ask["id"], env=inside)
    assert refused.code == 2 and "is an agent" in refused.err
    assert beam("deny", ask["id"], env=inside).code == 0
    ended(process)
    decided = next(event for event in beam.journal("tui") if event["type"] == "permission.decided")
    assert decided["by"] == "planner"


def test_an_agent_denies_in_its_own_name_and_ends_no_turn_of_somebody_else(beam: Cli) -> None:
    place(beam)
    (beam.project / "plan.sh").write_text(
        f'beam() {{ {BEAM_WORDS} "$@"; }}\nid=$(cat)\n'
        'beam deny "$id" --stop; echo stop $?\nbeam deny "$id" --message "run it elsewhere"; echo deny $?\n'
    )
    agents = (
        (beam.project / "beam.yaml")
        .read_text()
        .replace("agents:\n", "agents:\n  planner: {command: [bash, plan.sh]}\n")
    )
    beam.config(agents)
    process, ask = started(beam, "--json")
    assert beam("send", "planner", ask["id"]).out == "stop 2\ndeny 0\n"
    outcome = json.loads(ended(process)[1])
    assert (outcome["status"], outcome["reply"]) == ("completed", "did not run zz: [from planner] run it elsewhere")


def test_a_question_that_nobody_described_waits_with_its_screen_and_ends_stalled(beam: Cli) -> None:
    place(beam, "shed", limits="{ask_timeout: 3s}")
    done = beam(*SEND, "--json", "zz")
    assert (done.code, done.json["status"], done.json["class"], done.json["reply"]) == (1, "failed", "stalled", None)
    assert "shed be?" in done.json["reason"] and kinds(beam) == ["asked", "deny"]


def test_a_question_that_nobody_described_can_be_denied_and_not_approved(beam: Cli) -> None:
    place(beam, "shed")
    process, ask = started(beam, "--json")
    assert "What colour shall the shed be?" in ask["description"]
    assert beam("status", "--json").json["state"] == "waiting"
    refused = beam("approve", ask["id"])
    assert refused.code == 10 and "own screen" in refused.err
    assert beam("deny", ask["id"]).code == 0
    assert json.loads(ended(process)[1])["class"] == "stalled"


# -- at a terminal -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "answer"), [("y\n", "ran zz"), ("what\nn\n", "did not run zz"), ("always\n", "ran zz")]
)
def test_a_person_who_waits_at_a_terminal_is_asked_right_there(beam: Cli, typed: str, answer: str) -> None:
    place(beam)
    terminal = Terminal(beam, *SEND, "zz")
    terminal.until("tui asks for Bash command: touch zz", 40)
    terminal.until("Allow it? [yes / no / always / stop] ")
    terminal.type(typed)
    terminal.until(answer, 40)
    assert terminal.end() == 0


def test_an_answer_from_elsewhere_ends_the_question(beam: Cli) -> None:
    place(beam)
    terminal = Terminal(beam, *SEND, "zz")
    terminal.until("Allow it?", 40)
    assert beam("approve", first_ask(beam)["id"]).code == 0
    terminal.until("ran zz", 40)
    assert terminal.end() == 0


def test_what_was_typed_before_the_question_is_no_answer(beam: Cli) -> None:
    place(beam)
    terminal = Terminal(beam, *SEND, "zz")
    terminal.type("y\n")
    terminal.until("Allow it?", 40)
    ask = first_ask(beam)
    terminal.type("n\n")
    terminal.until("did not run zz", 40)
    assert terminal.end() == 0
    assert next(event for event in beam.journal("tui") if event["type"] == "permission.decided")["ask_id"] == ask["id"]


def test_a_person_at_a_terminal_gets_access_ask_where_nothing_else_is_said(beam: Cli) -> None:
    place(beam, adapter="claude")
    (beam.project / "beam.yaml").write_text((beam.project / "beam.yaml").read_text().replace(", access: ask", ""))
    terminal = Terminal(beam, *SEND, "zz")
    terminal.until("Allow it?", 40)
    terminal.type("y\n")
    assert terminal.end(60) == 0
    assert "ran zz" in terminal.seen
    alone = beam(*SEND, "--json", "zz")
    assert (alone.code, alone.json["status"]) == (5, "denied")
    in_ci = Terminal(beam, *SEND, "zz", env={"CI": "1"})
    assert in_ci.end(60) == 5


# -- what decided ------------------------------------------------------------------------------------------------------


def test_a_screen_is_no_evidence_where_structured_evidence_is_required(beam: Cli) -> None:
    asking.place(beam, "echo", adapter="claude")
    done = beam(*SEND, "--require", "structured", "--json", "hello")
    assert (done.code, done.json["status"], done.json["class"]) == (10, "failed", "unsupported")
    assert (done.json["reply"], done.json["evidence"]) == (None, "screen")
    plain = beam(*SEND, "--require", "structured", "hello")
    assert (plain.code, plain.out) == (10, "") and "structured evidence was required" in plain.err
    assert beam(*SEND, "--require", "much", "hello").code == 2


def test_a_shell_that_marks_its_prompt_is_structured_evidence(beam: Cli) -> None:
    beam.env["BEAM_TRUST"] = "1"
    done = beam("send", "bash", "--require", "structured", "--json", "echo hi").json
    assert (done["status"], done["reply"], done["evidence"]) == ("completed", "hi", "osc")


@pytest.mark.parametrize(
    ("agent", "message", "reply"),
    [
        ("bash", r"printf 'note\n\033]133;A\007$ '; sleep 2; echo end", "note\n$ end"),
        ("bash", r"printf 'note\n\033]133;A\007'; sleep 2; printf end", "note\nend"),
        ("bash", r"printf '\033]7501;state=working\007\033]7501;state=done\007'; sleep 2; echo end", "end"),
        ("bash", r"stty cbreak; printf '\033]133;A\007$ '; sleep 2; echo end; stty sane", "$ end"),
        ("python", "import time; print(end='\\33]133;A\\7>>> ', flush=True); time.sleep(2); print('end')", ">>> end"),
    ],
)  # fmt: skip
def test_what_a_command_prints_is_not_taken_for_the_mark_of_its_shells_prompt(
    beam: Cli, agent: str, message: str, reply: str
) -> None:
    beam.env["BEAM_TRUST"] = "1"
    done = beam("send", agent, "--require", "structured", "--json", message).json
    assert (done["status"], done["reply"], done["evidence"]) == ("completed", reply, "osc")


def test_the_mark_of_a_shell_that_nobody_described_is_no_structured_evidence(beam: Cli) -> None:
    (beam.project / "rc").write_text("PS1='\\[\\e]133;A\\a\\]me% '\n")
    beam.config("agents:\n  shell:\n    command: [bash, --noprofile, --rcfile, rc, -i]\n")
    done = beam("send", "shell", "--via", "terminal", "--json", "printf hi").json
    assert (done["status"], done["reply"], done["evidence"]) == ("completed", "hi", "prompt")


def test_a_face_without_a_screen_has_no_such_evidence_and_needs_none(beam: Cli) -> None:
    done = beam("send", "scripted", "--require", "structured", "--json", "hi", env={"BEAM_TRUST": "1"}).json
    assert (done["status"], done["evidence"]) == ("completed", None)


def test_the_prompt_that_came_back_is_the_evidence_of_a_program_that_nobody_described(beam: Cli) -> None:
    (beam.project / "db.py").write_text("while True: print(eval(input('(db) ')))")
    beam.config("agents:\n  db:\n    command: [python3, db.py]\n")
    done = beam("send", "db", "--via", "terminal", "--json", "6 * 7").json
    assert (done["reply"], done["evidence"]) == ("42", "prompt")


def test_an_old_message_has_the_digest_that_it_had(beam: Cli) -> None:
    """A message that waited while beam was upgraded is the same message: options that are new are left out."""
    from beam.model.message import Message, Options, Payload, encode

    message = Message(id="a-1", timestamp="t", sender="human", to="a", payload=Payload(text="x"), options=Options())
    assert b"require" not in encode(message)


def test_asks_follow_a_worker_that_nobody_watches(beam: Cli) -> None:
    place(beam)
    message_id = beam(*SEND, "--no-wait", "zz").out.strip()
    ask = first_ask(beam)
    assert ask["message_id"] == message_id
    assert beam("approve", ask["id"]).code == 0
    eventually(lambda: "turn.finished" in beam.types("tui"), 40)
    assert beam("wait", message_id).out == "ran zz\n"
