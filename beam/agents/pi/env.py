"""The settings that make pi talk to one model only."""

from __future__ import annotations

import json
from collections.abc import Mapping

from beam.agents.model_route import Route


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment variables that a CLI with the settings of `fake_model_files` needs."""
    return {
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
        "PI_CODING_AGENT_DIR": "",
    }


def fake_model_files(url: str) -> dict[str, bytes]:
    """Return pi's configuration, by its paths under HOME: the model at `url` is a provider, and the default."""
    model = {
        "id": "scripted",
        "name": "Scripted",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 100_000,
        "maxTokens": 8_000,
    }
    other = {**model, "id": "other", "name": "Scripted too"}
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "dummy", "models": [model, other]}
    return {
        ".pi/agent/models.json": json.dumps({"providers": {"fake": provider}}).encode(),
        ".pi/agent/settings.json": json.dumps({"defaultProvider": "fake", "defaultModel": "scripted"}).encode(),
    }


model_config = (".pi/agent/settings.json", ".pi/agent/models.json")
_FORMATS = {"openai-completions": "chat", "openai-responses": "responses", "anthropic-messages": "anthropic"}
_BUILT_IN_PROVIDERS = {
    "anthropic": ("https://api.anthropic.com", "anthropic", "ANTHROPIC_API_KEY"),
    "openai": ("https://api.openai.com/v1", "responses", "OPENAI_API_KEY"),
    "google": ("https://generativelanguage.googleapis.com/v1beta", "gemini", "GEMINI_API_KEY"),
}
_EXTENSION = "export default function (pi) {{\n  pi.registerProvider({provider}, {{ baseUrl: {url} }});\n}}\n"


def model_route(url: str, environ: Mapping[str, str], files: Mapping[str, bytes]) -> Route | None:
    """Return the settings that route the model calls of pi's default provider through the proxy at `url`: an extension
    that changes the provider's URL.

    Return None if the provider's URL is unknown, or if pi's files are in another folder.
    """
    if environ.get("PI_CODING_AGENT_DIR"):
        return None
    try:
        settings, models = (json.loads(files.get(name, b"{}")) for name in model_config)
        name = str(settings.get("defaultProvider", "google"))
        own = models.get("providers", {}).get(name, {})
        upstream, format, key = _BUILT_IN_PROVIDERS.get(name, ("", "", ""))
        if own:
            upstream, format = str(own.get("baseUrl", upstream)), _FORMATS.get(own.get("api"), "")
            key = "" if "apiKey" in own else key
    except (ValueError, TypeError, AttributeError):
        return None
    if not upstream:
        return None
    extension = _EXTENSION.format(provider=json.dumps(name), url=json.dumps(url)).encode()
    return Route(
        upstream=upstream,
        words=("--extension", "{scratch}/pi-route.js"),
        files={"pi-route.js": extension},
        format=format,
        key=key,
        keys=(key,) if key else (),
    )
