"""Changes the files of a Claude Code team: mail, tasks, members. Each change holds Claude Code's own lock and follows
Claude Code's rules for ids.

beam changes a team only when a person asks for it. Anybody who can write these files can put any name into the sender
field of a message: neither Claude Code nor beam can check that name.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from beam.base.clock import rfc3339
from beam.base.errors import DiskError, NotFoundError, UsageError, nearest
from beam.teams import claude_files, model
from beam.teams.model import LEAD, Member, Roster, inbox_name
from beam.teams.task_files import TaskFiles
from beam.teams.vendor_lock import hold_lock


class TeamFiles(TaskFiles):
    """The files of one team below `home`, a configuration directory of Claude Code (like ~/.claude). `folder` is the
    name of the team's directory below `teams`."""

    def __init__(self, home: str, folder: str) -> None:
        super().__init__(home, folder)
        self.team_dir = f"{home}/teams/{folder}"
        self.config = f"{self.team_dir}/config.json"
        for path in (self.team_dir, f"{self.team_dir}/inboxes"):
            claude_files.check_directory(path)

    def roster(self) -> Roster:
        """Return the team's configuration. Raises NotFoundError if it is missing or can't be parsed."""
        found = claude_files.read_parsed(self.config, model.roster)
        if found is None:
            raise NotFoundError(f"the team {self.folder} has no configuration", "beam team list", subject=self.folder)
        return found

    def member(self, name: str) -> Member:
        """Return the member of that name. Raises NotFoundError, whose hint is the most similar name or all names."""
        roster = self.roster()
        found = roster.member(name)
        if found is None:
            names = [member.name for member in roster.members]
            near = nearest(name, names)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
            raise NotFoundError(f"{roster.name or self.folder} has no member {name!r}", hint, subject=name)
        return found

    # -- mail ----------------------------------------------------------------------------------------------------------

    def inbox(self, name: str) -> str:
        """Return the path of a member's inbox file."""
        return f"{self.team_dir}/inboxes/{inbox_name(name)}.json"

    def post(self, to: str, text: str, *, sender: str, summary: str = "", reply_to: str | None = None) -> str:
        """Append a message to a member's inbox and return the new message's id. `reply_to` is the id of the message
        that the new one answers; it is given only for answers of a member that beam runs."""
        letter = {
            "from": sender,
            "text": text,
            **({"summary": summary} if summary else {}),
            "timestamp": current_timestamp(),
            "msgV": 1,
            "msg_id": str(uuid.uuid4()),
            "type": "message",
            "read": False,
            **({"inReplyTo": reply_to} if reply_to else {}),
        }
        self._make_inboxes()
        path = self.inbox(to)
        with hold_lock(path):
            claude_files.replace(path, [*claude_files.inbox_messages(path), letter])
        return str(letter["msg_id"])

    def frame(self, to: str, kind: str, *, sender: str, **fields: Any) -> str:
        """Append a frame (a control message of Claude Code's team protocol, a JSON object) of the type `kind` to a
        member's inbox, and return the new message's id."""
        text = json.dumps({"type": kind, **fields, "timestamp": current_timestamp()}, ensure_ascii=False)
        return self.post(to, text, sender=sender)

    def mail(self, name: str) -> tuple[model.Mail, ...]:
        """Return the messages in a member's inbox, and leave them there. Return () if it can't be parsed now."""
        data = claude_files.read(self.inbox(name))
        return (model.inbox(data) or ()) if data is not None else ()

    def remove_mail(self, name: str, mail_id: str) -> None:
        """Remove one message from a member's inbox, if it is there."""
        path = self.inbox(name)
        if claude_files.read(path) is None:  # its team ended
            return
        with hold_lock(path):
            data = claude_files.read(path)
            left = model.inbox_without(data, mail_id) if data is not None else None
            if left is not None:
                claude_files.replace(path, left)

    # -- members -------------------------------------------------------------------------------------------------------

    def add_member(
        self, value: Mapping[str, Any], *, replaces: Callable[[Mapping[str, Any]], bool] = lambda _: False
    ) -> bool:
        """Add the member `value` to the configuration. Return whether it replaced an existing member of the same name.

        `replaces` is called with each existing member of that name, and returns whether this member may be replaced.
        Raises UsageError if one may not.
        """
        name = value["name"]
        given_up: list[dict[str, Any]] = []

        def join(found: dict[str, Any]) -> None:
            given_up.extend(one for one in found["members"] if one.get("name") == name)
            if not all(replaces(one) for one in given_up):
                raise UsageError(f"{self.folder} has a member {name} already", "use --name", subject=str(name))
            found["members"] = [one for one in found["members"] if one.get("name") != name] + [dict(value)]

        self._change_config(join)
        path = self.inbox(str(value["name"]))
        self._make_inboxes()
        with hold_lock(path):
            if claude_files.read(path) is None:
                claude_files.replace(path, [])
        return bool(given_up)

    def remove_member(self, name: str) -> None:
        """Remove a member from the configuration, if it is there."""

        def leave(found: dict[str, Any]) -> None:
            found["members"] = [one for one in found["members"] if one.get("name") != name]

        self._change_config(leave)

    def members(self) -> list[dict[str, Any]]:
        """Return the members' entries in the configuration unchanged, with the fields that only beam writes."""
        found = (claude_files.read_parsed(self.config, model.object_in) or {}).get("members")
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def _make_inboxes(self) -> None:
        """Make the directory of the inboxes, but not that of the team. Raises NotFoundError if the team is gone."""
        try:
            os.mkdir(f"{self.team_dir}/inboxes")  # noqa: PTH102 - a text
        except FileExistsError:
            return
        except FileNotFoundError:
            raise NotFoundError(f"the team {self.folder} is gone", "beam team list", subject=self.folder) from None

    def _change_config(self, change: Callable[[dict[str, Any]], None]) -> None:
        with hold_lock(self.config):
            value = claude_files.read_parsed(self.config, model.object_in)
            if value is None:
                raise NotFoundError(f"the team {self.folder} is gone", "beam team list", subject=self.folder)
            value["members"] = [one for one in value.get("members") or [] if isinstance(one, dict)]
            change(value)
            claude_files.replace(self.config, value)


