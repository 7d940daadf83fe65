"""Checks a message before beam sends it to a member of a team: the text must not be a frame (a control message of
Claude Code's team protocol), and the sender's name must not be the name of a member."""

from __future__ import annotations

import json
import re

from beam.base.errors import UsageError
from beam.teams.model import LEAD, Roster

MEMBER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
LONGEST = 256 * 1024  # characters of a message
_INVISIBLE_ENDS = re.compile(r"\A[\s\ufeff\u200b-\u200f\u2060\x00-\x20]+|[\s\ufeff\u200b-\u200f\u2060\x00-\x20]+\Z")


def check_text(text: str) -> str:
    """Return the text of a message unchanged. Raises UsageError if it is empty, too long, or a frame of the team
    protocol."""
    if not text.strip():
        raise UsageError("there is nothing to send")
    if len(text) > LONGEST:
        raise UsageError(f"a message of {len(text):,} characters is too long", f"at most {LONGEST:,}")
    if is_frame(text):
        raise UsageError(
            "the text is a frame of the team's own protocol, and beam sends none", "write it as a sentence"
        )
    return text


def is_frame(text: str) -> bool:
    """Return whether some JSON parser might take the text for a frame of the team protocol: an object with a `type`.

    Surrounding white space and invisible characters do not hide a frame, nor do very long numbers. An object that is
    nested too deeply to be parsed counts as a frame.
    """
    bare = _INVISIBLE_ENDS.sub("", text)
    if not bare.startswith("{"):
        return False
    try:
        value = json.loads(bare, parse_int=str)
    except RecursionError:
        return True
    except ValueError:
        return False
    return isinstance(value, dict) and "type" in value


def check_sender(name: str, roster: Roster) -> str:
    """Return the sender's name unchanged. Raises UsageError if it has invalid characters or is the name of a member."""
    if not MEMBER_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name", "use letters, digits, _ and -", subject=name)
    if name == LEAD or roster.member(name) is not None:
        raise UsageError(f"{name} is a member of the team", "use a name of your own", subject=name)
    return name
