"""A tree's processes are counted with their memory, by pid and start; what is gone counts for nothing."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from beam.process import load, tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc")


@pytest.mark.slow
def test_a_tree_is_its_roots_and_all_below_them() -> None:
    parent = subprocess.Popen(["sh", "-c", "sleep 60 & echo; wait"], stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        parent.stdout.readline()
        owner = msgspec.structs.replace(
            tree.this_process(), pid=parent.pid, start_ticks=tree.start_ticks(parent.pid) or 0
        )
        found = load.load_of_trees([owner, owner])
        assert found is not None
        assert found.processes == 2
        assert found.rss_bytes > 100_000
        other = msgspec.structs.replace(owner, start_ticks=owner.start_ticks + 1)
        assert load.load_of_trees([other]) == load.Load(0, 0)
        assert load.load_of_trees([msgspec.structs.replace(owner, boot_id="", host="elsewhere")]) is None
    finally:
        subprocess.run(["pkill", "-P", str(parent.pid)], check=False)
        parent.kill()
        parent.communicate()


def test_no_process_at_all_is_none_and_no_memory() -> None:
    assert load.load_of_trees([]) == load.Load(0, 0)
    assert load.rss_bytes(2**22 + 1) is None
