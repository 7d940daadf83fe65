"""What is said of each mistake in a settings file or a variable: the place, and what is wrong there."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from beam.base.errors import BeamError, ConfigError, NotFoundError
from beam.config import file, resolve
from beam.config.fields import setting_from_text, settings_from_text
from beam.config.resolve import with_state_dir
from beam.config.source import PARSED_JSON, ParsedFiles, Source, parse_yaml
from beam.model.message import RuleLists
from tests.config.test_resolve import ADAPTERS, Folder

PATH = Path("/folder/beam.yaml")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def said(error: BeamError) -> tuple[str, str, str | None, str]:
    """What is said and the hint, as far as a line goes, what it is about, and its kind."""
    return error.message.replace(str(PATH), "F")[:105], error.hint[:105], error.subject, error.kind


AGENT = (
    "command: 'x \"y'",
    "command: x y",
    "command: 5",
    "command: [x, 5]",
    "runner: ['']",
    "runner: [ssh, host]",
    "runner: [/usr/bin/bash, -c]",
    "env: {'A=B': x}",
    "env: {'': x}",
    'env: {A: "x\\0y"}',
    "model: 5",
    'model: "x\\0y"',
    "access: reed",
    "access: everything",
    "timeout: 0",
    "timeout: -1s",
    "timeout: soon",
    "timeout: 400d",
    "timeout: 40000000",
    "max_turns: 1.5",
    "max_turns: -1",
    "budget_usd: .inf",
    "budget_usd: .nan",
    "budget_usd: 1e30",
    "rules: {denied: [Bash]}",
    "rules: {deny: Bash}",
    "rules: {deny: ['Bash(']}",
    "rules: {allow: [Read, '']}",
    "envelope: plain",
    "screen: {rows: 1001}",
    "screen: {rows: 0}",
    "screen: {row: 5}",
    "screen: {name: x}",
    "screen: {prompt: '('}",
    "screen: {dialogs: x}",
    "screen: {dialogs: [{name: x}]}",
    "screen: {dialogs: [{match: x}]}",
    "screen: {dialogs: [{name: x, match: '('}]}",
    "screen: {dialogs: [5]}",
    "modle: x",
    "zzz: x",
    "env: {A: []}",
    "record: maybe",
    "adapter: claud",
    "reply_path: x",
)
WHOLE = (
    "x: 1",
    "agent: {}",
    "agents: [x]",
    "agents: {a b: {}}",
    "agents: {x@y: {command: [z]}}",
    "agents: {x: {command: [z], script: s.yaml}}",
    "defaults: {adapter: nobody}",
    "defaults: {modle: x}",
    "limits: {hop: 1}",
    "limits: {hops: x}",
    "policy: {attempt: 1}",
    "policy: {attempts: x}",
    "notify: x",
    "notify: [{on: [ask]}]",
    "notify: [{on: [ask], command: []}]",
    "notify: [{on: [ask], command: ['']}]",
    "notify: [{on: [ask], webhook: ftp://x}]",
    "notify: [{on: [ask], webhook: {env: A, file: B}}]",
    "notify: [{on: [asks], command: [x]}]",
    "notify: [{on: [ask], command: [x], agents: ['-']}]",
    "notify: [{on: [ask], command: [x], body: text}]",
    "notify: [{on: [ask], command: [x], webhook: 'https://x.org'}]",
    "notify: [{on: ask, command: [x]}]",
    "notify: [{on: [], command: [x]}]",
    "notify: [{on: [ask], webhook: 'https://x.org', token: abc}]",
    "notify: [{on: [ask], webhook: 'https://x.org', token: {}}]",
    "notify: [{on: [ask], webhook: {env: 'A B'}}]",
    "notify: [{on: [ask], webhook: {file: x}}]",
    "notify: [{on: [ask], webhook: {fil: x}}]",
    "notify: [{on: [ask], webhook: 'https://a b'}]",
    "notify: [{on: [ask], webhook: 'https://[x'}]",
    "notify: [{on: [ask], webhook: 'https://me@x.org'}]",
    "notify: [{on: [ask], webhook: 'http://x.org'}]",
    "notify: [5]",
    "env_profiles: {a b: {}}",
    "env_profiles: {a: {B: []}}",
    "env_profiles: {a: x}",
    "state_dir: x",
    "state_dir: 5",
    "disable: gemini",
    "disable: [gemini]",
    "disable: [claud]",
    "allow_fs: x",
)


@pytest.mark.parametrize("text", [*(f"agents: {{claude: {{{one}}}}}" for one in AGENT), *WHOLE])
def test_a_mistake_in_a_file_is_named_with_its_line_and_key(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        file.parse(text.encode(), PATH, adapters=ADAPTERS)
    message, _, subject, kind = said(caught.value)
    assert (subject, kind) == (str(PATH), "config")
    key = text.partition(":")[0]
    if text.startswith("agents: {claude: {"):
        key = f"agents.claude.{text.split('{')[2].partition(':')[0]}"
    assert message.startswith(f"F, line 1: {key}")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("command", "sh -c 'x y'"),
        ("command", "sh 'x"),
        ("record", " Yes "),
        ("record", "off"),
        ("record", "maybe"),
        ("timeout", "5m"),
        ("timeout", "x"),
        ("max_turns", "3"),
        ("max_turns", "three"),
        ("budget_usd", "0.5"),
        ("access", "edit"),
        ("access", "reed"),
        ("model", "5"),
    ],
)
def test_a_setting_given_as_a_text_is_taken_or_refused(name: str, text: str) -> None:
    try:
        found: object = setting_from_text(name, text, (name,), Source("S"))
    except ConfigError as error:
        found = said(error)
    assert found == _TAKEN[f"{name} {text}"]


def test_settings_given_as_texts_are_taken_together() -> None:
    given = {"model": "m", "env.A": "1", "env.B": "x=y"}
    assert settings_from_text(given, Source("S")) == {"model": "m", "env": {"A": "1", "B": "x=y"}}
    with pytest.raises(ConfigError) as caught:
        settings_from_text({"modle": "m"}, Source("S"))
    assert said(caught.value) == ("S: modle: unknown key", "did you mean model?", "S", caught.value.kind)


@pytest.mark.parametrize(
    "text",
    [
        "adapter: claude",
        "command: [z]",
        "protocol: acp",
        "executable: z",
        "runner: [z]",
        "script: z.yaml",
        "adapter: mailbox",
    ],
)
def test_a_session_runs_what_its_agent_runs(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        file.parse(f"agents: {{x@y: {{{text}}}}}".encode(), PATH, adapters=ADAPTERS)
    what = f"F, line 1: agents.x@y.{text.partition(':')[0]}: x@y is a session and runs what its agent runs"
    assert said(caught.value)[:2] == (what, "set it for x")


def complaint(folder: Folder, agent: str, **environ: str) -> tuple[str, str, str | None, str]:
    with pytest.raises(BeamError) as caught:
        folder.load(**environ).resolve(agent)
    error, base = caught.value, str(folder.root.project.parent)
    message, hint, subject = (one.replace(base, "B")[:105] for one in (error.message, error.hint, error.subject or ""))
    return message, hint, subject, error.kind


@pytest.mark.slow
def test_each_agent_that_can_not_be_resolved_says_why(folder: Folder) -> None:
    folder.user_config("disable: [scripted]\nenv_profiles: {home: {A: '1'}}").yaml(
        "agents:\n  x: {model: m}\n  s: {script: a.yaml}\n  p: {adapter: claude, env_profile: hom}\n"
        "  q: {adapter: claude, env_profile: zzz}\n"
    )
    folder.agent_json("bad", "{half").agent_json("new", '{"v": 2}').agent_json("y", '{"v": 1, "modle": "m"}')
    assert [
        complaint(folder, "x"),
        complaint(folder, "s"),
        complaint(folder, "claude", BEAM_DISABLE="claude, command"),
        complaint(folder, "p"),
        complaint(folder, "q"),
        complaint(folder, "bad"),
        complaint(folder, "new"),
        complaint(folder, "y"),
        complaint(folder, "clade"),
        complaint(folder, "nobody"),
        complaint(folder, "no body"),
        complaint(folder, "claude", BEAM_DISABLE="claud"),
        complaint(folder, "claude", BEAM_ACCESS="reed"),
        complaint(folder, "claude", BEAM_TIMEOUT="x"),
    ] == [
        (
            "B/work/beam.yaml: agents.x: says no adapter",
            "write `adapter:` with one of claude, command, scripted, mailbox (beam agent list --all), or `command:` wi",
            "B/work/beam.yaml",
            "config",
        ),
        (
            "scripted is switched off by user config",
            "to use it again, take it out of `disable:` in your user config",
            "s",
            "switched_off",
        ),
        (
            "claude is switched off by BEAM_DISABLE",
            "to use it again, take it out of BEAM_DISABLE",
            "claude",
            "switched_off",
        ),
        ("there is no environment profile 'hom'", "did you mean home?", "hom", "config"),
        ("there is no environment profile 'zzz'", "there are: home", "zzz", "config"),
        (
            "B/root/agents/bad/agent.json: not JSON: JSON is malformed: object keys must be strings (byte 1)",
            "mend it, or make it anew with beam agent add",
            "B/root/agents/bad/agent.json",
            "config",
        ),
        (
            "B/root/agents/new/agent.json is of version 2, and this beam reads up to 1",
            "a newer beam wrote it: upgrade this one",
            "B/root/agents/new/agent.json",
            "config",
        ),
        (
            "B/root/agents/y/agent.json: modle: unknown key",
            "did you mean model?",
            "B/root/agents/y/agent.json",
            "config",
        ),
        ("no agent is called 'clade'", "did you mean claude?", "clade", "not_found"),
        (
            "no agent is called 'nobody'",
            "declared here: bad, new, p, q, s, x, y; beam agent list --all shows what there is, beam agent add makes o",
            "nobody",
            "not_found",
        ),
        (
            "'no body' is not an agent's name",
            "a name is up to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit; a session is like claude@re",
            "no body",
            "usage",
        ),
        ("BEAM_DISABLE: there is no adapter 'claud'", "did you mean claude?", "BEAM_DISABLE", "config"),
        ("BEAM_ACCESS: 'reed' is not one of read, edit, full, ask", "did you mean read?", "BEAM_ACCESS", "config"),
        (
            "BEAM_TIMEOUT: 'x' is not a duration",
            "write it like 90s, 5m, 1h30m or 500ms; a number alone is seconds",
            "BEAM_TIMEOUT",
            "config",
        ),
    ]


def test_a_folder_can_not_say_where_the_state_lies(folder: Folder) -> None:
    folder.yaml("state_dir: /srv/beam")
    message, hint, subject, _ = complaint(folder, "claude")
    assert message == "B/work/beam.yaml: state_dir: only your own configuration can say this"
    assert (hint, subject) == ("write it into B/user/beam/config.yaml, or set BEAM_STATE", "B/work/beam.yaml")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("state_dir: /srv/beam", "/srv/beam"),
        ("state_dir: ~/beam", "/h/beam"),
        ("limits: {hops: 1}", None),
        ("state_dir:", None),
        ("limits: {hops: 1} # state_dir", None),
    ],
)
def test_the_persons_own_configuration_says_where_the_state_lies(folder: Folder, text: str, state: str | None) -> None:
    folder.user_config(text)
    environ = {"XDG_CONFIG_HOME": str(folder.user), "HOME": "/h"}
    assert with_state_dir(environ) == {**environ, **({"BEAM_STATE": state} if state else {})}
    assert with_state_dir({**environ, "BEAM_STATE": "/x"}) == {**environ, "BEAM_STATE": "/x"}
    assert with_state_dir({"HOME": "/h"}) == {"HOME": "/h"}
    for unset in ({}, {"HOME": ""}, {"HOME": "x"}):
        assert with_state_dir({**unset, "BEAM_STATE": "/x"})["HOME"] == pwd.getpwuid(os.getuid()).pw_dir
    with pytest.raises(BeamError) as caught:
        with_state_dir({**environ, "BEAM_STATE": "x"})
    message = "BEAM_STATE is 'x', not an absolute path"
    assert (caught.value.message, caught.value.hint) == (message, "set it to a path that begins with /")


def test_a_session_has_its_agents_settings_within_its_rights(folder: Folder) -> None:
    folder.user_config("defaults: {rules: {deny: [Read], allow: [WebFetch]}}").yaml(
        "agents:\n"
        "  x: {adapter: claude, access: edit, budget_usd: 1, max_turns: 5, rules: {ask: [Bash], allow: [Edit]}}\n"
        "  x@y: {access: full, budget_usd: 2, max_turns: 3, retries: 1, rules: {deny: [WebSearch], allow: [Bash]}}\n"
    )
    resolved = folder.load().resolve("x@y")
    assert (resolved.name, resolved.agent, sorted(resolved.own)) == (
        "x@y",
        "x",
        ["access", "budget_usd", "max_turns", "retries", "rules"],
    )
    settings = resolved.settings
    assert (settings.access, settings.budget_usd, settings.max_turns, settings.retries, settings.rules) == (
        "edit",
        1.0,
        3,
        1,
        RuleLists(deny=("Read", "WebSearch"), ask=("Bash",), allow=("WebFetch", "Edit")),
    )
    assert [(each.whose, each.is_general, each.lists) for each in resolved.rules] == [
        ("user config", True, RuleLists(deny=("Read",), ask=(), allow=("WebFetch",))),
        ("beam.yaml", False, RuleLists(deny=(), ask=("Bash",), allow=("Edit",))),
        ("beam.yaml", False, RuleLists(deny=("WebSearch",), ask=(), allow=())),
    ]


def test_the_policy_of_the_person_and_of_the_folder_add_up(folder: Folder) -> None:
    folder.user_config("policy: {attempts: 2, backoff: 1}").yaml("policy: {attempts: 3}")
    policy = folder.load().policy
    assert (policy.attempts, policy.backoff) == (3, 1.0)
    assert isinstance(NotFoundError("x"), BeamError)


def test_what_files_say_is_remembered_unless_it_may_be_a_key(tmp_path: Path) -> None:
    def opened() -> list[str]:
        return sorted(path.name for path in Path("/proc/self/fd").iterdir())

    before = opened()
    texts = {
        "plain": b"a: {b: [1, x]}",
        "date": b"a: 2026-01-01",
        "env": b"agents: {x: {env: {A: b}}}",
        "key": b"a: ghp_" + b"aB3" * 12,
        "endless": b"a: .inf",
    }
    for _ in range(2):
        parsed = ParsedFiles(tmp_path)
        values = {name: parsed.parse(text, Path(name)) for name, text in texts.items()}
        parsed.remember()
    assert values["plain"] == (
        {"a": {"b": [1, "x"]}},
        {("a",): 1, ("a", "b"): 1, ("a", "b", "0"): 1, ("a", "b", "1"): 1},
    )
    assert values == {name: ParsedFiles().parse(text, Path(name)) for name, text in texts.items()}
    assert len(ParsedFiles(tmp_path)._before) == 1
    assert [path.name for path in tmp_path.iterdir()] == [PARSED_JSON]
    assert opened() == before
    ParsedFiles(tmp_path / "none").remember()
    assert not (tmp_path / "none").exists()
    (tmp_path / PARSED_JSON).write_text('{"v": "other", "files": {}}')
    assert ParsedFiles(tmp_path)._before == {}
    assert resolve.BEAM_YAML == "beam.yaml"


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb:\n  c: [x, {d: 1}]\n  e: ~\n",
        "a: &x {b: 1}\nc: *x\n",
        "? a\n: 1\n",
        "a: 'x'\n'b': 2.5\n3: yes\n",
        "--- {a: {b: }}\n",
    ],
)
def test_a_file_of_yaml_has_its_values_and_the_line_of_each_key(text: str) -> None:
    assert parse_yaml(text.encode(), PATH) == _YAML[text]


_TAKEN = {
    "command sh -c 'x y'": ("sh", "-c", "x y"),
    "command sh 'x": (
        'S: command: "sh \'x" is no command line: No closing quotation',
        "close the quotation",
        "S",
        "config",
    ),
    "record  Yes ": True,
    "record off": False,
    "record maybe": ("S: record: expected true or false, got 'maybe'", "", "S", "config"),
    "timeout 5m": 300.0,
    "timeout x": (
        "S: timeout: 'x' is not a duration",
        "write it like 90s, 5m, 1h30m or 500ms; a number alone is seconds",
        "S",
        "config",
    ),
    "max_turns 3": 3,
    "max_turns three": ("S: max_turns: expected a whole number, got 'three'", "", "S", "config"),
    "budget_usd 0.5": 0.5,
    "access edit": "edit",
    "access reed": ("S: access: 'reed' is not one of read, edit, full, ask", "did you mean read?", "S", "config"),
    "model 5": "5",
}


_YAML = {
    "a: 1\nb:\n  c: [x, {d: 1}]\n  e: ~\n": (
        {"a": 1, "b": {"c": ["x", {"d": 1}], "e": None}},
        {
            ("a",): 1,
            ("b",): 2,
            ("b", "c"): 3,
            ("b", "c", "0"): 3,
            ("b", "c", "1"): 3,
            ("b", "c", "1", "d"): 3,
            ("b", "e"): 4,
        },
    ),
    "a: &x {b: 1}\nc: *x\n": ({"a": {"b": 1}, "c": {"b": 1}}, {("a",): 1, ("a", "b"): 1, ("c",): 2, ("c", "b"): 1}),
    "? a\n: 1\n": ({"a": 1}, {("a",): 1}),
    "a: 'x'\n'b': 2.5\n3: yes\n": ({"a": "x", "b": 2.5, "3": True}, {("a",): 1, ("b",): 2, ("3",): 3}),
    "--- {a: {b: }}\n": ({"a": {"b": None}}, {("a",): 1, ("a", "b"): 1}),
}
