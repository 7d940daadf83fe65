"""The variables that make OpenCode, or Kilo, talk to one model only."""

from __future__ import annotations

import json
from collections.abc import Mapping

from beam.agents.model_route import Route


def fake_model_env(url: str, prefix: str = "OPENCODE") -> dict[str, str]:
    """Return the environment that points the CLI at the model at `url`, without an account or any other traffic."""
    model = {
        "name": "Scripted",
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "limit": {"context": 100_000, "output": 8_000},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "dummy"},
        "models": {"scripted": model, "other": {**model, "name": "Scripted too"}},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "provider": {"fake": provider},
        "model": "fake/scripted",
        "small_model": "fake/scripted",
    }
    return {
        f"{prefix}_CONFIG_CONTENT": json.dumps(config),
        f"{prefix}_CONFIG": "",
        f"{prefix}_DISABLE_MODELS_FETCH": "1",
        f"{prefix}_DISABLE_AUTOUPDATE": "1",
        f"{prefix}_DISABLE_LSP_DOWNLOAD": "1",
        "npm_config_offline": "true",  # else the CLI installs its plugins' library into the configuration in HOME
    }


def model_route(
    url: str, environ: Mapping[str, str], files: Mapping[str, bytes], prefix: str = "OPENCODE"
) -> Route | None:
    """Return the settings that route the CLI's model calls through the proxy at `url`.

    Return None unless the configuration in the variable OPENCODE_CONFIG_CONTENT (for Kilo: KILO_CONFIG_CONTENT) has the
    URL of exactly one provider.
    """
    name = f"{prefix}_CONFIG_CONTENT"
    try:
        config = json.loads(environ.get(name, ""))
        (provider,) = config["provider"]
        options = config["provider"][provider]["options"]
        upstream = str(options["baseURL"])
    except (ValueError, KeyError, TypeError):
        return None
    options["baseURL"] = url
    return Route(upstream=upstream, env={name: json.dumps(config)}, format="chat", keys=(name,))
