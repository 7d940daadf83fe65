"""What a user sees of rules: through the real `beam`."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.support.cli import BEAM_WORDS, Cli, eventually

pytestmark = pytest.mark.acceptance


def tried(beam: Cli, call: str, *words: str) -> Any:
    return beam("rules", "test", "claude", call, "--json", *words).json


def test_rules_add_up_and_each_says_who_wrote_it(beam: Cli) -> None:
    general, own = "rules: {ask: ['Bash(make *)']}", "rules: {deny: ['Bash(git push *)']}"
    beam.config(f"defaults:\n  {general}\nagents:\n  claude: {{{own}}}\n")
    assert beam("rules", "add", "claude", "--allow", "Bash(git *)", "--allow", "Bash(make test)").code == 0
    lines = beam("rules", "list", "claude", "--json").lines
    listed = [(line["decision"], line["rule"], line["whose"]) for line in lines]
    assert listed == [
        ("deny", "Bash(git push *)", "beam.yaml"),
        ("ask", "Bash(make *)", "beam.yaml"),
        ("allow", "Bash(git *)", "agent.json"),
        ("allow", "Bash(make test)", "agent.json"),
    ]
    said = tried(beam, "Bash(git push origin)", "--via", "dialogue")
    assert (said["decision"], said["rule"], said["whose"]) == ("deny", "Bash(git push *)", "beam.yaml")
    assert {line["face"]: line["by"] for line in said["faces"]}["dialogue"] == "agent"
    assert tried(beam, "Bash(make test)")["decision"] == "ask"
    assert tried(beam, "Bash(git log)")["decision"] == "allow"
    assert tried(beam, "Bash(git log; rm x)")["decision"] is None
    assert tried(beam, "Bash(git log)", "--deny", "Bash")["whose"] == "this message"
    plain = beam("rules", "test", "claude", "Bash(git log > x)")
    assert plain.code == 0 and "no rule allows a command with something in doubt in it" in plain.out
    assert beam("rules", "remove", "claude", "--allow", "Bash(git *)").code == 0
    assert tried(beam, "Bash(git log)")["decision"] is None
    assert beam("rules", "remove", "claude", "--allow", "Bash(git *)").code == 4


def test_a_wrong_rule_is_refused_with_its_line_and_what_was_meant(beam: Cli) -> None:
    beam.config("agents:\n  claude:\n    rules:\n      deny:\n        - Bash(git push *)\n        - Bahs(rm *)\n")
    done = beam("status")
    assert done.code == 2 and "line 6" in done.err and "did you mean Bash?" in done.err, done
    beam.config("agents:\n  claude:\n    rules:\n      dney: [Bash]\n")
    done = beam("status")
    assert done.code == 2 and "did you mean deny?" in done.err, done
    assert beam("send", "scripted", "hi", "--allow", "Write(x)").code == 2


def test_a_rule_that_nobody_can_enforce_ends_the_message_with_10(beam: Cli) -> None:
    done = beam("send", "scripted", "hi", "--deny", "Bash(rm *)")
    assert done.code == 10 and "can't be held to the rule `deny Bash(rm *)` of this message" in done.err, done
    assert beam("send", "scripted", "hi").code == 0


def test_what_a_folder_allows_counts_only_once_it_is_trusted_and_what_it_denies_always(beam: Cli) -> None:
    (beam.base / "bin").mkdir()
    (beam.base / "bin" / "claude").write_text('#!/bin/sh\necho "$@" > argv\n')
    (beam.base / "bin" / "claude").chmod(0o755)
    there = beam.with_env({"PATH": f"{beam.base}/bin{os.pathsep}{beam.env['PATH']}"})
    there.config("agents:\n  claude: {rules: {allow: ['WebFetch(domain:a.com)']}}\n", trusted=False)
    refused = there("send", "claude", "hi")
    assert refused.code == 2 and "beam.yaml allows claude WebFetch(domain:a.com)" in refused.err, refused
    assert not (beam.project / "argv").exists()
    there.config("agents:\n  claude: {rules: {deny: ['Bash(rm *)']}}\n", trusted=False)
    there("send", "claude", "hi")
    assert "Bash(rm *)" in (beam.project / "argv").read_text()


def test_an_agent_allows_nobody_anything_and_its_receiver_is_denied_what_it_is(beam: Cli) -> None:
    (beam.base / "bin").mkdir()
    claude = beam.base / "bin" / "claude"
    said = '> "argv.$BEAM_AGENT"'
    claude.write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$@\" {said}\n"
        f"{BEAM_WORDS} send high x --no-wait --allow Bash\necho $? > code.$BEAM_AGENT\n"
        f"test $BEAM_AGENT = low && {BEAM_WORDS} send high 'do it' --no-wait\n"
    )
    claude.chmod(0o755)
    there = beam.with_env({"PATH": f"{beam.base}/bin{os.pathsep}{beam.env['PATH']}"})
    there.config(
        "agents:\n  low: {adapter: claude, access: edit, rules: {deny: ['Bash(git push *)'], allow: ['Bash(ls)']}}\n"
        "  high: {adapter: claude, access: full, rules: {allow: ['Bash(ls)', 'Bash(make)'], ask: ['Edit(x)']}}\n"
    )
    there("send", "low", "go")
    eventually(lambda: (beam.project / "code.high").exists(), 30)
    assert (beam.project / "code.low").read_text() == "2\n"
    words = (beam.project / "argv.high").read_text().splitlines()
    given = json.loads(words[words.index("--settings") + 1])["permissions"]
    assert given == {"deny": ["Bash(git push *)", "Bash(git push)"], "ask": ["Edit(x)"], "allow": ["Bash(ls)"]}
    assert "acceptEdits" in words
