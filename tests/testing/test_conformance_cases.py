"""The cases that every adapter's CLI is put through, run for an adapter of another package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from beam.agents.base import Capabilities
from beam.testing.conformance import conversation, failures, prompts, stops
from beam.testing.conformance.__main__ import GROUPS, cells
from beam.testing.conformance.cells import Cell, is_claimed
from tests.support.other_package import installed, oracle

# A whole agent CLI: it keeps conversations under HOME, asks its model by HTTP, and prints what that adapter reads.
PROGRAM = """\
import http.client, json, os, pathlib, sys, urllib.error, urllib.request, uuid

words = sys.argv[1:]
thread = words[words.index("--resume") + 1] if "--resume" in words else uuid.uuid4().hex
path = pathlib.Path(os.environ["HOME"], ".oracle", thread)
path.parent.mkdir(exist_ok=True)
said = json.loads(path.read_text()) if path.exists() else []
said.append({"role": "user", "content": sys.stdin.read()})
print(json.dumps({"thread": thread}), flush=True)
body = json.dumps({"model": "scripted", "messages": said}).encode()
url = os.environ["ORACLE_URL"] + "/v1/chat/completions"
try:
    with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})) as answer:
        (choice,) = json.load(answer)["choices"]
except urllib.error.HTTPError as error:
    print(json.dumps({"error": f"HTTP {error.code}", "code": str(error.code)}))
except (OSError, ValueError, http.client.HTTPException) as error:
    print(json.dumps({"error": f"no answer: {error}", "code": "network"}))
else:
    text = choice["message"]["content"] or ""
    path.write_text(json.dumps([*said, {"role": "assistant", "content": text}]))
    is_refused = choice["finish_reason"] == "content_filter"
    print(json.dumps({"refused": "the model refused"} if is_refused else {"answer": text}))
"""
CLASSES = """{
    "400": Class.BAD_REQUEST, "401": Class.AUTH, "429": Class.RATE_LIMIT, "500": Class.OVERLOADED,
    "network": Class.NETWORK,
}"""
ENV = "def fake_model_env(url): return {'ORACLE_URL': url, 'NO_PROXY': '127.0.0.1'}\n"


def adapter() -> str:
    """The page's adapter, with the classes of this program's failures, and the folder that it makes."""
    source = oracle().replace('{"login": Class.AUTH, "busy": Class.OVERLOADED}', CLASSES)
    return source.replace("resume=True, tools=True,", "resume=True,").replace(
        'versions=("1.4.0",),', 'versions=("1.4.0",),\n    makes={"HOME/.oracle": None},'
    )


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment in which the package and its CLI are installed."""
    modules = {"beam_oracle/__init__": adapter(), "beam_oracle/env": ENV}
    site = installed(tmp_path / "site", modules, {"oracle": "beam_oracle"})
    program = tmp_path / "bin" / "oracle"
    program.parent.mkdir()
    program.write_text(f"#!{Path(sys.executable).resolve()}\n{PROGRAM}")
    program.chmod(0o755)
    return {"PYTHONPATH": str(site), "PATH": f"{program.parent}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}


def run(env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-P", "-m", "beam.testing.conformance", *args]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.acceptance
def test_an_adapter_of_another_package_passes_the_cases_or_says_what_it_can_not(env: dict[str, str]) -> None:
    quick = ["first_turn", "resume", "deltas", "interrupt", "prompt_with_a_slash", "killed_cli", "api_401"]
    done = run(env, "oracle", *quick, "--json")
    found = {line["case"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, done
    assert {name: line["status"] for name, line in found.items()} == {
        **dict.fromkeys(quick, "works"),
        "deltas": "unsupported",
    }
    assert found["deltas"]["evidence"] == "`beam agent show oracle` does not list deltas"


@pytest.mark.acceptance
@pytest.mark.slow
def test_all_cases_of_the_same(env: dict[str, str]) -> None:
    """But for those two that wait for a clock."""
    wanted = [cell.name for group in GROUPS for cell in cells(group) if cell.name not in ("timeout", "stalled_stream")]
    done = run(env, "oracle", *wanted)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line for line in lines if line[0] == "fails"] == [], done.stderr
    assert [case for _, case, _ in lines] == wanted


@pytest.mark.acceptance
def test_a_cell_that_fails_is_said_with_what_was_seen_and_the_exit_code(env: dict[str, str]) -> None:
    """Its adapter takes an error's text for an answer."""
    module = Path(env["PYTHONPATH"]) / "beam_oracle" / "__init__.py"
    module.write_text(
        module.read_text().replace(
            "Verdict(status=Status.FAILED, class_=class_,", "Verdict(status=Status.COMPLETED, reply=reason,"
        )
    )
    done = run(env, "oracle", "api_401", "first_turn")
    assert done.returncode == 1, done
    works, fails = (line.split("\t") for line in done.stdout.splitlines())
    assert (works[:2], fails[:2]) == (["works", "first_turn"], ["fails", "api_401"])
    assert "completed" in fails[2]


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["nosuch"], 4, "no adapter is called 'nosuch'"),
        (["oracle", "nosuch"], 4, "there is no case called 'nosuch'"),
        (["mailbox"], 10, "mailbox has no headless face to try"),
        (["scripted"], 10, "scripted can't be pointed at a scripted model"),
        (["amp"], 10, "amp has no headless face"),
    ],
)
def test_what_can_not_be_tried_is_said(env: dict[str, str], args: list[str], code: int, said: str) -> None:
    done = run(env, *args)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (code, True, False), done


def test_every_case_has_a_name_of_its_own_and_a_capability_that_a_card_can_claim() -> None:
    found = [cell for group in (conversation, prompts, stops, failures) for cell in cells(group)]
    assert len({cell.name for cell in found}) == len({cell.title for cell in found}) == len(found) > 20
    assert all(isinstance(is_claimed(cell.capability, Capabilities()), bool) for cell in found)


def test_a_case_that_the_card_does_not_claim_is_run_in_its_other_way() -> None:
    cell = Cell("x", "x", "resume", False, lambda subject: "it resumed", lambda subject: "each turn is new")

    class Fake:
        can = Capabilities(resume=True)

    assert cell.run(Fake()) == ("works", "it resumed")  # type: ignore[arg-type]
    Fake.can = Capabilities()
    assert cell.run(Fake()) == ("unsupported", "each turn is new")  # type: ignore[arg-type]
