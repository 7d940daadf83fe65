"""Failures of the model's API: the same class for every CLI, and never a reply."""

from __future__ import annotations

from beam.testing.conformance import failures
from tests.conformance.cases import MAIN, shared

test_api_400 = shared(__name__, failures.api_400)
test_api_401 = shared(__name__, failures.api_401, quick_for=MAIN)
test_api_429 = shared(__name__, failures.api_429)
test_api_500 = shared(__name__, failures.api_500)
test_truncated_stream = shared(__name__, failures.truncated_stream)
test_broken_then_answered = shared(__name__, failures.broken_then_answered)
test_refused_connection = shared(__name__, failures.refused_connection)
