"""Identifies a process by boot id, pid and start time: a pid alone may be reused; finds its data dir."""

import os
import re
import subprocess
from pathlib import Path

from crawl_engine.runtime.clock import boot_id

_DATA_DIR = re.compile(rb"[\0 ]--data[\0 ]([^\0]+)")
"""In a command line: an argument of its own, or behind a blank in the text that a process has set."""
_DEAD_STATES = ("Z", "X")
_STATE, _START_TIME = 0, 19
"""Field numbers in /proc/PID/stat, counted from behind the command's closing parenthesis."""


def identity_of(pid: int) -> str | None:
    """`boot id:pid:start time` of a living process; None if it does not exist or is a zombie."""
    started = _start_time_from_proc(pid) if Path("/proc/self/stat").exists() else _start_time_from_ps(pid)
    return None if started is None else f"{boot_id()}:{pid}:{started}"


def _start_time_from_proc(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # the command may hold spaces and parentheses: only fields behind the last one have fixed positions
    fields = stat.rpartition(b")")[2].decode("ascii", "replace").split()
    return None if fields[_STATE] in _DEAD_STATES else fields[_START_TIME]


def _start_time_from_ps(pid: int) -> str | None:
    result = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False, env={"LC_ALL": "C"}
    )
    state, _, started = result.stdout.strip().partition(" ")
    return started.strip() if state and state[0] not in _DEAD_STATES else None


def data_dir_of(pid: int) -> str | None:
    """The data dir in the command line of a crawl's process; None: it has none, or the system does not tell."""
    try:
        found = _DATA_DIR.search(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return None
    return None if found is None else os.fsdecode(found[1])


def is_process_alive(identity: str) -> bool:
    """Whether the process of an identity is alive; False for an invalid identity."""
    try:
        return identity_of(int(identity.split(":")[1])) == identity
    except (IndexError, ValueError):
        return False
