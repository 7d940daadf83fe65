"""The settings that make Cline's CLI talk to one model only."""

from __future__ import annotations

import json

_PROVIDER = "openai-compatible"


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that goes with the configuration."""
    return {
        "CLINE_SESSION_BACKEND_MODE": "local",
        "CLINE_DIR": "",
        "CLINE_DATA_DIR": "",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def fake_model_files(url: str) -> dict[str, bytes]:
    """Return Cline's settings, by their path under HOME, as `cline auth` writes them: `url` is the only provider."""
    settings = {"provider": _PROVIDER, "apiKey": "dummy", "model": "scripted", "baseUrl": f"{url}/v1"}
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    content = {"version": 1, "lastUsedProvider": _PROVIDER, "modes": {}, "providers": {_PROVIDER: provider}}
    return {".cline/data/settings/providers.json": json.dumps(content).encode()}
