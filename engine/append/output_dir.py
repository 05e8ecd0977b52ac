"""The output folder of a run: locked by one appender, and linked as `latest`."""

import fcntl
import os
from pathlib import Path

from engine.append.files import fsync_dir

LATEST = "latest"


class OutputDir:
    """`DATA/output/<run id>`. The kernel releases the lock when its process ends."""

    def __init__(self, data: Path, run: str) -> None:
        self.path = data.absolute() / "output" / run
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock_fd = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def try_lock(self) -> bool:
        """Take the lock; False while another process holds it."""
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def link_latest(self) -> None:
        """Point `output/latest` to this folder, atomically."""
        link = self.path.parent / LATEST
        temp_path = link.with_name(f".{LATEST}.new")
        temp_path.unlink(missing_ok=True)
        temp_path.symlink_to(self.path.name, target_is_directory=True)
        temp_path.replace(link)
        fsync_dir(self.path.parent)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock_fd)
