"""The variables that make Qwen Code talk to one model only."""

from __future__ import annotations

from collections.abc import Mapping

from beam.agents.masks import Masks
from beam.agents.model_route import Route

masks = Masks(
    patterns=((r"\bgit: [0-9a-f]{7,12}\b", "git: <commit>"), (r"Process Group PGID: \d+", "Process Group PGID: <pid>"))
)


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that points Qwen Code at the model at `url`, without an account or any other traffic."""
    return {
        "OPENAI_API_KEY": "dummy",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_MODEL": "scripted",
        "QWEN_TELEMETRY_ENABLED": "0",
    }


def model_route(url: str, environ: Mapping[str, str], files: Mapping[str, bytes]) -> Route | None:
    """Return the settings that route the CLI's model calls through the proxy at `url`."""
    return Route(
        upstream=environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1",
        env={"OPENAI_BASE_URL": url},
        format="chat",
        key="OPENAI_API_KEY",
        keys=("OPENAI_API_KEY",),
        choices=("OPENAI_MODEL", "QWEN_TELEMETRY_ENABLED"),
    )
