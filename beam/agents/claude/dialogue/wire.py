"""The lines that beam writes to Claude Code. The lines that beam reads are in `claude/decode.py`.

A malformed line would end the process, so all of them are made here. Does not depend on the meaning of a line.
"""

from __future__ import annotations

from beam.agents.base import raw_json
from beam.agents.fields import Object
from beam.agents.link import Send


def message(key: str, text: str) -> Send:
    """Return the line for a prompt. claude identifies the prompt by its key, a UUID, and accepts each key once."""
    return _send({"type": "user", "uuid": key, "message": {"role": "user", "content": text}})


def request(key: str, subtype: str, given: Object) -> Send:
    """Return the line for a request from beam to claude."""
    return _send({"type": "control_request", "request_id": key, "request": {"subtype": subtype, **given}})


def answer(key: str, response: Object) -> Send:
    """Return the line for the answer to a request from claude."""
    envelope = {"subtype": "success", "request_id": key, "response": response}
    return _send({"type": "control_response", "response": envelope})


def refusal(key: str, why: str) -> Send:
    """Return the line for the refusal of a request from claude."""
    envelope = {"subtype": "error", "request_id": key, "error": why}
    return _send({"type": "control_response", "response": envelope})


def _send(line: Object) -> Send:
    return Send(bytes(raw_json(line)) + b"\n")
