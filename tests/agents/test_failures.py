"""A failing API has the same class whichever CLI passed it on."""

from __future__ import annotations

import pytest

from beam.agents.failures import class_of, is_refusal, unwrap_api_message
from beam.model.outcome import Class


@pytest.mark.parametrize(
    ("http_status", "class_"),
    [
        (400, Class.BAD_REQUEST),
        (401, Class.AUTH),
        (403, Class.AUTH),
        (404, Class.BAD_REQUEST),
        (408, Class.STALLED),
        (413, Class.CONTEXT_OVERFLOW),
        (422, Class.BAD_REQUEST),
        (429, Class.RATE_LIMIT),
        (500, Class.OVERLOADED),
        (503, Class.OVERLOADED),
        (529, Class.OVERLOADED),
    ],
)
def test_the_apis_status_decides_and_so_does_one_in_the_text(http_status: int, class_: Class) -> None:
    assert class_of(http_status, "") is class_
    assert class_of(None, f"{http_status} it failed") is class_


@pytest.mark.parametrize(
    ("text", "class_"),
    [
        ("The context length of this model is 100 tokens", Class.CONTEXT_OVERFLOW),
        ("rate limit reached", Class.RATE_LIMIT),
        ("litellm.AuthenticationError: no", Class.AUTH),
        ("No authentication information found.", Class.AUTH),
        ("✗ You must be logged in to send messages. Please run /login", Class.AUTH),
        ("Not logged in · Please run /login", Class.AUTH),
        ("connect ECONNREFUSED 127.0.0.1:1", Class.NETWORK),
        ("Connection error.", Class.NETWORK),
        ("All connection attempts failed", Class.NETWORK),
        ("[Errno -2] Name or service not known", Class.NETWORK),
        ("Server disconnected without sending a response.", Class.NETWORK),
        ("litellm.InternalServerError: InternalServerError: OpenAIException - Connection error.", Class.NETWORK),
        ("litellm.InternalServerError: InternalServerError: OpenAIException - it rained", Class.OVERLOADED),
        ("Cannot connect to API: The socket connection was closed unexpectedly", Class.NETWORK),
        ("Request timed out", Class.STALLED),
        ("model x does not exist", Class.BAD_REQUEST),
        ('Model "x" is not configured in config.toml.', Class.BAD_REQUEST),
        ("it rained", Class.UNKNOWN),
        ("port 14010 of 4.5 and 123456", Class.UNKNOWN),
    ],
)
def test_without_a_status_the_words_decide(text: str, class_: Class) -> None:
    assert class_of(None, text) is class_


def test_a_status_says_more_than_the_words_beside_it() -> None:
    assert class_of(None, "503 upstream connect error: connection refused") is Class.OVERLOADED


def test_a_context_overflow_is_one_whatever_the_status() -> None:
    assert class_of(400, "maximum context length is 10 tokens") is Class.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    "text",
    [
        "Error code: 400 - {'error': {'code': 'content_filter', 'message': 'The response was filtered'}}",
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "API Error: Output blocked by content filtering policy",
        "Your request was flagged as potentially violating our usage policy",
        "finishReason: PROHIBITED_CONTENT",
        "The prompt was blocked due to SAFETY",
        "This request violates our usage policies",
    ],
)
def test_what_a_content_filter_stopped_is_a_refusal(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "Error code: 400 - invalid content type",
        "connection blocked by the firewall",
        "400 The `content` field is missing",
        "rejected: your credit balance is too low",
        "",
    ],
)
def test_another_failure_is_none(text: str) -> None:
    assert not is_refusal(text)


@pytest.mark.parametrize(
    ("words", "class_"),
    [
        (
            "context window, context size limit, context length, context overflow, maximum context",
            Class.CONTEXT_OVERFLOW,
        ),
        ("rate limit, rate-limit, ratelimit, quota, usage limit, too many requests", Class.RATE_LIMIT),
        ("authentication, unauthorized, invalid api key, not logged in, permission_error, forbidden", Class.AUTH),
        ("overloaded, internal server error, service unavailable, bad gateway, server_error", Class.OVERLOADED),
        ("timed out, time out, timedout, timeout", Class.STALLED),
        ("econnreset, enotfound, socket hang up, apiconnection, premature close, terminated", Class.NETWORK),
        ("connection error, connect refused, unable to connect, cannot connect, fetch failed", Class.NETWORK),
        ("connection was closed, connection lost, unexpected eof, incomplete chunked read", Class.NETWORK),
        ("server disconnected, name or service not known, no route to host", Class.NETWORK),
        ("model x not found, model does not exist, model unknown, bad request, not found", Class.BAD_REQUEST),
    ],
)
def test_each_of_these_words_decides_alone(words: str, class_: Class) -> None:
    assert {word: class_of(None, f"it said {word} again") for word in words.split(", ")} == dict.fromkeys(
        words.split(", "), class_
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"error": {"code": 400, "message": "no such model"}}', "no such model"),
        ('401: {"message": "wrong key"}', "401: wrong key"),
        ('400 {"error": {"code": 400}}', '400 {"error": {"code": 400}}'),
        ('use {"a": 1} or {"b": 2}', 'use {"a": 1} or {"b": 2}'),
        ("{nothing", "{nothing"),
        ("no body", "no body"),
    ],
)
def test_the_apis_answer_at_the_end_of_a_failure_is_its_message_alone(text: str, message: str) -> None:
    assert unwrap_api_message(text) == message
