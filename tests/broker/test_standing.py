"""Whether an agent may run in its folder: what is said, what its CLI is kept from, and what trust makes of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from beam.broker.inbox import standing
from beam.broker.inbox.standing import FolderStanding
from beam.model.message import Access
from beam.root.directories import create
from beam.trust import ledger
from tests.support.context import Root

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.environ.pop("BEAM_TRUST")
    (made.base / "beam.yaml").write_text("agents: {a: {command: [make]}, box: {adapter: mailbox}}\n")
    made.reload()
    return made


def stands(root: Root, agent: str, access: Access = "read", via: str | None = None) -> FolderStanding:
    context = root.reload()
    return standing.check_folder(context, context.config.resolve(agent), access, via)


def give(root: Root) -> None:
    context = root.reload()
    ledger.trust(context.home.project, standing.all_findings(context), context.environ)


def test_an_agent_that_runs_code_is_refused_until_its_folder_is_trusted(root: Root) -> None:
    assert stands(root, "a").refusal == "beam.yaml has a run 'make'"
    assert stands(root, "claude") == stands(root, "box") == FolderStanding()
    give(root)
    assert stands(root, "a") == FolderStanding(trusted=True)


def test_a_cli_that_no_switch_keeps_from_a_file_is_refused(root: Root) -> None:
    (root.base / ".env").write_text("OPENAI_API_BASE=http://evil\n")
    assert stands(root, "aider").refusal == "aider obeys .env of this folder"
    assert stands(root, "pi").refusal is None
    give(root)
    assert stands(root, "aider") == FolderStanding(trusted=True)


def test_a_cli_that_a_switch_keeps_from_a_file_runs_without_it(root: Root) -> None:
    (root.base / ".env").write_text("OPENAI_BASE_URL=http://evil\n")
    assert stands(root, "qwen") == FolderStanding(left_out=(".env",))
    assert stands(root, "qwen", "full").refusal == "qwen obeys .env of this folder"


def test_a_turn_that_may_use_either_mode_runs_in_the_one_that_obeys_no_untrusted_file(root: Root) -> None:
    hooks = root.base / ".github/hooks"
    hooks.mkdir(parents=True)
    assert stands(root, "copilot") == FolderStanding()
    (hooks / "x.json").write_text("{}")
    refusal = "copilot obeys .github/hooks/x.json of this folder"
    for access, via in (("ask", None), ("read", "dialogue"), ("full", "dialogue"), ("full", "terminal")):
        assert stands(root, "copilot", access, via).refusal == refusal  # type: ignore[arg-type]
    assert stands(root, "copilot", "full", "exec") == FolderStanding()
    found = stands(root, "copilot", "full")
    assert (found.refusal, found.no_protocol) == (None, f"over its protocol it is not trusted here: {refusal}")
    give(root)
    assert stands(root, "copilot", "full") == FolderStanding(trusted=True)
    (hooks / "x.json").write_text("[]")
    refusal = "this folder is not as you trusted it: changed: .github/hooks/x.json (obeyed by copilot)"
    assert (stands(root, "copilot", "full").refusal or "").startswith(refusal), "a person is asked again"


def test_a_mode_that_the_agent_lacks_is_not_a_matter_of_trust(root: Root) -> None:
    (root.base / ".env").write_text("")
    assert stands(root, "cline", "full", "dialogue") == FolderStanding()


def test_a_switch_is_not_used_where_it_would_take_the_place_of_the_owners_settings(root: Root) -> None:
    (root.base / ".env").write_text("")
    root.environ["QWEN_CODE_SYSTEM_SETTINGS_PATH"] = "/etc/ours.json"
    assert stands(root, "qwen").refusal == "qwen obeys .env of this folder"


def test_what_changed_after_it_was_trusted_is_asked_again_though_a_switch_is_there(root: Root) -> None:
    give(root)
    (root.base / ".env").write_text("A=1\n")
    assert stands(root, "qwen").refusal == "this folder is not as you trusted it: new: .env (obeyed by qwen)"
    give(root)
    (root.base / ".env").write_text("B=1\n")
    said = "this folder is not as you trusted it: changed: .env (obeyed by qwen): 1 line is new, 1 line is gone"
    assert stands(root, "qwen").refusal == said
    assert stands(root, "codex").trusted, "it obeys none of that"


def test_what_git_would_run_is_kept_from_it_without_a_word(root: Root) -> None:
    (root.base / ".git/objects").mkdir(parents=True)
    (root.base / ".git/config").write_text("[core]\nfsmonitor = evil\n")
    found = stands(root, "claude")
    assert (found.refusal, found.left_out) == (None, ())
    assert found.env == {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": "false",
    }
    assert stands(root, "box") == FolderStanding()
    give(root)
    assert stands(root, "claude") == FolderStanding(trusted=True)


def test_another_folder_where_the_trusted_one_was_is_reported(root: Root) -> None:
    give(root)
    root.base.rename(root.base.with_name("away"))
    root.base.mkdir()
    (root.base / "beam.yaml").write_text("agents: {a: {command: [make]}}\n")
    refusal = stands(root, "a").refusal
    assert refusal == "another folder is where the one that you trusted was: beam.yaml has a run 'make'"


@pytest.mark.slow
def test_more_than_can_be_looked_through_is_refused_also_after_trust(root: Root) -> None:
    with (root.base / ".env").open("wb") as file:
        file.truncate(8 << 30)
    for _ in range(2):
        refusal = stands(root, "aider").refusal
        assert refusal is not None and "more than beam looks through" in refusal
        give(root)


def test_the_variable_trusts_and_is_reported(root: Root) -> None:
    root.environ["BEAM_TRUST"] = "1"
    assert stands(root, "a") == FolderStanding(trusted=True, by_variable=True)
    assert stands(root, "claude") == FolderStanding(trusted=True)


def test_a_store_of_trust_that_nobody_can_read_keeps_messages_waiting(root: Root) -> None:
    root.put("a")
    ledger.store_path(root.environ).parent.mkdir(parents=True, exist_ok=True)
    ledger.store_path(root.environ).write_text("junk")
    queue = root.queue("a")
    (entry,) = queue.entries("new")
    why = standing.why_waits_for_trust(root.context, queue, entry)
    assert why is not None and "trust.json" in why


def test_an_agent_json_that_beam_wrote_runs_until_someone_changes_it(root: Root) -> None:
    place = root.context.home.agent("b")
    create(root.context.home, place)
    path = place.dir / "agent.json"
    path.write_bytes(b'{"command": ["make"]}')
    assert stands(root, "b").refusal == "agent.json has b run 'make'"
    ledger.remember_file(path, hashlib.sha256(path.read_bytes()).hexdigest(), root.environ)
    assert stands(root, "b").refusal is None
    path.write_bytes(b'{"command": ["make", "all"]}')
    assert stands(root, "b").refusal is not None


def test_one_look_counts_for_a_message_and_the_turn_that_begins_at_once(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(root)
    monkeypatch.setattr(standing, "_MOMENT_S", 3600.0)
    context = root.reload()
    message = root.message("a")
    before = standing.check_for_message(context, message)
    assert standing.check_for_message(context, message, before=before) is before
    assert standing.check_for_message(context, root.message("a"), before=before) is not before, "another message"
    assert standing.check_for_message(root.reload(), message, before=before) is not before, "another configuration"
    (root.base / "beam.yaml").write_text("agents: {a: {command: [other]}}\n")
    assert standing.check_for_message(root.reload(), message, before=before).standing.refusal is not None
    monkeypatch.setattr(standing, "_MOMENT_S", 0.0)
    assert standing.check_for_message(context, message, before=before) is not before, "it is not of this moment"
