from __future__ import annotations

from beam.agents.claude.env import fake_model_env


def test_it_names_the_model_and_switches_off_all_other_ways_out():
    env = fake_model_env("http://127.0.0.1:1234")

    assert env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1234"
    assert env["ANTHROPIC_API_KEY"] == "dummy"
    assert {name for name, value in env.items() if value == ""} == {
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
    }
    assert {name for name, value in env.items() if value == "1"} == {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_TELEMETRY",
    }
