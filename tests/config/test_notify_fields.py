"""`notify:` in a configuration: what is accepted, and the error for what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.base.errors import ConfigError
from beam.config.file import parse
from beam.config.notify import url_problem
from beam.model.notification import NotifyTarget, ValueReference

HERE = Path("beam.yaml")


def read(text: str) -> tuple[NotifyTarget, ...]:
    return parse(text.encode(), HERE, adapters=("claude",)).notify


def test_a_command_and_a_webhook_are_read() -> None:
    command, webhook = read(
        "notify:\n"
        "- {command: [notify-send, beam], on: [ask, failed], agents: [planner]}\n"
        "- {webhook: {env: HOOK}, on: [idle], secret: {file: ~/secret}, token: {env: TOKEN},"
        " body: slack, reply: true}\n"
    )
    assert command == NotifyTarget(command=("notify-send", "beam"), on=("ask", "failed"), agents=("planner",))
    assert webhook == NotifyTarget(
        webhook=ValueReference(env="HOOK"),
        on=("idle",),
        secret=ValueReference(file="~/secret"),
        token=ValueReference(env="TOKEN"),
        body="slack",
        reply=True,
    )


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{command: [x], on: [asks]}", "did you mean ask"),
        ("{command: [x]}", "says no occasion"),
        ("{command: [x], on: []}", "says no occasion"),
        ("{command: [x], on: ask}", "says no occasion"),
        ("{on: [ask]}", "needs either"),
        ("{command: [x], webhook: 'https://a.example', on: [ask]}", "needs either"),
        ("{command: x, on: [ask]}", "expected"),
        ("{command: [''], on: [ask]}", "names no program"),
        ("{comand: [x], on: [ask]}", "did you mean command"),
        ("{command: [x], on: [ask], secret: {env: A}}", "only a webhook"),
        ("{webhook: 'https://a.example', on: [ask], secret: hunter2}", "never written into a configuration"),
        ("{webhook: 'https://a.example', on: [ask], token: abc}", "never written into a configuration"),
        ("{webhook: 'https://a.example', on: [ask], secret: {env: 'A B'}}", "no variable's name"),
        ("{webhook: 'https://a.example', on: [ask], secret: {file: secret}}", "no absolute path"),
        ("{webhook: 'https://a.example', on: [ask], secret: {env: A, file: /b}}", "needs either `env` or `file`"),
        ("{webhook: 'http://a.example', on: [ask]}", "not encrypted"),
        ("{webhook: 'https://a.example', on: [ask], body: xml}", "is not one of"),
        ("{command: [x], on: [ask], agents: ['a b']}", "not an agent's name"),
        ("text", "expected keys and values"),
    ],
)
def test_a_bad_entry_is_refused_with_its_line(entry: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(f"notify:\n- {entry}\n")
    assert words in f"{refused.value.message} {refused.value.hint}"
    assert "line 2" in refused.value.message


def test_a_secret_never_stands_in_an_error_about_it() -> None:
    with pytest.raises(ConfigError) as refused:
        read("notify:\n- {webhook: 'https://a.example', on: [ask], secret: hunter2}\n")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example",
        "http://a.example/x",
        "http://127.0.0.1.a.example",
        "https://",
        "https://me:word@a.example",
        "https://a.example/\r\nX: y",
        "https://a.example/a b",
        "https://a.example:port",
        "file:///etc/passwd",
        "//a.example",
        "",
    ],
)
def test_no_webhook_has_such_a_url(url: str) -> None:
    assert url_problem(url)


@pytest.mark.parametrize(
    "url", ["https://a.example/x?y=1", "http://127.0.0.1:80/", "http://localhost/x", "http://[::1]:9/"]
)
def test_a_webhook_is_https_or_on_loopback(url: str) -> None:
    assert url_problem(url) == ""
