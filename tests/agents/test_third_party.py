"""Adapters of other packages: found by their entry point, checked, and held to what a decoder may do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from beam.agents import registry, third_party
from beam.agents.base import ErrorReader, Exit, HasHistory, HasTerminal, Host, Turn
from beam.base.errors import ConfigError, LimitError, NotFoundError, UnsupportedError
from beam.model import events
from beam.model.outcome import Class, Status
from tests.support.other_package import installed, oracle

TURN = Turn(text="Why?", message_id="oracle-1", agent="oracle")
HEAD = """
from beam.agents.base import *
from beam.agents.base import Capabilities, Card, Launch
from beam.base.errors import LimitError
from beam.model import events
card = Card(name="oracle", summary="x", faces={"exec": Capabilities(access=("full",))})
class exec:
    @staticmethod
    def launch(turn, host): return Launch(argv=("true",))
    @staticmethod
    def decoder(turn): return Lines()
class Lines:
    def line(self, line): return ()
    def end(self, exit): return (), Verdict(status="completed")
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs packages into a folder of the path, for this test alone."""
    before = set(sys.modules)

    def forget() -> None:
        third_party._entries_by_name.clear()
        third_party._loaded_adapters.clear()
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
                del sys.modules[name]

    def into(modules: Mapping[str, str], entries: Mapping[str, str], **named: Any) -> None:
        installed(tmp_path / "site", modules, entries, **named)
        importlib.invalidate_caches()

    monkeypatch.syspath_prepend(tmp_path / "site")
    forget()
    yield into
    forget()


def test_an_adapter_may_import_what_beam_does_without(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ssl", None)
    install({"beam_oracle": f"import ssl\n{HEAD}"}, {"oracle": "beam_oracle"})
    assert registry.adapter("oracle").card.name == "oracle"


def loaded(install: Install, source: str) -> Any:
    install({"oracle": source}, {"oracle": "oracle"})
    return registry.adapter("oracle")


@pytest.mark.slow
def test_the_adapter_of_the_page_is_found_by_its_entry_point(install: Install) -> None:
    adapter = loaded(install, oracle())
    assert adapter.card.name == "oracle"
    assert "oracle" in registry.NAMES
    assert list(registry.NAMES) == [*registry.ADAPTERS, "oracle"]
    assert adapter.exec.launch(TURN, Host(executable="/bin/oracle")).argv == ("/bin/oracle", "--json", "--read-only")
    decoder = adapter.exec.decoder(TURN)
    assert [type(body) for body in decoder.line(b'{"thread": "t1"}')] == [events.SessionStarted]
    assert [type(body) for body in decoder.line(b'{"answer": "So."}')] == [events.Text]
    assert decoder.end(Exit(code=0))[1].reply == "So."
    assert (isinstance(adapter, HasTerminal), isinstance(adapter, HasHistory)) == (False, False)
    assert not isinstance(decoder, ErrorReader)


@pytest.mark.slow
def test_an_object_in_a_module_is_an_adapter_too(install: Install) -> None:
    install({"seers": HEAD + "import sys\npythia = sys.modules[__name__]\n"}, {"oracle": "seers:pythia"})
    assert registry.adapter("oracle").card.summary == "x"
    assert registry.module_of("oracle") == "seers"


@pytest.mark.slow
def test_a_package_that_is_installed_later_is_found(install: Install) -> None:
    assert "oracle" not in registry.NAMES
    loaded(install, HEAD)
    assert "oracle" in registry.NAMES


def test_a_name_that_is_built_in_is_never_looked_up(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked() -> None:
        raise AssertionError("it was looked up")

    monkeypatch.setattr(third_party, "_find_entry_points", looked)
    assert "claude" in registry.NAMES
    assert registry.adapter("claude").card.name == "claude"
    assert registry.module_of("claude") == "beam.agents.claude"


@pytest.mark.slow
def test_a_package_can_not_replace_a_built_in_adapter(install: Install) -> None:
    install({"mine": "raise SystemExit('hijacked')"}, {"claude": "mine"})
    assert registry.adapter("claude").card.executable == "claude"
    assert list(registry.NAMES) == list(registry.ADAPTERS)
    assert list(registry.ignored_entries()) == [
        ("claude", "oracle-beam 1.0 may not replace the built-in adapter claude")
    ]


@pytest.mark.slow
def test_a_name_that_no_agent_can_have_is_left_out_and_reported(install: Install) -> None:
    install({"mine": HEAD}, {"../x": "mine"})
    assert list(registry.NAMES) == list(registry.ADAPTERS)
    assert "../x" not in registry.NAMES
    ((_, why),) = registry.ignored_entries()
    assert "no agent can have that name" in why
    with pytest.raises(NotFoundError):
        registry.adapter("../x")


@pytest.mark.slow
def test_two_packages_with_one_name_are_both_named(install: Install) -> None:
    install({"mine": HEAD}, {"oracle": "mine"})
    install({}, {"oracle": "mine:yours"}, name="other")
    with pytest.raises(ConfigError, match=r"several packages offer an adapter oracle: .*oracle-beam 1\.0") as error:
        registry.adapter("oracle")
    assert "other 1.0" in error.value.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import nowhere_at_all", r"its import failed \(No module named 'nowhere_at_all'\)"),
        ("def", r"its import failed \(invalid syntax "),
        ("raise SystemExit(3)", r"its import failed \(3\)"),
        ("raise RuntimeError('x' * 10_000)", r"its import failed \(xxx"),
        ("raise RuntimeError", r"its import failed \(mend"),
        ("", "it has no `card`"),
        ("card = 5", "it has no `card`"),
        (HEAD.replace('name="oracle"', 'name="claude"'), "its card's name is 'claude'"),
        (HEAD.replace('summary="x"', "summary=5"), "its card is wrong: Expected `str`, got `int`"),
        (HEAD.replace('("full",)', '("all",)'), "its card is wrong: Invalid enum value 'all'"),
        (HEAD.replace('{"exec"', '{"mailbox"'), "its faces are mailbox, "),
        (HEAD.replace('{"exec": Capabilities(access=("full",))}', "{}"), "its faces are none"),
        (HEAD + "exec = None", "its card and its `exec` differ"),
        (HEAD.replace("def launch", "def lunch"), "its `exec` has no functions `launch` and `decoder`"),
        (HEAD.replace('{"exec"', '{"terminal"') + "exec = None", "its `terminal` has no function `launch`"),
        (HEAD + "transcripts = 5", "its `transcripts` has no functions"),
    ],
)
def test_what_can_not_be_used_is_an_error_with_its_name_and_its_package(
    install: Install, source: str, why: str
) -> None:
    install({"oracle": source}, {"oracle": "oracle"})
    assert "oracle" in registry.NAMES
    with pytest.raises(ConfigError, match=f"adapter oracle of oracle-beam 1.0 can't be used: {why}") as error:
        registry.adapter("oracle")
    assert len(error.value.message) < 700
    assert error.value.subject == "oracle"


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        ('return Launch(argv=("true",))', "raise KeyError('model')", "launch: KeyError: 'model'"),
        ('return Launch(argv=("true",))', "return ['true']", "launch: TypeError: it returned list, not a Launch"),
        ('return Launch(argv=("true",))', "return Launch(argv=(5,))", "launch: ValidationError"),
    ],
)
def test_a_launch_that_breaks_is_a_refusal_of_the_turn(install: Install, was: str, now: str, why: str) -> None:
    adapter = loaded(install, HEAD.replace(was, now))
    with pytest.raises(UnsupportedError, match=f"the adapter oracle is broken: {why}"):
        adapter.exec.launch(TURN, Host())


@pytest.mark.slow
def test_a_launch_may_refuse_in_beams_own_words(install: Install) -> None:
    adapter = loaded(install, HEAD.replace('return Launch(argv=("true",))', "raise LimitError('too long')"))
    with pytest.raises(LimitError, match="too long"):
        adapter.exec.launch(TURN, Host())


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("[][1]", "IndexError"),
        ("[5]", "int is no event"),
        ("5", "TypeError"),
        ("[events.Text(text=5)]", "CorruptError"),
        ("[events.TurnFinished(status='completed', exit_code=0)]", "TurnFinished is no event of an agent"),
        ("[events.MessageDead(reason='dropped')]", "MessageDead is no event of an agent"),
    ],
)
def test_a_line_that_breaks_the_decoder_is_kept_as_unknown(install: Install, body: str, what: str) -> None:
    adapter = loaded(install, HEAD.replace("def line(self, line): return ()", f"def line(self, line): return {body}"))
    (event,) = adapter.exec.decoder(TURN).line(b"its \xff line")
    assert isinstance(event, events.Unknown)
    assert event.what.startswith("oracle broke: ")
    assert what in event.what
    assert event.raw == "its � line"


@pytest.mark.parametrize(
    "end", ["raise ValueError('x')", "return 5", "return (), None", "return (), Verdict(status='completed', reply=5)"]
)
def test_an_end_that_breaks_is_a_failed_turn(install: Install, end: str) -> None:
    source = HEAD.replace('return (), Verdict(status="completed")', end)
    bodies, verdict = loaded(install, source).exec.decoder(TURN).end(Exit(code=0))
    assert (tuple(bodies), verdict.status, verdict.class_, verdict.reply) == ((), Status.FAILED, Class.UNKNOWN, None)
    assert "the adapter oracle is broken: end: " in str(verdict.reason)


def test_a_decoder_that_reads_stderr_does_so(install: Install) -> None:
    error_line = "    def error_line(self, line): return [events.Notice(text='heard')]\n"
    assert isinstance(loaded(install, HEAD + error_line).exec.decoder(TURN), ErrorReader)


@pytest.mark.slow
def test_a_decoder_that_can_not_be_made_is_a_refusal(install: Install) -> None:
    adapter = loaded(install, HEAD.replace("return Lines()", "return Lines(1)"))
    with pytest.raises(UnsupportedError, match="the adapter oracle is broken: decoder: TypeError"):
        adapter.exec.decoder(TURN)
