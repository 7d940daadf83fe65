"""What an agent does beside its answer is the same events from every link: images, compaction, how full the context is,
modes, retries, and what subagents say."""

from __future__ import annotations

import base64
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from beam.agents.images import content_of, without_image_data
from beam.agents.link import Say, Step
from beam.model import events
from tests.agents.acp.test_acp_frames import PATHS as ACP
from tests.agents.acp.test_acp_frames import Played as PlayedAcp
from tests.agents.codex.test_codex_frames import NAMES as CODEX
from tests.agents.codex.test_codex_frames import Played as PlayedCodex
from tests.support import acp_dialogue, claude_dialogue, codex_dialogue
from tests.support.dialogue import whole

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(1996)).decode()
PARENT = "call-of-the-subagent"


class Claude:
    """Claude Code in the middle of a turn."""

    def __init__(self) -> None:
        self.talk = claude_dialogue.Talk()
        self.talk.begin()
        self.talk.prompt()

    def assistant(self, block: dict[str, Any], parent: str | None = None, **usage: int) -> list[Step]:
        message = {"id": f"m-{len(self.talk.steps)}", "model": "claude-opus-5-5", "content": [block], "usage": usage}
        return self.talk.hear({"type": "assistant", "message": message, "parent_tool_use_id": parent})

    def image_of_a_call(self) -> list[Step]:
        self.talk.call("c-1", "Read", {"file_path": "/p/a.png"})
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
        block = {"type": "tool_result", "tool_use_id": "c-1", "content": [image]}
        return self.talk.hear({"type": "user", "message": {"role": "user", "content": [block]}})

    def compaction(self) -> list[Step]:
        began = self.talk.say("status", status="compacting")
        return began + self.talk.say("compact_boundary", compact_metadata={"trigger": "manual", "pre_tokens": 900})

    def context(self) -> list[Step]:
        usage = {"input_tokens": 1000, "cache_read_input_tokens": 200, "output_tokens": 3}
        self.assistant({"type": "text", "text": "hi"}, **usage)
        self.assistant({"type": "text", "text": "of a subagent"}, PARENT, input_tokens=7)
        return self.talk.result("hi", modelUsage={"claude-opus-5-5": {"contextWindow": 200_000}})

    def mode(self) -> list[Step]:
        return self.talk.say("status", status=None, permissionMode="plan")

    def retry(self) -> list[Step]:
        return self.talk.say("api_retry", attempt=2, max_retries=3, error_status=529, error="overloaded")

    def subagent(self) -> list[Step]:
        said = self.assistant({"type": "text", "text": "found it"}, PARENT)
        called = self.assistant({"type": "tool_use", "id": "c-9", "name": "Read", "input": {}}, PARENT)
        block = {"type": "tool_result", "tool_use_id": "c-9", "content": "x"}
        message = {"role": "user", "content": [block]}
        return said + called + self.talk.hear({"type": "user", "message": message, "parent_tool_use_id": PARENT})


class Codex:
    """Codex in the middle of a turn."""

    def __init__(self) -> None:
        self.talk = codex_dialogue.Talk()
        self.talk.begin()
        self.talk.prompt()

    def item(self, thread: str = codex_dialogue.THREAD, **item: Any) -> list[Step]:
        began = self.talk.say("item/started", item=item, threadId=thread)
        return began + self.talk.say("item/completed", item={**item, "status": "completed"}, threadId=thread)

    def image_of_a_call(self) -> list[Step]:
        result = {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}
        return self.item(id="c-1", type="mcpToolCall", server="s", tool="t", result=result)

    def compaction(self) -> list[Step]:
        return self.item(id="i-1", type="contextCompaction")

    def context(self) -> list[Step]:
        tokens = {"inputTokens": 1190, "cachedInputTokens": 200, "outputTokens": 10}
        usage = {"total": tokens, "last": tokens, "modelContextWindow": 200_000}
        return self.talk.say("thread/tokenUsage/updated", tokenUsage=usage)

    def mode(self) -> list[Step]:
        settings = {"collaborationMode": {"mode": "plan", "settings": {}}}
        return self.talk.say("thread/settings/updated", threadSettings=settings)

    def retry(self) -> list[Step]:
        error = {"message": "Reconnecting... 2/3", "additionalDetails": "the server is overloaded (529)"}
        return self.talk.say("error", error=error, willRetry=True)

    def subagent(self) -> list[Step]:
        self.item(id=PARENT, type="collabAgentToolCall", tool="spawnAgent", receiverThreadIds=["t-2"])
        said = self.item("t-2", id="i-2", type="agentMessage", text="found it")
        return said + self.item("t-2", id="c-9", type="commandExecution", command="cat x", aggregatedOutput="x")


