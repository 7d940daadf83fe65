"""The keys of the board: the line at the bottom, and the page that `?` shows."""

from __future__ import annotations

from collections.abc import Sequence

# key, what it does, the action that a click on it runs; the most needed first
KEYS = (
    ("m", "send", "send"),
    ("s", "steer", "steer"),
    ("i", "stop", "interrupt"),
    ("p", "pause", "pause"),
    ("f", "diff", "diff"),
    ("a", "asks", "asks"),
    ("/", "filter", "filter"),
    ("?", "keys", "help"),
    ("q", "quit", "quit"),
    ("tab", "other half", "other_half"),
    ("o", "only this one", "only"),
    ("t", "next team", "next_team"),
)

TASK_KEYS = {"n": "add", "c": "claim", "b": "start", "d": "done", "w": "block"}
TEAM_KEYS = (
    ("m", "mail", "send"),
    ("n", "new", "task('add')"),
    ("c", "claim", "task('claim')"),
    ("b", "begin", "task('start')"),
    ("d", "done", "task('done')"),
    ("w", "waits", "task('block')"),
    ("t", "next team", "next_team"),
    ("?", "keys", "help"),
    ("q", "quit", "quit"),
    ("tab", "other half", "other_half"),
)


def keys_of(pane: str) -> Sequence[tuple[str, str, str]]:
    """Return the keys that the line at the bottom shows while that pane is open."""
    return TEAM_KEYS if pane == "Team" else KEYS


HELP = """\
Moving
  up down j k page up page down home end
             move in the half that has the keys
  tab        the other half; the mouse works too: click, wheel
  1 2 3 4    stream, team, time line, cost
  enter      in the table: only this one's events
             in the stream: the event in full
  + -        more or less time, in the time line and the costs
  t          the next team

The stream
  /          only some events: words, agent:NAME, team:PART,
             type:task.*
  o          only the events of the selected row, or all again
  esc        all again

Acting on the selected agent
  m          send it a message; a team's member: mail
  s          tell its running turn something, in dialogue mode
  i          end its turn, after a question
  p          pause its queue, or resume it
  f          what changed in its work tree in its last turn
  a          an open ask: all that would run is shown;
             a then y allows it once, A then y from now on,
             d then y denies it, any other key goes back

Acting on the team of the pane 2, on the line that has the cursor
  m          mail to the member, while the pane has the keys
  n          a new task
  c          give the task to a member, who is told, or take it
  b d        begin the task; it is done; each after a question
  w          the task waits for another

A session that beam did not start can be seen, not changed.

q            quit; agents go on
"""
