"""The parts of a prompt besides the text of the message: the system prompt, if the agent has no other place for it, the
schema of the answer, and attached files.

An image becomes an image, a text a resource with its content, any other file a link. If an agent takes no resources, a
text becomes a link. For some agents, all files except images become text.
"""

from __future__ import annotations

import base64

from beam.agents.base import Content, Turn
from beam.agents.fields import Object
from beam.base.digest import sha256
from beam.base.typed_values import replace_surrogates

_SYSTEM_TEXT = "Instructions for all of this session, not only for this message:\n\n{}\n\n"
_CHANGED_SYSTEM_TEXT = "New instructions for all of this session, in place of the earlier ones:\n\n{}\n\n"
_SCHEMA_TEXT = "\n\nAnswer with one JSON value that follows this JSON Schema, and with no other text:\n\n{}\n"


def system_digest(turn: Turn) -> str:
    """Return the digest of the system prompt with which the turn's message has to begin; "" if there is no system
    prompt, or if the session has it already."""
    system = turn.settings.system
    if not system:
        return ""
    digest = sha256(replace_surrogates(system).encode()).hexdigest()
    return "" if digest == turn.told else digest


def parts_before(turn: Turn) -> list[Object]:
    """Return the part of the prompt that comes before the message: the system prompt, unless the session has it
    already."""
    if not system_digest(turn):
        return []
    return [text_part((_SYSTEM_TEXT if turn.told is None else _CHANGED_SYSTEM_TEXT).format(turn.settings.system))]


def parts_after(turn: Turn) -> list[Object]:
    """Return the part of the prompt that comes after the message: the schema of its answer, if it has one."""
    return [] if turn.schema is None else [text_part(_SCHEMA_TEXT.format(turn.schema))]


def text_part(text: str) -> Object:
    """Return a text as a part of a prompt."""
    return {"type": "text", "text": replace_surrogates(text)}


_UNESCAPED_BYTES = frozenset(b"/-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def file_parts(turn: Turn, takes: Object, *, as_text: bool = False) -> list[Object]:
    """Return the part of the prompt for each attached file. `takes` is the agent's `promptCapabilities`. A text becomes
    a link if the agent takes no resources; every agent takes links. A file whose content was not read becomes a link,
    too. `as_text`: all files except images become text."""
    contents = {content.path: content for content in turn.contents}
    return [_file_part(path, contents.get(path), takes, as_text=as_text) for path in turn.attach]


def refused_image(turn: Turn, takes: Object) -> str:
    """Return the path of the first attached image, if the agent takes no images; "" if all files can be sent."""
    if takes.get("image") is True:
        return ""
    return next((content.path for content in turn.contents if content.image), "")


def _file_part(path: str, content: Content | None, takes: Object, *, as_text: bool) -> Object:
    uri, name = uri_of(path), replace_surrogates(path.rpartition("/")[2])
    if content is not None and content.image:
        data = base64.b64encode(content.data).decode()
        return {"type": "image", "mimeType": content.image, "data": data, "uri": uri}
    text = None if content is None else _decode_text(content.data)
    if as_text:
        said = "" if text is None else f"\n\n{text}"
        return text_part(f"\n\nAttached file: {path}{said}\n")
    if text is None or takes.get("embeddedContext") is not True:
        return {"type": "resource_link", "uri": uri, "name": name}
    return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": text}}


def _decode_text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def uri_of(path: str) -> str:
    """Return the URI of a file."""
    return "file://" + "".join(
        chr(byte) if byte in _UNESCAPED_BYTES else f"%{byte:02X}" for byte in path.encode("utf-8", "replace")
    )
