"""A project in which beam is installed: its `.venv` has beam and all that beam imports, as pip would put them there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from beam.base.module_reader import PACKAGES


def install(project: Path) -> Path:
    """Make `.venv` in the project, with compiled modules, and return the path of its program `beam`."""
    venv = project / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=60)
    (site,) = (venv / "lib").glob("python*/site-packages")
    for name in PACKAGES:
        spec = find_spec(name)
        assert spec is not None, name
        if spec.submodule_search_locations:
            shutil.copytree(spec.submodule_search_locations[0], site / name)
        else:
            assert spec.origin is not None
            shutil.copy2(spec.origin, site)
    program = venv / "bin" / "beam"
    program.write_text(f"#!{venv}/bin/python\nfrom beam.cli.main import main\n\nmain()\n")
    program.chmod(0o755)
    subprocess.run([venv / "bin" / "python", "-m", "compileall", "-q", site], check=True, timeout=120)
    return program
