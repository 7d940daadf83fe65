"""Planted keys: in prompt, reply, tool output and stderr, also cut in two between deltas. None gets onto disk."""

from __future__ import annotations

import json
import sys

import pytest

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
