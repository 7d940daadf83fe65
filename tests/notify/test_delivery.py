"""Notifications in the spool: each comes once, is tried with pauses, delivered or given up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beam.base.errors import DiskError
from beam.model.notification import Notification, NotifyTarget
from beam.notify import spool
from beam.notify.deliver import Delivery, Retries, Targets
from beam.notify.spool import Item, TryResult

TARGET = NotifyTarget(command=("x",), on=("failed",))
OTHER = NotifyTarget(command=("y",), on=("failed",))
RETRIES = Retries()


def told(number: int = 1, **more: Any) -> Notification:
    return Notification(id=f"turn-{number}-1", event="failed", at="t", agent="a", project="/p", text="x", **more)


class Tries:
    """A delivery whose tries end as told, on a clock that moves from one due try to the next."""

    def __init__(
        self,
        directory: Path,
        *ends: TryResult,
        targets: dict[str, NotifyTarget] | None = None,
        unreadable: str = "",
        retries: Retries = RETRIES,
    ) -> None:
        self.ends, self.got, self.now = list(ends), [], 0.0
        found = {key: (target, False) for key, target in (targets or {TARGET.key: TARGET}).items()}
        known = cast(Targets, SimpleNamespace(found=found, untrusted={OTHER.key}, unreadable=unreadable))
        self.delivery = Delivery(
            directory, lambda: known, self.deliver, retries=retries, now=self.tick, part=lambda: 1.0
        )

    got: list[tuple[Item, float]]

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    def deliver(self, target: NotifyTarget, item: Item, *, is_folders: bool) -> TryResult:
        self.got.append((item, self.now))
        return self.ends.pop(0) if self.ends else TryResult()


def names(directory: Path) -> tuple[int, int, int]:
    return tuple(len(spool.file_names(directory, box)) for box in ("new", "done", "dead"))  # type: ignore[return-value]


def test_the_same_notification_is_put_once_also_after_it_was_delivered(tmp_path: Path) -> None:
    assert spool.put(tmp_path, TARGET, told())
    assert not spool.put(tmp_path, TARGET, told())
    spool.mark_delivered(tmp_path, spool.waiting_names(tmp_path)[0])
    assert not spool.put(tmp_path, TARGET, told())
    assert spool.put(tmp_path, OTHER, told())
    assert names(tmp_path) == (1, 1, 0)


def test_an_answer_is_in_the_file_only_of_a_target_that_wants_it(tmp_path: Path) -> None:
    spool.put(tmp_path, TARGET, told(reply="a long answer"))
    spool.put(tmp_path, NotifyTarget(command=("x",), on=("failed",), reply=True), told(reply="a long answer"))
    found = [spool.read(tmp_path, name) for name in spool.waiting_names(tmp_path)]
    assert sorted(str(item and item.notification.reply) for item in found) == ["None", "a long answer"]


def test_a_file_holds_no_command_and_no_url(tmp_path: Path) -> None:
    spool.put(tmp_path, NotifyTarget(webhook="https://hooks.example/word", on=("failed",)), told())
    (file,) = (tmp_path / "new").iterdir()
    assert b"hooks.example" not in file.read_bytes()


def test_the_spool_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_WAITING", 2)
    for number in range(2):
        spool.put(tmp_path, TARGET, told(number))
    with pytest.raises(DiskError, match="notifications wait"):
        spool.put(tmp_path, TARGET, told(3))


@pytest.mark.slow
def test_a_notification_that_fails_is_tried_again_and_then_delivered(tmp_path: Path) -> None:
    spool.put(tmp_path, TARGET, told())
    tries = Tries(tmp_path, TryResult(error="503"), TryResult(error="refused"))
    tries.delivery.run()
    assert names(tmp_path) == (0, 1, 0)
    assert [item.notification.id for item, _ in tries.got] == ["turn-1-1"] * 3


def test_what_no_other_try_can_change_is_given_up_with_the_reason(tmp_path: Path) -> None:
    spool.put(tmp_path, TARGET, told())
    tries = Tries(tmp_path, TryResult(error="it answers 404", again=False))
    tries.delivery.run()
    assert names(tmp_path) == (0, 0, 1)
    item = spool.read(tmp_path, spool.file_names(tmp_path, "dead")[0], "dead")
    assert item is not None
    assert (item.error, item.tries) == ("it answers 404", 1)


def test_the_number_of_tries_is_bounded(tmp_path: Path) -> None:
    spool.put(tmp_path, TARGET, told())
    tries = Tries(tmp_path, *[TryResult(error="503")] * 50, retries=Retries(first_s=0.0))
    tries.delivery.run()
    assert (len(tries.got), names(tmp_path)) == (Retries().tries, (0, 0, 1))


def test_one_target_that_fails_holds_up_no_other(tmp_path: Path) -> None:
    spool.put(tmp_path, TARGET, told())
    spool.put(tmp_path, OTHER, told())
    tries = Tries(tmp_path, targets={TARGET.key: TARGET, OTHER.key: OTHER})
    real = tries.deliver

    def deliver(target: NotifyTarget, item: Item, *, is_folders: bool) -> TryResult:
        real(target, item, is_folders=is_folders)
        return TryResult(error="no", again=False) if target == TARGET else TryResult()

    tries.delivery._deliver = deliver
    tries.delivery.run()
    assert names(tmp_path) == (0, 1, 1)


def test_an_exception_in_a_try_is_the_end_of_that_try_alone(tmp_path: Path) -> None:
    spool.put(tmp_path, TARGET, told())
    tries = Tries(tmp_path)
    calls = []

    def deliver(target: NotifyTarget, item: Item, *, is_folders: bool) -> TryResult:
        calls.append(item)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        return TryResult()

    tries.delivery._deliver = deliver
    tries.delivery.run()
    assert (len(calls), names(tmp_path)) == (2, (0, 1, 0))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"target": 1}', '{"v": 1}', "\0"])
def test_a_file_that_is_no_notification_is_given_up(tmp_path: Path, text: str) -> None:
    spool.put(tmp_path, TARGET, told())
    (tmp_path / "new" / spool.waiting_names(tmp_path)[0]).write_text(text)
    Tries(tmp_path).delivery.run()
    assert names(tmp_path) == (0, 0, 1)


@pytest.mark.slow
def test_a_target_of_an_untrusted_folder_gets_nothing_and_the_file_says_why(tmp_path: Path) -> None:
    spool.put(tmp_path, OTHER, told())
    tries = Tries(tmp_path)
    tries.delivery.run()
    item = spool.read(tmp_path, spool.file_names(tmp_path, "dead")[0], "dead")
    assert (tries.got, item and item.error) == ([], "the folder is not trusted")


def test_a_target_of_a_configuration_that_can_not_be_read_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    spool.put(tmp_path, TARGET, told())
    spool.put(tmp_path, OTHER, told())
    tries = Tries(tmp_path, unreadable="beam.yaml can't be read", retries=Retries(tries=3, first_s=0.0))
    tries.delivery.run()
    item = spool.read(tmp_path, spool.file_names(tmp_path, "dead")[0], "dead")
    assert item is not None
    assert (item.error, item.tries, names(tmp_path)) == ("beam.yaml can't be read", 3, (0, 1, 1))
    assert [item.target for item, _ in tries.got] == [TARGET.key]


def test_pauses_double_up_to_a_bound_and_are_shortened_by_chance() -> None:
    pauses = [Retries().pause_s(tries, 1.0) for tries in range(1, 9)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert Retries().pause_s(3, 0.0) == 2
