"""Settings of an agent that are not its CLI's: its environment profile, its pace."""

from __future__ import annotations

import pytest

from beam.base.clock import parse_rfc3339
from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance


def test_an_agent_runs_with_the_environment_profile_that_it_names(beam: Cli) -> None:
    beam.config(
        "env_profiles: {work: {TEAM: blue, LEVEL: 3}}\n"
        "agents:\n  says: {command: [sh, -c, 'echo $TEAM $LEVEL'], env_profile: work, env: {LEVEL: '4'}}\n"
    )
    assert beam("send", "says", "x").out == "blue 4\n"
    assert "blue" not in str(beam.journal("says")[0])


def test_a_folder_that_chooses_the_users_profile_for_an_agent_needs_trust(beam: Cli) -> None:
    own = beam.base / "home" / ".config" / "beam" / "config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("env_profiles: {production: {KEY: word}}\nagents: {says: {command: [sh, -c, 'echo $KEY']}}\n")
    beam.config("agents: {says: {env_profile: production}}\n", trusted=False)
    refused = beam("send", "says", "x")
    assert (refused.code, "environment profile production" in refused.err) == (2, True)
    assert beam("trust", "--yes").code == 0
    assert beam("send", "says", "x").out == "word\n"


def test_a_paced_agent_rests_between_the_turns_of_all_senders(beam: Cli) -> None:
    beam.config("agents:\n  calm: {command: [cat], pace: 1s}\n")
    first = beam("send", "calm", "one", "--no-wait").out.strip()
    second = beam("send", "calm", "two", "--no-wait").out.strip()
    assert beam("wait", first, second).code == 0
    times = {event["type"]: event["ts"] for event in beam.journal("calm") if event.get("message_id") == first}
    began = next(e["ts"] for e in beam.journal("calm") if e["type"] == "turn.started" and e["message_id"] == second)
    assert parse_rfc3339(began) - parse_rfc3339(times["turn.finished"]) >= 1_000_000_000


def test_a_runner_runs_the_agent_and_no_shell_reads_the_prompt(beam: Cli) -> None:
    runner = beam.base / "elsewhere.sh"
    runner.write_text(f'#!/bin/sh\necho "$@" >> {beam.base / "ran"}\nexec "$@"\n')
    far = beam.base / "far.sh"
    far.write_text('#!/bin/sh\nexec sh -c "$2"\n')
    for script in (runner, far):
        script.chmod(0o755)
    beam.config(
        f"agents:\n  boxed: {{command: [printf, '%s', '{{prompt}}'], runner: [{runner}]}}\n"
        f"  remote: {{command: [printf, '%s', '{{prompt}}'], runner: [{far}, host, 'cd / && exec {{command}}']}}\n"
    )
    text = 'it\'s $(touch /tmp/never) `id` ; "x"'
    assert beam("send", "boxed", text).out == text + "\n"
    assert beam("send", "remote", text).out == text + "\n"
    assert (beam.base / "ran").read_text().startswith("printf %s it's")
    (started,) = [event for event in beam.journal("remote") if event["type"] == "agent.started"]
    assert "touch" not in str(started)


def test_below_full_access_an_agent_with_a_runner_is_refused(beam: Cli) -> None:
    beam.config("agents:\n  boxed: {adapter: claude, runner: [env]}\n")
    refused = beam("send", "boxed", "x")
    assert (refused.code, "can't limit" in refused.err) == (10, True)


def test_a_runner_of_a_folder_needs_trust(beam: Cli) -> None:
    beam.config("agents:\n  claude: {runner: [env]}\n", trusted=False)
    refused = beam("send", "claude", "x", "--access", "full")
    assert (refused.code, "run by 'env'" in refused.err) == (2, True)
