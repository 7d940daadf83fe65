"""A turn's own proxy without one: what it is asked, where the agent is led, what its calls leave in the journal, and
what it makes of the verdict.
"""

from __future__ import annotations

import asyncio
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
from beam.model.message import Options, Recording
from beam.model.outcome import Class, ModelUsage, Status, Usage
from beam.process import tree
from beam.proxy.budget import Budget
from beam.proxy.call import Call
from beam.proxy.options import ProxyCounts
from beam.proxy.private import Blanker
from beam.proxy.served import ServedRequest
from beam.proxy.wire import chat
from beam.proxy.wire.values import ModelRequest
from beam.turns import model_proxy, shield
from beam.turns.handle import Stop
from beam.turns.model_proxy import ProxiedTurn, ReroutedFace
from beam.turns.request import TurnRequest
from tests.support.context import Root
from tests.support.turns import Recorded, handle, services

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


REPLAYED = Recording(replay="c", depth="model")


def led(order: TurnRequest) -> TurnRequest:
    """The turn as it is run beside its proxy."""

    async def run() -> TurnRequest:
        async with model_proxy.running_proxy(order, handle(Recorded())) as proxied:
            assert 77 in tree.spared_pids, "the end of the turn's processes spares the proxy"
            return proxied.order

    found = asyncio.run(run())
    assert 77 not in tree.spared_pids and MADE[-1].stopped == 1
    return found


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"recording": Recording(record="cassette", depth="model")}, {"record": "cassette"}),
        ({"recording": Recording(record="cassette")}, {"record": ""}),
        ({"recording": REPLAYED}, {"replay": "c", "fill": False}),
        ({"recording": structs.replace(REPLAYED, on_miss="live")}, {"replay": "c", "fill": True}),
        ({"max_tokens": 100, "budget_usd": 0.5}, {"budget": Budget(max_tokens=100, usd=0.5)}),
    ],
)
def test_a_proxy_is_asked_for_what_the_message_says_and_the_agent_is_led_to_it(
    options: dict[str, Any], asked: dict[str, Any], root: Root
) -> None:
    found = led(order_for(root, **options))
    assert found.settings.env["ANTHROPIC_BASE_URL"] == MADE[0].url
    given = {"upstream": "https://api.anthropic.com", "agent": "claude", "text": "hi", **asked}
    assert {name: getattr(MADE[0].given["options"], name) for name in given} == given


def test_the_proxy_of_a_shielded_turn_has_the_key_and_the_agent_a_token(root: Root) -> None:
    found = led(order_for(root, shield="key"))
    assert MADE[0].given["secret"] == "key" and MADE[0].given["options"].token == "beam-dummy-1"
    assert {name: found.settings.env[name] for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")} == {
        "ANTHROPIC_API_KEY": "beam-dummy-1",
        "ANTHROPIC_AUTH_TOKEN": "",
    }
    assert "OTHER" not in found.environ, "a variable that nobody knows may hold a key"


def test_a_key_on_a_descriptor_of_the_sender_can_not_be_used_by_another_process(root: Root) -> None:
    with pytest.raises(BeamError, match="another process runs this turn"):
        led(order_for(root, shield="fd:3"))


@pytest.mark.parametrize("where", ["fd:3", "key"])
def test_no_key_is_read_for_a_replay_that_asks_no_model(where: str, root: Root) -> None:
    led(order_for(root, shield=where, recording=REPLAYED))
    assert (MADE[-1].given["secret"], MADE[-1].given["key_fd"]) == ("", None)


def test_the_agents_setting_says_where_its_model_is(root: Root) -> None:
    order = order_for(root)
    led(structs.replace(order, settings=structs.replace(order.settings, upstream="https://elsewhere")))
    assert MADE[0].given["options"].upstream == "https://elsewhere"


def test_an_agents_own_message_and_an_adapter_without_a_route_have_no_proxy(root: Root) -> None:
    order = order_for(root, recording=Recording(record="c", depth="model"))
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


@pytest.mark.parametrize(
    ("calls", "token", "environ", "key"),
    [
        (Recording(), "", {}, None),
        (Recording(), "", {"KEY": "k"}, None),
        (REPLAYED, "", {"KEY": "k"}, None),
        (REPLAYED, "", {}, "beam-replays-this-turn"),
        (Recording(), "t", {"KEY": "k", "TOKEN": "k"}, "t"),
    ],
)
def test_where_the_agent_is_led_it_finds_the_proxy_and_its_own_key_or_a_word_in_its_place(
    calls: Recording, token: str, environ: dict[str, str], key: str | None, root: Root
) -> None:
    order = order_for(root)
    order.scratch.mkdir(parents=True)
    asked = structs.replace(order, environ={**ENVIRON, **environ, "NO_PROXY": "x"})
    found = model_proxy._route_request(asked, ROUTE, token, calls)
    env = found.settings.env
    assert (env["URL"], env["FILE"]) == ("http://proxy", f"{order.scratch}/config")
    assert (order.scratch / "config").read_bytes() == b"x"
    assert (env["NO_PROXY"], env["no_proxy"]) == ("x,127.0.0.1,localhost", "127.0.0.1,localhost")
    assert env.get("KEY") == key
    assert token == "" or env["TOKEN"] == ""
    assert found.settings.keep == 0.0, "the next turn has a proxy of its own"


