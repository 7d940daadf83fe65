"""The variables and the configuration that make Codex talk to one model only, which the adapter passes on."""

from __future__ import annotations

from beam.agents.codex.env import fake_model_env, fake_model_files

__all__ = ["fake_model_env", "fake_model_files"]
