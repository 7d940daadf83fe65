"""Which variables make Kilo talk to one model only."""

from __future__ import annotations

from beam.agents.opencode import env


def fake_model_env(url: str) -> dict[str, str]:
    """The environment that points Kilo at the model at `url`, with no account and no other traffic."""
    return env.fake_model_env(url, "KILO") | {"KILO_DISABLE_SESSION_INGEST": "1", "KILO_TELEMETRY_LEVEL": "off"}
