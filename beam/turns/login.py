"""Finds the login link that an agent's CLI printed in a turn that failed because nobody is logged in.

The CLI may only repeat a link from elsewhere, so a link is shown to a person and never followed. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from beam.model import events

# Patterns as text are compiled at their first use: few turns need them.
_LINK = r"https?://[A-Za-z0-9\[][!#-&(-;=?-Z_a-z~\[\]]{3,2000}"  # characters of an address; no quotes, no <>
_LOGIN_WORDS = r"(?i)log-?in|sign-?in|auth|device|activate|verif|account|api-?key|console"
_COLOURS = r"\x1b\[[0-9;]*[A-Za-z]|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)"
_TRAILING_MARKS = ".,;:!?)]"
_MAX_TEXTS = 16
_MAX_TEXT_CHARS = 8192


def login_link_in(texts: Iterable[str]) -> str | None:
    """Return the first link whose words show that it is for logging in, else the first link; None if there is none."""
    found = [
        link.rstrip(_TRAILING_MARKS)
        for text in texts
        for link in re.findall(_LINK, re.sub(_COLOURS, "", text[-_MAX_TEXT_CHARS:]))
    ]
    return next((link for link in found if re.search(_LOGIN_WORDS, link)), found[0] if found else None)


def asks_to_log_in(text: str) -> bool:
    """Return whether the text has a link whose words show that it is for logging in."""
    link = login_link_in((text,))
    return link is not None and re.search(_LOGIN_WORDS, link) is not None


class CliTexts:
    """The texts of the CLI itself in a turn that contain a link: its notices, status and errors. Texts of its model or
    of a tool are left out."""

    types = (events.Notice, events.StatusChanged, events.AgentExited)

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add_text(self, event: events.Notice | events.StatusChanged | events.AgentExited) -> None:
        """Remember the CLI's text in this event, if it contains a link."""
        match event:
            case events.Notice():
                text = event.text
            case events.StatusChanged():
                text = event.detail
            case events.AgentExited():
                text = event.stderr_tail
        if "://" in text:
            self.texts = [*self.texts[-_MAX_TEXTS:], text]
