"""What a real Claude Code does with beam's command lines, against the scripted model.

Each test has a home of its own.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from beam.agents.base import Exit, Host, Turn, Verdict
from beam.agents.claude import exec
from beam.model import events
from beam.model.outcome import Class, Status, Usage
from beam.model.settings import AgentSettings
from beam.testing.fake_model import FakeModel
from tests.support.repository import files, make_repository

pytestmark = pytest.mark.real
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")
APPROVING_HOOK = {
    "PreToolUse": [
        {
            "matcher": "*",
            "hooks": [
                {
                    "type": "command",
                    "command": "echo '"
                    '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'
                    "'",
                }
            ],
        }
    ]
}
PERMISSIVE = {
    "permissions": {
        "allow": ["Bash", "Bash(*)", "Write", "Edit", "NotebookEdit", "mcp__s"],
        "defaultMode": "bypassPermissions",
    },
    "hooks": APPROVING_HOOK,
}
MCP_SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {}
    if asked["method"] == "initialize":
        answer = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "s", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer = {"tools": [{"name": "change", "description": "x", "inputSchema": {"type": "object"}}]}
    elif asked["method"] == "tools/call":
        open("changed-by-mcp", "w").close()
        answer = {"content": [{"type": "text", "text": "changed"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


class Claude:
    """A person's machine: a home, a folder in it, and a model."""

    def __init__(self, root: Path, model: FakeModel, executable: str) -> None:
        self.executable = executable
        self.home, self.folder, self.model = root / "home", root / "home" / "folder", model
        (self.home / ".claude").mkdir(parents=True)
        self.folder.mkdir()
        make_repository(self.folder, self.home)

    def configure(self, settings: object) -> None:
        (self.home / ".claude" / "settings.json").write_text(json.dumps(settings))

    def run(
        self, text: str, *, env: dict[str, str] | None = None, **fields: Any
    ) -> tuple[Sequence[events.Event], Verdict]:
        fields = {"cwd": str(self.folder), "fresh_session_id": str(uuid.uuid4()), **fields}
        fields.setdefault("settings", AgentSettings(retries=1))
        turn = Turn(text=text, message_id="claude-1", agent="claude", **fields)
        launch = exec.launch(turn, Host(executable=self.executable))
        clean = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        done = subprocess.run(
            launch.argv,
            input=launch.stdin,
            capture_output=True,
            cwd=self.folder,
            env={**clean, **self.model.env("claude"), **launch.env, **(env or {})},
            timeout=60,
            check=False,
        )
        decoder = exec.decoder(turn)
        found = [event for line in done.stdout.split(b"\n") for event in decoder.line(line)]
        last, verdict = decoder.end(Exit(code=done.returncode, stderr_tail=done.stderr.decode()))
        assert not [event for event in found if isinstance(event, events.Unknown)]
        return [*found, *last], verdict

    def sent(self) -> str:
        """All that the model was sent in the last request, as JSON."""
        bodies = [request.body for request in self.model.requests if request.asked is not None]
        return json.dumps(bodies[-1]["messages"])


@pytest.fixture
def claude(agents_path: str, tmp_path: Path) -> Iterator[Claude]:
    with FakeModel() as model:
        yield Claude(tmp_path, model, str(Path(agents_path.split(os.pathsep)[0]) / "claude"))


def tool(name: str, given: object) -> str:
    return f"!tool {name} {json.dumps(given)}"


def outputs(found: Sequence[events.Event]) -> list[str]:
    return [event.output for event in found if isinstance(event, events.ToolReturned)]


# -- sessions ----------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_session_gets_beams_id_and_is_resumed_with_its_context(claude: Claude) -> None:
    fresh = str(uuid.uuid4())
    found, first = claude.run("remember plums", fresh_session_id=fresh)
    assert (first.status, first.session_id, first.session) == (Status.COMPLETED, fresh, "new")
    assert isinstance(found[0], events.SessionStarted) and found[0].session_id == fresh
    assert "".join(event.text for event in found if isinstance(event, events.TextDelta)) == first.reply
    found, second = claude.run("what?", session_id=fresh)
    assert (second.reply, second.session_id, second.session) == ("ECHO[what?] turns=2", fresh, "resumed")
    assert isinstance(found[0], events.SessionStarted) and found[0].resumed
    assert "remember plums" in claude.sent()


