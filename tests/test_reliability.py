"""The README's reliability table names tests that exist (that it is current, test_docs.py says)."""

from __future__ import annotations

import pytest

from tests.support.reliability import CLAIMS, Claim


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.promise)
def test_each_promise_of_the_readme_has_its_test(claim: Claim) -> None:
    assert claim.is_there, claim.test
