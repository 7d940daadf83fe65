"""The variables that make GitHub Copilot CLI talk to one model only, without a login."""

from __future__ import annotations

from beam.agents.model_route import route_by_variable


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


model_route = route_by_variable(
    "COPILOT_PROVIDER_BASE_URL",
    "",
    ("COPILOT_PROVIDER_API_KEY",),
    choices=("COPILOT_MODEL", "COPILOT_PROVIDER_TYPE", "COPILOT_OFFLINE", "COPILOT_AUTO_UPDATE"),
)
