"""Calls, rules and rulesets as values: each boundary, and what is said of each mistake."""

from __future__ import annotations

import pytest

from beam.base.errors import UsageError
from beam.model.message import RuleLists
from beam.rules import rule as of_rules
from beam.rules import shell
from beam.rules.match import AgentPlace, allowing_rules, may_match
from beam.rules.rule import Rule, ToolCall, host_of, parse, parse_call
from beam.rules.ruleset import Ruleset, Ruling, combine, rules_of

HERE = AgentPlace("/work", "/home/me")


def said(text: str, call: bool = False) -> tuple[str, str, str | None]:
    with pytest.raises(UsageError) as caught:
        parse_call(text) if call else parse(text, "deny")
    return caught.value.message, caught.value.hint, caught.value.subject


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("Bash", ToolCall(tool="Bash")),
        ("Bash(git push)", ToolCall(tool="Bash", command="git push")),
        (" Bash(echo (x)) ", ToolCall(tool="Bash", command="echo (x)")),
        ("Read(src/a)", ToolCall(tool="Read", paths=("src/a",))),
        ("Edit(//etc/x)", ToolCall(tool="Edit", paths=("/etc/x",))),
        ("Read", ToolCall(tool="Read")),
        ("WebFetch(https://Example.com/x)", ToolCall(tool="WebFetch", host="example.com")),
        ("WebFetch(domain:example.com)", ToolCall(tool="WebFetch", host="example.com")),
        ("WebFetch(example.com)", ToolCall(tool="WebFetch", host="example.com")),
        ("WebSearch", ToolCall(tool="WebSearch")),
        ("mcp__git__log", ToolCall(tool="mcp__git__log")),
    ],
)
def test_a_call_is_written_as_a_rule_is(text: str, call: ToolCall) -> None:
    assert parse_call(text) == call


def test_what_is_no_call_is_named_as_far_as_a_line_goes() -> None:
    text = "Bash(" + "x" * 200
    assert said(text, call=True) == (f"{text[:120]!r} is not a call", "write it like 'Bash(git push)'", text[:120])
    assert said("Bahs(x)", call=True)[1] == "did you mean Bash?"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.com", "example.com"),
        ("HTTP://EXAMPLE.com.:80/x", "example.com"),
        ("https://me:pw@example.com", ""),
        ("ftp://example.com", ""),
        ("https://", ""),
        ("https:///x", ""),
        ("https://[::1", ""),
        ("https://[::1]/", ""),
        ("https://exa mple.com", ""),
        ("https://a_b.com", ""),
        ("https://a\\b.com", ""),
        ("https://a.com#b", ""),
        ("example.com", ""),
    ],
)
def test_a_host_is_told_only_where_all_programs_agree(url: str, host: str) -> None:
    assert host_of(url) == host


def test_a_rule_of_the_greatest_length_is_one_and_a_longer_one_is_named() -> None:
    most = "Bash(" + "x" * (of_rules._LONGEST - 6) + ")"
    assert parse(most, "deny").text == most
    longer = most.replace("x)", "xx)")
    message, _, subject = said(longer)
    assert (message, subject) == (f"{longer[:120]!r} is not a rule", longer[:120])
    assert [parse(f"Bash({all_})", "deny").text for all_ in ("*", "**")] == ["Bash", "Bash"]


def rules(*texts: str, behavior: str = "allow", **more: bool) -> tuple[Rule, ...]:
    return tuple(parse(text, behavior, whose=f"w{number}", **more) for number, text in enumerate(texts))  # type: ignore[arg-type]


def allowed(call: ToolCall | str, *texts: str, place: AgentPlace = HERE) -> tuple[str, ...]:
    call = parse_call(call) if isinstance(call, str) else call
    return tuple(rule.text for rule in allowing_rules(rules(*texts), call, place))


