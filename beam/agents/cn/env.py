"""The settings that make Continue's CLI talk to one model only."""

from __future__ import annotations

import json


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that goes with the configuration."""
    return {
        "CONTINUE_GLOBAL_DIR": "",
        "CONTINUE_CLI_ENABLE_TELEMETRY": "0",
        "CONTINUE_METRICS_ENABLED": "0",
        "CONTINUE_CLI_AUTO_UPDATED": "true",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def fake_model_files(url: str) -> dict[str, bytes]:
    """Return Continue's configuration (JSON is YAML), by its path under HOME: the model at `url` is the only one."""
    model = {
        "name": "scripted",
        "provider": "openai",
        "model": "scripted",
        "apiBase": f"{url}/v1",
        "apiKey": "dummy",
        "roles": ["chat"],
    }
    config = {"name": "scripted", "version": "1.0.0", "schema": "v1", "models": [model]}
    return {".continue/config.yaml": json.dumps(config).encode()}
