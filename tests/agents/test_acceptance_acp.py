"""Any agent that speaks the Agent Client Protocol, by `protocol: acp`: the real beam with a small agent."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import acp_agent
from tests.support.asking import first_ask
from tests.support.chat import Chat
from tests.support.cli import Cli, Ended, eventually, processes_with
from tests.support.painter import PAINTER
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance


@pytest.fixture
def place(beam: Cli) -> Cli:
    """A place where `mine` is the agent."""
    (beam.base / "mine").mkdir()  # it keeps its sessions there, where nothing of beam's is on the way
    program = shutil.copy(acp_agent.__file__, beam.base / "mine" / "agent.py")
    command = json.dumps([sys.executable, str(program)])
    beam.config(f"agents:\n  mine: {{command: {command}, protocol: acp, access: ask}}\n")
    return beam


def send(place: Cli, text: str, *words: str) -> Ended:
    return place("send", "mine", "--json", *words, text, timeout=60)


def started(place: Cli, text: str) -> tuple[Any, dict[str, Any]]:
    running = place.start("send", "mine", "--json", text)
    return running, first_ask(place)


def test_it_answers_and_its_session_goes_on_in_another_process(place: Cli) -> None:
    outcomes = [send(place, "plums").json, send(place, "what?").json]
    assert [outcome["reply"] for outcome in outcomes] == ["plums turns=1", "what? turns=2"]
    assert [outcome["session"] for outcome in outcomes] == ["new", "resumed"]
    assert outcomes[0]["via"] == "dialogue"


def test_a_broker_keeps_its_process(place: Cli) -> None:
    assert place("broker", "start").code == 0
    assert [send(place, text).json["reply"] for text in ("a", "b")] == ["a turns=1", "b turns=2"]
    starts = [event["since"] for event in place.journal("mine") if event["type"] == "agent.started"]
    assert starts == [None, 1]
    place("broker", "stop", "--grace", "0s")


def test_what_it_asks_for_is_approved_or_denied(place: Cli) -> None:
    for answer, made in (("deny", False), ("approve", True)):
        running, ask = started(place, "!make made")
        assert ask["description"] == "make made"
        assert place(answer, ask["id"]).code == 0
        out, _ = running.communicate(timeout=60)
        assert json.loads(out)["status"] == "completed", out
        assert (place.project / "made").exists() is made


def decisions(place: Cli) -> list[str]:
    """What the journal says of asks, in order."""
    found = [event for event in place.journal("mine") if event["type"].startswith("permission.")]
    return [event.get("decision") or event["type"].partition(".")[2] for event in found]


def test_of_two_answers_at_once_one_counts_and_the_other_is_told_so(place: Cli) -> None:
    running, ask = started(place, "!make made")
    both = [place.start(word, ask["id"]) for word in ("approve", "deny")]
    told = {one.communicate(timeout=60)[1].decode() for one in both}
    assert sorted(one.returncode for one in both) == [0, 4], told
    assert json.loads(running.communicate(timeout=60)[0])["status"] == "completed"
    (asked, decided) = decisions(place)
    assert (asked, decided) == ("asked", "allow" if both[0].returncode == 0 else "deny")
    assert (place.project / "made").exists() is (decided == "allow")


def test_an_ask_is_over_with_the_process_that_asked(place: Cli) -> None:
    running, ask = started(place, "!make made")
    (pid,) = [event["pid"] for event in place.journal("mine") if event["type"] == "agent.started"]
    os.kill(pid, signal.SIGKILL)
    outcome = json.loads(running.communicate(timeout=60)[0])
    assert (outcome["status"], outcome["class"]) == ("failed", "crashed")
    assert decisions(place) == ["asked", "cancelled"]
    assert place("approve", ask["id"]).code == 4
    assert not (place.project / "made").exists()


def test_an_ask_is_over_with_the_holder_of_its_turn(place: Cli) -> None:
    running, ask = started(place, "!make made")
    os.kill(running.pid, signal.SIGKILL)
    running.communicate(timeout=60)
    assert place("asks", "--json").lines == [] and place("approve", ask["id"]).code == 4
    assert place("wait", ask["message_id"]).code == 8
    cancelled = [event["why"] for event in place.journal("mine") if event.get("decision") == "cancelled"]
    assert cancelled == ["its holder died"] and not (place.project / "made").exists()


def test_with_full_it_is_allowed_all_and_below_ask_it_is_not_started(place: Cli) -> None:
    assert send(place, "!make made", "--access", "full").code == 0
    assert (place.project / "made").exists()
    for access in ("read", "edit"):
        done = send(place, "!make other", "--access", access)
        assert done.code == 10 and not (place.project / "other").exists(), done


def test_a_system_prompt_is_told_once_in_a_session_and_again_when_it_changed(place: Cli) -> None:
    assert place("agent", "set", "mine", "system=Speak like a pirate.").code == 0
    first, second = (send(place, text).json["reply"] for text in ("one", "two"))
    assert "Speak like a pirate.\n\none turns=1" in first and second == "two turns=2"
    assert place("agent", "set", "mine", "system=Speak like a monk.").code == 0
    third = send(place, "three").json["reply"]
    assert "monk" in third and "pirate" not in third
    assert "monk" in send(place, "four", "--new").json["reply"]
    codes = [event["code"] for event in place.journal("mine") if event["type"] == "notice"]
    assert codes.count("system") == 3


def test_an_answer_is_held_to_its_schema(place: Cli) -> None:
    schema = place.base / "schema.json"
    schema.write_text('{"type": "object", "required": ["n"]}')
    good = send(place, '!say {"n": 3}', "--schema", str(schema)).json
    assert (good["status"], good["structured"]) == ("completed", {"n": 3}), good
    bad = send(place, '!say {"m": 3}', "--schema", str(schema))
    assert (bad.code, bad.json["class"]) == (1, "schema") and "'n' is a required property" in bad.json["reason"], bad
    schema.write_text('{"type": 3}')
    refused = send(place, "hello", "--schema", str(schema))
    assert (refused.code, refused.json["class"]) == (1, "bad_request"), refused


def test_an_interrupt_ends_its_turn_and_with_an_ask_open_cancels_that(place: Cli) -> None:
    running = place.start("send", "mine", "--json", "!wait")
    eventually(lambda: any(event["type"] == "text.delta" for event in place.journal("mine")))
    assert place("interrupt", "mine").code == 0
    out, _ = running.communicate(timeout=60)
    assert json.loads(out)["status"] == "cancelled", out
    running, _ = started(place, "!make made")
    assert place("interrupt", "mine").code == 0
    out, _ = running.communicate(timeout=60)
    assert json.loads(out)["status"] == "cancelled" and not (place.project / "made").exists(), out
    keys = [event["turn_key"] for event in place.journal("mine") if event["type"] == "turn.started"]
    assert [pid for key in keys for pid in processes_with(key)] == []


def test_one_that_dies_in_its_turn_has_crashed(place: Cli) -> None:
    done = send(place, "!die")
    assert (done.code, done.json["class"]) == (1, "crashed"), done


def test_it_can_be_added_by_the_command_line(place: Cli) -> None:
    program = place.base / "mine" / "agent.py"
    words = ("--command", shlex.join([sys.executable, str(program)]), "--set", "protocol=acp", "--access", "ask")
    assert place("agent", "add", "other", *words).code == 0
    assert place("send", "other", "hello", timeout=60).out == "hello turns=1\n"


@pytest.mark.parametrize("field", ["adapter: claude, protocol: acp", "command: [cat], protocol: mcp"])
def test_the_protocol_is_of_no_other_agent(beam: Cli, field: str) -> None:
    beam.config(f"agents:\n  x: {{{field}}}\n")
    done = beam("send", "x", "hello")
    assert done.code == 2 and "protocol" in done.err, done


LOGGED_OUT = """\
import json, sys
for line in sys.stdin:
    frame = json.loads(line)
    if frame["method"] == "initialize":
        said = {"result": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}}
    else:
        said = {"error": {"code": -32000, "message": "Open https://login.example/device\\x1b]0;mine\\x07 and wait"}}
    print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], **said}), flush=True)
