"""Decides whether a node takes new jobs: role, drain order and free disk space."""

import threading
from pathlib import Path

from engine.runtime.disk_space import DiskSpaceMonitor, data_paths


class Intake:
    """The switches that open and close a node's intake. Readable from any thread."""

    def __init__(self, folder: Path, *, standby: bool, min_free: int) -> None:
        """`standby`: a backup takes no job until it becomes a runner. `min_free`: bytes; 0 disables the check."""
        self.standby = standby
        self.draining = threading.Event()
        self.orphaned = threading.Event()
        """Set when the supervisor is gone."""
        self._disk_space = DiskSpaceMonitor(data_paths(folder), min_free)

    @property
    def accepts_jobs(self) -> bool:
        """Whether the node may lease now. Checks the disk, at most once a second."""
        return not (self.standby or self.draining.is_set() or self._disk_space.is_low())

    @property
    def alarm(self) -> str:
        """Why the node takes no job although it has free slots; empty where nothing is wrong.

        Checks the disk, too: a node that asks for no jobs, such as one of a paused run, says it all the same.
        """
        self._disk_space.is_low()
        return self._disk_space.alarm
