"""What a rule matches: one that allows only what it is sure of, one that denies or asks more than that."""

from __future__ import annotations

import os
import posixpath

import pytest

from beam.model.message import RuleLists
from beam.rules.match import AgentPlace, allowing_rules, may_match
from beam.rules.rule import ToolCall, host_of, parse, parse_call
from beam.rules.ruleset import Ruleset, combine, rules_of

PLACE = AgentPlace("/p", "/home/me")


def decided(call: ToolCall | str, place: AgentPlace = PLACE, **lists: str | tuple[str, ...]) -> str:
    given = {word: (texts,) if isinstance(texts, str) else texts for word, texts in lists.items()}
    asked = parse_call(call) if isinstance(call, str) else call
    ruling = combine(rules_of(RuleLists(**given), "me")).decide(asked, place)
    return ruling.behavior if ruling is not None else ""


@pytest.mark.parametrize(
    ("rule", "command", "matches"),
    [
        ("Bash", "anything at all", True),
        ("Bash", "a > b && $(c) &", True),
        ("Bash(*)", "anything", True),
        ("Bash(git *)", "git status", True),
        ("Bash(git *)", "git", True),
        ("Bash(git *)", "  git  'log' \"-1\"", True),
        ("Bash(git *)", "github status", False),
        ("Bash(git *)", "'git status'", False),
        ("Bash(git*)", "github status", True),
        ("Bash(git:*)", "git status", True),
        ("Bash(git log)", "git log", True),
        ("Bash(git log)", "git log -1", False),
        ("Bash(git * main)", "git push origin main", True),
        ("Bash(git * main)", "git push origin main --force", False),
        ("Bash(git * main)", "git 'main'", False),
        ("Bash(npm run test:*)", "npm run test:unit", False),  # `:*` at its end is an older ` *`
        ("Bash(npm run test*)", "npm run test:unit -- -x", True),
        ("Bash(cat docs/*)", "cat docs/a.md", True),
    ],
)
def test_a_pattern_is_the_words_of_a_command(rule: str, command: str, matches: bool) -> None:
    assert decided(ToolCall(tool="Bash", command=command), allow=rule) == ("allow" if matches else "")


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf /",
        "git status && rm -rf /",
        "git status || rm -rf /",
        "git status | sh",
        "git status & rm -rf /",
        "git status\nrm -rf /",
        "git status\r\nrm -rf /",
        "git $(rm -rf /)",
        "git `rm -rf /`",
        "git log > ~/.bashrc",
        "git log >> .git/hooks/pre-commit",
        "git log <(rm -rf /)",
        "GIT_SSH_COMMAND='rm -rf /' git fetch",
        "PATH=. git status",
        "env git status",
        "sudo git status",
        "./git status",
        "/tmp/git status",
        "git() { rm -rf /; }; git",
        "! git status",
        "(git status; rm -rf /)",
        "git status #\nrm -rf /",
        "git 'status",
        "git\u00a0status",
        "",
    ],
)
def test_git_does_not_allow_what_only_begins_with_git(command: str) -> None:
    assert decided(ToolCall(tool="Bash", command=command), allow="Bash(git *)") == ""


def test_each_part_of_a_compound_command_must_be_allowed() -> None:
    both = ("Bash(git *)", "Bash(head *)")
    assert decided(ToolCall(tool="Bash", command="git log 2>/dev/null | head -3"), allow=both) == "allow"
    assert decided(ToolCall(tool="Bash", command="git log | head -3 | sh"), allow=both) == ""


@pytest.mark.parametrize(
    "command", ["ls; rm x", "bash -c 'rm x'", "ls $(rm x)", "ls\nrm x", "X=1 rm x", "/bin/rm x", "rm"]
)
@pytest.mark.parametrize("word", ["deny", "ask"])
def test_a_rule_that_takes_away_finds_its_command_in_others(command: str, word: str) -> None:
    assert decided(ToolCall(tool="Bash", command=command), allow="Bash", **{word: "Bash(rm *)"}) == word


def test_deny_wins_over_ask_and_ask_over_allow() -> None:
    every = {"deny": "Bash(git push *)", "ask": "Bash(git *)", "allow": "Bash"}
    found = [decided(f"Bash({command})", **every) for command in ("git push x", "git log", "ls")]
    assert found == ["deny", "ask", "allow"]


@pytest.mark.parametrize(
    ("rule", "path", "matches"),
    [
        ("Edit", "a", True),
        ("Edit", "/p/src/a", True),
        ("Edit", "/etc/passwd", False),
        ("Edit", "../other/a", False),
        ("Edit", "/p", True),
        ("Edit(src/**)", "src/a/b", True),
        ("Edit(src/**)", "src", False),
        ("Edit(src/**)", "src/../secret", False),
        ("Edit(src/**)", "/p/srcs/a", False),
        ("Edit(./src/*)", "src/a", True),
        ("Edit(src)", "src/a", True),
        ("Edit(*.md)", "docs/a.md", True),
        ("Edit(docs/*.md)", "docs/a/b.md", False),
        ("Edit(docs/**/a.md)", "docs/a.md", True),
        ("Edit(docs/**/a.md)", "docs/x/y/a.md", True),
        ("Edit(//etc/hosts)", "/etc/hosts", True),
        ("Edit(//etc/hosts)", "/p/etc/hosts", False),
        ("Edit(~/notes/**)", "/home/me/notes/a", True),
        ("Edit(~/notes/**)", "~/notes/a", True),
        ("Read(src/**)", "src/a", False),
    ],
)
def test_a_path_is_matched_where_it_leads(rule: str, path: str, matches: bool) -> None:
    assert decided(ToolCall(tool="Edit", paths=(path,)), allow=rule) == ("allow" if matches else "")


