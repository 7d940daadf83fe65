"""A rule that denies `git push` catches it however it is spelled, and a rule that allows gets no wider by that."""

from __future__ import annotations

import itertools
import random

import pytest

from beam.rules import shell
from beam.rules.match import AgentPlace, allowing_rules, may_match
from beam.rules.rule import ToolCall, parse

HERE = AgentPlace("/p", "/home/me")
PUSHES = [
    "git push",
    "git push origin main",
    "git  push --force",
    "/usr/bin/git push",
    '"git" push',
    "git 'push'",
    'git "pu"sh',
    "g\\it pu\\sh",
    "git -C DIR push",
    "git --no-pager push",
    "git -c a=b push",
    "git -c a=b -C d --no-pager push",
    "git --git-dir=.git push",
    "git --git-dir .git --work-tree . push",
    "git -P push",
    "git -p push",
    "git --bare push",
    "git --namespace n push",
    "git --config-env=http.x=Y push",
    "git --exec-path=/x push",
    "git-push",
    "/usr/lib/git-core/git-push origin",
    "GIT_SSH_COMMAND=x git push",
    "A=1 B=2 git -C d push",
    "env git push",
    "env -i A=b git -C d push",
    "env -u A git push",
    'env -S "git push"',
    "command git push",
    "command -p git push",
    "builtin command git push",
    "exec git push",
    "nohup git push",
    "nohup git -C d push &",
    "nice -n 5 git push",
    "timeout -s KILL 5 git push",
    "time git push",
    "sudo -u root git -C d push",
    "setsid git push",
    "stdbuf -oL git push",
    "xargs git push",
    "echo push | xargs git",
    "echo origin | xargs git -C d push",
    "sh -c 'git push'",
    'bash -lc "git -C d push"',
    'sh -c "cd x && git --no-pager push"',
    "echo git push | sh",
    "echo 'git push' | bash",
    'echo "git -C d push" | bash -s',
    "printf 'git %s\n' push | sh",
    "printf git\\ push | /bin/sh",
    "cat <<EOF | sh\ngit push\nEOF",
    "sh <<EOF\ngit push\nEOF",
    "bash <<< 'git push'",
    "sh < <(echo git push)",
    ". <(echo git push)",
    'source <(echo "git push")',
    "eval git push",
    'eval "git pu""sh"',
    "eval 'git' 'push'",
    "(git push)",
    "{ git push; }",
    "$(git push)",
    "`git push`",
    "echo $(git -C d push)",
    "git $(echo push)",
    "git `echo push`",
    "$(echo git) push",
    "$(which git) push",
    "p=push; git $p",
    "G=git; $G push",
    'c="git push"; $c',
    "git ${x:-push}",
    "git p${x}ush",
    "git pu$x",
    "git $'push'",
    "git $'\\x70ush'",
    "$'git' push",
    'git $"push"',
    "{git,push}",
    "git pus{h,}",
    "/usr/bin/gi? push",
    "/usr/bin/g[i]t push",
    "git -c alias.x=push x",
    "git -c alias.x='!git push' x",
    "git -c 'alias.x=push' x",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=push git x",
    "git config alias.x push && git x",
    "alias g=git; g push",
    "alias p='git push'; p",
    "git status; git push",
    "git status && git -C d push",
    "git status || git push",
    "git status & git push",
    "git status\ngit push",
    "git push>/dev/null",
    ">x git push",
    "2>&1 git push",
    "git pu\\\\\nsh",
    "git \\\\\n push",
    "if true; then git push; fi",
    "while ! git push; do true; done",
    "for i in 1; do git push; done",
    "f() { git push; }; f",
    "coproc git push",
    "find . -exec git push ;",
    "find . -name x | xargs -I{} git -C {} push",
    "ssh host git push",
    "busybox sh -c 'git push'",
    "python3 -c 'import os; os.system(\"git push\")'",
    "python3 -c \"import subprocess; subprocess.run(['git', 'push'])\"",
    "perl -e 'system \"git push\"'",
    'node -e \'require("child_process").execSync("git push")\'',
    "awk 'BEGIN{system(\"git push\")}'",
    "trap 'git push' EXIT",
    "watch git push",
    'script -c "git push" /dev/null',
    "flock /tmp/l git push",
    "unshare -r git push",
    "parallel git ::: push",
    "env -S'git push'",
    'env --split-string="git push"',
    "systemd-run git push",
    "setarch x86_64 git push",
    "valgrind git push",
    "unbuffer git push",
    "proxychains git -C d push",
    "dbus-run-session git push",
    "nix-shell --run 'git push'",
    "docker run x git push",
    "uv run git push",
    "npx git push",
    "npm exec git push",
    "bundle exec git push",
    "ls | entr git push",
    "fakeroot git push",
    "bwrap --ro-bind / / git push",
    "start-stop-daemon --exec git push",
    "tmux new -d 'git push'",
    "screen -dm git push",
    "vim -c '!git push'",
    "less '+!git push' x",
    "man -P 'git push' ls",
    "tar --checkpoint-action=exec='git push' -cf x y",
    "sed '1e git push' f",
    "git -c core.pager='git push' log",
    "git -c credential.helper='!git push' fetch",
    "GIT_EDITOR='git push' git commit",
    "PAGER='git push' git log",
    "git bisect run git push",
    "git rebase -x 'git push' HEAD~1",
    "git rebase --exec='git push' HEAD~1",
    "git submodule foreach git push",
    "git submodule foreach --recursive 'git push'",
    "git filter-branch --tree-filter 'git push' HEAD",
    'trap "git push" 0',
    "script -qc 'git push' /dev/null",
    "git${IFS}push",
    "git$IFS'push'",
    "echo 'git push' > x; sh x",
]
OTHERS = [
    "git status",
    "git log --oneline push",
    'git commit -m "push it"',
    "git commit -m 'fix the push button'",
    "git commit -m \"$(cat <<'EOF'\nmend push\nEOF\n)\"",
    'git commit -m "$(date) push"',
    "git -C d log -- push",
    "git --no-pager log push",
    "git -c a=b stash list",
    "git stash push -m x",
    "git checkout push",
    'grep -r "git push" docs',
    "echo git push",
    'echo "never git push"',
    "$HOME/bin/tool push",
    "$PYTHON -m pytest",
    "ls *.py",
    "git add *",
    "git diff HEAD~1 | cat",
    "git log | head",
    "npm run push",
    "docker push image",
    "git rebase origin/push",
    "git submodule update push",
    "git commit -c HEAD -m 'no git push here'",
    "tmux ls",
    "docker run image push",
    "docker push x",
    "cat a.txt | python3 -m json.tool",
    "rg 'git' | sort",
]


