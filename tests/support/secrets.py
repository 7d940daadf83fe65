"""Secrets that look real and are not: one of each kind that beam knows, and many of their looks."""

from __future__ import annotations

BASE64 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
LETTERS = "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zaB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zab"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BASE64}\n{BASE64}\nshort==\n-----END RSA PRIVATE KEY-----"
JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{LETTERS[:43]}"

# text -> (what is left of it, the part that must be gone)
SECRETS: dict[str, tuple[str, str, str]] = {}


def _plant(kind: str, secret: str, before: str = "", after: str = "") -> None:
    SECRETS[f"{kind} {len(SECRETS)}"] = (before + secret + after, f"{before}[redacted:{kind}]{after}", secret)


_plant("anthropic-key", f"sk-ant-api03-{LETTERS}-{LETTERS[:26]}AA")
_plant("openai-key", f"sk-proj-{LETTERS}_{LETTERS}")
_plant("openai-key", f"sk-svcacct-{LETTERS}")
_plant("openai-key", f"sk-admin-{LETTERS}")
_plant("openai-key", f"sk-{LETTERS[:20]}T3BlbkFJ{LETTERS[:20]}")
_plant("openrouter-key", f"sk-or-v1-{LETTERS}")
_plant("google-key", f"AIza{LETTERS[:35]}")
_plant("google-token", f"ya29.{LETTERS}")
_plant("xai-key", f"xai-{LETTERS}{LETTERS[:16]}")
_plant("groq-key", f"gsk_{LETTERS[:52]}")
_plant("huggingface-token", f"hf_{LETTERS[:34]}")
_plant("perplexity-key", f"pplx-{LETTERS[:48]}")
for _letter in "pousr":
    _plant("github-token", f"gh{_letter}_{LETTERS[:36]}")
_plant("github-token", f"github_pat_{LETTERS[:22]}_{LETTERS[:59]}")
_plant("gitlab-token", f"glpat-{LETTERS[:20]}")
_plant("aws-key-id", "AKIAIOSFODNN7EXAMPLE")
_plant("aws-key-id", "ASIAIOSFODNN7EXAMPLE")
_plant("aws-secret-key", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = ")
_plant("aws-secret-key", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "export AWS_SECRET_ACCESS_KEY='", "'")
_plant("aws-secret-key", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", '{"SecretAccessKey": "', '"}')
_plant("aws-session-token", LETTERS * 3, "AWS_SESSION_TOKEN=")
_plant("slack-token", f"xoxb-123456789012-1234567890123-{LETTERS[:24]}")
_plant("slack-token", f"xapp-1-A0-123-{LETTERS[:24]}")
_plant("slack-webhook", f"T00000000/B00000000/{LETTERS[:24]}", "https://hooks.slack.com/services/")
_plant("npm-token", f"npm_{LETTERS[:36]}")
_plant("pypi-token", f"pypi-{LETTERS}")
_plant("stripe-key", f"sk_live_{LETTERS[:24]}")
_plant("stripe-key", f"rk_live_{LETTERS[:24]}")
_plant("jwt", JWT)
_plant("private-key", PEM)
_plant("private-key", PEM.replace("\n", "\\n"))
_plant("private-key", PEM.replace("RSA", "OPENSSH").replace("\n", "\r\n"))
_plant("private-key", "\n".join(f"{n:6}\t{line}" for n, line in enumerate(PEM.split("\n"), 2)).lstrip()[2:])
_plant("private-key", PEM.partition("short")[0])
_plant("authorization", "dXNlcjpwYXNzd29yZA==", "Authorization: Basic ")
_plant("authorization", LETTERS, '"authorization": "Bearer ', '"')
_plant("bearer-token", LETTERS, "bearer ")
_plant("api-key", LETTERS, "-H 'x-api-key: ", "'")
_plant("url-credentials", "user:s3cr3t@x", "https://", "@example.org/path")
_plant("url-credentials", "postgres:hunter2", "postgresql://", "@localhost:5432/db")

# kind -> (a text with the secret, a piece of it on one line that must be nowhere)
PLANTED: dict[str, tuple[str, str]] = {}
for _name, (_text, _, _secret) in SECRETS.items():
    PLANTED.setdefault(_name.rpartition(" ")[0], (_text, max(_secret.splitlines(), key=len)))
