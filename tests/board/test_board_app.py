"""The board itself, driven by keys and the mouse at three sizes; what it draws is compared with files.

BEAM_WRITE_SCREENS=1 writes the files anew.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

pytest.importorskip("textual")

from textual.pilot import Pilot

from beam.board.app import Board
from beam.board.dialogs import AskDialog, TextDialog
from beam.board.lines import Lines
from beam.board.words import as_text
from tests.board.made import ASK, HOSTILE, NOW_S, PROJECT, FakeActions, FakeFeed, agent, head, received, snapshot

pytestmark = pytest.mark.slow

SCREENS = Path(__file__).with_name("screens")
SIZES = [(80, 24), (120, 40), (200, 50)]
Driven = Callable[[Pilot[None], Board], Awaitable[None]]


def drive(story: Driven, *, size: tuple[int, int] = (80, 24), feed: FakeFeed | None = None) -> Board:
    """Runs the board without a terminal."""
    board = Board(feed or FakeFeed(), FakeActions(), now=lambda: NOW_S)  # type: ignore[arg-type]

    async def run() -> None:
        async with board.run_test(size=size) as pilot:
            await settle(pilot, board)
            await story(pilot, board)

    asyncio.run(run())
    return board


async def settle(pilot: Pilot[None], board: Board) -> None:
    """Waits until everything that came is drawn."""
    await board.workers.wait_for_complete()
    board.tick()
    await pilot.pause()


def screen(board: Board) -> str:
    """What the screen shows, as text."""
    lines = board.screen._compositor.render_strips()
    return "\n".join("".join(part.text for part in strip).rstrip() for strip in lines) + "\n"


def did(board: Board) -> list[tuple[object, ...]]:
    """What was done."""
    return board._actions.did  # type: ignore[attr-defined, no-any-return]


def check(board: Board, name: str) -> None:
    """Compares the screen with its file."""
    path = SCREENS / f"{name}.txt"
    if os.environ.get("BEAM_WRITE_SCREENS"):
        path.write_text(screen(board))
    assert screen(board) == path.read_text()


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_each_pane_is_drawn_at_each_size(size: tuple[int, int]) -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        for key, name in (("1", "stream"), ("2", "team"), ("3", "time"), ("4", "cost"), ("question_mark", "help")):
            await pilot.press(key)
            await settle(pilot, board)
            check(board, f"{name}-{size[0]}x{size[1]}")

    drive(story, size=size)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_an_ask_is_shown_whole_and_allowed_by_its_two_keys(size: tuple[int, int]) -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("a")
        await settle(pilot, board)
        check(board, f"ask-{size[0]}x{size[1]}")
        await pilot.press("a", "y")
        await settle(pilot, board)

    assert did(drive(story, size=size)) == [("decide", "parser", ASK.id, "approve")]


@pytest.mark.parametrize(
    "keys", [("enter",), ("y",), ("a", "enter"), ("a", "down", "y"), ("a", "escape", "y"), ("d", "n")]
)
def test_a_stray_key_decides_nothing(keys: tuple[str, ...]) -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("a", *keys)
        await settle(pilot, board)
        assert isinstance(board.screen, AskDialog)
        await pilot.press("escape")
        await settle(pilot, board)
        assert not isinstance(board.screen, AskDialog)

    assert did(drive(story)) == []


@pytest.mark.parametrize("key", ["m", "s", "i", "p", "f", "o"])
def test_a_key_says_that_nobody_is_selected(key: str) -> None:
    feed = FakeFeed()
    feed.looks = []

    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press(key)
        await settle(pilot, board)
        assert "nobody is selected" in screen(board)

    assert did(drive(story, feed=feed)) == []


def test_no_dialog_opens_by_itself_when_an_ask_comes() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        assert len(board.screen_stack) == 1 and "asker asks for Bash: a shows it" in screen(board)
        await pilot.press("y", "enter")

    assert did(drive(story)) == []


def test_what_does_not_fit_must_be_read_to_its_end_before_it_is_allowed() -> None:
    from msgspec import Raw, structs

    long = structs.replace(ASK, input=Raw(b'{"command":"' + b"\\n".join(b"echo %d" % n for n in range(90)) + b'"}'))
    feed = FakeFeed()
    feed.looks = [snapshot(asks=[(PROJECT, long)])]

    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("a", "a", "y")
        await settle(pilot, board)
        assert isinstance(board.screen, AskDialog) and did(board) == [] and "more below" in screen(board)
        await pilot.press("end", "a", "y")
        await settle(pilot, board)

    assert did(drive(story, feed=feed)) == [("decide", "parser", ASK.id, "approve")]


def test_keys_act_on_the_selected_agent_through_the_actions() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("down")  # builder, below asker
        for keys in (["m", *"hi", "enter"], ["s", *"go", "enter"], ["i", "y"], ["p"], ["f"]):
            await pilot.press(*keys)
            await settle(pilot, board)
        assert isinstance(board.screen, TextDialog) and "diff done" in screen(board)

    assert did(drive(story)) == [
        ("send", "builder", "hi"),
        ("steer", "builder", "go"),
        ("interrupt", "builder", "builder-1m88"),
        ("pause", "builder"),
        ("diff", "builder"),
    ]


async def _at_task(pilot: Pilot[None], board: Board, words: str) -> None:
    """Shows the team, and puts the cursor of its pane on the line with these words."""
    await pilot.press("2", "tab")
    await settle(pilot, board)
    lines = board.query_one("#pane", Lines).source
    at = next(at for at in range(len(lines)) if words in as_text(lines.line(at, 80)))
    await pilot.press("home", *["down"] * at)
    await settle(pilot, board)


def test_keys_change_the_task_under_the_cursor_of_the_teams_pane() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await _at_task(pilot, board, "Test the parser")
        for keys in (
            ["c", "enter"],
            ["c", *["backspace"] * 5, *"alice", "enter"],
            ["b", "y"],
            ["d", "y"],
            ["w", *"#1", "enter"],
        ):
            await pilot.press(*keys)
            await settle(pilot, board)
        await pilot.press("n", *"Ship it", "enter")
        await settle(pilot, board)

    assert did(drive(story)) == [
        ("claim_task", "docs", "2", "human"),
        ("claim_task", "docs", "2", "alice"),
        ("start_task", "docs", "2"),
        ("finish_task", "docs", "2"),
        ("block_task", "docs", "2", "1"),
        ("add_task", "docs", "Ship it"),
    ]


def test_a_picture_that_is_drawn_just_after_a_key_leaves_the_cursor_where_the_key_moved_it() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await _at_task(pilot, board, "Test the parser")
        pane = board.query_one("#pane", Lines)
        at = pane.cursor
        pane.action_move(-1)
        board.tick()
        pane.action_move(1)
        board.tick()
        await settle(pilot, board)
        assert pane.cursor == at
        await pilot.press("d", "y", "tab")
        await settle(pilot, board)
        table = board.query_one("#table", Lines)
        table.action_move(1)
        board.tick()
        table.action_move(1)
        board.tick()
        await settle(pilot, board)
        assert table.cursor == 2
        await pilot.press("p")
        await settle(pilot, board)

    assert did(drive(story)) == [("finish_task", "docs", "2"), ("pause", "alice")]


def test_no_task_is_changed_by_one_stray_key_or_from_a_line_that_is_none() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("d", "b", "c", "n")
        await settle(pilot, board)
        assert "the pane Team: 2" in screen(board)
        await _at_task(pilot, board, "MAIL")
        await pilot.press("d")
        await settle(pilot, board)
        assert "no task is selected" in screen(board)
        await _at_task(pilot, board, "Test the parser")
        for keys in (["b", "enter"], ["d", "d"], ["c", "escape"], ["w", "escape"]):
            await pilot.press(*keys)
            await settle(pilot, board)

    assert did(drive(story)) == []


def test_mail_goes_to_the_member_under_the_cursor_of_the_teams_pane_while_it_has_the_keys() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await _at_task(pilot, board, "bob  ")
        await pilot.press("m", *"hello", "enter")
        await settle(pilot, board)
        await pilot.press("tab", "m", *"hi", "enter")
        await settle(pilot, board)

    assert did(drive(story)) == [("mail", "docs", "bob", "hello"), ("send", "asker", "hi")]


def test_an_interrupt_takes_a_yes_and_a_text_can_be_left() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("down", "i", "enter", "m", "x", "escape", "q")
        await settle(pilot, board)

    assert did(drive(story)) == []


def test_keys_typed_into_a_line_are_text_and_no_commands() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("m", *"pqiaf", "enter")
        await settle(pilot, board)

    assert did(drive(story)) == [("send", "asker", "pqiaf")]


def test_the_cursor_stays_on_its_agent_when_the_order_changes() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("down")
        feed = board.feed
        assert isinstance(feed, FakeFeed)
        feed.looks = [snapshot(agent("aaa", "died"), agent("aab", "died"))]
        await settle(pilot, board)
        await pilot.press("p")
        await settle(pilot, board)

    assert did(drive(story)) == [("pause", "builder")]


@pytest.mark.parametrize("is_drawn", [False, True])
def test_a_key_acts_on_nobody_else_when_the_selected_one_is_gone(is_drawn: bool) -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("end")
        feed = board.feed
        assert isinstance(feed, FakeFeed) and board._selected == "bob@docs"
        board.everyone.replace(snapshot(teams=[]))
        if is_drawn:  # just before the key
            board.tick()
        await pilot.press("p")
        await settle(pilot, board)
        assert did(board) == [] and "bob@docs is gone; this is writer" in screen(board)
        await pilot.press("p")
        await settle(pilot, board)

    assert did(drive(story)) == [("pause", "writer")]


def test_the_mouse_selects_opens_and_presses_keys() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.click("#table", offset=(3, 2))
        await pilot.click("#keys", offset=(27, 0))
        await settle(pilot, board)
        await pilot.click("#tabs", offset=(12, 0))
        await settle(pilot, board)
        assert "Write the parser" in screen(board)
        await pilot.click("#tabs", offset=(2, 0))
        await pilot.click("#pane", offset=(3, 1), times=2)
        await settle(pilot, board)
        assert isinstance(board.screen, TextDialog)

    assert did(drive(story)) == [("pause", "builder")]


def test_a_filter_and_a_single_row_limit_the_stream() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("slash", *"type:tool.*", "enter")
        await settle(pilot, board)
        assert len(board.stream) == 2 and "only type:tool.*, esc shows all" in screen(board)
        await pilot.press("escape")
        assert len(board.stream) == 6
        await pilot.press("enter")  # on asker, who said nothing
        await settle(pilot, board)
        assert len(board.stream) == 0 and "only asker" in screen(board)

    drive(story)


def test_an_event_is_shown_in_full_and_hostile_text_is_drawn() -> None:
    feed = FakeFeed()
    from beam import events

    feed.looks = [snapshot(agent("x" * 300, "blocked", blocked=HOSTILE))]
    feed.events.append(received(events.Text(**head(HOSTILE, 1), text=HOSTILE * 50), HOSTILE))

    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("tab", "end", "enter")
        await settle(pilot, board)
        text = screen(board)
        assert isinstance(board.screen, TextDialog) and "[red]x[/red]" in text and "␛[2J" in text
        assert not any(char in text for char in "\x1b\x07\x9b\u202e\u2066")

    drive(story, feed=feed)


def test_the_screen_can_become_smaller_and_larger() -> None:
    async def story(pilot: Pilot[None], board: Board) -> None:
        for size in ((40, 12), (200, 60), (80, 24)):
            await pilot.resize_terminal(*size)
            await settle(pilot, board)
            assert screen(board).splitlines()[0].startswith(" beam board")
            assert all(len(line) <= size[0] for line in screen(board).splitlines())

    drive(story)


def test_the_stream_follows_its_end_until_somebody_scrolls() -> None:
    from beam import events

    def more(count: int) -> list[object]:
        return [received(events.Text(**head("builder", 1), text=f"line {n}")) for n in range(count)]

    async def story(pilot: Pilot[None], board: Board) -> None:
        feed, pane = board.feed, board.query_one("#pane", Lines)
        assert isinstance(feed, FakeFeed)
        feed.events = more(50)  # type: ignore[assignment]
        await settle(pilot, board)
        assert pane.is_at_end and "line 49" in screen(board)
        await pilot.press("tab", "home")
        feed.events = more(10)  # type: ignore[assignment]
        await settle(pilot, board)
        assert pane.top == 0

    drive(story)


def test_what_was_said_goes_after_a_while_and_who_asks_is_said_again() -> None:
    now = [NOW_S]
    board = Board(FakeFeed(), FakeActions(), now=lambda: now[0])  # type: ignore[arg-type]

    async def run() -> None:
        async with board.run_test(size=(80, 24)) as pilot:
            await settle(pilot, board)
            await pilot.press("p")
            await settle(pilot, board)
            assert "pause done" in screen(board)
            now[0] += 16
            board.tick()
            board.tick()
            await pilot.pause()
            assert "pause done" not in screen(board) and "asker asks for Bash: a shows it" in screen(board)

    asyncio.run(run())


def test_a_time_in_which_nobody_worked_says_so() -> None:
    feed = FakeFeed()
    feed.looks, feed.events = [snapshot(agents=[], sessions=[], teams=[], asks=[])], []

    async def story(pilot: Pilot[None], board: Board) -> None:
        await pilot.press("3")
        await settle(pilot, board)
        assert "nobody worked in this time" in screen(board)

    drive(story, feed=feed)


def test_trouble_is_said_and_the_board_goes_on() -> None:
    feed = FakeFeed()
    feed.trouble = "disk full"

    async def story(pilot: Pilot[None], board: Board) -> None:
        assert "disk full" in screen(board)

    assert drive(story, feed=feed).feed.did[0] == "start"  # type: ignore[attr-defined]