@pytest.mark.parametrize(
    ("call", "texts", "by"),
    [
        ("Bash(git log -1)", ("Bash(git *)",), ("Bash(git *)",)),
        ("Bash(git)", ("Bash(git *)",), ("Bash(git *)",)),
        ("Bash(gitk)", ("Bash(git *)",), ()),
        ("Bash(gitk)", ("Bash(git*)",), ("Bash(git*)",)),
        ("Bash(gitk a b)", ("Bash(git*)",), ("Bash(git*)",)),
        ("Bash(gitk b)", ("Bash(g*k)",), ()),
        ("Bash(a x b)", ("Bash(a * b)",), ("Bash(a * b)",)),
        ("Bash(a b)", ("Bash(a * b)",), ()),
        ("Bash(a && b; c)", ("Bash(a)", "Bash(b)", "Bash(c)"), ("Bash(a)", "Bash(b)", "Bash(c)")),
        ("Bash(a && b)", ("Bash(a)",), ()),
        ("Bash(a && a)", ("Bash(a)",), ("Bash(a)",)),
        ("Bash(a `b`)", ("Bash(a)", "Bash"), ("Bash",)),
        ("Bash", ("Bash",), ()),
        ("Read(a)", ("Bash", "Edit"), ()),
        ("Read(a)", ("Read",), ("Read",)),
        ("Read(../a)", ("Read",), ()),
        ("Read(//workx/a)", ("Read",), ()),
        ("Read", ("Read",), ()),
        ("Edit(src/a/b)", ("Edit(src/**)",), ("Edit(src/**)",)),
        ("Edit(src)", ("Edit(src/**)",), ()),
        ("Edit(x/src/a)", ("Edit(src)",), ("Edit(src)",)),
        ("Edit(x/src/a)", ("Edit(src/)",), ("Edit(src/)",)),
        ("Edit(x/src/a)", ("Edit(src/a)",), ()),
        ("Edit(a/b/c/d)", ("Edit(a/**/d)",), ("Edit(a/**/d)",)),
        ("Edit(a/d)", ("Edit(a/**/d)",), ("Edit(a/**/d)",)),
        ("Edit(a/xd)", ("Edit(a/**/d)",), ()),
        ("Edit(a.py)", ("Edit(*.py)",), ("Edit(*.py)",)),
        ("Edit(a1.py)", ("Edit(a?.py)",), ("Edit(a?.py)",)),
        ("Edit(x/a1.py)", ("Edit(?/*?.py)",), ("Edit(?/*?.py)",)),
        ("Edit(a12.py)", ("Edit(a?.py)",), ()),
        ("Edit(a/.py)", ("Edit(a?.py)",), ()),
        ("Bash(a 1)", ("Bash(a ?)",), ()),
        ("Edit(~/x)", ("Edit(~/x)",), ("Edit(~/x)",)),
        ("Edit(~/x)", ("Edit(x)",), ()),
        ("Edit(//etc/x/y)", ("Edit(//etc/x)",), ("Edit(//etc/x)",)),
        ("Edit(etc/x)", ("Edit(//etc/x)",), ()),
        ("WebFetch(https://a.b.com)", ("WebFetch(domain:*.b.com)",), ("WebFetch(domain:*.b.com)",)),
        ("WebFetch(https://b.com)", ("WebFetch(domain:*.b.com)",), ()),
        ("WebFetch(https://xb.com)", ("WebFetch(domain:*.b.com)",), ()),
        ("WebFetch(https://b.com)", ("WebFetch(domain:b.com)",), ("WebFetch(domain:b.com)",)),
        ("WebFetch(https://b.com)", ("WebFetch",), ("WebFetch",)),
        ("WebFetch(ftp://b.com)", ("WebFetch",), ()),
        ("mcp__git__log", ("mcp__git",), ("mcp__git",)),
        ("mcp__git__log", ("mcp__git__log",), ("mcp__git__log",)),
        ("mcp__git__log", ("mcp__git__*",), ("mcp__git__*",)),
        ("mcp__git__log", ("mcp__git__l*",), ("mcp__git__l*",)),
        ("mcp__git__log", ("mcp__git__x*", "mcp__gi", "mcp__git__lo"), ()),
    ],
)
def test_rules_allow_what_they_name_and_nothing_more(call: str, texts: tuple[str, ...], by: tuple[str, ...]) -> None:
    assert allowed(call, *texts) == by


def test_a_call_that_a_person_must_decide_is_allowed_by_no_rule() -> None:
    assert allowed(ToolCall(tool="WebSearch", by_person=True), "WebSearch") == ()
    assert allowed(ToolCall(tool="WebSearch"), "WebSearch") == ("WebSearch",)
    assert allowed(parse_call("Edit(~/x)"), "Edit(~/x)", place=AgentPlace("/work")) == ()


