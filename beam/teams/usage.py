"""Tokens per member and model, from the lines of transcripts: each API message once, its last line counts."""

from __future__ import annotations

from msgspec import Struct

from beam.agents.claude.history import Line
from beam.teams.prices import Tokens, cost_usd

_KEPT = 5_000


def tokens_of(line: Line) -> Tokens | None:
    """What the reply that the line is part of used so far; None for a line that says nothing of it."""
    used = line.usage
    if used is None or not line.reply_id:
        return None
    cached, written = used.cached_tokens or 0, line.cache_write_tokens
    fresh = max(0, (used.input_tokens or 0) - cached - written)
    return Tokens(fresh, used.output_tokens or 0, cached, written)


class Used(Struct, frozen=True, kw_only=True):
    """What one member used of one model. `cost_usd` is null where the model has no price (see `prices.py`)."""

    member: str
    model: str
    tokens: Tokens
    replies: int
    cost_usd: float | None


class Turns:
    """What each member of a team used since its last turn ended."""

    def __init__(self) -> None:
        self._replies: dict[str, Tokens] = {}
        self._open: dict[str, dict[str, Tokens]] = {}

    def add(self, member: str, line: Line, *, is_member: bool) -> dict[str, Tokens]:
        """Takes in a line of the member's transcript, or of a subagent's that works for it: the tokens of the turn by
        model, if the line ends it. A reply that a line before had counts for what came to it since."""
        used = tokens_of(line)
        if used is not None:
            mine = self._open.setdefault(member, {})
            more = used.minus(self._replies.get(line.reply_id, Tokens()))
            mine[line.model] = mine.get(line.model, Tokens()).plus(more)
            self._replies[line.reply_id] = used
            if len(self._replies) > _KEPT:
                del self._replies[next(iter(self._replies))]
        if not is_member or not line.ends_turn:
            return {}
        return {model: tokens for model, tokens in self._open.pop(member, {}).items() if tokens.total}


class Usage:
    """Adds up lines as they come."""

    def __init__(self) -> None:
        self._by_reply: dict[str, tuple[str, str, Tokens]] = {}

    def add(self, member: str, line: Line) -> None:
        """Takes in a line of that member's transcript, or of a subagent's that works for it."""
        tokens = tokens_of(line)
        if tokens is not None:
            self._by_reply[line.reply_id] = (member, line.model, tokens)

    def used(self) -> list[Used]:
        """What was used so far, by member and model."""
        sums: dict[tuple[str, str], tuple[Tokens, int]] = {}
        for member, model, tokens in self._by_reply.values():
            before, count = sums.get((member, model), (Tokens(), 0))
            sums[member, model] = (before.plus(tokens), count + 1)
        return [
            Used(member=member, model=model, tokens=tokens, replies=count, cost_usd=cost_usd(model, tokens))
            for (member, model), (tokens, count) in sorted(sums.items())
        ]
