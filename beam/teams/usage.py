"""Tokens per member and model, from the lines of transcripts: each API message once, its last line counts."""

from __future__ import annotations

from msgspec import Struct

from beam.agents.claude.history import Line
from beam.teams.prices import Tokens, cost_usd


class Used(Struct, frozen=True, kw_only=True):
    """What one member used of one model. `cost_usd` is null where the model has no price (see `prices.py`)."""

    member: str
    model: str
    tokens: Tokens
    replies: int
    cost_usd: float | None


class Usage:
    """Adds up lines as they come."""

    def __init__(self) -> None:
        self._by_reply: dict[str, tuple[str, str, Tokens]] = {}

    def add(self, member: str, line: Line) -> None:
        """Takes in a line of that member's transcript, or of a subagent's that works for it."""
        used = line.usage
        if used is None or not line.reply_id:
            return
        cached, written = used.cached_tokens or 0, line.cache_write_tokens
        fresh = max(0, (used.input_tokens or 0) - cached - written)
        self._by_reply[line.reply_id] = (member, line.model, Tokens(fresh, used.output_tokens or 0, cached, written))

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
