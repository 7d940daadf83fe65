"""The terminal face: an agent on a screen. Typed to, watched until it is idle again, and read.

What a screen means is `pty_adapter`'s; what an agent's screen looks like is its adapter's.
"""

from beam.turns.terminal.driver import run_turn

__all__ = ["run_turn"]
