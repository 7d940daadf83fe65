"""Delivers a notification by a signed POST request to a webhook, and decides which failures are worth another try."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from beam.base import files
from beam.base.errors import BeamError
from beam.config.notify import is_loopback, url_problem
from beam.model.notification import BodyFormat, Notification, NotifyTarget, ValueReference
from beam.notify.spool import TryResult

_TIMEOUT_S = 10
_LARGEST_VALUE = 4096
_SHOWN_CHARACTERS = 200
_RETRY_CODES = frozenset({408, 425, 429})  # the 4xx codes after which another try may succeed
_LONGEST_WAIT_S = 300


class ValueMissingError(Exception):
    """A variable or a file does not contain the value that a target needs."""


def value_of(place: ValueReference, environ: Mapping[str, str]) -> str:
    """Return the value of the variable, or the content of the file, which must be one line. Raises
    ValueMissingError."""
    if place.env is not None:
        found = environ.get(place.env, "")
        where = f"${place.env}"
    else:
        where = place.file or ""
        path = Path(environ.get("HOME", "/")) / where[2:] if where.startswith("~/") else Path(where)
        try:
            if path.stat().st_mode & 0o077:
                raise ValueMissingError(f"{where} can be read by other users: chmod 600 it")
            found = files.read(path, _LARGEST_VALUE, follow=True).decode(errors="replace")
        except (OSError, BeamError) as error:
            raise ValueMissingError(f"{where} can't be read: {error}") from error
    found = found.strip()
    if not found or not found.isprintable():
        raise ValueMissingError(f"{where} is empty, or holds more than one line")
    return found


def body_of(form: BodyFormat, notification: Notification) -> tuple[bytes, str]:
    """Return the body of the request in this form, and its content type."""
    if form == "text":
        return notification.text.encode(), "text/plain; charset=utf-8"
    if form == "slack":
        text = notification.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return msgspec.json.encode({"text": text}), "application/json"
    return msgspec.json.encode(notification), "application/json"


def headers_of(notification: Notification, body: bytes, *, timestamp: int, secret: str, token: str) -> dict[str, str]:
    """Return the headers of the request: the id, the time stamp, and the signature, which is HMAC-SHA256 of
    `TIMESTAMP.BODY` with the secret. With a token, also return a header for authorization."""
    headers = {
        "Idempotency-Key": notification.id,
        "Beam-Id": notification.id,
        "Beam-Timestamp": str(timestamp),
        "User-Agent": "beam",
    }
    if secret:
        signature = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, "sha256").hexdigest()
        headers["Beam-Signature"] = f"sha256={signature}"
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def post(target: NotifyTarget, notification: Notification, environ: Mapping[str, str], *, timestamp: int) -> TryResult:
    """Send the notification to the target's webhook once, and return the result of this try. Redirects are not
    followed."""
    try:
        url = (
            target.webhook if isinstance(target.webhook, str) else value_of(target.webhook or ValueReference(), environ)
        )
        secret = value_of(target.secret, environ) if target.secret else ""
        token = value_of(target.token, environ) if target.token else ""
    except ValueMissingError as error:
        return TryResult(error=str(error), again=False)
    problem = url_problem(url)
    if problem:
        return TryResult(error=f"the webhook {problem}", again=False)
    body, kind = body_of(target.body, notification)
    headers = headers_of(notification, body, timestamp=timestamp, secret=secret, token=token)
    local = is_loopback(urlsplit(url).hostname or "")
    return _post_request(url, body, {**headers, "Content-Type": kind}, local=local)


def _post_request(url: str, body: bytes, headers: Mapping[str, str], *, local: bool) -> TryResult:
    import urllib.error  # imports TLS, which no other command needs
    import urllib.request
    from http.client import HTTPException

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        """Treats a redirect as an error, because it leads to a place that was not configured."""

        def redirect_request(self, *_: object) -> None:
            return None

    request = urllib.request.Request(url, body, dict(headers), method="POST")
    proxies = urllib.request.ProxyHandler({}) if local else urllib.request.ProxyHandler()
    opener = urllib.request.build_opener(proxies, NoRedirects)
    try:
        with opener.open(request, timeout=_TIMEOUT_S):
            return TryResult()
    except urllib.error.HTTPError as error:
        with error:
            return result_of_status(error.code, error.headers.get("Retry-After", ""))
    except urllib.error.URLError as error:
        return TryResult(error=_error_text(error.reason), again="CERTIFICATE_VERIFY_FAILED" not in str(error.reason))
    except (OSError, HTTPException, ValueError) as error:
        return TryResult(error=_error_text(error))


def result_of_status(code: int, retry_after: str) -> TryResult:
    """Return the result of a try that got this HTTP status code, which does not mean success. `retry_after` is the
    Retry-After header."""
    if 300 <= code < 400:
        return TryResult(error=f"it answers {code}, and beam follows no redirect", again=False)
    wait_s = min(_LONGEST_WAIT_S, int(retry_after)) if retry_after.isascii() and retry_after.isdigit() else 0
    return TryResult(error=f"it answers {code}", again=code >= 500 or code in _RETRY_CODES, wait_s=wait_s)


def _error_text(error: object) -> str:
    text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return text[:_SHOWN_CHARACTERS] or type(error).__name__
