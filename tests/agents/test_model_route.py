"""How each CLI's model calls are led through a proxy: every way ends at the proxy, and names the model's own API."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.cline import env as cline
from beam.agents.model_route import Route, router_of
from beam.agents.pi import env as pi
from beam.turns.shield import key_variables, shielded_environment
from tests.conformance.adapters import ADAPTERS

MODEL, PROXY = "http://127.0.0.1:1111", "http://127.0.0.1:2222"


def files_of(name: str) -> dict[str, bytes]:
    module = importlib.import_module(f"{registry.module_of(name)}.env")
    made = getattr(module, "fake_model_files", None)
    return dict(made(MODEL)) if made else {}


def route_of(name: str) -> Route | None:
    module = importlib.import_module(f"{registry.module_of(name)}.env")
    found = router_of(name)
    assert found is not None
    router, wanted = found
    files = {path: data for path, data in files_of(name).items() if path in wanted}
    return router(PROXY, module.fake_model_env(MODEL), files)


@pytest.mark.parametrize("name", ADAPTERS)
def test_every_cli_is_led_to_the_proxy_and_the_proxy_to_its_model(name: str) -> None:
    route = route_of(name)
    assert route is not None
    assert route.upstream.startswith(MODEL)
    said = json.dumps([route.env, route.words, [data.decode() for data in route.files.values()]])
    assert PROXY in said
    assert MODEL not in said


@pytest.mark.parametrize("name", ADAPTERS)
def test_what_a_shielded_agent_keeps_of_its_clis_variables_holds_no_key(name: str) -> None:
    route = route_of(name)
    assert route is not None
    kept = shielded_environment(dict.fromkeys((*route.choices, *route.keys), "x" * 20), route.choices)
    assert set(kept) == set(route.choices)
    assert not set(route.choices) & set(route.keys)
    assert key_variables(kept, frozenset(route.keys)) == []


def test_pis_default_provider_is_led_by_an_extension_whatever_its_name_is() -> None:
    providers = {'x"); evil("': {"baseUrl": MODEL, "api": "anthropic-messages", "apiKey": "dummy"}}
    files = {
        ".pi/agent/settings.json": json.dumps({"defaultProvider": 'x"); evil("'}).encode(),
        ".pi/agent/models.json": json.dumps({"providers": providers}).encode(),
    }
    route = pi.model_route(PROXY, {}, files)
    assert route is not None
    assert (route.upstream, route.format, route.key) == (MODEL, "anthropic", "")
    assert (
        'registerProvider("x\\"); evil(\\"", { baseUrl: "http://127.0.0.1:2222" })'
        in route.files["pi-route.js"].decode()
    )


def test_pis_own_providers_are_known_by_their_names() -> None:
    settings = json.dumps({"defaultProvider": "anthropic"}).encode()
    route = pi.model_route(PROXY, {}, {".pi/agent/settings.json": settings})
    assert route is not None
    assert (route.upstream, route.key) == ("https://api.anthropic.com", "ANTHROPIC_API_KEY")


@pytest.mark.parametrize("settings", [b"{", b"[]", b'{"defaultProvider": "unheard-of"}', b'{"defaultProvider": 1}'])
def test_a_provider_of_pis_whose_url_is_not_known_is_not_led(settings: bytes) -> None:
    assert pi.model_route(PROXY, {}, {".pi/agent/settings.json": settings}) is None


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"lastUsedProvider": "x"}', b'{"providers": {}}'])
def test_settings_of_clines_that_name_no_url_are_not_led(content: bytes | None) -> None:
    files: dict[str, Any] = {} if content is None else {cline.model_config[0]: content}
    assert cline.model_route(PROXY, {}, files) is None


def test_files_that_a_variable_moved_are_not_guessed() -> None:
    assert pi.model_route(PROXY, {"PI_CODING_AGENT_DIR": "/x"}, files_of("pi")) is None
    assert cline.model_route(PROXY, {"CLINE_DATA_DIR": "/x"}, files_of("cline")) is None
