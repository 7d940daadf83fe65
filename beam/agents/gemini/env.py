"""The settings that make Gemini CLI talk to one model only."""

from __future__ import annotations

import json
from collections.abc import Mapping

from beam.agents.masks import Masks
from beam.agents.model_route import Route

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


def model_route(url: str, environ: Mapping[str, str], files: Mapping[str, bytes]) -> Route | None:
    """Return the settings that route the CLI's model calls through the proxy at `url`."""
    return Route(
        upstream=environ.get("GOOGLE_GEMINI_BASE_URL") or "https://generativelanguage.googleapis.com",
        env={"GOOGLE_GEMINI_BASE_URL": url},
        format="gemini",
        key="GEMINI_API_KEY",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        choices=("GEMINI_MODEL",),
    )
