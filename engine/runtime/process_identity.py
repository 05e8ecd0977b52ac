"""Who a process is: its number alone is not enough, since numbers are used again. Knows nothing of nodes or tables."""

import subprocess
from pathlib import Path

from engine.runtime.clock import boot_id

_DEAD_STATES = ("Z", "X")
_STATE, _START_TIME = 0, 19
"""Places in /proc/PID/stat behind the command's closing parenthesis."""


def identity_of(pid: int) -> str | None:
    """`boot id:pid:start time` of a living process; None where there is none, or only its unreaped remains."""
    started = _start_time_from_proc(pid) if Path("/proc/self/stat").exists() else _start_time_from_ps(pid)
    return None if started is None else f"{boot_id()}:{pid}:{started}"


def _start_time_from_proc(pid: int) -> str | None:
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # the command may hold spaces and parentheses: what follows the last one is in fixed places
    fields = told.rpartition(b")")[2].decode("ascii", "replace").split()
    return None if fields[_STATE] in _DEAD_STATES else fields[_START_TIME]


def _start_time_from_ps(pid: int) -> str | None:
    told = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False, env={"LC_ALL": "C"}
    )
    state, _, started = told.stdout.strip().partition(" ")
    return started.strip() if state and state[0] not in _DEAD_STATES else None


def is_process_alive(identity: str) -> bool:
    """Whether the process of an identity is alive; False for one that is no identity."""
    try:
        return identity_of(int(identity.split(":")[1])) == identity
    except (IndexError, ValueError):
        return False
