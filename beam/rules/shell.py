"""Splits shell commands into the simple commands that a shell would run.

`split` is for rules that allow: it returns None if anything is in doubt, so that its result has every command that is
run. `possible_commands` is for rules that deny or ask: it guesses which other commands may be run, and always returns a
result. Both functions are pure.
"""

from __future__ import annotations

import functools
import re

Words = tuple[str, ...]

_BLANK = " \t"
_DOUBTFUL = frozenset("`$(){}<>&#")  # outside of quotes: substitution, grouping, redirection, background, a comment
_HARMLESS_REDIRECTION = re.compile(  # to /dev/null, or of one stream into another: no file is written
    r"(?:(?:[012]?>{1,2}|&>{1,2}|0?<)[ \t]*/dev/null|[12]?>&[12])(?=$|[ \t;|&])"
)
_OPERATOR = re.compile(r"&&|\|\|?|;(?!;)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=", re.DOTALL)
_RESERVED = frozenset(
    ("!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in")
) | {"select", "then", "time", "until", "while"}
_LONGEST = 20_000


def split(command: str) -> list[Words] | None:
    """Return the words of each simple command, without their quotes; None if anything in the command is in doubt.

    These are in doubt: a substitution, a redirection other than to /dev/null, a variable that is set, a group, a loop,
    a second line, an open quote, a control character, a command of more than 20,000 characters.
    """
    if len(command) > _LONGEST or any(_is_doubtful(char) for char in command):
        return None
    found: list[Words] = []
    words: list[str] = []
    at, size = 0, len(command)
    is_ended = False  # for a shell that reads `a &>/dev/null b` as `a &` and `>/dev/null b`, as dash does
    while at < size:
        if command[at] in _BLANK:
            at += 1
            continue
        if harmless := _HARMLESS_REDIRECTION.match(command, at):
            is_ended = is_ended or harmless[0].startswith("&")
            at = harmless.end()
            continue
        if operator := _OPERATOR.match(command, at):
            if not words or (operator[0] == "|" and command[at : at + 2] == "|&"):
                return None
            found.append(tuple(words))
            words, is_ended = [], False
            at = operator.end()
            continue
        word = _parse_word(command, at)
        if word is None:
            return None
        text, end = word
        if end == at or is_ended:
            return None
        at = end
        if not words and (_ASSIGNMENT.match(text) or text in _RESERVED or not text):
            return None
        words.append(text)
    if words:
        found.append(tuple(words))
    elif not found or not command.rstrip(_BLANK).endswith(";"):
        return None
    return found


def _is_doubtful(char: str) -> bool:
    """Return whether the character may be a blank for some programs and not for others, or is not printable."""
    return char not in _BLANK and (char.isspace() or not char.isprintable())


def _parse_word(command: str, at: int) -> tuple[str, int] | None:
    """Return the word that begins at the index `at`, and the index of its end; None if the word is in doubt."""
    text = ""
    size = len(command)
    while at < size:
        char = command[at]
        if char in _BLANK or char in ";|":
            break
        if char == "&" and command[at : at + 2] == "&&":
            break
        if char in _DOUBTFUL:
            return None
        if char == "'":
            end = command.find("'", at + 1)
            if end < 0:
                return None
            text += command[at + 1 : end]
            at = end + 1
        elif char == '"':
            quoted = _double_quoted(command, at + 1)
            if quoted is None:
                return None
            part, at = quoted
            text += part
        elif char == "\\":
            if at + 1 >= size:
                return None
            text += command[at + 1]
            at += 2
        else:
            text += char
            at += 1
    return text, at


def _double_quoted(command: str, at: int) -> tuple[str, int] | None:
    text = ""
    while at < len(command):
        char = command[at]
        if char == '"':
            return text, at + 1
        if char in "$`":
            return None
        if char == "\\" and command[at + 1 : at + 2] in ("$", "`", '"', "\\"):
            char = command[at + 1]
            at += 1
        text += char
        at += 1
    return None


# -- what may be run ---------------------------------------------------------------------------------------------------

