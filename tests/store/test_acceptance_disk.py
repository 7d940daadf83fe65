"""Bad luck with the disk: it is said on one line with exit 74, nothing is lost, and what follows works again."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess

import pytest

from tests.support.claims import refused, said_once
from tests.support.cli import BEAM, Cli, Ended

pytestmark = pytest.mark.acceptance


def limited(beam: Cli, *args: str, file_bytes: int | None = None, open_files: int | None = None) -> Ended:
    """Runs beam with no rights to pass over permissions (root has them); with `file_bytes` no file may grow larger,
    with `open_files` no more may be open at once."""

    def prepare() -> None:
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
        if open_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
        if os.geteuid() == 0:
            for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
                ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP

    done = subprocess.run(
        [*BEAM, *args],
        cwd=beam.project,
        env=beam.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
        preexec_fn=prepare,
    )
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Ended(code, done.stdout.decode(), done.stderr.decode())


def test_a_folder_that_can_not_be_written_is_worked_in_all_the_same(beam: Cli) -> None:
    beam.project.chmod(0o555)
    done = limited(beam, "send", "scripted", "hi")
    beam.project.chmod(0o755)
    assert (done.code, done.out) == (0, "You said: hi\n")


def test_a_home_that_can_not_be_written_is_named_with_the_ways_out(beam: Cli) -> None:
    home = beam.base / "home"
    home.chmod(0o555)
    done = limited(beam, "send", "scripted", "hi")
    home.chmod(0o755)
    refused(done, 74, str(home), "BEAM_STATE", "state_dir", "--root")
    assert list(home.iterdir()) == list(beam.project.iterdir()) == []


def test_a_root_that_can_not_be_written_is_named_and_what_is_in_it_can_be_read(beam: Cli) -> None:
    assert limited(beam, "send", "scripted", "one").code == 0
    folders = [path for path in (beam.root, *beam.root.rglob("*")) if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    done, log, status = (
        limited(beam, *args) for args in (("send", "scripted", "two"), ("log", "scripted"), ("status",))
    )
    for folder in folders:
        folder.chmod(0o700)
    refused(done, 74, str(beam.root))
    assert (log.code, status.code) == (0, 0), (log, status)
    assert "You said: one" in log.out
    assert limited(beam, "send", "scripted", "three").out == "You said: three\n"


def test_a_full_disk_before_the_message_is_put_leaves_nothing(beam: Cli) -> None:
    assert limited(beam, "send", "scripted", "one").code == 0
    done = limited(beam, "send", "scripted", "x" * 4000, file_bytes=1000)
    refused(done, 74, "can't")
    assert (beam.box("scripted", "tmp"), beam.box("scripted", "new")) == ([], [])
    assert limited(beam, "send", "scripted", "two").out == "You said: two\n"


def test_a_disk_that_fills_up_in_the_turn_loses_no_message_and_runs_nothing_twice_in_silence(beam: Cli) -> None:
    (beam.project / "big.yaml").write_text("default: [{big: 200000}]\n")
    beam.config("agents:\n  big: {adapter: scripted, script: ./big.yaml}\n")
    done = limited(beam, "send", "big", "go", file_bytes=50_000)
    assert done.code == 74, done
    said_once(done, "can't write", "journal")
    again = limited(beam, "queue", "retry", (beam.box("big", "cur") + beam.box("big", "dead"))[0][21:-5])
    assert again.code in (0, 2), again
    after = limited(beam, "status", "--json").json
    assert after["dead"] + after["waiting"] + after["totals"]["turns"] >= 1


def test_too_few_files_that_may_be_open_are_said_and_lose_and_repeat_nothing(beam: Cli) -> None:
    (beam.project / "count.sh").write_text(f"cat > /dev/null; echo ran >> {beam.base / 'runs'}; echo done\n")
    beam.config("agents:\n  counted: {command: [sh, ./count.sh]}\n")
    assert beam("send", "counted", "first").code == 0
    codes = set()
    for open_files in range(8, 40, 5):
        done = limited(beam, "send", "counted", "go", open_files=open_files)
        codes.add(done.code)
        assert done.code in (0, 8, 74), (open_files, done)
        if done.code == 74:
            said_once(done, "Too many open files", "ulimit -n")
    assert 74 in codes
    done = beam("send", "counted", "last")
    assert (done.code, done.out) == (0, "done\n")
    assert beam.box("counted", "new") == beam.box("counted", "cur") == beam.box("counted", "tmp") == []
    outcomes = [event for event in beam.journal("counted") if event["type"] == "turn.finished"]
    ids = [event["message_id"] for event in outcomes]
    assert len(set(ids)) == len(ids)
    assert (beam.base / "runs").read_text().count("ran") <= len(ids)
    assert beam("log", "counted", "--verify").code == 0


def test_a_stdout_that_is_full_is_said_and_the_answer_can_be_had_again(beam: Cli) -> None:
    done = beam.shell("beam send scripted hi > /dev/full")
    assert (done.code, done.out) == (74, "")
    line = said_once(done, "can't write the answer", "beam show")
    message = line.partition("beam show ")[2].split()[0]
    assert beam("show", message).out == "You said: hi\n"


@pytest.mark.parametrize("command", ["send scripted hi --json", "--help", "--version", "agent list", "send --help"])
def test_any_command_whose_stdout_is_full_says_so_once(beam: Cli, command: str) -> None:
    done = beam.shell(f"beam {command} > /dev/full")
    assert done.code == 74, done
    said_once(done, "No space left")


@pytest.mark.parametrize("form", ["", "--json"])
@pytest.mark.parametrize(("where", "code"), [("> /dev/full", 74), (">&-", 74), ("| sleep 0", 141)])
def test_a_message_whose_id_can_not_be_printed_is_said_to_be_sent(beam: Cli, form: str, where: str, code: int) -> None:
    beam("queue", "pause", "scripted")
    pipe = "mkfifo p; exec 3<>p 4>p 3<&-; " if where.startswith("|") else ""
    where = ">&4" if pipe else where
    done = beam.shell(f"{pipe}beam send scripted --no-wait {form} hi {where}")
    assert (done.code, done.out) == (code, "")
    line = said_once(done, "was sent", "beam wait")
    message = line.partition("beam: ")[2].split()[0]
    assert beam.box("scripted", "new")[0].endswith(f"-{message}.json")


def test_a_closed_stdout_is_said(beam: Cli) -> None:
    done = beam.shell("beam send scripted hi >&-")
    assert done.code == 74
    said_once(done, "can't write the answer")


def test_a_closed_stderr_changes_nothing_but_the_talk(beam: Cli) -> None:
    done = beam.shell("beam send scripted hi 2>&-; beam send nobody hi 2>&-")
    assert (done.code, done.out) == (4, "You said: hi\n")


def test_with_all_three_closed_the_turn_still_runs(beam: Cli) -> None:
    assert beam.shell("beam send scripted hi <&- >&- 2>&-").code == 74
    assert beam("log", "scripted").out.count("completed") == 1


def test_a_journal_line_torn_by_a_crash_is_named_by_a_notice_and_work_goes_on(beam: Cli) -> None:
    beam("send", "scripted", "one")
    (segment,) = (beam.root / "agents/scripted/journal").glob("*.jsonl")
    before = segment.read_bytes()
    segment.write_bytes(before + b'{"type":"text","v":1,"seq":99,"te')
    done = beam("send", "scripted", "two")
    assert (done.code, done.out, done.err) == (0, "You said: two\n", "")
    assert segment.read_bytes().startswith(before + b'{"type":"text","v":1,"seq":99,"te')
    notices = [event for event in beam.journal("scripted") if event["type"] == "notice"]
    assert [notice["code"] for notice in notices] == ["torn"]
    assert beam("log", "scripted", "--verify").code == 0
    assert beam("log", "scripted", "--json").code == 0


@pytest.mark.parametrize("command", [("send", "scripted", "two"), ("log", "scripted"), ("queue", "list")])
def test_a_corrupt_journal_line_is_said_with_its_place_and_touches_nothing(beam: Cli, command: tuple[str, ...]) -> None:
    beam("send", "scripted", "one")
    (segment,) = (beam.root / "agents/scripted/journal").glob("*.jsonl")
    lines = segment.read_bytes().split(b"\n")
    lines[3] = lines[3][:-1] + b"\xff"
    segment.write_bytes(b"\n".join(lines))
    done = beam(*command)
    assert done.code == 74, done
    said_once(done, str(segment), "byte", "--verify")
    assert segment.read_bytes() == b"\n".join(lines)


def test_damage_is_listed_by_verify_and_doctor_and_the_rest_can_still_be_looked_at(beam: Cli) -> None:
    beam("send", "scripted", "one")
    beam.config("agents:\n  other: {adapter: scripted}\n")
    beam("send", "other", "fine")
    (segment,) = (beam.root / "agents/scripted/journal").glob("*.jsonl")
    lines = segment.read_bytes().split(b"\n")
    lines[3], lines[5] = b"junk", b"more junk"
    segment.write_bytes(b"\n".join(lines))
    verified = beam("log", "scripted", "--verify")
    assert verified.code == 13
    assert len(verified.out.splitlines()) >= 2, verified
    said_once(verified, "scripted", "damaged")
    checked = beam("doctor")
    assert checked.code == 13
    assert "bad" in checked.out
    said_once(checked, "check")
    status = beam("status", "--json")
    assert status.code == 0
    assert [line["agent"] for line in status.lines if line["error"]] == ["scripted"]
    assert beam("send", "other", "still").out == "You said: still\n"
    watched = beam("watch", "--now", "other")
    assert (watched.code, watched.out.count("You said")) == (0, 2)


def test_a_corrupt_queue_file_becomes_a_dead_letter_and_the_rest_goes_on(beam: Cli) -> None:
    beam("send", "scripted", "one")
    box = beam.root / "agents/scripted/queue/new"
    for name, data in (
        ("00000000000000000001-scripted-aaaa", b"{torn"),
        ("00000000000000000002-scripted-bbbb", b"\xff\0"),
    ):
        (box / f"{name}.json").write_bytes(data)
    done = beam("send", "scripted", "two")
    assert (done.code, done.out, done.err) == (0, "You said: two\n", "")
    assert len(beam.box("scripted", "dead")) == 2
    listed = beam("queue", "list", "--json").lines
    assert [(item["box"], bool(item["error"])) for item in listed] == [("dead", True), ("dead", True)]
    shown = beam("show", "aaaa", "--json")
    assert (shown.code, shown.json["status"]) == (1, "failed")
    said_once(shown, "not a message")


def test_a_root_that_is_a_file_is_named(beam: Cli) -> None:
    beam.root.parent.mkdir(parents=True)
    beam.root.write_text("not a directory")
    refused(beam("send", "scripted", "hi"), 74, str(beam.root))


def test_a_root_that_others_may_write_is_refused(beam: Cli) -> None:
    beam("send", "scripted", "hi")
    beam.root.chmod(0o777)
    refused(beam("send", "scripted", "hi"), 74, str(beam.root), "chmod")
