"""Acting on a team: what is written, under whose locks, and what is refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from beam.base.errors import BeamError, CorruptError, NotFoundError, UnfinishedError, UsageError
from beam.teams import act, vendor_lock
from beam.teams.act import TeamFiles
from beam.teams.model import Mail, Task, digest
from tests.support.cli import Cli

TEAM = "session-5eed0000"


@pytest.fixture
def team(tmp_path: Path) -> TeamFiles:
    return made(tmp_path / "claude")


def made(home: Path) -> TeamFiles:
    home.mkdir(parents=True)
    files = act.create(str(home), TEAM, session_id="5eed0000-0000-4000-8000-000000000000", cwd="/p")
    for name in ("alice", "bob"):
        files.add_member({"name": name, "agentId": f"{name}@{TEAM}", "joinedAt": 1, "cwd": "/p"})
    return files


def letters(files: TeamFiles, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(files.inbox(name)).read_text())
    return found


def test_a_message_lies_in_the_inbox_in_claudes_own_form(team: TeamFiles) -> None:
    mail_id = team.post("bob", "hello", sender="human", summary="greets")
    (letter,) = letters(team, "bob")
    assert letter.pop("timestamp").endswith("Z")
    assert letter == {
        "from": "human",
        "text": "hello",
        "summary": "greets",
        "msgV": 1,
        "msg_id": mail_id,
        "type": "message",
        "read": False,
    }
    assert Path(team.inbox("bob")).read_text().startswith('[\n  {\n    "from"')
    assert [mail.text for mail in taken(team, "bob")] == ["hello"]
    assert letters(team, "bob") == []


def taken(files: TeamFiles, name: str) -> list[Mail]:
    """Take the inbox's mail as a member does: one after the other."""
    found = []
    for mail in files.mail(name):
        found.append(mail)
        files.remove_mail(name, mail.id)
    return found


@pytest.mark.parametrize(
    ("mail_id", "left"),
    [
        ("m-1", [1, 2, 3, 4]),
        ("m-2", [0, 1, 3, 4]),
        (digest("eve", "", "undated"), [0, 1, 2, 4]),
        ("m-9", [0, 1, 2, 3, 4]),
    ],
)
def test_one_message_is_removed_and_all_others_stay_as_they_are(mail_id: str, left: list[int], team: TeamFiles) -> None:
    there = [
        {"from": "eve", "text": "a", "msg_id": "m-1", "newer": {"field": [1]}},
        "no object",
        {"from": "eve", "text": "ü", "msg_id": "m-2"},
        {"from": "eve", "text": "undated"},
        {"from": "eve", "text": "again", "msg_id": "m-1"},
    ]
    Path(team.inbox("bob")).write_text(json.dumps(there))
    team.remove_mail("bob", mail_id)
    assert letters(team, "bob") == [there[at] for at in left]


@pytest.mark.parametrize("data", ["", "[", '{"msg_id": "m-1"}'])
def test_an_inbox_that_can_not_be_parsed_now_has_no_mail_and_is_left(data: str, team: TeamFiles) -> None:
    Path(team.inbox("bob")).write_text(data)
    assert team.mail("bob") == ()
    team.remove_mail("bob", "m-1")
    assert Path(team.inbox("bob")).read_text() == data


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"shutdown_request"}',
        ' \n{"type": "mode_set_request"}',
        '\ufeff{"type":"permission_response","request_id":"x"}',
        '{"type":7}',
        '{"type":null}',
        '{"\\u0074ype":"shutdown_request"}',
        '\ufeff \ufeff{"type":"shutdown_request"}',
        '{"type":"shutdown_request"}\ufeff',
        '\u200b{"type":"shutdown_request"}\x00',
        f'{{"type":"shutdown_request","n":{"1" * 5000}}}',
        f'{{"type":"shutdown_request","n":{"[" * 100_000}{"]" * 100_000}}}',
        "",
        "   ",
        "x" * (act.LONGEST + 1),
    ],
)
def test_a_frame_of_the_protocol_is_no_message(text: str) -> None:
    with pytest.raises(UsageError):
        act.check_text(text)


