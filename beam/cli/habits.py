"""Suggestions for people who type commands and options of other tools (acpx, llm, gh, docker, the agents' own CLIs), or
former options of beam: what to type instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from beam import Beam, BeamError

_NAME = r"[a-z0-9][a-z0-9_-]*(@[a-z0-9][a-z0-9_-]*)?"
_EXAMPLE = "claude"
_SEND = "beam send {agent} TEXT"
_ACCESS = "what an agent may do is its access: --access read, edit, full or ask"
_SESSION = "each message continues the agent's session; --new starts a new one, {agent}@NAME is one beside it"
_PROMPT = "the prompt is an argument, a file (-f) or stdin: " + _SEND
_FORMAT = "--json prints the outcome as one object, --events each event as JSON Lines"
_FOLDER = "the folder is the one you are in: cd there, or beam -C DIR send {agent} TEXT"
_SYSTEM = "it is a setting of the agent: beam agent set {agent} system=TEXT"
_LOGIN = "beam has no account: log in with the agent's own CLI; beam doctor checks the CLIs"

COMMAND_HINTS: dict[str, dict[str, str]] = {
    "beam": {
        **dict.fromkeys(("exec", "prompt", "ask", "query", "message", "-p"), "beam send {rest}"),
        "version": "beam --version",
        "agents": "beam agent list {rest}",
        **dict.fromkeys(("ps", "ls", "list", "top"), "beam status; beam agent list"),
        **dict.fromkeys(("logs", "history", "transcript"), "beam log {rest}"),
        "tail": "beam watch {rest}",
        **dict.fromkeys(("stop", "cancel", "kill", "abort"), "beam interrupt {rest}"),
        **dict.fromkeys(("rm", "remove", "delete"), "beam agent rm {rest}"),
        **dict.fromkeys(
            ("revert", "rewind", "checkout", "restore", "rollback"),
            "beam undo {rest}  (its conversation goes back with beam agent rewind)",
        ),
        "redo": "beam undo {rest} --redo",
        **dict.fromkeys(("session", "sessions"), "beam agent sessions"),
        **dict.fromkeys(("resume", "continue"), "beam agent resume {agent} SESSION"),
        **dict.fromkeys(("models", "model"), "beam agent set {agent} model=NAME, or --model NAME for one message"),
        **dict.fromkeys(("login", "logout", "auth", "keys"), _LOGIN),
        **dict.fromkeys(("config", "set"), "beam agent set {agent} KEY=VALUE, or beam.yaml"),
        **dict.fromkeys(("init", "setup", "install"), "there is nothing to set up: " + _SEND),
        **dict.fromkeys(("update", "upgrade"), "pip install --upgrade beam-agents"),
        **dict.fromkeys(("serve", "daemon", "start"), "beam broker start"),
        **dict.fromkeys(("inbox", "receive"), "beam recv {rest}"),
        "broadcast": "beam send --to-all TEXT",
    },
    "beam agent": {
        "ls": "beam agent list",
        **dict.fromkeys(("remove", "delete"), "beam agent rm {rest}"),
        **dict.fromkeys(("create", "new"), "beam agent add {rest}"),
        **dict.fromkeys(("get", "info", "describe"), "beam agent show {rest}"),
        **dict.fromkeys(("config", "update", "edit"), "beam agent set {agent} KEY=VALUE"),
    },
    "beam queue": {
        "ls": "beam queue list",
        **dict.fromkeys(("clear", "purge", "flush"), "beam queue drop ID, or beam queue drop --dead"),
        **dict.fromkeys(("rm", "remove", "delete", "cancel"), "beam queue drop {rest}"),
    },
    "beam broker": {
        **dict.fromkeys(("run", "serve"), "beam broker"),
        "restart": "beam broker stop && beam broker start",
    },
    "beam team": {"ls": "beam team list"},
}

OPTION_HINTS: dict[str, str] = {
    **dict.fromkeys(("-V", "-version"), "type: beam --version"),
    **dict.fromkeys(("-p", "--print", "--prompt"), _PROMPT),
    **dict.fromkeys(("-c", "--continue", "-r", "--resume", "--session-id", "--cid"), _SESSION),
    **dict.fromkeys(("--output-format", "--format", "-o", "--stream-json"), _FORMAT),
    **dict.fromkeys(
        (
            "--yolo",
            "-y",
            "--dangerously-skip-permissions",
            "--dangerously-bypass-approvals-and-sandbox",
            "--approve-all",
            "--approve-reads",
            "--deny-all",
            "--full-auto",
            "--auto-approve",
            "--allowedTools",
            "--allowed-tools",
            "--disallowedTools",
            "--permission-mode",
            "--approval-mode",
            "--sandbox",
            "-a",
        ),
        _ACCESS,
    ),
    **dict.fromkeys(("--system-prompt", "--append-system-prompt", "--system"), _SYSTEM),
    **dict.fromkeys(("-m", "--model"), "type: beam send {agent} --model NAME TEXT"),
    "-s": "for a session: {agent}@NAME; for a system prompt: " + _SYSTEM,
    **dict.fromkeys(("--cwd", "--cd", "-C", "--add-dir", "--dir"), _FOLDER),
    **dict.fromkeys(
        ("--async", "--background", "--detach", "-d", "--bg"), "--no-wait prints the message's id and returns"
    ),
    **dict.fromkeys(
        ("--stream", "--no-stream"), "a terminal shows the answer as it is written; --events prints events"
    ),
    **dict.fromkeys(("--max-budget-usd", "--max-cost"), "--budget USD"),
    **dict.fromkeys(("--agent", "--to", "-t"), "the agent is the first argument: " + _SEND),
    **dict.fromkeys(("--all", "--broadcast"), "--to-all TEXT, without an agent's name"),
    "--batch": "--each sends each line of stdin",
    **dict.fromkeys(("--image", "-i", "--attachment"), "--attach PATH"),
    **dict.fromkeys(("--output-schema", "--json-schema"), "--schema FILE"),
    **dict.fromkeys(
        ("--effort", "--reasoning-effort"), "beam has no such setting: set it in the agent's own configuration"
    ),
}


# Options that a command had once, and what says it now.
_LATER = "cron and systemd send it later: docs/scripts.md has their lines"

_MISS = {"--fill": "--on-miss live", "--exact-at-least": "--json has the number, at .model_calls.exact"}
_BUDGET = {"--budget-usd": "--budget USD"}
_RECORDED = {
    "--record-model": "--record DIR --depth model",
    "--replay-model": "--replay DIR --depth model",
    "--replay-mode": "--on-miss stop (it was strict), nearest (lenient) or live (fill)",
    **_MISS,
    **_BUDGET,
}
_UPSTREAM = {"--upstream": "it is a setting of the agent: beam agent set {agent} upstream=URL"}
OLD_OPTIONS: dict[str, dict[str, str]] = {
    "beam send": {
        **dict.fromkeys(("--at", "--every"), _LATER),
        **_RECORDED,
        **_UPSTREAM,
        "--key-fd": "--shield fd:N",
        "--secret": "--shield NAME",
        "--session": "a session is {agent}@NAME: beam send {agent}@NAME TEXT",
    },
    "beam run": _RECORDED,
    "beam chat": _BUDGET,
    "beam proxy": {**_MISS, **_BUDGET, "--key-fd": "--shield fd:N"},
    "beam proxy doctor": _UPSTREAM,
}


def suggest_command(path: str, words: Sequence[str], known: Collection[str] = ()) -> str | None:
    """Return a suggestion for a command that the group `path` does not have; None if the command is not a known habit.

    `words` are the typed words, beginning with the unknown command; `known` are the names of agents.
    """
    agent = _named_agent(words, known)
    if path == "beam" and " " in words[0].strip():
        return f"type: beam send {agent} {shlex.quote(words[0])}"
    if path == "beam" and words[0] == "inject":
        return _inject(words[1:])
    instead = COMMAND_HINTS.get(path, {}).get(words[0])
    if instead is None:
        return None
    rest = shlex.join(words[1:]) or (f"{agent} TEXT" if "send" in instead else "")
    told = instead.replace("{agent}", agent).replace("{rest}", rest).rstrip()
    return f"type: {told}" if instead.startswith("beam ") else told


def _named_agent(words: Sequence[str], known: Collection[str]) -> str:
    """Return the first of the words that is the name of an agent or of one of its sessions; an example if none is."""
    return next((word for word in words if word.partition("@")[0] in known), _EXAMPLE)


def known_agents(ctx: Any) -> list[str]:
    """Return the names of the agents and adapters that a command line can name; an empty list if the configuration is
    invalid. `ctx` is Typer's context of any command."""
    given = ctx.find_root().params
    try:
        beam = Beam(given.get("root"), cwd=Path(given.get("directory") or "").absolute())
        return [line.agent for line in beam.agents(all=True)]
    except (BeamError, OSError):
        return []


