"""Messages are found by their id or its ending."""

from __future__ import annotations

import pytest

from beam.api.find import find_message
from beam.base.errors import NotFoundError, UsageError
from tests.support.context import Root


def test_a_message_is_found_by_its_whole_id_or_a_unique_ending(root: Root) -> None:
    message = root.put("box")
    place = root.place("box")
    assert find_message(root.context, message.id) == (place, message.id)
    assert find_message(root.context, message.id[-4:]) == (place, message.id)


def test_a_short_an_unknown_and_an_ambiguous_ending_are_refused(root: Root) -> None:
    for ident in ("box-1aaaabbbb", "box-2aaaabbbb"):
        root.put("box", id=ident)
    with pytest.raises(UsageError, match="too short"):
        find_message(root.context, "bbb")
    with pytest.raises(NotFoundError, match="no message"):
        find_message(root.context, "zzzz")
    with pytest.raises(UsageError, match="matches 2 messages"):
        find_message(root.context, "bbbb")
