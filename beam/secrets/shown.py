"""Blanks secrets in what beam shows. Where there is none, which is nearly always, no table of secrets is loaded."""

from __future__ import annotations

# What the prefixes of all kinds of secrets begin with. A test compares them with the table in `kinds`.
_BEGINNINGS = (
    *("sk-", "sk_live_", "rk_live_", "AIza", "ya29.", "xai-", "gsk_", "hf_", "pplx-", "ghp_", "gho_", "ghu_", "ghs_"),
    *("ghr_", "github_pat_", "glpat-", "AKIA", "ASIA", "xox", "xapp-", "npm_", "pypi-", "eyJ", "://", "-----BEGIN"),
    "hooks.slack.com",
)
_BEGINNINGS_ANY_CASE = (
    *("secret_access_key", "secretaccesskey", "secret-access-key", "aws_secret_key", "aws_session_token"),
    *("sessiontoken", "authorization", "bearer", "api-key"),
)
_SHORTEST = 12  # characters: no secret with its prefix is shorter


def blanked(text: str) -> str:
    """Return the text with each secret in it replaced. A JSON object stays one."""
    if len(text) < _SHORTEST or not _may_have_secret(text):
        return text
    from beam.secrets.redact import redact, redact_json

    if not text.startswith("{"):
        return redact(text)[0]
    document = text.rstrip("\n")
    return redact_json(document)[0] + text[len(document) :]


def _may_have_secret(text: str) -> bool:
    for beginning in _BEGINNINGS:  # plain loops take a third of the time of a pattern
        if beginning in text:
            return True
    lowered = text.lower()
    return any(beginning in lowered for beginning in _BEGINNINGS_ANY_CASE)
