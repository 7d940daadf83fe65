"""Turns in which the model gave no answer, or no whole one: each mode of each CLI says so."""

from __future__ import annotations

import json

from beam.testing.conformance import outcomes
from tests.conformance.adapters import HOOK_WORDS
from tests.conformance.cases import case, shared
from tests.conformance.subject import Subject

FACES = ("exec", "dialogue", "terminal")

test_empty_answer = shared(__name__, outcomes.empty_answer, quick_for=("claude",), faces=FACES)
test_thoughts_only = shared(__name__, outcomes.thoughts_only, quick_for=("codex-dialogue",), faces=FACES)
test_cut_answer = shared(__name__, outcomes.cut_answer, quick_for=("codex",), faces=FACES, by_proxy=True)
test_refused_answer = shared(__name__, outcomes.refused_answer, quick_for=("claude-dialogue",), faces=FACES)


@case("a hook that stops the turn", quick_for=("claude",), faces=FACES)
def test_hook_stops(subject: Subject) -> str:
    """A hook of the person's own stops the prompt before the model sees it: the turn failed, with the hook's words."""
    if not (subject.data.stopping_hook or subject.data.stop_prompts):
        return "it has no hook that can stop a prompt"
    subject.cli.config("policy:\n  circuit_failures: 100\n")
    stopped = subject.at_home("stopped")
    for name, settings in subject.data.stopping_hook.items():
        path = stopped.base / "stopped" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before_it = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(before_it | settings))
    if subject.data.stop_prompts is not None:
        subject.data.stop_prompts(stopped, {"decision": "block", "reason": HOOK_WORDS})
    before = len(subject.model.prompts())
    done = subject.send("hello", "--new", cli=stopped)
    outcome = done.json
    assert (done.code, outcome["status"], outcome["class"], outcome["reply"]) == (1, "failed", "stopped", None), outcome
    assert HOOK_WORDS in outcome["reason"], outcome
    assert len(subject.model.prompts()) == before
    subject.check_processes_gone()
    return f"failed (stopped), and the model was not asked: {outcome['reason']}"
