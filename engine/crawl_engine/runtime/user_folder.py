"""Finds the folder in which the programs of one user keep what outlives a crawl."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_STATE_HOME/crawl-console`, else below `~/.local/state`.

    Raises OSError if that variable is not set and the user has no home directory, as in some containers.
    """
    base = environment.get("XDG_STATE_HOME")
    try:
        state = Path(base) if base else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise OSError(errno.ENOENT, "this user has no home directory, and XDG_STATE_HOME is not set") from error
    return state / "crawl-console"
