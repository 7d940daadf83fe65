"""What a person is shown before a folder is trusted."""

from __future__ import annotations

from beam.api.trusting import FolderReview, allowed, differences
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


def test_a_name_with_a_line_break_is_one_line() -> None:
    name = ".claude/hooks/a\n  + true\u2028\x1b[1A"
    told = r".claude/hooks/a\n  + true\u2028\x1b[1A"
    assert shown(name, "evil") == [f"new: {told} (obeyed by claude)", "  + evil"]
    found = Finding(name=name, digest="d", by=("claude",))
    assert list(allowed(FolderReview(found=(found,), standing=Standing(trusted=False)))) == [f"{told}: claude obeys it"]


def test_of_a_file_of_variables_the_names_alone_are_shown() -> None:
    assert shown(".env", "export A=secret\nsecret")[1:] == ["  + A=…", "  + …"]
