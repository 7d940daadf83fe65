"""A profile as settings change it."""

from __future__ import annotations

import msgspec

from beam.agents.claude.screen import profile as CLAUDE
from beam.model.screen_profile import PATTERN_FIELDS, Dialog, Profile, override_fields


def test_only_the_fields_that_are_set_differ() -> None:
    changed = override_fields(CLAUDE, {"busy_rows": ["^working"], "rows": 50})
    assert (changed.busy_rows, changed.rows) == (("^working",), 50)
    assert msgspec.structs.replace(changed, busy_rows=CLAUDE.busy_rows, rows=CLAUDE.rows) == CLAUDE
    assert override_fields(CLAUDE, {}) is CLAUDE


def test_dialogs_that_are_set_stand_in_place_of_the_adapters() -> None:
    asked = {"name": "x", "match": "y", "allow": ["1"]}
    assert override_fields(CLAUDE, {"dialogs": [asked]}).dialogs == (Dialog(name="x", match="y", allow=("1",)),)


def test_every_pattern_is_a_field() -> None:
    for kind in (Profile, Dialog):
        assert set(PATTERN_FIELDS[kind]) <= set(kind.__struct_fields__)
