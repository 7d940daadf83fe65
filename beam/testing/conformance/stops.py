"""Cases in which a turn is stopped by a timeout, by a stalled stream or by a kill. No process may be left behind."""

from __future__ import annotations

import os

from beam.testing.conformance.cells import cell
from beam.testing.conformance.subject import Subject


@cell("timeout")
def timeout(subject: Subject) -> str:
    done = subject.send("!stall", "--new", "--timeout", "10s")
    assert (done.code, done.json["status"], done.json["reply"]) == (3, "timeout", None), done
    subject.check_processes_gone()
    return "timeout (exit code 3); no process is left"


@cell("stalled stream")
def stalled_stream(subject: Subject) -> str:
    subject.cli.config(f"agents:\n  {subject.name}:\n    idle_timeout: 40s\n")
    before = len(subject.model.prompts())
    done = subject.send("!stall-mid", "--new")
    assert (done.code, done.json["status"], done.json["class"]) == (3, "timeout", "stalled"), done
    assert len(subject.model.prompts()) > before
    subject.check_processes_gone()
    return "timeout (stalled), after the silence that the settings allow; no process is left"


@cell("killed CLI")
def killed_cli(subject: Subject) -> str:
    process = subject.start("!stall", "--new")
    os.kill(subject.events("agent.started")[-1]["pid"], 9)
    outcome = subject.outcome(process)
    assert (outcome["status"], outcome["class"], outcome["reply"]) == ("failed", "crashed", None), outcome
    subject.check_processes_gone()
    return f"failed (crashed): {outcome['reason']}; no process is left"
