"""The README's first commands, from the installation on, as somebody does who has nothing else: another HOME and
PATH, as root and as another user, in a git repository and outside of one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.testing.fake_model import FakeModel
from tests.support import console
from tests.support.markdown import blocks

pytestmark = pytest.mark.acceptance
TOP = Path(__file__).parents[1]
_MARK = "@@ step"
_NOBODY = 65534
# The interpreter may lie in a home that only root enters. In a mount namespace of its own, with that home replaced by a
# folder that holds the interpreter alone, another user runs it.
_AS_NOBODY = f"""
set -e
base=$1 closed=$2 kept=$(mktemp -d); shift 2
if [ -n "$closed" ]; then
    mount --bind "$base" "$kept"
    mount -t tmpfs -o mode=755 none "$closed"
    mkdir -p "$base"
    mount --bind "$kept" "$base"
    umount "$kept"
fi
rmdir "$kept"
exec setpriv --reuid={_NOBODY} --regid={_NOBODY} --clear-groups "$@"
"""
INSTALL, CHECK = next(block.text.splitlines() for block in blocks((TOP / "README.md").read_text(), "sh"))
STEPS = [
    step
    for block in blocks((TOP / "README.md").read_text(), "console")
    if block.note != "claude"
    for step in console.steps(block.text)
]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every user may enter, with a virtual environment in which beam is installed from a copy."""
    made = Path(tempfile.mkdtemp(prefix="beam-new-user-"))
    try:
        made.chmod(0o755)
        source = made / "source"
        left_out = shutil.ignore_patterns(".*", "tests", "bench", "__pycache__")
        shutil.copytree(TOP, source, ignore=left_out)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", made / "venv"], check=True)
        pip = f'pip() {{ "{sys.executable}" -m pip --quiet --python "{made}/venv/bin/python" "$@"; }}\n'
        env = {**os.environ, "PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        subprocess.run(["bash", "-c", pip + INSTALL], cwd=source, env=env, check=True, stdout=subprocess.DEVNULL)
        yield made
    finally:
        shutil.rmtree(made)


def _as_nobody() -> list[str]:
    base = Path(sys.base_prefix).resolve()
    closed = next((str(folder) for folder in reversed(base.parents) if not folder.stat().st_mode & 0o001), "")
    return ["unshare", "--mount", "sh", "-c", _AS_NOBODY, "sh", str(base), closed]


def test_the_readme_says_what_to_install_before_and_after_the_package_is_published(place: Path) -> None:
    words = [line.partition("#")[0].strip() for line in (INSTALL, CHECK)]
    assert words == ["pip install .", "beam doctor"]
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    for page in ("README.md", "docs/first-steps.md"):
        text = " ".join((TOP / page).read_text().split())
        assert re.search(rf"once (?:it|the package) is[^.]*pip install {project['name']}\b", text), page
    env = {"HOME": str(place), "PATH": f"{place}/venv/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", CHECK], cwd=place, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "missing\tclaude\tnpm install -g @anthropic-ai/claude-code\n" in done.stdout


@pytest.mark.parametrize(
    ("is_other", "is_repository"),
    [
        pytest.param(False, True, id="this user, in a git repository"),
        pytest.param(True, False, id="another user, outside"),
        pytest.param(False, False, id="this user, outside", marks=pytest.mark.soak),
        pytest.param(True, True, id="another user, in a git repository", marks=pytest.mark.soak),
    ],
)
def test_the_first_commands_of_the_readme_work_after_pip_install(
    place: Path, is_other: bool, is_repository: bool
) -> None:
    if is_other and (os.geteuid() != 0 or shutil.which("setpriv") is None):
        pytest.skip("left out: only root can be another user")
    own = Path(tempfile.mkdtemp(prefix="own-", dir=place))
    folder = own / "project"
    folder.mkdir()
    if is_repository:
        subprocess.run(["git", "init", "-q", folder], check=True)
    if is_other:
        for path in (own, *own.rglob("*")):
            os.chown(path, _NOBODY, _NOBODY)
    script = "exec 2>&1\n" + "".join(f"echo '{_MARK}'\n{step.command}\n" for step in STEPS)
    done = subprocess.run(
        [*(_as_nobody() if is_other else ()), "bash", "-c", script],
        cwd=folder,
        env={"HOME": str(own), "PATH": f"{place}/venv/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    seen = done.stdout.split(f"{_MARK}\n")[1:]
    assert len(seen) == len(STEPS), done
    assert [text for step, text in zip(STEPS, seen, strict=True) if not console.matches(step.expected, text)] == []
    assert not (folder / ".beam").exists(), "nothing is left in the project folder"


@pytest.mark.real
@pytest.mark.parametrize(
    "is_repository",
    [
        pytest.param(True, id="in a git repository", marks=pytest.mark.soak),
        pytest.param(False, id="outside"),
    ],
)
def test_three_commands_lead_from_the_installation_to_a_second_answer_with_a_changed_file(
    place: Path, agents_path: str, is_repository: bool
) -> None:
    """The first command is the installation, which made `place`; the others are what the README shows."""
    own = Path(tempfile.mkdtemp(prefix="own-", dir=place))
    folder = own / "project"
    folder.mkdir()
    (folder / "main.py").write_text("print(1)\n")
    if is_repository:
        subprocess.run(["git", "init", "-q", folder], check=True)
    with FakeModel() as model:
        env = {"HOME": str(own), "PATH": f"{place}/venv/bin:{agents_path}", "LANG": "C.UTF-8", **model.env("claude")}
        mend = (
            f"!tool Write {json.dumps({'file_path': str(folder / 'made.py'), 'content': 'print(2)'})} !then !say Done."
        )
        seen = [
            subprocess.run(
                ["beam", "send", "claude", *words],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            for words in (["What does main.py do?"], [mend, "--access", "edit"])
        ]
    assert [(done.returncode, done.stdout, done.stderr) for done in seen] == [
        (0, "ECHO[What does main.py do?] turns=1\n", ""),
        (0, "Done.\n", ""),
    ]
    assert (folder / "made.py").read_text() == "print(2)"
    assert not (folder / ".beam").exists()
