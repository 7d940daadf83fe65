"""The terminal faces of the adapters: how each is started, and that its profile can be read."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import HasTerminal, Host
from beam.agents.claude import screen as claude
from beam.agents.codex import screen as codex
from beam.base.errors import UnsupportedError
from beam.model.outcome import Status
from beam.model.settings import AgentSettings
from beam.pty_adapter import profile as profiles
from beam.pty_adapter.screen import View
from tests.support.turn import turn_of

SCREENS = [name for name in registry.ADAPTERS if isinstance(registry.adapter(name), HasTerminal)]
UUID = "11111111-2222-4333-8444-555555555555"


turn = partial(turn_of, "x", text="hello", cwd="/p", scratch="/s")


@pytest.mark.parametrize("name", SCREENS)
def test_a_terminal_face_is_in_the_card_and_every_pattern_compiles(name: str) -> None:
    adapter = registry.adapter(name)
    assert isinstance(adapter, HasTerminal) and "terminal" in adapter.card.faces
    profile = adapter.terminal.profile
    rows = (*profile.busy_rows, *profile.done_rows, *profile.error_rows, *profile.noise_rows, *profile.ready_rows)
    others = (profile.prompt, profile.above, profile.below, profile.echo_rows, profile.bullet, profile.special)
    for text in (*rows, *others, *profile.placeholders, *(dialog.match for dialog in profile.dialogs)):
        re.compile(text)
    if profile.prompt:
        assert re.compile(profile.prompt).groups == 1


def test_no_text_is_in_the_arguments_of_a_screen() -> None:
    settings = AgentSettings(command=("x",))
    for name in SCREENS:
        adapter = registry.adapter(name)
        assert isinstance(adapter, HasTerminal)
        assert "hello" not in adapter.terminal.launch(turn(settings=settings), Host()).argv


def test_a_command_with_groups_has_no_screen() -> None:
    adapter = registry.adapter("command")
    assert isinstance(adapter, HasTerminal)
    with pytest.raises(UnsupportedError, match="groups"):
        adapter.terminal.launch(turn(settings=AgentSettings(command=("x", ("--resume", "{session}")))), Host())


def test_claude_goes_on_in_its_session_and_reads_that_sessions_transcript() -> None:
    new, later = turn(fresh_session_id=UUID), turn(session_id=UUID)
    assert claude.launch(new, Host()).argv[1:3] == ("--session-id", UUID)
    assert claude.launch(later, Host()).argv[1:3] == ("--resume", UUID)
    assert claude.where(later, Host(home="/h")) == f"/h/.claude/projects/-p/{UUID}.jsonl"


def test_claude_that_only_looks_can_change_nothing_and_asks_nobody() -> None:
    argv = claude.launch(turn(access="read"), Host()).argv
    assert "dontAsk" in argv and "--tools" in argv
    assert "default" in claude.launch(turn(access="ask"), Host()).argv


def test_codex_asks_only_where_it_was_told_to() -> None:
    assert codex.launch(turn(access="read"), Host()).argv[-2:] == ("--ask-for-approval", "never")
    assert codex.launch(turn(access="ask"), Host()).argv[-2:] == ("--ask-for-approval", "on-request")


USER = b'{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"hello"}}'
SAID = b'{"type":"assistant","uuid":"u2","parentUuid":"u1","sessionId":"s1","message":{"id":"m1","model":"big",'
SAID += b'"role":"assistant","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":5,"output_tokens":2}}}'
OVER = b'{"type":"system","uuid":"u3","parentUuid":"u2","subtype":"turn_duration","sessionId":"s1","durationMs":3}'
GAP = b'{"type":"assistant","sessionId":"s1","message":{"id":"m0","model":"<synthetic>","role":"assistant","content":'
GAP += b'[{"type":"text","text":"No response requested."}]}}'


@pytest.mark.parametrize("lines", [(USER, SAID, OVER), (SAID, OVER, USER), (GAP, USER, SAID, OVER)])
def test_claudes_transcript_says_the_answer_and_its_end_in_any_order(lines: tuple[bytes, ...]) -> None:
    conversation = claude.transcript(turn())
    for line in lines:
        conversation.line(line)
    verdict = conversation.verdict()
    assert conversation.state == "done"
    assert (verdict.status, verdict.reply, verdict.session_id, verdict.model) == (Status.COMPLETED, "hi", "s1", "big")
    assert verdict.usage.output_tokens == 2


def test_claudes_transcript_without_an_end_says_that_it_works() -> None:
    conversation = claude.transcript(turn())
    conversation.line(USER)
    conversation.line(SAID)
    assert conversation.state == "working"


def test_an_interrupted_turn_of_claudes_is_over_and_no_answer() -> None:
    conversation = claude.transcript(turn())
    conversation.line(USER)
    conversation.line(
        b'{"type":"user","sessionId":"s1","message":{"content":['
        b'{"type":"text","text":"[Request interrupted by user]"}]}}'
    )
    assert (conversation.state, conversation.verdict().status) == ("done", Status.CANCELLED)


RESUMED = {
    "claude": (UUID, ("--resume", UUID)),
    "codex": (UUID, ("resume",)),
    "gemini": ("1111111_1-2222", ("--resume", "1111111_1-2222")),
    "opencode": ("ses_1", ("--session", "ses_1")),
    "qwen": (UUID, ("--resume", UUID)),
    "copilot": (UUID, (f"--resume={UUID}",)),
    "aider": (UUID, ("--restore-chat-history",)),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_screen_goes_on_in_the_session_and_refuses_what_can_be_none(name: str) -> None:
    adapter = registry.adapter(name)
    assert isinstance(adapter, HasTerminal) and adapter.card.faces["terminal"].resume
    session_id, words = RESUMED[name]
    argv = adapter.terminal.launch(turn(session_id=session_id), Host()).argv
    assert any(argv[at : at + len(words)] == words for at in range(len(argv)))
    with pytest.raises(UnsupportedError):
        adapter.terminal.launch(turn(session_id="--x; rm"), Host())


@pytest.mark.parametrize("name", [name for name in RESUMED if name != "claude"])
def test_each_access_of_a_screen_is_another_launch_and_only_full_is_dangerous(name: str) -> None:
    adapter = registry.adapter(name)
    assert isinstance(adapter, HasTerminal)
    words = adapter.card.faces["terminal"].access
    launches = {word: adapter.terminal.launch(turn(access=word), Host()) for word in words}
    assert len({(launch.argv, tuple(launch.files.items())) for launch in launches.values()}) == len(words)
    dangerous = {
        "--yolo",
        "yolo",
        "--allow-all",
        "--auto",
        "--yes-always",
        "--dangerously-bypass-approvals-and-sandbox",
    }
    assert [word for word, launch in launches.items() if dangerous.intersection(launch.argv)] == ["full"]
    with pytest.raises(UnsupportedError):
        adapter.terminal.launch(turn(access="nothing"), Host())


def test_the_session_is_found_in_what_the_cli_writes_when_it_quits() -> None:
    for name, text, found in (
        ("opencode", "  Continue  opencode -s ses_dff2f6a0affeD5t777Is9yWCsT", "ses_dff2f6a0affeD5t777Is9yWCsT"),
        ("codex", f"  codex resume {UUID}", UUID),
        ("copilot", f"   ▔▔▔▔    Resume     copilot --resume={UUID}", UUID),
        ("qwen", f"  To continue this session, run qwen --resume {UUID}", UUID),
    ):
        adapter = registry.adapter(name)
        assert isinstance(adapter, HasTerminal)
        match = re.search(adapter.terminal.profile.session, f"x\n{text}\n", re.MULTILINE)
        assert match is not None and match[1] == found


@pytest.mark.parametrize(
    ("name", "answered", "own"),
    [
        ("opencode", "     ■■■■  esc interrupt", "   ■■■■⬝⬝⬝⬝  esc interrupt"),
        ("opencode", "       ┃  Ask anything", "  ┃  Ask anything"),
        ("qwen", "    ✕ [API Error", "  ✕ [API Error: 401]"),
        ("codex", "  ■ error", "■ error"),
        (
            "copilot",
            " ✗ Create made Permission to run this tool was denied due to the rules",
            " ✗ You must be logged in",
        ),
        ("copilot", " ● plain words", " ● MCP Servers reloaded: 0 servers connected"),
    ],
)
def test_a_row_of_an_answer_or_of_a_tool_is_not_taken_for_one_of_the_screens_own(
    name: str, answered: str, own: str
) -> None:
    adapter = registry.adapter(name)
    assert isinstance(adapter, HasTerminal)
    profile = adapter.terminal.profile
    patterns = (*profile.noise_rows, *profile.error_rows)
    assert [any(re.search(pattern, row) for pattern in patterns) for row in (answered, own)] == [False, True]


@pytest.mark.parametrize(
    ("footer", "ready", "busy"),
    [
        ("  ? for shortcuts", True, False),  # before 0.24
        ("  ⏸ Ask permissions (shift + tab to cycle)", True, False),
        ("  YOLO mode (shift + tab to cycle)", True, False),
        ("  ⠋ Initializing...", False, True),
        ("  Enter to steer · Ctrl+Q to queue · ⏸ Ask permissions (shift + tab to cycle)", False, True),
    ],
)
def test_qwen_is_typed_to_once_its_footer_says_that_it_takes_a_message(footer: str, ready: bool, busy: bool) -> None:
    adapter = registry.adapter("qwen")
    assert isinstance(adapter, HasTerminal)
    rule = "─" * 100
    rows = (
        "  > hello",
        "",
        "  ◆\ufe0e hi",
        rule,
        ">   Type your message or @path/to/file",
        rule,
        "  ➜ project",
        footer,
    )
    view = View(rows=rows, columns=140, row=4, column=2, takes_pastes=True)
    reading = profiles.read(adapter.terminal.profile, view)
    assert (reading.prompt, reading.ready, reading.busy) == (4, ready, busy)


@pytest.mark.parametrize("sign", ["✦", "◆", "◆\ufe0e"])
def test_the_sign_before_an_answer_of_qwens_is_none_of_its_words(sign: str) -> None:
    adapter = registry.adapter("qwen")
    assert isinstance(adapter, HasTerminal)
    assert re.sub(adapter.terminal.profile.bullet or "", "", f"  {sign} plain words") == "plain words"


def test_opencode_says_that_a_turn_is_over_however_long_it_took() -> None:
    adapter = registry.adapter("opencode")
    assert isinstance(adapter, HasTerminal)
    (done,) = adapter.terminal.profile.done_rows
    for took in ("31.2s", "940ms", "1m 17s", "1h 2m 3s"):
        assert re.search(done, f"     ▣  Build · Scripted · {took}")
    assert not re.search(done, "     ▣  Build · Scripted")


EVERY_FACE = [
    (name, face)
    for name in registry.ADAPTERS
    for face in registry.adapter(name).card.faces
    if face in ("exec", "terminal") and registry.adapter(name).card.executable
]


def launched(name: str, face: str, host: Host, **fields: Any) -> tuple[str, ...]:
    module: Any = registry.adapter(name)
    can = module.card.faces[face]
    access = next((word for word in ("read", "full") if word in can.access), "read")
    given: tuple[str, ...] = getattr(module, face).launch(turn(access=access, **fields), host).argv
    return given


@pytest.mark.parametrize(("name", "face"), EVERY_FACE)
def test_the_executable_that_was_found_is_started_and_else_the_name(name: str, face: str) -> None:
    card = registry.adapter(name).card
    assert "/x/found" in launched(name, face, Host(executable="/x/found", home="/h"))
    assert card.executable in launched(name, face, Host(home="/h"))


@pytest.mark.parametrize(("name", "face"), EVERY_FACE)
def test_a_model_is_named_to_the_cli_where_the_face_takes_one(name: str, face: str) -> None:
    if not registry.adapter(name).card.faces[face].model:  # type: ignore[index]
        return
    assert any("m-special" in word for word in launched(name, face, Host(home="/h"), model="p/m-special"))


@pytest.mark.parametrize("face", ["exec", "terminal", "dialogue"])
def test_codex_with_edit_has_its_folder_for_temporary_files_which_its_sandbox_opens_in_the_turns_scratch(
    face: str,
) -> None:
    module: Any = getattr(registry.adapter("codex"), face)
    for access, env in (("edit", {"TMPDIR": "/s"}), ("read", {}), ("full", {})):
        assert module.launch(turn(access=access, scratch="/s"), Host(home="/h")).env == env


def test_claudes_row_of_a_turn_that_is_over_is_known() -> None:
    import re

    from beam.agents.claude.screen import profile

    def is_done(row: str) -> bool:
        return any(re.search(each, row) for each in profile.done_rows)

    assert all(is_done(row) for row in ("✻ Baked for 12s", "✢ Cooked for 1m 2s"))
    assert not any(is_done(row) for row in ("✻ Baking…", "  ✻ Baked for 12s", "Baked for 12s"))
