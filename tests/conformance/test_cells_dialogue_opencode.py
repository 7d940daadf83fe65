"""The cells of OpenCode over the Agent Client Protocol."""

from __future__ import annotations

from tests.conformance import dialogue
from tests.conformance.cases import cells_of_file

globals().update(cells_of_file(dialogue.FILE, __file__))
