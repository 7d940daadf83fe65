"""Makes events of the images that an agent shows and its tools return: the type and size of each image, and its content
as a `data:` link in `path`.

A turn writes the content to a file before it records the event (`beam.turns.images`); all other code removes the
content with `without_image_data`. This module reads the content blocks of all protocols: of the Messages API, the Model
Context Protocol (which ACP uses, too) and the Responses API. It does not decode images.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import structs

from beam.agents.fields import Object, obj, object_of, string
from beam.model.events import Event, ImageSeen, Unknown

# Patterns as text are compiled at their first use: few turns need them.
_MEDIA_TYPE = r"image/[\w.+-]{1,64}\Z"
_DATA_URL = r"data:([\w/.+-]{0,80})[^,]{0,80},"
_LONG_BASE64 = r"[A-Za-z0-9+/]{512,}={0,2}"
_BASE64 = r"[A-Za-z0-9+/]+={0,2}\Z"
# The first bytes of a PNG, a JPEG, a GIF or a WebP, as base64.
_PICTURE = r'(?<=[",])(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR)[A-Za-z0-9+/]{512,}={0,2}(?=")'
_MAX_LINK_LENGTH = 2000
_LONG_LINE = 600  # characters of a line that may contain a picture
DATA_PREFIX = "data:"  # the beginning of `path` while it holds the image's content
E = TypeVar("E", bound=Event)


def images_in(blocks: Iterable[object], *, call_id: str | None = None, parent: str | None = None) -> list[ImageSeen]:
    """Return the images among content blocks; `call_id` is the call that returned them."""
    found = (image_in_block(object_of(block), call_id=call_id, parent=parent) for block in blocks)
    return [image for image in found if image is not None]


def image_in_block(block: Object, *, call_id: str | None = None, parent: str | None = None) -> ImageSeen | None:
    """Return the image that a content block contains or links to; None for any other block."""
    match string(block, "type"):
        case "image":
            source = obj(block, "source") or block
            data = string(source, "data")
            type_ = string(source, "media_type") or string(block, "mimeType")
            at = string(block, "uri") or string(source, "url") or string(source, "file_id")
        case "inputImage" | "input_image":
            url = block.get("imageUrl", block.get("image_url"))
            data, type_, at = "", "", url if isinstance(url, str) else ""
        case "resource" | "resource_link":
            resource = obj(block, "resource") or block
            data, type_, at = string(resource, "blob"), string(resource, "mimeType"), string(resource, "uri")
            if not type_.startswith("image/"):
                return None
        case _:
            return None
    return image_event(data=data, media_type=type_, at=at, call_id=call_id, parent=parent)


def image_event(
    *, data: str = "", media_type: str = "", at: str = "", call_id: str | None = None, parent: str | None = None
) -> ImageSeen:
    """Return the event of an image. `data` is its content in base64, `at` its file or link. If `at` is a `data:` link,
    the content is taken from it."""
    inline = re.match(_DATA_URL, at)
    if inline is not None:
        data, media_type, at = data or at[inline.end() :], media_type or inline[1], ""
    return ImageSeen(
        media_type=media_type if re.match(_MEDIA_TYPE, media_type) else "",
        bytes=decoded_size(data) if data else None,
        at=at if len(at) <= _MAX_LINK_LENGTH else "",
        path=f"{DATA_PREFIX}{media_type if re.match(_MEDIA_TYPE, media_type) else ''};base64,{data}" if data else "",
        call_id=call_id,
        parent=parent,
    )


def content_of(image: ImageSeen) -> str:
    """Return the image's content as base64; "" if the event has none."""
    return image.path.partition(",")[2] if image.path.startswith(DATA_PREFIX) else ""


def without_image_data(event: E) -> E:
    """Return the event without the content of its image, for a caller that does not store that content."""
    if isinstance(event, ImageSeen) and event.path.startswith(DATA_PREFIX):
        return structs.replace(event, path="")
    return event


def replace_image_data(line: str, emitted: Sequence[object]) -> str:
    """Return the CLI's own line with image content replaced by its size: the content of the images among the line's
    events, and of any other picture.

    The line stays JSON. A line whose event is `Unknown` keeps its pictures, because no other event repeats its content.
    """
    for image in emitted:
        data = content_of(image) if isinstance(image, ImageSeen) else ""
        if data and re.match(_BASE64, data):
            line = line.replace(f'{data}"', f'[{decoded_size(data)} bytes]"')
    if len(line) > _LONG_LINE and not isinstance(emitted[0], Unknown):
        line = re.sub(_PICTURE, lambda found: f"[{decoded_size(found[0])} bytes]", line)
    return line


def decoded_size(data: str) -> int:
    """Return the number of bytes that a base64 text encodes."""
    return max(0, len(data) * 3 // 4 - data[-2:].count("="))


def replace_base64(text: str) -> str:
    """Return the text with its base64 content replaced by its size, so that a person can read the rest."""
    return re.sub(_LONG_BASE64, lambda found: f"[{decoded_size(found[0])} bytes]", text)
