"""The variables and the configuration that make Codex use one given model only. `codex-acp` passes them on to Codex."""

from __future__ import annotations

from beam.agents.codex.env import fake_model_env, fake_model_files

__all__ = ["fake_model_env", "fake_model_files"]
