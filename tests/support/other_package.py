"""A package of somebody else, as pip would have installed it: modules and a `*.dist-info` in a folder of the path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.markdown import blocks

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-agent.md"


def oracle() -> str:
    """The whole adapter of docs/adding-an-agent.md."""
    (source,) = [block.text for block in blocks(PAGE.read_text(), "python") if block.note == "adapter"]
    return source


def installed(
    site: Path,
    modules: Mapping[str, str],
    entries: Mapping[str, str],
    *,
    name: str = "oracle-beam",
    version: str = "1.0",
) -> Path:
    """Makes a distribution with these modules (name -> source) and entry points of beam's group (name -> value)."""
    site.mkdir(parents=True, exist_ok=True)
    for module, source in modules.items():
        path = site / f"{module}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = "".join(f"{entry} = {value}\n" for entry, value in entries.items())
    (info / "entry_points.txt").write_text(f"[beam.agents]\n{lines}")
    (info / "RECORD").write_text("")
    return site
