"""The variables that make Claude Code talk to one model only."""

from __future__ import annotations

import json

from beam.agents.masks import Masks
from beam.agents.model_route import route_by_variable

masks = Masks(
    patterns=(  # the git status that claude puts into its first message
        (r"(?m)^Recent commits:\n(?:[0-9a-f]{7,12} .*(?:\n|\Z))*", "Recent commits:\n"),
        (r"(?m)^Current branch: .*$", "Current branch: <branch>"),
        (r"(?m)^Git user: .*$", "Git user: <user>"),
        (r"(?m)^\(clean\)$\n?", ""),
    )
)


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that points Claude Code at the model at `url`, without an account or any other traffic.

    An empty value overrides a variable that the person's own shell may have set.
    """
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_AUTH_TOKEN": "",
        "CLAUDE_CODE_OAUTH_TOKEN": "",
        "CLAUDE_CODE_USE_BEDROCK": "",
        "CLAUDE_CODE_USE_VERTEX": "",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def fake_model_answers(url: str) -> dict[str, bytes]:
    """Return the file, by its path under HOME, that answers the questions of a first start at a terminal."""
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
    }
    return {".claude.json": json.dumps(known).encode()}


model_route = route_by_variable(
    "ANTHROPIC_BASE_URL",
    "anthropic",
    ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    default="https://api.anthropic.com",
    choices=(
        "ANTHROPIC_MODEL",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_TELEMETRY",
        "DISABLE_AUTOUPDATER",
    ),
)
