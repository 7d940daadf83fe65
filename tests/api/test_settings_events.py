"""A change of settings by command is an event of the agent, whoever holds its journal; values of variables are not."""

from __future__ import annotations

import os

import pytest

from beam.api import manage
from beam.api.settings_events import differences
from beam.broker.holder import control
from beam.model import events
from beam.model.settings import AgentSettings
from beam.root.paths import AgentPaths
from tests.support.context import Root


def told(root: Root, agent: str = "mine") -> list[tuple[dict[str, str | None], str | None]]:
    found = [event for event in root.events(agent) if isinstance(event, events.SettingsChanged)]
    return [(event.changes, event.by) for event in found]


def test_differences_are_by_key_and_name_variables_without_their_values() -> None:
    before = AgentSettings(model="a", access="edit", env={"A": "1", "B": "1"})
    after = AgentSettings(model="b", timeout=5.0, env={"A": "2", "C": "sk-secret", "B": "1"})
    assert differences(before, after) == {
        "model": '"b"',
        "access": None,
        "timeout": "5.0",
        "env.A": '"…"',
        "env.C": '"…"',
    }
    assert differences(after, AgentSettings(model="b", timeout=5.0)) == {"env.A": None, "env.B": None, "env.C": None}
    assert differences(after, after) == {}


@pytest.mark.slow
def test_adding_changing_and_removing_an_agent_are_events_with_who_did_it(root: Root) -> None:
    manage.add_agent(root.context, "mine", AgentSettings(adapter="scripted"), by="ann")
    manage.change_agent(root.context, "mine", {"model": "m", "env.KEY": "sk-secret"}, by="bob")
    manage.change_agent(root.context, "mine", {"model": "m"}, by="bob")
    manage.remove_agent(root.context, "mine", purge=False, by="ann")
    assert told(root) == [
        ({"adapter": '"scripted"'}, "ann"),
        ({"model": '"m"', "env.KEY": '"…"'}, "bob"),
        ({"adapter": None, "model": None, "env.KEY": None}, "ann"),
    ]
    assert "sk-secret" not in "".join(path.read_text() for path in root.place("mine").journal.glob("*"))


def test_while_somebody_has_the_agent_its_holder_records_the_change(root: Root) -> None:
    lease = root.hold("worker")
    manage.change_agent(root.context, "worker", {"model": "m"}, by="ann")
    assert told(root, "worker") == []
    control.answer_requests(lease)
    assert told(root, "worker") == [({"model": '"m"'}, "ann")]
    control.answer_requests(lease)
    assert len(told(root, "worker")) == 1
    lease.close()


def test_a_message_whose_worker_found_the_agent_held_gets_another(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[AgentPaths] = []
    monkeypatch.setattr("beam.broker.inbox.launch.start_worker", lambda context, of: started.append(of))
    manage.change_agent(root.context, "worker", {"model": "m"})
    assert started == []
    root.put("worker")
    (path,) = (root.place("worker").queue / "new").iterdir()
    os.utime(path, ns=(root.clock.now, root.clock.now))
    manage.change_agent(root.context, "worker", {"model": "n"})
    assert started == [root.place("worker")]


def test_a_request_that_names_no_settings_is_refused(root: Root) -> None:
    lease = root.hold("worker")
    manage.change_agent(root.context, "worker", {"model": "m"}, by="ann")
    (path,) = (root.place("worker").control / "new").iterdir()
    path.write_text(path.read_text().replace("model", "model\\\\"))
    control.answer_requests(lease)
    assert told(root, "worker") == []
    lease.close()


def test_a_change_that_is_refused_is_no_event(root: Root) -> None:
    manage.add_agent(root.context, "mine", AgentSettings(adapter="scripted"))
    with pytest.raises(Exception, match="adapter"):
        manage.change_agent(root.context, "mine", {"adapter": "nothing"})
    assert len(told(root)) == 1
