"""Finds an adapter's CLI on this machine.

Reads only PATH and the folders in it. Does not depend on the message for the CLI.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from beam.agents.base import Adapter, Host
from beam.base.errors import NotFoundError
from beam.model.settings import AgentSettings
from beam.process.environment import absolute_folders
from beam.turns.request import TurnRequest


def host_of(order: TurnRequest) -> Host:
    """Return the adapter's `Host` on this machine. Raises NotFoundError (kind not_installed) if its CLI is missing."""
    import sys

    return Host(
        executable=find_executable(order.adapter, order.settings, order.environ, order.base),
        home=order.environ.get("HOME", ""),
        python=sys.executable,
    )


def find_executable(adapter: Adapter, settings: AgentSettings, environ: Mapping[str, str], base: Path) -> str:
    """Return the absolute path of the adapter's CLI, "" if it needs none. Relative folders of PATH are not searched.

    With a runner, return the CLI's name unchanged, because the runner looks for it elsewhere. Raises NotFoundError
    (kind not_installed), whose hint says how to install the CLI.
    """
    wanted = settings.executable or adapter.card.executable
    if not wanted:
        return ""
    if settings.runner:
        return wanted  # it is looked for where the runner runs it
    if "/" in wanted:
        path = os.path.realpath(base / os.path.expanduser(wanted))  # noqa: PTH111 - as below
        found = path if os.path.isfile(path) else None  # noqa: PTH113 - pathlib's raise for names that can't be
    else:
        import shutil  # 2 ms: bz2 and lzma are imported with it

        found = shutil.which(wanted, path=absolute_folders(environ.get("PATH", os.defpath)))
    if found is None:
        raise NotFoundError(
            f"{wanted} is not installed here", adapter.card.install, subject=adapter.card.name, kind="not_installed"
        )
    return found
