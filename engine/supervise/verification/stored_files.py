"""Checks that each file that a run downloaded is there, with the size that was recorded."""

from pathlib import Path
from typing import Any

from msgspec import Struct

from engine.runtime.file_folder import FileFolder
from engine.store.db.connector import Database
from engine.store.tables.row import files
from engine.store.tables.row.files import RecordedFile
from engine.store.tables.run.runs import Run

_BATCH = 1_000


class DamagedFile(Struct, frozen=True, kw_only=True):
    """A file that differs from what was recorded."""

    path: str
    """Relative to the output folder of the run."""
    reason: str
    job: int
    """A job that downloads it again."""

    def as_dict(self) -> dict[str, Any]:
        """As `state --verify --json` prints it."""
        return {"path": self.path, "reason": self.reason, "job": self.job}


def list_damaged_files(db: Database, folder: Path, run: Run) -> list[DamagedFile]:
    """The files of a run that are missing or have another size. `folder`: the data dir. Reads no content."""
    output, last, damaged = FileFolder(folder, run.id).output, "", []
    while batch := files.list_recorded(db, run.seq, last, _BATCH):
        for recorded in batch:
            reason = _find_difference(output, recorded)
            if reason:
                damaged.append(DamagedFile(path=recorded.path, reason=reason, job=recorded.job))
        last = batch[-1].path
    return damaged


def _find_difference(output: Path, recorded: RecordedFile) -> str:
    try:
        size = (output / recorded.path).stat().st_size
    except OSError as error:
        return "is missing" if isinstance(error, FileNotFoundError | NotADirectoryError) else str(error.strerror)
    return "" if size == recorded.size else f"{size:,} bytes instead of {recorded.size:,}"