_BREAKS = re.compile(r"[;&|(){}<>`\n\r]|\$\(")
_REDIRECTED = re.compile(r"[<>][&|]?[ \t]*[^\s;&|(){}<>`]+[ \t]+([^;&|(){}<>`\n\r]+)")
_QUOTES = re.compile(r"[\"'\\]")
_INTERPRETER = (  # what such a program is given may run any command
    r"(?:(?:ba|da|a|z|k|mk|fi|c|tc)?sh|python[\d.]*|pypy[\d.]*|perl[\d.]*|ruby[\d.]*|node|deno|bun|php[\d.]*|lua[\d.]*"
    r"|[gmn]?awk|tclsh[\d.]*|expect|pwsh|osascript|Rscript|julia)"
)
_SHELLS = re.compile(
    rf"(?:^|[\s/|;&(]){_INTERPRETER}(?=[\s|;&)<]|$)"
    r"|\beval\b|\bxargs\b|\bsource\b|\bssh\b|\bsu\b|\bfind\b|\bparallel\b|\b(?:foreach|filter-branch|split-string)\b"
    r"|(?:^|[\s/|;&(])(?:at|batch|ed|emacs|env|ex|less|man|more|nix-shell|nvim|pkexec|screen|script|sed|tar|tmux|trap|vim?"
    r"|watch)\s|\s(?:-x|-c|--exec)\s|\s--exec=|\b\w*(?:PAGER|EDITOR|COMMAND|SSH)="
)
_INTERPRETERS = re.compile(rf"(?:^|(?<=[\s/|;&(<])){_INTERPRETER}(?=[\s|;&)<]|$)")
_GIVES_TEXT = re.compile(r"[|(<]")
_RUNS_TEXT = re.compile(  # a command is text that other words make, or has another name
    rf"(?:^|[\s/|;&(]){_INTERPRETER}\s+-\w{{0,20}}[ceErn]\w{{0,20}}\s"
    r"|\beval\b|\bxargs\b|\bparallel\b|\bsource\b|(?:^|[\s;&|(])\.\s|\balias\b|(?i:\balias\.)|\bhash\s+-p\b"
)
_PREFIX_WORDS = frozenset(  # words that may come before the name of the command
    (
        *("sudo", "doas", "env", "command", "builtin", "coproc", "eval", "exec", "nohup", "time", "timeout", "nice"),
        *("ionice", "setsid", "stdbuf", "strace", "watch", "xargs"),
        *("then", "do", "else", "!", "if", "while", "until"),
    )
)

_RUNNERS = frozenset(  # programs that run a command which begins at any of their words
    (
        *("busybox", "chroot", "chrt", "find", "flock", "nsenter", "parallel", "runuser", "script", "setpriv", "ssh"),
        *("su", "taskset", "trap", "unshare", "bwrap", "caffeinate", "cgexec", "dbus-run-session", "direnv"),
        *("entr", "fakeroot", "faketime", "firejail", "gdb", "i386", "linux32", "linux64", "ltrace", "npx", "numactl"),
        *("pkexec", "prlimit", "proxychains", "proxychains4", "rlwrap", "runcon", "screen", "setarch"),
        *("start-stop-daemon", "systemd-run", "tmux", "torsocks", "unbuffer", "uvx", "valgrind", "x86_64"),
    )
)
_RUNNERS_BY_SUBCOMMAND = {  # programs that run a command which begins at any word after one of these
    "git": frozenset(("bisect", "filter-branch", "rebase", "foreach")),
    **dict.fromkeys(
        ("bundle", "docker", "npm", "pnpm", "podman", "poetry", "uv", "yarn"), frozenset(("dlx", "exec", "run", "x"))
    ),
}
_BEFORE_COMMAND = frozenset(("-exec", "-execdir", "-ok", "-okdir"))  # words of find
_NO_COMMAND = re.compile(r"\A[+:]?!|\A\d*[,$\d]*e ")  # before a command, in what an editor or git is given
_MAX_PREFIX_WORDS = 100  # before a command, and of find's that begin one
_MAX_RUNNER_WORDS = 20  # after which a command of such a program is looked for
_VALUE_OPTIONS = {  # options of such words whose value is the next word
    "sudo": "-C -D -g -h -p -R -r -T -t -U -u --close-from --chdir --chroot --command-timeout --group --host "
    "--other-user --prompt --role --type --user",
    "doas": "-C -u",
    "env": "-C -u --chdir --unset",
    "exec": "-a",
    "time": "-f -o --format --output",
    "timeout": "-k -s --kill-after --signal",
    "nice": "-n --adjustment",
    "ionice": "-c -n -p -P -u --class --classdata",
    "stdbuf": "-e -i -o --error --input --output",
    "xargs": "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --replace",
    "watch": "-n --interval",
    "strace": "-a -e -E -I -o -O -p -P -s -S -u --attach --env --output --user",
}


