"""Removes secrets (keys, tokens, cookies) from a model call before it is stored. Ids and signatures stay unchanged.

The API checks the values that it issued itself (tool ids, signatures of thoughts). Such a value is therefore never
changed, even if it looks like a secret; only the request's own key is removed from it. No value in the input or the
result of a tool is treated as issued by the API. Equal requests always have equal stored forms. Does not depend on
files or sockets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlencode

from beam.base.typed_values import replace_surrogates
from beam.secrets.redact import may_contain_secret, redact, redact_pieces

DEEPEST = 64  # parts in each other; a recording may have them, too
CREDENTIALS = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key", "proxy-authorization", "cookie"})
# Fields whose values the API issued itself and must get back unchanged.
API_OWN_FIELDS = frozenset(
    {
        "id",
        "call_id",
        "tool_use_id",
        "tool_call_id",
        "item_id",
        "response_id",
        "previous_response_id",
        "responseId",
        "signature",
        "thoughtSignature",
        "thought_signature",
        "encrypted_content",
        "encrypted_index",
        "data",
    }
)
_TOOL_INPUT_FIELDS = frozenset({"input", "args", "arguments"})  # fields with a tool's input, if the input is an object
_BINARY = frozenset({"media_type", "mimeType", "mime_type", "format"})  # a field `data` beside one of these is binary
_QUERY_PARAMETERS = frozenset({"alt", "beta", "api-version", "$alt"})
_REQUEST_HEADERS = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta", "user-agent"}
)
ANSWER_HEADERS = frozenset(
    {"content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id"}
)
_SHORTEST = 16  # characters of a credential that is looked for in texts: a dummy like "test" is no secret
_DELTA_FIELDS = frozenset({"text", "thinking", "partial_json", "delta", "arguments", "content", "reasoning_content"})
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")  # the JSON escape of a UTF-16 surrogate, half a character
_TEXT_ID_FIELDS = ("index", "output_index", "content_index", "summary_index", "item_id")


def credentials(headers: Mapping[str, str], path: str = "") -> tuple[str, ...]:
    """Return the keys, tokens and cookies in a request's headers and in the query of its path. Values that are too
    short to be secret are left out."""
    found = []
    for name, value in headers.items():
        if name.lower() == "cookie":
            found += [each.strip().partition("=")[2] for each in value.split(";")]
        elif name.lower() in CREDENTIALS:
            found.append(value.strip().rpartition(" ")[2])
    found += [value for name, value in parse_qsl(path.partition("?")[2]) if name not in _QUERY_PARAMETERS]
    return tuple(value for value in found if len(value) >= _SHORTEST)


def request_headers(headers: Mapping[str, str], blanker: Blanker) -> dict[str, str]:
    """Return those headers of a request that may be stored, without secrets in their values."""
    return _without_keys(headers, _REQUEST_HEADERS, blanker)


def answer_headers(headers: Mapping[str, str], blanker: Blanker) -> dict[str, str]:
    """Return those headers of an answer that may be stored, without secrets in their values."""
    return _without_keys(headers, ANSWER_HEADERS, blanker)


def _without_keys(headers: Mapping[str, str], names: frozenset[str], blanker: Blanker) -> dict[str, str]:
    return {
        name.lower(): blanker.text(" ".join(value.split()))
        for name, value in sorted(headers.items())
        if name.lower() in names
    }


def stored_path(path: str, blanker: Blanker) -> str:
    """Return a request's path and query. Query parameters that may hold a key are removed."""
    bare, mark, query = path.partition("?")
    kept = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] in _QUERY_PARAMETERS] if mark else []
    return f"{blanker.text(bare)}?{blanker.text(urlencode(kept))}" if kept else blanker.text(bare)


class Blanker:
    """Removes secrets: texts that have the form of a secret, and the credentials of the request itself (`secrets`)."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = tuple(dict.fromkeys(secrets))

    def text(self, text: str) -> str:
        """Return the text without its secrets."""
        return _blanked(self.without_credentials(text))

    def without_credentials(self, text: str) -> str:
        """Return the text without the credentials of the request itself."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, "[redacted:credential]")
        return text

    def value(self, value: Any, data: bytes) -> Any:
        """Return a JSON value without its secrets; the same value if it has none. `data` are the bytes that the value
        was parsed from. A lone UTF-16 surrogate, which UTF-8 can't encode, becomes a replacement character."""
        if _HALF_CHARACTER.search(data):
            value = map_strings(value, replace_surrogates, replace_surrogates)
        return map_strings(value, self.text, self.without_credentials) if self._may_be_in(data) else value

    def event(self, event: bytes) -> bytes:
        """Return one server-sent event without its secrets, unchanged if it has none."""
        return map_event(event, self.text, self.without_credentials) if self._may_be_in(event) else event

    def body(self, data: bytes) -> bytes:
        """Return the body of an answer without its secrets, whether it is JSON or not."""
        value = json_of(data)
        if value is None:
            return self.text(data.decode("latin-1")).encode("latin-1", "replace")
        blanked = self.value(value, data)
        return data if blanked == value else _dump(blanked)

    def _may_be_in(self, data: bytes) -> bool:
        if may_contain_secret(data):
            return True
        is_escaped = b"\\u00" in data or b"\\/" in data
        return bool(self._secrets) and (is_escaped or any(secret.encode() in data for secret in self._secrets))

    def without_split_secrets(self, events: Sequence[bytes]) -> list[bytes] | None:
        """Return the events of one answer without the secrets that are spread over several events; None if there is no
        such secret. A secret is blanked in the event where it begins."""
        return rewrite(events, self._pieces)

    def _pieces(self, pieces: list[str]) -> list[str]:
        whole = "".join(pieces)
        after = redact_pieces(pieces) if may_contain_secret(whole.encode("utf-8", "replace")) else pieces
        for secret in self._secrets:
            if secret in (joined := "".join(after)):
                after = [joined.replace(secret, "[redacted:credential]"), *[""] * (len(after) - 1)]
        return after


