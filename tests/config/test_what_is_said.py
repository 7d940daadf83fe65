"""What is said of each mistake in a settings file or a variable, whole: the place, what is wrong, and what to write."""

from __future__ import annotations

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
    "mailbox: maybe",
    "adapter: claud",
    "reply_path: x",
)
WHOLE = (
    "- x",
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
    "a: {b",
    "a: 1\na: 2",
)


@pytest.mark.parametrize("text", [*(f"agents: {{claude: {{{one}}}}}" for one in AGENT), *WHOLE])
def test_a_mistake_in_a_file_is_named_with_its_place_and_what_to_write(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        file.parse(text.encode(), PATH, adapters=ADAPTERS)
    assert said(caught.value) == _SAID[text]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("command", "sh -c 'x y'"),
        ("command", "sh 'x"),
        ("mailbox", " Yes "),
        ("mailbox", "off"),
        ("mailbox", "maybe"),
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
        "mailbox: true",
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
            "a name is up to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit; a session is AGENT@NAME, up",
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


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: b: c",
        "a: *x",
        "a: 1\n---\nb: 1",
        "\ta: 1",
        "a: !!python/object:x {}",
        "{a: 1, a: 2}",
        'a: "\\x"',
        "\x00",
    ],
)
def test_what_is_no_yaml_is_named_with_its_line(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text.encode(), PATH)
    assert said(caught.value) == _NO_YAML[text]


