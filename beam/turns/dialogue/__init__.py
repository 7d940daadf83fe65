"""The dialogue face: an agent that speaks a protocol with beam, in a process of its own or in one that was kept.

What the protocol means is the adapter's link's (`agents/link.py`).
"""

from beam.turns.dialogue.driver import run_turn

__all__ = ["run_turn"]
