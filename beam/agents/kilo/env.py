"""The variables that make Kilo talk to one model only."""

from __future__ import annotations

from collections.abc import Mapping

from beam.agents.model_route import Route
from beam.agents.opencode import env


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that points Kilo at the model at `url`, without an account or any other traffic."""
    return env.fake_model_env(url, "KILO") | {"KILO_DISABLE_SESSION_INGEST": "1", "KILO_TELEMETRY_LEVEL": "off"}


def model_route(url: str, environ: Mapping[str, str], files: Mapping[str, bytes]) -> Route | None:
    """Return the settings that route the CLI's model calls through the proxy at `url`, as for OpenCode."""
    return env.model_route(url, environ, files, "KILO")
