"""The sixteen features that a user may expect of any agent CLI, as one table of yes or no. Each value is computed from
the agent's card.

`tests/agents/test_features.py` names the test behind every yes.
"""

from __future__ import annotations

from msgspec import Struct

from beam.agents.base import Capabilities, Card


class Features(Struct, frozen=True, kw_only=True):
    """The features that beam offers for an agent CLI, each in at least one of the CLI's modes.

    `streaming`: the answer comes in pieces. `interrupt`: a turn can be ended and its session kept. `session_resume`:
    the next message continues the session. `model_switching`: a message can name its model. `permission_modes`: there
    is more than one access. `mode_switch_mid_session`: messages of one session can have different accesses.
    `slash_commands`: the CLI's own commands can be sent. `mcp`: beam gives the CLI MCP servers (the servers in the
    CLI's own settings work anyway). `structured_output`: an answer can follow a JSON Schema. `image_input`: images can
    be attached. `file_checkpointing`: files can be reset to an earlier turn. `cost_tracking`: the CLI reports the cost
    of a turn. `agent_teams`: beam shows the CLI's agent teams. `session_fork`: a session can be copied.
    `session_archive`: a session can be archived and restored. `native_protocol`: beam speaks the CLI's own protocol.
    """

    streaming: bool
    interrupt: bool
    session_resume: bool
    model_switching: bool
    permission_modes: bool
    mode_switch_mid_session: bool
    slash_commands: bool
    mcp: bool
    structured_output: bool
    image_input: bool
    file_checkpointing: bool
    cost_tracking: bool
    agent_teams: bool
    session_fork: bool
    session_archive: bool
    native_protocol: bool


def features(card: Card) -> Features:
    """Return the features of this card's agent."""
    modes: list[Capabilities] = list(card.faces.values())
    return Features(
        streaming=any(can.deltas for can in modes),
        interrupt=any(can.interrupt for can in modes),
        session_resume=any(can.resume for can in modes),
        model_switching=any(can.model for can in modes),
        permission_modes=any(len(can.access) > 1 for can in modes),
        mode_switch_mid_session=any(can.resume and {"read", "full"} <= {*can.access} for can in modes),
        slash_commands=any(can.commands for can in modes),
        mcp=False,
        structured_output=any(can.schema for can in modes),
        image_input=any(can.attach is not None for can in modes),
        file_checkpointing=any(can.checkpoints for can in modes),
        cost_tracking=any(can.cost for can in modes),
        agent_teams=card.teams,
        session_fork=any(can.fork for can in modes),
        session_archive=any(can.resume for can in modes),
        native_protocol="dialogue" in card.faces,
    )
