"""Writing into a Claude team: mail, tasks, members. Each change is made under Claude Code's own locks and id rules.

Nothing here is called unless a person asked for it. Who a message is from is a field that anybody may write: Claude
Code does not check it, and neither can beam.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from beam.base import files
from beam.base.clock import rfc3339
from beam.base.errors import CorruptError, DiskError, NotFoundError, UsageError
from beam.base.near import nearest
from beam.teams import model
from beam.teams.model import LEAD, Member, Roster, Task, inbox_name
from beam.teams.tasks import COMPLETED, IN_PROGRESS
from beam.teams.vendor_lock import held

PENDING = "pending"
MEMBER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
LONGEST = 256 * 1024  # characters of a message
_LARGEST = 16 * 1024 * 1024
_TASK_ID = re.compile(r"[0-9]{1,9}")
_HALF_TRIES, _HALF_S = 5, 0.02  # Claude Code writes some files in place: half of one is read again
_AROUND = re.compile(r"\A[\s\ufeff\u200b-\u200f\u2060\x00-\x20]+|[\s\ufeff\u200b-\u200f\u2060\x00-\x20]+\Z")

T = TypeVar("T")


class TeamFiles:
    """The files of one team in a home of Claude Code's, `folder` being the name of its directory below `teams`."""

    def __init__(self, home: str, folder: str) -> None:
        self.home = home
        self.folder = folder
        self.team_dir = f"{home}/teams/{folder}"
        self.config = f"{self.team_dir}/config.json"
        for path in (self.team_dir, f"{self.team_dir}/inboxes", self._task_dir()):
            _check_directory(path)

    def roster(self) -> Roster:
        """Return the configuration. Raises NotFoundError if the team has none."""
        found = _whole(self.config, model.roster)
        if found is None:
            raise NotFoundError(f"the team {self.folder} has no configuration", "beam team list", subject=self.folder)
        return found

    def member(self, name: str) -> Member:
        """Return the member. Raises NotFoundError with the nearest name."""
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
        """Return the path of a member's inbox."""
        return f"{self.team_dir}/inboxes/{inbox_name(name)}.json"

    def post(self, to: str, text: str, *, sender: str, summary: str = "", reply_to: str | None = None) -> str:
        """Put a message into a member's inbox and return its id. `reply_to` marks the answer of a member of beam's."""
        letter = {
            "from": sender,
            "text": text,
            **({"summary": summary} if summary else {}),
            "timestamp": stamp(),
            "msgV": 1,
            "msg_id": str(uuid.uuid4()),
            "type": "message",
            "read": False,
            **({"inReplyTo": reply_to} if reply_to else {}),
        }
        os.makedirs(f"{self.team_dir}/inboxes", exist_ok=True)  # noqa: PTH103 - a text
        path = self.inbox(to)
        with held(path):
            _replace(path, [*_letters(path), letter])
        return str(letter["msg_id"])

    def frame(self, to: str, kind: str, *, sender: str, **fields: Any) -> str:
        """Put a frame of the team's own protocol into a member's inbox."""
        text = json.dumps({"type": kind, **fields, "timestamp": stamp()}, ensure_ascii=False)
        return self.post(to, text, sender=sender)

    def take_mail(self, name: str) -> tuple[model.Mail, ...]:
        """Take all messages out of a member's inbox."""
        path = self.inbox(name)
        data = _read(path)
        if data is None or data.strip() in (b"", b"[]"):
            return ()
        with held(path):
            data = _read(path)
            found = model.inbox(data) if data is not None else None
            if found:
                _replace(path, [])
        return found or ()

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def tasks(self) -> dict[str, Task]:
        """Return the tasks by id. A file whose task has another id than its name says is none."""
        found = {}
        for task_id in self._task_ids():
            task = _whole(self._task_path(task_id), model.task)
            if task is not None and task.id == task_id:
                found[task_id] = task
        return found

    def waits_for(self, task: Task, tasks: Mapping[str, Task]) -> list[str]:
        """Return the ids of the tasks that it waits for. One that can't be read counts; one that is gone does not."""
        return [
            one for one in task.blocked_by if (tasks[one].status != COMPLETED if one in tasks else self._has_task(one))
        ]

    def add_task(self, subject: str, *, description: str = "", after: Sequence[str] = ()) -> str:
        """Create a task that waits for those of `after`, and return its id."""
        folder = self._task_dir()
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - a text
        with self._list_lock():
            tasks = self.tasks()
            for other in after:
                self._known(tasks, other)
            task_id = str(max([self._highest(), *map(int, self._task_ids())]) + 1)
            value = {
                "id": task_id,
                "subject": subject,
                "description": description,
                "status": PENDING,
                "blocks": [],
                "blockedBy": list(dict.fromkeys(after)),
            }
            _write_new(f"{folder}/{task_id}.json", value)
            for other in dict.fromkeys(after):
                self._change(other, lambda found: found["blocks"].append(task_id))
        return task_id

    def block_task(self, task_id: str, by: str) -> None:
        """Make a task wait for another. Raises UsageError where each would wait for the other."""
        with self._list_lock():
            tasks = self.tasks()
            for one in (task_id, by):
                self._known(tasks, one)
            path = _way(tasks, task_id, by)
            if path:
                way = " → ".join(path)
                raise UsageError(f"task {task_id} can't wait for {by}: that waits for it ({way})", "beam team tasks")
            self._change(task_id, lambda found: _add(found["blockedBy"], by))
            self._change(by, lambda found: _add(found["blocks"], task_id))

    def claim_task(self, task_id: str, owner: str) -> Task:
        """Make somebody the owner of a free task. Raises UsageError if it has one, is over, or waits for another."""

        def take(found: dict[str, Any]) -> None:
            if found.get("owner"):
                raise UsageError(f"task {task_id} is {found['owner']}'s", "beam team tasks", subject=task_id)
            if found.get("status") != PENDING:
                raise UsageError(f"task {task_id} is {found.get('status')}", "beam team tasks", subject=task_id)
            waits = self.waits_for(Task(id=task_id, blocked_by=tuple(found["blockedBy"])), self.tasks())
            if waits:
                raise UsageError(f"task {task_id} waits for {', '.join(waits)}", "beam team tasks", subject=task_id)
            found["owner"] = owner

        return self._change(task_id, take)

    def move_task(self, task_id: str, status: str, owner: str = "") -> Task:
        """Give a task another status; `owner`, if given, must be its owner. A free task becomes that owner's."""

        def move(found: dict[str, Any]) -> None:
            if owner and found.get("owner") not in (None, "", owner):
                raise UsageError(f"task {task_id} is {found['owner']}'s", "beam team tasks", subject=task_id)
            if status == IN_PROGRESS and found.get("status") == COMPLETED:
                raise UsageError(f"task {task_id} is completed", "beam team tasks", subject=task_id)
            found["status"] = status
            if owner:
                found["owner"] = owner

        return self._change(task_id, move)

    def release_task(self, task_id: str) -> None:
        """Make a task free again."""

        def free(value: dict[str, Any]) -> None:
            value["status"] = PENDING
            value.pop("owner", None)

        self._change(task_id, free)

    def release_tasks(self, owner: str) -> list[str]:
        """Give back the tasks that somebody did not finish, and return their ids."""
        found = [one.id for one in self.tasks().values() if one.owner == owner and one.status != COMPLETED]
        for task_id in found:
            self.release_task(task_id)
        return found

    # -- members -------------------------------------------------------------------------------------------------------

    def add_member(
        self, value: Mapping[str, Any], *, replaces: Callable[[Mapping[str, Any]], bool] = lambda _: False
    ) -> bool:
        """Add a member to the configuration, and return whether it took the place of one that `replaces` gives up.

        Raises UsageError if there is another of that name.
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
        os.makedirs(f"{self.team_dir}/inboxes", exist_ok=True)  # noqa: PTH103 - a text
        with held(path):
            if _read(path) is None:
                _replace(path, [])
        return bool(given_up)

    def remove_member(self, name: str) -> None:
        """Remove a member from the configuration, if it is there."""

        def leave(found: dict[str, Any]) -> None:
            found["members"] = [one for one in found["members"] if one.get("name") != name]

        self._change_config(leave)

    def members(self) -> list[dict[str, Any]]:
        """Return the members as they are in the configuration, with what Claude Code does not write."""
        found = (_whole(self.config, model.object_in) or {}).get("members")
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    # -- inside --------------------------------------------------------------------------------------------------------

    def _task_dir(self) -> str:
        return f"{self.home}/tasks/{inbox_name(self.folder)}"

    def _task_path(self, task_id: str) -> str:
        return f"{self._task_dir()}/{task_id}.json"

    def _task_ids(self) -> list[str]:
        names = _names(self._task_dir())
        return [name[:-5] for name in names if name.endswith(".json") and _TASK_ID.fullmatch(name[:-5])]

    def _has_task(self, task_id: str) -> bool:
        return _TASK_ID.fullmatch(task_id) is not None and os.path.lexists(self._task_path(task_id))

    def _list_lock(self) -> Any:
        path = f"{self._task_dir()}/.lock"
        os.makedirs(self._task_dir(), exist_ok=True)  # noqa: PTH103 - a text
        if not os.path.lexists(path):
            _write_bytes(path, b"")
        return held(path)

    def _highest(self) -> int:
        data = (_read(f"{self._task_dir()}/.highwatermark") or b"").strip()
        return int(data) if _TASK_ID.fullmatch(data.decode("ascii", "replace")) else 0

    def _known(self, tasks: Mapping[str, Task], task_id: str) -> None:
        if task_id not in tasks:
            raise NotFoundError(f"{self.folder} has no task {task_id!r}", "beam team tasks TEAM", subject=task_id)

    def _change(self, task_id: str, change: Callable[[dict[str, Any]], None]) -> Task:
        path = self._task_path(task_id)
        if not self._has_task(task_id):
            raise NotFoundError(f"{self.folder} has no task {task_id!r}", "beam team tasks TEAM", subject=task_id)
        with held(path):
            value = _whole(path, model.object_in)
            if value is None:
                raise CorruptError(f"{path} is no task", subject=path)
            for key in ("blocks", "blockedBy"):
                value[key] = [one for one in value.get(key) or [] if isinstance(one, str)]
            change(value)
            _replace(path, value)
        task = model.task(json.dumps(value).encode())
        assert task is not None
        return task

    def _change_config(self, change: Callable[[dict[str, Any]], None]) -> None:
        with held(self.config):
            value = _whole(self.config, model.object_in)
            if value is None:
                raise NotFoundError(f"the team {self.folder} is gone", "beam team list", subject=self.folder)
            value["members"] = [one for one in value.get("members") or [] if isinstance(one, dict)]
            change(value)
            _replace(self.config, value)


def create(home: str, name: str, *, session_id: str, cwd: str) -> TeamFiles:
    """Make a team with only its lead. Raises UsageError if there is one of that name."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", name):
        raise UsageError(f"{name!r} is not a team's name", "use lower-case letters, digits and -", subject=name)
    path = f"{home}/teams/{name}"
    for folder in (home, f"{home}/teams", f"{home}/tasks"):
        _check_directory(folder)
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
    _write_new(f"{path}/config.json", config)
    return TeamFiles(home, name)


