"""The terminal face: types to an agent on its screen, watches it until it is idle again, and reads the answer.

`pty_adapter` interprets screens; the adapter describes its agent's screen.
"""

from beam.turns.terminal.driver import run_turn

__all__ = ["run_turn"]