def test_a_launch_has_the_words_behind_the_programs_name(root: Root) -> None:
    face = SimpleNamespace(launch=lambda turn, host: Launch(argv=("cli", "-p", "hi"), prompt_in_argv=(2,)), other=7)
    found = ReroutedFace(face, ROUTE)
    made = found.launch(SimpleNamespace(scratch="/s"), None)
    assert (made.argv, made.prompt_in_argv) == (("cli", "--config", "/s/config", "-p", "hi"), (4,))
    assert found.other == 7


def proxied(order: TurnRequest, **fields: Any) -> ProxiedTurn:
    return ProxiedTurn(order=order, route=ROUTE, process=None, **fields)  # type: ignore[arg-type]


def test_each_model_call_is_recorded_and_one_that_may_not_be_made_stops_the_turn(root: Root) -> None:
    one, journal, stop = proxied(order_for(root)), Recorded(), Stop()
    for what, reason in (
        (ServedRequest(number=1, kind="count"), None),
        (ServedRequest(number=2, kind="ask", model="m", usage=Usage(input_tokens=3)), None),
        (ServedRequest(number=3, kind="ask", step="unmatched", why="w"), "unmatched"),
        (ServedRequest(number=4, kind="ask", step="over", why="100 tokens"), "unmatched"),
        (ServedRequest(number=5, kind="ask", step="over", why="200 tokens"), "unmatched"),
    ):
        model_proxy._on_served_request(one, what, handle(journal, stop))
        assert stop.reason == reason, "the first reason counts"
    assert (one.over, one.missed) == ("100 tokens", "model call 3 was not recorded, and nothing like it was")
    model_proxy.record_model_calls(one, services(journal))
    assert one.calls == []
    told = [(event.n, event.step, event.model) for event in journal.events]  # type: ignore[attr-defined]
    assert told == [(2, "live", "m"), (3, "unmatched", ""), (4, "over", ""), (5, "over", "")]


COUNTS = ProxyCounts(calls=3, live=1, exact=2, minor=1, usage=Usage(input_tokens=9, calls=3), cost_usd=0.5)
DONE = Verdict(status=Status.COMPLETED, reply="yes", usage=Usage(input_tokens=1), cost_usd=0.25)
FAILED = Verdict(status=Status.FAILED, class_=Class.CRASHED, reason="why")


def test_the_figures_of_the_proxy_stand_for_those_that_the_cli_does_not_report(root: Root) -> None:
    order, own = order_for(root), Usage(input_tokens=1)
    share = (ModelUsage(model="m", usage=own),)
    unpriced = structs.replace(COUNTS, cost_usd=None)
    for verdict, fields, usage, cost_usd in (
        (DONE, {"counts": COUNTS}, own, 0.25),
        (Verdict(status=Status.COMPLETED, reply="yes"), {"counts": COUNTS}, COUNTS.usage, 0.5),
        (Verdict(status=Status.COMPLETED, reply="yes"), {"counts": unpriced}, COUNTS.usage, None),
        (structs.replace(DONE, cost_usd=None, models=share), {"counts": COUNTS}, COUNTS.usage, 0.5),
        (structs.replace(DONE, cost_usd=None, models=share), {"counts": unpriced}, own, None),
        (FAILED, {"counts": COUNTS}, COUNTS.usage, 0.5),
        (DONE, {"counts": COUNTS, "over": "100 tokens"}, COUNTS.usage, 0.5),
    ):
        found = model_proxy.with_proxy_findings(verdict, proxied(order, **fields))
        assert (found.usage, found.cost_usd) == (usage, cost_usd)
        assert found.model_calls.calls == 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("verdict", "fields", "status", "reason"),
    [
        (DONE, {}, Status.COMPLETED, None),
        (DONE, {"counts": ProxyCounts()}, Status.FAILED, "no model call came through the proxy"),
        (DONE, {"over": "100 tokens"}, Status.LIMIT, "the turn's budget is used up: 100 tokens"),
        (FAILED, {"over": "100 tokens"}, Status.LIMIT, "the turn's budget is used up: 100 tokens"),
        (DONE, {"missed": "call 3"}, Status.FAILED, "call 3"),
        (FAILED, {"missed": "call 3"}, Status.FAILED, "why"),
        (FAILED, {"counts": ProxyCounts()}, Status.FAILED, "why"),
    ],
)
def test_a_budget_a_missed_call_and_a_way_around_the_proxy_decide_about_the_turn(
    verdict: Verdict, fields: dict[str, Any], status: Status, reason: str | None, root: Root
) -> None:
    found = model_proxy.with_proxy_findings(verdict, proxied(order_for(root), **{"counts": COUNTS, **fields}))
    assert found.status is status
    assert found.reason == reason if reason is None else str(found.reason).startswith(reason)


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
        model_proxy._on_served_request(one, what, handle(Recorded(), Stop()))
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
