"""A long-lived process reads its configuration again once its files changed, also while they were read."""

from __future__ import annotations

from beam.broker.serving.reload import ConfigWatch
from tests.support.context import Root

_ONE_MORE = "agents:\n  worker: {command: [cat]}\n  extra: {command: [cat]}\n"


def test_a_file_that_changed_after_it_was_read_is_read_again(root: Root) -> None:
    context = root.reload()
    (root.base / "beam.yaml").write_text(_ONE_MORE)
    said: list[str] = []
    watch = ConfigWatch(context, said.append)  # made when the file is as it will stay
    again = watch.read_again(context, retry=False)
    assert again is not None and again.config.names() == ["extra", "worker"]
    assert watch.read_again(again, retry=False) is None
    assert said == ["read the configuration again"]


def test_nothing_is_read_again_while_no_file_changes(root: Root) -> None:
    watch = ConfigWatch(root.context, [].append)
    assert watch.read_again(root.context, retry=False) is None
    assert watch.read_again(root.context, retry=True) is None


def test_a_mistake_is_reported_once_and_tried_again_on_request(root: Root) -> None:
    said: list[str] = []
    watch = ConfigWatch(root.context, said.append)
    (root.base / "beam.yaml").write_text("agents: [\n")
    assert watch.read_again(root.context, retry=False) is None
    assert watch.read_again(root.context, retry=True) is None
    assert len(said) == 1 and said[0].startswith("the old configuration stays: ")
    (root.base / "beam.yaml").write_text(_ONE_MORE)
    again = watch.read_again(root.context, retry=False)
    assert again is not None and again.config.names() == ["extra", "worker"]
    assert said[1:] == ["read the configuration again"]
