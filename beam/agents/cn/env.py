"""The settings that make Continue's CLI talk to one model only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from beam.agents.model_route import Route


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment variables that a CLI with the settings of `fake_model_files` needs."""
    return {
        "CONTINUE_GLOBAL_DIR": "",
        "CONTINUE_CLI_ENABLE_TELEMETRY": "0",
        "CONTINUE_METRICS_ENABLED": "0",
        "CONTINUE_CLI_AUTO_UPDATED": "true",
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


model_config = (".continue/config.yaml",)
_API_BASE = re.compile(rb"(\"?apiBase\"?\s*:\s*)(\"[^\"\n]*\"|[^\s,}]+)")


def model_route(url: str, environ: Mapping[str, str], files: Mapping[str, bytes]) -> Route | None:
    """Return the settings that route Continue's model calls through the proxy at `url`: a copy of its configuration
    with another URL.

    Return None unless the configuration has exactly one URL.
    """
    config = files.get(model_config[0], b"")
    found = {match[2].strip(b'"').decode("utf-8", "replace") for match in _API_BASE.finditer(config)}
    if len(found) != 1:
        return None
    changed = _API_BASE.sub(lambda match: match[1] + json.dumps(url).encode(), config)
    return Route(
        upstream=found.pop(), words=("--config", "{scratch}/cn.yaml"), files={"cn.yaml": changed}, format="chat"
    )
