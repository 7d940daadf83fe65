"""Writes JSON values as text that a person reads. Does not depend on any CLI."""

from __future__ import annotations

import json


def json_text(value: object) -> str:
    """Return the value as JSON, or a note if it is nested too deeply to be written."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "[nested too deeply]"