def is_too_long(command: str) -> bool:
    """Return whether the command is so long that its end is not read, or has so many words before the name of a program
    that beam does not look for that."""
    return len(command) > _LONGEST or _guess(command)[1]


def possible_commands(command: str) -> list[Words]:
    """Return the words of each simple command that this command may run, including texts that only look like
    commands. The end of a command that `is_too_long` is left out."""
    return list(_guess(command)[0])


def unsure_commands(command: str) -> list[Words]:
    """Return the words of each simple command in which a part is UNKNOWN until the command runs: what a variable or a
    substitution stands for, or what a pattern of names finds."""
    text = command[:_LONGEST].replace("\\\n", "")
    return [words for words in _guess(_with_unknown_parts(text))[0] if any(UNKNOWN in word for word in words)]


def fed_words(command: str) -> frozenset[str]:
    """Return all words in the command if a program in it runs a text that another one may put together (a pipe into a
    shell, `eval`, an alias); else none."""
    text = command[:_LONGEST].replace("\\\n", "")
    return all_words(command) if _is_fed(_QUOTES.sub(" ", text)) else frozenset()


def _is_fed(text: str) -> bool:
    """Return whether a program in this text may run a text as code."""
    if _RUNS_TEXT.search(text):
        return True
    for line in re.split(r"[;\n]", text):
        gives = _GIVES_TEXT.search(line)
        runs = _INTERPRETERS.search(line) if gives else None
        if gives and runs and (_INTERPRETERS.search(line, gives.end()) or "<" in line[runs.end() :]):
            return True
    return False


def all_words(command: str) -> frozenset[str]:
    """Return all words in the command, wherever they stand in it, also without their quotes."""
    text = _ansi_quotes_decoded(command[:_LONGEST].replace("\\\n", ""))
    found = {word for each in (_QUOTES.sub("", text), _QUOTES.sub(" ", text)) for word in _SEPARATORS.split(each)}
    return frozenset(found | {_program_name(word) for word in found} | {word.lstrip("-") for word in found})


