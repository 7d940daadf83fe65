"""Shell commands are split only where nothing is in doubt, and a guess finds what may be run besides."""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.rules.shell import possible_commands, split

PLAIN = st.text("abc12.-_/=:,@%+", min_size=1, max_size=6).filter(lambda word: word[0] not in "-=" and "=" not in word)
ANY = st.text("ab1 '\"\\$`;&|<>(){}#*?~!=-\n\t\r/\x00é\u00a0", max_size=24)


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("git status", [("git", "status")]),
        ("  git   log -1 ", [("git", "log", "-1")]),
        (
            "git add . && git commit -m 'a b; c' | cat",
            [("git", "add", "."), ("git", "commit", "-m", "a b; c"), ("cat",)],
        ),
        ("a;b || c;", [("a",), ("b",), ("c",)]),
        (r'echo "a \"b\" \$HOME" c\ d', [("echo", 'a "b" $HOME', "c d")]),
        ("echo '$(rm -rf /)' '`x`' ''", [("echo", "$(rm -rf /)", "`x`", "")]),
        ("ls -la 2>&1", [("ls", "-la")]),
        ("ls 2>/dev/null | wc -l >/dev/null 2>&1", [("ls",), ("wc", "-l")]),
        ("cat < /dev/null", [("cat",)]),
        ("ls -la &>/dev/null 2>&1; wc &>> /dev/null && a b", [("ls", "-la"), ("wc",), ("a", "b")]),
        ("ls *.py src/[ab]?", [("ls", "*.py", "src/[ab]?")]),
    ],
)
def test_what_is_plain_is_split_into_its_commands(command: str, parts: list[tuple[str, ...]]) -> None:
    assert split(command) == parts


@pytest.mark.parametrize(
    "command",
    [
        "",
        " ",
        ";",
        "&& a",
        "a &&",
        "a |",
        "a || ; b",
        "a ;; b",
        "git status; ",  # ends well
        "git status\nrm -rf /",
        "git status \\\n rm",
        "git status\rrm",
        "git status\0rm",
        "git status & rm x",
        "git status &",
        "git status |& rm",
        "git $(rm x)",
        "git `rm x`",
        'git "$(rm x)"',
        'git "`rm x`"',
        "git $HOME",
        "git ${x}",
        "git $'a'",
        'git "$x"',
        "git status > file",
        "git status >> file",
        "git status >| file",
        "git status 2> file",
        "git status &> file",
        "git log &>/dev/null rm x",
        "git log &>> /dev/null 2>&1 rm x",
        "&>/dev/null rm x",
        "git status > /dev/null/x",
        "git status > /dev/nullx",
        "git status >/dev/null>x",
        "git status < file",
        "git status << end",
        "git status <<< x",
        "git <(rm x)",
        "git >(rm x)",
        "(rm x)",
        "{ rm x; }",
        "git {a,b}",
        "GIT_PAGER=rm git log",
        "A=b",
        "A+=b git log",
        "A[0]=b git log",
        "a[$(rm x)]=b git log",
        "! git status",
        "if true; then git status; fi",
        "for x in a; do rm x; done",
        "while git status; do rm x; done",
        "[[ -f x ]]",
        "function git { rm x; }",
        "time git status",
        "coproc git status",
        "git 'open",
        'git "open',
        "git \\",
        "git # a comment",
        "''",
        "'' git",
        "git\u00a0status",
        "git\u2028rm",
        "git \x1b[2K",
        "git\vstatus",
        "a" * 30_000,
    ],
)
def test_what_is_in_doubt_is_not_split(command: str) -> None:
    found = split(command)
    assert found is None or command == "git status; "


@pytest.mark.slow
@given(st.lists(st.lists(PLAIN | st.text("ab '\"$;|&\\(", max_size=5), min_size=1, max_size=4), min_size=1, max_size=3))
def test_quoted_words_come_back_as_they_were(commands: list[list[str]]) -> None:
    written = " && ".join(shlex.join(["run", *words]) for words in commands)
    assert split(written) == [("run", *words) for words in commands]


@pytest.mark.slow
@given(ANY)
def test_any_text_is_split_or_not_and_never_raises(command: str) -> None:
    parts = split(command)
    assert parts is None or all(words and words[0] for words in parts)
    assert all(words and words[0] for words in possible_commands(command))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="it is compared with bash")
def test_bash_runs_nothing_but_what_is_split() -> None:
    chance = random.Random(7)
    pieces = ["a", "b c", "'q w'", '"d e"', ";", "&&", "||", "|", "\\ ", "\\;", " ", "  ", "x=1", "*", "~", "2>&1"]
    pieces += [
        ">/dev/null",
        "'",
        '"',
        "$x",
        "#",
        "&",
        "\\",
        "=",
        "!",
        "-",
        "[",
        "]",
        "é",
        "{",
        "}",
        ">",
        "<",
        "(",
        ")",
        "`",
    ]
    commands = ["a " + "".join(chance.choice(pieces) for _ in range(chance.randint(1, 8))) for _ in range(2500)]
    sure = [(command, parts) for command in commands if (parts := split(command)) is not None]
    assert len(sure) > 150
    script = [
        "set -f",
        'command_not_found_handle() { local w; printf -v w "%s\\037" "$@"; printf "%s\\036" "$w" >&9; }',
    ]
    for command, _ in sure:
        quoted = shlex.quote(command.replace("~", "t"))
        script.append(f'(eval {quoted}) >/dev/null 2>/dev/null </dev/null; printf "\\2" >&9')
    out = subprocess.run(
        ["bash", "-c", "exec 9>&1\nPATH=/nowhere\n" + "\n".join(script)], capture_output=True, check=True
    ).stdout.decode()
    for (command, parts), ran in zip(sure, out.split("\2"), strict=False):
        allowed = {tuple(word.replace("~", "t") for word in words) for words in parts}
        for words in ran.split("\036")[:-1]:
            assert tuple(words.split("\037")[:-1]) in allowed, (command, parts, words)


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "git status; rm -rf /",
        "git status\nrm -rf /",
        "git $(rm -rf /)",
        "git `rm -rf /`",
        "(rm -rf /)",
        "X=1 rm -rf /",
        "sudo rm -rf /",
        "sudo -n rm -rf /",
        "timeout 5 rm -rf /",
        "env A=b rm -rf /",
        "/bin/rm -rf /",
        'bash -c "rm -rf /"',
        "sh -c 'cd x && rm -rf /'",
        "find . | xargs rm -rf /",
        "if true; then rm -rf /; fi",
        "r\\m -rf /",
        "'rm' -rf /",
        "git status & rm -rf /",
        "true && { rm -rf /; }",
        "eval rm -rf /",
        "coproc rm -rf /",
        "> out rm -rf /",
        "2>&1 >>out rm -rf /",
        "<in rm -rf /",
        "A=1 >out sudo rm -rf /",
        "find . -name x -exec rm -rf / ;",
        "find . -execdir rm -rf / +",
        "ssh -p 22 host rm -rf /",
        "find . | parallel -j 4 rm -rf /",
        "trap 'rm -rf /' EXIT",
        "sudo flock /tmp/lock rm -rf /",
        "unshare -r /bin/rm -rf /",
        "busybox rm -rf /",
    ],
)
def test_a_guess_finds_a_command_wherever_it_stands(command: str) -> None:
    assert any(words[:2] == ("rm", "-rf") for words in possible_commands(command)), possible_commands(command)


def test_a_guess_does_not_take_an_argument_for_a_command() -> None:
    assert all(words[0] != "rm" for words in possible_commands("git commit -m 'rm the file'"))
