"""The settings that make Gemini CLI talk to one model only."""

from __future__ import annotations

import json

_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
}


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that goes with the settings.

    An empty value removes what a person's shell may have set. A model is named because Gemini would otherwise ask
    another model which one to take.
    """
    return {
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "dummy",
        "GEMINI_MODEL": "gemini-2.5-flash",
        "GEMINI_CLI_HOME": "",
        "GOOGLE_API_KEY": "",
        "GOOGLE_GENAI_USE_VERTEXAI": "",
        "GOOGLE_GENAI_USE_GCA": "",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def fake_model_files(url: str) -> dict[str, bytes]:
    """Return Gemini's settings, by their path under HOME."""
    return {".gemini/settings.json": json.dumps(_SETTINGS).encode()}
