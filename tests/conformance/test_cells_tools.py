"""Tools: calls become events, and each word of access lets through what it says and nothing else."""

from __future__ import annotations

from typing import Any

from tests.conformance.cases import case, refused
from tests.conformance.subject import Subject


def outcome(subject: Subject, text: str, access: str) -> dict[str, Any]:
    """The outcome of a turn in a new session, whatever it is; `kinds` are the types of its events."""
    found: dict[str, Any] = subject.send(text, "--new", access=access).json
    assert "status" in found, found
    return found


@case("tool call", "tools")
def test_tool_call(subject: Subject) -> str:
    note = subject.cli.project / "note.txt"
    note.write_text("the text of the note\n")
    assert subject.data.look
    turn = outcome(subject, subject.data.look.prompt(path=str(note)), subject.least_access)
    assert turn["status"] == "completed", turn
    (called,), (returned,) = subject.events("tool.called", turn["turn"]), subject.events("tool.returned", turn["turn"])
    assert (called["call_id"], returned["is_error"]) == (returned["call_id"], False)
    assert "the text of the note" in subject.last_request()
    assert subject.events("unknown", turn["turn"]) == []
    gave = "what it gave" if "the text of the note" in returned["output"] else "nothing: the CLI tells only the model"
    return f"`tool.called` {called['name']}, and `tool.returned` with {gave}"


def _looked(subject: Subject) -> dict[str, Any]:
    """A turn with access `read` in which the model wants to write a file and to run a command."""
    made = subject.cli.project / "made-by-reading"
    wanted = subject.data.write.prompt(path=str(made), text="x")
    if subject.data.shell is not None:
        wanted += " " + subject.data.shell.prompt(command=f"touch '{made}-2'")
    return outcome(subject, wanted, "read")


def _denials_untold(subject: Subject) -> str:
    """What a CLI does not tell is null; what it tells all the same counts as with every other."""
    if "read" not in subject.can.access:
        return refused(access="read")(subject)
    quiet = subject.run_once("quiet", lambda: outcome(subject, "hello", "read"))
    assert (quiet["status"], quiet["exit_code"], quiet["denials"]) == ("completed", 0, None)
    turn = subject.run_once("looked", lambda: _looked(subject))
    if turn["denials"] is None:
        assert (turn["status"], turn["exit_code"]) == ("completed", 0)
        return "the outcome's denials are null"
    assert (turn["status"], turn["exit_code"]) == ("denied", 5)
    return f"the outcome's denials are null, but for what is told: {', '.join(one['tool'] for one in turn['denials'])}"


@case("denied tool", "denials+access:read", otherwise=_denials_untold)
def test_denied_tool(subject: Subject) -> str:
    turn = subject.run_once("looked", lambda: _looked(subject))
    assert (turn["status"], turn["exit_code"]) == ("denied", 5), turn
    assert len(turn["denials"]) == (1 if subject.data.shell is None else 2), turn
    assert {denial["by"] for denial in turn["denials"]} == {"default"}
    assert "made-by-reading" in turn["reason"]
    assert "the answer may be incomplete" in turn["reason"]
    wider = [word for word in subject.can.access if word != "read"]
    assert f"access `read`: --access {' or '.join(wider)} allows more" in turn["reason"]
    return f"denied (exit code 5): {', '.join(denial['tool'] for denial in turn['denials'])}"


@case("access read", "access:read", otherwise=refused(access="read"))
def test_access_read(subject: Subject) -> str:
    before = {path.name for path in subject.cli.project.iterdir()}
    turn = subject.run_once("looked", lambda: _looked(subject))
    assert turn["status"] in ("completed", "denied"), turn
    assert "by-reading" not in " ".join(path.name for path in subject.cli.project.rglob("*"))
    assert {path.name for path in subject.cli.project.iterdir() if "aider" not in path.name} <= before
    return "nothing was written, neither by a tool that writes nor by a command"


@case("access edit", "access:edit", otherwise=refused(access="edit"))
def test_access_edit(subject: Subject) -> str:
    inside, outside = subject.cli.project / "made-by-editing", subject.cli.base / "made-outside"
    write = subject.data.write
    turn = outcome(
        subject, f"{write.prompt(path=str(inside), text='x')} {write.prompt(path=str(outside), text='x')}", "edit"
    )
    assert turn["status"] in ("completed", "denied"), turn
    assert inside.read_text().strip() == "x"
    assert not outside.exists()
    changed = [event["path"] for event in subject.events("file.changed", turn["turn"])]
    assert changed == ["made-by-editing"]
    return "a file in the folder was written, and is a `file.changed`; one outside was not"


def _lines_untold(subject: Subject) -> str:
    """What a CLI does not tell is null in each outcome, so also in that of a turn that changed nothing."""
    quiet = subject.run_once("quiet", lambda: outcome(subject, "hello", str(subject.least_access)))
    assert (quiet["lines_added"], quiet["lines_removed"]) == (None, None)
    return "the outcome's changed lines are null"


@case("lines changed", "lines", otherwise=_lines_untold)
def test_lines(subject: Subject) -> str:
    """In a resumed session too they are the turn's own."""
    for number in (1, 2):
        made = subject.cli.project / f"made-of-lines-{number}"
        wanted = subject.data.write.prompt(path=str(made), text="x")
        turn = subject.send(wanted, *(("--new",) if number == 1 else ()), access="edit").json
        assert made.read_text().strip() == "x", turn
        assert (turn["lines_added"], turn["lines_removed"]) == (1, 0), turn
    return "each of two turns of a session that wrote a file of one line has one added line and none removed"


@case("access full", "access:full", otherwise=refused(access="full"))
def test_access_full(subject: Subject) -> str:
    made, by_command = subject.cli.project / "made-by-all", subject.cli.base / "made-outside-by-all"
    wanted = subject.data.write.prompt(path=str(made), text="x")
    if subject.data.shell is not None:
        wanted += " " + subject.data.shell.prompt(command=f"touch '{by_command}'")
    turn = outcome(subject, wanted, "full")
    assert turn["status"] == "completed", turn
    assert made.read_text().strip() == "x"
    if subject.data.shell is None:
        return "a file was written"
    assert by_command.exists()
    return "a file was written, and a command ran that wrote outside the folder"
