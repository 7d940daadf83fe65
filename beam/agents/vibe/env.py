"""The settings that make Vibe talk to one model only."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping

from beam.agents.masks import Masks
from beam.agents.model_route import Route

masks = Masks(patterns=((r"(?m)^[0-9a-f]{7,12}(?= )", "<commit>"),))  # ids of the last commits, in Vibe's system prompt
_CONFIG = """\
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false

[[providers]]
name = "scripted"
api_base = {base_url}
api_key_env_var = "SCRIPTED_API_KEY"

[[models]]
name = "scripted"
provider = "scripted"
alias = "scripted"
supports_images = true

[session_logging]
generate_titles = false
"""


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment variables that a CLI with the settings of `fake_model_files` needs. An empty value
    overrides a variable that the person's own shell may have set."""
    return {
        "SCRIPTED_API_KEY": "dummy",
        "MISTRAL_API_KEY": "",
        "VIBE_HOME": "",
        "VIBE_ACTIVE_MODEL": "",
    }


def fake_model_files(url: str) -> dict[str, bytes]:
    """Return Vibe's configuration, by its path under HOME: the model at `url` is the only one."""
    return {".vibe/config.toml": _CONFIG.format(base_url=json.dumps(f"{url}/v1")).encode()}


model_config = (".vibe/config.toml",)


def model_route(url: str, environ: Mapping[str, str], files: Mapping[str, bytes]) -> Route | None:
    """Return the settings that route Vibe's model calls through the proxy at `url`; None unless its configuration names
    exactly one provider."""
    try:
        config = tomllib.loads(files.get(model_config[0], b"").decode())
        (provider,) = config["providers"]
        upstream, key = str(provider["api_base"]), str(provider.get("api_key_env_var", "MISTRAL_API_KEY"))
    except (ValueError, KeyError, TypeError):
        return None
    provider["api_base"] = url
    return Route(upstream=upstream, env={"VIBE_PROVIDERS": json.dumps([provider])}, format="chat", key=key, keys=(key,))
