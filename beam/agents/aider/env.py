"""The variables that make aider talk to one model only."""

from __future__ import annotations

from beam.agents.model_route import route_by_variable


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that points aider at the model at `url`, without an account or any other traffic."""
    return {
        "OPENAI_API_KEY": "dummy",
        "OPENAI_API_BASE": f"{url}/v1",
        "AIDER_MODEL": "openai/scripted",
        "AIDER_ANALYTICS": "false",
        "AIDER_CHECK_UPDATE": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


model_route = route_by_variable(
    "OPENAI_API_BASE",
    "chat",
    ("OPENAI_API_KEY",),
    default="https://api.openai.com/v1",
    choices=("AIDER_MODEL", "AIDER_ANALYTICS", "AIDER_CHECK_UPDATE", "LITELLM_LOCAL_MODEL_COST_MAP"),
)
