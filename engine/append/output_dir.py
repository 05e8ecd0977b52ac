"""The folder a run's outputs lie in: made, held by one process alone, and pointed to by `latest`."""

import fcntl
import os
from pathlib import Path

from engine.append.files import fsync_dir

LATEST = "latest"


class OutputDir:
    """`DATA/output/<run id>`. The lock ends with the process that holds it."""

    def __init__(self, data: Path, run: str) -> None:
        self.path = data.absolute() / "output" / run
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock_fd = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def try_lock(self) -> bool:
        """Take the lock; False while another process has it."""
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def link_latest(self) -> None:
        """Make `output/latest` lead here, in one step."""
        link = self.path.parent / LATEST
        beside = link.with_name(f".{LATEST}.new")
        beside.unlink(missing_ok=True)
        beside.symlink_to(self.path.name, target_is_directory=True)
        beside.replace(link)
        fsync_dir(self.path.parent)

    def close(self) -> None:
        """Let the next one have it."""
        os.close(self._lock_fd)
