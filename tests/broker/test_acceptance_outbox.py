"""What an agent asks through the outbox of its turn, and what it can't reach that way."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.cli import BEAM_WORDS, Cli, eventually, processes_with

pytestmark = pytest.mark.acceptance


def agent(beam: Cli, script: str, more: str = "") -> None:
    """`asker` runs that shell script as its turn; `echo` says what it gets, `box` is a mailbox."""
    (beam.project / "turn.sh").write_text(f'beam() {{ {BEAM_WORDS} "$@"; }}\n{script}')
    beam.config(
        "agents:\n  asker: {command: [bash, turn.sh]}\n  box: {adapter: mailbox}\n"
        "  echo: {command: [sh, -c, 'echo \"echo: $(cat)\"']}\n" + more
    )


def settle(beam: Cli) -> None:
    eventually(lambda: not processes_with(str(beam.base)), 60, "processes are left")


# -- what it can do


def test_an_agent_sends_and_waits_and_gets_the_answer(beam: Cli) -> None:
    agent(beam, "beam send echo hello; echo code $?")
    assert beam("send", "asker", "go").out == "echo: hello\ncode 0\n"
    queued = next(event for event in beam.journal("echo") if event["type"] == "message.queued")
    assert (queued["from"], queued["hops"]) == ("asker", 1)


def test_an_agent_sends_no_slash_command_and_controls_no_process(beam: Cli) -> None:
    agent(
        beam,
        "beam send echo --slash /compact; echo code $?; beam agent set echo --live access=full; echo code $?\n"
        "beam agent mcp echo; echo code $?; beam agent rewind echo; echo code $?",
    )
    sent = beam("send", "asker", "go")
    assert sent.out == "code 2\n" * 4, sent
    assert not (beam.root / "agents" / "echo" / "journal").exists()


def test_an_agent_that_does_not_wait_gets_the_id_and_later_the_reply(beam: Cli) -> None:
    agent(beam, 'case "$BEAM_HOPS" in 0) beam send echo hello --no-wait;; *) echo END >&2;; esac')
    sent = beam("send", "asker", "go").out.strip()
    assert sent.startswith("echo-s")
    settle(beam)
    assert json.loads(beam("show", sent, "--json").out)["reply"] == "echo: hello"


def test_a_file_made_by_a_file_tool_is_as_good_as_the_command(beam: Cli) -> None:
    wish = json.dumps({"to": "echo", "text": "from a file", "wait": True})
    agent(
        beam,
        f"cat > $BEAM_OUTBOX/mine.json <<'X'\n{wish}\nX\n"
        "until grep -q '\"outcome\":{' $BEAM_OUTBOX/mine.answer 2>/dev/null; do sleep 0.05; done\n"
        "cat $BEAM_OUTBOX/mine.answer",
    )
    answer = json.loads(beam("send", "asker", "go").out)
    assert answer["outcome"]["reply"] == "echo: from a file"
    assert answer["accepted"] == answer["outcome"]["message_id"]


def test_beam_is_named_for_a_sandbox_with_a_path_of_its_own(beam: Cli) -> None:
    agent(beam, 'test -x "$BEAM_BIN" && PATH=/usr/bin:/bin "$BEAM_BIN" send echo hello')
    expected = "echo: hello\n" if Path(sys.executable).with_name("beam").is_file() else ""
    assert beam("send", "asker", "go").out == expected


def test_a_mailbox_message_is_answered_from_a_turn(beam: Cli) -> None:
    agent(beam, 'beam reply "$(cat)" "the answer"; echo code $?')
    question = beam("send", "box", "well?", "--no-wait").out.strip()
    assert beam("recv", "box").code == 0
    assert beam("send", "asker", question).out.endswith("code 0\n")
    assert beam("wait", question).out == "the answer\n"


def test_an_agent_ends_what_it_sent_and_nothing_else(beam: Cli) -> None:
    agent(
        beam,
        'own=$(beam send slow own --no-wait); beam interrupt $own; echo own $?\nbeam interrupt "$(cat)"; echo other $?',
        "  slow: {command: [sleep, '60']}\n",
    )
    other = beam("send", "slow", "a person's", "--no-wait").out.strip()
    assert beam("send", "asker", other).out == "own 0\nother 2\n"
    assert beam("interrupt", other).code == 0
    settle(beam)


# -- what it can't do


@pytest.mark.parametrize(
    "command",
    [
        "approve echo-1234",
        "trust",
        "trust --no",
        "agent add x --command cat",
        "agent set echo model=m",
        "agent rm echo",
        "agent reset echo",
        "queue pause echo",
        "queue drop echo-x",
        "broker start",
        "doctor --gc",
        "recv box",
        "send echo hi --from human",
        "send echo hi --root /tmp/other",
    ],
)
def test_a_turn_changes_nothing_but_by_its_outbox(beam: Cli, command: str) -> None:
    agent(beam, f"beam {command.replace('send', 'send', 1)} < /dev/null 2>&1; echo code $?")
    if "--root" in command:
        agent(beam, "beam --root /tmp/other send echo hi; echo code $?")
        assert beam("send", "asker", "go").out == "echo: hi\ncode 0\n", "the turn's own root gets it"
        return
    said = beam("send", "asker", "go").out
    assert said.endswith("code 2\n"), said


def test_a_process_of_a_turn_is_known_without_its_variables(beam: Cli) -> None:
    keep = f'HOME={beam.env["HOME"]} LANG=C.UTF-8 PATH="$PATH"'
    agent(
        beam,
        f"env -i {keep} {BEAM_WORDS} send echo hello --access full; echo code $?\n"
        f"env -i {keep} {BEAM_WORDS} trust; echo code $?\n"
        f"env -i {keep} setsid {BEAM_WORDS} queue pause echo; echo code $?\n",
    )
    assert beam("send", "asker", "go").out.endswith("code 2\ncode 2\n")
    queued = [event for event in beam.journal("echo") if event["type"] == "message.queued"]
    assert [event["from"] for event in queued] in ([], ["asker"]), "never a person's"


def test_an_agent_installs_and_removes_no_hook(beam: Cli) -> None:
    agent(
        beam, "for what in --install --uninstall '--install --project'; do beam team hook $what; echo code $?; done\n"
    )
    assert beam("send", "asker", "go").out.endswith("code 2\n" * 3)
    assert not (beam.base / "home/.claude").exists() and not (beam.project / ".claude").exists()


def test_what_an_agent_attaches_lies_in_its_own_folder(beam: Cli) -> None:
    (beam.base / "secret").write_text("s")
    agent(
        beam,
        f"ln -s {beam.base}/secret link; touch inside\n"
        f"for file in inside {beam.base}/secret ../secret link; do\n"
        "beam send echo x --attach $file --no-wait; echo $?\ndone",
    )
    codes = [line for line in beam("send", "asker", "go").out.splitlines() if line.isdigit()]
    assert codes[1:] == ["2", "2", "2"]


def test_what_an_agent_attached_is_the_file_that_was_looked_at(beam: Cli) -> None:
    (beam.base / "secret").write_text("s")
    agent(
        beam,
        "touch one; mkdir sub; touch sub/secret\n"
        "beam send reader x --attach one --no-wait; beam send reader y --attach sub/secret --no-wait\n"
        f"rm -r one sub; ln -s {beam.base}/secret one; ln -s {beam.base} sub",
        "  reader: {adapter: claude, executable: /bin/true}\n",
    )
    assert beam("queue", "pause", "reader").code == 0
    sent = beam("send", "asker", "go").out.split()
    assert beam("queue", "resume", "reader").code == 0
    assert len(sent) == 2
    for message_id in sent:
        done = beam("wait", message_id)
        assert (done.code, "is not the file that was attached" in done.err) == (1, True), done
    settle(beam)


@pytest.mark.parametrize("many", [1000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_thousands_of_messages_to_itself_end_as_a_limit(beam: Cli, many: int) -> None:
    agent(
        beam,
        'test "$BEAM_HOPS" = 0 || exit 0; cd $BEAM_OUTBOX\n'
        f'for i in $(seq {many}); do echo \'{{"to":"asker","text":"x"}}\' > m$i.json; done\n'
        "until [ $(ls | grep -c 'answer$') -ge 300 ]; do sleep 0.1; done\n"
        "cat *.answer | grep -c 'the limit is 100'",
    )
    said = beam("send", "asker", "go", timeout=120)
    assert int(said.out) >= 200, said
    settle(beam)
    turns = [event for event in beam.journal("asker") if event["type"] == "turn.started"]
    assert len(turns) <= 1 + 100


@pytest.mark.parametrize(
    "make",
    [
        "ln -s /etc/passwd x.json",
        "mkfifo x.json",
        "mkdir x.json",
        "echo '{' > x.json",
        "touch -d 2001-01-01 x.json",
        'echo \'{"to":"echo","text":"hi"}\' > y; ln y x.json',
        "truncate -s 8G x.json",
        "echo '[[[[' > 'a b.json'",
        "yes '[' | head -c 3000000 > x.json",
        'echo \'{"verb":"approve","target":"echo-1"}\' > x.json',
        'echo \'{"to":"../echo","text":"hi"}\' > x.json',
        "ln -s /proc/self/fd/0 x.json",
        "echo x > x.json; chmod 0 x.json",
    ],
)
def test_what_is_no_request_is_refused_and_the_turn_goes_on(beam: Cli, make: str) -> None:
    agent(beam, f"(cd $BEAM_OUTBOX; {make}); sleep 1.5; beam send echo still")
    said = beam("send", "asker", "go", timeout=60)
    assert (said.code, said.out.splitlines()[-1:]) == (0, ["echo: still"]), said
    assert len([event for event in beam.journal("echo") if event["type"] == "message.queued"]) == 1


def test_another_folder_in_the_outboxs_place_is_not_looked_into(beam: Cli) -> None:
    wish = json.dumps({"to": "echo", "text": "planted"})
    agent(beam, f"mv $BEAM_OUTBOX $BEAM_OUTBOX.old; mkdir $BEAM_OUTBOX; echo '{wish}' > $BEAM_OUTBOX/x.json; sleep 1")
    assert beam("send", "asker", "go").code == 0
    assert beam.journal("echo") == []


def test_answers_are_never_written_through_a_link(beam: Cli) -> None:
    victim = beam.base / "victim"
    victim.write_text("whole")
    wish = json.dumps({"to": "echo", "text": "x"})
    agent(
        beam,
        f"cd $BEAM_OUTBOX; ln -s {victim} x.answer; ln -s {victim} .x.answer.holder; ln {victim} turn.json.2\n"
        f"echo '{wish}' > x.json; sleep 1",
    )
    assert beam("send", "asker", "go").code == 0
    assert victim.read_text() == "whole"


# -- the rights of who speaks


@pytest.mark.parametrize(("own", "wanted"), [("read", "full"), ("read", None)])
def test_a_message_of_an_agent_gets_no_more_rights_than_that_agent(beam: Cli, own: str, wanted: str | None) -> None:
    asked = f" --access {wanted}" if wanted else ""
    agent(
        beam,
        "",
        f"  low: {{command: [bash, low.sh], access: {own}}}\n  high: {{adapter: claude, access: full}}\n",
    )
    (beam.project / "low.sh").write_text(
        f"test -e ran && exit; touch ran; {BEAM_WORDS} send high 'do it' --no-wait{asked}; echo code $?\n"
    )
    shown = beam.base / "bin"
    shown.mkdir()
    (shown / "claude").write_text(f'#!/bin/sh\necho "$@" > {beam.project}/argv\n')
    (shown / "claude").chmod(0o755)
    path = f"{shown}{os.pathsep}{beam.env['PATH']}"
    assert beam("send", "low", "go", env={"PATH": path}).out.endswith("code 0\n")
    eventually(lambda: (beam.project / "argv").exists(), 30)
    assert "bypassPermissions" not in (beam.project / "argv").read_text()
    settle(beam)


def test_an_agent_that_answers_for_a_mailbox_has_its_text_run_with_no_more_than_its_own_rights(beam: Cli) -> None:
    agent(beam, 'beam reply "$(cat)" "from low"; echo code $?', "  high: {adapter: claude, access: full}\n")
    beam.config((beam.project / "beam.yaml").read_text().replace("turn.sh]", "turn.sh], access: edit"))
    shown = beam.base / "bin"
    shown.mkdir()
    (shown / "claude").write_text(
        f"#!/bin/sh\necho \"$@\" >> {beam.project}/argv\n{BEAM_WORDS} send box 'well?' --no-wait\n"
    )
    (shown / "claude").chmod(0o755)
    env = {"PATH": f"{shown}{os.pathsep}{beam.env['PATH']}"}
    beam("send", "high", "go", env=env)
    (question,) = (name[21:].removesuffix(".json") for name in beam.box("box", "new"))
    assert beam("recv", "box").out == "well?\n"
    assert beam("send", "asker", question, env=env).out.endswith("code 0\n")
    eventually(lambda: (beam.project / "argv").read_text().count("\n") == 2, 30)
    first, second = (beam.project / "argv").read_text().splitlines()
    assert "bypassPermissions" in first and "acceptEdits" in second
    settle(beam)


# -- a holder that dies


@pytest.mark.parametrize("point", ["outbox.put", "outbox.taken", "outbox.removed"])
def test_a_request_of_a_turn_whose_holder_died_is_carried_out_once(beam: Cli, point: str) -> None:
    agent(beam, "test -e ran && exit; touch ran; beam send box hello --no-wait; sleep 30")
    assert beam("send", "asker", "go", env={"BEAM_CRASH_AT": point}).code == 137
    settle(beam)
    assert beam("send", "asker", "again").code == 0
    (waiting,) = beam.box("box", "new")
    message = json.loads((beam.root / "agents/box/queue/new" / waiting).read_bytes())
    assert (message["payload"]["text"], message["from"], message["hops"]) == ("hello", "asker", 1)
