"""A turn's own proxy: it records, replays, counts and shields the turn's model calls, and ends with the turn.

The adapter knows the variables and command-line words that route its CLI through a proxy (`agents/model_route.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct

from beam.agents.base import Launch, Verdict
from beam.agents.masks import masks_of
from beam.agents.model_route import Route, router_of
from beam.base import files
from beam.base.errors import BeamError, CorruptError, UnsupportedError, UsageError
from beam.model import events
from beam.model.message import Options, Recording
from beam.model.outcome import Class, ModelCallCounts, Status, Usage
from beam.model.settings import MIB
from beam.process import tree
from beam.proxy.budget import Budget
from beam.proxy.options import ProxyCounts, ProxyOptions
from beam.proxy.owner import ProxyProcess
from beam.proxy.served import ServedRequest, explain
from beam.turns import lent, shield
from beam.turns.handle import TurnHandle, TurnServices
from beam.turns.process import write_scratch
from beam.turns.request import TurnRequest

_CONFIG_BYTES = 4 * MIB
_MAX_DIFFERENCES = 20  # of one request in the journal
_TEXT_CHARACTERS = 1000  # of the turn's text, by which its calls are known
_STATUS_BY_STOP = {
    "max_tokens": (Status.TRUNCATED, "the answer was cut off by its token limit"),
    "refusal": (Status.REFUSED, "the model refused"),
}
_VAGUE = (None, Class.UNKNOWN, Class.NETWORK, Class.EMPTY)  # the classes of a failure that the model's own end explains
_LOOPBACK = "127.0.0.1,localhost"


class ProxiedTurn(Struct, kw_only=True):
    """A turn that goes through its own proxy. `order` is the request, with the environment for that. `calls` are the
    proxy's reports that are not in the journal yet, and `counts` are its totals at its end. `over` says which budget is
    used up, and `missed` describes the first call that matches no recorded call; "" if there is none. `last` is the
    agent's own last call, None if there is none."""

    order: TurnRequest
    route: Route
    process: ProxyProcess
    calls: list[ServedRequest] = []
    counts: ProxyCounts = ProxyCounts()
    over: str = ""
    missed: str = ""
    last: ServedRequest | None = None


@contextlib.asynccontextmanager
async def running_proxy(order: TurnRequest, handle: TurnHandle) -> AsyncIterator[ProxiedTurn]:
    """Start the turn's proxy, and end it when the context is left. Yields the turn that goes through it.

    Raises BeamError for a turn that can't be routed through a proxy.
    """
    options = order.message.options
    calls, shielded = _recording_of(options), options.shield is not UNSET
    if order.from_agent and (shielded or options.recording is not UNSET):
        raise UsageError("an agent's message records, replays and shields no model calls", "a person's does")
    route = _route(order, "http://127.0.0.1:0")
    upstream = order.settings.upstream or route.upstream
    asks_model = not calls.replay or calls.on_miss == "live"
    if not upstream and asks_model:
        raise UnsupportedError(
            f"{order.adapter_name}'s configuration does not say where its model is",
            f"name it: beam agent set {order.message.to} upstream=URL",
        )
    token = shield.new_token() if shielded else ""
    if shielded:
        shield.check_key_hidden(order, route)
    key_fd, secret = lent.take_descriptor(order.message.id), ""
    if options.shield is not UNSET and asks_model and key_fd is None:
        secret = "" if lent.descriptor_of(options.shield) is not None else options.shield
    if shielded and asks_model and not secret and key_fd is None:
        raise UsageError(
            "the key is on a descriptor of the sender's, and another process runs this turn",
            "end the broker of this root, or keep the key in the keyring: beam secret set NAME",
        )
    loop = asyncio.get_running_loop()
    proxied: ProxiedTurn

    def served(what: ServedRequest) -> None:
        loop.call_soon_threadsafe(_on_served_request, proxied, what, handle)

    began = time.monotonic()

    def is_stopped() -> bool:  # in another thread: the engine, which looks at the turn's clocks, does not run yet
        if time.monotonic() - began > order.timeout:
            loop.call_soon_threadsafe(handle.stop.request, "timeout")
            return True
        return handle.stop.reason is not None

    asked = ProxyOptions(
        upstream=upstream,
        record=calls.record,
        replay=calls.replay,
        fill=calls.on_miss == "live",
        token=token,
        format=route.format if shielded else "",
        agent=order.adapter_name,
        text=order.message.payload.text[:_TEXT_CHARACTERS],
        places=_folder_paths(order),
        masks=masks_of(order.adapter_name),
        budget=Budget(
            max_tokens=None if options.max_tokens is UNSET else options.max_tokens,
            usd=options.budget_usd or order.settings.budget_usd,
        ),
    )
    try:
        process = await asyncio.to_thread(
            ProxyProcess,
            asked,
            order.environ,
            served=served,
            key_fd=key_fd,
            secret=secret,
            is_stopped=is_stopped,
        )
    except CorruptError as error:  # no file of the root is damaged: the message named a recording that nobody can read
        raise UsageError(error.message, error.hint, subject=error.subject) from error
    finally:
        if key_fd is not None:
            with contextlib.suppress(OSError):
                os.close(key_fd)
    tree.spared_pids.add(process.pid)
    try:
        route = _route(order, process.url)
        proxied = ProxiedTurn(order=_route_request(order, route, token, calls), route=route, process=process)
        yield proxied
    finally:
        try:
            counts = await asyncio.to_thread(process.stop)
        finally:
            tree.spared_pids.discard(process.pid)
        proxied.counts = counts
        await asyncio.sleep(0)  # so that the callbacks for its last lines run


