"""The variables that make Qwen Code talk to one model only."""

from __future__ import annotations

from beam.agents.masks import Masks
from beam.agents.model_route import route_by_variable

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


model_route = route_by_variable(
    "OPENAI_BASE_URL",
    "chat",
    ("OPENAI_API_KEY",),
    default="https://api.openai.com/v1",
    choices=("OPENAI_MODEL", "QWEN_TELEMETRY_ENABLED"),
)