@pytest.mark.parametrize(
    ("text", "call", "is_caught"),
    [
        ("Bash(rm *)", "Bash(ls; rm -r x)", True),
        ("Bash(rm *)", "Bash(sudo rm x)", True),
        ("Bash(rm *)", "Bash(sudo -u root rm x)", True),
        ("Bash(rm *)", "Bash(sudo -nu root rm x)", True),
        ("Bash(rm *)", "Bash(sudo --user root -- rm x)", True),
        ("Bash(rm *)", "Bash(sudo -n -u root env -u HOME A=1 /bin/rm x)", True),
        ("Bash(rm *)", "Bash(timeout -k 5s 10 rm x)", True),
        ("Bash(rm *)", "Bash(nice -n 5 rm x)", True),
        ("Bash(rm *)", "Bash(ls | xargs -I X rm X)", True),
        ("Bash(rm *)", "Bash(find rm x -exec ls {} +)", False),
        ("Bash(rm *)", "Bash(ls >x; find . -ok rm x ;)", True),
        ("Bash(rm *)", "Bash(sudo -n apt rm x)", False),
        ("Bash(rm *)", "Bash(git -u root rm x)", False),
        ("Bash(rm *)", "Bash(/bin/rm x)", True),
        ("Bash(rm *)", "Bash(timeout 5 rm x)", True),
        ("Bash(rm *)", "Bash(A=1 rm x)", True),
        ("Bash(rm *)", "Bash(sh -c 'rm x')", True),
        ("Bash(rm *)", "Bash(echo 'rm x')", False),
        ("Bash(rm *)", "Bash(echo rm x)", False),
        ("Bash(rm *)", "Bash(r\\m x)", True),
        ("Bash(rm *)", "Bash(echo `rm x`)", True),
        ("Bash(rm *)", "Read(rm)", False),
        ("Bash", "Bash(x)", True),
        ("Edit(secret)", "Edit(a/secret)", True),
        ("Edit(secret)", "Edit(a/SECRET)", True),
        ("Edit(secret?.txt)", "Edit(a/secret1.txt)", True),
        ("Edit(SeCret/*)", "Edit(a/../secret/x)", True),
        ("Edit(gr\u00fcn)", "Edit(GRU\u0308N)", True),
        ("Edit(//etc/x)", ToolCall(tool="Edit", paths=("//etc/x",)), True),
        ("Edit(secret)", "Edit(a/secrets)", False),
        ("Edit(secret)", "Edit", True),
        ("Edit(secret)", "Read(secret)", False),
        ("WebFetch(domain:*.b.com)", "WebFetch(https://b.com)", True),
        ("WebFetch(domain:*.b.com)", "WebFetch(https://a.b.com)", True),
        ("WebFetch(domain:b.com)", "WebFetch(https://a.b.com)", True),
        ("WebFetch(domain:b.com)", "WebFetch(https://xb.com)", False),
        ("WebFetch(domain:b.com)", "WebFetch(ftp://x)", True),
    ],
)
def test_a_rule_that_denies_catches_what_may_be_meant(text: str, call: ToolCall | str, is_caught: bool) -> None:
    (rule,) = rules(text, behavior="deny")
    assert may_match(rule, parse_call(call) if isinstance(call, str) else call, HERE) is is_caught


def test_a_rule_that_denies_catches_any_case_below_a_folder_with_capitals() -> None:
    (rule,) = rules("Edit(secret/**)", behavior="deny")
    for path in ("SECRET/x", "/users/me/secret/x", "/Users/Me/Secret/X"):
        assert may_match(rule, ToolCall(tool="Edit", paths=(path,)), AgentPlace("/Users/Me"))


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("Edit(" + "*a" * 100 + "*b)", ToolCall(tool="Edit", paths=("a" * 200,))),
        ("Edit(" + "**/" * 100 + "x)", ToolCall(tool="Edit", paths=("/".join("abcdefgh" * 5),))),
        ("Edit(" + "**/*a/" * 100 + "x)", ToolCall(tool="Edit", paths=("a/" * 150,))),
        ("Bash(a" + "*a" * 100 + "*b)", ToolCall(tool="Bash", command="a" * 200)),
        ("Bash(a " + "* " * 100 + "x)", ToolCall(tool="Bash", command="a " + "b " * 200)),
        ("Bash(a " + "* b* " * 100 + "x)", ToolCall(tool="Bash", command="a " + "b " * 1000)),
    ],
    ids=range(6),
)
def test_a_rule_with_many_stars_is_no_endless_search(text: str, call: ToolCall) -> None:
    (rule,) = rules(text, behavior="deny")
    assert may_match(rule, call, HERE) is False  # with one way after the other it would take years


