"""Acting on whom the cursor is on. What takes time runs in threads; what it ended with is said in a line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import work

from beam.board.actions import Actions, said
from beam.board.dialogs import Deciding, Question, Reader, Typed
from beam.board.panes import TEAM
from beam.board.picture import Picture
from beam.board.words import Piece, plain

if TYPE_CHECKING:
    from beam.board.asking import Answer
    from beam.board.feed import Feed
    from beam.board.rows import Row

PERSON = "human"  # whose mail and tasks are, as beam team has it


class Acting(Picture):
    """The picture, with the actions on the selected row. `now` returns seconds since 1970."""

    def __init__(self, feed: Feed, actions: Actions, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(feed, now=now)
        self._actions = actions

    @work(thread=True)
    def _act(self, action: Callable[[], str]) -> None:
        is_done, text = said(action)
        self._note = Piece(plain(text), "" if is_done else "bad")
        self.feed.look_soon()

    @work(thread=True)
    def _read(self, title: str, action: Callable[[], str]) -> None:
        is_done, text = said(action)
        if is_done:
            self._note = Piece("")
            self.call_from_thread(self.push_screen, Reader(title, text, is_patch=True))
        else:
            self._note = Piece(plain(text), "bad")

    def _do(self, words: str, action: Callable[[], str]) -> None:
        self._note = Piece(words, "dim")
        self._act(action)
        self.tick()

    def action_send(self) -> None:
        """Ask for a message and send it: to the member under the cursor of a team, else to the selected row."""
        look, member = self._team, self._team_lines.member
        if look is not None and member and self._at == TEAM and self._lines("pane").has_focus:
            team = look.shown.team
            self._typed(f"Send to {member} of team {team.team}", lambda text: self._actions.mail(team, member, text))
            return
        row = self._row()
        if row is not None:
            where = f" of team {row.place}" if row.kind == "member" else ""
            self._type(row, f"Send to {row.name}{where}", lambda text: self._actions.send(row, text))

    def action_steer(self) -> None:
        """Ask for a text and pass it to the turn that runs."""
        row = self._row()
        if row is not None:
            self._type(row, f"Tell the running turn of {row.name}", lambda text: self._actions.steer(row, text))

    def _type(self, row: Row, title: str, action: Callable[[str], str]) -> None:
        if row.kind == "session":
            self._do("", lambda: action(""))
            return
        self._typed(title, action)

    def _typed(self, title: str, action: Callable[[str], str], value: str = "") -> None:
        def typed(text: str | None) -> None:
            if text:
                self._do("sending …", lambda: action(text))

        self.push_screen(Typed(title, value), typed)

    def _asked(self, question: str, action: Callable[[], str]) -> None:
        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._do("doing it …", action)

        self.push_screen(Question(question), answered)

    def action_interrupt(self) -> None:
        """Ask, then end the turn that runs."""
        row = self._row()
        if row is None:
            return
        message_id = row.message_id
        if row.project is not None and message_id is None:
            self._say(f"no turn of {row.name} runs", "bad")
            return
        if row.project is None or message_id is None:
            self._do("", lambda: self._actions.interrupt(row, ""))
            return
        question = f"End the turn of {row.name} ({message_id})?"
        self._asked(question, lambda: self._actions.interrupt(row, message_id))

    def action_pause(self) -> None:
        """Stop the agent's queue, or resume it."""
        row = self._row()
        if row is not None:
            self._do("asking its holder …", lambda: self._actions.pause(row))

    def action_diff(self) -> None:
        """Show what changed since the agent's last turn began."""
        row = self._row()
        if row is not None:
            self._note = Piece("comparing …", "dim")
            self._read(f"What changed in the folder of {row.name}", lambda: self._actions.diff(row))

    def action_asks(self) -> None:
        """Show an open ask, that of the selected row first, and answer it as the person says."""
        row = self._row()
        asks = sorted(self._asks, key=lambda each: row is None or each[1].id not in row.asks)
        if not asks:
            self._say("nobody asks for anything", "dim")
            return
        project, ask = asks[0]

        def answered(answer: Answer | None) -> None:
            if answer:
                self._asks = [each for each in self._asks if each[1].id != ask.id]
                self._do("answering …", lambda: self._actions.decide(project, ask, answer))

        self.push_screen(Deciding(ask), answered)

    def action_task(self, verb: str) -> None:
        """Change the team's task that is under the cursor, or add one."""
        look = self._team if self._at == TEAM else None
        if look is None:
            self._say("tasks are those of the team in the pane Team: 2", "bad")
            return
        team, task, does = look.shown.team, self._team_lines.task, self._actions
        if verb == "add":
            self._typed(f"A new task of {team.team}", lambda text: does.add_task(team, text))
            return
        if task is None:
            self._say("no task is selected: tab gives the pane the keys, up and down select", "bad")
            return
        number, name = task.id, f"#{task.id} {task.subject}"
        match verb:
            case "claim":
                title = f"Whose is {name}? A member, or {PERSON}"
                self._typed(title, lambda text: does.claim_task(team, number, text.strip()), PERSON)
            case "start":
                self._asked(f"Begin {name}?", lambda: does.start_task(team, number))
            case "done":
                self._asked(f"Is {name} done?", lambda: does.finish_task(team, number))
            case _:
                title = f"{name} waits for which task? Its number"
                self._typed(title, lambda text: does.block_task(team, number, text.strip().removeprefix("#")))
