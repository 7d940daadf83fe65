"""Writes JSON values as text that a person reads. Does not depend on any CLI."""

from __future__ import annotations

import json


def json_text(value: object) -> str:
    """Return the value as JSON. What could just be read may be nested too deeply to be written; then return words that
    say so."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "[nested too deeply]"
