"""The command for Claude Code's hooks, and its place in the settings."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.base.errors import ConfigError
from beam.secrets.kinds import SECRET_FORMS
from beam.secrets.redact import redact_json
from beam.teams import hook, hooks_install
from beam.teams.spool import Spool, sweep
from tests.support.secrets import SECRETS

CALL = b'{"hook_event_name":"TeammateIdle","session_id":"s","transcript_path":"/h/projects/p/s.jsonl"}\n'
TODAY_NS = 1_795_300_000_000_000_000


def test_a_call_is_one_line_that_the_spool_gives_to_its_home_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.begin(None)
    hook.write(CALL, bytes(tmp_path), TODAY_NS)
    assert list(spool.calls("/other")) == []
    (call,) = spool.calls("/h")
    assert (call.event, call.at_ns) == ("TeammateIdle", TODAY_NS)
    assert list(spool.calls("/h")) == []


def test_a_call_over_several_lines_is_one_line_and_nonsense_is_none(tmp_path: Path) -> None:
    for payload in (b'{\n"hook_event_name":\r\n"Stop"}', b"nonsense", b"", b"[1]"):
        hook.write(payload, bytes(tmp_path), TODAY_NS)
    (file,) = tmp_path.iterdir()
    assert [json.loads(line)["payload"] for line in file.read_text().splitlines()] == [{"hook_event_name": "Stop"}]
    assert file.stat().st_mode & 0o777 == 0o600


def test_files_of_more_than_a_day_ago_go_with_the_next_call_and_when_somebody_watches(tmp_path: Path) -> None:
    old, kept = ("2026-11-01.jsonl", "2026-11-15.jsonl", "2026-11-20T10.jsonl"), ("2026-11-21T09.jsonl", "other.txt")
    for name in (*old, *kept):
        (tmp_path / name).touch()
    now = hook.file_name(TODAY_NS).decode()
    hook.write(CALL, bytes(tmp_path), TODAY_NS)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, now])
    sweep(tmp_path, TODAY_NS + 2 * 86_400_000_000_000)
    assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]
    sweep(tmp_path / "none", TODAY_NS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SECRETS)
def test_a_call_is_written_down_without_the_secret_in_it(tmp_path: Path, kind: str) -> None:
    text, _, secret = SECRETS[kind]
    call = {"hook_event_name": "PostToolUse", "tool_response": {"stdout": f"it says: {text}\nand on"}}
    for payload in (
        json.dumps(call, ensure_ascii=False),
        json.dumps(call).replace("k", "\\u006b").replace("s", "\\u0073"),
    ):
        hook.write(payload.encode(), bytes(tmp_path), TODAY_NS)
    (file,) = tmp_path.iterdir()
    written = [json.loads(line)["payload"] for line in file.read_text().splitlines()]
    assert json.dumps(secret)[1:-1] not in file.read_text()
    assert len(written) == 2 and all(line["hook_event_name"] == "PostToolUse" for line in written)
    assert "[redacted:" in written[0]["tool_response"]["stdout"]


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(
            st.sampled_from([text for text, _, _ in SECRETS.values()]),
            st.sampled_from(["\x1b[1m", "\x9b1m", "\u2502", "\n", "sk-", "://", "@", "bearer ", "\\e[1m", "\\u001b[m"]),
            st.text(max_size=6),
        ),
        max_size=5,
    ).map("".join)
)
def test_no_call_is_taken_for_harmless_in_which_a_secret_may_be(text: str) -> None:
    for ascii_only in (True, False):
        payload = json.dumps({"x": text}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        if redact_json(payload.decode("utf-8", "replace"))[1]:
            assert hook.may_hold_secret(payload)


def test_every_prefix_of_a_secret_is_a_sign() -> None:
    special = {b"sk-", b"sk-ant-", b"sk-or-", b"sk-proj-", b"sk-svcacct-", b"sk-admin-", b"://", b"bearer"}
    assert {row.prefix.encode() for row in SECRET_FORMS if not row.any_case} - special <= set(hook.SIGNS)
    assert {row.prefix.encode() for row in SECRET_FORMS if row.any_case} - special <= set(hook.SIGNS_ANY_CASE)


@pytest.mark.acceptance
def test_the_installed_command_blanks_a_key_and_writes_nothing_where_it_can_not(tmp_path: Path) -> None:
    key = SECRETS["anthropic-key 0"][2]
    call = json.dumps(
        {"hook_event_name": "PostToolUse", "tool_response": {"stdout": f"\x1b[32m{key[:20]}\x1b[0m{key[20:]}"}}
    )
    run = ["sh", "-c", hooks_install.command()]
    done = subprocess.run(run, input=call.encode(), env={"HOME": str(tmp_path)}, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (file,) = (tmp_path / ".local/state/beam/hooks").iterdir()
    (line,) = file.read_text().splitlines()
    assert (
        "[redacted:anthropic-key]" in line and key[20:40] not in line and json.loads(line)["payload"]["tool_response"]
    )
    alone = tmp_path / "hook.py"  # without what knows the looks of secrets
    alone.write_bytes(Path(hook.__file__).read_bytes())
    code = f"import runpy, site; site.main = lambda: None; runpy.run_path({str(alone)!r}, run_name='__main__')"
    lost = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        input=call.encode(),
        env={"HOME": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (lost.returncode, lost.stdout, lost.stderr) == (0, b"", b"")
    assert file.read_text().splitlines() == [line]


@pytest.mark.acceptance
@pytest.mark.parametrize("state", ["ok", "readonly"])
def test_the_installed_command_exits_0_and_says_nothing_whatever_happens(tmp_path: Path, state: str) -> None:
    if state == "readonly":
        (tmp_path / ".local").write_text("in the way")
    done = subprocess.run(
        ["sh", "-c", hooks_install.command()], input=CALL, env={"HOME": str(tmp_path)}, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / ".local/state/beam/hooks").is_dir() == (state == "ok")


@pytest.mark.slow
def test_where_the_state_lies_elsewhere_the_installed_command_says_so(tmp_path: Path) -> None:
    state = tmp_path / "else where"
    argv = ["sh", "-c", hooks_install.command(str(state))]
    done = subprocess.run(argv, input=CALL, env={"HOME": str(tmp_path)}, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [path.suffix for path in (state / "hooks").iterdir()] == [".jsonl"]
    assert not (tmp_path / ".local").exists()


@pytest.mark.slow
def test_the_fast_path_imports_nothing_that_is_slow() -> None:
    code = "before = set(sys.modules); import hook; print(*sorted(set(sys.modules) - before))"
    path = str(Path(hook.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {path!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"json", "pathlib", "typer", "msgspec", "asyncio"} & set(done.stdout.split())


def test_installing_and_removing_gives_back_the_settings_that_were_there(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    mine = {"hooks": [{"type": "command", "command": "mine"}]}
    before = {"model": "opus", "hooks": {"Stop": [mine]}, "permissions": {"allow": ["Bash(ls)"]}}
    path.write_text(json.dumps(before, indent=2) + "\n")
    path.chmod(0o640)
    text = path.read_text()
    assert hooks_install.install(path).changed == hooks_install.EVENTS
    installed = json.loads(path.read_text())
    assert installed["hooks"]["Stop"][0] == mine and list(installed) == list(before)
    assert hooks_install.install(path).changed == ()
    assert set(hooks_install.uninstall(path).changed) == set(hooks_install.EVENTS)
    assert path.read_text() == text and path.stat().st_mode & 0o777 == 0o640


def test_settings_that_were_not_there_are_made_and_left_empty(tmp_path: Path) -> None:
    path = tmp_path / "p" / ".claude" / "settings.json"
    hooks_install.install(path)
    hooks_install.uninstall(path)
    assert json.loads(path.read_text()) == {}


BYTES = {
    "inline": b'{"model":"opus","permissions": {"allow": ["Bash(ls)", "Read"]},\r\n\t"n": 1e5, "u": "\\u00e9"}',
    "tabs": b'{\n\t"hooks": {"Stop": [ {"hooks": []} ]}\n}',
    "empty": b"",
    "none": None,
}


@pytest.mark.parametrize("before", BYTES.values(), ids=BYTES)
def test_settings_that_nobody_changed_meanwhile_come_back_byte_for_byte(tmp_path: Path, before: bytes | None) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    path, kept = tmp_path / "link" / "claude" / "settings.json", tmp_path / "kept"
    if before is not None:
        path.parent.mkdir()
        path.write_bytes(before)
    for _ in range(2):
        assert hooks_install.install(path, kept=kept).action == "installed"
    assert set(hooks_install.uninstall(path, kept=kept).changed) == set(hooks_install.EVENTS)
    assert (path.read_bytes() if path.parent.exists() else None) == before
    assert list(kept.iterdir()) == [] and hooks_install.uninstall(path, kept=kept).changed == ()


def test_of_settings_that_somebody_changed_only_the_command_goes(tmp_path: Path) -> None:
    path, kept = tmp_path / "settings.json", tmp_path / "kept"
    path.write_text('{\n    "model": "opus"\n}\n')
    hooks_install.install(path, kept=kept)
    settings = json.loads(path.read_text())
    mine = {"type": "command", "command": "mine"}
    settings["hooks"]["Stop"][0]["hooks"].append(mine)
    path.write_text(json.dumps({**settings, "theme": "dark"}, indent=4))
    hooks_install.install(path, kept=kept)
    hooks_install.uninstall(path, kept=kept)
    left = {"model": "opus", "hooks": {"Stop": [{"hooks": [mine]}]}, "theme": "dark"}
    assert path.read_text() == json.dumps(left, indent=4) + "\n"


def test_an_older_command_is_replaced_and_what_was_before_it_still_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kept = tmp_path / "settings.json", tmp_path / "kept"
    path.write_text('{"model":"opus"}')
    with monkeypatch.context() as older:
        older.setattr(hooks_install, "TIMEOUT_S", 1)
        hooks_install.install(path, kept=kept)
    assert hooks_install.install(path, kept=kept).changed == hooks_install.EVENTS
    assert path.read_text().count(hooks_install.MARK) == len(hooks_install.EVENTS)
    hooks_install.uninstall(path, kept=kept)
    assert path.read_text() == '{"model":"opus"}'


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}'])
def test_settings_that_are_not_understood_are_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    for change in (hooks_install.install, hooks_install.uninstall):
        with pytest.raises(ConfigError):
            change(path)
    assert path.read_text() == text and [one.name for one in tmp_path.iterdir()] == ["settings.json"]


def test_hooks_of_which_nothing_is_kept_are_taken_out_too(tmp_path: Path) -> None:
    path, kept = tmp_path / "settings.json", tmp_path / "never" / "made"
    hooks_install.install(path)
    assert hooks_install.uninstall(path, kept=kept).changed != ()
    assert hooks_install.uninstall(path, kept=kept).changed == ()
    assert "hooks" not in json.loads(path.read_text() or "{}")


def test_an_older_command_beside_todays_is_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    hooks_install.install(path)
    settings = json.loads(path.read_text())
    old = {"hooks": [{"type": "command", "command": f"/old/python hook.py {hooks_install.MARK}"}]}
    settings["hooks"]["Stop"] = [old, *settings["hooks"]["Stop"]]
    path.write_text(json.dumps(settings))
    assert hooks_install.install(path).changed == ("Stop",)
    assert hooks_install.install(path).changed == ()
    assert len(json.loads(path.read_text())["hooks"]["Stop"]) == 1


@pytest.mark.parametrize(
    ("environ", "spool"),
    [
        ({b"BEAM_STATE": b"/s", b"XDG_STATE_HOME": b"/x", b"HOME": b"/h"}, b"/s/hooks"),
        ({b"BEAM_STATE": b"s", b"XDG_STATE_HOME": b"/x", b"HOME": b"/h"}, b"/x/beam/hooks"),
        ({b"XDG_STATE_HOME": b"x", b"HOME": b"/h"}, b"/h/.local/state/beam/hooks"),
        ({b"HOME": b"/h"}, b"/h/.local/state/beam/hooks"),
        ({}, pwd.getpwuid(os.getuid()).pw_dir.encode() + b"/.local/state/beam/hooks"),
    ],
)
def test_the_spool_lies_in_beams_state(environ: dict[bytes, bytes], spool: bytes) -> None:
    assert hook.directory(environ) == spool


@pytest.mark.slow
def test_a_call_is_read_to_its_end_and_one_that_is_too_large_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "LARGEST", 100_000)
    path = tmp_path / "call"
    for size, kept in ((0, 0), (99_999, 99_999), (100_000, 100_000), (100_001, 0), (300_000, 0)):
        data = bytes(number % 251 for number in range(size))
        path.write_bytes(data)
        with path.open("rb") as file:
            assert hook.read(file.fileno()) == data[:kept]


def test_the_command_reads_stdin_and_writes_where_only_this_user_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "read", lambda fd: CALL if fd == 0 else b"")
    before = os.umask(0)
    try:
        assert hook.main({b"BEAM_STATE": bytes(tmp_path / "a" / "b")}) == 0
        assert os.umask(before) == 0o077
        (tmp_path / "file").touch()
        assert hook.main({b"BEAM_STATE": bytes(tmp_path / "file")}) == 0
    finally:
        os.umask(before)
    (written,) = (tmp_path / "a/b/hooks").iterdir()
    assert json.loads(written.read_text())["payload"] == json.loads(CALL)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a/b", written.parent)] == [0o700] * 3


def test_calls_of_one_hour_stand_in_one_file_line_by_line(tmp_path: Path) -> None:
    spool = bytes(tmp_path / "new" / "hooks")
    for number in range(2):
        hook.write(b' {"n": 1}\n', spool, TODAY_NS + number)
    hook.write(b'{"n": 2}', spool, TODAY_NS + 3600 * 1_000_000_000)
    files = {path.name: path.read_bytes() for path in (tmp_path / "new/hooks").iterdir()}
    assert files == {
        "2026-11-21T22.jsonl": b'{"at_ns":1795300000000000000,"payload":{"n": 1}}\n'
        b'{"at_ns":1795300000000000001,"payload":{"n": 1}}\n',
        "2026-11-21T23.jsonl": b'{"at_ns":1795303600000000000,"payload":{"n": 2}}\n',
    }


@pytest.mark.parametrize("sign", [*hook.SIGNS, *hook.SIGNS_ANY_CASE])
def test_a_sign_of_a_secret_is_seen_in_a_call(sign: bytes) -> None:
    assert hook.may_hold_secret(b'{"x": "' + sign + b'"}')
    assert hook.may_hold_secret(sign.upper()) == (sign in hook.SIGNS_ANY_CASE or sign.upper() == sign)


@pytest.mark.parametrize(
    ("payload", "may"),
    [
        (b"", False),
        (b"https://example.org/", False),
        (b"me@example.org", False),
        (b"https://me:pw@example.org", True),
        (b"sk-" + b"a" * 16, True),
        (b"sk-" + b"a" * 16 + b" ", True),
        (b"sk-" + b"a" * 15 + b" ", False),
        (b"sk-.............", False),
        (b"sk-." + b"a" * 20, False),
        (b" sk-a b, and sk-" + b"Z9_-" * 4, True),
        (b" sk-a b, and sk-c d", False),
    ],
)
def test_a_call_may_hold_a_secret_or_surely_does_not(payload: bytes, may: bool) -> None:
    assert hook.may_hold_secret(payload) == may


def test_a_call_from_which_a_secret_can_not_be_taken_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = SECRETS["anthropic-key 0"][2]
    call = json.dumps({"x": f"it is {key}", "y": "\udce4"}, ensure_ascii=False).encode("utf-8", "surrogateescape")
    assert json.loads(hook.redacted(call)) == {"x": "it is [redacted:anthropic-key]", "y": "\ufffd"}
    monkeypatch.setattr(hook, "_redactor", lambda: 1 / 0)
    assert hook.redacted(call) == b""
    hook.write(call, bytes(tmp_path), TODAY_NS)
    assert list(tmp_path.iterdir()) == []


# -- its place in the settings -----------------------------------------------------------------------------------------


def test_the_command_stands_at_every_event_with_the_tools_that_matter(tmp_path: Path) -> None:
    path = hooks_install.settings_path("user", home=tmp_path / "home", project=tmp_path / "p")
    done = hooks_install.install(path, state="/the state")
    assert done == hooks_install.InstallResult(path=str(path), action="installed", changed=hooks_install.EVENTS)
    settings = json.loads(path.read_text())
    run = shlex.join([sys.executable, "-I", "-S", str(Path(hook.__file__).resolve())])
    command = f"BEAM_STATE='/the state' {run} # beam team hook"
    plain = {"hooks": [{"type": "command", "command": command, "timeout": 5}]}
    tools = {"matcher": "SendMessage|TaskCreate|TaskUpdate|Agent|Task|Bash|Edit|Write"}
    groups = {event: [{**tools, **plain} if event == "PostToolUse" else plain] for event in hooks_install.EVENTS}
    assert settings == {"hooks": groups}
    assert path.stat().st_mode & 0o777 == 0o600
    assert hooks_install.command() == f"{run} # beam team hook"
    assert hooks_install.install(path, state="/the state").changed == ()
    assert hooks_install.uninstall(path) == hooks_install.InstallResult(
        path=str(path), action="removed", changed=hooks_install.EVENTS
    )
    assert path.read_text() == "{}\n"


def test_each_scope_has_its_settings_file(tmp_path: Path) -> None:
    paths = [
        hooks_install.settings_path(one, home=Path("/h"), project=Path("/p")) for one in ("user", "project", "local")
    ]
    assert paths == [Path("/h/settings.json"), Path("/p/.claude/settings.json"), Path("/p/.claude/settings.local.json")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", " is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[]", " holds no settings"),
        ('{"hooks": []}', ": beam can't read its `hooks`"),
        ('{"hooks": {"Stop": {}}}', ": beam can't read its `hooks`"),
    ],
)
def test_settings_that_are_not_understood_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        hooks_install.install(path)
    hint = "repair it first; nothing was changed"
    assert str(caught.value) == f"{path}{message} ({hint})"
    assert (caught.value.hint, caught.value.subject) == (hint, str(path))


def test_settings_keep_their_indentation_their_mode_and_halves_of_pairs(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    for text, second in (
        ('{\n\t"a": "ü"\n}', '\t"a": "ü",'),
        ('{"a": "ü"}', '  "a": "ü",'),
        ('{"a": "\\ud800"}', '  "a": "\\ud800",'),
    ):
        path.write_text(text)
        path.chmod(0o640)
        hooks_install.install(path)
        assert path.read_text().splitlines()[1] == second
        assert path.stat().st_mode & 0o777 == 0o640
        assert path.read_text().endswith("}\n")


def test_a_link_to_settings_stays_one_and_a_folder_that_was_made_goes_again(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    hooks_install.install(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink() and hooks_install.MARK in (tmp_path / "real.json").read_text()
    path, kept = tmp_path / "new" / "settings.json", tmp_path / "kept"
    hooks_install.install(path, kept=kept)
    (record,) = kept.iterdir()
    assert json.loads(record.read_text()) == {
        "path": str(path),
        "before": None,
        "after": hooks_install._digest(path.read_bytes()),
        "has_folder": False,
        "v": 1,
    }
    assert record.read_bytes().endswith(b"}\n") and len(record.stem) == 32
    path.write_text("{}")
    assert hooks_install.uninstall(path, kept=kept).changed == ()
    assert list(kept.iterdir()) == []
    assert path.exists()


# -- the spool ---------------------------------------------------------------------------------------------------------


def entry(at_ns: int, home: str = "/h") -> bytes:
    payload = {"hook_event_name": "Stop", "transcript_path": f"{home}/projects/p/s.jsonl"}
    return json.dumps({"at_ns": at_ns, "payload": payload}).encode() + b"\n"


def test_a_spool_begins_at_its_end_or_with_the_calls_since_a_time(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_bytes(entry(1) + entry(2) + entry(3))
    (tmp_path / "other.txt").write_bytes(entry(9))

    def after(since_ns: int | None) -> list[int]:
        spool = Spool(tmp_path)
        spool.begin(since_ns)
        return [call.at_ns for call in spool.calls("/h")]

    assert [after(None), after(0), after(2), after(4)] == [[], [1, 2, 3], [2, 3], []]


def test_only_whole_lines_of_a_spool_are_calls_and_each_is_given_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.begin(None)
    path = tmp_path / "1.jsonl"
    path.write_bytes(entry(1) + b"nonsense\n\n" + entry(2)[:20])
    assert [call.at_ns for call in spool.calls("/h")] == [1]
    with path.open("ab") as file:
        file.write(entry(2)[20:] + entry(3))
    (tmp_path / "2.jsonl").write_bytes(entry(4))
    (tmp_path / "3.jsonl").mkdir()
    assert [call.at_ns for call in spool.calls("/h")] == [2, 3, 4]
    assert list(spool.calls("/h")) == []


@pytest.mark.slow
def test_calls_of_another_home_wait_for_it_but_not_more_than_a_thousand(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.begin(None)
    (tmp_path / "1.jsonl").write_bytes(b"".join(entry(number, "/other") for number in range(1001)) + entry(5))
    assert [call.at_ns for call in spool.calls("/h")] == [5]
    assert [call.at_ns for call in spool.calls("/other")] == list(range(1, 1001))


def test_without_a_spool_and_where_it_is_gone_there_are_no_calls(tmp_path: Path) -> None:
    for spool in (Spool(None), Spool(tmp_path / "none")):
        spool.begin(0)
        assert list(spool.calls("/h")) == []
