"""The frames of `codex app-server`: types with the fields that beam reads, functions for the frames that beam writes,
and its notifications by method: beam reads those in `READ_METHODS`, and knows and ignores those in `IGNORED_METHODS`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from beam.agents.jsonrpc import Envelope, Writer
from beam.agents.typed import Count, reader


class Item(Struct, frozen=True, rename="camel"):
    """One item of a turn. A field that a kind of item does not have is at its default."""

    id: str = ""
    type: str = ""
    status: str = ""
    text: str = ""
    client_id: Any = None
    command: str = ""
    aggregated_output: Any = None
    exit_code: Any = None
    changes: Any = None
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: Any = None
    error: Any = None
    content_items: Any = None
    success: Any = None
    query: str = ""
    action: Any = None
    summary: Any = None
    path: str = ""
    saved_path: Any = None
    prompt: Any = None
    receiver_thread_ids: Any = None
    agents_states: Any = None
    kind: str = ""
    agent_thread_id: str = ""
    agent_path: str = ""


class Failure(Struct, frozen=True, rename="camel"):
    """The reason why a turn failed or is retried."""

    message: str = ""
    codex_error_info: Any = None
    additional_details: Any = None


class Turn(Struct, frozen=True):
    """The state of one turn, as Codex reports it."""

    id: str = ""
    status: str = ""
    error: Failure | None = None


class Tokens(Struct, frozen=True, rename="camel"):
    """The tokens that the whole thread, or its last model call, has used. A figure that is missing is None."""

    input_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    cache_write_input_tokens: Count | None = None
    output_tokens: Count | None = None
    reasoning_output_tokens: Count | None = None


NO_TOKENS, NO_ITEM, NO_TURN, NO_FAILURE = Tokens(), Item(), Turn(), Failure()


class Usage(Struct, frozen=True, rename="camel"):
    """The figures of a thread: `total` is for the whole thread so far, `last` for its last model call."""

    total: Tokens = NO_TOKENS
    last: Tokens = NO_TOKENS
    model_context_window: Count | None = None


NO_USAGE = Usage()


class Params(Struct, frozen=True, rename="camel"):
    """The parameters of a notification. A field that this kind of notification does not have is at its default."""

    thread_id: str = ""
    turn_id: str = ""
    item_id: str = ""
    delta: str = ""
    item: Item = NO_ITEM
    turn: Turn = NO_TURN
    token_usage: Usage = NO_USAGE
    error: Failure = NO_FAILURE
    will_retry: bool = False
    request_id: Any = None
    message: str = ""
    plan: Any = None
    thread_settings: Any = None
    status: Any = None
    run: Any = None


NO_PARAMS = Params()


class Frame(Envelope, frozen=True):
    """One line of Codex's app-server protocol."""

    params: Params = NO_PARAMS


read = reader(Frame)
_writer = Writer({})
request, notification, answer, refusal = _writer.request, _writer.notification, _writer.answer, _writer.refusal


READ_METHODS = frozenset(
    {
        "error",
        "guardianWarning",
        "hook/completed",
        "item/agentMessage/delta",
        "item/commandExecution/outputDelta",
        "item/completed",
        "item/started",
        "serverRequest/resolved",
        "thread/closed",
        "thread/settings/updated",
        "thread/status/changed",
        "thread/tokenUsage/updated",
        "turn/completed",
        "turn/plan/updated",
        "turn/started",
        "warning",
    }
)

IGNORED_METHODS = frozenset(
    {
        "account/gatewayOAuth/changed",
        "account/login/completed",
        "account/rateLimits/updated",
        "account/updated",
        "app/list/updated",
        "autoApprovalReview/strictReviewRequired",
        "command/exec/outputDelta",
        "configWarning",
        "deprecationNotice",
        "externalAgentConfig/import/completed",
        "externalAgentConfig/import/progress",
        "fs/changed",
        "fuzzyFileSearch/sessionCompleted",
        "fuzzyFileSearch/sessionUpdated",
        "hook/started",
        "item/autoApprovalReview/completed",
        "item/autoApprovalReview/started",
        "item/commandExecution/terminalInteraction",
        "item/fileChange/outputDelta",
        "item/fileChange/patchUpdated",
        "item/mcpToolCall/progress",
        "item/plan/delta",
        "item/reasoning/summaryPartAdded",
        "item/reasoning/summaryTextDelta",
        "item/reasoning/textDelta",
        "mcpServer/event/stream/notification",
        "mcpServer/oauthLogin/completed",
        "mcpServer/startupStatus/updated",
        "model/rerouted",
        "model/safetyBuffering/updated",
        "model/verification",
        "modelProvider/authRecoveryCompleted",
        "modelProvider/authRecoveryStarted",
        "process/exited",
        "process/outputDelta",
        "project/changed",
        "remoteControl/status/changed",
        "skills/changed",
        "thread/archived",
        "thread/attachment/updated",
        "thread/compacted",
        "thread/deleted",
        "thread/environment/connected",
        "thread/environment/disconnected",
        "thread/goal/cleared",
        "thread/goal/updated",
        "thread/name/updated",
        "thread/prediction/updated",
        "thread/project/updated",
        "thread/queue/changed",
        "thread/readState/changed",
        "thread/realtime/closed",
        "thread/realtime/error",
        "thread/realtime/item/completed",
        "thread/realtime/item/started",
        "thread/realtime/item/transcript/delta",
        "thread/realtime/itemAdded",
        "thread/realtime/outputAudio/delta",
        "thread/realtime/sdp",
        "thread/realtime/started",
        "thread/realtime/transcript/delta",
        "thread/realtime/transcript/done",
        "thread/reverted",
        "thread/search/partial",
        "thread/section/changed",
        "thread/started",
        "thread/unarchived",
        "turn/diff/updated",
        "turn/moderationMetadata",
        "windows/worldWritableWarning",
        "windowsSandbox/setupCompleted",
    }
)
