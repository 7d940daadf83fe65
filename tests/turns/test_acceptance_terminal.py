"""`beam send --via terminal`, as people use it: real Python, real bash, and a program that nobody described."""

from __future__ import annotations

import pytest

from tests.support import tui
from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance


@pytest.fixture
def trusted(beam: Cli) -> Cli:
    beam.env["BEAM_TRUST"] = "1"
    return beam


def test_ten_turns_in_a_row_of_a_real_python(trusted: Cli) -> None:
    for number in range(10):
        ended = trusted(
            "send",
            "python",
            "--via",
            "terminal",
            f"for i in range(3):\n    print('>>> ', i * {number})\n\nprint(7, end='')",
        )
        assert (ended.code, ended.err) == (0, "")
        assert ended.out == "".join(f">>>  {i * number}\n" for i in range(3)) + "7\n"
    assert trusted.types("python").count("turn.finished") == 10


def test_auto_takes_the_screen_last_and_says_why(trusted: Cli) -> None:
    outcome = trusted("send", "python", "--json", "1 + 1").json
    assert (outcome["via"], outcome["reply"], outcome["lossy"]) == ("terminal", "2", True)
    started = next(event for event in trusted.journal("python") if event["type"] == "turn.started")
    assert "only a screen" in started["why"]


def test_a_shell_answers_what_its_commands_wrote_unwrapped(trusted: Cli) -> None:
    ended = trusted("send", "bash", "printf 'x%.0s' {1..500}; echo; echo '$ echo no'; printf end")
    assert ended.out == "x" * 500 + "\n$ echo no\nend\n"


def test_a_shell_takes_several_lines_and_200_kb(trusted: Cli) -> None:
    text = "cat <<'END' | sha256sum\n" + "".join(f"line {n} ─ 日本 \\t 'q' $(no)\n" for n in range(6000)) + "END"
    import hashlib

    body = text.split("\n", 1)[1].removesuffix("END")
    ended = trusted("send", "bash", "-", stdin=text, timeout=120)
    assert ended.out.split() == [hashlib.sha256(body.encode()).hexdigest(), "-"], ended


def test_a_program_that_exits_in_its_turn_has_crashed(trusted: Cli) -> None:
    ended = trusted("send", "bash", "--json", "echo bye; exit 4")
    assert (ended.code, ended.json["class"], ended.json["reply"]) == (1, "crashed", None)
    assert "exited with 4" in ended.json["reason"]


def test_a_program_that_nobody_described_works_by_the_prompt_it_shows(beam: Cli) -> None:
    (beam.project / "db.py").write_text("while True: print(eval(input('(db) ')))")
    beam.config("agents:\n  db:\n    command: [python3, db.py]\n")
    outcome = beam("send", "db", "--via", "terminal", "--json", "6 * 7").json
    assert (outcome["status"], outcome["reply"]) == ("completed", "42")


def test_a_full_screen_that_nobody_described_is_stalled_and_no_answer(beam: Cli) -> None:
    beam.config(f"agents:\n  tui:\n    command: [python3, {tui.__file__}, echo]\n")
    outcome = beam("send", "tui", "--via", "terminal", "--json", "hello", timeout=90).json
    assert (outcome["status"], outcome["class"], outcome["reply"]) == ("failed", "stalled", None)
    assert "❯ hello" in outcome["reason"]


def test_a_turn_that_takes_too_long_is_interrupted(trusted: Cli) -> None:
    ended = trusted("send", "python", "--timeout", "3", "--json", "import time; time.sleep(60)")
    assert (ended.code, ended.json["status"]) == (3, "timeout")
