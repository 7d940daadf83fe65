"""The fields of a screen that a person describes: dialogs are whole, and their patterns compile."""

from __future__ import annotations

import pytest

from beam.base.errors import ConfigError
from beam.config.fields import screen_fields
from beam.config.source import Source

GOOD = {"name": "run", "match": "Run it\\?", "allow": ["y"], "deny": ["n"]}


def read(screen: object) -> dict[str, object]:
    return screen_fields(screen, ("screen",), Source("beam.yaml"))


def test_dialogs_are_kept_with_the_other_fields() -> None:
    found = read({"prompt": "^> ?(.*)$", "dialogs": [GOOD]})
    assert found["prompt"] == "^> ?(.*)$"
    assert found["dialogs"] == [{"name": "run", "match": "Run it\\?", "allow": ("y",), "deny": ("n",)}]
    assert read({"dialogs": None}) == {}


@pytest.mark.parametrize(
    ("screen", "said"),
    [
        ({"dialogs": {"run": GOOD}}, "screen.dialogs: expected a list of dialogs"),
        ({"dialogs": [{**GOOD, "name": None}]}, "screen.dialogs.0: a dialog needs 'name'"),
        ({"dialogs": [GOOD, {"name": "second"}]}, "screen.dialogs.1: a dialog needs 'match'"),
        ({"dialogs": [{**GOOD, "match": "("}]}, "screen.dialogs.0.match"),
        ({"dialogs": [{**GOOD, "key": "y"}]}, "screen.dialogs.0.key: unknown key"),
        ({"prompt": "("}, "screen.prompt"),
    ],
)
def test_what_is_wrong_with_a_screen_is_named_with_its_place(screen: object, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(screen)
    assert said in caught.value.message