def json_of(data: bytes) -> Any:
    """Return the value of a JSON text; None if the bytes are not JSON, or are nested deeper than any request of a CLI
    and could not be walked."""
    try:
        value = json.loads(data) if data else None
    except (ValueError, RecursionError):
        return None
    level = [value]
    for _ in range(DEEPEST):
        level = [part for each in level if isinstance(each, list | dict) for part in _parts(each)]
        if not level:
            return value
    return None


def _parts(value: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def rewrite(events: Sequence[bytes], change: Callable[[list[str]], list[str]]) -> list[bytes] | None:
    """Return the events of a stream with their texts changed; None if nothing changed. A text may be split into pieces
    in several events: `change` is called with all pieces of one text, and must return the same number of pieces."""
    parts = [split_event(event) for event in events]
    texts: dict[tuple[object, ...], list[tuple[int, Any, str]]] = {}
    for number, (_, value, _) in enumerate(parts):
        for place, holder, key in _pieces(value):
            texts.setdefault(place, []).append((number, holder, key))
    touched = set[int]()
    for found in texts.values():
        before = [holder[key] for _, holder, key in found]
        for (number, holder, key), old, new in zip(found, before, change(before), strict=True):
            if old != new:
                holder[key] = new
                touched.add(number)
    if not touched:
        return None
    return [
        head + _dump(value) + end if number in touched else events[number]
        for number, (head, value, end) in enumerate(parts)
    ]


def map_event(event: bytes, change: Callable[[str], str], whole: Callable[[str], str] | None = None) -> bytes:
    """Return one event with its strings changed by `change`. Strings that the API must get back exactly as it sent them
    are changed by `whole` instead or, without `whole`, not at all."""
    head, value, end = split_event(event)
    if value is None:
        return change(event.decode("utf-8", "replace")).encode()
    after = map_strings(value, change, whole)
    return event if after == value else head + _dump(after) + end


@lru_cache(maxsize=4096)
def _blanked(text: str) -> str:
    return redact(text)[0]


def map_strings(value: Any, change: Callable[[str], str], whole: Callable[[str], str] | None = None) -> Any:
    """Return a JSON value with each string and each name changed by `change`. Strings that the API must get back
    exactly as it sent them are changed by `whole` instead or, without `whole`, not at all."""
    keep = whole or _unchanged

    def mapped(value: Any, key: str, *, is_tools: bool) -> Any:
        if isinstance(value, str):
            return keep(value) if key in API_OWN_FIELDS and not is_tools else change(value)
        if isinstance(value, list):
            return [mapped(item, "" if isinstance(item, dict) else key, is_tools=is_tools) for item in value]
        if isinstance(value, dict):
            is_tools = is_tools or key in _TOOL_INPUT_FIELDS
            return {
                change(name): mapped(
                    item,
                    name,
                    is_tools=is_tools or (name == "data" and not _is_binary(value)) or _is_tool_response(key, name),
                )
                for name, item in value.items()
            }
        return value

    return mapped(value, "", is_tools=False)


def _is_tool_response(key: str, name: str) -> bool:
    """Return whether the field `name` of the object at `key` holds the result of a tool, in Gemini's wire format."""
    return key in ("functionResponse", "function_response") and name == "response"


def _is_binary(holder: Mapping[str, Any]) -> bool:
    return not _BINARY.isdisjoint(holder) or holder.get("type") in ("base64", "redacted_thinking")


def _unchanged(text: str) -> str:
    return text


def split_event(event: bytes) -> tuple[bytes, Any, bytes]:
    """Return the text before an event's JSON, the JSON's value (None: there is none), and the text after it."""
    start = 0 if event.startswith(b"data:") else event.find(b"\ndata:") + 1
    if start == 0 and not event.startswith(b"data:"):
        return event, None, b""
    start += len(b"data:")
    if event[start : start + 1] == b" ":
        start += 1
    stop = len(event.rstrip())
    value = json_of(event[start:stop])
    return (event, None, b"") if value is None else (event[:start], value, event[stop:])


def _pieces(value: Any) -> list[tuple[tuple[object, ...], Any, str]]:
    """Return the pieces of texts in an event, each as (identifier of the text, object that holds the piece, key in that
    object)."""
    found: list[tuple[tuple[object, ...], Any, str]] = []

    def collect(holder: Any, place: tuple[object, ...]) -> None:
        if isinstance(holder, list):
            for item in holder:
                collect(item, place)
        elif isinstance(holder, dict):
            here = (*place, *(holder.get(name) for name in _TEXT_ID_FIELDS if isinstance(holder.get(name), (int, str))))
            for key, item in holder.items():
                if isinstance(item, str) and key in _DELTA_FIELDS:
                    found.append(((*here, key), holder, key))
                elif isinstance(item, (dict, list)):
                    collect(item, (*here, key))

    kind = value.get("type") if isinstance(value, dict) else None
    if kind is None or str(kind).endswith("delta"):
        collect(value, ())
    return found


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