def _inject(words: Sequence[str]) -> str:
    """Return the command for `beam inject --as A --to B TEXT`: a message to B in the name of A."""
    names, rest = {"--as": "NAME", "--to": ""}, []
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if option in names:
            names[option] = value if equals else next(left, names[option])
        else:
            rest.append(word)
    if not names["--to"] and len(rest) > 1:
        names["--to"], *rest = rest
    return (
        f"type: {shlex.join(['beam', 'send', names['--to'] or _EXAMPLE, '--from', names['--as'], *(rest or ['TEXT'])])}"
    )


def suggest_for_extra_words(path: str, given: Mapping[str, object], extra: str) -> str | None:
    """Return a suggestion for a command that was given surplus words; None if this is not a known habit. `given` maps
    the command's parameters to their values, and `extra` contains the surplus words."""
    agent = given.get("file")
    if path != "beam run" or not isinstance(agent, str) or "." in agent or "/" in agent:
        return None
    return f"type: beam send {agent} {shlex.quote(extra)}"


def suggest_option(path: str, option: str, words: Sequence[str] = (), known: Collection[str] = ()) -> str | None:
    """Return a suggestion for an option that the command `path` does not have; None if the option is neither a known
    habit nor one that the command had once. `words` are all words that were typed after `beam`, and `known` are the
    names of agents; the suggestion has the agent that the words name."""
    name = option.partition("=")[0]
    if path == "beam send" and name == "--as" and words:
        typed = [f"--from{word[4:]}" if word.partition("=")[0] == "--as" else word for word in words]
        return f"type: beam {shlex.join(typed)}"
    if path == "beam agent set":
        instead = "type: beam agent set {agent} KEY=VALUE" if name == "--set" else None
    else:
        instead = OLD_OPTIONS.get(path, {}).get(name) or (
            OPTION_HINTS.get(name) if path in ("beam", "beam send") else None
        )
    if instead is None:
        return None
    command = path.split()[1:]
    after = words[len(command) :] if command and list(words[: len(command)]) == command else ()
    is_first = bool(after) and re.fullmatch(_NAME, after[0]) is not None  # it may be misspelt
    agent = after[0] if is_first else _named_agent(words, known)
    return instead.replace("{agent}", agent.partition("@")[0] if "{agent}@" in instead else agent)
