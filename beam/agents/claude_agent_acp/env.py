"""The variables that make Claude Code talk to one model only, which the adapter passes on."""

from __future__ import annotations

from beam.agents.claude.env import fake_model_answers, fake_model_env

__all__ = ["fake_model_answers", "fake_model_env"]
