"""Planted keys: in prompt, reply, tool output and stderr, also cut in two between deltas. None gets onto disk."""

from __future__ import annotations

import json
import sys

import pytest

from beam.pty_adapter import cast
from beam.pty_adapter.screen import Screen
from tests.support.cli import Cli
from tests.support.secrets import PLANTED

pytestmark = pytest.mark.acceptance

AGENT = """\
import json, sys
keys = json.load(open("keys.json"))
prompt = sys.stdin.read()
def say(**record):
    print(json.dumps(record), flush=True)
for number, key in enumerate(keys):
    say(type="tool.called", call_id=f"c{number}", name="cat", input={"file": key})
    say(type="tool.returned", call_id=f"c{number}", output=f"found {key} there")
    say(type="text", text=f"the key is {key}.")
    print(f"warning: {key}", file=sys.stderr)
say(reply="all of them: " + " ".join(keys) + " and the prompt: " + prompt)
"""
STREAMER = """\
import sys, time
key = open("key").read()
cut = int(sys.stdin.read())
sys.stdout.write("the key is " + key[:cut]); sys.stdout.flush(); time.sleep(0.07)
sys.stdout.write(key[cut:] + ", keep it\\n"); sys.stdout.flush()
"""


def planted_in(beam: Cli) -> list[str]:
    written = beam.everything_written()
    return [kind for kind, (_, secret) in PLANTED.items() if secret.encode() in written]


def test_twelve_kinds_of_keys_in_prompt_reply_tools_and_stderr_are_nowhere_on_disk(beam: Cli) -> None:
    texts = [text for text, _ in PLANTED.values()]
    assert len(PLANTED) >= 12
    (beam.project / "keys.json").write_text(json.dumps(texts))
    (beam.project / "agent.py").write_text(AGENT)
    beam.config(
        f"agents:\n  leaky:\n    command: [{sys.executable}, agent.py]\n    format: jsonl\n    reply_path: reply\n"
    )
    done = beam("send", "leaky", "use " + " and ".join(texts), "--json")
    outcome = done.json
    assert outcome["status"] == "completed"
    assert outcome["redacted"] >= len(PLANTED)
    shown = done.out + beam("log", "leaky").out + beam("log", "leaky", "--json").out + beam("watch", "--now").out
    assert [kind for kind, (_, secret) in PLANTED.items() if secret in shown] == []
    assert planted_in(beam) == []


def test_a_key_cut_at_any_place_between_two_deltas_is_not_written(beam: Cli) -> None:
    text, secret = PLANTED["anthropic-key"]
    (beam.project / "key").write_text(text)
    (beam.project / "agent.py").write_text(STREAMER)
    beam.config(f"agents:\n  slow:\n    command: [{sys.executable}, agent.py]\n")
    for cut in range(1, len(text), max(1, len(text) // 12)):
        done = beam("send", "slow", str(cut), "--events")
        assert done.code == 0
        assert secret not in done.out
    written = beam.everything_written()
    assert secret.encode() not in written
    for length in range(20, len(secret)):
        assert secret[:length].encode() not in written, f"the first {length} characters of it"


def test_a_key_that_a_program_writes_by_cursor_moves_is_in_no_recording_of_its_screen(beam: Cli) -> None:
    beam.config("agents:\n  shell: {adapter: bash, record: true}\n")
    rest = PLANTED["anthropic-key"][1].removeprefix("sk-ant-api03-")[:24]
    program = f"k={rest}; for n in 1; do printf '\\033[9;8Hapi03-\\033[9;14H%s\\033[9;1Hsk-ant-\\033[12;1H' $k; done"
    done = beam("send", "shell", program)
    assert done.code == 0, done
    (path,) = (beam.root / "agents" / "shell" / "casts").iterdir()
    recording = cast.read(path.read_bytes())
    screen, seen = Screen(recording.columns, recording.rows), ""
    for moment in recording.moments:
        if moment.kind == "o":
            screen.feed(moment.text.encode())
            seen += screen.view().text
    assert f"sk-ant-api03-{rest}" not in seen and "*" * (13 + len(rest)) in seen
    assert rest not in path.read_text().partition("\\r")[2].replace(f"k={rest}", "")


def test_a_key_in_lines_of_thinking_in_colours_and_in_a_frame_is_nowhere_on_disk(beam: Cli) -> None:
    text, secret = PLANTED["anthropic-key"]
    rows = [text[at : at + 30] for at in range(0, len(text), 30)]
    frame = "\n".join(f"\u2502 {row:<30} \u2502" for row in rows)
    said = [
        *({"type": "thinking", "text": text[at : at + 25]} for at in range(0, len(text), 25)),
        {"type": "text", "text": f"a key:\n{frame}\n"},
        {"type": "tool.called", "call_id": "1", "name": "cat", "input": {}},
        {"type": "tool.returned", "call_id": "1", "output": f"\x1b[32m{text[:9]}\x1b[1m{text[9:]}\x1b[0m"},
        {"reply": f"it is \x1b[7m{text[:40]}\x1b[0m{text[40:]}"},
    ]
    (beam.project / "said").write_text("".join(json.dumps(line) + "\n" for line in said))
    beam.config("agents:\n  leaky:\n    command: [cat, said]\n    format: jsonl\n    reply_path: reply\n")
    done = beam("send", "leaky", "go", "--json")
    assert (done.json["status"], done.json["redacted"]) == ("completed", 1)
    written = beam.everything_written().decode()
    parts = [secret[at : at + 12] for at in range(len(secret) - 12)]
    assert [part for part in parts if part in written or part in done.out] == []
    assert beam.types("leaky").count("thinking") == len(range(0, len(text), 25))