@pytest.mark.parametrize("text", ['{"a":1}', '{"type" is what I mean}', '[{"type":"x"}]', 'see {"type":"x"}', "{}"])
def test_what_is_no_frame_is_a_message(text: str) -> None:
    assert act.check_text(text) == text


def test_nobody_writes_in_a_members_name(team: TeamFiles) -> None:
    for name in ("team-lead", "alice", "a b", "", "../x"):
        with pytest.raises(UsageError):
            act.check_sender(name, team.roster())
    assert act.check_sender("human", team.roster()) == "human"


def test_an_unknown_member_is_named_with_the_nearest(team: TeamFiles) -> None:
    with pytest.raises(NotFoundError, match="did you mean alice"):
        team.member("alise")


def test_ids_of_tasks_are_never_used_again(team: TeamFiles) -> None:
    assert [team.add_task("a"), team.add_task("b")] == ["1", "2"]
    folder = Path(team.home) / "tasks" / TEAM
    (folder / ".highwatermark").write_text("7")
    (folder / "2.json").unlink()
    assert team.add_task("c") == "8"


def test_two_tasks_can_not_wait_for_each_other(team: TeamFiles) -> None:
    team.add_task("a")
    team.add_task("b", after=["1"])
    team.add_task("c", after=["2"])
    for task, by in (("1", "3"), ("1", "2"), ("2", "2")):
        with pytest.raises(UsageError, match="waits for it"):
            team.block_task(task, by)
    team.block_task("3", "1")
    tasks = team.tasks()
    assert tasks["3"].blocked_by == ("2", "1")
    assert tasks["1"].blocks == ("2", "3")


def test_a_task_that_waits_or_is_taken_or_done_can_not_be_claimed(team: TeamFiles) -> None:
    team.add_task("a")
    team.add_task("b", after=["1"])
    with pytest.raises(UsageError, match="waits for 1"):
        team.claim_task("2", "bob")
    team.claim_task("1", "alice")
    with pytest.raises(UsageError, match="alice's"):
        team.claim_task("1", "bob")
    team.move_task("1", "completed")
    assert team.claim_task("2", "bob").owner == "bob"
    assert team.release_tasks("bob") == ["2"]
    assert (team.tasks()["2"].owner, team.tasks()["2"].status) == (None, "pending")


@pytest.mark.slow
def test_half_of_a_file_is_read_again_and_counts_as_a_task_that_is_not_done(team: TeamFiles) -> None:
    team.add_task("a")
    team.add_task("b", after=["1"])
    folder = Path(team.home) / "tasks" / TEAM
    whole = (folder / "1.json").read_text()
    (folder / "1.json").write_text(whole[:20])
    with pytest.raises(UsageError, match="waits for 1"):
        team.claim_task("2", "bob")
    assert team.add_task("c") == "3"
    (folder / "2.json").write_text('{"id": "x", "status": "pending"}')
    assert list(team.tasks()) == ["3"]
    config = Path(team.config)
    half = config.read_text()
    config.write_text(half[:30])
    timer = threading.Timer(0.03, config.write_text, (half,))
    timer.start()
    assert team.roster().member("alice") is not None
    timer.join()


def test_a_name_is_one_members_unless_it_is_given_up(team: TeamFiles) -> None:
    with pytest.raises(UsageError, match="has a member bob already"):
        team.add_member({"name": "bob", "joinedAt": 2})
    assert team.add_member({"name": "bob", "joinedAt": 3}, replaces=lambda one: one["joinedAt"] == 1)
    assert [one["joinedAt"] for one in team.members() if one["name"] == "bob"] == [3]
    assert not team.add_member({"name": "carol", "joinedAt": 4})


@pytest.mark.parametrize("task", ["9", "../1", "x", "1.json", ""])
def test_a_task_that_is_not_there_is_not_made(team: TeamFiles, task: str) -> None:
    with pytest.raises(NotFoundError):
        team.claim_task(task, "bob")