def create(home: str, name: str, *, session_id: str, cwd: str) -> TeamFiles:
    """Create a team whose only member is its lead, and return the team's files. Raises UsageError if the name is
    invalid or already taken, DiskError if the directories can't be created."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", name):
        raise UsageError(f"{name!r} is not a team's name", "use lower-case letters, digits and -", subject=name)
    path = f"{home}/teams/{name}"
    for folder in (home, f"{home}/teams", f"{home}/tasks"):
        claude_files.check_directory(folder)
    try:
        os.makedirs(path, mode=0o755)  # noqa: PTH103 - a text
        os.makedirs(f"{home}/tasks/{name}", exist_ok=True)  # noqa: PTH103
    except FileExistsError:
        raise UsageError(f"there is a team {name} already", f"beam team show {name}", subject=name) from None
    except OSError as error:
        raise DiskError(f"can't make {path}: {error.strerror}", subject=path) from error
    now_ms = time.time_ns() // 1_000_000
    lead = {
        "agentId": f"{LEAD}@{name}",
        "name": LEAD,
        "agentType": LEAD,
        "joinedAt": now_ms,
        "tmuxPaneId": "leader",
        "cwd": cwd,
        "subscriptions": [],
        "backendType": "in-process",
    }
    config = {
        "name": name,
        "createdAt": now_ms,
        "leadAgentId": f"{LEAD}@{name}",
        "leadSessionId": session_id,
        "madeBy": "beam",
        "members": [lead],
    }
    claude_files.write_new(f"{path}/config.json", config)
    return TeamFiles(home, name)


def current_timestamp() -> str:
    """Return the current time as Claude Code writes it: RFC 3339, in UTC, with milliseconds."""
    return rfc3339(time.time_ns())[:23] + "Z"


# -- what is sent ------------------------------------------------------------------------------------------------------


MEMBER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
LONGEST = 256 * 1024  # characters of a message
SUMMARY = 60  # characters of a message's own summary
_INVISIBLE_ENDS = re.compile(r"\A[\s\ufeff\u200b-\u200f\u2060\x00-\x20]+|[\s\ufeff\u200b-\u200f\u2060\x00-\x20]+\Z")


def check_text(text: str) -> str:
    """Return the text of a message unchanged. Raises UsageError if it is empty, too long, or a frame of the team
    protocol."""
    if not text.strip():
        raise UsageError("there is nothing to send")
    if len(text) > LONGEST:
        raise UsageError(f"a message of {len(text):,} characters is too long", f"at most {LONGEST:,}")
    if is_frame(text):
        raise UsageError(
            "the text is a frame of the team's own protocol, and beam sends none", "write it as a sentence"
        )
    return text


def is_frame(text: str) -> bool:
    """Return whether some JSON parser might take the text for a frame of the team protocol: an object with a `type`.

    Surrounding white space and invisible characters do not hide a frame, nor do very long numbers. An object that is
    nested too deeply to be parsed counts as a frame.
    """
    bare = _INVISIBLE_ENDS.sub("", text)
    if not bare.startswith("{"):
        return False
    try:
        value = json.loads(bare, parse_int=str)
    except RecursionError:
        return True
    except ValueError:
        return False
    return isinstance(value, dict) and "type" in value


def check_sender(name: str, roster: Roster) -> str:
    """Return the sender's name unchanged. Raises UsageError if it has invalid characters or is the name of a member."""
    if not MEMBER_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name", "use letters, digits, _ and -", subject=name)
    if name == LEAD or roster.member(name) is not None:
        raise UsageError(f"{name} is a member of the team", "use a name of your own", subject=name)
    return name