def is_denied(command: str, rule: str = "Bash(git push *)") -> bool:
    return may_match(parse(rule, "deny"), ToolCall(tool="Bash", command=command), HERE)


@pytest.mark.parametrize("command", PUSHES)
def test_a_rule_that_denies_git_push_catches_each_spelling(command: str) -> None:
    assert is_denied(command)


@pytest.mark.parametrize("command", OTHERS)
def test_a_command_that_only_has_the_words_in_it_is_not_caught(command: str) -> None:
    assert not is_denied(command)


@pytest.mark.parametrize("command", [each for each in PUSHES if not each.startswith("git ")])
def test_a_rule_that_allows_a_git_command_allows_no_spelling_that_is_behind_another_program(command: str) -> None:
    allows = [parse("Bash(git log *)", "allow"), parse("Bash(git status)", "allow"), parse("Bash(echo *)", "allow")]
    assert allowing_rules(allows, ToolCall(tool="Bash", command=command), HERE) == ()


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash(docker push *)", "docker --context far push image"),
        ("Bash(npm publish *)", "npm --silent publish"),
        ("Bash(kubectl delete *)", "kubectl -n prod --context=x delete pod a"),
        ("Bash(rm *)", "echo rm -rf x | sh"),
        ("Bash(curl *)", "c=curl; $c https://example.com"),
        ("Bash(git pu*)", "git -C d push"),
    ],
)
def test_each_programs_options_are_passed_over(rule: str, command: str) -> None:
    assert is_denied(command, rule)


PIECES = [
    *("git", "push", "log", "-C", "d", "-c", "a=b", "--no-pager", "|", "sh", "-c", "'git push'", '"git push"', ";"),
    *("&&", "||", "env", "A=1", "xargs", "echo", "$x", "$(git push)", "`git`", "{git,push}", "/usr/bin/git", "\\", "*"),
    *("\n", "<", ">", "x", "alias", "eval", "'", '"', "#", "&", "(", ")", "2>&1", ">/dev/null", "pu${x}sh", "$'push'"),
]
RULES = ("git push *", "git log *", "git *", "git -C d *", "echo *", "sh *", "env *", "git * d")


@pytest.mark.slow
def test_what_a_rule_allows_is_unchanged_by_what_a_rule_denies_and_the_same_words_deny_it() -> None:
    """For random commands: each part of what is allowed is a simple command with the words of a rule, and a rule that
    denies the same words catches at least as much."""
    chance = random.Random(11)
    allowed = 0
    for number in range(20_000):
        size = chance.randint(1, 7)
        command = (" " if number % 2 else "").join(chance.choice(PIECES) for _ in range(size))
        call = ToolCall(tool="Bash", command=command)
        for pattern in RULES:
            found = allowing_rules([parse(f"Bash({pattern})", "allow")], call, HERE)
            if not found:
                continue
            allowed += 1
            assert is_denied(command, f"Bash({pattern})"), command
            first = pattern.split()[0]
            assert [words[0] for words in shell.split(command) or ()].count(first) == len(shell.split(command) or ())
    assert allowed > 100


@pytest.mark.slow
def test_no_command_takes_long_to_judge() -> None:
    """Each is as long as a command that is looked at whole. A search that goes back would take minutes."""
    pieces = [
        "$(",
        "{",
        "git -C ",
        "|",
        "sh ",
        "'",
        "\\",
        "{,",
        "`",
        "<",
        "| sh",
        "[",
        "sh <",
        "$'\\x",
        "(sh -",
        "eval ",
        "(",
    ]
    for piece, more in itertools.product(pieces, ("", "x ")):
        is_denied(((piece + more) * 20_000)[:20_000])


@pytest.mark.parametrize("command", ["docker rm x", "npm rm x", "git rm x", "uv pip uninstall rm", "podman kill rm"])
def test_a_subcommand_of_a_program_that_runs_others_is_no_command(command: str) -> None:
    assert not may_match(parse("Bash(rm *)", "deny"), ToolCall(tool="Bash", command=command), HERE)
