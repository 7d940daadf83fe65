"""Counts the tokens and the cost of a turn of Claude Code.

In a result, `usage` covers the calls of the conversation since the previous result. `modelUsage` and `total_cost_usd`
cover all calls of the process, including calls of subagents and calls that no line shows. From some version on, they
cover the whole session if that was the last session in its folder. `model_usage_since_last_result` (version 2.1.330)
covers all calls since the previous result. The figures of a turn cover all its calls.
"""

from __future__ import annotations

from msgspec import Struct, structs

from beam.agents import figures
from beam.agents.base import Turn
from beam.agents.fields import Object, integer, number, obj, string
from beam.model.events import ContextUsed
from beam.model.outcome import ModelUsage, Total, Usage

_UNKNOWN_USAGE = Usage()
_SINCE_LAST_RESULT = "model_usage_since_last_result"
_COST_TOLERANCE_USD = 1e-9  # sums of the same parts may differ by less


def plain_name(name: str) -> str:
    """Return the name of a model without the suffix for the size of its context (`[1m]`)."""
    return name.partition("[")[0]


def usage_in(usage: Object) -> Usage:
    """Return the figures of an API message or of a result's `usage`."""
    uncached, written = integer(usage, "input_tokens"), integer(usage, "cache_creation_input_tokens")
    return Usage(
        input_tokens=None if uncached is None else uncached + (written or 0),
        output_tokens=integer(usage, "output_tokens"),
        cached_tokens=integer(usage, "cache_read_input_tokens"),
        cache_write_tokens=written,
    )


class UsageCounter(Struct):
    """Sums over the results of one process so far.

    `used` is the usage of the conversation's own calls. `models` is the usage of all calls by model, None if the
    version does not report it; `whole` is the sum of `models`. `total` has the running totals of the last result, for
    the process or the session, None if the result has none. `calls` are the ids of the API messages that were seen,
    `given` is their input, and `output_tokens` is the output of the finished ones. `filled` is the number of tokens in
    the context at the conversation's last call.
    """

    used: Usage = Usage()
    models: tuple[ModelUsage, ...] | None = None
    whole: Total = Total()
    total: Total | None = None
    calls: set[str] = set()
    given: Usage = Usage()
    output_tokens: int = 0
    filled: int | None = None

    def count_call(self, message: Object, *, is_own: bool) -> None:
        """Count a call of the API by the first line about it, which has the call's input. `is_own`: the conversation
        itself made the call, not a subagent."""
        usage, message_id = obj(message, "usage"), string(message, "id")
        if usage and message_id and message_id not in self.calls:
            self.calls.add(message_id)
            given = usage_in(usage)
            self.given = self.given.plus(given)
            if is_own and given.input_tokens is not None:
                self.filled = given.input_tokens + (given.cached_tokens or 0)

    def context_used(self, *, result: Object, model: str | None) -> ContextUsed | None:
        """Return how full the context was at the conversation's last call; None if that is unknown."""
        if self.filled is None:
            return None
        sizes, plain = obj(result, "modelUsage"), plain_name(model or "")
        name = model if model in sizes else next((each for each in sizes if plain_name(each) == plain), "")
        return ContextUsed(used=self.filled, size=integer(obj(sizes, name), "contextWindow"))

    def usage_so_far(self, delta: Object) -> Usage | None:
        """Return the input and output of the calls seen so far if this `message_delta` ends a call, else None."""
        output = integer(obj(delta, "usage"), "output_tokens")
        if output is None or not self.calls:
            return None
        self.output_tokens += output
        return structs.replace(self.given, output_tokens=self.output_tokens)

    def count_result(self, result: Object) -> Total | None:
        """Count one more result. Return the total to subtract from the next turn's figures; None if nothing has to be
        subtracted."""
        used = usage_in(obj(result, "usage"))
        self.used = self.used.plus(used) if self.used != _UNKNOWN_USAGE else used
        if isinstance(result.get(_SINCE_LAST_RESULT), dict):
            more = _models(result, _SINCE_LAST_RESULT)
            self.models = figures.sum_by_model((*self.models, *more)) if self.models else more
            self.whole = _total(self.models, None)
            return Total(api_s=_api_s(result))
        models = _models(result, "modelUsage")
        self.total = _total(models, number(result, "total_cost_usd"), _api_s(result)) if models else None
        return self.total

    def api_s_of_turn(self, turn: Turn, result: Object) -> float | None:
        """Return the API time of the turn in seconds. The CLI reports the API time of the process or, if the process
        restored the session, of the whole session."""
        api_s = _api_s(result)
        if turn.session_id is None or self._covers_only_this_turn(result):
            return api_s
        before = turn.carried if self.models is not None else None
        return figures.work_of_turn(figures.Work(api_s=api_s), before).api_s

    def _covers_only_this_turn(self, result: Object) -> bool:
        """Return whether the result's total cost is the cost of this turn alone."""
        own, whole = self.whole.cost_usd if self.models else None, number(result, "total_cost_usd")
        return own is not None and whole is not None and own > 0 and abs(own - whole) < _COST_TOLERANCE_USD

    def usage_of_turn(self, turn: Turn, result: Object, *, aborted: bool) -> tuple[Usage, Total]:
        """Return the usage of the turn according to its last result, in two forms: the tokens, with the number of
        `calls` if all calls were seen; and the tokens with their cost.

        Unknown figures are None. If the CLI counted nothing in an `aborted` turn, all figures are None.
        """
        found = self._total_of_turn(turn, result)
        if aborted and figures.is_nothing(found):  # the CLI had no time to count
            return Usage(), Total()
        given, calls = self.given, len(self.calls)
        is_all = given.input_tokens == found.input_tokens and given.cached_tokens == found.cached_tokens
        return figures.usage_of(found, calls=calls if calls and is_all else None), found

    def _total_of_turn(self, turn: Turn, result: Object) -> Total:
        if self.models:
            return self.whole
        if self.models is not None or self.total is None:
            cost_usd = 0.0 if self.models is not None else number(result, "total_cost_usd")
            return figures.make_total(self.used, cost_usd=cost_usd, models=self.models)
        before = figures.NOTHING_YET if turn.session_id is None else turn.carried
        return figures.of_turn(self.total, before, self.used) or Total()


