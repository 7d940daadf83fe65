"""`beam undo`: a turn's changes are taken back, those of others stay, and nothing of the folder takes effect."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from beam.api import Beam
from beam.base.errors import DiskError
from tests.support.cli import Cli, Ended, eventually
from tests.support.crash import KILLED
from tests.support.repository import content, make_repository
from tests.support.small_disk import SmallDisk
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance
CLAUDE = r"""#!/bin/sh
prompt=$(cat)
while [ $# -gt 0 ]; do case "$1" in --session-id|--resume) session=$2;; esac; shift; done
printf '{"type":"system","subtype":"init","session_id":"%s","model":"m","tools":[]}\n' "$session"
name() {
  printf '{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"%s",' "$1"
  printf '"name":"Edit","input":{"file_path":"%s"}}]}}\n' "$1"
  printf '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"%s",' "$1"
  printf '"content":"ok"}]},"tool_use_result":{"filePath":"%s"}}\n' "$1"
}
eval "$prompt"
printf '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"%s"}\n' "$session"
"""


@pytest.fixture
def shop(beam: Cli) -> Cli:
    """A git repository with an agent whose CLI does what its prompt says in the words of a shell; `name FILE` names
    the file as its own."""
    make_repository(beam.project, beam.base / "home")
    script = beam.base / "claude"
    script.write_text(CLAUDE)
    script.chmod(0o755)
    beam.config(f"agents: {{claude: {{executable: {script}, access: edit}}}}\n")
    return beam


@pytest.fixture
def plain(shop: Cli) -> Cli:
    """The same in a folder outside of git."""
    shutil.rmtree(shop.project / ".git")
    return shop


def send(shop: Cli, text: str, *options: str, agent: str = "claude") -> str:
    done = shop("send", agent, text, "--json", *options)
    assert (done.code, done.json["status"]) == (0, "completed"), done
    found: str = done.json["message_id"]
    return found


def lines(done: Ended) -> dict[str, tuple[str, str]]:
    """What is done with each file, and why, by its path."""
    told = [(*line.split("\t"), "")[:3] for line in done.out.splitlines()]
    return {path: (action, why) for action, path, why in told}


def git(shop: Cli, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": shop.env["HOME"], "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "protocol.file.allow=always", *words]
    return subprocess.run(command, cwd=shop.project, env=env, check=True, capture_output=True, text=True).stdout


# -- what is taken back ------------------------------------------------------------------------------------------------


def test_the_first_turn_is_taken_back_and_the_undo_too_and_what_others_did_stays(shop: Cli) -> None:
    (shop.project / "mine").write_text("before\n")
    send(shop, "echo 2 >README.md; mkdir d; echo new >d/new; echo by hand >mine; name README.md; name $PWD/d/new")
    after = content(shop.project)
    named = {"d/new": ("remove", ""), "README.md": ("restore", "")}
    left = {"mine": ("leave", "claude did not name it as changed")}
    would = shop("undo", "--dry-run")
    assert (would.code, lines(would)) == (0, named | left) and content(shop.project) == after
    done = shop("undo", "claude")
    assert (done.code, lines(done)) == (0, named | left)
    assert "2 files are as they were before turn 1 of claude, 1 is left" in done.err
    assert "ignored files and commits are never touched" in done.err and "beam undo claude --redo" in done.err
    assert (shop.project / "README.md").read_text() == "A project.\n" and not (shop.project / "d").exists()
    assert (shop.project / "mine").read_text() == "by hand\n"
    assert "turn 1 is undone by human: README.md, d/new" in shop("log", "claude").out
    again = shop("undo", "claude", "--all-files")
    assert (again.code, lines(again)) == (0, {"mine": ("restore", "")})
    assert (shop.project / "mine").read_text() == "before\n"
    redone = shop("undo", "claude", "--redo", "--json").json
    assert [(file["path"], file["action"]) for file in redone["files"]] == [("mine", "restore")] and redone["redo"]
    assert lines(shop("undo", "--redo")) == dict.fromkeys(named, ("restore", "")) and content(shop.project) == after
    assert shop("undo", "--redo").code == 4


CHANGES = {
    "a change": "echo 2 >README.md",
    "a new file in new folders": "mkdir -p a/b && echo x >a/b/c",
    "a removed file": "rm README.md gone",
    "the last file of a folder": "rm -r only",
    "an executable file": "chmod +x README.md; chmod -x run",
    "a rename": "mv README.md moved; mv only other",
    "a binary file": "head -c 100000 /dev/urandom >binary; printf '\\0\\1' >new.bin",
    "strange names": r"""mv "$(printf 'new\nline')" there; echo x >"$(printf 'a\tb')"; rm "$(printf 'latin\351')" """,
    "a link": "rm link && ln -s elsewhere link; ln -s README.md new-link",
    "a file in place of a link": "rm link && echo x >link",
    "a link in place of a file": "rm README.md && ln -s /etc/passwd README.md",
    "a file in place of a folder": "rm -r only && echo x >only",
    "a folder in place of a file": "rm README.md && mkdir README.md && echo x >README.md/x",
    "a link in place of a folder": "rm -r only && ln -s /tmp only",
    "line ends": "echo unix >windows",
    "an empty file": ": >README.md; : >new; echo x >empty",
    "a commit": "echo 2 >README.md; git -c user.name=a -c user.email=a@b commit -qam x",
    "a changed ignore file": "echo new >>.gitignore; echo x >README.md",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_all_files_are_as_before_the_turn_and_after_a_redo_as_after_it(shop: Cli, change: str) -> None:
    for name in ("gone", "run", "binary", "only/one", os.fsdecode(b"latin\xe9"), "new\nline", "empty", "windows"):
        path = shop.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"" if name == "empty" else b"one\r\n\0")
    (shop.project / "windows").write_bytes(b"one\r\ntwo\r\n")
    (shop.project / "run").chmod(0o755)
    (shop.project / "link").symlink_to("README.md")
    (shop.project / ".gitignore").write_text("*.log\n")
    (shop.project / ".gitattributes").write_text("* text=auto\n")
    git(shop, "add", "--all")
    before = content(shop.project)
    send(shop, change)
    after = content(shop.project)
    assert before != after
    done = shop("undo", "--all-files")
    assert done.code == 0 and content(shop.project) == before, done
    done = shop("undo", "--redo")
    assert done.code == 0 and content(shop.project) == after, done


def test_outside_of_git_it_is_the_same(plain: Cli) -> None:
    (plain.project / ".gitignore").write_text("*.key\n")
    (plain.project / "a.key").write_text("secret\n")
    before = content(plain.project)
    text = "rm .gitignore; echo 2 >README.md; mkdir d; echo x >d/new; chmod +x beam.yaml; echo x >a.key; name README.md"
    send(plain, text)
    after = content(plain.project)
    assert "README.md" in plain("diff", "claude", "--stat").out
    assert lines(plain("undo"))["README.md"] == ("restore", "")
    done = plain("undo", "--all-files")
    assert done.code == 0 and lines(done)["a.key"] == ("leave", "git ignores it"), done
    assert content(plain.project) == before | {"a.key": after["a.key"]}
    assert plain("undo", "--redo").code == 0 and plain("undo", "--redo").code == 0 and content(plain.project) == after
    git(plain, "init", "-q")
    assert plain("undo", "--all-files").code == 0
    assert content(plain.project) == before | {"a.key": after["a.key"]}


def test_where_no_snapshot_can_be_made_that_is_told(plain: Cli) -> None:
    for name in ("a", "b"):
        with (plain.project / name).open("wb") as file:
            file.truncate(101 << 20)
    send(plain, "echo 2 >README.md; name README.md")
    for word in ("undo", "diff"):
        done = plain(word, "claude")
        assert done.code == 4 and "in no git work tree, and holds more than 200 MiB (git init)" in done.err, done


def test_the_turn_of_a_message_and_of_a_temporary_session_are_taken_back(shop: Cli) -> None:
    first = send(shop, "echo 1 >one; name one")
    send(shop, "echo 1 >two; name two", "--once")
    third = send(shop, "true")
    for words in (("diff", "claude", "--json"), ("undo", "claude", "--json", "--dry-run")):
        assert shop(*words).json["turn"] == 2  # the agent's own second turn is its last one
    done = shop("undo")
    assert (done.code, done.out) == (0, "") and "turn 2 of claude changed no file" in done.err
    assert f"the last turn that changed files: beam undo {first}" in done.err
    assert shop("undo", third, "--redo").code == 4
    assert lines(shop("undo", first)) == {"one": ("remove", "")}
    assert lines(shop("undo", "--redo")) == {"one": ("restore", "")}
    again = send(shop, "echo 2 >two; name two", "--once")
    assert shop("diff", "claude", "--stat").out == "+1 -1\ttwo\n"
    for words in (("undo",), ("undo", "claude"), ("undo", again)):
        assert lines(shop(*words, "--dry-run")) == {"two": ("restore", "")}
    assert shop("undo").code == 0 and (shop.project / "two").read_text() == "1\n"
    assert lines(shop("undo", "claude", "--redo")) == {"two": ("restore", "")}


# -- what is left ------------------------------------------------------------------------------------------------------


def test_a_file_that_changed_since_is_refused_and_can_be_forced(shop: Cli) -> None:
    send(shop, "echo 2 >README.md; echo x >new; chmod +x tool; name README.md; name new; name tool")
    (shop.project / "README.md").write_text("by a person\n")
    (shop.project / "new").unlink()
    done = shop("undo")
    assert (done.code, lines(done)) == (1, {"README.md": ("leave", "it changed since")})
    assert "--all-files takes back those that were left, too, with what was written since" in done.err
    assert (shop.project / "README.md").read_text() == "by a person\n"
    assert shop("undo", "--all-files").code == 0 and (shop.project / "README.md").read_text() == "A project.\n"
    assert shop("undo", "--redo").code == 0 and (shop.project / "README.md").read_text() == "by a person\n"


def test_what_another_turn_was_at_in_that_time_is_left(shop: Cli) -> None:
    os.mkfifo(shop.base / "go")
    slow = shop.start(
        "send", "claude@slow", f"echo slow >both; echo slow >own; name both; name own; cat {shop.base}/go"
    )
    eventually(lambda: (shop.project / "own").exists())
    send(shop, "echo quick >>both; name both", agent="claude@quick")
    for agent in ("claude@slow", "claude@quick"):
        for words in ((), ("--dry-run",)):
            done = shop("undo", agent, *words)
            assert done.code == 12 and "claude@slow is in a turn" in done.err, done
    (shop.base / "go").write_text("")
    assert slow.wait() == 0
    assert lines(shop("undo", "claude@slow")) == {
        "both": ("leave", "a turn of claude@quick was at it, too"), "own": ("remove", ""),
    }  # fmt: skip
    assert lines(shop("undo", "claude@quick")) == {"both": ("leave", "a turn of claude@slow was at it, too")}
    assert lines(shop("undo", "claude@quick", "--all-files")) == {"both": ("restore", "")}
    assert (shop.project / "both").read_text() == "slow\n"


@pytest.mark.parametrize("named", ["from", "to"])
def test_a_file_that_was_moved_is_named_by_either_of_its_names(shop: Cli, named: str) -> None:
    (shop.project / "from").write_text("one\ntwo\nthree\n")
    (shop.project / "beside").write_text("something else\n")
    send(shop, f"mv from to; echo four >>to; rm beside; echo by hand >new; name {named}")
    unnamed = ("leave", "claude did not name it as changed")
    assert lines(shop("undo")) == {
        "from": ("restore", ""), "to": ("remove", ""), "beside": unnamed, "new": unnamed,
    }  # fmt: skip
    assert (shop.project / "from").read_text() == "one\ntwo\nthree\n" and not (shop.project / "to").exists()


def test_of_an_agent_that_never_names_a_file_all_are_left_and_what_to_type_is_told(shop: Cli) -> None:
    script = shop.base / "cn"
    script.write_text("#!/bin/bash\necho x >made; rm README.md; echo done\n")
    script.chmod(0o755)
    shop.config(f"agents: {{writer: {{adapter: cn, executable: {script}, access: full}}}}\n")
    message = send(shop, "go", agent="writer")
    left = ("leave", "writer does not say which files it changed")
    for target in ("writer", message):
        done = shop("undo", target)
        assert (done.code, lines(done)) == (0, {"README.md": left, "made": left})
        assert f"beam: writer does not say which files it changed: beam undo {target} --all-files takes" in done.err
    (file, _) = shop("undo", "writer", "--json").json["files"]
    assert (file["action"], file["left"]) == ("leave", "not_told")
    assert lines(shop("undo", "writer", "--all-files")) == {"README.md": ("restore", ""), "made": ("remove", "")}


def test_what_git_ignores_is_never_touched_and_that_is_told(shop: Cli) -> None:
    (shop.project / ".gitignore").write_text("*.key\n/build/\n")
    (shop.base / "home/.config/git").mkdir(parents=True)
    (shop.base / "home/.config/git/ignore").write_text("*.mine\n")
    (shop.project / ".git/info/exclude").write_text("*.here\n")
    for name in ("a.key", "b.mine", "c.here"):
        (shop.project / name).write_text("of a person\n")
    text = "rm .gitignore; for f in a.key b.mine c.here; do echo x >$f; name $f; done; mkdir build; echo x >build/log"
    send(shop, f"{text}; name build/log; echo '*.new' >.git/info/exclude; name .gitignore; name ../elsewhere")
    for words in (("--dry-run",), ("--all-files",), ("--all-files",)):
        done = shop("undo", *words)
        left = dict.fromkeys(("a.key", "b.mine", "build/log"), ("leave", "git ignores it"))
        left |= {str(shop.base / "elsewhere"): ("leave", "it is outside of the folder")}
        assert left.items() <= lines(done).items(), done
    assert [(shop.project / name).read_text() for name in ("a.key", "b.mine", "build/log")] == ["x\n"] * 3
    assert (shop.project / ".gitignore").read_text() == "*.key\n/build/\n"


def test_a_file_of_a_filter_is_left(shop: Cli) -> None:
    (shop.project / ".gitattributes").write_text("*.psd filter=lfs diff=lfs merge=lfs -text\n")
    (shop.project / "a.psd").write_text("large\n")
    send(shop, "echo 2 >a.psd; echo 2 >README.md; name a.psd; name README.md")
    done = shop("undo", "--all-files")
    assert done.code == 1 and lines(done)["a.psd"] == ("leave", "git converts it by a filter: git checkout")
    assert (shop.project / "a.psd").read_text() == "2\n" and lines(done)["README.md"] == ("restore", "")


def test_nested_repositories_are_left_and_that_is_told(shop: Cli) -> None:
    git(shop, "init", "-q", "sub")
    (shop.project / "sub/file").write_text("1\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    git(shop, "-C", "sub", *who, "commit", "-q", "--allow-empty", "-m", "x")
    git(shop, "submodule", "--quiet", "add", "./sub", "module")
    commit = f"git -C module {' '.join(who)} commit -q --allow-empty -m y"
    send(shop, f"echo 2 >sub/file; {commit}; git init -q made; echo x >made/x; name sub/file; name made/x; echo 2 >a")
    done = shop("undo", "--all-files")
    own = ("leave", "it is in a repository of its own")
    wanted = {"a": ("remove", ""), "module": own, "sub/file": own, "made/x": own}
    assert wanted.items() <= lines(done).items() and {*lines(done)} - {*wanted} <= {"sub"}, done
    assert (shop.project / "sub/file").read_text() == "2\n" and (shop.project / "made/x").exists()


def test_without_a_record_of_how_a_killed_turn_left_them_files_are_left(shop: Cli) -> None:
    ended = shop("send", "claude", "echo 2 >README.md; name README.md", env={"BEAM_CRASH_AT": "agent.exited"})
    assert ended.code == KILLED
    done = shop("undo")
    assert (done.code, lines(done)["README.md"][0]) == (1, "leave"), done
    assert shop("undo", "--all-files").code == 0 and (shop.project / "README.md").read_text() == "A project.\n"


# -- who may -----------------------------------------------------------------------------------------------------------


def test_on_a_terminal_it_asks_first(shop: Cli) -> None:
    send(shop, "echo 2 >README.md; name README.md")
    for answer, code, text in (("\r", 2, "2\n"), ("n\r", 2, "2\n"), ("y\r", 0, "A project.\n")):
        terminal = Terminal(shop, "undo", env={"CI": ""})
        assert "1 file would be as it was before turn 1 of claude. Go on?" in terminal.until("Go on? [y/N] ")
        terminal.type(answer)
        assert terminal.end() == code and (shop.project / "README.md").read_text() == text
        assert terminal.seen.count("README.md") == 1
    terminal = Terminal(shop, "undo", env={"CI": ""})
    assert terminal.end() == 0 and "Go on?" not in terminal.seen
    assert "1 file is as it was before turn 1 of claude already" in terminal.seen


def test_inside_a_turn_it_is_refused(shop: Cli) -> None:
    send(shop, "echo 2 >README.md; name README.md")
    done = shop("undo", env={"BEAM_AGENT": "claude"})
    assert done.code == 2 and "only a person takes back changes" in done.err
    assert (shop.project / "README.md").read_text() == "2\n"


@pytest.mark.parametrize("word", ["revert", "rewind", "checkout"])
def test_other_words_for_it_are_answered_with_it(shop: Cli, word: str) -> None:
    done = shop(word, "claude")
    assert done.code == 2 and "type: beam undo claude" in done.err


# -- whom nobody trusts ------------------------------------------------------------------------------------------------


def test_no_hook_filter_or_monitor_of_the_folder_is_run(shop: Cli) -> None:
    mark = shop.base / "mark"
    touch = f"touch {mark}"
    (shop.base / "config").write_text(
        f'[core]\n\tfsmonitor = "{touch}"\n\thooksPath = hooks\n[filter "x"]\n\tsmudge = "{touch}"\n'
        f'\tclean = "{touch}"\n\trequired = true\n'
    )
    (shop.base / "hook").write_text(f"#!/bin/sh\n{touch}\n")
    (shop.base / "hook").chmod(0o755)
    text = f"cat {shop.base}/config >>.git/config; echo '*.x filter=x' >.gitattributes; mkdir hooks; "
    text += f"for h in post-checkout post-index-change reference-transaction; do cp {shop.base}/hook hooks/$h; done; "
    text += "echo 2 >README.md; echo 1 >a.x; name README.md; name a.x"
    send(shop, text)
    done = shop("undo", "--all-files")
    assert done.code == 1 and (shop.project / "README.md").read_text() == "A project.\n", done
    assert not mark.exists()


def test_links_that_took_the_place_of_folders_lead_no_write_out_of_the_folder(shop: Cli) -> None:
    (shop.base / "outside").mkdir()
    (shop.base / "outside/file").write_text("2\n")
    for name in ("in", "gone"):
        (shop.project / name).mkdir()
        (shop.project / name / "file").write_text("1\n")
    send(shop, "echo 2 >in/file; rm gone/file; echo 2 >new; name in/file; name gone/file; name new")
    for name in ("in", "gone"):
        (shop.project / name).rename(shop.base / name)
        (shop.project / name).symlink_to(shop.base / "outside")
    for words in ((), ("--all-files",)):
        done = shop("undo", *words)
        assert done.code == 1, done
    assert {path.name: path.read_text() for path in (shop.base / "outside").iterdir()} == {"file": "2\n"}
    assert not (shop.project / "new").exists()


def test_a_folder_that_became_a_link_is_refused(shop: Cli) -> None:
    send(shop, "echo 2 >README.md; name README.md")
    shop.project.rename(shop.base / "moved")
    shop.project.symlink_to(shop.base / "moved")
    for words in ((), ("--all-files",)):
        assert shop("--root", str(shop.root), "undo", *words).code != 0
    assert (shop.base / "moved/README.md").read_text() == "2\n"


def test_content_that_an_agent_forged_in_the_repository_is_not_written(shop: Cli) -> None:
    name = git(shop, "rev-parse", "HEAD:README.md").strip()
    other = subprocess.run(["git", "hash-object", "-w", "--stdin"], cwd=shop.project, input=b"forged\n",
                           capture_output=True, check=True).stdout.decode().strip()  # fmt: skip
    places = [shop.project / ".git/objects" / each[:2] / each[2:] for each in (other, name)]
    send(shop, f"echo 2 >README.md; name README.md; chmod u+w {places[1]}; cat {places[0]} >{places[1]}")
    done = shop("undo")
    assert done.code == 1 and "is gone, or was changed" in done.err, done
    assert (shop.project / "README.md").read_text() == "2\n"


# -- bad luck ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["undo.before", "undo.recorded", "undo.written"])
def test_a_killed_undo_is_told_and_done_again_and_taken_back(shop: Cli, point: str) -> None:
    before = content(shop.project)
    send(shop, "echo 2 >README.md; for f in a b c; do echo $f >$f; name $f; done; name README.md")
    after = content(shop.project)
    assert shop("undo", env={"BEAM_CRASH_AT": point}).code == KILLED
    told = shop("undo", "--dry-run")
    back = 1 if point == "undo.written" else 0
    assert len(lines(told)) == 4 - back and ("1 is so already" in told.err) == bool(back), told
    assert ("turn 1 is undone" in shop("log", "claude").out) == (point != "undo.before")
    if point == "undo.written":
        assert shop("undo", "--redo").code == 0 and content(shop.project) == after
    done = shop("undo")
    assert done.code == 0 and content(shop.project) == before, done
    assert shop("undo", "--redo").code == 0


def test_a_full_disk_leaves_whole_files_and_says_how_many(shop: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (shop.project / name).write_text(name * 3000)
    before = content(shop.project)
    send(shop, "for f in a b c; do echo $f >$f; name $f; done")
    beam = Beam(cwd=shop.project, environ=shop.env)
    disk = SmallDisk(shop.project, monkeypatch)
    disk.leave(3500)
    with pytest.raises(DiskError, match="No space left") as caught:
        beam.undo("claude")
    assert "2 of 3 files are as they were; free some space" in caught.value.hint
    disk.leave(None)
    found = beam.undo("claude")
    assert (found.back, len(found.files)) == (1, 2) and content(shop.project) == before


def test_of_two_at_once_none_writes_what_the_other_did(shop: Cli) -> None:
    before = content(shop.project)
    send(shop, "for f in a b c d e f g h; do echo $f >$f; name $f; done")
    started = [shop.start("undo", "claude", "--all-files") for _ in range(3)]
    codes = [process.wait() for process in started]
    assert 0 in codes and set(codes) <= {0, 12}, codes
    assert content(shop.project) == before


def test_an_agent_that_waits_to_run_runs_after_the_undo(shop: Cli) -> None:
    send(shop, "echo 2 >README.md; name README.md")
    assert shop("queue", "pause", "claude").code == 0
    waiting = shop("send", "claude", "cat README.md >seen", "--no-wait").out.strip()
    assert shop("queue", "resume", "claude").code == 0
    assert shop("wait", waiting).code == 0
    done = shop("undo", "--all-files")
    assert lines(done) == {"seen": ("remove", "")}


def test_while_a_broker_serves_the_agent_it_works_too(shop: Cli) -> None:
    assert shop("broker", "start").code == 0
    try:
        send(shop, "echo 2 >README.md; name README.md", "--via", "exec")
        assert lines(shop("undo")) == {"README.md": ("restore", "")}
        assert lines(shop("undo", "--redo")) == {"README.md": ("restore", "")}
        send(shop, "echo 3 >README.md; name README.md", "--via", "exec")
    finally:
        shop("broker", "stop", "--grace", "0s")


def in_beams_place(shop: Cli) -> list[str]:
    return sorted(path.name for path in (shop.root / "snapshots").iterdir() if path.name.startswith("index"))


def test_nothing_of_its_own_is_left_behind(shop: Cli) -> None:
    send(shop, "rm -f .gitignore; echo '*.x' >.gitignore; name .gitignore")
    assert shop("undo").code == 0 and in_beams_place(shop) == ["index-claude"]