"""


def test_a_link_to_log_in_is_in_the_outcome_and_shown_without_control_characters(place: Cli) -> None:
    command = json.dumps([sys.executable, "-c", LOGGED_OUT])
    place.config(f"agents:\n  mine: {{command: {command}, protocol: acp, access: ask}}\n")
    ended = send(place, "hi")
    assert (ended.code, ended.json["class"]) == (1, "auth")
    assert ended.json["login_url"] == "https://login.example/device"
    shown = place("send", "mine", "hi", timeout=60).err
    assert shown.partition("it names ")[2] == "https://login.example/device\n"


def test_an_agent_that_waits_for_a_login_is_one_that_is_not_logged_in(place: Cli) -> None:
    script = "import sys; print('visit https://a.example/oauth to go on', file=sys.stderr, flush=True); sys.exit(1)"
    command = json.dumps([sys.executable, "-c", script])
    place.config(f"agents:\n  mine: {{command: {command}, protocol: acp, access: ask}}\n")
    outcome = send(place, "hi").json
    assert (outcome["class"], outcome.get("login_url")) == ("auth", "https://a.example/oauth")


@pytest.mark.parametrize("words", [(), ("--once",)])
def test_an_image_is_a_file_that_the_outcome_and_the_log_name(place: Cli, words: tuple[str, ...]) -> None:
    painter(place, "mine")
    ended = send(place, "paint", *words)
    outcome = ended.json
    assert "images" in outcome, (ended, place("log", "mine", "--json", *words).out)
    (path,) = outcome["images"]
    assert Path(path).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert path in place("log", "mine", *words).out.replace("\n", "") or words
    seen = [json.loads(line) for line in place("log", "mine", "--json", *words).out.splitlines()]
    (image,) = [event for event in seen if event["type"] == "image"]
    assert path.endswith(f"/agents/mine/{image['path']}") and image["media_type"] == "image/png"
    assert "AAAA" not in json.dumps(seen)
    assert place("show", outcome["message_id"], "--json").json["images"] == [path]


def test_the_path_of_an_image_is_that_of_its_file_after_its_agent_was_renamed(place: Cli) -> None:
    place.config("agents: {}\n")
    program = place.base / "mine" / "painter"
    program.write_text(f"#!{Path(sys.executable).resolve()}\n{PAINTER}")
    program.chmod(0o755)
    declared = place("agent", "add", "mine", "--command", str(program), "--set", "protocol=acp", "--access", "ask")
    assert declared.code == 0, declared
    outcome = send(place, "paint").json
    assert "images" in outcome, outcome
    assert place("agent", "rename", "mine", "yours").code == 0
    path = outcome["images"][0].replace("/agents/mine/", "/agents/yours/")
    assert Path(path).is_file()
    assert f" {path}\n" in place("log", "yours").out
    assert f" {path}\n" in place("log", outcome["message_id"]).out
    assert f" {path}\n" in place("watch", "yours", "--now").out
    assert path in place("log", "yours", "--format", "md").out.replace("&#95;", "_")
    assert path in place("log", "yours", "--format", "html").out
    assert place("show", outcome["message_id"], "--json").json["images"] == [path]


def test_a_chat_and_the_board_show_the_whole_path_of_an_image(place: Cli) -> None:
    painter(place, "mine")
    folder = f"{place('root').out.strip()}/agents/mine/images/"
    chat = Chat(place, "mine", "--via", "dialogue")
    chat.until("chat with mine")
    chat.enter("paint")
    chat.until("turn 1 · ")
    assert folder in "".join(chat.seen.split())
    chat.key("d")
    chat.process.wait(timeout=20)
    board = Terminal(place, "board", "--since", "1h", columns=300, env={"LC_ALL": "C.UTF-8"})
    board.until(folder)
    board.type("q")
    assert board.end() == 0


def painter(place: Cli, name: str) -> None:
    command = json.dumps([sys.executable, "-c", PAINTER])
    place.config(f"agents:\n  {name}: {{command: {command}, protocol: acp, access: ask}}\n")
