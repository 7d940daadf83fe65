"""Which variables make Kimi Code talk to one model only."""

from __future__ import annotations


def fake_model_env(url: str) -> dict[str, str]:
    """The environment that points Kimi Code at the model at `url`, with no account and no other traffic."""
    return {
        "KIMI_MODEL_NAME": "scripted",
        "KIMI_MODEL_PROVIDER_TYPE": "openai",
        "KIMI_MODEL_BASE_URL": f"{url}/v1",
        "KIMI_MODEL_API_KEY": "dummy",
        "KIMI_CODE_NO_AUTO_UPDATE": "1",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