@pytest.mark.soak
def test_an_unknown_resume_id_is_lost_and_an_id_in_use_is_a_bad_request(claude: Claude) -> None:
    unknown = str(uuid.uuid4())
    found, verdict = claude.run("hi", session_id=unknown)
    assert (verdict.status, verdict.session) == (Status.FAILED, "lost")
    assert [event.session_id for event in found if isinstance(event, events.SessionLost)] == [unknown]
    _, first = claude.run("hi")
    _, verdict = claude.run("hi", fresh_session_id=first.session_id)
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.BAD_REQUEST)
    assert "is already in use" in (verdict.reason or "")


@pytest.mark.soak
def test_a_throw_away_session_leaves_no_transcript(claude: Claude) -> None:
    assert claude.run("hi", once=True)[1].reply == "ECHO[hi] turns=1"
    assert list(claude.home.rglob("*.jsonl")) == []


@pytest.mark.soak
def test_what_read_access_tells_the_model_is_not_told_to_a_later_turn_with_more_access(claude: Claude) -> None:
    """Claude keeps the system prompt of a session's first turn, unless it is told not to."""
    told = "This session may look and not change anything"

    def systems() -> str:
        return json.dumps(
            [request.body for request in claude.model.requests if request.asked is not None][-1]["system"]
        )

    _, first = claude.run("look", access="read")
    assert told in systems()
    claude.run("now change it", access="edit", session_id=first.session_id)
    assert told not in systems()
    settings = AgentSettings(retries=1, system="Speak of kumquats.")
    claude.run("and now", access="edit", session_id=first.session_id, settings=settings)
    assert "kumquats" in systems() and told not in systems()


# -- access ------------------------------------------------------------------------------------------------------------

SUBAGENT = {"description": "d", "subagent_type": "general-purpose", "prompt": tool("Bash", {"command": "touch made"})}
CHANGES = [
    ("Bash", tool("Bash", {"command": "touch made"})),
    ("Bash", tool("Bash", {"command": "ls"})),
    ("Write", tool("Write", {"file_path": "made", "content": "x"})),
    (
        "Edit",
        tool("Read", {"file_path": "text"})
        + " !then "
        + tool("Edit", {"file_path": "text", "old_string": "a", "new_string": "b"}),
    ),
    (
        "NotebookEdit",
        tool("Read", {"file_path": "n.ipynb"})
        + " !then "
        + tool(
            "NotebookEdit", {"notebook_path": "n.ipynb", "new_source": "x", "edit_mode": "insert", "cell_type": "code"}
        ),
    ),
    ("mcp__s__change", tool("mcp__s__change", {})),
    ("Bash", tool("Agent", SUBAGENT)),
]


RARER = (0, 1, 3, 4, 6)  # `make soak` has these


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        pytest.param(*change, id=f"{n}-{change[0]}", marks=pytest.mark.soak if n in RARER else ())
        for n, change in enumerate(CHANGES)
    ],
)
def test_access_read_denies_a_change_that_the_persons_own_settings_and_hooks_allow(
    claude: Claude, name: str, prompt: str
) -> None:
    claude.configure(PERMISSIVE)
    server = claude.home / "server.py"
    server.write_text(MCP_SERVER)
    servers = {"s": {"type": "stdio", "command": "python3", "args": [str(server)]}}
    (claude.home / ".claude.json").write_text(json.dumps({"mcpServers": servers}))
    notebook = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (claude.folder / "text").write_text("a")
    (claude.folder / "n.ipynb").write_text(notebook)
    for file in ("made", "text", "n.ipynb"):
        prompt = prompt.replace(f'path": "{file}"', f'path": "{claude.folder / file}"')
    _, verdict = claude.run(prompt, access="read")
    assert verdict.status is Status.DENIED
    assert [(denial.tool, denial.by) for denial in verdict.denials] == [(name, "default")]
    assert files(claude.folder) == ["n.ipynb", "text"]
    assert ((claude.folder / "text").read_text(), (claude.folder / "n.ipynb").read_text()) == ("a", notebook)


@pytest.mark.soak
def test_access_read_looks(claude: Claude) -> None:
    file = claude.folder / "text"
    file.write_text("needle")
    looks = [("Read", {"file_path": str(file)}), ("Glob", {"pattern": "*"}), ("Grep", {"pattern": "needle"})]
    found, verdict = claude.run(" ".join(tool(name, given) for name, given in looks), access="read")
    assert verdict.status is Status.COMPLETED
    names = {event.call_id: event.name for event in found if isinstance(event, events.ToolCalled)}
    seen = {names[event.call_id]: event.output for event in found if isinstance(event, events.ToolReturned)}
    assert "needle" in seen["Read"]
    assert "text" in seen["Glob"]
    assert "text" in seen["Grep"]


