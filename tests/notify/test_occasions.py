"""Which notification an event makes, and who wants it."""

from __future__ import annotations

import pytest
from msgspec import structs

from beam.model import events
from beam.model.notification import Notification, NotifyTarget
from beam.model.outcome import Class, Status
from beam.notify import occasions

KEY = "sk-ant-api03-" + "a" * 80


def of(status: Status, **known: object) -> Notification:
    finished = events.TurnFinished(status=status, **known)  # type: ignore[arg-type]
    stamped = structs.replace(finished, seq=1, ts="2026-01-01T00:00:00Z", agent="a", turn=3, message_id="m")
    return occasions.turn_notification(stamped, "m", "/p")


def test_a_completed_turn_is_finished_a_limit_a_budget_and_every_other_end_failed() -> None:
    assert of(Status.COMPLETED).event == "finished"
    assert of(Status.LIMIT).event == "budget"
    others = [status for status in Status if status not in (Status.COMPLETED, Status.LIMIT)]
    assert {of(status).event for status in others} == {"failed"}


def test_the_sentence_has_the_reason_on_one_line_without_control_characters() -> None:
    found = of(Status.FAILED, class_=Class.CRASHED, reason="it\nbroke \x1b[31mbadly")
    assert found.text == "a ended failed: it broke [31mbadly"
    assert (found.status, found.class_, found.turn, found.message_id) == ("failed", "crashed", 3, "m")


def test_no_secret_is_in_a_notification() -> None:
    found = of(Status.FAILED, reason=f"bad key {KEY}", reply=f"it is {KEY}")
    assert KEY not in f"{found.text} {found.reply}"


@pytest.mark.parametrize("before", [785, 1985])
def test_no_part_of_a_secret_is_in_a_notification_that_ends_before_it(before: int) -> None:
    found = of(Status.FAILED, reason=f"{' ' * before}{KEY}", reply=f"{'.' * before}{KEY}")
    assert "sk-ant" not in f"{found.text} {found.reply}"


def test_the_same_end_has_the_same_id_and_another_attempt_another_one() -> None:
    assert of(Status.COMPLETED).id == of(Status.COMPLETED).id != of(Status.COMPLETED, attempt=2).id


def ask(expires: str | None) -> Notification | None:
    asked = events.PermissionAsked(ask_id="a-1", tool="Bash", description="rm\nx", expires=expires)
    return occasions.ask_notification(structs.replace(asked, seq=1, ts="t", agent="a", turn=1, message_id="m"), "/p")


def test_an_ask_that_waits_says_how_to_decide_it_and_one_that_does_not_wait_tells_nobody() -> None:
    found = ask("2026-01-01T00:10:00Z")
    assert found is not None
    assert found.text == "a asks to use Bash: rm x (beam approve a-1, or beam deny a-1)"
    assert (found.event, found.ask_id, found.expires) == ("ask", "a-1", "2026-01-01T00:10:00Z")
    assert ask(None) is None


def test_a_budget_of_several_turns_is_about_the_budget_and_names_no_message() -> None:
    found = occasions.budget_notification("s-1", "2026-01-01T00:00:00Z", "a", f"s: the run used $1 of $1\n{KEY}", "/p")
    assert (found.event, found.id, found.agent, found.message_id) == ("budget", "budget-s-1", "a", None)
    assert KEY not in found.text
    assert found.text.startswith("s: the run used $1 of $1 ")
    assert NotifyTarget(on=("budget",), command=("x",)).wants(found)


def test_a_message_that_was_given_up_for_a_budget_is_about_the_budget() -> None:
    def dead(reason: str) -> str:
        event = events.MessageDead(reason=reason, detail="why")
        return occasions.dead_letter_notification(event, "m", "/p").event

    assert (dead("budget"), dead("expired")) == ("budget", "failed")


@pytest.mark.parametrize(
    ("on", "status", "wanted"),
    [
        ("finished", Status.COMPLETED, True),
        ("failed", Status.COMPLETED, False),
        ("failed", Status.LIMIT, True),
        ("budget", Status.LIMIT, True),
        ("budget", Status.FAILED, False),
    ],
)
def test_a_target_gets_its_occasions_alone(on: str, status: Status, wanted: bool) -> None:
    assert NotifyTarget(command=("x",), on=(on,)).wants(of(status)) is wanted  # type: ignore[arg-type]


def test_a_target_of_some_agents_gets_nothing_of_others() -> None:
    assert not NotifyTarget(command=("x",), on=("finished",), agents=("b",)).wants(of(Status.COMPLETED))
    assert NotifyTarget(command=("x",), on=("finished",), agents=("a",)).wants(of(Status.COMPLETED))


def test_what_is_shown_of_a_webhook_has_no_path_which_may_be_a_secret() -> None:
    shown = NotifyTarget(webhook="https://hooks.example/services/T0/B0/word", on=("ask",)).named()
    assert shown == "https://hooks.example/…"
