"""What a webhook is sent, and what its answers mean."""

from __future__ import annotations

import hmac
import json
from pathlib import Path

import pytest

from beam.model.notification import Notification, NotifyTarget, ValueReference
from beam.notify import webhook
from beam.notify.webhook import ValueMissingError

TOLD = Notification(id="turn-m-1", event="failed", at="t", agent="a", project="/p", text="a <b> & c")


def test_the_signature_is_of_the_time_stamp_a_point_and_the_body() -> None:
    body, _ = webhook.body_of("json", TOLD)
    headers = webhook.headers_of(TOLD, body, timestamp=1700000000, secret="word", token="")
    expected = hmac.new(b"word", b"1700000000." + body, "sha256").hexdigest()
    assert headers["Beam-Signature"] == f"sha256={expected}"
    assert headers["Beam-Timestamp"] == "1700000000"
    assert headers["Idempotency-Key"] == headers["Beam-Id"] == json.loads(body)["id"] == "turn-m-1"


def test_without_a_secret_nothing_is_signed_and_without_a_token_nobody_is_named() -> None:
    headers = webhook.headers_of(TOLD, b"", timestamp=1, secret="", token="")
    assert not {"Beam-Signature", "Authorization"} & set(headers)
    assert webhook.headers_of(TOLD, b"", timestamp=1, secret="", token="t")["Authorization"] == "Bearer t"


def test_each_form_of_the_body_holds_the_sentence() -> None:
    assert webhook.body_of("text", TOLD)[0] == b"a <b> & c"
    assert json.loads(webhook.body_of("slack", TOLD)[0]) == {"text": "a &lt;b&gt; &amp; c"}
    assert json.loads(webhook.body_of("json", TOLD)[0])["text"] == "a <b> & c"


@pytest.mark.parametrize("code", [500, 502, 503, 429, 408, 425])
def test_an_answer_that_another_try_may_change_is_tried_again(code: int) -> None:
    assert webhook.result_of_status(code, "").again


@pytest.mark.parametrize("code", [301, 302, 307, 308, 400, 401, 403, 404, 410])
def test_a_redirect_and_a_refusal_are_not_tried_again(code: int) -> None:
    assert not webhook.result_of_status(code, "").again


@pytest.mark.parametrize(("text", "seconds"), [("7", 7), ("99999999", 300), ("-1", 0), ("soon", 0), ("٣", 0), ("", 0)])
def test_how_long_an_answer_asks_to_wait_is_bounded(text: str, seconds: int) -> None:
    assert webhook.result_of_status(503, text).wait_s == seconds


def test_a_value_comes_from_a_variable_or_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("word\n")
    file.chmod(0o600)
    assert webhook.value_of(ValueReference(env="S"), {"S": "word"}) == "word"
    assert webhook.value_of(ValueReference(file=str(file)), {}) == "word"
    assert webhook.value_of(ValueReference(file="~/secret"), {"HOME": str(tmp_path)}) == "word"


@pytest.mark.parametrize("content", ["", "  \n", "two\nlines", "a\rb"])
def test_a_value_that_is_no_single_line_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "secret"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(ValueMissingError):
        webhook.value_of(ValueReference(file=str(file)), {})


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("word")
    file.chmod(0o644)
    with pytest.raises(ValueMissingError, match="other users"):
        webhook.value_of(ValueReference(file=str(file)), {})
    with pytest.raises(ValueMissingError, match="can't be read"):
        webhook.value_of(ValueReference(file=str(tmp_path / "none")), {})
    with pytest.raises(ValueMissingError):
        webhook.value_of(ValueReference(env="NONE"), {})


def test_a_url_from_a_variable_is_checked_as_one_in_a_configuration() -> None:
    target = NotifyTarget(webhook=ValueReference(env="HOOK"), on=("ask",))
    tried = webhook.post(target, TOLD, {"HOOK": "http://a.example/x"}, timestamp=1)
    assert (tried.again, "not encrypted" in tried.error) == (False, True)
