"""The mailbox adapter is a card and no program."""

from __future__ import annotations

from beam.agents import mailbox
from beam.agents.registry import adapter


def test_a_mailbox_runs_nothing_and_needs_no_trust() -> None:
    assert mailbox.exec is None
    assert not mailbox.card.runs_code
    assert mailbox.card.executable == ""


def test_its_only_face_is_the_mailbox_and_it_claims_no_capability() -> None:
    assert list(mailbox.card.faces) == ["mailbox"]
    face = mailbox.card.faces["mailbox"]
    assert not any(getattr(face, name) for name in face.__struct_fields__)


def test_the_registry_knows_it() -> None:
    assert adapter("mailbox").card.name == "mailbox"
