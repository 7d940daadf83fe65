"""The settings that make Cline's CLI talk to one model only."""

from __future__ import annotations

import json
from collections.abc import Mapping

from beam.agents.model_route import Route

_PROVIDER = "openai-compatible"


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment variables that a CLI with the settings of `fake_model_files` needs."""
    return {
        "CLINE_SESSION_BACKEND_MODE": "local",
        "CLINE_DIR": "",
        "CLINE_DATA_DIR": "",
    }


def fake_model_files(url: str) -> dict[str, bytes]:
    """Return Cline's settings, by their path under HOME, as `cline auth` writes them: `url` is the only provider."""
    settings = {"provider": _PROVIDER, "apiKey": "dummy", "model": "scripted", "baseUrl": f"{url}/v1"}
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    content = {"version": 1, "lastUsedProvider": _PROVIDER, "modes": {}, "providers": {_PROVIDER: provider}}
    return {".cline/data/settings/providers.json": json.dumps(content).encode()}


model_config = (".cline/data/settings/providers.json",)


def model_route(url: str, environ: Mapping[str, str], files: Mapping[str, bytes]) -> Route | None:
    """Return the settings that route the model calls of the last used provider through the proxy at `url`: a copy of
    Cline's settings with another URL.

    Return None if the settings give no URL for that provider, or are in a folder that a variable names.
    """
    if environ.get("CLINE_DIR") or environ.get("CLINE_DATA_DIR"):
        return None
    try:
        content = json.loads(files.get(model_config[0], b""))
        settings = content["providers"][content["lastUsedProvider"]]["settings"]
        upstream = str(settings["baseUrl"])
    except (ValueError, KeyError, TypeError):
        return None
    settings["baseUrl"] = url
    return Route(
        upstream=upstream,
        env={"CLINE_PROVIDER_SETTINGS_PATH": "{scratch}/cline-providers.json"},
        files={"cline-providers.json": json.dumps(content).encode()},
        format="chat",
    )