def test_access_read_runs_nothing_of_the_folder_and_reads_its_claude_md(claude: Claude) -> None:
    (claude.folder / ".claude").mkdir()
    for name in ("settings.json", "settings.local.json"):
        hook = {"type": "command", "command": f"touch {claude.home}/hook"}
        settings = {
            "hooks": {"SessionStart": [{"hooks": [hook]}]},
            "apiKeyHelper": f"touch {claude.home}/helper; echo key",
            "enableAllProjectMcpServers": True,
        }
        (claude.folder / ".claude" / name).write_text(json.dumps(settings))
    server = {"type": "stdio", "command": "touch", "args": [f"{claude.home}/server"]}
    (claude.folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"p": server}}))
    (claude.folder / "CLAUDE.md").write_text("the folder's own words")
    for access in ("read", "edit"):
        assert claude.run("hi", access=access)[1].status is Status.COMPLETED
        assert [name for name in ("hook", "helper", "server") if (claude.home / name).exists()] == []
        assert "the folder's own words" in claude.sent()


@pytest.mark.soak
def test_access_read_keeps_the_persons_own_deny_rules(claude: Claude) -> None:
    secret = claude.folder / ".env"
    secret.write_text("SECRET=1")
    claude.configure({"permissions": {"deny": [f"Read(/{secret})"]}})
    found, _ = claude.run(tool("Read", {"file_path": str(secret)}), access="read")
    assert "SECRET=1" not in outputs(found)[0]


def test_access_edit_changes_files_in_the_folder_only(claude: Claude) -> None:
    inside, outside = claude.folder / "made", claude.home / "made"
    found, verdict = claude.run(tool("Write", {"file_path": str(inside), "content": "x"}), access="edit")
    assert (verdict.status, inside.read_text()) == (Status.COMPLETED, "x")
    changed = [(event.path, event.kind) for event in found if isinstance(event, events.FileChanged)]
    assert changed == [(str(inside), "add")]
    _, verdict = claude.run(tool("Write", {"file_path": str(outside), "content": "x"}), access="edit")
    assert (verdict.status, outside.exists()) == (Status.DENIED, False)
    _, verdict = claude.run(tool("Bash", {"command": f"touch {outside}"}), access="edit")
    assert (verdict.status, outside.exists()) == (Status.DENIED, False)


@pytest.mark.soak
def test_access_full_asks_nothing_and_root_is_told_what_claude_wants(claude: Claude) -> None:
    outside = claude.home / "made"
    prompt = tool("Bash", {"command": f"touch {outside}"})
    if os.getuid() == 0:
        _, verdict = claude.run(prompt, access="full")
        assert (verdict.status, verdict.class_) == (Status.FAILED, Class.BAD_REQUEST)
        assert "IS_SANDBOX" in (verdict.reason or "")
    _, verdict = claude.run(prompt, access="full", env={"IS_SANDBOX": "1"})
    assert (verdict.status, outside.exists()) == (Status.COMPLETED, True)


# -- prompts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        pytest.param("/cost", " /cost", marks=pytest.mark.soak),
        pytest.param("/nothing like it", " /nothing like it", marks=pytest.mark.soak),
        pytest.param("\n/cost", "\n/cost", marks=pytest.mark.soak),
        pytest.param("--version", "--version", marks=pytest.mark.soak),
        pytest.param("a\0b", "a\0b", marks=pytest.mark.soak),
        pytest.param("a\ud800b", "a\ufffdb", marks=pytest.mark.soak),
    ],
)
def test_the_model_gets_the_prompt_whatever_it_begins_with(claude: Claude, text: str, seen: str) -> None:
    assert claude.run(text)[1].status is Status.COMPLETED
    assert claude.model.prompts() == [seen]


@pytest.mark.soak
def test_the_model_gets_attached_text_and_images_also_from_outside_the_folder(claude: Claude) -> None:
    inside, outside, image = claude.folder / "two words.txt", claude.home / "out, (é).txt", claude.folder / "dot.png"
    inside.write_text("words inside")
    outside.write_text("words outside")
    image.write_bytes(PNG)
    assert claude.run("look", attach=(str(inside), str(outside), str(image)))[1].status is Status.COMPLETED
    sent = claude.sent()
    assert "words inside" in sent
    assert "words outside" in sent
    assert '"image/png"' in sent


