"""Turns that are stopped: by time, by silence, by a kill. Nothing is left behind."""

from __future__ import annotations

from beam.testing.conformance import stops
from tests.conformance.cases import MAIN, shared

test_timeout = shared(__name__, stops.timeout)
test_stalled_stream = shared(__name__, stops.stalled_stream)
test_killed_cli = shared(__name__, stops.killed_cli, quick_for=MAIN)