@pytest.mark.parametrize(
    ("text", "call", "is_caught"),
    [
        ("Edit(*a*b*c)", "Edit(xaybzbcc)", True),
        ("Edit(*a*b*c)", "Edit(xbyazcc)", False),
        ("Edit(*aa*aa)", "Edit(aaa)", False),
        ("Edit(a/**/b/c/**/d)", "Edit(a/b/x/b/c/d/e)", True),
        ("Edit(a/**/b/c/**/d)", "Edit(a/b/x/c/d)", False),
        ("Edit(**/b/*/**/d/**)", "Edit(b/b/d/d/x)", True),
        ("Edit(**/b/*/**/d/**)", "Edit(b/b/d)", False),
        ("Bash(a * b * c)", "Bash(a x b b c)", True),
        ("Bash(a * b * c)", "Bash(a b b c)", False),
        ("Bash(a * b * c)", "Bash(a x b y c d)", False),
        ("Bash(a * b*)", "Bash(a x bc d)", True),
        ("Bash(a * *)", "Bash(a)", False),
    ],
)
def test_a_rule_with_several_stars_is_searched_whole(text: str, call: str, is_caught: bool) -> None:
    (rule,) = rules(text, behavior="deny")
    assert may_match(rule, parse_call(call), HERE) is is_caught


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", None),
        (";", None),
        ("a", [("a",)]),
        ("a;", [("a",)]),
        ("a ; ", [("a",)]),
        ("a;;", None),
        ("a | b || c && d", [("a",), ("b",), ("c",), ("d",)]),
        ("a |& b", None),
        ("a&b", None),
        ("a &", None),
        ("a&&b;c|d", [("a",), ("b",), ("c",), ("d",)]),
        ('a \'b c\' "d e" f\\ g h"i"j', [("a", "b c", "d e", "f g", "hij")]),
        ('a "\\$ \\` \\" \\\\ \\x"', [("a", '$ ` " \\ \\x')]),
        ('a "$x"', None),
        ('a "`x`"', None),
        ('a "x', None),
        ("a 'x", None),
        ("a x\\", None),
        ("A=1 a", None),
        ("a A=1", [("a", "A=1")]),
        ("if a", None),
        ("'' a", None),
        ("a if", [("a", "if")]),
        ("a 2>/dev/null", [("a",)]),
        ("a > x", None),
        ("a\nb", None),
        ("a\u00a0b", None),
        ("a (b)", None),
        ("a\tb", [("a", "b")]),
    ],
)
def test_a_command_is_split_where_a_shell_would_and_in_doubt_not_at_all(
    command: str, words: list[tuple[str, ...]] | None
) -> None:
    assert shell.split(command) == words


@pytest.mark.slow
def test_a_command_of_the_greatest_length_is_split_and_a_longer_one_is_in_doubt() -> None:
    assert shell.split("x" * 20_000) == [("x" * 20_000,)]
    assert shell.split("x" * 20_001) is None
    assert shell.possible_commands("x" * 20_001) == [("x" * 20_000,)]


def test_a_rule_that_denies_catches_a_command_too_long_to_be_read() -> None:
    (rule,) = rules("Bash(git push *)", behavior="deny")
    for length, is_caught in ((19_980, False), (20_001, True)):
        call = parse_call(f"Bash(: {'x' * length})")
        assert may_match(rule, call, HERE) is is_caught


@pytest.mark.parametrize(
    ("command", "is_caught"),
    [
        ("sudo " * 99 + "git status", False),
        ("sudo " * 99 + "git push x", True),
        ("sudo " * 100 + "git status", True),
        ("-a " * 6000, True),
        ("find . " + "-exec a ; " * 101, False),
        ("find . " + "-exec a " * 100 + ";", False),
        ("find . " + "-exec a " * 101 + ";", True),
        ("cat <<x\n" + "word " * 3000, False),
    ],
)
def test_a_rule_that_denies_catches_a_command_behind_too_many_words_to_be_looked_for(
    command: str, is_caught: bool
) -> None:
    (rule,) = rules("Bash(git push *)", behavior="deny")
    assert may_match(rule, ToolCall(tool="Bash", command=command), HERE) is is_caught


@pytest.mark.parametrize(
    "command",
    [
        "a b; c",
        "a\\\nb",
        "sudo -n a 5 b",
        "timeout 5 a",
        "5 a",
        "/usr/bin/env a",
        "x/ a",
        "find . -exec 'a b' ;",
        'bash -c "a; b"',
        "a $(b) `c` {d} <e >f",
    ],
)
def test_whatever_may_be_run_by_a_command_is_told_once(command: str) -> None:
    assert shell.possible_commands(command) == _SUSPECTS[command]


