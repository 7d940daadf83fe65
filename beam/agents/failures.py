"""Finds the class of a model API's failure, from the HTTP status or the text that a CLI passed on.

The classes are the same for every CLI. Does not depend on the form in which a CLI prints a failure.
"""

from __future__ import annotations

import functools
import re

from beam.agents.base import document
from beam.agents.fields import obj, string
from beam.model.outcome import Class

_CLASS_BY_HTTP_STATUS = {
    400: Class.BAD_REQUEST,
    401: Class.AUTH,
    403: Class.AUTH,
    404: Class.BAD_REQUEST,
    408: Class.STALLED,
    413: Class.CONTEXT_OVERFLOW,
    429: Class.RATE_LIMIT,
    529: Class.OVERLOADED,
}
# These come first: Gemini's words for thoughts without an answer give advice about a full context, and a hook of the
# person's own may say anything.
_END_BY_PATTERN = (
    (r"model returned reasoning thoughts but no", Class.EMPTY),
    (r"(blocked|stopped) by (a )?hook|agent execution (stopped|blocked)", Class.STOPPED),
)
_CLASS_BY_PATTERN = (
    (r"context.{0,20}(length|window|limit|overflow)|prompt is too long|maximum context", Class.CONTEXT_OVERFLOW),
    # The CLIs' own words for an answer without any text.
    (
        (
            r"\b(model|api|llm)\b.{0,40}\bempty response\b|\bonly thinking content\b|no response was returned"
            r"|model returned no output"
        ),
        Class.EMPTY,
    ),
    (r"rate.?limit|quota|usage limit|too many requests", Class.RATE_LIMIT),
    (
        r"authenticat|unauthorized|invalid api key|api key|(not|must be) logged in|permission_error|forbidden",
        Class.AUTH,
    ),
    # These come before the next pattern: a client library may report an internal server error although it never reached
    # the server.
    (r"connection (error|refused)|econnrefused|connection attempts failed", Class.NETWORK),
    (r"overloaded|internal ?server ?error|service ?unavailable|bad gateway|server_error", Class.OVERLOADED),
    (r"timed? ?out|timeout", Class.STALLED),
    (r"econnreset|enotfound|socket hang up|apiconnection|network|premature close|terminated", Class.NETWORK),
    (r"connect(ion)? (error|refused|reset|to api|failed)|(unable to|cannot) connect|fetch failed", Class.NETWORK),
    (r"connection (was )?(closed|lost|aborted)|unexpected eof|incomplete (chunked )?read", Class.NETWORK),
    (r"server disconnected|name or service not known|name resolution|no route to host", Class.NETWORK),
    (r"model.{0,40}(not found|does not exist|unknown|not configured)", Class.BAD_REQUEST),
    (r"not.?found|bad.?request|invalid.?request", Class.BAD_REQUEST),
)
# The words of vendors whose content filter stopped the question or the answer.
_REFUSAL = re.compile(
    r"content.?(filter|policy violation)|content management policy|responsible.?ai.?policy|prohibited_content|"
    r"(blocked|flagged|rejected|stopped) (by|due to|because of|for).{0,40}(safety|content|policy|policies)|"
    r"(safety|content|usage) polic(y|ies) (blocked|flagged|rejected|stopped)|"
    r"violat(es|ed|ing|ion of).{0,40}(usage|content|safety) polic(y|ies)"
)
_HTTP_STATUS = re.compile(r"(?<![\w.-])([45]\d\d)(?![\w.-])")  # not inside an id or a version


@functools.lru_cache(maxsize=32)  # a CLI that retries reports the same failure again
def class_of(http_status: int | None, text: str) -> Class:
    """Return the class of a failure. Words about thoughts alone, a hook and a full context decide first, then
    `http_status`, then a status in the text, then other words in the text."""
    lowered, words = text.lower(), _compiled_patterns()
    for pattern, class_ in words[: len(_END_BY_PATTERN) + 1]:
        if pattern.search(lowered):
            return class_
    if http_status is None:
        written = _HTTP_STATUS.search(text)
        http_status = int(written[1]) if written else None
    if http_status is not None:
        known = _CLASS_BY_HTTP_STATUS.get(http_status)
        return known or (Class.OVERLOADED if http_status >= 500 else Class.BAD_REQUEST)
    return next((class_ for pattern, class_ in words if pattern.search(lowered)), Class.UNKNOWN)


def is_refusal(text: str) -> bool:
    """Return whether a failure's text says that a content filter stopped the turn. Such a turn counts as refused, not
    as failed."""
    return _REFUSAL.search(text[:2000].lower()) is not None


@functools.cache
def _compiled_patterns() -> tuple[tuple[re.Pattern[str], Class], ...]:
    """Return the compiled patterns. They are compiled when the first failure is classified."""
    return tuple((re.compile(pattern), class_) for pattern, class_ in (*_END_BY_PATTERN, *_CLASS_BY_PATTERN))


def unwrap_api_message(text: str) -> str:
    """Return the text of a failure. If the text ends with the API's answer in JSON, that JSON is replaced with the
    message inside it."""
    begin = text.find("{")
    if begin < 0:
        return text
    try:
        value = document(text[begin:].encode("utf-8", "replace"))
    except ValueError:
        return text
    if not isinstance(value, dict):
        return text
    message = string(obj(value, "error"), "message") or string(value, "message")
    return text[:begin] + message if message else text
