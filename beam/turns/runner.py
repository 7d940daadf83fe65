"""Puts an agent's `runner:` before its command line: a program that runs the agent elsewhere, as ssh does.

beam can't control a process there: the process gets neither variables nor files of the turn, and no Landlock. So an
agent whose access beam would have to limit can't have a runner. Pure: takes a launch and returns a launch.
"""

from __future__ import annotations

import re

from msgspec import structs

from beam.agents.base import Face, Launch, Turn
from beam.base.errors import UnsupportedError
from beam.model.message import Access
from beam.model.settings import AgentSettings

COMMAND, CWD = "{command}", "{cwd}"
_PLACEHOLDERS = r"\{(?:command|cwd)\}"


def with_runner(launch: Launch, turn: Turn) -> Launch:
    """Return the launch with the agent's runner before it.

    In a word of the runner that contains `{command}`, this placeholder is replaced by the whole command line, and
    `{cwd}` by the folder, both quoted for a shell. In the runner's other words, `{cwd}` is replaced without quoting. If
    no word contains `{command}`, the words of the command line follow the words of the runner.
    """
    runner, cwd = turn.settings.runner, turn.cwd
    if not runner:
        return launch
    import shlex  # few agents have a runner

    if not any(COMMAND in word for word in runner):
        argv = (*(word.replace(CWD, cwd) for word in runner), *launch.argv)
        hidden = tuple(index + len(runner) for index in launch.prompt_in_argv)
    else:
        values = {COMMAND: shlex.join(launch.argv), CWD: shlex.quote(cwd)}
        argv = tuple(
            re.sub(_PLACEHOLDERS, lambda found: values[found[0]], word) if COMMAND in word else word.replace(CWD, cwd)
            for word in runner
        )
        hidden = tuple(n for n, word in enumerate(runner) if COMMAND in word and launch.prompt_in_argv)
    return structs.replace(launch, argv=argv, prompt_in_argv=hidden, session_file=None)


def check(
    settings: AgentSettings, agent: str, face: Face, access: Access, *, has_access: bool, is_proxied: bool
) -> None:
    """Raise UnsupportedError for a turn that a runner can't run as requested.

    `has_access`: beam can limit the access of the agent's CLI, by variables, files and confinement.
    """
    if not settings.runner:
        return
    if has_access and access != "full":
        raise UnsupportedError(
            f"{agent} has a runner, and beam can't limit what runs there to access {access}: neither its variables and "
            "files for that nor its confinement get there",
            "limit it by the runner itself (a container), and give it full access: --access full",
            subject=agent,
        )
    if face == "terminal":
        raise UnsupportedError(
            f"{agent} has a runner, and there is no terminal mode with one", "leave --via terminal out", subject=agent
        )
    if is_proxied:
        raise UnsupportedError(
            f"{agent} has a runner, and beam's proxy for model calls can't be reached from there",
            "leave the options about model calls out",
            subject=agent,
        )
