"""The settings that make pi talk to one model only."""

from __future__ import annotations

import json


def fake_model_env(url: str) -> dict[str, str]:
    """Return the variables that point pi, with the configuration written below HOME, at the scripted model."""
    return {
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
        "PI_CODING_AGENT_DIR": "",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def fake_model_files(url: str) -> dict[str, bytes]:
    """Return pi's configuration, by its paths under HOME: the model at `url` is a provider, and the default."""
    model = {
        "id": "scripted",
        "name": "Scripted",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 100_000,
        "maxTokens": 8_000,
    }
    other = {**model, "id": "other", "name": "Scripted too"}
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "dummy", "models": [model, other]}
    return {
        ".pi/agent/models.json": json.dumps({"providers": {"fake": provider}}).encode(),
        ".pi/agent/settings.json": json.dumps({"defaultProvider": "fake", "defaultModel": "scripted"}).encode(),
    }
