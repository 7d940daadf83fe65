"""The settings that make Codex talk to one model only."""

from __future__ import annotations

import json

_MODEL = "gpt-5.5"  # of the models that Codex knows, the one with plain function tools
_CONFIG = """\
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = {base_url}
env_key = "CODEX_API_KEY"
wire_api = "responses"
supports_websockets = false

[analytics]
enabled = false
"""


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that goes with the configuration. An empty value removes what a shell may have set."""
    return {
        "CODEX_HOME": "",
        "CODEX_API_KEY": "dummy",
        "OPENAI_API_KEY": "",
        "OPENAI_BASE_URL": "",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def fake_model_files(url: str) -> dict[str, bytes]:
    """Return Codex's configuration, by its path under HOME: the model at `url` is the only provider."""
    config = _CONFIG.format(model=_MODEL, base_url=json.dumps(f"{url}/v1"))
    return {".codex/config.toml": config.encode()}
