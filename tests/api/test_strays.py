"""Files in `new/` that are no messages are named by `queue list`, `status` and `doctor`, whoever put them there."""

from __future__ import annotations

import os

import pytest

from beam.api.doctor import checks
from beam.api.messages import queue_items
from beam.api.status import status_of
from beam.api.strays import WRONG_NAME, strays
from beam.model.message import Message, Payload, encode
from tests.support.context import Root

MESSAGE = Message(id="box-1", timestamp="2026-01-01T00:00:00Z", sender="human", to="box", payload=Payload(text="hi"))


def put(root: Root, name: str | bytes, data: bytes, agent: str = "box") -> None:
    new = root.place(agent).queue / "new"
    new.mkdir(parents=True, exist_ok=True)
    (new / os.fsdecode(name)).write_bytes(data)


STRAYS = {
    "a wrong name": ("mine.json", encode(MESSAGE), "its name is not NUMBER-ID.json"),
    "a name without an id": (f"{5:020d}-.json", encode(MESSAGE), "its name is not NUMBER-ID.json"),
    "truncated": (f"{5:020d}-box-1.json", encode(MESSAGE)[:40], "not a message: "),
    "empty": (f"{5:020d}-box-1.json", b"", "not a message: "),
    "another id": (f"{5:020d}-box-2.json", encode(MESSAGE), "the file of box-2 holds box-1 to box"),
    "another agent": (
        f"{5:020d}-box-1.json",
        encode(MESSAGE).replace(b'"to":"box"', b'"to":"worker"'),
        "the file of box-1 holds box-1 to worker",
    ),
}


@pytest.mark.parametrize("kind", STRAYS)
def test_a_file_that_is_no_message_is_named_with_the_reason(root: Root, kind: str) -> None:
    name, data, why = STRAYS[kind]
    put(root, name, data)
    (stray,) = strays(root.place("box"))
    assert (stray.name, stray.why.startswith(why)) == (name, True)
    (item,) = queue_items(root.context, ["box"])
    assert item.error == stray.why and item.box == ("stray" if stray.why == WRONG_NAME else "waiting")
    assert status_of(root.context, root.place("box")).strays == 1
    (check,) = [check for check in checks(root.context) if check.what == "queue box"]
    assert (check.result, check.summary) == ("note", "1 file in its queue is no message: beam queue list box")
    assert name in check.detail and why in check.detail


def test_a_message_is_none_of_them_and_neither_is_a_hidden_file(root: Root) -> None:
    put(root, f"{5:020d}-box-1.json", encode(MESSAGE))
    put(root, ".swp", b"")
    assert list(strays(root.place("box"))) == []
    assert [item.error for item in queue_items(root.context, ["box"])] == [None]
    assert status_of(root.context, root.place("box")).strays == 0


def test_what_waits_for_an_agent_that_is_unknown_is_told(root: Root) -> None:
    put(root, f"{5:020d}-ghost-1.json", encode(MESSAGE).replace(b'"box', b'"ghost'), "ghost")
    (item,) = queue_items(root.context, ["ghost"])
    assert item.error == "no agent is called 'ghost'"
    (check,) = [check for check in checks(root.context) if check.what == "queue ghost"]
    assert (check.result, check.detail) == ("note", "what waits there never runs: no agent is called ghost")


def test_a_name_that_is_no_text_can_be_shown(root: Root) -> None:
    put(root, b"\xff\x1b.json", b"")
    (item,) = queue_items(root.context, ["box"])
    assert item.id.encode().decode() == item.id


def test_of_many_messages_only_the_first_are_read(root: Root) -> None:
    for number in (1, 2, 3):
        put(root, f"{number:020d}-box-{number}.json", b"{")
    assert len(list(strays(root.place("box"), most=2))) == 2