def test_what_a_person_did_not_know_of_a_task_stays(team: TeamFiles) -> None:
    team.add_task("a")
    path = Path(team.home) / "tasks" / TEAM / "1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "metadata": {"x": "y"}, "activeForm": "doing"}))
    team.move_task("1", "in_progress", "bob")
    found = json.loads(path.read_text())
    assert (found["metadata"], found["activeForm"], found["owner"]) == ({"x": "y"}, "doing", "bob")


# -- other processes ---------------------------------------------------------------------------------------------------


def _claim(home: str, who: str, results: Any) -> None:
    try:
        TeamFiles(home, TEAM).claim_task("1", who)
        results.put(who)
    except BeamError:
        results.put("")


@pytest.mark.slow
def test_of_ten_processes_that_claim_a_task_one_gets_it(team: TeamFiles) -> None:
    team.add_task("a")
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    workers = [context.Process(target=_claim, args=(team.home, f"m{number}", results)) for number in range(10)]
    for worker in workers:
        worker.start()
    won = [name for name in (results.get(timeout=30) for _ in workers) if name]
    for worker in workers:
        worker.join(30)
    assert len(won) == 1
    assert team.tasks()["1"].owner == won[0]


def _write(home: str, who: str, count: int) -> None:
    files = TeamFiles(home, TEAM)
    for number in range(count):
        files.post("bob", f"{who} {number}", sender=who)


def _read_all(team: TeamFiles, workers: list[Any]) -> list[str]:
    """Take the inbox's mail while they write, as a member does."""
    found: list[str] = []
    while any(worker.is_alive() for worker in workers):
        found += [mail.text for mail in taken(team, "bob")]
        time.sleep(0.01)
    return found + [mail.text for mail in taken(team, "bob")]


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, pytest.param(250, marks=pytest.mark.soak)])
def test_nothing_that_many_write_at_once_is_lost(team: TeamFiles, count: int) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write, args=(team.home, f"w{number}", count)) for number in range(8)]
    for worker in workers:
        worker.start()
    found = _read_all(team, workers)
    assert [worker.exitcode for worker in workers] == [0] * 8
    assert Counter(found) == Counter(f"w{who} {number}" for who in range(8) for number in range(count))
    for who in range(8):
        assert [text for text in found if text.startswith(f"w{who} ")] == [f"w{who} {n}" for n in range(count)]


def test_a_lock_that_others_hold_is_waited_for_and_a_stale_one_is_taken_over(tmp_path: Path) -> None:
    path = str(tmp_path / "x.json")
    lock = tmp_path / "x.json.lock"
    lock.mkdir()
    with pytest.raises(UnfinishedError), vendor_lock.hold_lock(path, patience_s=0.1):
        pass
    assert lock.is_dir()
    old = time.time() - vendor_lock.STALE_S - 1
    os.utime(lock, (old, old))
    with vendor_lock.hold_lock(path, patience_s=1):
        assert lock.is_dir()
    assert not lock.exists()


# -- hostile files -----------------------------------------------------------------------------------------------------


