"""The settings that make Gemini CLI talk to one model only."""

from __future__ import annotations

import json

from beam.agents.masks import Masks
from beam.agents.model_route import route_by_variable

masks = Masks(patterns=((r"Process Group PGID: \d+", "Process Group PGID: <pid>"),))

_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
}


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment variables that a CLI with the settings of `fake_model_files` needs.

    An empty value overrides a variable that the person's own shell may have set. A model is named because Gemini would
    otherwise ask another model which model to use.
    """
    return {
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "dummy",
        "GEMINI_MODEL": "gemini-2.5-flash",
        "GEMINI_CLI_HOME": "",
        "GOOGLE_API_KEY": "",
        "GOOGLE_GENAI_USE_VERTEXAI": "",
        "GOOGLE_GENAI_USE_GCA": "",
    }


def fake_model_files(url: str) -> dict[str, bytes]:
    """Return Gemini's settings, by their path under HOME."""
    return {".gemini/settings.json": json.dumps(_SETTINGS).encode()}


model_route = route_by_variable(
    "GOOGLE_GEMINI_BASE_URL",
    "gemini",
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    default="https://generativelanguage.googleapis.com",
    choices=("GEMINI_MODEL",),
)
