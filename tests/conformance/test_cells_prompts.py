"""A prompt arrives at the model verbatim, whatever it begins with and whatever is in it."""

from __future__ import annotations

from beam.testing.conformance import prompts
from tests.conformance.cases import shared

test_prompt_with_a_dash = shared(__name__, prompts.prompt_with_a_dash)
test_prompt_with_a_slash = shared(__name__, prompts.prompt_with_a_slash)
test_prompt_with_quotes = shared(__name__, prompts.prompt_with_quotes)
test_prompt_of_many_lines = shared(__name__, prompts.prompt_of_many_lines)
test_prompt_with_mentions = shared(__name__, prompts.prompt_with_mentions)
test_prompt_of_200_kilobytes = shared(__name__, prompts.prompt_of_200_kilobytes)