# -- verdicts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "streamed", "status", "class_"),
    [
        pytest.param("!error 401", [True] * 2, Status.FAILED, Class.AUTH, marks=pytest.mark.soak),
        pytest.param("!error 500", [True] * 2, Status.FAILED, Class.OVERLOADED, marks=pytest.mark.soak),
        ("!drop-mid", [True, True, False], Status.FAILED, Class.NETWORK),
        pytest.param("!refuse", [True] * 2, Status.REFUSED, None, marks=pytest.mark.soak),
        pytest.param("!max_tokens", [True] * 4, Status.TRUNCATED, None, marks=pytest.mark.soak),
        pytest.param("!empty", [True] * 2, Status.COMPLETED, None, marks=pytest.mark.soak),
        pytest.param("!error 400", [True] * 6, Status.FAILED, Class.BAD_REQUEST, marks=pytest.mark.soak),
        pytest.param("!error 403", [True], Status.FAILED, Class.AUTH, marks=pytest.mark.soak),
        pytest.param("!error 404", [True, False], Status.FAILED, Class.BAD_REQUEST, marks=pytest.mark.soak),
        pytest.param("!error 413", [True], Status.FAILED, Class.CONTEXT_OVERFLOW, marks=pytest.mark.soak),
        pytest.param("!error 429", [True] * 2, Status.FAILED, Class.RATE_LIMIT, marks=pytest.mark.soak),
        pytest.param("!error 529", [True] * 2, Status.FAILED, Class.OVERLOADED, marks=pytest.mark.soak),
        pytest.param("!drop", [True] * 2, Status.FAILED, Class.NETWORK, marks=pytest.mark.soak),
    ],
)
def test_what_the_model_does_is_the_verdict(
    claude: Claude, prompt: str, streamed: list[bool], status: Status, class_: Class | None
) -> None:
    """`streamed`: the requests for an answer that Claude made, and which of them asked for a stream."""
    found, verdict = claude.run(prompt)
    assert (verdict.status, verdict.class_) == (status, class_)
    assert [request.asked.stream for request in claude.model.requests if request.asked] == streamed
    assert (verdict.reply is None) == (status in (Status.FAILED, Status.REFUSED))
    retries = [event for event in found if isinstance(event, events.StatusChanged) and event.state == "retrying"]
    assert [(event.attempt, event.of, event.class_) for event in retries] in (
        [],
        [(1, 1, class_)],
        [(1, 1, Class.UNKNOWN)],
    )


@pytest.mark.soak
def test_the_limits_of_turns_and_money_are_kept(claude: Claude) -> None:
    _, verdict = claude.run(tool("Read", {"file_path": "/none"}), max_turns=1)
    assert verdict.status is Status.LIMIT
    _, verdict = claude.run("!usage 1000 20", budget_usd=0.0001)
    assert (verdict.status, verdict.usage) == (
        Status.LIMIT,
        Usage(input_tokens=1000, output_tokens=20, cached_tokens=0, reasoning_tokens=0, cache_write_tokens=0, calls=1),
    )
    assert verdict.cost_usd is not None and verdict.cost_usd > 0.0001


@pytest.mark.soak
def test_a_schema_gives_structured_output_or_a_failure(claude: Claude) -> None:
    schema = json.dumps({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
    _, verdict = claude.run(tool("StructuredOutput", {"name": "bob"}), schema=schema)
    assert verdict.status is Status.COMPLETED
    assert verdict.structured is not UNSET and json.loads(bytes(verdict.structured)) == {"name": "bob"}
    _, verdict = claude.run("no", schema=schema)
    assert (verdict.status, verdict.structured) == (Status.FAILED, UNSET)


@pytest.mark.soak
def test_the_task_tools_make_a_plan(claude: Claude) -> None:
    make = [tool("TaskCreate", {"subject": subject, "description": "d"}) for subject in ("one", "two")]
    found, _ = claude.run(" ".join(make) + " !then " + tool("TaskUpdate", {"taskId": "1", "status": "in_progress"}))
    plans = [event.steps for event in found if isinstance(event, events.PlanUpdated)]
    assert [(step.text, step.status) for step in plans[-1]] == [("one", "in_progress"), ("two", "pending")]
