"""Text that the Markdown page and the HTML page of a conversation share: the words about a turn, and the turn's items
without repetitions."""

from __future__ import annotations

from beam import durations, transcripts
from beam.cli.render.text import collapse_to_line, escape_controls

_MAX_CHARACTERS = 100


def title(turn: transcripts.TurnRecord) -> str:
    """Return the title of a record: the number of the turn or, for a record that is not a turn, words that say so."""
    if turn.number is not None:
        return f"Turn {turn.number}"
    return "A prompt that beam did not send" if turn.prompt else "Between turns"


def turn_line(turn: transcripts.TurnRecord) -> str:
    """Return one line that says when a turn began, who sent its prompt, and which adapter and model answered."""
    when = f"{turn.begin[:10]} {turn.begin[11:19]} UTC" if turn.begin else ""
    agent = " ".join(filter(None, (turn.adapter, f"({turn.model})" if turn.model else "")))
    return collapse_to_line(" · ".join(filter(None, (when, f"from {turn.sender}" if turn.sender else "", agent))))


def end_line(turn: transcripts.TurnRecord) -> str:
    """Return how the turn ended and what it used; "" for a record that is not a turn."""
    if turn.number is None:
        return ""
    if turn.status is None:
        return "not finished"
    known = (turn.usage.input_tokens, turn.usage.cached_tokens, turn.usage.output_tokens)
    tokens = sum(count for count in known if count is not None)
    words = (
        turn.status + (f" ({turn.class_})" if turn.class_ else "") + (f": {turn.reason}" if turn.reason else ""),
        durations.show(turn.duration_s) if turn.duration_s is not None else "",
        f"{tokens:,} tokens" if tokens else "",
        f"${turn.cost_usd:.4f}" if turn.cost_usd is not None else "",
    )
    return collapse_to_line(" · ".join(filter(None, words)))


def items(turn: transcripts.TurnRecord) -> list[transcripts.Item]:
    """Return the items of a turn: what was said and done. The reply is added at the end, unless the last texts end with
    it. Only the last version of a plan is kept."""
    found = [item for item in turn.items if item.text.strip() or item.kind in ("tool", "ask")]
    reply = (turn.reply or "").strip()
    said = "\n\n".join(item.text.strip() for item in found if item.kind == "text" and item.parent is None)
    if reply and not said.endswith(reply):
        found.append(transcripts.Item(kind="text", ts="", text=reply))
    return [item for place, item in enumerate(found) if item.kind != "plan" or not _has_later_plan(found[place + 1 :])]


def _has_later_plan(later: list[transcripts.Item]) -> bool:
    return any(item.kind == "plan" for item in later)


def summary(item: transcripts.Item) -> str:
    """Return one line about a tool, a request, a file or a note."""
    if item.kind == "file":
        return collapse_to_line(f"file {item.name}: {item.text}")
    if item.kind == "ask":
        decided = item.text or "nobody decided"
        return collapse_to_line(f"asked for {item.name} {_shorten(item.input)}: {decided}")
    if item.kind == "tool":
        state = " (did not return)" if item.is_open else " (failed)" if item.is_error else ""
        return collapse_to_line(f"{item.name or 'tool'} {_shorten(item.input)}{state}")
    return collapse_to_line(item.text)


def details(item: transcripts.Item) -> list[str]:
    """Return the texts that are shown below the line of a tool or a request: its input and, for a tool, its result."""
    asked = "" if item.input in ("", "null") else item.input
    return [escape_controls(text).strip("\n") for text in (asked, item.text if item.kind == "tool" else "") if text]


def _shorten(text: str) -> str:
    text = "" if text == "null" else text
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"
