"""The beginning of a conversation over the Agent Client Protocol, by itself."""

from __future__ import annotations

from beam.agents.acp import wire
from beam.agents.acp.opening import Opening
from beam.agents.acp.options import Options
from beam.agents.jsonrpc import PendingCalls
from tests.support.acp_dialogue import DIALECT, SESSION, turn


def test_a_session_has_no_id_until_the_agent_has_opened_it() -> None:
    calls = PendingCalls("agent", wire.request)
    opening = Opening(turn(), DIALECT, calls, Options())
    opening.begin(0.0)
    assert opening.session_id == ""
    calls.on_answered(1, {"protocolVersion": 1}, None, 1.0)
    assert opening.session_id == ""
    calls.on_answered(2, {"sessionId": SESSION}, None, 2.0)
    assert opening.session_id == SESSION