def test_links_are_not_written_through(team: TeamFiles, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("[]")
    inbox = Path(team.inbox("bob"))
    inbox.unlink()
    inbox.symlink_to(outside)
    with pytest.raises(CorruptError):
        team.post("bob", "x", sender="human")
    assert outside.read_text() == "[]"
    folder = tmp_path / "other"
    (folder / "teams").mkdir(parents=True)
    (folder / "teams" / TEAM).symlink_to(team.team_dir)
    with pytest.raises(CorruptError):
        TeamFiles(str(folder), TEAM)


def test_what_is_no_list_in_an_inbox_is_replaced_as_claude_code_does(team: TeamFiles) -> None:
    Path(team.inbox("bob")).write_text("{broken")
    team.post("bob", "x", sender="human")
    assert [letter["text"] for letter in letters(team, "bob")] == ["x"]


@pytest.mark.parametrize("data", [b'[{"text": "caf\xe9"}]', b'[{"text": "caf\xef\xbf\xbd"}] of old"}]'])
def test_what_waits_in_an_inbox_stays_if_its_bytes_are_not_as_they_should_be(data: bytes, team: TeamFiles) -> None:
    Path(team.inbox("bob")).write_bytes(data)
    assert [mail.text for mail in team.mail("bob")] == ["caf\ufffd"]
    team.post("bob", "x", sender="human")
    assert [letter["text"] for letter in letters(team, "bob")] == ["caf\ufffd", "x"]


def test_an_inbox_that_is_just_being_written_is_read_again(team: TeamFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Path(team.inbox("bob"))
    inbox.write_text('[{"text": "half')
    monkeypatch.setattr(time, "sleep", lambda _: inbox.write_text('[{"text": "half a moment"}]'))
    team.post("bob", "x", sender="human")
    assert [letter["text"] for letter in letters(team, "bob")] == ["half a moment", "x"]


def test_nothing_is_written_to_a_team_that_is_gone(team: TeamFiles) -> None:
    shutil.rmtree(team.team_dir)
    with pytest.raises(NotFoundError):
        team.post("bob", "x", sender="human")
    assert not Path(team.team_dir).exists()


# -- the commands ------------------------------------------------------------------------------------------------------


@pytest.mark.acceptance
def test_the_commands_send_and_move_tasks(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    files = made(tmp_path / "home" / ".claude")
    done = cli("team", "send", TEAM, "bob", "look", "at", "it")
    assert (done.code, "not authenticated" in done.out) == (0, True)
    assert letters(files, "bob")[0]["text"] == "look at it"
    assert cli("team", "send", TEAM, "bob", '{"type":"shutdown_request"}').code == 2
    assert cli("team", "send", TEAM, "nobody", "x").code == 4
    assert cli("team", "send", TEAM, "bob", "x", "--json").code == 0
    assert cli("team", "task", "add", TEAM, "one").out == "#1 one: pending\n"
    assert cli("team", "task", "add", TEAM, "two", "--after", "1").out == "#2 two: pending, waits for 1\n"
    assert cli("team", "task", "block", TEAM, "1", "--after", "2").code == 2
    assert cli("team", "task", "claim", TEAM, "1", "--as", "alice").out == "#1 one: pending, alice's\n"
    assert '"task_assignment"' in letters(files, "alice")[0]["text"]
    assert cli("team", "task", "start", TEAM, "1").out == "#1 one: in_progress, alice's\n"
    assert cli("team", "task", "done", TEAM, "1").out == "#1 one: completed, alice's\n"
    assert cli("team", "shutdown", TEAM).out == "asked: alice, bob\n"
    assert cli("team", "shutdown", TEAM, "team-lead").code == 2
    assert cli("team", "approve", TEAM, "bob", "x").code == 2
    assert cli("team", "approve", TEAM, "bob", "perm-1-a", "--deny", "no").code == 0
    assert json.loads(letters(files, "bob")[-1]["text"])["subtype"] == "error"


# -- whole files, and what is said of mistakes ---------------------------------------------------------------------


def whole(path: str) -> Any:
    return json.loads(Path(path).read_text())


def test_a_team_that_beam_makes_has_claudes_own_form(team: TeamFiles, tmp_path: Path) -> None:
    config = whole(team.config)
    now_ms = config["createdAt"]
    assert abs(now_ms - time.time() * 1000) < 600_000
    session = "5eed0000-0000-4000-8000-000000000000"
    lead = {
        "agentId": f"team-lead@{TEAM}",
        "name": "team-lead",
        "agentType": "team-lead",
        "joinedAt": now_ms,
        "tmuxPaneId": "leader",
        "cwd": "/p",
        "subscriptions": [],
        "backendType": "in-process",
    }
    others = [{"name": name, "agentId": f"{name}@{TEAM}", "joinedAt": 1, "cwd": "/p"} for name in ("alice", "bob")]
    assert config == {
        "name": TEAM,
        "createdAt": now_ms,
        "leadAgentId": f"team-lead@{TEAM}",
        "leadSessionId": session,
        "madeBy": "beam",
        "members": [lead, *others],
    }
    assert Path(team.config).stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in Path(team.team_dir).iterdir()) == ["config.json", "inboxes"]
    assert (tmp_path / "claude/tasks" / TEAM).is_dir()
    assert [letters(team, name) for name in ("alice", "bob")] == [[], []]
    assert team.members() == [lead, *others]


@pytest.mark.parametrize("name", ["", "-a", "A", "a_b", "a" * 65, "ä"])
def test_a_name_that_is_no_teams_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        act.create(str(tmp_path), name, session_id="s", cwd="/p")
    said = f"{name!r} is not a team's name (use lower-case letters, digits and -)"
    assert (str(caught.value), caught.value.subject) == (said, name)
    assert act.create(str(tmp_path), "a" * 64, session_id="s", cwd="/p").folder == "a" * 64


def refused(call: Any) -> tuple[str, str, str, str | None]:
    """The mistake, what is said of it, the hint, and the subject."""
    with pytest.raises(BeamError) as caught:
        call()
    error = caught.value
    return type(error).__name__, str(error).removesuffix(f" ({error.hint})"), error.hint or "", error.subject


def test_each_mistake_names_what_it_is_about_and_what_to_do(team: TeamFiles, tmp_path: Path) -> None:
    done = team.add_task("done")
    team.move_task(done, "completed", "bob")
    waits = team.add_task("waits", after=[team.add_task("first")])
    (tmp_path / "claude/teams/half/inboxes").mkdir(parents=True)
    half = TeamFiles(str(tmp_path / "claude"), "half")
    (tmp_path / "file").touch()
    assert [
        refused(lambda: act.create(str(tmp_path / "claude"), TEAM, session_id="s", cwd="/p")),
        refused(half.roster),
        refused(lambda: half.remove_member("bob")),
        refused(lambda: team.member("bobb")),
        refused(lambda: team.member("zzz")),
        refused(lambda: team.add_member({"name": "bob"})),
        refused(lambda: team.claim_task(done, "alice")),
        refused(lambda: team.move_task(done, "pending", "alice")),
        refused(lambda: team.move_task(done, "in_progress", "bob")),
        refused(lambda: team.claim_task(waits, "alice")),
        refused(lambda: team.claim_task("77", "alice")),
        refused(lambda: team.add_task("x", after=["77"])),
        refused(lambda: team.block_task("2", "77")),
        refused(lambda: team.block_task("2", waits)),
        refused(lambda: team.block_task("2", "2")),
    ] == [
        (
            "UsageError",
            "there is a team session-5eed0000 already",
            "beam team show session-5eed0000",
            "session-5eed0000",
        ),
        ("NotFoundError", "the team half has no configuration", "beam team list", "half"),
        ("NotFoundError", "the team half is gone", "beam team list", "half"),
        ("NotFoundError", "session-5eed0000 has no member 'bobb'", "did you mean bob?", "bobb"),
        ("NotFoundError", "session-5eed0000 has no member 'zzz'", "there are team-lead, alice, bob", "zzz"),
        ("UsageError", "session-5eed0000 has a member bob already", "use --name", "bob"),
        ("UsageError", "task 1 is bob's", "beam team tasks", "1"),
        ("UsageError", "task 1 is bob's", "beam team tasks", "1"),
        ("UsageError", "task 1 is completed", "beam team tasks", "1"),
        ("UsageError", "task 3 waits for 2", "beam team tasks", "3"),
        ("NotFoundError", "session-5eed0000 has no task '77'", "beam team tasks TEAM", "77"),
        ("NotFoundError", "session-5eed0000 has no task '77'", "beam team tasks TEAM", "77"),
        ("NotFoundError", "session-5eed0000 has no task '77'", "beam team tasks TEAM", "77"),
        ("UsageError", "task 2 can't wait for 3: that waits for it (3 → 2)", "beam team tasks", ""),
        ("UsageError", "task 2 can't wait for 2: that waits for it (2)", "beam team tasks", ""),
    ]


def test_a_frame_and_an_answer_carry_what_they_are_about(team: TeamFiles) -> None:
    team.frame("bob", "shutdown_request", sender="team-lead", reason="wir sind fertig – ja")
    team.post("bob", "yes", sender="alice", reply_to="q")
    frame, answer = letters(team, "bob")
    value = json.loads(frame["text"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value.pop("timestamp"))
    assert (value, frame["from"]) == ({"type": "shutdown_request", "reason": "wir sind fertig – ja"}, "team-lead")
    assert "– ja" in frame["text"] and "summary" not in frame
    assert (answer["inReplyTo"], answer["from"], answer["text"]) == ("q", "alice", "yes")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", answer["timestamp"])
    assert [mail.is_reply for mail in taken(team, "bob")] == [False, True]
    assert team.mail("bob") == () == team.mail("nobody")
    team.remove_mail("nobody", "m-1")
    assert not Path(team.inbox("nobody")).exists()


def test_a_member_takes_the_place_of_one_that_is_given_up_and_leaves_again(team: TeamFiles) -> None:
    new = {"name": "bob", "agentId": "new", "extra": 1}
    assert team.add_member(new, replaces=lambda one: one["joinedAt"] == 1) is True
    assert [one["name"] for one in team.members()] == ["team-lead", "alice", "bob"]
    assert team.members()[-1] == new
    team.post("bob", "hi", sender="alice")
    assert team.add_member({"name": "eve"}) is False
    assert len(letters(team, "bob")) == 1
    team.remove_member("bob")
    team.remove_member("bob")
    assert [one["name"] for one in team.members()] == ["team-lead", "alice", "eve"]


def test_members_of_a_configuration_of_another_shape_are_none(team: TeamFiles) -> None:
    Path(team.config).write_text('{"members": "no"}')
    assert team.members() == []
    Path(team.config).write_text('{"members": [1, {"name": "x"}]}')
    assert team.members() == [{"name": "x"}]
    team.remove_member("y")
    assert whole(team.config) == {"members": [{"name": "x"}]}


def test_a_task_has_claudes_own_form_through_its_life(team: TeamFiles) -> None:
    first = team.add_task("first", description="d")
    second = team.add_task("second", after=[first, first])
    folder = Path(team._task_dir())
    assert sorted(path.name for path in folder.iterdir() if not path.is_dir()) == [".lock", "1.json", "2.json"]
    assert whole(f"{folder}/2.json") == {
        "id": "2",
        "subject": "second",
        "description": "",
        "status": "pending",
        "blocks": [],
        "blockedBy": ["1"],
    }
    claimed = {"id": "1", "subject": "first", "description": "d", "status": "pending", "blocks": ["2"], "blockedBy": []}
    assert whole(f"{folder}/1.json") == claimed
    team.claim_task(first, "bob")
    assert whole(f"{folder}/1.json") == {**claimed, "owner": "bob"}
    assert team.move_task(first, "in_progress").owner == "bob"
    team.release_task(first)
    assert whole(f"{folder}/1.json") == claimed
    assert team.move_task(second, "in_progress", "bob").owner == "bob"
    team.claim_task(team.add_task("third"), "alice")
    fourth = team.add_task("fourth")
    team.move_task(fourth, "completed", "bob")
    assert team.release_tasks("bob") == ["2"]
    assert {one.id: (one.status, one.owner) for one in team.tasks().values()} == {
        "1": ("pending", None),
        "2": ("pending", None),
        "3": ("pending", "alice"),
        "4": ("completed", "bob"),
    }


def test_the_next_task_has_a_number_above_all_that_there_ever_were(team: TeamFiles) -> None:
    folder = Path(team._task_dir())
    folder.mkdir(exist_ok=True)
    (folder / ".highwatermark").write_text("41\n")
    assert team.add_task("x") == "42"
    (folder / "77.json").write_text('{"id": "78"}')
    (folder / "1234567890.json").write_text("{}")
    (folder / "x.json").write_text("{}")
    assert team.add_task("y") == "78"
    assert sorted(team.tasks()) == ["42", "78"]
    (folder / ".highwatermark").write_text("-1")
    assert team._highest_id() == 0


def test_a_task_waits_for_what_is_not_done_or_can_not_be_read_and_not_for_what_is_gone(team: TeamFiles) -> None:
    ids = [team.add_task(name) for name in ("open", "done", "broken")]
    team.move_task("2", "completed")
    Path(team._task_path("3")).write_text("{}")
    task = Task(id="9", blocked_by=(*ids, "77", "../1"))
    assert team.waits_for(task, team.tasks()) == ["1", "3"]


def test_tasks_may_wait_for_each_other_in_a_row_but_not_in_a_ring(team: TeamFiles) -> None:
    for name in "abc":
        team.add_task(name)
    team.block_task("2", "1")
    team.block_task("2", "1")
    team.block_task("3", "2")
    assert {one.id: (one.blocks, one.blocked_by) for one in team.tasks().values()} == {
        "1": (("2",), ()),
        "2": (("3",), ("1",)),
        "3": ((), ("2",)),
    }
    said = "task 1 can't wait for 3: that waits for it (3 → 2 → 1)"
    assert refused(lambda: team.block_task("1", "3")) == ("UsageError", said, "beam team tasks", "")
    value = whole(team._task_path("3"))
    Path(team._task_path("3")).write_text(json.dumps({**value, "blockedBy": []}))
    assert refused(lambda: team.block_task("1", "3"))[1] == said


@pytest.mark.parametrize("folder", ["teams/t", "teams/t/inboxes", "tasks/t", "teams", "tasks"])
def test_beam_writes_nothing_below_a_link(tmp_path: Path, folder: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "claude" / folder
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    make = (lambda: act.create(str(tmp_path / "claude"), "t2", session_id="s", cwd="/p")) if "/" not in folder else None
    found = refused(make or (lambda: TeamFiles(str(tmp_path / "claude"), "t")))
    assert found == ("CorruptError", f"{link} is no directory of yours; beam writes nothing there", "", str(link))


# -- what may be sent --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_text_of_the_largest_size_is_sent_and_one_more_is_not() -> None:
    assert act.check_text("x" * 262_144) == "x" * 262_144
    assert [refused(lambda text=text: act.check_text(text)) for text in ("x" * 262_145, " \n", ' {"type": 1} ')] == [
        ("UsageError", "a message of 262,145 characters is too long", "at most 262,144", ""),
        ("UsageError", "there is nothing to send", "", ""),
        (
            "UsageError",
            "the text is a frame of the team's own protocol, and beam sends none",
            "write it as a sentence",
            "",
        ),
    ]


@pytest.mark.parametrize(
    ("text", "is_frame"),
    [
        ('{"type": "x"}', True),
        ('\ufeff\u200b {"type": null}\x00', True),
        ('{"a": {"type": 1}}', False),
        ('{"type": 1', False),
        ('["type"]', False),
        ("type", False),
        ('{"type": ' + "9" * 5000 + "}", True),
        ('{"type": 1.' + "9" * 5000 + "}", True),
        ('{"a": ' + "[" * 5_000, True),
    ],
    ids=range(9),
)
def test_what_some_reader_of_json_takes_for_a_frame_is_one(text: str, is_frame: bool) -> None:
    assert act.is_frame(text) is is_frame


def test_a_name_that_is_a_members_or_none_is_named(team: TeamFiles) -> None:
    roster = team.roster()
    assert act.check_sender("human_1", roster) == "human_1"
    assert [refused(lambda name=name: act.check_sender(name, roster)) for name in ("bob", "team-lead", "a b", "")] == [
        ("UsageError", "bob is a member of the team", "use a name of your own", "bob"),
        ("UsageError", "team-lead is a member of the team", "use a name of your own", "team-lead"),
        ("UsageError", "'a b' is not a name", "use letters, digits, _ and -", "a b"),
        ("UsageError", "'' is not a name", "use letters, digits, _ and -", ""),
    ]
