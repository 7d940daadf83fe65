"""What in a scenario somebody has to trust before it runs."""

from __future__ import annotations

import pytest

from beam.base.errors import UntrustedError
from beam.conversations.read import parse
from beam.conversations.scenario import Scenario
from beam.conversations.trusted import check_trusted, findings_of_scenario, trust
from tests.support.context import Root

COMMAND = "  expect: {command: [make, check]}\n"


def scenario(root: Root, steps: str) -> Scenario:
    return parse(f"beam: 1\nsteps:\n{steps}".encode(), root.base / "s.yaml", {}, name="s.yaml")


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ("- send: worker\n  prompt: x\n", []),
        ("- send: worker\n  prompt: x\n  access: read\n", []),
        ("- send: worker\n  prompt: x\n  access: edit\n", ["it gives worker edit access"]),
        ("- chat: [worker, other]\n  prompt: x\n  access: full\n", ["it gives worker, other full access"]),
        ("- run: [make, test]\n", ["it runs 'make test'"]),
        ("- run: make test && echo done\n", ["it runs 'make test && echo done'"]),
        (f"- send: worker\n  prompt: x\n{COMMAND}", ["it runs 'make check'"]),
        ("- check: {command: [make, check]}\n", ["it runs 'make check'"]),
        ("- parallel:\n  - run: [make, a]\n  - run: [make, b]\n", ["it runs 'make a'", "it runs 'make b'"]),
        (
            "- send: worker\n  prompt: [{file: /etc/hostname}]\n",
            ["it puts /etc/hostname, which is outside of this folder, into a prompt"],
        ),
        ("- send: worker\n  prompt: [{file: beam.yaml}]\n", []),
    ],
)
def test_what_runs_code_or_gives_more_than_reading_has_to_be_trusted(root: Root, steps: str, wanted: list[str]) -> None:
    assert [found.name for found in findings_of_scenario(scenario(root, steps), root.context)] == wanted


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ("- send: [worker, other]\n  prompt: x\n", ["worker"]),
        ("- send: worker\n  prompt: x\n  access: read\n", []),
        ("- chat: [box, other]\n  prompt: x\n  order: moderator\n  moderator: worker\n", ["worker"]),
        ("- send: other\n  prompt: x\n- judge: worker\n  rubric: x\n", ["worker"]),
        ("- send: other\n  prompt: x\n  expect: {judge: {agent: worker, rubric: x}}\n", ["worker"]),
        ("- send: nobody\n  prompt: x\n", []),
    ],
)
def test_a_prompt_for_an_agent_that_may_do_more_than_read_has_to_be_trusted(
    root: Root, steps: str, wanted: list[str]
) -> None:
    written = root.base / "beam.yaml"
    written.write_text(written.read_text().replace("worker: {", "worker: {access: full, "))
    found = [found.name for found in findings_of_scenario(scenario(root, steps), root.reload())]
    assert found == [f"it prompts {name}, which has full access" for name in wanted]


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ("- send: bash\n  prompt: x\n", ["it has bash run its prompts as code"]),
        ("- chat: [python, worker]\n  prompt: x\n", ["it has python run its prompts as code"]),
        ("- send: shell\n  prompt: x\n", ["it has shell (bash) run its prompts as code"]),
        ("- send: worker\n  prompt: x\n- judge: bash\n  rubric: x\n", ["it has bash run its prompts as code"]),
    ],
)
def test_a_prompt_that_an_agent_runs_as_code_has_to_be_trusted_whoever_declared_the_agent(
    root: Root, steps: str, wanted: list[str]
) -> None:
    """`bash` and `python` are agents without any declaration."""
    written = root.base / "beam.yaml"
    written.write_text(written.read_text().replace("agents:\n", "agents:\n  shell: {adapter: bash, access: read}\n"))
    assert [found.name for found in findings_of_scenario(scenario(root, steps), root.reload())] == wanted


@pytest.mark.parametrize("access", ["", "  access: read\n"])
def test_a_prompt_for_an_agent_that_a_rule_allows_something_has_to_be_trusted(root: Root, access: str) -> None:
    written = root.base / "beam.yaml"
    rules = "rules: {allow: [Bash(make)], deny: [Bash(rm *)]}"
    written.write_text(
        written.read_text().replace("worker: {", f"worker: {{{rules}, ") + "defaults: {rules: {deny: [Read]}}\n"
    )
    asked = scenario(root, f"- send: [worker, other]\n  prompt: x\n{access}")
    found = [each.name for each in findings_of_scenario(asked, root.reload())]
    assert found == ["it prompts worker, which is allowed Bash(make)"]


def test_a_scenario_is_refused_until_it_is_trusted_and_again_once_it_changed(root: Root) -> None:
    del root.environ["BEAM_TRUST"]
    context = root.reload()
    one, other = (scenario(root, f"- run: [make, {name}]\n") for name in ("a", "b"))
    with pytest.raises(UntrustedError, match=r"nobody trusts s.yaml as it is: it runs 'make a'"):
        check_trusted(one, context)
    trust(one, context)
    check_trusted(one, context)
    with pytest.raises(UntrustedError, match="it runs 'make b'"):
        check_trusted(other, context)


@pytest.mark.parametrize("step", ["- run: true && ./x.sh;\n", "- run: [sh, -c, 'cd .;./x.sh|cat']\n"])
def test_a_program_between_the_operators_of_a_shell_is_trusted_as_it_is(root: Root, step: str) -> None:
    del root.environ["BEAM_TRUST"]
    context = root.reload()
    (root.base / "x.sh").write_text("true")
    trust(scenario(root, step), context)
    check_trusted(scenario(root, step), context)
    (root.base / "x.sh").write_text("false")
    with pytest.raises(UntrustedError):
        check_trusted(scenario(root, step), context)


def test_a_refusal_names_three_things_and_counts_the_rest(root: Root) -> None:
    del root.environ["BEAM_TRUST"]
    with pytest.raises(UntrustedError, match=r"'make 1'; it runs 'make 2'; it runs 'make 3'; and 2 more"):
        check_trusted(scenario(root, "".join(f"- run: [make, '{n}']\n" for n in range(1, 6))), root.reload())


def test_what_needs_no_trust_is_run_by_anybody(root: Root) -> None:
    del root.environ["BEAM_TRUST"]
    check_trusted(scenario(root, "- send: worker\n  prompt: x\n"), root.reload())
