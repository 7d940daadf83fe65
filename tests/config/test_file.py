"""What a settings file says is taken exactly, or refused with its place and the next step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.base.errors import ConfigError, DiskError
from beam.config import file
from beam.config.file import ConfigFile

ADAPTERS = ("claude", "command", "scripted", "mailbox")
PATH = Path("/folder/beam.yaml")


def parse(text: str | bytes) -> ConfigFile:
    return file.parse(text.encode() if isinstance(text, str) else text, PATH, adapters=ADAPTERS)


def complaint(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


def test_a_file_is_read_into_the_fields_that_are_written_in_it() -> None:
    read = parse(
        """
        defaults: {timeout: 30m, env: {A: "1"}}
        agents:
          planner: {adapter: claude, model: opus, access: edit, max_turns: 3, budget_usd: 2}
          tail: {command: [cat, [-n, "{session}"]], format: jsonl}
          person: {adapter: mailbox, lease: 1h}
          bare: {adapter: claude, model: }
        limits: {hops: 0, grace: 2s}
        allow_fs: [nfs4]
        """
    )
    assert read.defaults == {"timeout": 1800.0, "env": {"A": "1"}}
    assert read.agents["planner"] == {
        "adapter": "claude",
        "model": "opus",
        "access": "edit",
        "max_turns": 3,
        "budget_usd": 2.0,
    }
    assert read.agents["tail"] == {"command": ("cat", ("-n", "{session}")), "format": "jsonl"}
    assert read.agents["person"] == {"adapter": "mailbox", "lease": 3600.0}
    assert read.agents["bare"] == {"adapter": "claude"}
    assert read.limits == {"hops": 0, "grace": 2.0}
    assert read.allow_fs == ("nfs4",)


@pytest.mark.parametrize("text", ["", "# nothing\n", "agents:\n", "---\n", "\ufeff"])
def test_a_file_that_says_nothing_is_fine(text: str) -> None:
    assert parse(text) == ConfigFile(path=PATH)


def test_anchors_and_merges_work() -> None:
    read = parse("defaults: &d {model: opus, access: read}\nagents: {a: {<<: *d, adapter: claude, access: edit}}")
    assert read.agents["a"] == {"model": "opus", "access": "edit", "adapter": "claude"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agent: {}", "/folder/beam.yaml, line 1: agent: unknown key (did you mean agents?)"),
        (
            "agents:\n  x:\n    adapter: claude\n    modle: a",
            "line 4: agents.x.modle: unknown key (did you mean model?)",
        ),
        ("limits:\n  hop: 1", "line 2: limits.hop: unknown key (did you mean hops?)"),
        (
            "agents:\n  x: {adapter: claud}",
            "line 2: agents.x.adapter: there is no adapter 'claud' (did you mean claude?)",
        ),
        ("defaults: {adapter: gpt}", "line 1: defaults.adapter: there is no adapter 'gpt'"),
        ("defaults: {agent: A B}", "line 1: defaults.agent: not an agent's name"),
        ("defaults: {agent: [a, b]}", "line 1: defaults.agent: not an agent's name"),
        ("agents: {Planner: {adapter: claude}}", "agents.Planner: not an agent's name"),
        ("agents: {../x: {adapter: claude}}", "agents.../x: not an agent's name"),
        (
            "agents: {x: {adapter: claude, access: ful}}",
            "'ful' is not one of read, edit, full, ask (did you mean full?)",
        ),
        (
            "agents: {x: {adapter: claude, envelope: shrot}}",
            "agents.x.envelope: 'shrot' is not one of none, short, full (or write a text with {from} in it)",
        ),
        ("agents: {x: {adapter: claude, access: [full]}}", "['full'] is not one of"),
        (
            "agents: {x: {adapter: claude, model: 4}}",
            "agents.x.model: expected text, got a whole number (write it in quotes",
        ),
        ("agents: {x: {adapter: claude, timeout: soon}}", "agents.x.timeout: 'soon' is not a duration (write it like"),
        ("agents: {x: {adapter: claude, timeout: 0s}}", "agents.x.timeout: 0.0 is out of range"),
        ("agents: {x: {adapter: claude, timeout: yes}}", "agents.x.timeout: expected a number, got true or false"),
        ("agents: {x: {adapter: claude, max_turns: 1.5}}", "agents.x.max_turns: expected a whole number"),
        ("agents: {x: {adapter: claude, budget_usd: .nan}}", "agents.x.budget_usd: nan is out of range"),
        (
            "agents: {x: {adapter: claude, env: {PORT: [80]}}}",
            "agents.x.env: expected text, got a list (write names",
        ),
        ("agents: {x: {adapter: claude, env: {A=B: a}}}", "agents.x.env: a variable's name is not empty and has no ="),
        (
            "agents: {x: {command: cat -n}}",
            "agents.x.command: expected a list, got text (write a list, a word each: [cat, -n])",
        ),
        ('agents: {x: {command: [["a\\0"]]}}', "agents.x.command: holds a NUL character"),
        (
            "agents: {x: {adapter: claude, command: [a]}}",
            "agents.x.command: only `command` agents have this, and x is `claude`",
        ),
        (
            "agents: {x: {adapter: mailbox, script: a}}",
            "agents.x.script: only `scripted` agents have this, and x is `mailbox`",
        ),
        ("agents: {x: {mailbox: true}}", "agents.x.mailbox: unknown key (write adapter: mailbox)"),
        (
            "limits: {keep: 1h}",
            "limits.keep: unknown key (it is a setting of agents: write it under defaults: or for one agent)",
        ),
        ("agents: [x]", "agents: expected keys and values, got a list"),
        ("agents: {x: claude}", "agents.x: expected keys and values, got text"),
        ("- x", "/folder/beam.yaml: expected keys and values, got a list"),
        ("limits: {hops: -1}", "limits.hops: -1 is out of range"),
        ("limits: {waiting: 0}", "limits.waiting: 0 is out of range"),
        ("allow_fs: nfs", "allow_fs: expected a list of file system types"),
        ("agents:\n  a: {adapter: claude}\n  a: {adapter: claude}", "line 3: agents.a: said twice"),
        (
            "agents:\n\ta: 1",
            "line 2: found character that cannot start any token (YAML is indented with spaces, not tabs)",
        ),
        ("a: [", "/folder/beam.yaml, line"),
        ("a: [", "(it is not YAML there: look at brackets, quotes and indentation, also of the lines above)"),
        ("a: 1\n---\nb: 2", "/folder/beam.yaml, line 2"),
        ("a: *b", "/folder/beam.yaml, line 1"),
        ("a: !!python/object:os.system x", "/folder/beam.yaml, line 1: a: not a value that beam reads"),
        (
            "agents: !!python/object:os.system {}",
            "line 1: agents: beam reads no tag such as 'tag:yaml.org,2002:python/",
        ),
        ("agents: {x: !mine [a]}", "line 1: agents.x: beam reads no tag such as '!mine'"),
        ("agents: {x: {adapter: claude, model: 2024-99-99}}", "agents.x.model: not a value that beam reads"),
        ("? [a]\n: b", "a key must be text"),
        ("a: {<<: 3}", "<< wants keys and values"),
        ("&a [*a]", "nested too deeply"),
        ("[" * 5000, "/folder/beam.yaml"),
        ("a: \x01", "/folder/beam.yaml: not YAML"),
        (b"a: 1\nb: \xff", "/folder/beam.yaml, line 2: not UTF-8"),
    ],
)
def test_a_complaint_names_the_file_the_line_the_key_and_the_next_step(text: str | bytes, said: str) -> None:
    assert said in complaint(text)


@pytest.mark.slow
def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    assert "too large with its aliases" in complaint("\n".join(lines))


def test_a_file_that_is_absent_is_none_and_one_that_can_not_be_read_is_an_error(tmp_path: Path) -> None:
    assert file.read(tmp_path / "beam.yaml", adapters=ADAPTERS) is None
    with pytest.raises(DiskError, match="can't read"):
        file.read(tmp_path, adapters=ADAPTERS)
    (tmp_path / "beam.yaml").write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        file.read(tmp_path / "beam.yaml", adapters=ADAPTERS)


@pytest.mark.slow
@given(
    st.one_of(st.text(max_size=40), st.binary(max_size=40), st.text(alphabet="ab:-{}[]&*!|>\n \t'\"<,#", max_size=30))
)
def test_any_bytes_are_settings_or_a_complaint(data: str | bytes) -> None:
    try:
        parse(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    except ConfigError as error:
        assert error.message.startswith("/folder/beam.yaml")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 150_000,
        "[" * 900_000,
        "- " * 100_000,
        "a: [" + "[x], " * 100_000 + "]",
        "a0: &a0 {}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40)),
    ],
)
def test_yaml_that_would_keep_its_reader_busy_is_refused(text: str) -> None:
    assert "nested too deeply" in complaint(text)


@pytest.mark.parametrize(
    "text",
    [
        "limits: {hops: " + "9" * 400 + "}",
        "limits: {hops: " + "9" * 5000 + "}",
        "limits: {hops: 1" + ":1" * 3000 + "}",
        "limits: {waiting: 1.0e+400}",
        "agents: {x: {adapter: claude, timeout: 1.0e+300}}",
        "agents: {x: {adapter: mailbox, lease: 40000000}}",
        "agents: {x: {adapter: python, screen: {rows: 100000000}}}",
    ],
)
def test_numbers_that_nothing_could_use_are_refused(text: str) -> None:
    said = complaint(text)
    assert any(words in said for words in ("out of range", "longer than a year", "not a value", "a whole number")), said


def test_a_variable_is_the_text_that_was_written_whatever_it_looks_like(tmp_path: Path) -> None:
    path = tmp_path / "beam.yaml"
    path.write_text(
        "agents: {x: {adapter: claude, env: {A: 1, B: 010, C: 1.50, D: yes, E: 2026-11-23, F: a, G: ''}}}\n"
    )
    read = file.read(path, adapters=("claude",))
    assert read is not None
    assert read.agents["x"]["env"] == {
        "A": "1",
        "B": "010",
        "C": "1.50",
        "D": "yes",
        "E": "2026-11-23",
        "F": "a",
        "G": "",
    }


def test_a_file_that_was_emptied_a_moment_ago_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "beam.yaml"
    path.write_text("")

    def written(_: float) -> None:
        path.write_text("agents: {late: {command: [cat]}}\n")

    monkeypatch.setattr("beam.config.file.time.sleep", written)
    read = file.read(path, adapters=ADAPTERS)
    assert read is not None and list(read.agents) == ["late"]


def test_an_empty_file_is_one_without_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "beam.yaml"
    path.write_text("")
    now = path.stat().st_mtime
    pauses: list[float] = []
    monkeypatch.setattr("beam.config.file.time.sleep", pauses.append)
    monkeypatch.setattr("beam.config.file.time.time", lambda: now + 0.02 * len(pauses))
    read = file.read(path, adapters=ADAPTERS)
    assert read is not None and not read.agents
    assert len(pauses) == 3, "it is waited for during a twentieth of a second"
    os.utime(path, (now - 1, now - 1))
    assert file.read(path, adapters=ADAPTERS) is not None
    assert len(pauses) == 3


def test_a_file_that_somebody_empties_again_and_again_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "beam.yaml"
    path.write_text("")
    pauses: list[float] = []

    def emptied(seconds: float) -> None:
        pauses.append(seconds)
        assert len(pauses) < 1000
        path.write_text("")

    monkeypatch.setattr("beam.config.file.time.sleep", emptied)
    monkeypatch.setattr("beam.config.file.time.time", lambda: path.stat().st_mtime)
    assert file.read(path, adapters=ADAPTERS) is not None
    assert sum(pauses) == pytest.approx(0.05)
