"""The settings that make Kimi Code talk to one model only.

The environment can name one model. `-m` accepts only names from Kimi Code's configuration.
"""

from __future__ import annotations

import json

from beam.agents.masks import Masks
from beam.agents.model_route import route_by_variable

masks = Masks(patterns=((r"Wall time: [\d.]+ seconds", "Wall time: <time>"),))
_CONFIG = """\
[providers.scripted]
type = "openai"
base_url = {base_url}
api_key = "dummy"

[models.other]
provider = "scripted"
model = "other"
max_context_size = 262144
"""


def fake_model_env(url: str) -> dict[str, str]:
    """Return the environment that points Kimi Code at the model at `url`, without an account or any other traffic."""
    return {
        "KIMI_MODEL_NAME": "scripted",
        "KIMI_MODEL_PROVIDER_TYPE": "openai",
        "KIMI_MODEL_BASE_URL": f"{url}/v1",
        "KIMI_MODEL_API_KEY": "dummy",
        "KIMI_CODE_NO_AUTO_UPDATE": "1",
    }


def fake_model_files(url: str) -> dict[str, bytes]:
    """Return Kimi Code's configuration, by its path under HOME. It gives the model at `url` a second name, `other`."""
    return {".kimi-code/config.toml": _CONFIG.format(base_url=json.dumps(f"{url}/v1")).encode()}


model_route = route_by_variable(
    "KIMI_MODEL_BASE_URL",
    "chat",
    ("KIMI_MODEL_API_KEY",),
    choices=("KIMI_MODEL_NAME", "KIMI_MODEL_PROVIDER_TYPE", "KIMI_CODE_NO_AUTO_UPDATE"),
)
