"""Counts tokens per member and model from the lines of transcripts. Each API reply counts once, by its last line."""

from __future__ import annotations

from msgspec import Struct

from beam.agents.claude import history
from beam.model.prices import Tokens, cost_usd

_KEPT_REPLIES = 5_000


def tokens_of(line: history.TranscriptLine) -> Tokens | None:
    """Return the token counts that the line reports for its reply; None if the line reports none."""
    used = line.usage
    if used is None or not line.reply_id:
        return None
    cached, written = used.cached_tokens or 0, line.cache_write_tokens
    fresh = max(0, (used.input_tokens or 0) - cached - written)
    return Tokens(fresh, used.output_tokens or 0, cached, written)


class MemberUsage(Struct, frozen=True, kw_only=True):
    """The tokens that one member used of one model. `cost_usd` is None if the model has no price (see `prices.py`)."""

    member: str
    model: str
    tokens: Tokens
    replies: int
    cost_usd: float | None


class Turns:
    """Counts the tokens that each member of a team used since the member's last turn ended."""

    def __init__(self) -> None:
        self._replies: dict[str, Tokens] = {}
        self._open: dict[str, dict[str, Tokens]] = {}

    def add(self, member: str, line: history.TranscriptLine, *, is_member: bool) -> dict[str, Tokens]:
        """Add the token counts of a line of the member's transcript or, if `is_member` is False, of its subagent's
        transcript. Return the turn's tokens by model if the line ends the member's turn, otherwise {}.

        If an earlier line belonged to the same reply, only the increase since that line counts.
        """
        used = tokens_of(line)
        if used is not None:
            mine = self._open.setdefault(member, {})
            more = used.minus(self._replies.get(line.reply_id, Tokens()))
            mine[line.model] = mine.get(line.model, Tokens()).plus(more)
            self._replies[line.reply_id] = used
            if len(self._replies) > _KEPT_REPLIES:
                del self._replies[next(iter(self._replies))]
        if not is_member or not line.ends_turn:
            return {}
        return {model: tokens for model, tokens in self._open.pop(member, {}).items() if tokens.total}


class Usage:
    """Adds up the tokens of transcript lines, by member and model."""

    def __init__(self) -> None:
        self._by_reply: dict[str, tuple[str, str, Tokens]] = {}

    def add(self, member: str, line: history.TranscriptLine) -> None:
        """Add a line of the member's transcript, or of the transcript of a subagent that works for the member."""
        tokens = tokens_of(line)
        if tokens is not None:
            self._by_reply[line.reply_id] = (member, line.model, tokens)

    def used(self) -> list[MemberUsage]:
        """Return the tokens that were used so far, with one entry for each member and model."""
        sums: dict[tuple[str, str], tuple[Tokens, int]] = {}
        for member, model, tokens in self._by_reply.values():
            before, count = sums.get((member, model), (Tokens(), 0))
            sums[member, model] = (before.plus(tokens), count + 1)
        return [
            MemberUsage(member=member, model=model, tokens=tokens, replies=count, cost_usd=cost_usd(model, tokens))
            for (member, model), (tokens, count) in sorted(sums.items())
        ]
