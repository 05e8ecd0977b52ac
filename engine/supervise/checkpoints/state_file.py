"""Writes `state.jsonl`: the checkpoints of the run, as a projection of their table.

The program never reads the file back. A failed write does not stop the run; the next refresh retries it.
"""

import logging
import os
from pathlib import Path

import orjson

from engine.store.db.connector import Database
from engine.store.tables import checkpoints
from engine.store.tables.runs import Run

_log = logging.getLogger(__name__)

STATE_FILE_NAME = "state.jsonl"


class StateFile:
    """Rewrites the file if the table changed, or if the file is not as it was written."""

    def __init__(self, db: Database, folder: Path, run: Run) -> None:
        self._db = db
        self._path = folder / STATE_FILE_NAME
        self._run = run
        self._content = b""
        self._signature: tuple[int, int, int] | None = None
        self._failed = False

    def refresh(self) -> None:
        """Rewrite the file if needed. Logs the first of several write errors."""
        entries = checkpoints.list_checkpoints(self._db, self._run.seq)
        text = b"".join(orjson.dumps(checkpoints.to_state_record(c, self._run.id)) + b"\n" for c in entries)
        try:
            if text != self._content or self._signature is None or self._signature != _file_signature(self._path):
                self._write_atomically(text)
            self._failed = False
        except OSError as error:
            self._signature = None
            if not self._failed:
                _log.warning("%s: %s; retrying later", self._path, error.strerror)
            self._failed = True

    def _write_atomically(self, text: bytes) -> None:
        """Write a temporary file, fsync, rename: a reader sees the old lines or the new ones, never a part."""
        temp_path = self._path.with_name(f".{STATE_FILE_NAME}.new")
        try:
            with os.fdopen(os.open(temp_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if self._path.is_dir():
                raise IsADirectoryError(21, "a directory has this name")
            temp_path.replace(self._path)
        except OSError:
            temp_path.unlink(missing_ok=True)
            raise
        self._content, self._signature = text, _file_signature(self._path)


def _file_signature(path: Path) -> tuple[int, int, int] | None:
    """Inode, size and mtime, which change with the file; None if it is missing."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
