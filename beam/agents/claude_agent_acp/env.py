"""The variables that make Claude Code use one given model only. `claude-agent-acp` passes them on to Claude Code."""

from __future__ import annotations

from beam.agents.claude.env import fake_model_answers, fake_model_env

__all__ = ["fake_model_answers", "fake_model_env"]
