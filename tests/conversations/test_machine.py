"""What on this machine would keep a scenario from running, with its place in the file; and the plan of a run."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from beam.base.errors import BeamError
from beam.conversations.machine import check_machine, plan
from beam.conversations.read import parse
from beam.conversations.scenario import Scenario
from tests.support.context import Root


def scenario(text: str) -> Scenario:
    return parse(f"beam: 1\n{text}".encode(), Path("/nowhere/s.yaml"), {}, name="s.yaml")


@pytest.mark.parametrize(
    ("steps", "refusal"),
    [
        ("- send: box\n  prompt: x\n", r"s.yaml:3:3: steps.0.send.0: box is a mailbox: nobody knows when it answers"),
        ("- send: wroker\n  prompt: x\n", r"s.yaml:3:\d+: .*no agent is called 'wroker'.*did you mean worker"),
        ("- send: worker\n  prompt: x\n  schema: {type: object}\n", r"s.yaml:3:\d+: .*schema"),
        ("- send: worker\n  prompt: x\n  max_turns: 3\n", r"s.yaml:3:\d+: .*max-turns"),
        ("- send: worker\n  prompt: x\n  budget_usd: 3\n", r"s.yaml:3:\d+: .*budget"),
        ("- chat: [worker, box]\n  prompt: x\n", r"box is a mailbox"),
        ("- send: worker\n  prompt: x\n- judge: box\n  rubric: short\n", r"s.yaml:5:\d+: .*box is a mailbox"),
    ],
)
def test_what_an_agent_can_not_do_is_refused_at_its_step(root: Root, steps: str, refusal: str) -> None:
    with pytest.raises(BeamError) as caught:
        check_machine(scenario(f"steps:\n{steps}"), root.context)
    assert re.search(refusal, str(caught.value)), caught.value


def test_what_this_machine_can_do_is_refused_nowhere(root: Root) -> None:
    check_machine(scenario("steps:\n- send: [worker, other]\n  prompt: x\n"), root.context)


def test_a_replayed_agent_needs_no_cli_and_no_capability(root: Root) -> None:
    asked = scenario("steps:\n- send: codex\n  prompt: x\n  schema: {type: object}\n")
    with pytest.raises(BeamError, match="codex"):
        check_machine(asked, root.context)
    check_machine(asked, root.context, needs_agents=False)


def test_more_access_than_read_is_refused_where_agents_may_write_into_the_root(root: Root) -> None:
    asked = "steps:\n- send: worker\n  prompt: x\n  access: {}\n"
    exposed = msgspec.structs.replace(root.context, exposed=root.base)
    with pytest.raises(BeamError) as caught:
        check_machine(scenario(asked.format("full")), exposed, needs_agents=False)
    assert caught.value.message.startswith("s.yaml:5:3: steps.0.access: the root lies where agents may write")
    check_machine(scenario(asked.format("read")), exposed, needs_agents=False)
    check_machine(scenario(asked.format("full")), root.context, needs_agents=False)


def test_model_calls_that_beam_can_not_lead_through_a_proxy_are_refused(root: Root) -> None:
    asked = scenario("steps:\n- send: worker\n  prompt: x\n")
    with pytest.raises(BeamError, match=r"s.yaml:3:3: steps.0.send.0: beam can't lead the model calls of worker"):
        check_machine(asked, root.context, needs_proxies=True)


@pytest.mark.parametrize(
    ("prompt", "does"),
    [
        ("hello", "sends 5 characters"),
        ("[hello, {reply: plan}]", "sends 5 characters and reply plan"),
        ("[{reply: plan}]", "sends reply plan"),
        ("[hello, {reply: plan}, {diff: true}]", "sends 5 characters and reply plan and the diff"),
        ("[{diff: true}]", "sends the diff"),
    ],
)
def test_a_plan_says_what_each_prompt_is_made_of(root: Root, prompt: str, does: str) -> None:
    steps = f"steps:\n- send: worker\n  id: plan\n  prompt: first\n- send: worker\n  prompt: {prompt}\n"
    assert plan(scenario(steps), root.context)[1].does == does


def test_a_plan_names_agents_checks_and_the_steps_inside_of_a_step(root: Root) -> None:
    steps = (
        "steps:\n- parallel:\n  - send: worker\n    prompt: x\n    expect: {contains: x}\n  - run: [make, test]\n"
        "- check: {file_exists: a}\n"
    )
    found = plan(scenario(steps), root.context)
    assert [(step.kind, step.does, step.agents, step.checks, step.line) for step in found] == [
        ("parallel", "runs 2 steps at the same time", (), (), 3),
        ("send", "sends 1 characters", ("worker (command, exec)",), ("contains",), 4),
        ("run", "make test", (), (), 7),
        ("check", "checks step 1.2", (), ("file_exists",), 8),
    ]
    assert [step.parallel_in for step in found] == [None, found[0].id, found[0].id, None]
