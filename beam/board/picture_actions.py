"""The picture with the actions on the selected row. Each action runs in a thread; its result is shown in the line of
notes, a patch in a dialog."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import work

from beam.board.actions import Actions, attempt
from beam.board.dialogs import AskDialog, ConfirmDialog, InputDialog, TextDialog
from beam.board.panes import TEAM_PANE
from beam.board.picture import Picture
from beam.board.words import Piece, safe_line

if TYPE_CHECKING:
    from beam.board.decision import Answer
    from beam.board.feed import Feed
    from beam.board.rows import Row

PERSON = "human"  # the name of a person as sender of mail and owner of tasks, as in `beam team`


class PictureWithActions(Picture):
    """The picture, with the actions on the selected row. `now` returns seconds since 1970."""

    def __init__(self, feed: Feed, actions: Actions, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(feed, now=now)
        self._actions = actions

    @work(thread=True)
    def _run_action(self, action: Callable[[], str]) -> None:
        is_done, text = attempt(action)
        self._note = Piece(safe_line(text), "" if is_done else "bad")
        self.feed.refresh_soon()

    @work(thread=True)
    def _run_and_show(self, title: str, action: Callable[[], str]) -> None:
        is_done, text = attempt(action)
        if is_done:
            self._note = Piece("")
            self.call_from_thread(self.push_screen, TextDialog(title, text, is_patch=True))
        else:
            self._note = Piece(safe_line(text), "bad")

    def _start_action(self, words: str, action: Callable[[], str]) -> None:
        self._note = Piece(words, "dim")
        self._run_action(action)
        self.tick()

    def action_send(self) -> None:
        """Ask for a message and send it to the selected row, or to the selected member in the team pane."""
        snapshot, member = self._team, self._team_lines.member
        if snapshot is not None and member and self._at == TEAM_PANE and self._lines_widget("pane").has_focus:
            team = snapshot.shown.team
            self._input(f"Send to {member} of team {team.team}", lambda text: self._actions.mail(team, member, text))
            return
        row = self._selected_row()
        if row is not None:
            to = f"{row.name} of team {row.place}" if row.kind == "member" else self._names.whole(row.key)
            self._input_for_row(row, f"Send to {to}", lambda text: self._actions.send(row, text))

    def action_steer(self) -> None:
        """Ask for a text and pass it to the turn that runs."""
        row = self._selected_row()
        if row is not None:
            self._input_for_row(
                row,
                f"Tell the running turn of {self._names.whole(row.key)}",
                lambda text: self._actions.steer(row, text),
            )

    def _input_for_row(self, row: Row, title: str, action: Callable[[str], str]) -> None:
        if row.kind == "session":
            self._start_action("", lambda: action(""))
            return
        self._input(title, action)

    def _input(self, title: str, action: Callable[[str], str], value: str = "") -> None:
        def typed(text: str | None) -> None:
            if text:
                self._start_action("sending …", lambda: action(text))

        self.push_screen(InputDialog(title, value), typed)

    def _confirm(self, question: str, action: Callable[[], str]) -> None:
        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._start_action("doing it …", action)

        self.push_screen(ConfirmDialog(question), answered)

    def action_interrupt(self) -> None:
        """End the turn that runs, once the person has confirmed it."""
        row = self._selected_row()
        if row is None:
            return
        message_id = row.message_id
        if row.project is not None and message_id is None:
            self._set_note(f"no turn of {self._names.whole(row.key)} runs", "bad")
            return
        if row.project is None or message_id is None:
            self._start_action("", lambda: self._actions.interrupt(row, ""))
            return
        question = f"End the turn of {self._names.whole(row.key)} ({message_id})?"
        self._confirm(question, lambda: self._actions.interrupt(row, message_id))

    def action_pause(self) -> None:
        """Pause the agent's queue, or resume it if it is paused."""
        row = self._selected_row()
        if row is not None:
            self._start_action("asking its holder …", lambda: self._actions.pause(row))

    def action_diff(self) -> None:
        """Show what changed since the agent's last turn began."""
        row = self._selected_row()
        if row is not None:
            self._note = Piece("comparing …", "dim")
            self._run_and_show(
                f"What changed in the folder of {self._names.whole(row.key)}", lambda: self._actions.diff(row)
            )

    def action_asks(self) -> None:
        """Show an open ask and answer it as the person decides. An ask of the selected row comes first."""
        row = self.everyone.get(self._selected)
        asks = sorted(self._asks, key=lambda each: row is None or each[1].id not in row.asks)
        if not asks:
            self._set_note("nobody asks for anything", "dim")
            return
        project, ask = asks[0]

        def answered(answer: Answer | None) -> None:
            if answer:
                self._asks = [each for each in self._asks if each[1].id != ask.id]
                self._start_action("answering …", lambda: self._actions.decide(project, ask, answer))

        self.push_screen(AskDialog(ask, project), answered)

    def action_task(self, verb: str) -> None:
        """Add a task to the team, or change the task under the cursor."""
        snapshot = self._team if self._at == TEAM_PANE else None
        if snapshot is None:
            self._set_note("tasks are those of the team in the pane Team: 2", "bad")
            return
        team, task, does = snapshot.shown.team, self._team_lines.task, self._actions
        if verb == "add":
            self._input(f"A new task of {team.team}", lambda text: does.add_task(team, text))
            return
        if task is None:
            self._set_note("no task is selected: tab gives the pane the keys, up and down select", "bad")
            return
        number, name = task.id, f"#{task.id} {task.subject}"
        match verb:
            case "claim":
                title = f"Whose is {name}? A member, or {PERSON}"
                self._input(title, lambda text: does.claim_task(team, number, text.strip()), PERSON)
            case "start":
                self._confirm(f"Begin {name}?", lambda: does.start_task(team, number))
            case "done":
                self._confirm(f"Is {name} done?", lambda: does.finish_task(team, number))
            case _:
                title = f"{name} waits for which task? Its number"
                self._input(title, lambda text: does.block_task(team, number, text.strip().removeprefix("#")))
