"""Where a turn stands: real recordings, and what nobody should take for an end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from beam.agents.aider.screen import profile as AIDER
from beam.agents.bash import profile as BASH
from beam.agents.claude.screen import profile as CLAUDE
from beam.agents.codex.screen import profile as CODEX
from beam.agents.gemini.screen import profile as GEMINI
from beam.agents.python import profile as PYTHON
from beam.model.screen_profile import GENERIC_PROFILE, Dialog, Profile
from beam.pty_adapter.profile import error_in
from beam.pty_adapter.screen import Screen, Signal, View
from beam.pty_adapter.turn_end import TRANSITIONS, IllegalMoveError, State, TurnEnd
from tests.pty_adapter.replayed import Replay

pytestmark = pytest.mark.slow

RULE = "─" * 100
IDLE = ("❯", "  ? for shortcuts")
BUSY = ("❯", "  esc to interrupt")
REPORTS = structs.replace(CLAUDE, signals=(7501,))


def claude(*log: str, composer: str = "❯", footer: str = "  ? for shortcuts", title: str = "✳ Claude Code") -> View:
    """Claude's screen with this log above its composer."""
    rows = [*log, RULE, composer, RULE, footer]
    return View(rows=tuple(rows + [""] * (40 - len(rows))), columns=100, row=len(log) + 1, column=2, title=title)


def ready(
    profile: Profile = CLAUDE,
    view: View | None = None,
    *,
    has_history: bool = False,
    draw: Callable[[], View] | None = None,
) -> TurnEnd:
    """A turn whose text is in and whose Enter was pressed at 10 s."""
    end = TurnEnd(profile, now=0.0, has_history=has_history)
    for tick in range(40):
        end.look(view or claude(), tick / 10)
    assert end.state is State.READY
    end.begin_message("hello")
    if draw is not None:
        end.look(draw(), 9.9)
    end.on_entered(10.0)
    return end


def after(end: TurnEnd, view: View, start: float, seconds: float, *, whole: bool = True, keys: bool = True) -> State:
    for tick in range(int(seconds * 20) + 1):
        end.look(view, start + tick / 20, whole=whole, reads_keys=keys)
    return end.state


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_recorded_claude_turn_is_done_soon_after_its_end_and_not_before(seed: int | None) -> None:
    replay = Replay("claude", CLAUDE, text="SLOWTURN first line\nsecond line of prompt", enter=4.1, seed=seed)
    assert [state for _, state, _ in replay.states] == [
        State.STARTING, State.READY, State.SENT, State.ACCEPTED, State.BUSY, State.DONE,
    ]  # fmt: skip
    assert 12.637 < replay.at(State.DONE) <= 12.679 + 2.0
    assert replay.end.via in ("title", "screen")


@pytest.mark.parametrize("seed", [None, 4])
def test_a_recorded_codex_turn_is_done_by_its_own_word(seed: int | None) -> None:
    replay = Replay("codex-vt100-noalt", CODEX, text="SLOWTURN hi", enter=4.2, seed=seed)
    assert replay.states[-1][1:] == (State.DONE, "osc7501")
    assert 12.543 < replay.at(State.DONE) <= 12.543 + 0.5
    assert replay.end.is_structured


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 7])
def test_a_recorded_permission_dialog_is_waited_at_and_never_done(seed: int | None) -> None:
    replay = Replay("claude-perm", CLAUDE, text="TOOLTURN please", enter=8.5, after=120, seed=seed)
    assert replay.states[-1][1] is State.WAITING
    assert replay.at(State.WAITING) <= 9.455 + 0.1
    assert replay.end.reading.dialog is not None and replay.end.reading.dialog.name == "permission"


@pytest.mark.slow
def test_a_codex_that_is_still_starting_is_not_ready_however_still_its_screen() -> None:
    replay = Replay("codex", CODEX, text="", enter=0.0, after=60)
    assert all(now > 6.0 for now, state, _ in replay.states if state is State.READY)
    assert State.DONE not in [state for _, state, _ in replay.states]


@pytest.mark.slow
def test_silence_is_no_end() -> None:
    end = ready()
    assert after(end, claude("❯ hello"), 10.0, 9.0) is State.ACCEPTED
    assert after(end, claude("❯ hello"), 19.0, 500.0) is State.ACCEPTED


def test_a_busy_screen_that_pauses_for_minutes_is_busy() -> None:
    end = ready()
    assert after(end, claude("❯ hello", "✻ Booping…", footer=BUSY[1]), 10.1, 300.0) is State.BUSY


def test_busy_that_is_gone_is_done_after_a_while_and_says_by_what() -> None:
    end = ready()
    after(end, claude("❯ hello", "✻ Booping…", footer=BUSY[1], title="no title"), 10.1, 1.0)
    done = claude("❯ hello", "● hi", title="no title")
    assert after(end, done, 11.2, 1.0) is State.BUSY
    assert after(end, done, 12.2, 0.3) is State.DONE
    assert (end.via, end.is_structured) == ("screen", False)


def test_a_frame_that_is_not_whole_is_never_done() -> None:
    end = ready()
    after(end, claude("❯ hello", footer=BUSY[1]), 10.1, 1.0)
    assert after(end, claude("❯ hello", "● hi"), 11.2, 60.0, whole=False) is State.BUSY


def test_what_the_agent_wrote_is_not_its_state() -> None:
    quoted = ("❯ hello", "● ✻ Booping… (esc to interrupt)", "  ❯ 1. Yes", *["  text"] * 6)
    end = ready()
    after(end, claude(*quoted, footer=BUSY[1]), 10.1, 1.0)
    assert after(end, claude(*quoted), 11.2, 2.0) is State.DONE


def test_a_title_that_says_working_outranks_the_screen() -> None:
    end = ready()
    after(end, claude("❯ hello", footer=BUSY[1]), 10.1, 1.0)
    assert after(end, claude("❯ hello", "● hi", title="⠂ Claude Code"), 11.2, 60.0) is State.BUSY


def test_a_signal_that_says_working_outranks_title_and_screen() -> None:
    end = ready(REPORTS)
    end.record_signals([Signal(7501, "state=working:app=x")], 10.1)
    after(end, claude("❯ hello", footer=BUSY[1]), 10.1, 1.0)
    assert after(end, claude("❯ hello", "● hi"), 11.2, 60.0) is State.BUSY
    end.record_signals([Signal(7501, "state=done:app=x")], 72.0)
    assert after(end, claude("❯ hello", "● hi"), 72.0, 0.5) is State.DONE
    assert end.via == "osc7501"


def test_a_signal_before_enter_says_nothing() -> None:
    end = TurnEnd(REPORTS, now=0.0)
    end.record_signals([Signal(7501, "state=working"), Signal(7501, "state=done")], 0.1)
    assert after(end, claude(), 0.2, 5.0) is State.READY


def test_the_transcript_decides_at_once_and_outranks_the_screen() -> None:
    end = ready(has_history=True)
    end.report_state("working", 10.1)
    assert end.state is State.ACCEPTED
    after(end, claude("❯ hello", footer=BUSY[1]), 10.1, 1.0)
    assert after(end, claude("❯ hello", "● hi"), 11.2, 2.5) is State.BUSY
    end.report_state("done", 13.8)
    assert (end.state, end.via, end.is_structured) == (State.DONE, "history", True)


def test_a_claude_that_waits_for_agents_in_the_background_is_not_done_though_its_screen_looks_idle() -> None:
    end = ready(has_history=True)
    after(end, claude("❯ hello", footer=BUSY[1]), 10.1, 1.0)
    end.report_state("waiting", 11.1)
    assert after(end, claude("❯ hello", "● started"), 11.2, 20.0) is State.BUSY
    end.report_state("done", 31.3)
    assert (end.state, end.via) == (State.DONE, "history")


def test_the_row_that_says_that_claude_waits_counts_as_work_without_a_transcript() -> None:
    end = ready()
    row = "✻ Waiting for 2 background agents and 1 dynamic workflow to finish"
    waiting = claude("❯ hello", "● started", "", row, *[""] * 20)
    assert after(end, waiting, 10.1, 60.0) is State.BUSY
    said = claude("❯ hello", "● started", "", row, "", "● all done", "", "✻ Baked for 3s")
    assert after(end, said, 71.0, 3.0) is State.DONE


def test_an_answer_that_quotes_the_row_is_done_all_the_same() -> None:
    end = ready()
    after(end, claude("❯ hello", footer=BUSY[1]), 10.1, 1.0)
    assert after(end, claude("❯ hello", "● It says:", "  ✻ Waiting for 1 background agent to finish"), 11.2, 3.0) is (
        State.DONE
    )


def test_without_a_word_from_the_transcript_the_screen_decides_later() -> None:
    end = ready(has_history=True)
    after(end, claude("❯ hello", footer=BUSY[1]), 10.1, 1.0)
    assert after(end, claude("❯ hello", "● hi"), 11.2, 5.0) is State.DONE


def test_a_dialog_outranks_everything() -> None:
    dialog = View(
        rows=("─" * 40, " Do you want to proceed?", " ❯ 1. Yes", "   2. No"), columns=100, title="✳ Claude Code"
    )
    end = ready()
    assert after(end, dialog, 10.1, 500.0) is State.WAITING
    end.report_state("done", 600.0)
    assert end.state is State.WAITING
    end.on_answered(601.0)
    assert end.state is State.BUSY


def test_a_dialog_that_was_answered_is_not_read_again_while_it_stands_where_it_stood() -> None:
    dialog = View(
        rows=("─" * 40, " Do you want to proceed?", " ❯ 1. Yes", "   2. No"), columns=100, title="✳ Claude Code"
    )
    end = ready()
    assert after(end, dialog, 10.1, 5.0) is State.WAITING
    block = end.reading.block
    assert block is not None
    end.on_answered(20.0, block)
    assert (end.state, end.reading.block) == (State.BUSY, None)
    end.look(structs.replace(dialog, title="✳ Claude"), 20.1)
    assert end.reading.block is None
    end.look(structs.replace(dialog, rows=("one more row", *dialog.rows)), 20.2)
    assert end.reading.block is not None


def test_a_screen_that_is_nothing_known_is_waiting_with_it() -> None:
    end = ready()
    strange = View(rows=("Choose a colour", "[ ] red", "[ ] green"), columns=100)
    assert after(end, strange, 10.1, 5.0) is State.WAITING
    assert end.via == "unknown" and end.reading.dialog is None


def test_a_screen_that_is_drawn_anew_has_time_to_show_the_text() -> None:
    end = ready()
    blank = View(rows=("",) * 40, columns=100)
    assert after(end, blank, 10.1, 40.0) is State.SENT
    assert after(end, claude(), 50.2, 5.0) is State.SENT
    assert after(end, claude("❯ hello", "", footer="  esc to interrupt"), 55.3, 1.0) is State.BUSY


def test_a_screen_that_stays_blank_is_stalled() -> None:
    end = ready()
    assert after(end, View(rows=("",) * 40, columns=100), 10.1, 61.0) is State.STALLED
    assert "took the text" in end.reason


def test_an_enter_that_nobody_took_is_stalled() -> None:
    end = ready()
    assert after(end, claude(composer="❯ hello"), 10.1, 11.0) is State.STALLED
    assert "took the text" in end.reason


def test_an_error_row_makes_it_an_error() -> None:
    end = ready()
    after(end, claude("❯ hello", footer=BUSY[1]), 10.1, 1.0)
    assert after(end, claude("❯ hello", "  ⎿  API Error: 500"), 11.2, 2.0) is State.ERROR
    assert "500" in end.reason


@pytest.mark.parametrize(
    ("profile", "row", "reason"),
    [
        (CLAUDE, "  ⎿  API Error: 500 it broke", "API Error: 500 it broke"),
        (CODEX, "■ stream disconnected", "stream disconnected"),
        (GEMINI, "✕ [API Error: 401]", "[API Error: 401]"),
        (AIDER, "litellm.APIError: x - y", "litellm.APIError: x - y"),
    ],
)
def test_the_reason_of_a_failure_is_what_the_row_says_without_the_sign_before_it(
    profile: Profile, row: str, reason: str
) -> None:
    assert error_in(profile, ["● hi", row]) == reason


def test_an_error_and_a_done_line_of_an_earlier_turn_say_nothing_of_this_one() -> None:
    before = ("❯ before", "  ⎿  API Error: 500", "✻ Baked for 3s", "")
    end = ready(view=claude(*before))
    assert after(end, claude(*before, "❯ hello", title=""), 10.1, 5.0) is State.ACCEPTED
    after(end, claude(*before, "❯ hello", footer=BUSY[1]), 15.2, 1.0)
    assert after(end, claude(*before, "❯ hello", "● hi"), 16.3, 2.0) is State.DONE


def test_what_is_left_of_a_dialog_that_was_answered_is_no_question_and_what_comes_below_it_is() -> None:
    asks = Dialog(name="permission", match=r"^Go on\? \(y/n\) ?\Z", allow=("y",))
    shell = structs.replace(BASH, dialogs=(asks,), bracketed=False)
    end = TurnEnd(shell, now=0.0)

    def shows(now: float, *lines: str) -> State:
        view = View(rows=(*lines, *[""] * (10 - len(lines))), columns=40, row=len(lines) - 1, column=len(lines[-1]))
        return after(end, view, now, 4.0)

    shows(0.0, "$")
    end.begin_message("make")
    end.on_entered(4.0)
    assert shows(4.1, "$ make", "Go on? (y/n)") is State.WAITING
    end.on_answered(9.0, end.reading.block)
    assert shows(9.1, "$ make", "Go on? (y/n) y") is State.BUSY
    assert shows(14.0, "$ make", "Go on? (y/n) y", "working") is State.BUSY
    assert shows(19.0, "$ make", "Go on? (y/n) y", "working", "Really? [y/N]") is State.WAITING
    assert end.via == "unknown"


def test_a_screen_with_nothing_on_it_is_no_question() -> None:
    end = ready()
    after(end, claude("❯ hello", footer=BUSY[1]), 10.1, 1.0)
    assert after(end, View(rows=("",) * 40, columns=100, title="✳ Claude Code"), 11.2, 60.0) is State.BUSY


def test_an_agent_that_resumes_is_not_ready_before_it_shows_its_session() -> None:
    ready_row = ("", "", " workspace (/directory)", " /project")
    empty = View(rows=("─" * 60, "", " >   Type your message or @path/to/file", *ready_row), columns=100)
    loaded = structs.replace(empty, rows=(" > before", "✦ answer", *empty.rows))
    end = TurnEnd(GEMINI, now=0.0, resumes=True)
    assert after(end, empty, 0.0, 20.0) is State.STARTING
    assert after(end, loaded, 20.1, 1.0) is State.READY
    assert after(TurnEnd(GEMINI, now=0.0), empty, 0.0, 1.0) is State.READY


def test_a_title_that_says_that_it_asks_is_no_end() -> None:
    rows = ("─" * 60, "", " >   Type your message or @path/to/file", "", " workspace (/directory)", " /project")
    idle = View(rows=rows, columns=100, title="◇  Ready (project)")
    end = ready(GEMINI, idle)
    end.look(structs.replace(idle, rows=(" > hello", *rows), title="✦  Working… (project)"), 10.1)
    asking = structs.replace(idle, rows=(" > hello", *rows), title="✋  Action Required")
    assert after(end, asking, 10.2, 60.0) is State.ACCEPTED


def test_what_looks_like_a_prompt_is_none_while_the_line_editor_is_away() -> None:
    quoting = View(rows=("ask> hello", "", "> "), columns=80, row=2, column=2)
    editing = View(rows=("ask> hello", "", "so it is", "", "ask>"), columns=80, row=4, column=5, takes_pastes=True)
    end = ready(AIDER, View(rows=("ask>",), columns=80, row=0, column=5, takes_pastes=True))
    assert after(end, quoting, 10.1, 60.0) is State.ACCEPTED
    assert after(end, editing, 70.2, 2.0) is State.DONE


def test_an_agent_that_ends_is_exited_whatever_its_screen_says() -> None:
    end = ready()
    end.on_exited(11.0)
    assert end.state is State.EXITED
    assert after(end, claude("❯ hello", "● hi"), 11.2, 5.0) is State.EXITED


def shell(*log: str, prompt: str = "$", column: int = 2) -> View:
    rows = [*log, prompt]
    return View(rows=tuple(rows + [""] * 10), columns=80, row=len(log), column=column)


def test_a_shell_is_done_when_its_prompt_is_marked_again() -> None:
    end = ready(BASH, shell())
    end.record_signals([Signal(133, "C")], 10.1)
    assert after(end, shell("$ sleep", prompt="", column=0), 10.1, 100.0) is State.ACCEPTED
    end.record_signals([Signal(133, "A", 2, 0)], 111.0)
    assert after(end, shell("$ sleep", "out"), 111.0, 0.4) is State.DONE
    assert end.via == "osc133"


FORGED = [[(133, "A")], [(133, "C"), (133, "A")], [(7501, "state=working"), (7501, "state=done")]]


def forged(signals: list[tuple[int, str]], line: int = 2) -> list[Signal]:
    return [Signal(number, text, line, 0) for number, text in signals]


@pytest.mark.parametrize("profile", [BASH, GENERIC_PROFILE])
@pytest.mark.parametrize("signals", FORGED)
def test_no_signal_that_a_command_prints_ends_the_turn_while_the_command_runs(
    profile: Profile, signals: list[tuple[int, str]]
) -> None:
    end = ready(profile, shell())
    end.record_signals(forged(signals), 10.1)
    assert after(end, shell("$ cat notes; sleep 60", "a note", prompt="", column=0), 10.1, 19.0, keys=False) in (
        State.ACCEPTED,
        State.BUSY,
    )
    assert after(end, shell("$ cat notes; sleep 60", "a note", "end"), 70.0, 2.0) is State.DONE


@pytest.mark.parametrize("text", ["state=blocked", "state=working"])
def test_a_state_that_a_command_prints_neither_asks_nor_holds_up_the_end(text: str) -> None:
    end = ready(BASH, shell())
    end.record_signals([Signal(7501, text)], 10.1)
    assert end.state is State.SENT
    assert after(end, shell("$ cat notes", "a note"), 10.1, 2.0) is State.DONE
    assert (end.via, end.is_structured) == ("screen", False)


@pytest.mark.parametrize(("profile", "prompt"), [(BASH, "$"), (PYTHON, ">>>")])
def test_a_command_that_also_prints_a_prompt_does_not_end_the_turn_before_the_line_editor_reads_again(
    profile: Profile, prompt: str
) -> None:
    column = len(prompt) + 1
    end = ready(profile, shell(prompt=prompt, column=column))
    end.record_signals([Signal(133, "A", 2, 0)], 10.1)
    printed = shell("x", "a note", prompt=prompt, column=column)
    assert after(end, printed, 10.1, 60.0, keys=False) is State.ACCEPTED
    end.record_signals([Signal(133, "A", 3, 0)], 70.2)
    assert after(end, shell("x", "a note", f"{prompt} end", prompt=prompt, column=column), 70.2, 0.4) is State.DONE
    assert (end.via, end.is_structured) == ("osc133", True)


def test_what_a_program_in_the_foreground_of_a_shell_prints_ends_no_turn_though_it_reads_keys() -> None:
    end = TurnEnd(BASH, now=0.0)
    for tick in range(20):
        end.look(shell(), tick / 10, foreground=100)
    end.begin_message("hello")
    end.on_entered(10.0)
    end.record_signals([Signal(133, "A", 2, 0)], 10.1)
    for tick in range(200):
        assert end.look(shell("$ ssh there", "a note"), 10.1 + tick / 10, foreground=200) is State.ACCEPTED
    for tick in range(4):
        end.look(shell("$ ssh there", "a note"), 40.0 + tick / 10, foreground=100)
    assert (end.state, end.via, end.is_structured) == (State.DONE, "osc133", True)


def test_the_mark_of_a_prompt_after_an_answer_without_a_line_break_ends_the_turn() -> None:
    end = ready(BASH, shell())
    end.record_signals([Signal(133, "A", 1, 2)], 10.1)
    after(end, shell("$ printf hi", prompt="hi", column=2), 10.1, 1.0)
    assert after(end, shell("$ printf hi", prompt="hi$", column=4), 11.2, 0.4) is State.DONE
    assert (end.via, end.is_structured) == ("osc133", True)


def test_the_marks_of_a_shell_that_nobody_described_end_the_turn_and_are_no_structured_evidence() -> None:
    end = TurnEnd(GENERIC_PROFILE, now=0.0)
    end.record_signals([Signal(133, "A", 0, 0)], 0.1)
    after(end, shell(prompt="me%", column=3), 0.2, 2.0)
    end.begin_message("hello")
    end.on_entered(10.0)
    end.record_signals([Signal(133, "A", 1, 2)], 10.1)
    assert after(end, shell("me% printf hi", prompt="hime%", column=6), 10.1, 0.4) is State.DONE
    assert (end.via, end.is_structured, end.marks_prompt) == ("osc133", False, True)


def test_a_learned_prompt_counts_only_after_it_was_gone() -> None:
    end = ready(GENERIC_PROFILE, shell(prompt="(db)", column=5))
    assert end.profile.prompt
    assert after(end, shell("(db) hello", prompt="(db)", column=5), 10.1, 10.0) is not State.DONE
    gone = ready(GENERIC_PROFILE, shell(prompt="(db)", column=5))
    after(gone, shell("(db) hello", prompt="", column=0), 10.1, 1.0)
    assert after(gone, shell("(db) hello", "42", prompt="(db)", column=5), 11.2, 2.0) is State.DONE


def fed(screen: Screen, data: bytes) -> View:
    screen.feed(data)
    return screen.view()


@pytest.mark.parametrize(("written", "done"), [
    (b"\r\n2\r\n>>> ", True),  # as python3 -i and node -i write it, all at once
    (b"\r\r\n\x1b[33m2\x1b[39m\r\n\x1b[1G\x1b[0J>>> \x1b[5G", True),
    (b"\x1b[1B\x1b[2K\x1b[1A\r\n2\r\n>>> ", True),  # the same, after it took away what it showed below
    (b"\r\n>>> ", True),
    (b"\r\x1b[2K\x1b[1A\r\n\x1b[2Khello\r\n>>> ", False),  # it draws its prompt in another place
    (b"\x1b[1;1Hhello\r\nyou\r\n>>> ", False),
])  # fmt: skip
def test_a_program_that_answers_at_once_is_done_and_not_stalled(written: bytes, done: bool) -> None:
    screen = Screen(80, 24)
    screen.feed(b"hello\r\n>>> ")
    end = ready(GENERIC_PROFILE, screen.view(), draw=lambda: fed(screen, b"1+1"))
    screen.feed(written)
    assert (after(end, screen.view(), 10.1, 10.0) is State.DONE) == done


def test_a_screen_that_nothing_describes_is_strange_and_a_warning_before_any_screen_is_none() -> None:
    warning = (
        'WARNING: proceeding, even though we could not create PATH aliases: Refusing to create helpers under "/t',
        'mp" (codex_home: AbsolutePathBuf("/tmp/home/.codex"))',
    )
    for rows, is_strange in ((warning, False), ((*warning, "", "  Choose a colour"), True), (("What now",), True)):
        end = TurnEnd(CODEX, now=0.0)
        after(end, View(rows=rows, columns=112), 0.0, 10.0)
        assert end.is_strange(10.0) is is_strange, rows


def test_an_unknown_full_screen_is_stalled_and_never_done() -> None:
    board = View(rows=("+----+", "| hi |", "+----+"), columns=80, row=1, column=3, alternate=True)
    end = ready(GENERIC_PROFILE, board)
    assert end.profile.prompt == ""
    assert after(end, board, 10.1, 30.0) is State.STALLED


def test_nothing_is_typed_into_an_agent_that_is_not_ready() -> None:
    end = TurnEnd(CLAUDE, now=0.0)
    with pytest.raises(IllegalMoveError, match="starting"):
        end.begin_message("hello")
    assert end.state is State.STARTING


def test_no_move_leads_out_of_an_end_or_past_acceptance() -> None:
    for state in (State.DONE, State.ERROR, State.EXITED, State.STALLED):
        assert not TRANSITIONS[state]
    assert State.DONE not in TRANSITIONS[State.SENT] | TRANSITIONS[State.READY] | TRANSITIONS[State.STARTING]


VIEWS = [
    claude(), claude("❯ hello", footer=BUSY[1]), claude("❯ hello", "● hi"), claude(composer="❯ hello"),
    View(rows=(" Do you want to proceed?", " ❯ 1. Yes"), columns=100), View(rows=("",) * 3, columns=100),
]  # fmt: skip
SIGNALS = [Signal(7501, "state=working"), Signal(7501, "state=done"), Signal(7501, "state=blocked"), Signal(133, "A")]


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(VIEWS) | st.sampled_from(SIGNALS) | st.sampled_from(["told", "done", "answer"]), max_size=60
    )
)
def test_no_order_of_events_makes_an_illegal_move_or_an_end_at_a_dialog(steps: list[object]) -> None:
    end = ready(structs.replace(CLAUDE, signals=(7501, 133)))
    seen = [end.state]
    for number, step in enumerate(steps):
        now = 10.0 + number * 0.7
        if isinstance(step, View):
            end.look(step, now)
        elif isinstance(step, Signal):
            end.record_signals([step], now)
        elif step == "answer":
            end.on_answered(now)
        else:
            end.report_state("working" if step == "told" else "done", now)
        seen.append(end.state)
        if end.state is State.DONE and seen[-2] is not State.DONE:
            assert end.reading.dialog is None


QUESTION = ("› hello", "", "  Which one?", "", "  › 1. Alpha", "    2. Beta", "", "  enter to submit answer")
POPUP = ("• Done.", "", "  Sure?", "", "› 1. Yes, do it", "  2. No", "", "  Press enter to confirm")


@pytest.mark.parametrize("rows", [QUESTION, POPUP])
def test_a_question_below_a_row_that_looks_like_a_prompt_is_reported_and_not_waited_for(rows: tuple[str, ...]) -> None:
    idle = View(rows=("› Ask Codex to do anything", "", "  gpt · ~/p"), columns=100, row=0, column=2)
    end = ready(CODEX, idle)
    assert after(end, View(rows=("• Working (2s • esc to interrupt)", "", *idle.rows), columns=100), 10.1, 1) == "busy"
    asks = View(rows=rows, columns=100)
    assert after(end, asks, 12.0, 2.5) is State.BUSY
    assert after(end, asks, 14.5, 1.0) is State.WAITING and end.via == "unknown"
    starts = TurnEnd(CODEX, now=0.0)
    assert after(starts, asks, 0.0, 5.0) is State.WAITING and starts.via == "unknown"


def test_a_text_that_is_typed_and_looks_like_a_list_is_no_question_while_it_is_not_sent() -> None:
    end = TurnEnd(CLAUDE, now=0.0)
    assert after(end, claude(), 0.0, 1.0) is State.READY
    end.begin_message("1. do this\n2. do that")
    assert after(end, claude(composer="❯ 1. do this"), 1.0, 6.0) is State.READY
