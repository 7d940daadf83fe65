"""What an agent on its own screen does, asks for and is kept from; and turns there that are stopped."""

from __future__ import annotations

import os

from beam.testing.conformance.conversation import complete_turn
from beam.testing.conformance.subject import GO_ON
from tests.conformance.cases import refused
from tests.conformance.screens import ROW, OnScreen, on_screen
from tests.support.cli import eventually


@on_screen("access read on its screen", "access:read")
def test_screen_read(subject: OnScreen) -> str:
    """The model wants to write a file and to run a command."""
    subject.leave()
    made = subject.cli.project / "made-by-reading"
    wanted = subject.screen.begins + subject.data.write.prompt(path=str(made), text="x")
    if subject.data.shell is not None:
        wanted += " " + subject.data.shell.prompt(command=f"touch '{made}-2'")
    before = len(subject.model.prompts())
    done = subject.send(wanted, "--new", access="read")
    outcome = done.json
    assert outcome["status"] in ("completed", "denied"), done
    assert len(subject.model.prompts()) > before
    assert [path.name for path in subject.cli.project.iterdir() if "by-reading" in path.name] == []
    asked, decided = (subject.events(f"permission.{word}", outcome["turn"]) for word in ("asked", "decided"))
    assert [ask["ask_id"] for ask in asked] == [each["ask_id"] for each in decided if each["by"] == "default"]
    denied = [denial["tool"] for denial in outcome["denials"] or ()]
    return f"{outcome['status']}: nothing was written, and nobody was asked" + (
        f"; denied: {', '.join(denied)}" if denied else ""
    )


@on_screen("approval of what it asks for", "ask", otherwise=refused(access="ask"))
def test_screen_approve(subject: OnScreen) -> str:
    """What happens is what was shown, and only once it was approved."""
    subject.keep()
    ask, outcome = subject.decided(subject.wants("made-by-approval"), "approve")
    assert subject.wanted("made-by-approval") in ask["description"]
    assert (subject.cli.project / "made-by-approval").exists()
    assert (outcome["status"], outcome["exit_code"], outcome["denials"]) == ("completed", 0, []), outcome
    assert [event for event in subject.events("notice") if event["code"] == "approved_differs"] == []
    if ask["input"] is not None:
        (called,) = subject.events("tool.called", outcome["turn"])
        assert (called["call_id"], called["input"]) == (ask["call_id"], ask["input"])
        return f"{ask['tool']} ran as it was shown: its transcript has the same call"
    return "what was shown happened, once it was approved"


@on_screen("denial of what it asks for", "ask", quick=("claude", "codex"), otherwise=refused(access="ask"))
def test_screen_deny(subject: OnScreen) -> str:
    subject.keep()
    ask, outcome = subject.decided(subject.wants("made-by-denial"), "deny")
    assert "made-by-denial" in ask["description"]
    assert not (subject.cli.project / "made-by-denial").exists()
    assert (outcome["status"], outcome["exit_code"]) == ("completed", 0), outcome
    assert {denial["by"] for denial in outcome["denials"]} == {"human"}
    input = ask["input"] if ask["input"] is not None else {"description": ask["description"]}
    about = {"tool": ask["tool"], "call_id": ask["call_id"] or "", "input": input}
    assert outcome["denials"][-1] == {**about, "by": "human"}
    return f"asked for {ask['tool']}; it did not happen, and the turn went on to its end: completed, with the denial"


@on_screen("interrupt in a text", "interrupt")
def test_screen_interrupt(subject: OnScreen) -> str:
    subject.keep()
    before = complete_turn(subject, "PLAIN before", "--new")
    process = subject.start("STAND here")
    eventually(lambda: ROW in subject.shown(), 120, "its screen does not show the beginning of the answer")
    done = subject.cli("interrupt", subject.name)
    assert done.code == 0, done
    outcome = subject.outcome(process)
    assert (process.returncode, outcome["status"], outcome["reply"]) == (9, "cancelled", None), outcome
    after = complete_turn(subject, GO_ON)
    assert (after["session"], after["session_id"]) == ("resumed", before["session_id"])
    assert any("PLAIN before" in body for body in subject.asked(GO_ON))  # one may be a request for a title
    subject.leave()
    subject.check_processes_gone()
    return "cancelled (exit code 9) with the beginning of the answer on the screen; the session goes on"


@on_screen("interrupt in a command", "interrupt")
def test_screen_interrupt_command(subject: OnScreen) -> str:
    """Nothing that the command started is left."""
    subject.leave()
    began = subject.cli.project / "began"
    prompt = subject.runs(f"touch '{began}'; sleep 3600")
    process = subject.start(prompt, "--new", "--access", "full")
    eventually(began.exists, 120, "its command did not begin")
    done = subject.cli("interrupt", subject.name)
    assert done.code == 0, done
    outcome = subject.outcome(process)
    assert (process.returncode, outcome["status"], outcome["reply"]) == (9, "cancelled", None), outcome
    subject.check_processes_gone()
    return "cancelled (exit code 9); no process is left, neither the CLI nor what its command started"


@on_screen("killed CLI on its screen")
def test_screen_killed(subject: OnScreen) -> str:
    subject.leave()
    process = subject.start(f"{subject.screen.begins}!stall", "--new")
    os.kill(subject.events("agent.started")[-1]["pid"], 9)
    outcome = subject.outcome(process)
    assert (outcome["status"], outcome["class"], outcome["reply"]) == ("failed", "crashed", None), outcome
    subject.check_processes_gone()
    return f"failed (crashed): {outcome['reason']}; no process is left"
