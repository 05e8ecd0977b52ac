"""The folder of downloaded files of a run, with the parts of incomplete ones."""

import contextlib
import os
import shutil
import signal
import threading
from pathlib import Path

from crawl_engine.model.file import FILES_FOLDER

_PARTS = ".part"
BROWSERS = "browsers"
"""The folder of the profiles of browsers in a data dir."""
_BROWSER_MARK = b"TMPDIR=/proc/self/cwd"
"""In the environment of the processes of browsers."""


class FileFolder:
    """`DATA/output/<run id>/files`."""

    def __init__(self, data: Path, run: str) -> None:
        self.output = data.absolute() / "output" / run
        """The output folder of the run, to which the paths of files are relative."""
        self.path = self.output / FILES_FOLDER
        self.parts = self.path / _PARTS
        self._sync_lock = threading.Lock()
        self._syncs_begun = 0

    def sync(self) -> None:
        """Flush the names in the folder to the disk. Raises OSError. Waiting threads share the next flush."""
        seen = self._syncs_begun
        with self._sync_lock:
            if self._syncs_begun > seen:
                return  # it began after this call, and is complete
            self._syncs_begun += 1
            fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def create(self) -> None:
        """Create the folder and that of its parts. Raises OSError."""
        for path in (self.output, self.path, self.parts):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def part(self, name: str) -> Path:
        """The incomplete content of a file. `name`: the identity of its job, in hex."""
        return self.parts / name

    def note(self, name: str) -> Path:
        """The file with the data needed to continue it."""
        return self.parts / f"{name}.json"

    def held(self, name: str) -> Path:
        """A second name of an earlier run's file, while the site is asked whether it has changed."""
        return self.parts / f"{name}.held"

    def remove_parts(self) -> None:
        """Delete the rest of incomplete downloads, and the folder if it is empty."""
        shutil.rmtree(self.parts, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()


def remove_profiles(data: Path) -> None:
    """End the browsers of processes that were killed, which may hang, and delete what they have left."""
    folder = (data / BROWSERS).resolve()
    if not folder.exists():
        return
    for pid in list_working_in(folder):
        with contextlib.suppress(OSError):
            if _BROWSER_MARK in Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def list_working_in(folder: Path) -> list[int]:
    """The processes whose working directory lies in a folder, as those of browsers do; none where /proc is missing."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if link.readlink().is_relative_to(folder):
                found.append(int(link.parent.name))
    return found


def remove_dead_parts(data: Path, run: str) -> None:
    """Delete the parts of all runs but this one: earlier runs are not continued."""
    for path in (data.absolute() / "output").glob("*"):
        if path.name != run and not path.is_symlink():
            FileFolder(data, path.name).remove_parts()
