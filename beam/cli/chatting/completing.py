"""Completion of the text that a person types in a chat: the chat's commands, agents' names, and file paths. For a path,
only the folder that the path names is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

_MAX_PATHS = 200  # paths that are offered; at most 50 times as many names are read


def completions(
    before: str, table: dict[str, str], *, folder: Path, names: Sequence[str] = (), own: Sequence[str] = ()
) -> Iterator[tuple[str, int, str]]:
    """Yield (word, start, description) for each possible completion of the text before the cursor. `start` is relative
    to the cursor, so it is 0 or negative.

    A slash command is completed only at the beginning of the text. `table` contains the commands of the chat, `own` the
    slash commands of the agent's CLI, and `names` the agents' names. A word that begins with `@` is completed to `@`
    and an agent's name, or to a file's path without the `@`. After a command that takes a path or a name, paths or
    names are completed. Any word with a `/` is completed as a path.
    """
    word = before.split()[-1] if before and not before[-1].isspace() else ""
    if before == word and word.startswith("/"):
        for each, text in table.items():
            if each.partition(" ")[0].startswith(word):
                yield each.partition(" ")[0], -len(word), text
        for each in own:
            if each.startswith(word):
                yield each, -len(word), "of the agent"
        return
    command = before.split(maxsplit=1)[0] if before.strip() else ""
    if command in ("/as", "/next") and len(before.split()) - bool(word) == 1:
        yield from ((name, -len(word), "agent") for name in names if name.startswith(word))
        return
    if word.startswith("@"):
        yield from ((f"@{name}", -len(word), "agent") for name in names if f"@{name}".startswith(word))
        yield from ((path, -len(word), kind) for path, kind in path_completions(word[1:], folder))
    elif command == "/attach" or "/" in word:
        yield from ((path, -len(word), kind) for path, kind in path_completions(word, folder))


def path_completions(given: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (path, kind) for each file or folder whose path begins with `given`, relative to `folder`. `kind` is `file`
    or `folder`. Hidden files are included only if their dot was typed."""
    head, _, start = given.rpartition("/")
    shown = f"{head}/" if head or given.startswith("/") else ""
    looked = 0
    try:
        with os.scandir(folder / Path(shown).expanduser() if shown else folder) as found:
            entries: list[tuple[str, bool]] = []
            for entry in found:
                looked += 1
                if looked > 50 * _MAX_PATHS or len(entries) >= _MAX_PATHS:
                    break
                if entry.name.startswith(start) and (start.startswith(".") or not entry.name.startswith(".")):
                    entries.append((entry.name, entry.is_dir()))
    except (OSError, ValueError, RuntimeError):
        return
    for name, is_folder in sorted(entries):
        if name.isprintable() and " " not in name:
            yield f"{shown}{name}{'/' if is_folder else ''}", "folder" if is_folder else "file"