def test_every_path_of_a_call_must_be_allowed_and_one_is_enough_to_deny() -> None:
    call = ToolCall(tool="Edit", paths=("src/a", "b"))
    assert decided(call, allow="Edit(src/**)") == ""
    assert decided(call, allow="Edit", deny="Edit(src/**)") == "deny"


def test_a_link_that_leads_elsewhere_is_judged_by_both_ends() -> None:
    def real(path: str) -> str:
        return posixpath.normpath(path.replace("/p/src/link", "/etc"))

    place = AgentPlace("/p", "/home/me", real)
    call = ToolCall(tool="Edit", paths=("src/link/passwd",))
    assert decided(call, place, allow="Edit(src/**)") == ""
    assert decided(call, place, allow=("Edit(src/**)", "Edit(//etc/passwd)")) == "allow"
    assert decided(call, place, allow="Edit", deny="Edit(//etc/**)") == "deny"


@pytest.mark.parametrize("tool", ["Bash", "Edit", "Read", "WebFetch"])
def test_nothing_allows_a_call_of_which_nobody_knows_what_it_does(tool: str) -> None:
    assert decided(ToolCall(tool=tool), allow=tool) == ""
    assert decided(ToolCall(tool=tool), deny=tool) == "deny"


def test_what_a_person_must_decide_no_rule_allows_and_one_may_deny() -> None:
    call = ToolCall(tool="Bash", command="ls", by_person=True)
    assert (decided(call, allow="Bash"), decided(call, deny="Bash(ls)")) == ("", "deny")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.com/a", "example.com"),
        ("HTTP://Example.COM.:80/", "example.com"),
        ("https://good.com@evil.com/", ""),
        ("https://evil.com\\@good.com/", ""),
        ("https://evil.com#@good.com/", ""),
        ("https://good.com\t.evil.com/", ""),
        ("file:///etc/passwd", ""),
        ("https://[::1]/", ""),
        ("//good.com/", ""),
        ("https://g\u043eod.com/", ""),
        ("", ""),
    ],
)
def test_a_host_is_known_only_where_no_two_programs_differ(url: str, host: str) -> None:
    assert host_of(url) == host


def test_a_domain_allows_itself_and_denies_all_below_it() -> None:
    below = ToolCall(tool="WebFetch", host="a.example.com")
    assert decided("WebFetch(https://example.com/x)", allow="WebFetch(domain:example.com)") == "allow"
    assert decided(below, allow="WebFetch(domain:example.com)") == ""
    assert decided(below, allow="WebFetch(domain:*.example.com)") == "allow"
    assert decided(below, deny="WebFetch(domain:example.com)") == "deny"
    assert decided(ToolCall(tool="WebFetch", host="badexample.com"), deny="WebFetch(domain:example.com)") == ""
    assert decided(ToolCall(tool="WebFetch"), deny="WebFetch(domain:example.com)") == "deny"


@pytest.mark.parametrize(
    ("rule", "tool", "matches"),
    [
        ("mcp__git", "mcp__git__log", True),
        ("mcp__git", "mcp__github__log", False),
        ("mcp__git__log", "mcp__git__log", True),
        ("mcp__git__log", "mcp__git__logout", False),
        ("mcp__git__*", "mcp__git__log", True),
        ("mcp__*", "mcp__any__thing", True),
    ],
)
def test_an_mcp_tool_is_matched_by_its_server_and_name(rule: str, tool: str, matches: bool) -> None:
    assert decided(ToolCall(tool=tool), allow=rule) == ("allow" if matches else "")


def test_an_agents_own_rule_wins_over_the_same_one_of_defaults_but_for_deny() -> None:
    general = rules_of(RuleLists(deny=("Bash(a)",), ask=("Bash(b)", "Bash(c)")), "defaults", is_general=True)
    own = rules_of(RuleLists(allow=("Bash(a)", "Bash(b)"), ask=("Bash(d)",)), "mine")
    assert [str(rule) for rule in combine((*general, *own)).rules] == [
        *("deny Bash(a)", "ask Bash(c)", "ask Bash(d)", "allow Bash(a)", "allow Bash(b)"),
    ]


def test_a_message_of_an_agent_is_allowed_and_denied_what_the_agent_was() -> None:
    own = combine(rules_of(RuleLists(allow=("Bash(a)", "Bash(b)")), "mine"))
    most = RuleLists(allow=("Bash(a)", "Bash(z)"), deny=("Edit",))
    found = own.bounded(most, "ada")
    assert [(str(rule), rule.whose) for rule in found.rules] == [("deny Edit", "ada"), ("allow Bash(a)", "mine")]
    kept = own.bounded(most, "ada", keep_allow=True)
    assert [str(rule) for rule in kept.rules] == ["deny Edit", "allow Bash(a)", "allow Bash(b)"]
    assert Ruleset((parse("Bash", "allow"),)).without_allow() == Ruleset()


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_a_path_that_no_file_can_have_is_allowed_by_no_rule_and_denied_by_each(path: str) -> None:
    place, call = AgentPlace("/work", real=os.path.realpath), ToolCall(tool="Edit", paths=("src/a", path))
    assert allowing_rules([parse("Edit", "allow"), parse("Edit(//**)", "allow")], call, place) == ()
    assert may_match(parse("Edit(secret)", "deny"), call, place)
