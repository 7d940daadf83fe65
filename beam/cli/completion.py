"""`beam completion`: scripts for bash, zsh and fish, and the words that these scripts ask beam for while somebody
types.

Names of agents and models may come from untrusted authors. Such a name reaches the shell only if it needs no quoting,
and the scripts never let the shell expand it.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import typer

from beam import BeamError
from beam.cli.commands import App
from beam.cli.context import Context

app = App("Print the script that completes beam's commands in your shell.")

_MAX_IDS = 50
_SAFE_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*\Z")
_BASH = """\
_beam() {
    local IFS=$'\\n'
    mapfile -t COMPREPLY < <(command beam completion words --line "${COMP_LINE:0:COMP_POINT}" \\
        --breaks "$COMP_WORDBREAKS" 2>/dev/null)
    if [[ ${COMPREPLY[0]-} == : ]]; then
        COMPREPLY=()
        compopt -o default
    fi
}
complete -F _beam beam
"""
_ZSH = """\
#compdef beam
_beam() {
    local -a found
    found=("${(@f)$(command beam completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ ${found[1]-} == : ]]; then
        _files
    else
        compadd -- "${(@)found:#}"
    fi
}
if [[ ${funcstack[1]-} == _beam ]]; then
    _beam "$@"
else
    compdef _beam beam
fi
"""
_FISH = """\
function __beam_words
    set -l before (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l found (command beam completion words -- $before[2..] "$current" 2>/dev/null)
    if test "$found[1]" = :
        __fish_complete_path "$current"
    else
        string join \\n -- $found
    end
end
complete --command beam --no-files --arguments '(__beam_words)'
"""
_OPTION_VALUES = {
    "--access": ("read", "edit", "full", "ask"),
    "--via": ("auto", "dialogue", "exec", "terminal"),
    "--until": ("idle", "asking", "finished"),
    "--require": ("structured", "whole"),
    "--tolerate": ("denied",),
    "--context": ("recent", "full", "summary"),
    "--depth": ("turn", "model", "turn,model"),
    "--on-miss": ("stop", "live", "nearest"),
}
_FILE_OPTIONS = frozenset({"--file", "--attach", "--schema", "--record", "--replay", "--root", "-C", "--claude-home"})
_AGENT_METAVARS = frozenset({"AGENT", "[AGENT]...", "AGENT|ID"})
_ID_METAVARS = frozenset({"ID", "[ID]", "[ID]...", "AGENT|ID"})


@app.verb()
def bash() -> None:
    """Print the script for bash: add `source <(beam completion bash)` to ~/.bashrc."""
    sys.stdout.write(_BASH)


@app.verb()
def zsh() -> None:
    """Print the script for zsh: add `source <(beam completion zsh)` to ~/.zshrc, after compinit."""
    sys.stdout.write(_ZSH)


@app.verb()
def fish() -> None:
    """Print the script for fish: beam completion fish > ~/.config/fish/completions/beam.fish."""
    sys.stdout.write(_FISH)


@app.verb()
def words(
    typed: list[str] | None = typer.Argument(None, metavar="[WORD]...", help="What was typed; the last one is open."),
    line: str | None = typer.Option(None, "--line", metavar="TEXT", help="The same, as one line from its beginning."),
    breaks: str = typer.Option("", "--breaks", metavar="TEXT", help="Where the shell itself parts words."),
) -> None:
    """Print the possible next words, one per line; `:` alone stands for files."""
    given = _split_line(line)[1:] if line is not None else list(typed or [])
    before, current = given[:-1], given[-1] if given else ""
    cut = max((_word_start(current, sign) for sign in breaks if not sign.isspace() and sign not in "'\""), default=0)
    for word in candidates(before, current):
        sys.stdout.write(f"{word[cut:] if word != ':' else word}\n")


def _word_start(current: str, sign: str) -> int:
    """Return the index in `current` at which the word begins that the shell will replace. That is the index after the
    last `sign`. For `@` and `$` it is the index of the sign itself, because bash keeps these signs in the word."""
    return max(0, current.rfind(sign) + (sign not in "@$"))


def candidates(before: Sequence[str], current: str) -> list[str]:
    """Return the words that begin with `current` and may follow the words in `before`. Return `[":"]` if a file's path
    may follow."""
    from typer.main import get_command

    from beam.cli.app import app as commands

    command: Any = get_command(commands)
    with command.make_context("beam", [], resilient_parsing=True) as ctx:
        place = _Position(command, ctx)
        for word in before:
            place.move_past(word)
        found = list(place.next_words(current, Context(directory=place.directory, root=place.root)))
    if found == [":"]:
        return found
    return list(dict.fromkeys(word for word in found if word.startswith(current) and _is_safe_word(word)))


class _Position:
    """The position of the next word on a command line: its command, the option whose value the word is, or the number
    of the argument."""

    def __init__(self, command: Any, ctx: Any) -> None:
        self._command, self._ctx = command, ctx
        self.directory: str | None = None
        self.root: str | None = None
        self._option: Any = None
        self._arguments = 0
        self._is_text = False  # whether `--` came before

    def move_past(self, word: str) -> None:
        """Move the position past one complete word."""
        if self._option is not None:
            if "--root" in self._option.opts:
                self.root = word
            elif "-C" in self._option.opts:
                self.directory = word
            self._option = None
        elif word == "--" and not self._is_text:
            self._is_text = True
        elif word.startswith("-") and len(word) > 1 and not self._is_text:
            if "=" not in word:
                self._option = next((each for each in self._options() if word in each.opts and not each.is_flag), None)
        elif hasattr(self._command, "list_commands"):
            chosen = self._command.get_command(self._ctx, word)
            if chosen is not None:
                self._command = chosen
                self._ctx = type(self._ctx)(chosen, parent=self._ctx, info_name=word)
        else:
            self._arguments += 1

    def next_words(self, current: str, call: Context) -> Iterator[str]:
        """Yield the possible next words."""
        if self._option is not None:
            yield from self._option_values(self._option, current, call)
        elif current.startswith("-") and not self._is_text:
            for option in self._options():
                if not option.hidden:
                    yield from (name for name in option.opts if name.startswith("--") or current == "-")
        elif hasattr(self._command, "list_commands"):
            yield from (name for name in self._command.list_commands(self._ctx) if name != "words")
        else:
            arguments = [each for each in self._command.params if each.param_type_name == "argument"]
            if arguments:
                last = arguments[-1]
                here = arguments[self._arguments] if self._arguments < len(arguments) else last
                if self._arguments < len(arguments) or last.nargs == -1:
                    yield from self._candidates_for(here.metavar or "", current, call)

    def _options(self) -> list[Any]:
        return [each for each in self._command.get_params(self._ctx) if each.param_type_name == "option"]

    def _option_values(self, option: Any, current: str, call: Context) -> Iterable[str]:
        names = set(option.opts)
        if names & _FILE_OPTIONS:
            return [":"]
        if "--until" in names and option.metavar != "STATE":
            return []  # a time, or what an agent says
        for name, values in _OPTION_VALUES.items():
            if name in names:
                return values
        if "--model" in names:
            return _try_lookup(call.beam.models)
        return self._candidates_for("AGENT", current, call) if "--agent" in names else []

    def _candidates_for(self, metavar: str, current: str, call: Context) -> Iterator[str]:
        if metavar in _AGENT_METAVARS:  # an agent of a scenario is offered only to those who began to type its name
            lines = _try_lookup(lambda: call.beam.agents(all=True))
            yield from (line.agent for line in lines if current or not line.of_run)
        if metavar in _ID_METAVARS:
            yield from _try_lookup(lambda: call.beam.message_ids(_MAX_IDS))
        if metavar in ("FILE", "[FILE]", "DIR", "[DIR]"):
            yield ":"


def _try_lookup(lookup: Any) -> list[Any]:
    """Return what `lookup` finds. Return an empty list if `lookup` fails, because nobody reads an error while
    typing."""
    try:
        return list(lookup())
    except (BeamError, OSError):
        return []


def _is_safe_word(word: str) -> bool:
    return word.startswith("-") or _SAFE_WORD.match(word) is not None


def _split_line(line: str) -> list[str]:
    """Return the words of an unfinished command line; the last one is unfinished ("" after a space)."""
    line = line.removesuffix("\\")
    for end in ("", "'", '"'):
        try:
            found = shlex.split(line + end)
        except ValueError:
            continue
        return [*found, ""] if line[-1:].isspace() and not end else found
    return line.split()
