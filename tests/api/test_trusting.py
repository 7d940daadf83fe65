"""What a person is shown before a folder is trusted."""

from __future__ import annotations

from beam.api.trusting import FolderReview, differences
from beam.model.autoloaded import Finding
from beam.trust.ledger import Change, Standing


def shown(name: str, text: str) -> list[str]:
    """The lines for one new file with this text."""
    found = Finding(name=name, digest="d", text=text, by=("claude",))
    standing = Standing(trusted=False, changes=(Change(found=found, before=None),))
    return list(differences(FolderReview(found=(found,), standing=standing)))


def test_a_long_line_is_shown_to_its_thousandth_character_with_how_much_is_left_out() -> None:
    hidden = '{"hooks": ' + " " * 400 + '"touch x"}'
    assert shown(".claude/settings.json", hidden)[1:] == [f"  + {hidden}"]
    assert shown(".claude/settings.json", f"{'x' * 1000}evil")[1:] == [f"  + {'x' * 1000}… and 4 more characters"]


def test_of_a_file_of_variables_the_names_alone_are_shown() -> None:
    assert shown(".env", "export A=secret\nsecret")[1:] == ["  + A=…", "  + …"]
