"""Reads attached files, for a mode that sends the agent their content and not their path.

Does not depend on how the content is sent.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import structs

from beam.agents.base import Content, Turn
from beam.base import files
from beam.base.errors import BeamError, UnsupportedError

MAX_FILE_BYTES = 10 * 1024 * 1024  # of one file
MAX_TOTAL_BYTES = 20 * 1024 * 1024
_IMAGE_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def with_contents(turn: Turn, *, follow: bool) -> Turn:
    """Return the turn with the contents of its attached files. `follow`: a path may lead through symbolic links.

    Raises UnsupportedError if a file can't be read or is too large, or if the files together are too large.
    """
    found: list[Content] = []
    for path in turn.attach:
        try:
            data = _read(path, follow=follow)
        except (BeamError, OSError, ValueError) as error:
            raise UnsupportedError(f"can't attach {path}: {error}", subject=path) from error
        found.append(Content(path=path, image=image_media_type(data), data=data))
        if sum(len(content.data) for content in found) > MAX_TOTAL_BYTES:
            raise UnsupportedError(
                f"can't attach {path}: the files together are larger than 20 MiB",
                "attach fewer, or name their paths in the text",
                subject=path,
            )
    return structs.replace(turn, contents=tuple(found))


def _read(path: str, *, follow: bool) -> bytes:
    handle = files.open_to_read(path, follow=follow)
    try:
        if not follow and str(Path(f"/proc/self/fd/{handle}").readlink()) != path:  # a folder above it became a link
            raise UnsupportedError("it is not the file that was attached", subject=path)
        data = files.read_content(handle, os.fstat(handle).st_size, MAX_FILE_BYTES)
    finally:
        os.close(handle)
    if data is None:
        raise UnsupportedError("it is larger than 10 MiB", "name its path in the text", subject=path)
    return data


def image_media_type(data: bytes) -> str:
    """Return the media type of an image, judged by its first bytes; "" for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media for magic, media in _IMAGE_SIGNATURES.items() if data.startswith(magic)), "")
