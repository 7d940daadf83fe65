"""What a folder's declarations, links and changes come to, whole: each finding, its digest and what is kept of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from beam.base.errors import BeamError
from beam.model.autoloaded import Finding
from beam.trust import ledger, scan
from beam.trust.declarations import (
    AdapterFacts,
    findings_of_agent,
    findings_of_code_files,
    findings_of_scenario_agent,
    names_in_shell_command,
)
from beam.trust.scan import digest_of, relative_name, scan_files, shorten
from tests.config.test_resolve import ADAPTERS, Folder
from tests.support.trusted import trusted_folders


def opened() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def row(found: Finding) -> tuple[str, bool, bool, tuple[str, ...], str | None]:
    return found.name, found.says, found.runs, found.by, found.text


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    work = made.root.project
    (work / "src").mkdir()
    for name in ("run.sh", "src/tool.py", "data.txt", "program"):
        (work / name).write_text(f"# {name}\n")
    (work / "program").chmod(0o755)
    return made


AGENTS = {
    "command": "command: [./run.sh, src/tool.py, data.txt, program, [-r, ./run.sh]]",
    "command elsewhere": "command: [make, tool.py], cwd: src",
    "runner": "adapter: claude, runner: [./run.sh, data.txt, src/tool.py]",
    "runner by name": "adapter: claude, runner: [docker, exec, program]",
    "executable": "adapter: claude, executable: ./program",
    "executable by name": "adapter: claude, executable: program",
    "environment": "adapter: claude, env: {A: x, B: y}",
    "profile": "adapter: claude, env_profile: home",
    "script": "script: ./data.txt",
    "screen": "adapter: claude, screen: {rows: 50}",
    "envelope": "adapter: claude, envelope: 'from {from}'",
    "rules": "adapter: claude, rules: {allow: [Bash, Edit], deny: [Read]}",
    "access": "adapter: claude, access: full",
    "another place": "adapter: claude, cwd: ../../other",
    "a place inside": "adapter: claude, cwd: src/../src",
}


@pytest.mark.parametrize("name", AGENTS)
def test_each_thing_that_needs_trust_is_found_whole(folder: Folder, name: str) -> None:
    config = folder.user_config("env_profiles: {home: {}}").yaml(f"agents: {{x: {{{AGENTS[name]}}}}}").load()
    found = findings_of_agent(config, config.resolve("x"), AdapterFacts(adapters=ADAPTERS, runs_text=False))
    assert [row(each) for each in found] == _FOUND[name]
    assert len({each.digest for each in found}) == len({each.name for each in found})
    vouched = AdapterFacts(adapters=ADAPTERS, runs_text=False)
    assert findings_of_agent(config, config.resolve("x"), vouched, vouched=("beam.yaml",)) == []
    assert findings_of_scenario_agent(config, config.resolve("x"), vouched) == []


def test_what_a_folder_says_beside_its_agents_needs_trust_too(folder: Folder) -> None:
    folder.user_config("limits: {hops: 3}").yaml(
        "policy: {attempts: 3}\n"
        "limits: {hops: 4, waiting: 1, grace: 1s}\n"
        "notify:\n"
        "  - {on: [ask], command: [./run.sh, program, x]}\n"
        "  - {on: [ask], webhook: 'https://example.org/x/y', secret: {env: S}, token: {file: /t}}\n"
        "  - {on: [ask], webhook: {env: HOOK}}\n"
    )
    config = folder.load()
    found = findings_of_agent(config, config.resolve("claude"), AdapterFacts(adapters=ADAPTERS, runs_text=True))
    assert [row(each) for each in found] == [
        ("beam.yaml sets the policy attempts: 3", True, False, (), None),
        ("beam.yaml raises the limit hops from 3 to 4", True, False, (), None),
        ("beam.yaml has beam run './run.sh program x' to notify", True, False, (), None),
        ("run.sh", False, True, ("beam.yaml",), "# run.sh\n"),
        ("program", False, True, ("beam.yaml",), "# program\n"),
        ("beam.yaml posts what agents do to https://example.org/…, with $S, with /t", True, False, (), None),
        ("beam.yaml posts what agents do to webhook of $HOOK, with $HOOK", True, False, (), None),
    ]


def test_targets_of_notifications_that_read_the_same_are_one_thing_to_trust(folder: Folder) -> None:
    both = ["{on: [ask], webhook: 'https://example.org/x'}", "{on: [failed], webhook: 'https://example.org/y'}"]
    digests = set()
    for written in ([both[0]], [both[1]], both, both[::-1], [*both, both[0]]):
        config = folder.yaml(f"notify: [{', '.join(written)}]\n").load()
        (found,) = findings_of_agent(config, config.resolve("claude"), AdapterFacts(adapters=ADAPTERS, runs_text=True))
        assert found.name == "beam.yaml posts what agents do to https://example.org/…"
        digests.add(found.digest)
    assert len(digests) == 5


def test_a_link_that_leads_an_agent_out_of_the_folder_needs_trust(folder: Folder, tmp_path: Path) -> None:
    (folder.root.project / "link").symlink_to(tmp_path)
    config = folder.user_config("agents: {x: {adapter: claude, cwd: link}}").load()
    found = findings_of_agent(config, config.resolve("x"), AdapterFacts(adapters=ADAPTERS, runs_text=False))
    assert [each.name for each in found] == [f"a link has x work outside this folder, in '{tmp_path}'"]


def test_a_link_that_leads_to_itself_leads_no_agent_out_of_the_folder(folder: Folder) -> None:
    (folder.root.project / "loop").symlink_to("loop")
    config = folder.yaml("agents: {x: {adapter: claude, cwd: loop}}").load()
    assert findings_of_agent(config, config.resolve("x"), AdapterFacts(adapters=ADAPTERS, runs_text=False)) == []


def test_only_files_of_the_folder_that_are_code_are_named(folder: Folder) -> None:
    words = ("run.sh", "data.txt", "none", "", "..", "program", "src", "x" * 5000, "a\0b")
    found = list(findings_of_code_files(words, folder.root.project, "who"))
    assert [row(each) for each in found] == [
        ("run.sh", False, True, ("who",), "# run.sh\n"),
        ("program", False, True, ("who",), "# program\n"),
    ]


# `notes` has no name of a program, and may not be executed; what is in it, the command runs.
RUN_BY_AN_INTERPRETER = [
    *[("sh", "notes"), ("/bin/bash", "-x", "notes"), ("bash", "--rcfile", "notes"), ("zsh", "-o", "errexit", "notes")],
    *[("python3", "notes"), ("python3.11", "-u", "-W", "ignore", "notes", "x"), ("python", "-X", "dev", "./notes")],
    *[
        ("node", "notes"),
        ("node", "--require", "./notes", "x"),
        ("node", "-r", "./notes", "x"),
        ("bun", "run", "notes"),
    ],
    *[
        ("node", "--import=./notes", "x"),
        ("deno", "run", "-A", "notes"),
        ("ruby", "-I", "lib", "notes"),
        ("perl", "notes"),
    ],
    *[("env", "A=b", "sh", "notes"), ("nice", "-n", "5", "python", "notes"), ("uv", "run", "notes"), ("tsx", "notes")],
    *[
        ("sh", "-c", "sh notes"),
        ("sh", "-c", ". ./notes"),
        ("bash", "-lc", "cat notes | python3"),
        ("sh", "-c", "bash<notes"),
    ],
    *[
        ("sh", "-c", 'eval "$(cat notes)"; sh -x'),
        ("awk", "-f", "notes", "x"),
        ("make", "-fnotes"),
        ("sed", "--file=notes"),
    ],
    *[("python", "-m", "package"), ("docker", "run", "image", "sh", "notes")],
]
READ_BY_A_PROGRAM = [
    *[
        ("cat", "notes"),
        ("python3", "run.sh2", "notes"),
        ("sh", "x", "notes"),
        ("tail", "-f", "notes"),
        ("wc", "-l", "notes"),
    ],
    *[("sh", "-c", "cat notes"), ("awk", "{print}", "notes"), ("make", "notes")],
]


@pytest.mark.parametrize(
    ("words", "is_named"),
    [
        (("sh", "-c", "cd .; ./run.sh|cat"), True),
        (("bash", "-lc", 'x="$(./run.sh)"'), True),
        (("bash", "-c", "'run.sh"), True),
        (("node", "--require=./run.sh"), True),
        (("echo", "please look at run.sh"), False),
        (("node", "x=run.sh"), False),
        *[(words, True) for words in RUN_BY_AN_INTERPRETER],
        *[(words, False) for words in READ_BY_A_PROGRAM],
    ],
)
def test_a_file_that_a_command_runs_is_named_whatever_it_is_called(
    folder: Folder, words: tuple[str, ...], is_named: bool
) -> None:
    work = folder.root.project
    (work / "notes").write_text("# notes\n")
    (work / "package").mkdir()
    (work / "package" / "__main__.py").write_text("# package\n")
    wanted = ["notes", "run.sh", "package/__main__.py"]
    names = [each.name for each in findings_of_code_files(words, work, "who")]
    assert ([name for name in names if name in wanted] != []) is is_named
    config = folder.yaml(f"agents: {{x: {{command: {json.dumps(words)}}}}}").load()
    found = findings_of_agent(config, config.resolve("x"), AdapterFacts(adapters=ADAPTERS, runs_text=False))
    assert ({each.name for each in found} & set(wanted) != set()) is is_named


def test_the_names_in_a_command_of_a_shell_are_those_between_its_operators_too() -> None:
    found = names_in_shell_command("make && ./x.sh; `y.sh` > 'a b.sh'")
    assert {"make", "./x.sh", "y.sh", "a b.sh"} < set(found)


# -- what is looked at -------------------------------------------------------------------------------------------------


def test_a_digest_is_of_the_content_and_of_the_links_that_led_there(tmp_path: Path) -> None:
    before = opened()
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").write_bytes(b"text\xff")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    found = [
        scan_files(tmp_path, name) for name in ("a/b/c", "a", "link/b/c", "link", "broken", "pipe", "none", "a/b/c/d")
    ]
    rows = [[(str(each.path.relative_to(tmp_path)), each.digest[:8], each.content) for each in them] for them in found]
    assert rows == [
        [("a/b/c", "8711955c", b"text\xff")],
        [("a/b/c", "8711955c", b"text\xff")],
        [("link/b/c", "9086bba6", b"text\xff")],
        [("link/b/c", "9086bba6", b"text\xff")],
        [("broken", "24b9f9b0", None)],
        [("pipe", "a1987002", None)],
        [],
        [],
    ]
    assert opened() == before


def test_a_short_content_is_kept_and_a_longer_one_only_counted(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    assert [scan_files(tmp_path, "x", short=size)[0].content for size in (4, 5, 6)] == [None, b"12345", b"12345"]
    assert len({scan_files(tmp_path, "x", short=size)[0].digest for size in (4, 6)}) == 1


def test_a_folder_that_is_too_large_has_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = opened()
    (tmp_path / "d").mkdir()
    for name in "abc":
        (tmp_path / "d" / name).write_bytes(b"12345")

    def sizes() -> list[str]:
        return ["whole" if each.digest else str(each.path.relative_to(tmp_path)) for each in scan_files(tmp_path, "d")]

    for bound, most in (("MAX_FILES", 4), ("MAX_BYTES", 15), ("DEEPEST", 1)):
        with monkeypatch.context() as change:
            change.setattr(scan, bound, most)
            assert sizes() == ["whole"] * 3
            change.setattr(scan, bound, most - 1)
            assert sizes() == ["d"]
    assert opened() == before


def test_what_is_shown_says_what_is_left_out() -> None:
    most = scan._SHOWN_CHARS
    assert shorten("x" * most) == "x" * most
    assert shorten("x" * (most + 2)) == "x" * most + "… and 2 more characters"
    assert (digest_of("\udcff")[:8], relative_name(Path(os.fsdecode(b"/a/\xff")), Path("/a"))) == ("a8100ae6", "\\xff")
    assert scan._links_prefix("a\0") == b"2 a\0"


def test_when_a_folder_was_made_is_reported_by_the_system_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    found = tmp_path.stat()
    born = scan.birth_ns(tmp_path, found)
    assert born is None or abs(born - time.time_ns()) < 3600 * 10**9
    assert born is None or born <= found.st_ctime_ns
    assert scan.birth_ns(tmp_path / "none", found) is None


# -- what is kept ------------------------------------------------------------------------------------------------------


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "user")}


def kept(environ: dict[str, str]) -> dict[str, object]:
    found: dict[str, object] = json.loads(ledger.store_path(environ).read_text())
    return found


ENV = Finding(name=".env", digest="aa", text="A=1\nB=2\n")


def test_what_is_trusted_is_kept_with_the_digest_of_each_line(tmp_path: Path, environ: dict[str, str]) -> None:
    before = opened()
    work = tmp_path / "work"
    work.mkdir()
    many = Finding(name="many", digest="cc", text="x\n" * (ledger._MAX_LINES + 1))
    most = Finding(name="most", digest="dd", text="x\n" * ledger._MAX_LINES)
    ledger.trust(work, [ENV, many, most, Finding(name="none", digest="bb")], environ)
    (one,) = kept(environ)["folders"]  # type: ignore[misc, attr-defined]
    status = work.stat()
    assert (one["path"], one["device"], one["inode"]) == (str(work), status.st_dev, status.st_ino)
    held = {
        name: (each["digest"], len(each.get("lines", "").split()), each.get("by")) for name, each in one["held"].items()
    }
    assert held == {
        ".env": ("aa", 2, None),
        "many": ("cc", 0, None),
        "most": ("dd", 400, None),
        "none": ("bb", 0, None),
    }
    lines = " ".join(digest_of(line)[:12] for line in ("A=1", "B=2"))
    assert one["held"][".env"]["lines"] == lines
    ledger.renew_finding(work, Finding(name=".env", digest="ee"), "ask-1", environ)
    ledger.renew_finding(tmp_path, Finding(name=".env", digest="ff"), "ask-2", environ)
    (one,) = kept(environ)["folders"]  # type: ignore[misc, attr-defined]
    assert (one["held"][".env"]["digest"], one["held"][".env"]["by"]) == ("ee", "ask-1")
    assert oct(ledger.store_path(environ).stat().st_mode & 0o777) == "0o600"
    assert ledger.store_path(environ).read_bytes().startswith(b'{\n  "v": 1,\n')
    assert opened() == before


def test_mistakes_about_trust_are_named(tmp_path: Path, environ: dict[str, str]) -> None:
    def refused(call: object) -> tuple[str, str, str | None]:
        with pytest.raises(BeamError) as caught:
            call()  # type: ignore[operator]
        error = caught.value
        return tuple(
            text.replace(str(tmp_path), "B")[:100] for text in (error.message, error.hint, error.subject or "")
        )  # type: ignore[return-value]

    path = ledger.store_path(environ)
    said = [refused(lambda: ledger.trust(tmp_path / "none", [], environ))]
    path.parent.mkdir(parents=True)
    path.write_text("{half")
    path.chmod(0o600)
    said.append(refused(lambda: trusted_folders(environ)))
    path.write_text("{}")
    path.chmod(0o620)
    said.append(refused(lambda: trusted_folders(environ)))
    path.unlink()
    path.mkdir()
    said.append(refused(lambda: trusted_folders(environ)))
    assert said == [
        ("there is no folder B/none", "trust a folder that exists", "B/none"),
        (
            "B/user/.local/state/beam/trust.json is not what beam wrote: JSON is malformed: object keys must be s",
            "remove it and trust your folders anew: beam trust",
            "B/user/.local/state/beam/trust.json",
        ),
        (
            "B/user/.local/state/beam/trust.json can be written by other users",
            "look into it; chmod 600 B/user/.local/state/beam/trust.json if it is yours, else remove it and trust",
            "B/user/.local/state/beam/trust.json",
        ),
        ("can't read B/user/.local/state/beam/trust.json: Is a directory", "", "B/user/.local/state/beam/trust.json"),
    ]


def test_a_file_that_beam_wrote_is_known_by_its_content(tmp_path: Path, environ: dict[str, str]) -> None:
    path = tmp_path / "agent.json"
    for digest in ("aa", "bb"):
        ledger.remember_file(path, digest, environ)
        assert ledger.is_remembered(path, digest, environ)
    assert not ledger.is_remembered(path, "aa", environ)
    ledger.remember_file(tmp_path / os.fsdecode(b"\xff"), "cc", environ)
    assert sorted(kept(environ)["files"]) == sorted([str(path), f"{tmp_path}/\\xff"])  # type: ignore[call-overload]


def test_lines_that_are_new_are_reported_where_lines_were_kept() -> None:
    before = ledger._trusted_finding(ENV)
    change = ledger.Change(found=Finding(name=".env", digest="b", text="B=2\nC=3\nC=3\n"), before=before)
    assert ledger.new_lines(change) == (["C=3", "C=3"], 1)
    assert ledger.new_lines(ledger.Change(found=ENV, before=None)) == (["A=1", "B=2"], 0)
    unknown = ledger._trusted_finding(Finding(name=".env", digest="a"))
    assert ledger.new_lines(ledger.Change(found=ENV, before=unknown)) == ([], 0)
    assert ledger.new_lines(ledger.Change(found=Finding(name=".env", digest="a"), before=before)) == ([], 0)


_FOUND = {
    "command": [
        ("beam.yaml has x run './run.sh src/tool.py data.txt program -r ./run.sh'", True, False, (), None),
        ("run.sh", False, True, ("x",), "# run.sh\n"),
        ("src/tool.py", False, True, ("x",), "# src/tool.py\n"),
        ("program", False, True, ("x",), "# program\n"),
        ("run.sh", False, True, ("x",), "# run.sh\n"),
    ],
    "command elsewhere": [
        ("beam.yaml has x run 'make tool.py'", True, False, (), None),
        ("src/tool.py", False, True, ("x",), "# src/tool.py\n"),
    ],
    "runner": [
        ("beam.yaml has x run by './run.sh data.txt src/tool.py'", True, False, (), None),
        ("run.sh", False, True, ("x",), "# run.sh\n"),
        ("src/tool.py", False, True, ("x",), "# src/tool.py\n"),
    ],
    "runner by name": [
        ("beam.yaml has x run by 'docker exec program'", True, False, (), None),
        ("program", False, True, ("x",), "# program\n"),
    ],
    "executable": [
        ("beam.yaml has x run './program'", True, False, (), None),
        ("program", False, True, ("x",), "# program\n"),
    ],
    "executable by name": [("beam.yaml has x run 'program'", True, False, (), None)],
    "environment": [
        ("beam.yaml sets A in the environment of x", True, False, (), None),
        ("beam.yaml sets B in the environment of x", True, False, (), None),
    ],
    "profile": [("beam.yaml gives x the environment profile home", True, False, (), None)],
    "script": [
        ("beam.yaml has x play './data.txt'", True, False, (), None),
        ("data.txt", False, True, ("x",), "# data.txt\n"),
    ],
    "screen": [("beam.yaml says which keys beam types into x", True, False, (), None)],
    "envelope": [("beam.yaml changes how x is told who speaks", True, False, (), None)],
    "rules": [("beam.yaml allows x Bash", True, False, (), None), ("beam.yaml allows x Edit", True, False, (), None)],
    "access": [("beam.yaml gives x full access", True, False, (), None)],
    "another place": [("beam.yaml has x work outside this folder, in '../../other'", True, False, (), None)],
    "a place inside": [],
}
