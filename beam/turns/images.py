"""Writes the images that an agent sends into files of their own, before their events are recorded.

A file is named by its content, and its suffix follows from its first bytes, never from what the agent says. If an image
can't be kept, its event says why, and the turn continues. Does not depend on which CLI the image comes from.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import structs

from beam.agents.images import DATA_PREFIX, content_of, decoded_size
from beam.base import files
from beam.base.digest import sha256
from beam.base.errors import DiskError
from beam.model.events import Event, ImageSeen, TurnFinished
from beam.secrets.redact import find_secrets
from beam.turns.attached import image_media_type

SUFFIXES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
MAX_IMAGE_BYTES = 16 * 1024 * 1024  # of one image
MAX_TURN_BYTES = 64 * 1024 * 1024  # of all images of a turn
_NAME_DIGITS = 32  # of the SHA-256
_EMBEDDED_TEXT = rb"[\x20-\x7e\n\t]{16,}"  # text in an image, such as its comments


class ImageFiles:
    """Moves the content of an image from its event to a file in `folder`, which lies in the agent's directory (a
    `pieces.EventChange`)."""

    types = (ImageSeen, TurnFinished)

    def __init__(self, folder: Path, agent_dir: Path) -> None:
        self._folder = folder
        self._agent_dir = agent_dir
        self._files: dict[str, None] = {}
        self._bytes = 0

    def __call__(self, body: Event) -> Event:
        """Return an image's event with the file of the image, an outcome with the files of all images, any other event
        unchanged."""
        if isinstance(body, ImageSeen) and body.path.startswith(DATA_PREFIX):
            return self._store_image(body)
        if isinstance(body, TurnFinished) and self._files:
            return structs.replace(body, images=tuple(self._files))
        return body

    def _store_image(self, image: ImageSeen) -> ImageSeen:
        """Return the event with the file of its content, or with the reason why there is none."""
        from base64 import b64decode  # not at the start of each turn: few have an image

        encoded = content_of(image)
        image = structs.replace(image, path="")
        if decoded_size(encoded) > MAX_IMAGE_BYTES:
            return structs.replace(image, unkept=f"it is larger than {_mib(MAX_IMAGE_BYTES)}")
        try:
            data = b64decode(encoded, validate=True)
        except ValueError:
            return structs.replace(image, unkept="its content is damaged")
        media_type = image_media_type(data)
        image = structs.replace(image, bytes=len(data), media_type=media_type or image.media_type)
        if not media_type:
            return structs.replace(image, unkept="it is no PNG, JPEG, GIF or WebP")
        if find_secrets("\n".join(words.decode() for words in re.findall(_EMBEDDED_TEXT, data))):
            return structs.replace(image, unkept="a secret is written in it")
        path = self._folder / f"{sha256(data).hexdigest()[:_NAME_DIGITS]}.{SUFFIXES[media_type]}"
        name = str(path.relative_to(self._agent_dir))
        if name not in self._files:
            if self._bytes + len(data) > MAX_TURN_BYTES:
                return structs.replace(
                    image, unkept=f"the turn's images are larger than {_mib(MAX_TURN_BYTES)} together"
                )
            try:
                _write(path, data)
            except DiskError as error:
                return structs.replace(image, unkept=error.message)
            self._files[name] = None
            self._bytes += len(data)
        return structs.replace(image, path=name)


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"


def _write(path: Path, data: bytes) -> None:
    files.make_directory(path.parent)
    with files.disk_action("open", path.parent):
        os.close(files.open_directory(path.parent, follow=False))
        if path.is_file() and not path.is_symlink() and path.stat().st_size == len(data):
            return
    files.replace(path, data)
