"""A rule is read once, and what is none is refused with what was probably meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.base.errors import UsageError
from beam.rules.rule import parse, parse_call


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Bash", "Bash"),
        (" Bash( git   log * ) ", "Bash(git log *)"),
        ("Bash(npm:*)", "Bash(npm *)"),
        ("Bash(*)", "Bash"),
        ("Edit(./src/**)", "Edit(src/**)"),
        ("Read(//etc/**)", "Read(//etc/**)"),
        ("WebFetch(domain:*.Example.com)", "WebFetch(domain:*.example.com)"),
        ("mcp__git__log", "mcp__git__log"),
        ("mcp__git__*", "mcp__git__*"),
        ("Agent", "Agent"),
    ],
)
def test_a_rule_is_written_as_for_claude(text: str, said: str) -> None:
    rule = parse(text, "allow", whose="beam.yaml")
    assert (rule.text, str(rule), rule.whose) == (said, f"allow {said}", "beam.yaml")
    assert parse(said, "allow").text == said


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Bahs(git *)", "did you mean Bash?"),
        ("bash", "did you mean Bash?"),
        ("Write(src/**)", "write Edit"),
        ("Grep", "write Read"),
        ("Task", "write Agent"),
        ("Frobnicate", "the tools are Bash"),
        ("Bash()", "write Bash, without ()"),
        ("Bash(git status; rm *)", "the words of one command"),
        ("Bash(* --version)", "the first word is a command's name"),
        ("Edit(/etc/hosts)", "write //etc/hosts for an absolute path, etc/hosts for one in the folder"),
        ("Edit(../x)", "no .. in it"),
        ("Edit(~root/x)", "write ~/PATH"),
        ("Edit([ab])", "only *, ** and ?"),
        ("WebFetch(example.com)", "WebFetch(domain:example.com)"),
        ("WebSearch(cats)", "takes no argument"),
        ("mcp__git(x)", "without an argument"),
        ("Bash(git", "Tool or Tool(argument)"),
        ("Bash(a\nb)", "one line"),
        ("", "Tool or Tool(argument)"),
        (f"Bash({'a' * 2000})", "Tool or Tool(argument)"),
    ],
)
def test_what_is_no_rule_is_refused_with_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(text, "deny")
    assert hint in error.value.hint


@pytest.mark.slow
@given(st.text(max_size=30) | st.text("BashEdit()*/ ~.:;", max_size=20))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    try:
        rule = parse(text, "ask")
    except UsageError:
        return
    assert parse(rule.text, "ask") == rule


def test_a_call_is_written_like_a_rule() -> None:
    assert parse_call("Bash(git push (now))").command == "git push (now)"
    assert parse_call("Edit(//etc/hosts)").paths == ("/etc/hosts",)
    pages = ("WebFetch(https://example.com/a)", "WebFetch(domain:example.com)")
    assert [parse_call(page).host for page in pages] == ["example.com", "example.com"]
    for text in ("Bash(git", "Bsh(x)", "git push"):
        with pytest.raises(UsageError):
            parse_call(text)