def _recording_of(options: Options) -> Recording:
    """Return how the turn's model calls are recorded or replayed."""
    recording = options.recording
    return recording if recording is not UNSET and recording.of_model else Recording()


def _on_served_request(proxied: ProxiedTurn, what: ServedRequest, handle: TurnHandle) -> None:
    if what.kind != "ask":
        return
    proxied.calls.append(what)
    if proxied.last is None or what.likeness >= proxied.last.likeness:
        proxied.last = what
    if what.step == "over":
        proxied.over = proxied.over or what.why
        handle.stop.request("budget", why=what.why)
    elif what.step == "unmatched":
        proxied.missed = proxied.missed or explain(what)
        handle.stop.request("unmatched", why=explain(what))


def record_model_calls(proxied: ProxiedTurn, services: TurnServices) -> None:
    """Write the model calls that were reported since the last call of this function into the journal."""
    while proxied.calls:
        what = proxied.calls.pop(0)
        named = [
            events.RequestDifference(path=each.path, recorded=each.recorded, got=each.got, characters=each.characters)
            for each in what.differences[:_MAX_DIFFERENCES]
        ]
        services.record(
            events.ModelCalled(
                n=what.number,
                step=what.step,
                model=what.model,
                recorded=what.recorded,
                nearest=what.nearest,
                differences=tuple(named),
                usage=what.usage,
                detail=what.why,
            )
        )


def _route(order: TurnRequest, url: str) -> Route:
    found = router_of(order.adapter_name)
    known = None
    if found is not None:
        router, wanted = found
        environ = {**order.environ, **order.settings.env}
        with contextlib.suppress(RecursionError):  # a configuration that is nested too deeply says nothing
            known = router(url, environ, _read_config_files(order.environ, wanted))
    if known is None:
        raise UnsupportedError(
            f"beam can't lead {order.adapter_name}'s model calls through a proxy of the turn",
            "name a proxy's URL in its own configuration: beam proxy --help",
            subject=order.adapter_name,
        )
    return known


def _read_config_files(environ: Mapping[str, str], names: tuple[str, ...]) -> dict[str, bytes]:
    found = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError, BeamError):
            found[name] = files.read(Path(environ.get("HOME", "/")) / name, _CONFIG_BYTES, follow=True)
    return found


def _folder_paths(order: TurnRequest) -> dict[str, str]:
    environ, settings = order.environ, order.settings
    cwd = os.path.realpath(order.base / settings.cwd) if settings.cwd else str(order.base)
    places = {"cwd": cwd, "home": environ.get("HOME", ""), "scratch": str(order.scratch)}
    places["tmp"] = environ.get("TMPDIR", "").rstrip("/") or "/tmp"
    return {name: path for name, path in places.items() if len(path) > 1}