class Acp:
    """An agent that speaks ACP in the middle of a turn."""

    def __init__(self) -> None:
        self.talk = acp_dialogue.talking()

    def image_of_a_call(self) -> list[Step]:
        image = {"type": "image", "data": PNG, "mimeType": "image/png"}
        content = [{"type": "content", "content": image}]
        return self.talk.say("tool_call", toolCallId="c-1", title="read", status="completed", content=content)

    def compaction(self) -> list[Step]:
        began = self.talk.say("compaction_update", status="in_progress")
        return began + self.talk.say("compaction_update", status="completed")

    def context(self) -> list[Step]:
        return self.talk.say("usage_update", used=1200, size=200_000)

    def mode(self) -> list[Step]:
        return self.talk.say("current_mode_update", currentModeId="plan")

    def subagent(self) -> list[Step]:
        meta = {"claudeCode": {"parentToolUseId": PARENT}}
        said = self.talk.text("found", _meta=meta) + self.talk.text(" it", _meta=meta)
        call = {"toolCallId": "c-9", "title": "read", "rawInput": {"path": "x"}, "_meta": meta}
        called = self.talk.say("tool_call", status="in_progress", **call)
        return said + called + self.talk.say("tool_call_update", status="completed", **call)


LINKS = (Claude, Codex, Acp)


def said(steps: list[Step]) -> list[events.Event]:
    return [step.event for step in steps if isinstance(step, Say)]


def of(steps: list[Step], *kinds: type[events.Event]) -> list[Any]:
    return [event for event in said(steps) if isinstance(event, kinds)]


@pytest.mark.parametrize("link", LINKS)
def test_an_image_that_a_tool_returned_is_named_by_its_type_its_size_and_its_call(link: Any) -> None:
    steps = link().image_of_a_call()
    (image,) = of(steps, events.ImageSeen)
    (call,) = of(steps, events.ToolReturned)
    assert (image.media_type, image.bytes, image.at) == ("image/png", 2004, "")
    assert image.call_id == call.call_id
    assert content_of(image) == PNG and PNG not in repr([without_image_data(event) for event in said(steps)])


@pytest.mark.parametrize("link", LINKS)
def test_compaction_is_reported_when_it_begins_and_when_it_is_done(link: Any) -> None:
    states = [event.state for event in of(link().compaction(), events.StatusChanged)]
    assert states == ["compacting", "compacted"]


@pytest.mark.parametrize("link", LINKS)
def test_how_full_the_context_is_is_said_in_tokens(link: Any) -> None:
    (context,) = of(link().context(), events.ContextUsed)
    assert (context.used, context.size) == (1200, 200_000)


@pytest.mark.parametrize("link", LINKS)
def test_a_mode_that_the_agent_goes_into_is_reported(link: Any) -> None:
    (mode,) = of(link().mode(), events.StatusChanged)
    assert (mode.state, mode.detail) == ("mode", "plan")


@pytest.mark.parametrize("link", [Claude, Codex])
def test_a_retry_of_the_cli_is_reported_with_its_number(link: Any) -> None:
    (retry,) = of(link().retry(), events.StatusChanged)
    assert (retry.state, retry.attempt, retry.of, retry.class_) == ("retrying", 2, 3, "overloaded")