UNKNOWN = "\x01"  # in a word: any text
_SEPARATORS = re.compile(r"[\s;&|(){}<>`=,$:+\[\]!]+")
_ANSI_QUOTES = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ANSI_ESCAPES = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\([^()`]*\)|`[^`]*`|\$\{[^{}]*\}")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?!$-])")
_BLANK_VARIABLE = re.compile(r"\$IFS\b|\$\{IFS\}")
_BRACES = re.compile(r"\{[^{}\s]*\}")
_NAME_PATTERN = re.compile(r"\[[^\[\]\s]*\]|[*?]+")
_MAX_NESTED = 20


def _with_unknown_parts(text: str) -> str:
    """Return the command with UNKNOWN in the place of each part that only a shell can know."""
    text = _ansi_quotes_decoded(text)
    for _ in range(_MAX_NESTED):
        text, count = _SUBSTITUTION.subn(UNKNOWN, text)
        if not count:
            break
    text = _VARIABLE.sub(UNKNOWN, text)
    text = _BRACES.sub(lambda found: UNKNOWN if "," in found[0] else found[0], text)
    return _NAME_PATTERN.sub(UNKNOWN, text)


def _ansi_quotes_decoded(text: str) -> str:
    """Return the command with the text of each `$'…'` in its place."""

    def char(found: re.Match[str]) -> str:
        digits, base = (found[1] or found[2], 16) if found[1] or found[2] else (found[3], 8)
        return chr(int(digits, base)) if digits else found[4]

    return _ANSI_QUOTES.sub(lambda found: _ANSI_ESCAPES.sub(char, found[1]), text).replace('$"', '"')


@functools.lru_cache(2)
def _guess(command: str) -> tuple[tuple[Words, ...], bool]:
    """Return what `possible_commands` finds, and whether a part has too many words before the name of its program. The
    last results are cached, because each rule asks for them."""
    text = _BLANK_VARIABLE.sub(" ", command[:_LONGEST].replace("\\\n", ""))
    decoded = _ansi_quotes_decoded(text)
    parts = list(_BREAKS.split(text))
    parts += _BREAKS.split(decoded) if decoded != text else []
    parts += [braces[0][1:-1].replace(",", " ") for braces in _BRACES.finditer(text)]
    parts += _REDIRECTED.findall(text)  # > FILE rm x
    if _SHELLS.search(text):  # what is quoted may be a command, too
        for quoted in re.split(r"[\"']", text):
            parts += [*_BREAKS.split(quoted), *_BREAKS.split(_NO_COMMAND.sub("", quoted))]
    found: list[Words] = [words for words in split(command) or () if words]
    is_cut = False
    for part in parts:
        words = _QUOTES.sub("", part).split()
        before, is_value = "", False
        for number in range(len(words)):
            if number == _MAX_PREFIX_WORDS:
                is_cut, words = True, []
                break
            found.append(tuple(words))
            if not (is_value or _is_prefix_word(words[0]) or (before and words[0].isdigit())):  # timeout 5 rm x
                break
            is_value = _takes_value(before, words[0])  # sudo -u root rm x
            before = _program_name(words[0]) if _program_name(words[0]) in _PREFIX_WORDS else before or "-"
            words = words[1:]
        begun = _commands_in_arguments(words)
        is_cut = is_cut or len(begun) > _MAX_PREFIX_WORDS
        found += begun[:_MAX_PREFIX_WORDS]
    found += [(_program_name(words[0]), *words[1:]) for words in found if _program_name(words[0]) not in ("", words[0])]
    found += [later for words in found for later in _without_options(words)]
    return tuple(dict.fromkeys(found)), is_cut


def _without_options(words: Words) -> list[Words]:
    """Return the command without the options that stand before the name of a subcommand, as in `git -C DIR push` and
    `git-push`. What follows an option may be its value or that name."""
    program, *rest = words
    if program.startswith("git-"):
        return [("git", program.removeprefix("git-"), *rest)]
    found: list[Words] = []
    is_value = False
    for n, word in enumerate(rest[:_MAX_RUNNER_WORDS]):
        is_option = word.startswith("-")
        if n and not is_option:
            found.append((program, *rest[n:]))
        if not (is_option or is_value):
            break
        is_value = is_option and not (program == "git" and word not in _GIT_VALUE_OPTIONS)
    return found


# The options of git itself whose value is the next word.
_GIT_VALUE_OPTIONS = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source")
)


def _commands_in_arguments(words: list[str]) -> list[Words]:
    """Return the commands that these words may have a program run that begins with the first of them."""
    program = _program_name(words[0]) if words else ""
    if subcommands := _RUNNERS_BY_SUBCOMMAND.get(program):
        begin = next((n for n, word in enumerate(words[: _MAX_RUNNER_WORDS + 1]) if word in subcommands), len(words))
        return [tuple(words[n:]) for n in range(begin + 1, min(len(words), begin + _MAX_RUNNER_WORDS + 1))]
    if program not in _RUNNERS:
        return []
    if program == "find":
        return [tuple(words[n + 1 :]) for n, word in enumerate(words[:-1]) if word in _BEFORE_COMMAND]
    return [tuple(words[n:]) for n in range(1, min(len(words), _MAX_RUNNER_WORDS + 1))]


def _is_prefix_word(word: str) -> bool:
    return bool(_ASSIGNMENT.match(word)) or _program_name(word) in _PREFIX_WORDS or word.startswith("-")


def _takes_value(program: str, option: str) -> bool:
    """Return whether the next word may be the option's value. If a word has several option letters, the last letter
    takes the value."""
    options = _VALUE_OPTIONS.get(program, "").split()
    return option in options or (re.match(r"-\w+\Z", option) is not None and f"-{option[-1]}" in options)


def _program_name(word: str) -> str:
    return word.rpartition("/")[2]
