"""The settings that make Codex use one given model only, or send its model calls through a proxy."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping

from beam.agents.masks import Masks
from beam.agents.model_route import Route

masks = Masks(
    patterns=((r"Chunk ID: [0-9a-f]+", "Chunk ID: <id>"), (r"Wall time: [\d.]+ seconds", "Wall time: <time>"))
)

_MODEL = "gpt-5.5"  # the model with plain function tools among those that Codex knows
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
    """Return the environment variables that belong to the configuration of `fake_model_files`. An empty value removes a
    variable that the shell may have set."""
    return {
        "CODEX_HOME": "",
        "CODEX_API_KEY": "dummy",
        "OPENAI_API_KEY": "",
        "OPENAI_BASE_URL": "",
    }


def fake_model_files(url: str) -> dict[str, bytes]:
    """Return Codex's configuration, by its path under HOME: the model at `url` is the only provider."""
    config = _CONFIG.format(model=_MODEL, base_url=json.dumps(f"{url}/v1"))
    return {".codex/config.toml": config.encode()}


model_config = (".codex/config.toml",)
_PROVIDER_NAME = re.compile(r"[A-Za-z0-9_-]+\Z")


def model_route(url: str, environ: Mapping[str, str], files: Mapping[str, bytes]) -> Route | None:
    """Return how Codex's model calls go through the proxy at `url`; None if Codex's configuration can't be read, or its
    provider can't be set by an argument."""
    try:
        config = tomllib.loads(files.get(model_config[0], b"").decode())
    except ValueError:
        return None
    name = str(config.get("model_provider", "openai"))
    provider = config.get("model_providers", {}).get(name, {})
    known = provider.get("base_url") or environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    if not _PROVIDER_NAME.match(name):
        return None
    setting = f"model_providers.{name}.base_url" if provider else "openai_base_url"
    key = str(provider.get("env_key") or "CODEX_API_KEY")
    return Route(
        upstream=str(known),
        env={} if provider else {"OPENAI_BASE_URL": url},
        words=("-c", f"{setting}={json.dumps(url)}"),
        format="responses",
        key=key,
        keys=(key, "OPENAI_API_KEY"),
    )
