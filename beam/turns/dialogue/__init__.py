"""The dialogue face: an agent that speaks a protocol with beam, in a new or a kept process.

The adapter's link knows the protocol (`agents/link.py`).
"""

from beam.turns.dialogue.driver import run_turn

__all__ = ["run_turn"]
