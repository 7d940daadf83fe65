"""Facts about a version of an agent CLI: whether beam's tests ran with it, and whether its protocol is broken.

Pure: a version is the text that the CLI prints. Does not depend on how beam got that text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam.agents.base import BrokenVersion

_VERSION_NUMBER = r"\d{1,9}(?:\.\d{1,9})+"


def untested_note(version: str, tested: Sequence[str]) -> str:
    """Return a note about a version that beam was not tested with; "" for a tested or an unknown version."""
    if (
        not tested
        or not version
        or version in tested
        or _number_parts(version) in [_number_parts(each) or None for each in tested]
    ):
        return ""
    newest = max(tested, key=_number_parts)
    found = re.search(_VERSION_NUMBER, version)
    if found is None:
        return f"its version is not the tested {newest}"
    than = "newer" if _number_parts(found[0]) > _number_parts(newest) else "older"
    return f"{than} than {newest}, which beam was tested with"


def version_number(version: str) -> str:
    """Return the version number in the text that a CLI prints, "" if there is none."""
    found = re.search(_VERSION_NUMBER, version)
    return found[0] if found else ""


def what_is_broken(version: str, known: Sequence[BrokenVersion]) -> str:
    """Return what does not work in the protocol of this version, "" if no such problem is known."""
    number = _number_parts(version)
    for each in known:
        if number and _number_parts(each.first) <= number <= _number_parts(each.last or each.first):
            return each.what
    return ""


def _number_parts(version: str) -> tuple[int, ...]:
    number = version_number(version)
    return tuple(int(part) for part in number.split(".")) if number else ()