_NO_YAML = {
    "a: [": (
        "F, line 2: did not find expected node content",
        "it is not YAML there: look at brackets, quotes and indentation, also of the lines above",
        "/folder/beam.yaml",
        "config",
    ),
    "a: b: c": (
        "F, line 1: mapping values are not allowed in this context",
        "it is not YAML there: look at brackets, quotes and indentation, also of the lines above",
        "/folder/beam.yaml",
        "config",
    ),
    "a: *x": (
        "F, line 1: found undefined alias",
        "it is not YAML there: look at brackets, quotes and indentation, also of the lines above",
        "/folder/beam.yaml",
        "config",
    ),
    "a: 1\n---\nb: 1": (
        "F, line 2: a second document begins here",
        "keep one, without the line ---",
        "/folder/beam.yaml",
        "config",
    ),
    "\ta: 1": (
        "F, line 1: found character that cannot start any token",
        "YAML is indented with spaces, not tabs",
        "/folder/beam.yaml",
        "config",
    ),
    "a: !!python/object:x {}": (
        "F, line 1: a: beam reads no tag such as 'tag:yaml.org,2002:python/object:x'",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "{a: 1, a: 2}": ("F, line 1: a: said twice", "", "/folder/beam.yaml", "config"),
    'a: "\\x"': (
        "F, line 1: did not find expected hexdecimal number",
        "it is not YAML there: look at brackets, quotes and indentation, also of the lines above",
        "/folder/beam.yaml",
        "config",
    ),
    "\x00": ("F: not YAML: control characters are not allowed", "", "/folder/beam.yaml", "config"),
}


_SAID = {
    "agents: {claude: {command: 'x \"y'}}": (
        "F, line 1: agents.claude.command: expected a list, got text",
        'write a list, a word each: [x, "y]',
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {command: x y}}": (
        "F, line 1: agents.claude.command: expected a list, got text",
        "write a list, a word each: [x, y]",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {command: 5}}": (
        "F, line 1: agents.claude.command: expected a list, got a whole number",
        "write it in quotes if it is meant as text",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {command: [x, 5]}}": (
        "F, line 1: agents.claude.command: expected text or a list, got a whole number",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {runner: ['']}}": (
        "F, line 1: agents.claude.runner: names no program",
        "write it like [docker, exec, -i, box]",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {runner: [ssh, host]}}": (
        "F, line 1: agents.claude.runner: ssh gives its words to a shell, which would read a prompt as code",
        "write '{command}' where the agent's command line belongs, as in [ssh, …, '{command}']",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {runner: [/usr/bin/bash, -c]}}": (
        "F, line 1: agents.claude.runner: bash gives its words to a shell, which would read a prompt as code",
        "write '{command}' where the agent's command line belongs, as in [bash, …, '{command}']",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {env: {'A=B': x}}}": (
        "F, line 1: agents.claude.env: a variable's name is not empty and has no =",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {env: {'': x}}}": (
        "F, line 1: agents.claude.env: a variable's name is not empty and has no =",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    'agents: {claude: {env: {A: "x\\0y"}}}': (
        "F, line 1: agents.claude.env: holds a NUL character, which no program can be given",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {model: 5}}": (
        "F, line 1: agents.claude.model: expected text, got a whole number",
        "write it in quotes if it is meant as text",
        "/folder/beam.yaml",
        "config",
    ),
    'agents: {claude: {model: "x\\0y"}}': (
        "F, line 1: agents.claude.model: holds a NUL character, which no program can be given",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {access: reed}}": (
        "F, line 1: agents.claude.access: 'reed' is not one of read, edit, full, ask",
        "did you mean read?",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {access: everything}}": (
        "F, line 1: agents.claude.access: 'everything' is not one of read, edit, full, ask",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {timeout: 0}}": (
        "F, line 1: agents.claude.timeout: 0 is out of range",
        "give a number above 0; leave the key out for the default",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {timeout: -1s}}": (
        "F, line 1: agents.claude.timeout: '-1s' is not a duration",
        "write it like 90s, 5m, 1h30m or 500ms; a number alone is seconds",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {timeout: soon}}": (
        "F, line 1: agents.claude.timeout: 'soon' is not a duration",
        "write it like 90s, 5m, 1h30m or 500ms; a number alone is seconds",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {timeout: 400d}}": (
        "F, line 1: agents.claude.timeout: '400d' is longer than a year",
        "write it like 90s, 5m, 1h30m or 500ms; a number alone is seconds",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {timeout: 40000000}}": (
        "F, line 1: agents.claude.timeout: 40000000 seconds are longer than a year",
        "write it like 90s, 5m or 1h30m",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {max_turns: 1.5}}": (
        "F, line 1: agents.claude.max_turns: expected a whole number, got a number",
        "write it in quotes if it is meant as text",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {max_turns: -1}}": (
        "F, line 1: agents.claude.max_turns: -1 is out of range",
        "give a number above 0; leave the key out for the default",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {budget_usd: .inf}}": (
        "F, line 1: agents.claude.budget_usd: inf is out of range",
        "give a number above 0; leave the key out for the default",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {budget_usd: .nan}}": (
        "F, line 1: agents.claude.budget_usd: nan is out of range",
        "give a number above 0; leave the key out for the default",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {budget_usd: 1e30}}": (
        "F, line 1: agents.claude.budget_usd: expected a number, got text",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {rules: {denied: [Bash]}}}": (
        "F, line 1: agents.claude.rules.denied: unknown key",
        "there are: deny, ask, allow",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {rules: {deny: Bash}}}": (
        "F, line 1: agents.claude.rules: expected a list, got text",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {rules: {deny: ['Bash(']}}}": (
        "F, line 1: agents.claude.rules.deny.0: 'Bash(' is not a rule",
        "a rule is Tool or Tool(argument): Read, Bash(git log *), Edit(src/**)",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {rules: {allow: [Read, '']}}}": (
        "F, line 1: agents.claude.rules.allow.1: '' is not a rule",
        "a rule is Tool or Tool(argument): Read, Bash(git log *), Edit(src/**)",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {envelope: plain}}": (
        "F, line 1: agents.claude.envelope: 'plain' is not one of none, short, full",
        "or write a text with {from} in it",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {screen: {rows: 1001}}}": (
        "F, line 1: agents.claude.screen.rows: 1001 is out of range",
        "no terminal has more than 1000",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {screen: {rows: 0}}}": (
        "F, line 1: agents.claude.screen.rows: 0 is out of range",
        "give a number above 0; leave the key out for the default",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {screen: {row: 5}}}": (
        "F, line 1: agents.claude.screen.row: unknown key",
        "did you mean rows?",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {screen: {name: x}}}": (
        "F, line 1: agents.claude.screen.name: a screen's name can't be set",
        "leave it out",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {screen: {prompt: '('}}}": (
        "F, line 1: agents.claude.screen.prompt: '(': not a regular expression: missing ), unterminated subpattern",
        "see docs/terminals.md",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {screen: {dialogs: x}}}": (
        "F, line 1: agents.claude.screen.dialogs: expected a list of dialogs",
        "each has `name`, `match`, `allow`, `deny`",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {screen: {dialogs: [{name: x}]}}}": (
        "F, line 1: agents.claude.screen.dialogs.0: a dialog needs 'match'",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {screen: {dialogs: [{match: x}]}}}": (
        "F, line 1: agents.claude.screen.dialogs.0: a dialog needs 'name'",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {screen: {dialogs: [{name: x, match: '('}]}}}": (
        "F, line 1: agents.claude.screen.dialogs.0.match: '(': not a regular expression: missing ), unterminated s",
        "see docs/terminals.md",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {screen: {dialogs: [5]}}}": (
        "F, line 1: agents.claude.screen.dialogs.0: expected keys and values, got a single value",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {modle: x}}": (
        "F, line 1: agents.claude.modle: unknown key",
        "did you mean model?",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {zzz: x}}": (
        "F, line 1: agents.claude.zzz: unknown key",
        "there are: adapter, executable, runner, model, access, cwd, env, env_profile, timeout, idle_timeout, max_",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {env: {A: []}}}": (
        "F, line 1: agents.claude.env: expected text, got a list",
        "write names and values as text, numbers and yes/no in quotes",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {mailbox: maybe}}": (
        "F, line 1: agents.claude.mailbox: expected true or false, got text",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {adapter: claud}}": (
        "F, line 1: agents.claude.adapter: there is no adapter 'claud'",
        "did you mean claude?",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {claude: {reply_path: x}}": (
        "F, line 1: agents.claude.reply_path: only `command` agents have this, and claude is `claude`",
        "leave one out",
        "/folder/beam.yaml",
        "config",
    ),
    "- x": ("F: expected keys and values, got a list", "", "/folder/beam.yaml", "config"),
    "x: 1": (
        "F, line 1: x: unknown key",
        "there are: defaults, agents, limits, policy, notify, env_profiles, disable, allow_fs",
        "/folder/beam.yaml",
        "config",
    ),
    "agent: {}": ("F, line 1: agent: unknown key", "did you mean agents?", "/folder/beam.yaml", "config"),
    "agents: [x]": ("F, line 1: agents: expected keys and values, got a list", "", "/folder/beam.yaml", "config"),
    "agents: {a b: {}}": (
        "F, line 1: agents.a b: not an agent's name",
        "a name is up to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit; a session is AGENT@NAME, up",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {x@y: {command: [z]}}": (
        "F, line 1: agents.x@y.command: x@y is a session and runs what its agent runs",
        "set it for x",
        "/folder/beam.yaml",
        "config",
    ),
    "agents: {x: {command: [z], script: s.yaml}}": (
        "F, line 1: agents.x.script: only `scripted` agents have this, and x is `command`",
        "leave one out",
        "/folder/beam.yaml",
        "config",
    ),
    "defaults: {adapter: nobody}": (
        "F, line 1: defaults.adapter: there is no adapter 'nobody'",
        "there are: claude, command, scripted, mailbox",
        "/folder/beam.yaml",
        "config",
    ),
    "defaults: {modle: x}": (
        "F, line 1: defaults.modle: unknown key",
        "did you mean model?",
        "/folder/beam.yaml",
        "config",
    ),
    "limits: {hop: 1}": ("F, line 1: limits.hop: unknown key", "did you mean hops?", "/folder/beam.yaml", "config"),
    "limits: {hops: x}": (
        "F, line 1: limits.hops: expected a whole number, got text",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "policy: {attempt: 1}": (
        "F, line 1: policy.attempt: unknown key",
        "did you mean attempts?",
        "/folder/beam.yaml",
        "config",
    ),
    "policy: {attempts: x}": (
        "F, line 1: policy.attempts: expected a whole number, got text",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: x": (
        "F, line 1: notify: expected a list",
        "each entry like {command: [notify-send, beam], on: [ask, failed]}",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask]}]": (
        "F, line 1: notify.0: needs either `command` or `webhook`",
        "like {command: [notify-send, beam], on: [ask, failed]}, or {webhook: https://…, on: […]}",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], command: []}]": (
        "F, line 1: notify.0: needs either `command` or `webhook`",
        "like {command: [notify-send, beam], on: [ask, failed]}, or {webhook: https://…, on: […]}",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], command: ['']}]": (
        "F, line 1: notify.0.command: names no program",
        "like {command: [notify-send, beam], on: [ask, failed]}",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], webhook: ftp://x}]": (
        "F, line 1: notify.0.webhook: is no https URL",
        "write it like https://ntfy.sh/my-topic",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], webhook: {env: A, file: B}}]": (
        "F, line 1: notify.0.webhook: needs either `env` or `file`",
        "write {env: NAME} or {file: ~/.config/beam/secret}",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [asks], command: [x]}]": (
        "F, line 1: notify.0.on: 'asks' is no occasion",
        "did you mean ask?",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], command: [x], agents: ['-']}]": (
        "F, line 1: notify.0.agents: '-' is not an agent's name",
        "a name is up to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit; a session is AGENT@NAME, up",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], command: [x], body: text}]": (
        "F, line 1: notify.0: only a webhook has `secret`, `token` and `body`",
        "leave them out",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], command: [x], webhook: 'https://x.org'}]": (
        "F, line 1: notify.0: needs either `command` or `webhook`",
        "like {command: [notify-send, beam], on: [ask, failed]}, or {webhook: https://…, on: […]}",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: ask, command: [x]}]": (
        "F, line 1: notify.0: says no occasion",
        "write on: [ask, finished, failed, budget, idle], or some of these",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [], command: [x]}]": (
        "F, line 1: notify.0: says no occasion",
        "write on: [ask, finished, failed, budget, idle], or some of these",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], webhook: 'https://x.org', token: abc}]": (
        "F, line 1: notify.0.token: is never written into a configuration",
        "write token: {env: NAME} or token: {file: ~/.config/beam/token}",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], webhook: 'https://x.org', token: {}}]": (
        "F, line 1: notify.0.token: needs either `env` or `file`",
        "write {env: NAME} or {file: ~/.config/beam/secret}",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], webhook: {env: 'A B'}}]": (
        "F, line 1: notify.0.webhook.env: 'A B' is no variable's name",
        "write it like BEAM_HOOK",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], webhook: {file: x}}]": (
        "F, line 1: notify.0.webhook.file: is no absolute path",
        "write it like ~/.config/beam/secret",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], webhook: {fil: x}}]": (
        "F, line 1: notify.0.webhook.fil: unknown key",
        "did you mean file?",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], webhook: 'https://a b'}]": (
        "F, line 1: notify.0.webhook: is no URL: it holds blanks, control characters or letters that a URL encodes",
        "write it like https://ntfy.sh/my-topic",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], webhook: 'https://[x'}]": (
        "F, line 1: notify.0.webhook: is no URL",
        "write it like https://ntfy.sh/my-topic",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], webhook: 'https://me@x.org'}]": (
        "F, line 1: notify.0.webhook: holds a name or password; send a `token`",
        "write it like https://ntfy.sh/my-topic",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [{on: [ask], webhook: 'http://x.org'}]": (
        "F, line 1: notify.0.webhook: is not encrypted; http is for loopback alone",
        "write it like https://ntfy.sh/my-topic",
        "/folder/beam.yaml",
        "config",
    ),
    "notify: [5]": (
        "F, line 1: notify.0: expected keys and values, got a single value",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "env_profiles: {a b: {}}": (
        "F, line 1: env_profiles.a b: not a profile's name",
        "write it like work, or ci-2",
        "/folder/beam.yaml",
        "config",
    ),
    "env_profiles: {a: {B: []}}": (
        "F, line 1: env_profiles.a.env: expected text, got a list",
        "write names and values as text, numbers and yes/no in quotes",
        "/folder/beam.yaml",
        "config",
    ),
    "env_profiles: {a: x}": (
        "F, line 1: env_profiles.a: expected keys and values, got text",
        "",
        "/folder/beam.yaml",
        "config",
    ),
    "state_dir: x": (
        "F, line 1: state_dir: expected an absolute path",
        "write it like /srv/beam or ~/beam-state",
        "/folder/beam.yaml",
        "config",
    ),
    "state_dir: 5": (
        "F, line 1: state_dir: expected an absolute path",
        "write it like /srv/beam or ~/beam-state",
        "/folder/beam.yaml",
        "config",
    ),
    "disable: gemini": (
        "F, line 1: disable: expected a list of adapters",
        "write it like [gemini, codex]",
        "/folder/beam.yaml",
        "config",
    ),
    "disable: [gemini]": (
        "F, line 1: disable: there is no adapter 'gemini'",
        "there are: claude, command, scripted, mailbox",
        "/folder/beam.yaml",
        "config",
    ),
    "disable: [claud]": (
        "F, line 1: disable: there is no adapter 'claud'",
        "did you mean claude?",
        "/folder/beam.yaml",
        "config",
    ),
    "allow_fs: x": (
        "F, line 1: allow_fs: expected a list of file system types",
        "write it like [nfs4]",
        "/folder/beam.yaml",
        "config",
    ),
    "a: {b": (
        "F, line 2: did not find expected ',' or '}'",
        "it is not YAML there: look at brackets, quotes and indentation, also of the lines above",
        "/folder/beam.yaml",
        "config",
    ),
    "a: 1\na: 2": ("F, line 2: a: said twice", "", "/folder/beam.yaml", "config"),
}


_TAKEN = {
    "command sh -c 'x y'": ("sh", "-c", "x y"),
    "command sh 'x": (
        'S: command: "sh \'x" is no command line: No closing quotation',
        "close the quotation",
        "S",
        "config",
    ),
    "mailbox  Yes ": True,
    "mailbox off": False,
    "mailbox maybe": ("S: mailbox: expected true or false, got 'maybe'", "", "S", "config"),
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
