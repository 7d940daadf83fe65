"""Kilo's sessions on this machine: rows of its database, which has the format of OpenCode's."""

from __future__ import annotations

from beam.agents.opencode import sessions
from beam.agents.session_files import SessionFiles

files = SessionFiles(
    folder="XDG_DATA_HOME/kilo",
    name=r"kilo\.db",
    like=r"kilo[^/]*\.db",
    shape="database",
    query=sessions.QUERY,
    history=sessions.HISTORY,
)
reader, calls, call, answer_end = sessions.reader, sessions.calls, sessions.call, sessions.answer_end
