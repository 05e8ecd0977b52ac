"""Finds the process that holds the write lock of a database, in /proc/locks (Linux only)."""

from pathlib import Path

_LOCKS = Path("/proc/locks")
_WAL_WRITE_LOCK = "120"
"""The byte of the -shm file that a writer locks in WAL mode (SQLite's walformat: WAL_WRITE_LOCK)."""


def find_writer_pid(database: Path) -> int | None:
    """The pid of the process that writes to a database now; None if no process does, or the system cannot tell."""
    try:
        inode = str(Path(f"{database}-shm").stat().st_ino)
        locks = _LOCKS.read_text("ascii", "replace")
    except OSError:
        return None
    for line in locks.splitlines():
        # 12: POSIX  ADVISORY  WRITE 4121 08:01:131074 120 120
        parts = line.split()
        if (
            len(parts) == 8
            and parts[3] == "WRITE"
            and parts[6] == _WAL_WRITE_LOCK
            and parts[5].rpartition(":")[2] == inode
        ):
            return int(parts[4])
    return None
