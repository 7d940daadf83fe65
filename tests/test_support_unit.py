"""`pytest --unit` leaves out what is longer, and fails a test that starts a process; `--beyond-unit` runs the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
TESTS = """
import subprocess
import pytest

@pytest.fixture
def started():
    subprocess.run(["true"])

def test_quick(): pass

@pytest.mark.slow
def test_longer(): assert False

@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_some(number): assert number == 1

def test_starts(): subprocess.run(["true"])

def test_starts_in_a_fixture(started): pass
"""


BEYOND = """
import pytest

def test_quick(): pass

@pytest.mark.parametrize("number", [1, 2])
def test_quick_ones(number): pass

@pytest.mark.slow
def test_longer(): pass

@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_some(number): assert number == 2

@pytest.mark.parametrize("number", iter([1, pytest.param(2, marks=pytest.mark.slow)]))
def test_iterated(number): assert number == 2

class TestOf:
    pytestmark = pytest.mark.slow

    def test_in_a_longer_class(self): pass
"""
FIXTURE = """
import pytest

@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.slow)])
def number(request):
    return request.param

def test_given(number): assert number == 2
"""


@pytest.mark.slow
def test_what_is_longer_is_left_out_and_a_test_that_starts_a_process_fails(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_other.py").write_text("import pytest\npytestmark = pytest.mark.real\nimport nowhere\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.conftest", "-q", "--unit"]
    done = subprocess.run([*command, tmp_path], cwd=TOP, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done
    assert "2 failed, 2 passed, 1 deselected" in done.stdout
    said = "Failed: a unit test starts no process (subprocess.Popen): mark it `slow`"
    assert sum(line.startswith("E ") and said in line for line in done.stdout.splitlines()) == 2, done.stdout
    assert "FAILED" in done.stdout and "test_starts_in_a_fixture" in done.stdout


@pytest.mark.slow
def test_beyond_unit_runs_every_longer_test_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(BEYOND)
    (tmp_path / "test_given.py").write_text(FIXTURE)
    (tmp_path / "test_unit.py").write_text("import nowhere\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.conftest", "-q", "--beyond-unit"]
    done = subprocess.run([*command, "-rA", tmp_path], cwd=TOP, capture_output=True, text=True, check=False, timeout=60)
    ran = {line.rpartition("::")[2] for line in done.stdout.splitlines() if line.startswith("PASSED")}
    assert ran == {"test_longer", "test_some[2]", "test_iterated[2]", "test_in_a_longer_class", "test_given[2]"}, done
    assert done.returncode == 0, done
