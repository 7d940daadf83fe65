"""A turn's own proxy without one: what it is asked, where the agent is led, what its calls leave in the journal, and
what it makes of the verdict.

`BEAM_WRITE_EXPECTED=1 pytest tests/turns/test_model_proxy.py` writes the expectations anew (tests/turns/expected);
read the difference before you keep it.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from beam.agents import registry
from beam.agents.base import Launch, Verdict
from beam.agents.model_route import Route
from beam.base.errors import BeamError
from beam.broker.inbox.build_request import build_turn_request
from beam.model.message import ModelCalls, Options
from beam.model.outcome import Class, ModelUsage, Status, Usage
from beam.process import tree
from beam.proxy.call import Call
from beam.proxy.options import ProxyCounts
from beam.proxy.private import Blanker
from beam.proxy.served import ServedRequest
from beam.proxy.wire import chat
from beam.proxy.wire.values import ModelRequest
from beam.turns import model_proxy, shield
from beam.turns.model_proxy import ProxiedTurn, ReroutedFace
from beam.turns.request import TurnRequest
from beam.turns.stop import Stop
from tests.support import expected
from tests.support.context import Root
from tests.support.turns import Recorded, handle, services

HERE = Path(__file__).parent / "expected"
ENVIRON = {"PATH": "/bin", "HOME": "/home/me", "ANTHROPIC_MODEL": "m", "LC_ALL": "C", "OTHER": "x", "TMPDIR": "/tmp/"}
ROUTE = Route(
    upstream="https://api.example",
    env={"URL": "http://proxy", "FILE": "{scratch}/config"},
    words=("--config", "{scratch}/config"),
    files={"config": b"x"},
    format="anthropic",
    key="KEY",
    keys=("KEY", "TOKEN"),
    choices=("ANTHROPIC_MODEL",),
)


def order_for(root: Root, **options: Any) -> TurnRequest:
    """An order for Claude Code."""
    root.put("worker", options=Options(**options))
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    order = build_turn_request(lease.log, claimed[1])
    return structs.replace(order, adapter=registry.adapter("claude"), adapter_name="claude", environ=dict(ENVIRON))


class Process:
    """A proxy that was started."""

    def __init__(
        self, options: Any, environ: Any, *, served: Any, key_fd: int | None, secret: str | None, is_stopped: Any
    ) -> None:
        assert not is_stopped()
        self.pid, self.url = 77, "http://127.0.0.1:5"
        self.given = {"options": options, "key_fd": key_fd, "secret": secret, "spared": 77 in tree.spared_pids}
        self.served = served
        self.stopped = 0
        MADE.append(self)

    def stop(self) -> ProxyCounts:
        self.stopped += 1
        return ProxyCounts(calls=3, exact=2)


MADE: list[Process] = []


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    MADE.clear()
    monkeypatch.setattr(model_proxy, "ProxyProcess", Process)
    monkeypatch.setattr(shield, "readable_key_variables", lambda wanted: [])
    monkeypatch.setattr(shield, "new_token", lambda: "beam-dummy-1")


CALLS: dict[str, dict[str, Any]] = {
    "no options": {},
    "recorded": {"model_calls": ModelCalls(record="cassette")},
    "replayed": {"model_calls": ModelCalls(replay="cassette")},
    "replayed and filled": {"model_calls": ModelCalls(replay="cassette", fill=True)},
    "shielded": {"model_calls": ModelCalls(shield=True, secret="key")},
    "shielded without a key": {"model_calls": ModelCalls(shield=True)},
    "of another upstream": {"model_calls": ModelCalls(record="c", upstream="https://elsewhere")},
    "with a budget": {"max_tokens": 100, "budget_usd": 0.5},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_a_proxy_is_asked_for_what_the_message_says_and_the_agent_is_led_to_it(name: str, root: Root) -> None:
    order = order_for(root, **CALLS[name])

    async def run() -> Any:
        async with model_proxy.running_proxy(order, handle(Recorded())) as proxied:
            assert 77 in tree.spared_pids
            env, settings = proxied.order.environ, proxied.order.settings
            return {"environ": env, "env": settings.env, "keep": settings.keep, "route": expected.told(proxied.route)}

    told: dict[str, Any] = {}
    try:
        told["led"] = asyncio.run(run())
    except BeamError as error:
        told["refused"] = f"{type(error).__name__}: {error.message} | {error.hint}"
    for made in MADE:
        given = expected.told(made.given["options"]) | {"masks": None}
        told["asked"] = {**given, **{key: made.given[key] for key in ("key_fd", "secret", "spared")}}
        told["stopped"] = made.stopped
    assert 77 not in tree.spared_pids
    text = expected.document(told, depth=2).replace(str(root.base), "BASE").replace(str(order.scratch), "SCRATCH")
    expected.check(HERE / "proxy" / f"{name.replace(' ', '-')}.json", text)


def test_an_agents_own_message_and_an_adapter_without_a_route_have_no_proxy(root: Root) -> None:
    order = order_for(root, model_calls=ModelCalls(record="c"))
    said = []
    for one in (structs.replace(order, from_agent=True), structs.replace(order, adapter_name="command")):

        async def run(one: TurnRequest = one) -> None:
            async with model_proxy.running_proxy(one, handle(Recorded())):
                pytest.fail("it ran")

        with pytest.raises(BeamError) as refused:
            asyncio.run(run())
        said.append((refused.value.message, refused.value.hint))
    assert said == [
        ("an agent's message records, replays and shields no model calls", "a person's does"),
        (
            "beam can't lead command's model calls through a proxy of the turn",
            "name a proxy's URL in its own configuration: beam proxy --help",
        ),
    ]
    assert MADE == []


def test_where_the_agent_is_led_it_finds_the_proxy_and_no_key(root: Root) -> None:
    order = order_for(root)
    order.scratch.mkdir(parents=True)
    told = {}
    environs = {"a key": {"KEY": "k"}, "no key": {}, "another proxy": {"NO_PROXY": "x", "no_proxy": "y"}}
    modes = {"plain": ("", ModelCalls()), "replayed": ("", ModelCalls(replay="c")), "shielded": ("t", ModelCalls())}
    for (word, environ), (mode, (token, calls)) in itertools.product(environs.items(), modes.items()):
        for key in ("KEY", ""):
            asked = structs.replace(order, environ={**ENVIRON, **environ})
            found = model_proxy._route_request(asked, structs.replace(ROUTE, key=key), token, calls)
            told[f"{word}, {mode}, {key}"] = {"environ": found.environ, "env": found.settings.env}
            assert found.settings.keep == 0.0
    assert (order.scratch / "config").read_bytes() == b"x"
    text = expected.document(told, depth=2).replace(str(order.scratch), "SCRATCH")
    expected.check(HERE / "proxy" / "through.json", text)


def test_a_launch_has_the_words_behind_the_programs_name(root: Root) -> None:
    face = SimpleNamespace(launch=lambda turn, host: Launch(argv=("cli", "-p", "hi"), prompt_in_argv=(2,)), other=7)
    found = ReroutedFace(face, ROUTE)
    made = found.launch(SimpleNamespace(scratch="/s"), None)
    assert (made.argv, made.prompt_in_argv) == (("cli", "--config", "/s/config", "-p", "hi"), (4,))
    assert found.other == 7


def proxied(order: TurnRequest, calls: ModelCalls | None = None, **fields: Any) -> ProxiedTurn:
    if calls is not None:
        message = structs.replace(order.message, options=structs.replace(order.message.options, model_calls=calls))
        order = structs.replace(order, message=message)
    return ProxiedTurn(order=order, route=ROUTE, process=None, **fields)  # type: ignore[arg-type]


def test_what_the_proxy_serves_is_written_and_stops_the_turn_where_it_must(root: Root) -> None:
    one, journal, stop = proxied(order_for(root)), Recorded(), Stop()
    turn = handle(journal, stop)
    served = [
        ServedRequest(number=1, kind="count"),
        ServedRequest(number=2, kind="ask", model="m", usage=Usage(input_tokens=3), recorded=1, nearest=1),
        ServedRequest(number=3, kind="ask", step="unmatched", why="w"),
        ServedRequest(number=4, kind="ask", step="unmatched", nearest=2),
        ServedRequest(number=5, kind="ask", step="over", why="100 tokens"),
        ServedRequest(number=6, kind="ask", step="over", why="200 tokens"),
    ]
    told: list[Any] = []
    for what in served:
        model_proxy._on_served_request(one, what, turn, ModelCalls())
        told.append([stop.reason, one.over, one.missed, len(one.calls)])
    model_proxy.record_model_calls(one, services(journal))
    assert one.calls == []
    expected.check(
        HERE / "proxy" / "served.jsonl",
        expected.lines([*told, *(expected.of_event(event) for event in journal.events)]),
    )


COUNTS = ProxyCounts(calls=3, live=1, exact=2, minor=1, usage=Usage(input_tokens=9, calls=3), cost_usd=0.5)
DONE = Verdict(status=Status.COMPLETED, reply="yes", usage=Usage(input_tokens=1), cost_usd=0.25)
FAILED = Verdict(status=Status.FAILED, class_=Class.CRASHED, reason="why")


@pytest.mark.slow
def test_a_verdict_has_what_the_proxy_knows(root: Root) -> None:
    told, order = {}, order_for(root)
    shares = (ModelUsage(model="m", usage=Usage(input_tokens=1)),)
    verdicts = {
        "done": DONE,
        "without figures": Verdict(status=Status.COMPLETED, reply="yes"),
        "without a cost": structs.replace(DONE, cost_usd=None, models=shares),
        "failed": FAILED,
    }
    for word, verdict in verdicts.items():
        for name, fields in {
            "counted": {"counts": COUNTS},
            "without a price": {"counts": structs.replace(COUNTS, cost_usd=None)},
            "without a call": {"counts": structs.replace(COUNTS, calls=0, usage=Usage(calls=0))},
            "over": {"counts": COUNTS, "over": "100 tokens"},
            "over, without a price": {"counts": structs.replace(COUNTS, cost_usd=None), "over": "100 tokens"},
            "missed": {"counts": COUNTS, "missed": "call 3"},
        }.items():
            told[f"{word}, {name}"] = expected.told(model_proxy.with_proxy_findings(verdict, proxied(order, **fields)))
    for least in (1, 2, 3):
        calls = ModelCalls(replay="c", exact_at_least=least)
        told[f"at least {least}"] = expected.told(
            model_proxy.with_proxy_findings(DONE, proxied(order, calls, counts=COUNTS))
        )
    expected.check(HERE / "proxy" / "judged.json", expected.document(told))


EMPTY = Verdict(status=Status.FAILED, class_=Class.EMPTY, reason="nothing")


@pytest.mark.parametrize(
    ("stops", "verdict", "ended"),
    [
        ([("max_tokens", 2)], DONE, ("truncated", "yes")),
        ([("refusal", 2)], DONE, ("refused", None)),
        ([("refusal", 2)], EMPTY, ("refused", None)),
        ([("max_tokens", 2), ("end_turn", 2)], DONE, ("completed", "yes")),  # the CLI had it go on
        ([("end_turn", 2), ("max_tokens", 0)], DONE, ("completed", "yes")),  # a title was cut off
        ([("end_turn", 1), ("refusal", 0)], DONE, ("completed", "yes")),
        ([("max_tokens", 0)], DONE, ("truncated", "yes")),  # no call has the turn's text: the last one counts
        ([("max_tokens", 2), (None, 2)], DONE, ("completed", "yes")),
        ([("max_tokens", 2)], FAILED, ("failed", None)),
        ([("refusal", 2)], Verdict(status=Status.CANCELLED, reason="stopped"), ("cancelled", None)),
    ],
)
def test_the_agents_own_last_call_says_whether_the_answer_is_whole(
    root: Root, stops: list[tuple[Any, int]], verdict: Verdict, ended: tuple[str, str | None]
) -> None:
    one = proxied(order_for(root), counts=COUNTS)
    for number, (stop, likeness) in enumerate(stops, 1):
        what = ServedRequest(number=number, kind="ask", stop=stop, likeness=likeness)
        model_proxy._on_served_request(one, what, handle(Recorded(), Stop()), ModelCalls())
    found = model_proxy.with_proxy_findings(verdict, one)
    assert (found.status.value, found.reply) == ended
    assert found.class_ == (verdict.class_ if found.status is verdict.status else None)


def test_a_call_of_the_agent_is_known_by_the_turns_text_and_its_tools() -> None:
    def likeness(prompt: str, body: Any) -> int:
        asked = ModelRequest(prompt=prompt)
        call = Call(
            number=1,
            data=b"",
            body=body,
            private=None,
            raw=None,
            dialect=chat,
            kind="ask",
            asked=asked,
            blanker=Blanker(),
        )
        return call.likeness("mend  the\nbuild")

    assert likeness("mend the build\n\n", {"tools": [{}]}) == 2
    assert likeness("a title for: mend the build", {"tools": []}) == likeness("mend the build", None) == 1
    assert likeness("look for memories", {"tools": [{}]}) == 0


def test_a_place_is_named_where_it_says_more_than_the_root(root: Root) -> None:
    order = order_for(root)
    base, scratch = str(order.base), str(order.scratch)
    assert model_proxy._folder_paths(order) == {"cwd": base, "home": "/home/me", "scratch": scratch, "tmp": "/tmp"}
    bare = structs.replace(
        order, environ={"HOME": "/", "TMPDIR": "/"}, settings=structs.replace(order.settings, cwd="a")
    )
    assert model_proxy._folder_paths(bare) == {"cwd": f"{base}/a", "scratch": scratch, "tmp": "/tmp"}


def test_the_files_of_home_that_an_adapter_wants_are_read_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    found = model_proxy._read_config_files({"HOME": str(tmp_path)}, ("there", "gone", "folder"))
    assert found == {"there": b"x"}
