"""The variables that make Qwen Code talk to one model only."""

from __future__ import annotations


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that points Qwen Code at the model at `url`, without an account or any other traffic."""
    return {
        "OPENAI_API_KEY": "dummy",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_MODEL": "scripted",
        "QWEN_TELEMETRY_ENABLED": "0",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