def check_text(text: str) -> str:
    """Return the text of a message. Raises UsageError for a frame of the team's own protocol."""
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
    """Return whether any reader of JSON may take the text for a frame of the team's own protocol: an object with a
    `type`, whatever is around it that somebody may strip, however deep it is and however long its numbers are."""
    bare = _AROUND.sub("", text)
    if not bare.startswith("{"):
        return False
    try:
        value = json.loads(bare, parse_int=str, parse_float=str)
    except RecursionError:
        return True
    except ValueError:
        return False
    return isinstance(value, dict) and "type" in value


def check_sender(name: str, roster: Roster) -> str:
    """Return the name of a sender. Raises UsageError for one that is a member's."""
    if not MEMBER_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name", "use letters, digits, _ and -", subject=name)
    if name == LEAD or roster.member(name) is not None:
        raise UsageError(f"{name} is a member of the team", "use a name of your own", subject=name)
    return name


def stamp() -> str:
    """Return the time as Claude Code writes it."""
    return rfc3339(time.time_ns())[:23] + "Z"


def _way(tasks: Mapping[str, Task], start: str, end: str) -> list[str]:
    """Return the tasks from `end` back to `start` by what each waits for; [] if there is no such way."""
    ways = [[end]]
    seen = set()
    while ways:
        way = ways.pop()
        if way[-1] == start:
            return way
        if way[-1] not in seen:
            seen.add(way[-1])
            task = tasks.get(way[-1])
            ways += [[*way, one] for one in (task.blocked_by if task is not None else ())]
            ways += [[*way, one.id] for one in tasks.values() if way[-1] in one.blocks]
    return []


