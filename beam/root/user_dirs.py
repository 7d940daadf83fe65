"""Names the directories of this user: state, configuration, home (XDG base directory specification).

Does not depend on any setting.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from beam.base.errors import DiskError


def state_dir(environ: Mapping[str, str]) -> Path:
    """Return beam's state directory of this user: `$BEAM_STATE`, else `$XDG_STATE_HOME/beam`."""
    if environ.get("BEAM_STATE", "").startswith("/"):
        return Path(environ["BEAM_STATE"])
    return _xdg(environ, "XDG_STATE_HOME", ".local/state")


def config_dir(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_CONFIG_HOME/beam`, the directory of this user's settings for all folders."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config")


def data_dir(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_DATA_HOME/beam`, the directory of the work trees of scenarios. Agents may write in these work
    trees."""
    return _xdg(environ, "XDG_DATA_HOME", ".local/share")


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> Path:
    named = environ.get(variable, "")
    if named.startswith("/"):  # the XDG specification has relative paths ignored
        return Path(named) / "beam"
    return user_home(environ) / default / "beam"


def user_home(environ: Mapping[str, str]) -> Path:
    """Return `$HOME`, else the home directory in the user database. Raises DiskError if both are unknown."""
    if environ.get("HOME", "").startswith("/"):
        return Path(environ["HOME"])
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError as error:
        raise DiskError("this user has no home directory", "set HOME to a folder of your own") from error