@pytest.mark.parametrize("link", LINKS)
def test_what_a_subagent_says_and_calls_has_its_parent_and_is_no_part_of_the_answer(link: Any) -> None:
    found = link()
    steps = found.subagent()
    (text,) = of(steps, events.Text)
    assert (text.text, text.parent is not None) == ("found it", True)
    calls = of(steps, events.ToolCalled, events.ToolReturned)
    assert {event.parent for event in calls} == {text.parent} and len(calls) == 2
    assert text.parent.endswith(PARENT)


def test_an_unchanged_context_is_reported_once() -> None:
    acp = Acp()
    assert len(of([*acp.context(), *acp.context()], events.ContextUsed)) == 1


def test_a_mode_that_a_person_had_set_is_no_news() -> None:
    codex = Codex()
    settings = {"collaborationMode": {"mode": "default", "settings": {}}}
    assert said(codex.talk.say("thread/settings/updated", threadSettings=settings)) == []


def test_a_context_after_compaction_is_what_is_left() -> None:
    steps = Claude().talk.say("compact_boundary", compact_metadata={"pre_tokens": 900, "post_tokens": 50})
    assert [event.used for event in of(steps, events.ContextUsed)] == [50]


def test_an_image_in_an_answer_stands_between_its_texts() -> None:
    acp = Acp()
    acp.talk.text("before")
    image = {"type": "image", "data": PNG, "mimeType": "image/png", "uri": "file:///p/a.png"}
    acp.talk.say("agent_message_chunk", content=image)
    acp.talk.text("after")
    acp.talk.complete()
    found = [event for event in acp.talk.events if isinstance(event, events.Text | events.ImageSeen)]
    assert [getattr(event, "text", None) or event.at for event in found] == ["before", "file:///p/a.png", "after"]  # type: ignore[union-attr]


def test_an_image_that_codex_makes_or_looks_at_is_named_by_its_file() -> None:
    codex = Codex()
    (made,) = of(codex.item(id="i-1", type="imageGeneration", result=PNG, savedPath="/p/a.png"), events.ImageSeen)
    assert (made.at, made.bytes) == ("/p/a.png", 2004)
    (viewed,) = of(codex.item(id="i-2", type="imageView", path="/p/b.png"), events.ImageSeen)
    assert (viewed.at, viewed.bytes) == ("/p/b.png", None)


def test_raw_output_of_a_tool_has_no_content_of_an_image() -> None:
    raw = {"parts": [{"mime": "image/png", "blob": PNG}], "n": 1}
    steps = Acp().talk.say("tool_call", toolCallId="c-1", title="t", status="completed", rawOutput=raw)
    (returned,) = of(steps, events.ToolReturned)
    assert json.loads(returned.output) == {"parts": [{"mime": "image/png", "blob": "[2004 bytes]"}], "n": 1}


def test_a_subagent_that_is_cut_off_has_said_what_it_said() -> None:
    acp = Acp()
    acp.talk.text("half", _meta={"claudeCode": {"parentToolUseId": "one"}})
    acp.talk.text("of two", _meta={"claudeCode": {"parentToolUseId": "two"}})
    acp.talk.text("mine")
    acp.talk.complete()
    texts = [(event.text, event.parent) for event in acp.talk.events if isinstance(event, events.Text)]
    assert sorted(texts, key=str) == [("half", "one"), ("mine", None), ("of two", "two")]


# -- recordings --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [path for path in ACP if path.stem == "first" and "usage_update" in path.read_text()],
    ids=lambda path: path.parent.name,
)
def test_a_recorded_context_is_reported(path: Path) -> None:
    used = [event for event in PlayedAcp(path, whole).talk.events if isinstance(event, events.ContextUsed)]
    assert used and all(event.used is not None and event.size for event in used)
    assert all(before != after for before, after in itertools.pairwise(used))


@pytest.mark.slow
@pytest.mark.parametrize("name", CODEX)
def test_codex_s_recorded_context_goes_with_each_count_of_tokens(name: str) -> None:
    found = PlayedCodex(name, whole).talk.events
    counts = [event for event in found if isinstance(event, events.UsageSeen | events.ContextUsed)]
    kinds = [type(event).__name__ for event in counts]
    assert kinds == ["UsageSeen", "ContextUsed"] * (len(kinds) // 2) and kinds
