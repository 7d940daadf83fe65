"""The variables that make Kilo talk to one model only."""

from __future__ import annotations

from beam.agents.opencode import env


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that points Kilo at the model at `url`, without an account or any other traffic."""
    return env.fake_model_env(url, "KILO") | {"KILO_DISABLE_SESSION_INGEST": "1", "KILO_TELEMETRY_LEVEL": "off"}
