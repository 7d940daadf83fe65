"""The variables that make aider talk to one model only."""

from __future__ import annotations


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that points aider at the model at `url`, without an account or any other traffic."""
    return {
        "OPENAI_API_KEY": "dummy",
        "OPENAI_API_BASE": f"{url}/v1",
        "AIDER_MODEL": "openai/scripted",
        "AIDER_ANALYTICS": "false",
        "AIDER_CHECK_UPDATE": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
