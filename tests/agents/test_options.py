"""What may be asked of a CLI is refused by its card, in one place."""

from __future__ import annotations

from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import Capabilities, Face, HasTerminal, Host, Turn
from beam.agents.options import OPTIONS, check_options
from beam.base.errors import UnsupportedError
from beam.model.settings import AgentSettings

FACES = [
    (name, face)
    for name in registry.ADAPTERS
    for face in registry.adapter(name).card.faces
    if face in ("exec", "terminal")
]


@pytest.mark.parametrize("option", OPTIONS)
def test_what_a_card_does_not_claim_is_refused_and_named(option: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        check_options("x", Capabilities(), [option])
    assert caught.value.message == f"x has no way to do {OPTIONS[option]}"
    check_options("x", Capabilities(**{option: "path" if option == "attach" else True}), [option])
    check_options("x", Capabilities(), [])


def test_all_that_lacks_is_named_at_once() -> None:
    with pytest.raises(UnsupportedError, match="x has no way to do --schema, --model ") as caught:
        check_options("x", Capabilities(budget=True), ["model", "budget", "schema"])
    assert caught.value.hint == "leave it out, or send to another agent"


def test_a_mode_that_can_do_all_that_is_asked_is_named() -> None:
    faces: dict[Face, Capabilities] = {
        "exec": Capabilities(model=True),
        "terminal": Capabilities(schema=True),
        "dialogue": Capabilities(schema=True, model=True),
    }
    with pytest.raises(UnsupportedError) as caught:
        check_options("x", faces["exec"], {"schema", "model"}, faces)
    assert (caught.value.message, caught.value.hint) == (
        "x has no way to do --schema in this mode",
        "--via dialogue can",
    )


def test_every_option_is_a_capability() -> None:
    assert set(OPTIONS) < set(Capabilities.__struct_fields__)


@pytest.mark.parametrize(("name", "face"), FACES)
def test_a_face_that_claims_a_system_prompt_gives_it_to_its_cli(name: str, face: str) -> None:
    adapter: Any = registry.adapter(name)
    can = adapter.card.faces[face]
    assert face != "terminal" or isinstance(adapter, HasTerminal)
    if not can.system:
        return
    settings = AgentSettings(system="Speak of plums.")
    turn = Turn(text="hi", message_id="m", agent=name, access=can.access[0], cwd="/w", scratch="/s", settings=settings)
    launch = getattr(adapter, face).launch(turn, Host(executable=f"/x/{name}"))
    assert any("Speak of plums." in word for word in launch.argv)


LAUNCHED = [
    (name, face)
    for name in registry.ADAPTERS
    for face, can in registry.adapter(name).card.faces.items()
    if getattr(registry.adapter(name), face, None) is not None
    and can.resume
    and name not in ("scripted", "command", "acp")
]


@pytest.mark.parametrize(
    "session_id", ["--yolo", "--dangerously-skip-permissions", "-x", "../../x", "a b", "a\nb", "\x1b[31m"]
)
@pytest.mark.parametrize(("name", "face"), LAUNCHED)
def test_no_id_of_a_session_is_another_argument_or_another_place(name: str, face: str, session_id: str) -> None:
    adapter: Any = registry.adapter(name)
    access = next(iter(adapter.card.faces[face].access), "full")
    fresh = "11111111-1111-4111-8111-111111111111"
    turn = Turn(
        text="hi",
        message_id="m-1",
        agent=name,
        session_id=session_id,
        fresh_session_id=fresh,
        access=access,
        cwd="/w",
        scratch="/s",
    )
    try:
        launch = getattr(adapter, face).launch(turn, Host(executable=name, home="/h", python="/p"))
    except UnsupportedError:
        return
    assert [word for word in (*launch.argv, *launch.env.values(), *launch.files) if session_id in word] == []