def _api_s(result: Object) -> float | None:
    api_ms = integer(result, "duration_api_ms")
    return None if api_ms is None else api_ms / 1000


def _total(models: tuple[ModelUsage, ...], cost_usd: float | None, api_s: float | None = None) -> Total:
    """Return the sum over the models. `cost_usd` is the cost unless every model has a cost of its own."""
    if len(models) == 1 and models[0].cost_usd is not None:  # the usual case: nothing to add
        return figures.make_total(models[0].usage, cost_usd=models[0].cost_usd, models=models, api_s=api_s)
    costs = [share.cost_usd for share in models if share.cost_usd is not None]
    cost_usd = figures.sum_costs(costs) if len(costs) == len(models) else cost_usd
    return figures.make_total(figures.sum_shares(models), cost_usd=cost_usd, models=models, api_s=api_s)


def _models(result: Object, key: str) -> tuple[ModelUsage, ...]:
    return figures.sum_by_model([_model(name, item) for name, item in obj(result, key).items()])


def _model(name: str, item: object) -> ModelUsage:
    value = item if isinstance(item, dict) else {}
    uncached, written = integer(value, "inputTokens"), integer(value, "cacheCreationInputTokens")
    usage = Usage(
        input_tokens=None if uncached is None else uncached + (written or 0),
        output_tokens=integer(value, "outputTokens"),
        cached_tokens=integer(value, "cacheReadInputTokens"),
        reasoning_tokens=integer(value, "thinkingTokens"),
        cache_write_tokens=written,
    )
    return ModelUsage(model=plain_name(name), usage=usage, cost_usd=number(value, "costUSD"))