# -- rules together ----------------------------------------------------------------------------------------------------


def test_rules_are_combined_by_their_word_each_once_and_the_agents_own_win() -> None:
    general = rules("Bash", "Read", "Edit", is_general=True)
    asked = rules("Bash", behavior="ask")
    denied = rules("Read", behavior="deny", is_general=True)
    own = rules("Edit")
    found = combine((*general, *own, *asked, *denied, *denied))
    assert [(rule.behavior, rule.text, rule.is_general, rule.whose) for rule in found.rules] == [
        ("deny", "Read", True, "w0"),
        ("ask", "Bash", False, "w0"),
        ("allow", "Read", True, "w1"),
        ("allow", "Edit", False, "w0"),
    ]
    assert found.lists == RuleLists(deny=("Read",), ask=("Bash",), allow=("Read", "Edit"))
    assert [rule.text for rule in found.with_behavior("allow")] == ["Read", "Edit"]
    assert found.plus(own) == found
    assert [rule.text for rule in found.plus(rules("WebSearch")).with_behavior("allow")] == [
        "Read",
        "Edit",
        "WebSearch",
    ]
    assert [rule.behavior for rule in found.without_allow().rules] == ["deny", "ask"]


def test_a_decision_names_its_rules_and_who_wrote_them() -> None:
    ruling = Ruling(behavior="allow", rules=(*rules("Bash(a)", "Bash(b)"), *rules("Bash(c)")))
    assert (ruling.text, ruling.whose) == ("Bash(a), Bash(b), Bash(c)", "w0, w1")
    ruleset = Ruleset(
        (*rules("Bash(a)", "Bash(b)"), *rules("Bash(b)", behavior="ask"), *rules("Read", behavior="deny"))
    )
    decided = {text: ruleset.decide(parse_call(text), HERE) for text in ("Bash(a)", "Bash(a; b)", "Bash(c)", "Read(x)")}
    assert {text: found and (found.behavior, found.text) for text, found in decided.items()} == {
        "Bash(a)": ("allow", "Bash(a)"),
        "Bash(a; b)": ("ask", "Bash(b)"),
        "Bash(c)": None,
        "Read(x)": ("deny", "Read"),
    }


def test_a_message_of_an_agent_is_allowed_no_more_than_the_agent_was() -> None:
    mine = Ruleset((*rules("Bash(a)", "Read"), *rules("Edit", behavior="ask")))
    most = RuleLists(deny=("WebFetch",), ask=("WebSearch",), allow=("Read",))
    bounded = mine.bounded(most, "turn")
    assert bounded.lists == RuleLists(deny=("WebFetch",), ask=("Edit", "WebSearch"), allow=("Read",))
    assert mine.bounded(most, "turn", keep_allow=True).lists.allow == ("Bash(a)", "Read")
    assert [rule.whose for rule in bounded.with_behavior("deny")] == ["turn"]
    assert [(rule.text, rule.is_general) for rule in rules_of(most, "x", is_general=True, without=("ask",))] == [
        ("WebFetch", True),
        ("Read", True),
    ]


_SUSPECTS = {
    "a b; c": [("a", "b"), ("c",)],
    "a\\\nb": [("ab",)],
    "sudo -n a 5 b": [
        *[("sudo", "-n", "a", "5", "b"), ("-n", "a", "5", "b"), ("a", "5", "b")],
        *[("sudo", "a", "5", "b"), ("sudo", "5", "b")],
    ],
    "timeout 5 a": [("timeout", "5", "a"), ("5", "a"), ("a",)],
    "5 a": [("5", "a")],
    "/usr/bin/env a": [("/usr/bin/env", "a"), ("a",), ("env", "a")],
    "x/ a": [("x/", "a")],
    "find . -exec 'a b' ;": [
        ("find", ".", "-exec", "a b"),
        ("find", ".", "-exec", "a", "b"),
        ("a", "b"),
        ("find", ".", "-exec"),
    ],
    'bash -c "a; b"': [
        *[("bash", "-c", "a; b"), ("bash", "-c", "a"), ("b",), ("bash", "-c"), ("a",)],
        *[("bash", "a; b"), ("bash", "a")],
    ],
    "a $(b) `c` {d} <e >f": [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)],
}
