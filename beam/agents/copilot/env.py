"""The variables that make GitHub Copilot CLI talk to one model only, without a login."""

from __future__ import annotations

from collections.abc import Mapping

from beam.agents.model_route import Route


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that points the CLI at the model at `url`, without an account or any other traffic.

    The key is long because the CLI blanks it wherever it occurs in its output.
    """
    return {
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": "dummy-key-for-a-scripted-model",
        "COPILOT_MODEL": "scripted",
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_HOME": "",
    }


def model_route(url: str, environ: Mapping[str, str], files: Mapping[str, bytes]) -> Route | None:
    """Return the settings that route the CLI's model calls through the proxy at `url`."""
    return Route(
        upstream=environ.get("COPILOT_PROVIDER_BASE_URL", ""),
        env={"COPILOT_PROVIDER_BASE_URL": url},
        format="",
        key="COPILOT_PROVIDER_API_KEY",
        keys=("COPILOT_PROVIDER_API_KEY",),
        choices=("COPILOT_MODEL", "COPILOT_PROVIDER_TYPE", "COPILOT_OFFLINE", "COPILOT_AUTO_UPDATE"),
    )
