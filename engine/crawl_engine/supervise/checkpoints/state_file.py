"""Writes `state.jsonl`: the checkpoints of the run and the counts of their groups.

The program never reads the file back. A failed write does not stop the run; the next refresh retries it.
"""

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from crawl_engine.runtime.private_file import create_draft
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.row import content_sums
from crawl_engine.store.tables.row.content_sums import ContentSum
from crawl_engine.store.tables.run import checkpoints
from crawl_engine.store.tables.run.checkpoints import Checkpoint
from crawl_engine.store.tables.run.runs import Run

_log = logging.getLogger(__name__)

STATE_FILE_NAME = "state.jsonl"
_COUNTS_SECONDS = 1.0


class StateFile(Struct):
    """Rewrites the file if the tables changed, or if the file changed otherwise."""

    db: Database
    run: Run
    _entries: list[Checkpoint] = []
    _content: bytes = b""
    _signature: tuple[int, int, int] | None = None
    _failed: bool = False
    _next_at: float = 0.0

    @property
    def _path(self) -> Path:
        return self.db.path.with_name(STATE_FILE_NAME)

    def refresh(self, entries: list[Checkpoint] | None = None, *, at_once: bool = True) -> None:
        """Rewrite the file if needed. Logs the first of several write errors.

        `entries`: the checkpoints, if they were just read. Without `at_once`, new counts are written once a second; a
        changed entry always at once.
        """
        if entries is None:
            entries = checkpoints.list_checkpoints(self.db, self.run.seq)
        if not at_once and entries == self._entries and time.monotonic() < self._next_at:
            return
        records = read_state_records(self.db, self.run, entries)
        text = b"".join(orjson.dumps(record) + b"\n" for record in records)
        self._next_at = time.monotonic() + _COUNTS_SECONDS
        try:
            if text != self._content or self._signature is None or self._signature != _file_signature(self._path):
                self._write_atomically(text, durable=entries != self._entries)
            self._entries, self._failed = entries, False
        except OSError as error:
            self._signature = None
            if not self._failed:
                _log.warning("%s: %s; retrying later", self._path, error.strerror)
            self._failed = True

    def _write_atomically(self, text: bytes, *, durable: bool) -> None:
        """Write a temporary file and rename it: a reader sees the old lines or the new ones, never a part.

        `durable`: fsync before. New counts alone do not need it: a lost file is written again.
        """
        temp_path = self._path.with_name(f".{STATE_FILE_NAME}.new")
        try:
            with os.fdopen(create_draft(temp_path), "wb") as file:
                file.write(text)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            if self._path.is_dir():
                raise IsADirectoryError(21, "a directory has this name")
            temp_path.replace(self._path)
        except OSError:
            temp_path.unlink(missing_ok=True)
            raise
        self._content, self._signature = text, _file_signature(self._path)


def read_state_records(db: Database, run: Run, entries: Sequence[Checkpoint] | None = None) -> list[dict[str, Any]]:
    """The lines of the file; `entries`: the checkpoints, if they are read already."""
    if entries is None:
        entries = checkpoints.list_checkpoints(db, run.seq)
    jobs = sequences.count_by_group(db, run.seq)
    sums = content_sums.list_sums(db, run.seq)
    return [checkpoints.to_state_record(c, run.id, jobs.get(c.group), sums.get(c.group, ContentSum())) for c in entries]


def _file_signature(path: Path) -> tuple[int, int, int] | None:
    """Inode, size and mtime, which change with the file; None if it is missing."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
