"""The styles of the board by name. They use only the terminal's own sixteen colours, and no colour if NO_COLOR is
set."""

from __future__ import annotations

from rich.style import Style

STYLES = {
    "": Style(),
    "head": Style(bold=True, underline=True),
    "name": Style(bold=True),
    "dim": Style(dim=True),
    "good": Style(color="green"),
    "bad": Style(color="red", bold=True),
    "ask": Style(color="yellow", bold=True),
    "tool": Style(color="cyan"),
    "bar": Style(reverse=True),
    "key": Style(bold=True, color="cyan"),
}
CURSOR = Style(reverse=True)