def _add(ids: list[str], new: str) -> None:
    if new not in ids:
        ids.append(new)


# -- files -------------------------------------------------------------------------------------------------------------


def _check_directory(path: str) -> None:
    """Refuse a directory that is a link or another user's; one that is missing passes."""
    try:
        found = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise CorruptError(f"{path} is no directory of yours; beam writes nothing there", subject=path)


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - names
    except OSError:
        return []


def _read(path: str) -> bytes | None:
    """Return the file's content, None if it is missing. Raises DiskError for what is no plain file."""
    try:
        return files.read(Path(path), _LARGEST)
    except FileNotFoundError:
        return None


def _whole(path: str, parse: Callable[[bytes], T | None]) -> T | None:
    """Return what is in the file; None if it is missing, or if nothing can be made of it."""
    for _ in range(_HALF_TRIES):
        data = _read(path)
        if data is None:
            return None
        value = parse(data)
        if value is not None:
            return value
        time.sleep(_HALF_S)
    return None


def _letters(path: str) -> list[Any]:
    data = _read(path)
    if data is None or not data.strip():
        return []
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return []  # as Claude Code does: the next write takes its place
    return value if isinstance(value, list) else []


def _write_new(path: str, value: object) -> None:
    _write_bytes(path, json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "replace"))


def _write_bytes(path: str, data: bytes) -> None:
    folder, _, name = path.rpartition("/")
    with files.disk("write", Path(path)):
        handle = files.open_directory(Path(folder), follow=False)
        try:
            files.write_at(handle, name, data)
            os.chmod(name, 0o644, dir_fd=handle)
        finally:
            os.close(handle)


def _replace(path: str, value: object) -> None:
    temporary = f"{path}.tmp.{secrets.token_hex(4)}"
    _write_new(temporary, value)
    with files.disk("write", Path(path)):
        os.replace(temporary, path)  # noqa: PTH105 - texts
