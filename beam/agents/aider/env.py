"""The variables that make aider talk to one model only."""

from __future__ import annotations

from collections.abc import Mapping

from beam.agents.model_route import Route


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


def model_route(url: str, environ: Mapping[str, str], files: Mapping[str, bytes]) -> Route | None:
    """Return the settings that route the CLI's model calls through the proxy at `url`."""
    return Route(
        upstream=environ.get("OPENAI_API_BASE") or "https://api.openai.com/v1",
        env={"OPENAI_API_BASE": url},
        format="chat",
        key="OPENAI_API_KEY",
        keys=("OPENAI_API_KEY",),
        choices=("AIDER_MODEL", "AIDER_ANALYTICS", "AIDER_CHECK_UPDATE", "LITELLM_LOCAL_MODEL_COST_MAP"),
    )