def _route_request(order: TurnRequest, route: Route, token: str, calls: Recording) -> TurnRequest:
    """Return the request with an environment that routes the CLI through the proxy."""
    environ = shield.shielded_environment(order.environ, route.choices) if token else dict(order.environ)
    settings = order.settings
    env = {name: value.replace("{scratch}", str(order.scratch)) for name, value in route.env.items()}
    for name in ("NO_PROXY", "no_proxy"):
        env[name] = ",".join(filter(None, (environ.get(name, ""), _LOOPBACK)))
    has_key = any({**environ, **settings.env}.get(name) for name in route.keys)
    if token:
        environ = {name: value for name, value in environ.items() if name not in route.keys}
        env |= dict.fromkeys(route.keys, "") | ({route.key: token} if route.key else {})
    elif calls.replay and not has_key and route.key:
        env[route.key] = "beam-replays-this-turn"
    write_scratch(order.scratch, route.files)
    return msgspec.structs.replace(
        order,
        environ=environ,
        settings=msgspec.structs.replace(settings, env={**settings.env, **env}, keep=0.0),
    )


class ReroutedFace:
    """Wraps a face of an adapter: each launch also has the command-line words that route the CLI through the proxy."""

    def __init__(self, face: Any, route: Route) -> None:
        self._face = face
        self._route = route

    def __getattr__(self, name: str) -> Any:
        return getattr(self._face, name)

    def launch(self, turn: Any, host: Any) -> Launch:
        """Return the launch of the wrapped face, with the routing words after the program's name."""
        found = cast(Launch, self._face.launch(turn, host))
        words = tuple(word.replace("{scratch}", turn.scratch) for word in self._route.words)
        return msgspec.structs.replace(
            found,
            argv=(*found.argv[:1], *words, *found.argv[1:]),
            prompt_in_argv=tuple(index + len(words) for index in found.prompt_in_argv),
        )


def with_proxy_findings(verdict: Verdict, proxied: ProxiedTurn) -> Verdict:
    """Return the verdict with what the proxy knows: figures that the CLI does not report, and why the turn has
    failed."""
    counts, options = proxied.counts, proxied.order.message.options
    verdict = msgspec.structs.replace(
        _with_figures(verdict, proxied),
        model_calls=ModelCallCounts(
            calls=counts.calls,
            live=counts.live,
            exact=counts.exact,
            minor=counts.minor,
            major=counts.major,
            unmatched=counts.unmatched,
            filled=counts.filled,
            recording=_recording_of(options).folder,
        ),
    )
    if proxied.over:
        why = f"the turn's budget is used up: {proxied.over}"
        return msgspec.structs.replace(verdict, status=Status.LIMIT, class_=None, reason=why)
    why = _why_failed(verdict, proxied)
    if not why:
        return _with_stop(verdict, proxied.last)
    return msgspec.structs.replace(verdict, status=Status.FAILED, class_=Class.BAD_REQUEST, reason=why, reply=None)


def _with_figures(verdict: Verdict, proxied: ProxiedTurn) -> Verdict:
    """Return the verdict with either the CLI's figures or the proxy's figures, so that they are for the same model
    calls.

    The proxy's are used if the CLI reports no tokens, if it reports no cost and the proxy knows the cost, or if the
    turn's budget is used up. If only the CLI knows the cost, the CLI's cost stays, unless the budget is used up.
    """
    usage = proxied.counts.usage
    cost = proxied.counts.cost_usd if usage.calls else None
    tells_less = verdict.usage == Usage() or (verdict.cost_usd is None and cost is not None)
    if not (proxied.over or tells_less):
        return verdict
    if cost is None and not proxied.over:
        cost = verdict.cost_usd
    return msgspec.structs.replace(verdict, usage=usage, cost_usd=cost, models=None)


def _with_stop(verdict: Verdict, last: ServedRequest | None) -> Verdict:
    """Return the verdict with how the model ended the agent's last call: at its token limit, or by a refusal. Many CLIs
    don't report that, or report something else."""
    found = None if last is None or last.stop is None else _STATUS_BY_STOP.get(last.stop)
    if found is None or verdict.status not in (Status.COMPLETED, Status.FAILED) or verdict.class_ not in _VAGUE:
        return verdict
    status, reason = found
    reply = None if status is Status.REFUSED else verdict.reply
    return msgspec.structs.replace(verdict, status=status, class_=None, reason=reason, reply=reply)


def _why_failed(verdict: Verdict, proxied: ProxiedTurn) -> str:
    if verdict.status is not Status.COMPLETED:
        return ""
    if proxied.missed:
        return proxied.missed
    if proxied.counts.calls == 0:
        return "no model call came through the proxy: the agent's login or configuration goes around it"
    return ""
