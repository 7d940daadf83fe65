"""Every command, called in this process: what it prints, and its exit code."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.inside import Inside

pytestmark = pytest.mark.slow


def test_the_agents_are_listed_with_their_adapters_and_where_they_are_declared(inside: Inside) -> None:
    rows = [line.split("\t") for line in inside("agent", "list").out.splitlines()]
    assert rows[0] == ["AGENT", "ADAPTER", "MODE", "MODEL", "ACCESS", "DECLARED IN", "INSTALLED"]
    assert [row[:3] for row in rows[1:]] == [
        ["asker", "mailbox", "mailbox"],
        ["bot", "scripted", "exec"],
        ["box", "mailbox", "mailbox"],
        ["worker", "command", "exec"],
    ]
    assert {row[5] for row in rows[1:]} == {"beam.yaml"}
    assert [line["agent"] for line in inside("agent", "list", "--json").lines] == ["asker", "bot", "box", "worker"]


def test_an_agent_is_shown_with_its_settings_and_its_state(inside: Inside) -> None:
    shown = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in inside("agent", "show", "worker").out.splitlines())
    assert (shown["agent"], shown["declared in"], shown["folder"]) == ("worker", "beam.yaml", str(inside.project))
    assert shown["state"] == "idle, 0 waiting, 0 dead, 0 turns"
    assert inside("agent", "show", "worker", "--json").json["settings"]["command"] == ["cat"]
    shown = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in inside("agent", "show", "claude").out.splitlines())
    assert shown["next mode"] == "exec: its process ends with the turn"
    as_json = [inside("agent", "show", name, "--json").json for name in ("claude", "worker", "box", "gemini")]
    assert [(each["face"], each["why"]) for each in as_json] == [
        ("exec", "its process ends with the turn"),
        ("exec", None),
        ("mailbox", None),
        ("exec", "its process ends with the turn"),
    ]
    assert inside("agent", "show", "nobody").code == 4


def test_an_agent_is_declared_changed_renamed_archived_and_removed(inside: Inside) -> None:
    added = inside("agent", "add", "mine", "--command", "cat -n", "--set", "description=lines")
    assert added.code == 0 and added.err.startswith("beam: wrote ") and added.err.endswith("/agents/mine/agent.json\n")
    assert inside("agent", "add", "mine", "--command", "cat").code == 2
    assert inside("agent", "set", "mine", "timeout=90s").err.startswith("beam: wrote ")
    settings = inside("agent", "show", "mine", "--json").json["settings"]
    assert (settings["command"], settings["timeout"], settings["description"]) == (["cat", "-n"], 90.0, "lines")
    assert inside("agent", "set", "mine", "timeout=").code == 0
    assert inside("agent", "show", "mine", "--json").json["settings"]["timeout"] is None
    assert inside("agent", "rename", "mine", "yours").err == "beam: mine is called yours now\n"
    assert inside("agent", "archive", "yours").err.startswith("beam: yours is archived; ")
    assert "yours" not in inside("agent", "list").out
    refused = inside("send", "yours", "hi", "--no-wait")
    assert refused.code != 0 and "archived" in refused.err
    assert inside("agent", "archive", "--restore", "yours").code == 0
    assert "yours" in inside("agent", "list").out
    assert inside("agent", "rm", "yours").err.startswith("beam: yours is not declared any more; ")
    assert inside("agent", "show", "yours").code == 4


def test_settings_that_are_no_pairs_or_no_settings_are_refused(inside: Inside) -> None:
    assert inside("agent", "set", "worker", "timeout").code == 2
    wrong = inside("agent", "set", "worker", "tiemout=1")
    assert wrong.code == 2 and wrong.err.endswith("tiemout: unknown key; did you mean timeout?\n")


def test_a_mailbox_answers_and_the_answer_is_shown_waited_for_and_logged(inside: Inside) -> None:
    message = inside.sent("hello")
    waiting = inside("show", message)
    assert (waiting.code, waiting.out) == (12, "")
    assert waiting.err == f"beam: {message} is waiting, 0 ahead of it; beam wait {message}\n"
    taken = inside("recv", "box")
    assert (taken.code, taken.out) == (0, "hello\n")
    assert taken.err == f"beam: from human; answer with: beam reply {message} TEXT\n"
    assert inside("recv", "box").code == 12
    assert inside("reply", message, "the answer").code == 0
    for command in ("show", "wait"):
        printed = inside(command, message)
        assert (printed.code, printed.out) == (0, "the answer\n")
        assert inside(command, message, "--json").json["reply"] == "the answer"
    for name in ("box", message):
        log = [line.split(None, 2)[2] for line in inside("log", name).out.splitlines()]
        assert log[:3] == ["← human: hello", "▶ turn 1 (mailbox)", "│ the answer"]
        assert log[3].startswith("■ completed ")
    types = [line["type"] for line in inside("log", "box", "--json").lines]
    assert types[0] == "message.queued" and types[-1] == "turn.closed"
    assert inside("reply", message, "again").code == 4


def test_a_conversation_is_printed_as_a_page_and_found_by_its_words(inside: Inside) -> None:
    message = inside.sent("is the \x1b[1m disk full?")
    inside("recv", "box")
    inside("reply", message, "it is half full")
    page = inside("log", "box", "--format", "md")
    assert page.code == 0 and page.out.startswith("# box\n\n## Turn 1\n") and "> it is half full\n" in page.out
    assert "\x1b" not in page.out
    assert "<h1>box</h1>" in inside("log", message, "--format", "html").out
    (turn,) = inside("log", "box", "--format", "json").json["turns"]
    assert (turn["reply"], turn["status"]) == ("it is half full", "completed")
    assert inside("log", "box", "--format", "json", "-n", "0").json["turns"] == []
    for wrong in (("--format", "pdf"), ("--format", "md", "--json")):
        assert inside("log", "box", *wrong).code == 2
    found = inside("search", "full", "half")
    assert found.code == 0 and [line.split(" ", 2)[2] for line in found.out.splitlines()] == [
        "box turn 1 text: it is half full"
    ]
    assert [line["kind"] for line in inside("search", "disk", "--json").lines] == ["prompt"]
    nothing = inside("search", "elsewhere")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "beam: nothing was found\n")
    assert inside("search", "?!").code == 2
    assert inside("search", "full", "--agent", "nobody").code == 4


def test_a_reply_can_be_a_failure_and_its_exit_code_is_that_of_the_message(inside: Inside) -> None:
    message = inside.sent()
    inside("recv", "box")
    assert inside("reply", message, "--failed", "no time").code == 0
    failed = inside("show", message)
    assert (failed.code, failed.out) == (1, "") and "no time" in failed.err
    assert inside("wait", message).code == 1
    dead = inside("queue", "list", "--json").json
    assert (dead["id"], dead["box"], dead["reason"]) == (message, "dead", "failed")
    assert inside("queue", "retry", message).code == 0
    assert inside("queue", "list", "--json").json["box"] == "waiting"


def test_messages_wait_in_order_and_are_edited_dropped_and_paused(inside: Inside) -> None:
    first, second = inside.sent("one"), inside.sent("two")
    rows = [line.split("\t") for line in inside("queue", "list").out.splitlines()]
    assert rows[0] == ["ID", "WHERE", "FROM", "AGE", "TEXT"]
    assert [(row[0], row[1], row[4]) for row in rows[1:]] == [(first, "waiting", "one"), (second, "waiting", "two")]
    assert inside("queue", "edit", first, "eins").err == "beam: revision 1\n"
    assert inside("queue", "drop", second).err == "beam: dropped\n"
    assert [(each["id"], each["text"]) for each in inside("queue", "list", "--json").lines] == [(first, "eins")]
    assert inside("queue", "pause", "box").err == "beam: box: paused\n"
    assert inside("recv", "box").code == 12
    assert inside("status", "box", "--json").json["state"] == "paused"
    assert inside("queue", "resume", "box").err == "beam: box: resumed\n"
    assert inside("recv", "box").out == "eins\n"
    assert inside("queue", "drop", "nothing-zzzz").code == 4


def test_every_dead_letter_is_dropped_at_once(inside: Inside) -> None:
    message = inside.sent()
    inside("recv", "box")
    inside("reply", message, "--failed", "no")
    assert inside("queue", "drop", "--dead", "box").code == 0
    assert inside("queue", "list").out.count("\n") <= 1


def test_the_prompt_is_made_of_words_files_and_stdin(inside: Inside) -> None:
    (inside.project / "notes").write_text("from a file\n")
    inside.sent("words", "-f", "notes")
    assert inside("recv", "box", "--json").json["payload"]["text"] == "words\n\nfrom a file"
    assert inside("send", "box", "--no-wait", "-f", "missing").code == 4
    assert inside("send", "box", "--no-wait", "", stdin="").code == 2


def test_options_of_send_that_exclude_each_other_are_refused(inside: Inside) -> None:
    for argv in (["--no-wait", "--json", "--access", "all"], ["--key", "", "--no-wait"], ["--attach", "missing"]):
        assert inside("send", "box", "hi", *argv).code != 0
    assert inside("send", "nobody", "hi").code == 4
    assert inside("queue", "list").out.count("\n") <= 1


def test_a_key_sends_a_message_once(inside: Inside) -> None:
    assert inside.sent("hi", "--key", "k") == inside.sent("hi", "--key", "k")
    assert len(inside("queue", "list", "--json").lines) == 1
    again = inside("send", "box", "other", "--no-wait", "--key", "k")
    assert again.code == 2 and "another message" in again.err


def test_the_status_tells_what_waits_and_the_metrics_too(inside: Inside) -> None:
    inside.sent()
    rows = {row[0]: row for row in (line.split("\t") for line in inside("status").out.splitlines())}
    assert rows["AGENT"] == ["AGENT", "STATE", "WAIT", "DEAD", "TURNS", "COST", "LAST"]
    assert rows["box"][1] == "idle" and rows["box"][2].startswith("1 (")
    assert (rows["asker"][2], rows["asker"][3]) == ("0", "0")
    metrics = inside("status", "--metrics").out.splitlines()
    assert 'beam_queue_depth{agent="box"} 1' in metrics and "beam_broker_up 0" in metrics
    assert inside("status", "nobody").code == 4


def test_the_usage_is_summed_up_by_agent(inside: Inside) -> None:
    message = inside.sent()
    inside("recv", "box")
    inside("reply", message, "yes")
    lines = inside("status", "--usage", "--json").lines
    assert [(line["agent"], line["turns"]) for line in lines] == [("box", 1), (None, 1)]
    assert "box" in inside("status", "--usage").out


def test_rules_are_listed_tried_added_and_removed(inside: Inside) -> None:
    listed = inside("rules", "list", "bot").out.splitlines()
    assert listed[1].split("\t") == ["deny", "Bash(rm *)", "beam.yaml", "exec: nobody, dialogue: nobody"]
    assert inside("rules", "list", "bot", "--json").json["decision"] == "deny"
    tried = inside("rules", "test", "bot", "Bash(rm x)")
    assert tried.code == 0 and tried.out.startswith("deny: deny Bash(rm *) of beam.yaml ")
    assert not inside("rules", "test", "bot", "Bash(ls)").out.startswith("deny")
    assert inside("rules", "test", "bot", "Bash(ls)", "--deny", "Bash(ls)").out.startswith("deny: ")
    assert inside("rules", "test", "bot", "nonsense(").code == 2
    added = inside("rules", "add", "bot", "--deny", "Bash(git push *)")
    assert added.code == 0 and added.err.startswith("beam: bot: deny Bash(git push *) (")
    assert len(inside("rules", "list", "bot", "--json").lines) == 2
    removed = inside("rules", "remove", "bot", "--deny", "Bash(git push *)")
    assert removed.err.startswith("beam: bot: no longer deny Bash(git push *) (")
    assert len(inside("rules", "list", "bot", "--json").lines) == 1
    assert inside("rules", "remove", "bot", "--deny", "Bash(git push *)").code == 4
    for verb in ("add", "remove"):
        without = inside("rules", verb, "bot")
        assert without.code == 2 and "no rule is given" in without.err


def test_sessions_of_an_agent_that_has_none_are_said_to_be_none(inside: Inside) -> None:
    inside.sent()
    rows = [line.split("\t") for line in inside("agent", "sessions", "box").out.splitlines()]
    assert rows[0] == ["AGENT", "STATE", "SESSION", "LAST TURN", "TURNS", "FIRST PROMPT"]
    assert rows[1][:2] == ["box", "none"]
    assert inside("agent", "reset", "box").err == "beam: box: no session\n"
    assert inside("agent", "release", "box").err == "beam: no process of box is kept\n"
    assert inside("agent", "resume", "box", "abcd").code == 4
    assert inside("agent", "unblock", "box").code == 2
    assert inside("agent", "fork", "box", "twin").code == 10


def test_the_root_is_printed_and_listed(inside: Inside) -> None:
    path = inside("root").out.strip()
    assert inside("root", "--json").json == {"root": path, "project": str(inside.project), "exists": False}
    inside.sent()
    assert inside("root", "--json").json["exists"] is True
    rows = [line.split("\t") for line in inside("root", "list").out.splitlines()]
    assert rows == [["ROOT", "FOLDER", "AGENTS", "WAITING"], [path, str(inside.project), "box", "1"]]
    assert inside("root", "list", "--json").json["waiting"] == 1
    assert inside("root", "nonsense").code == 2


def test_what_nobody_asks_is_not_decided(inside: Inside) -> None:
    assert inside("asks").err == "beam: no agent waits for a decision\n"
    assert inside("asks", "--json").out == ""
    for verb in ("approve", "deny"):
        refused = inside(verb, "x-123456")
        assert refused.code == 4 and refused.err.startswith("beam: no ask x-123456 is open")
    assert inside("interrupt", "box").err == "beam: box is not in a turn; beam status\n", "it was never used"
    inside.sent()
    assert inside("interrupt", "box").err == "beam: box is not in a turn; beam status\n"


def test_a_message_that_waits_is_withdrawn_by_an_interrupt(inside: Inside) -> None:
    message = inside.sent()
    assert inside("interrupt", message).code == 0
    assert inside("show", message, "--json").json["status"] == "cancelled"


def test_without_a_broker_its_commands_say_so(inside: Inside) -> None:
    for verb in ("status", "stop"):
        refused = inside("broker", verb)
        assert refused.code == 4 and "no broker serves" in refused.err
    unit = inside("broker", "service").out
    assert f"WorkingDirectory={inside.project}\n" in unit and "Restart=on-failure\n" in unit


def test_the_words_that_may_follow_are_offered(inside: Inside) -> None:
    def words(line: str) -> list[str]:
        return inside("completion", "words", "--line", line).out.split()

    assert words("beam agent s") == ["show", "set", "sessions"]
    assert words("beam send b") == ["bot", "box", "bash"]
    assert words("beam send box --acc") == ["--access"]
    assert words("beam send box --access ") == ["read", "edit", "full", "ask"]
    assert words("beam send box -f ") == [":"]
    message = inside.sent()
    assert words("beam show box-") == [message]
    for shell in ("bash", "zsh", "fish"):
        assert "completion words" in inside("completion", shell).out


def test_a_schema_is_printed_by_its_name(inside: Inside) -> None:
    assert json.loads(inside("dev", "schema", "outcome").out)["$defs"]["Outcome"]["title"] == "Outcome"
    wrong = inside("dev", "schema", "outcom")
    assert wrong.code == 2 and "did you mean outcome?" in wrong.err
    assert "outcome" in inside("dev", "schema").out.split()


def test_what_happened_is_watched_from_the_beginning(inside: Inside) -> None:
    message = inside.sent("hello")
    inside("recv", "box")
    inside("reply", message, "yes")
    lines = inside("watch", "--now", "--since", "1h").out.splitlines()
    assert [line.split(None, 2)[2] for line in lines][:3] == ["← human: hello", "▶ turn 1 (mailbox)", "│ yes"]
    assert [each["type"] for each in inside("watch", "--now", "--since", "1h", "--json", "--type", "text").lines] == [
        "text"
    ]
    assert inside("watch", "nobody", "--now").code == 4


def test_there_are_no_teams_where_claude_made_none(inside: Inside) -> None:
    assert inside("team", "list").err.startswith("beam: there are no teams; ")
    assert inside("team", "list", "--json").out == ""
    assert inside("team", "show", "nobody").code == 4
