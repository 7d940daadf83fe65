"""A settings file that a decision changed stays trusted only if nothing but the decision can have changed it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.broker.holder.lease import AgentLease
from beam.broker.holder.renewal import Renewal, only_adds_entries
from beam.broker.inbox import standing
from beam.broker.inbox.build_request import build_turn_request
from beam.trust import ledger
from tests.support.context import Root

KEYS = ("permissions", "allow")


def settings(*allowed: str, **more: object) -> bytes:
    return json.dumps({"permissions": {"allow": list(allowed)}, **more}).encode()


@pytest.mark.parametrize(
    ("before", "after", "is_so"),
    [
        (None, settings("Bash(npm *)"), True),
        (b"{}", settings("a", "b"), True),
        (settings("a"), settings("a", "b"), True),
        (settings("a", model="x"), settings("a", "b", model="x"), True),
        (settings("a"), settings("a"), True),
        (settings("a"), settings("b"), False),
        (settings("a"), settings("b", "a"), False),
        (settings("a"), settings("a", "b", "c", "d"), False),
        (settings("a"), settings("a", "b", hooks={}), False),
        (settings("a", hooks={}), settings("a", "b"), False),
        (None, b'{"permissions": {"allow": ["a"], "defaultMode": "bypassPermissions"}}', False),
        (None, b'{"permissions": {"allow": [{"a": 1}]}}', False),
        (None, b'{"permissions": {"allow": "a"}}', False),
        (None, b'{"permissions": ["a"]}', False),
        (None, b"[]", False),
        (None, b"junk", False),
        (settings("a"), None, False),
        (None, b"[" * 100_000, False),
    ],
)
def test_only_entries_at_the_end_of_the_list_renew_trust(
    before: bytes | None, after: bytes | None, is_so: bool
) -> None:
    assert only_adds_entries(before, after, KEYS, limit=2) is is_so


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A trusted folder in which claude asks."""
    made = Root(tmp_path)
    made.environ.pop("BEAM_TRUST")
    (made.base / "beam.yaml").write_text("agents: {claude: {access: ask}}\n")
    (made.base / ".claude").mkdir()
    context = made.reload()
    ledger.trust(context.home.project, standing.all_findings(context), context.environ)
    return made


@pytest.fixture
def lease(root: Root) -> Iterator[AgentLease]:
    made = root.hold("claude")
    yield made
    made.close()


def renewal(root: Root, lease: AgentLease) -> Renewal:
    return Renewal(lease.log, build_turn_request(lease.log, root.message("claude")))


def is_trusted(root: Root) -> bool:
    return standing.check_folder(root.context, root.context.config.resolve("claude"), "ask").trusted


@pytest.mark.slow
def test_what_a_decision_wrote_is_trusted_with_its_id(root: Root, lease: AgentLease) -> None:
    before = renewal(root, lease)
    (root.base / ".claude/settings.local.json").write_bytes(settings("Bash(npm *)"))
    assert not is_trusted(root)
    before.renew_trust(["ask-1"])
    assert is_trusted(root)
    assert [event.text for event in root.events("claude") if getattr(event, "code", "") == "trust_renewed"] == [
        ".claude/settings.local.json was changed by decision ask-1, and is still trusted"
    ]


@pytest.mark.slow
def test_nothing_is_renewed_without_a_decision(root: Root, lease: AgentLease) -> None:
    before = renewal(root, lease)
    (root.base / ".claude/settings.local.json").write_bytes(settings("Bash(npm *)"))
    before.renew_trust([])
    assert not is_trusted(root)


@pytest.mark.slow
@pytest.mark.parametrize("other", [".claude/settings.json", ".mcp.json", ".claude/agents/evil.md", "beam.yaml"])
def test_nothing_is_renewed_where_something_else_changed_in_that_turn(
    root: Root, lease: AgentLease, other: str
) -> None:
    before = renewal(root, lease)
    (root.base / ".claude/settings.local.json").write_bytes(settings("Bash(npm *)"))
    path = root.base / other
    path.parent.mkdir(exist_ok=True)
    path.write_text("agents: {claude: {access: full}}\n" if other == "beam.yaml" else "{}")
    lease.log.context = root.reload()
    before.renew_trust(["ask-1"])
    assert not is_trusted(root)


@pytest.mark.slow
def test_nothing_is_renewed_where_more_was_added_than_was_decided(root: Root, lease: AgentLease) -> None:
    before = renewal(root, lease)
    (root.base / ".claude/settings.local.json").write_bytes(settings(*(f"Bash({n})" for n in range(6))))
    before.renew_trust(["ask-1"])
    assert not is_trusted(root)
