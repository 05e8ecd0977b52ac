"""The file `state.jsonl`: the checkpoints of the run, a projection of their table that nobody ever reads back.

Whatever becomes of it, the run goes on: it is written again at the next look.
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
    """Writes the file anew where the table has changed, or where the file is not as it was left."""

    def __init__(self, db: Database, folder: Path, run: Run) -> None:
        self._db = db
        self._path = folder / STATE_FILE_NAME
        self._run = run
        self._content = b""
        self._signature: tuple[int, int, int] | None = None
        self._failed = False

    def refresh(self) -> None:
        """Write it, if it is due. A disk that is full or broken is logged, once."""
        found = checkpoints.list_checkpoints(self._db, self._run.seq)
        text = b"".join(orjson.dumps(checkpoints.to_state_record(c, self._run.id)) + b"\n" for c in found)
        try:
            if text != self._content or self._signature is None or self._signature != _file_signature(self._path):
                self._write_atomically(text)
            self._failed = False
        except OSError as error:
            self._signature = None
            if not self._failed:
                _log.warning("%s: %s; it is written again later", self._path, error.strerror)
            self._failed = True

    def _write_atomically(self, text: bytes) -> None:
        """Write beside, fsync, rename: at any time the old lines or the new ones, whole."""
        beside = self._path.with_name(f".{STATE_FILE_NAME}.new")
        try:
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if self._path.is_dir():
                raise IsADirectoryError(21, "a directory stands in its place")
            beside.replace(self._path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        self._content, self._signature = text, _file_signature(self._path)


def _file_signature(path: Path) -> tuple[int, int, int] | None:
    """What tells a file from another, or from itself after a change; None: it is missing."""
    try:
        seen = path.stat()
    except FileNotFoundError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns
