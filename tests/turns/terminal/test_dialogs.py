"""Answers to dialogs: which keys, when the next one is pressed, and on which screen none is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from beam.agents.base import Turn
from beam.agents.claude.screen import profile as CLAUDE
from beam.agents.opencode.screen import profile as OPENCODE
from beam.model import events
from beam.model.events import Event
from beam.model.message import Access
from beam.model.outcome import Class, Status
from beam.model.screen_profile import Profile
from beam.pty_adapter.screen import View
from beam.pty_adapter.turn_end import TurnEnd
from beam.turns.asks import Asks, Decision
from beam.turns.handle import Stop
from beam.turns.terminal.dialogs import Dialogs
from tests.support.context import FakeClock

RULE = "─" * 40
REQUEST = (RULE, " Bash command", "", "   touch zz", "", " Do you want to proceed?")
YES_OR_NO = (*REQUEST, " ❯ 1. Yes", "   2. Yes, and don't ask again for zz", "   3. No")
KEY = (RULE, "  Do you want to use this API key?", "", "    1. Yes", "  ❯ 2. No (recommended)")
KEY_CHOSEN = (*KEY[:3], "  ❯ 1. Yes", "    2. No (recommended)")
UNNUMBERED = (
    RULE,
    " Accessing workspace:",
    "",
    " /p",
    "",
    " ❯ No, exit",
    "   Yes, I trust this folder",
    "",
    " Enter to confirm",
)
TRUST_CHOSEN = (*UNNUMBERED[:5], "   No, exit", " ❯ Yes, I trust this folder", "", " Enter to confirm")
FULL = (RULE, "  WARNING: Claude Code running in Bypass Permissions mode", "  ❯ 1. No, exit", "    2. Yes, I accept")
TRUST = (RULE, " ❯ 1. Yes, I trust this folder", "   2. No, exit")
BOX = "  ┃"
SHELL = (
    BOX,
    "  ┃  △ Permission required",
    "  ┃    # Shell command",
    BOX,
    "  ┃  $ touch zz",
    BOX,
    "  ┃   Allow once   Allow always   Reject   ⇆ select  enter confirm",
    BOX,
)
DONE = ("● done", RULE, "❯ ", RULE)


class FakeScreen:
    """A stand-in for an agent's screen; `on_key` returns the screen that follows a key, after `late` polls."""

    def __init__(
        self,
        rows: tuple[str, ...],
        access: Access = "ask",
        *,
        late: int = 1,
        trusted: bool = True,
        has_history: bool = False,
        profile: Profile = CLAUDE,
    ) -> None:
        self.clock = FakeClock()
        self.keys: list[str] = []
        self.written: list[Event] = []
        self.late = late
        self.on_key: Callable[[str], tuple[str, ...] | None] = lambda key: DONE
        self.on_look: Callable[[], None] = lambda: None
        self.stop = Stop()
        self.end = TurnEnd(profile, now=0.0)
        self.asks = Asks("x", self._record, self.clock, 600.0)
        turn = Turn(text="hi", message_id="x-1", agent="x", access=access, folder_trusted=trusted)
        self.dialogs = Dialogs(turn, self._record, self, self.end, self.asks, self.stop, has_history=has_history)
        self.pending: list[tuple[int, tuple[str, ...]]] = []
        self.show(rows)

    def _record(self, body: Event, *, sync: bool = False) -> Event:
        self.written.append(body)
        return body

    def show(self, rows: tuple[str, ...]) -> None:
        self.seen = View(rows=rows, columns=100)
        self.end.look(self.seen, self.clock.monotonic())

    async def press(self, keys: str) -> None:
        self.keys.append(keys)
        after = self.on_key(keys)
        if after is not None:
            self.pending.append((self.late, after))

    async def paste(self, text: str) -> None:
        raise AssertionError("an answer is typed")

    def reads_keys(self) -> bool:
        return True

    def takes_pastes(self) -> bool:
        return True

    def view(self) -> View:
        return self.seen

    def now(self) -> float:
        return self.clock.monotonic()

    async def until(self, claim: Any, seconds: float) -> bool:
        deadline = self.now() + seconds
        while not claim() and self.stop.reason is None:
            if self.now() >= deadline:
                return False
            self.clock.sleep(0.05)
            self.on_look()
            self.pending = [(left - 1, rows) for left, rows in self.pending]
            for left, rows in self.pending:
                if left == 0:
                    self.show(rows)
            self.end.look(self.seen, self.now())
        return bool(claim())

    def decide(self, **fields: Any) -> None:
        """Somebody decides at the next look."""

        def now() -> None:
            for body in self.written:
                if isinstance(body, events.PermissionAsked):
                    self.on_look = lambda: None
                    self.asks.decide(body.ask_id, Decision(by="ann", **fields))

        self.on_look = now

    def answer(self) -> bool:
        return asyncio.run(self.dialogs.answer())


def test_a_dialog_that_moves_after_its_key_and_goes_late_is_over_only_when_it_is_gone() -> None:
    desk = FakeScreen(TRUST, late=20)
    looks: list[int] = []

    def blinks() -> None:
        looks.append(1)
        if desk.keys and len(looks) < 15:
            desk.show((*TRUST, ("an open eye", "a closed eye")[len(looks) % 2]))

    desk.on_look = blinks
    assert desk.answer() and desk.keys == ["1"]
    assert desk.end.reading.dialog is None


@pytest.mark.parametrize(
    ("decision", "keys"),
    [
        ({"decision": "allow"}, ["1"]),
        ({"decision": "allow", "always": True}, ["2"]),
        ({"decision": "deny"}, ["\x1b"]),
    ],
)
@pytest.mark.parametrize("has_history", [False, True])  # which may tell of the tool call, and does not
def test_a_decision_is_the_keys_of_that_answer(decision: dict[str, Any], keys: list[str], has_history: bool) -> None:
    desk = FakeScreen(YES_OR_NO, has_history=has_history)
    desk.decide(**decision)
    assert desk.answer() and desk.keys == keys


def test_a_yes_of_beams_own_is_remembered_for_a_moment_and_until_something_else_is_asked() -> None:
    desk = FakeScreen(TRUST)
    assert desk.dialogs.recently_confirmed() == ""
    assert desk.answer() and desk.dialogs.recently_confirmed() == "trust"
    desk.clock.sleep(4)
    assert desk.dialogs.recently_confirmed() == ""
    desk.show(KEY)
    assert desk.answer() and desk.dialogs.recently_confirmed() == "api key"
    desk.show(YES_OR_NO)
    desk.decide(decision="deny")
    assert desk.answer() and desk.dialogs.recently_confirmed() == ""
    assert not FakeScreen(TRUST, trusted=False).answer()


def test_a_decision_that_comes_at_once_is_not_lost_on_an_agent_that_draws_before_it_takes_keys() -> None:
    desk = FakeScreen(YES_OR_NO)
    drawn = desk.now()
    desk.on_key = lambda key: DONE if desk.now() - drawn >= 0.8 else None
    desk.decide(decision="allow")
    assert desk.answer()
    assert desk.keys == ["1"]
    assert desk.dialogs.failed is None


@pytest.mark.parametrize(
    ("profile", "frame", "whole", "key"),
    [
        (
            CLAUDE,
            (RULE, " Bash command", "", "", "", " Do you want to proceed?", *YES_OR_NO[len(REQUEST) :]),
            YES_OR_NO,
            "1",
        ),
        (OPENCODE, (*SHELL[:3], BOX, BOX, *SHELL[5:]), SHELL, "\r"),
        (OPENCODE, (*SHELL[:2], BOX, BOX, BOX, *SHELL[5:]), SHELL, "\r"),
    ],
    ids=["claude", "opencode", "opencode-nothing"],
)
def test_a_request_that_says_nothing_yet_is_asked_for_once_it_does(
    profile: Profile, frame: tuple[str, ...], whole: tuple[str, ...], key: str
) -> None:
    """A box with empty rows has no text yet."""
    desk = FakeScreen(frame, profile=profile)
    assert desk.end.reading.dialog is not None
    drawn = desk.now()

    def draw_or_decide() -> None:
        if desk.now() - drawn >= 2.0:
            desk.show(whole)
        for body in desk.written:
            if isinstance(body, events.PermissionAsked):
                desk.on_look = lambda: None
                desk.asks.decide(body.ask_id, Decision(by="ann", decision="allow"))

    desk.on_look = draw_or_decide
    assert desk.answer() and desk.keys == [key]
    (asked,) = (body for body in desk.written if isinstance(body, events.PermissionAsked))
    assert asked.description.endswith("touch zz") and len(asked.description) <= len("$ touch zz")


@pytest.mark.slow
def test_without_a_decision_nothing_is_pressed() -> None:
    desk = FakeScreen(YES_OR_NO)
    looks = 0

    def stop_later() -> None:
        nonlocal looks
        looks += 1
        if looks == 1000:
            desk.stop.request("cancelled", by="ann")

    desk.on_look = stop_later
    assert desk.answer() and desk.keys == []
    asked, decided = desk.written
    assert isinstance(asked, events.PermissionAsked)
    assert isinstance(decided, events.PermissionDecided) and decided.decision == "cancelled"


def test_the_next_key_waits_until_the_screen_shows_the_last_one_however_late() -> None:
    desk = FakeScreen(KEY, late=100)
    on_screen: list[tuple[str, ...]] = []

    def follow(key: str) -> tuple[str, ...]:
        on_screen.append(desk.seen.rows)
        return KEY_CHOSEN if key == "\x1b[A" else DONE

    desk.on_key = follow
    assert desk.answer() and desk.answer() and desk.keys == ["\x1b[A", "\r"]
    assert on_screen == [KEY, KEY_CHOSEN]


@pytest.mark.parametrize(("rows", "chosen", "key"), [(UNNUMBERED, TRUST_CHOSEN, "\x1b[B"), (KEY, KEY_CHOSEN, "\x1b[A")])
def test_a_dialog_that_is_drawn_anew_with_its_first_choice_gets_no_enter(
    rows: tuple[str, ...], chosen: tuple[str, ...], key: str
) -> None:
    """Claude draws it anew once it knows the terminal, with No again: an Enter then would mean that."""
    desk = FakeScreen(rows)
    desk.on_key = {key: chosen, "\r": DONE}.get  # type: ignore[assignment]
    assert desk.answer() and desk.keys == [key]
    desk.on_look = lambda: desk.show(rows)
    assert desk.answer() and desk.keys == [key]
    desk.on_look = lambda: None
    assert desk.answer() and desk.answer() and desk.keys == [key, key, "\r"]


def test_after_a_key_that_changed_nothing_no_other_is_pressed() -> None:
    desk = FakeScreen(KEY)
    desk.on_key = lambda key: None
    assert not desk.answer() and desk.keys == ["\x1b[A"] * 2
    assert desk.dialogs.failed is not None and "still asks" in (desk.dialogs.failed.reason or "")


def test_a_message_is_entered_only_where_the_screen_shows_that_it_belongs_to_a_no() -> None:
    for row, keys in (
        (" ❯ 3. No, and tell Claude what to do differently", ["\x1b[A", "\t", "use the other", "\r"]),
        (" ❯ 2. Yes, and tell Claude what to do next", ["\x1b[A", "\t", "\x1b"]),
    ):
        desk = FakeScreen(YES_OR_NO)
        after = {"\x1b[A": (*REQUEST, " ❯ 3. No"), "\t": (*REQUEST, row), "use the other": (*REQUEST, row, "typed")}
        desk.on_key = lambda key, after=after: after.get(key, DONE)  # type: ignore[misc]
        desk.decide(decision="deny", message="use\x1b the\nother")
        assert desk.answer() and desk.keys == keys
        untold = [body for body in desk.written if isinstance(body, events.Notice) and body.code == "reason_not_told"]
        assert len(untold) == (keys[-1] == "\x1b"), "a person hears that the reason did not arrive"


@pytest.mark.parametrize("quoted_in_request", [True, False])
def test_a_no_that_is_only_quoted_is_no_place_for_a_reason(quoted_in_request: bool) -> None:
    quoted = " ❯ 3. No, and tell Claude what to do differently"
    asked = (*REQUEST[:3], f"  {quoted}", *REQUEST[3:]) if quoted_in_request else (f"● {quoted}", quoted, *REQUEST)
    screens = {
        "\x1b[A": (*asked, "   1. Yes", " ❯ 2. Yes, and don't ask again for zz", "   3. No"),
        "\t": (*asked, "   1. Yes", " ❯ 2. Yes, and tell Claude what to do next", "   3. No"),
    }
    desk = FakeScreen((*asked, *YES_OR_NO[len(REQUEST) :]))
    desk.on_key = lambda key: screens.get(key, DONE)
    desk.decide(decision="deny", message="not so")
    assert desk.answer() and desk.keys == ["\x1b[A", "\t", "\x1b"]


def test_a_busy_machine_may_draw_the_place_for_a_reason_after_something_else_moved() -> None:
    row = " ❯ 3. No, and tell Claude what to do differently"
    desk = FakeScreen(YES_OR_NO, late=2)

    def press(key: str) -> tuple[str, ...] | None:
        if key == "\t":
            desk.pending += [(1, (*REQUEST, " ❯ 3. No", "a tip")), (100, (*REQUEST, row))]
            return None
        return {"\x1b[A": (*REQUEST, " ❯ 3. No"), "not so": (*REQUEST, row, "typed")}.get(key, DONE)

    desk.on_key = press
    desk.decide(decision="deny", message="not so")
    assert desk.answer() and desk.keys == ["\x1b[A", "\t", "not so", "\r"]


def test_a_decision_is_not_pressed_into_another_dialog() -> None:
    desk = FakeScreen(YES_OR_NO)

    def swap() -> None:
        desk.on_look = lambda: None
        desk.show(tuple(row.replace("touch zz", "rm -rf /") for row in YES_OR_NO))
        (asked,) = [body for body in desk.written if isinstance(body, events.PermissionAsked)]
        desk.asks.decide(asked.ask_id, Decision(decision="allow", by="ann"))

    desk.on_look = swap
    assert desk.answer() and desk.keys == []


def test_a_dialog_that_is_gone_for_a_moment_is_the_same_one() -> None:
    desk = FakeScreen(YES_OR_NO)
    looks = 0

    def flicker() -> None:
        nonlocal looks
        looks += 1
        if looks == 5:
            desk.show(("", ""))
        elif looks == 15:
            desk.show(YES_OR_NO)
        elif looks == 40:
            desk.decide(decision="allow")

    desk.on_look = flicker
    assert desk.answer() and desk.keys == ["1"]


def test_a_dialog_that_is_gone_cancels_its_ask() -> None:
    desk = FakeScreen(YES_OR_NO)
    desk.on_look = lambda: desk.show(DONE)
    assert desk.answer() and desk.keys == []
    cancelled = desk.written[-1]
    assert isinstance(cancelled, events.PermissionDecided) and "own screen" in cancelled.why
    assert cancelled.decision == "cancelled"


def test_a_denial_that_stops_is_pressed_first() -> None:
    desk = FakeScreen(YES_OR_NO)
    desk.decide(decision="deny", stop=True)
    assert desk.answer()
    assert (desk.keys, desk.stop.reason, desk.stop.by) == (["\x1b"], "cancelled", "ann")


@pytest.mark.parametrize("access", ["read", "edit", "full"])
def test_with_another_access_the_request_is_denied_at_once(access: Access) -> None:
    desk = FakeScreen(YES_OR_NO, access)
    assert desk.answer() and desk.keys == ["\x1b"]
    decided = desk.written[-1]
    assert isinstance(decided, events.PermissionDecided)
    assert (decided.by, decided.why) == ("default", f"nobody is asked with access {access}")


def test_what_the_transcript_says_is_about_to_run_is_what_is_asked_for() -> None:
    desk = FakeScreen(YES_OR_NO)
    desk.dialogs.record(events.ToolCalled(call_id="c0", name="Bash", input=Raw(b'{"command":"touch zz"}')))
    desk.dialogs.record(events.ToolReturned(call_id="c0"))
    desk.dialogs.record(events.ToolCalled(call_id="c1", name="Bash", input=Raw(b'{"command":"touch zz"}')))
    desk.decide(decision="allow")
    assert desk.answer()
    (asked,) = [body for body in desk.written if isinstance(body, events.PermissionAsked)]
    assert (asked.tool, asked.call_id, bytes(asked.input)) == ("Bash", "c1", b'{"command":"touch zz"}')


def ran(desk: FakeScreen, command: str) -> list[str]:
    """The warnings after the dialog was approved and the transcript told of this call."""
    desk.decide(decision="allow")
    assert desk.answer()
    desk.dialogs.record(
        events.ToolCalled(call_id="c9", name="Bash", input=Raw(msgspec.json.encode({"command": command})))
    )
    desk.dialogs.record(events.ToolReturned(call_id="c9"))
    desk.dialogs.report_differences()
    return [body.text for body in desk.written if isinstance(body, events.Notice)]


def test_it_is_reported_when_something_else_ran_than_what_was_approved() -> None:
    assert ran(FakeScreen(YES_OR_NO), "touch zz") == []
    (told,) = ran(FakeScreen(YES_OR_NO), "rm -rf precious")
    assert "touch zz" in told and "rm -rf precious" in told


@pytest.mark.parametrize("command", ["rm -rf precious/", "rm -rf /", "sh /zz", "cat < /p/t"])
def test_the_last_part_of_a_path_in_a_command_does_not_make_it_the_approved_one(command: str) -> None:
    (told,) = ran(FakeScreen(YES_OR_NO), command)
    assert "touch zz" in told and command in told


def test_a_call_that_is_nested_too_deeply_to_be_read_is_reported_as_another_one() -> None:
    desk = FakeScreen(YES_OR_NO)
    desk.decide(decision="allow")
    assert desk.answer()
    deep = b'{"command":' + b"[" * 5000 + b"]" * 5000 + b"}"
    desk.dialogs.record(events.ToolCalled(call_id="c9", name="Bash", input=Raw(deep)))
    desk.dialogs.record(events.ToolReturned(call_id="c9"))
    desk.dialogs.report_differences()
    (told,) = [body.text for body in desk.written if isinstance(body, events.Notice)]
    assert "touch zz" in told and "[[[[" in told


def test_a_call_beside_the_approved_one_is_no_difference() -> None:
    desk = FakeScreen(YES_OR_NO)
    desk.dialogs.record(events.ToolCalled(call_id="c1", name="Read", input=Raw(b'{"file_path":"/p/a"}')))
    desk.dialogs.record(events.ToolCalled(call_id="c2", name="Bash", input=Raw(b'{"command":"touch zz"}')))
    desk.decide(decision="allow")
    assert desk.answer()
    for call_id in ("c1", "c2"):
        desk.dialogs.record(events.ToolReturned(call_id=call_id))
    desk.dialogs.report_differences()
    assert not [body for body in desk.written if isinstance(body, events.Notice)]


@pytest.mark.slow
def test_the_same_dialog_is_answered_once_and_one_that_stays_is_reported() -> None:
    desk = FakeScreen(YES_OR_NO)
    desk.on_key = lambda key: (*YES_OR_NO, "") if len(desk.keys) % 2 else YES_OR_NO
    desk.decide(decision="allow")
    assert not desk.answer() and desk.keys == ["1"]
    assert desk.dialogs.failed is not None and desk.dialogs.failed.class_ is Class.STALLED


def test_a_second_request_that_looks_like_the_first_is_asked_for_anew() -> None:
    desk = FakeScreen(YES_OR_NO)
    desk.dialogs.record(events.ToolCalled(call_id="c1", name="Bash", input=Raw(b'{"command":"touch zz"}')))

    def run(key: str) -> tuple[str, ...]:
        desk.dialogs.record(events.ToolReturned(call_id="c1"))
        return YES_OR_NO

    desk.on_key = run
    desk.decide(decision="allow")
    assert desk.answer() and desk.keys == ["1"] and desk.end.reading.dialog is not None


@pytest.mark.slow
def test_an_always_that_came_to_nothing_renews_no_trust() -> None:
    desk = FakeScreen(YES_OR_NO)
    desk.on_key = lambda key: None
    desk.decide(decision="allow", always=True)
    assert not desk.answer() and desk.keys == ["2"] and desk.asks.always == []


def test_a_question_of_the_start_is_none_once_a_message_was_sent() -> None:
    for rows in (TRUST, FULL):
        desk = FakeScreen(DONE)
        desk.clock.sleep(1)
        desk.show(DONE)
        desk.end.begin_message("hi")
        desk.end.on_entered(desk.now())
        desk.show(rows)
        assert desk.end.reading.dialog is None


def test_full_access_is_confirmed_where_it_was_given_and_nowhere_else() -> None:
    chosen = (*FULL[:2], "    1. No, exit", "  ❯ 2. Yes, I accept")
    plain = [tuple(row.replace("1. ", "").replace("2. ", "") for row in rows) for rows in (FULL, chosen)]
    accesses: dict[Access, list[str]] = {"full": ["\x1b[B", "\r"], "ask": ["\r"], "edit": ["\r"], "read": ["\r"]}
    for access, keys in accesses.items():
        for rows, then in ((FULL, chosen), plain):
            desk = FakeScreen(rows, access)
            desk.on_key = lambda key, then=then: then if key == "\x1b[B" else DONE  # type: ignore[misc]
            while desk.end.reading.dialog is not None:
                assert desk.answer()
            assert desk.keys == keys


def test_a_folder_that_nobody_trusted_is_no_request_whatever_the_access() -> None:
    desk = FakeScreen(TRUST, trusted=False)
    assert not desk.answer() and desk.keys == []
    assert desk.dialogs.failed is not None and "beam trust" in (desk.dialogs.failed.reason or "")
    assert (desk.dialogs.failed.status, desk.dialogs.failed.class_) == (Status.FAILED, Class.BAD_REQUEST)
    trusted = FakeScreen(TRUST)
    assert trusted.answer() and trusted.keys == ["1"]
