"""What an error says, whole: its class, message, hint and subject."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from beam.base.errors import BeamError


@contextlib.contextmanager
def refused(kind: type[BeamError], message: str, hint: str = "", *, subject: str = "") -> Iterator[None]:
    """Expects exactly this error."""
    with pytest.raises(kind) as caught:
        yield
    error = caught.value
    assert (type(error), error.message, error.hint, error.subject) == (kind, message, hint, subject)
