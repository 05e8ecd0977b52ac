"""Writes keys.db: digests of row keys by dataDef, with the first run that had each row.

It is a cache: built from the rows of earlier runs for outputs with only new rows, and safe to delete at any time. It is
rebuilt if its crawl.db was replaced, or if it is damaged.
"""

from collections.abc import Sequence
from pathlib import Path

from crawl_engine.errors import StorageError
from crawl_engine.store.db.connector import Database
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.tables.row.seen_rows import find_digests

KEYS = "keys.db"

_TABLES = (
    "CREATE TABLE IF NOT EXISTS origin (crawl TEXT NOT NULL)",
    """
    CREATE TABLE IF NOT EXISTS scopes (
        id       INTEGER PRIMARY KEY,
        data_def TEXT NOT NULL,
        fields   TEXT NOT NULL,                    -- JSON: the key; empty: the whole row
        cursor   INTEGER NOT NULL DEFAULT 0,       -- rows up to this id are included
        run      INTEGER NOT NULL DEFAULT 0,       -- the run of the last of these rows, and its id
        run_id   TEXT NOT NULL DEFAULT '',
        UNIQUE (data_def, fields)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS keys (
        scope  INTEGER NOT NULL,
        digest BLOB NOT NULL,
        run    INTEGER NOT NULL,                   -- the first that had the row
        PRIMARY KEY (scope, digest)
    ) WITHOUT ROWID
    """,
)
_CRAWL_IDENTITY = "SELECT value FROM meta WHERE name = 'identity'"
_RUN_ID = "SELECT id FROM runs WHERE seq = ?1 UNION ALL SELECT id FROM deleted_runs WHERE run = ?1"
_ENSURE = "INSERT INTO scopes (data_def, fields) VALUES (?, ?) ON CONFLICT DO NOTHING"
_SCOPE = "SELECT id, cursor, run, run_id FROM scopes WHERE data_def = ? AND fields = ?"
_MOVE = "UPDATE scopes SET cursor = ?, run = ?, run_id = ? WHERE id = ?"
_RESET = ("DELETE FROM keys", "DELETE FROM scopes", "DELETE FROM origin")
_ADD = "INSERT INTO keys (scope, digest, run) {values} ON CONFLICT DO NOTHING"
_FIND_SEEN = "SELECT digest FROM keys WHERE scope = ? AND run < ? AND digest IN ({digests})"


class RowKeys:
    """An open keys.db beside, or for, the crawl.db that `crawl` is a connection on."""

    def __init__(self, path: Path, crawl: Database) -> None:
        """Raises DatabaseBusy, and StorageError if the file cannot be created."""
        self._crawl = crawl
        try:
            self._db = self._open(path)
        except StorageError as error:
            if ": damaged (" not in error.message:
                raise
            for tail in ("", "-wal", "-shm"):
                path.with_name(path.name + tail).unlink(missing_ok=True)
            self._db = self._open(path)

    def ensure_scope(self, data_def: str, fields: str) -> tuple[int, int]:
        """The id of a dataDef's key, and the last row whose key is stored."""
        with self._db.transaction():
            self._db.execute(_ENSURE, (data_def, fields))
            scope = self._db.one(_SCOPE, (data_def, fields))
        assert scope is not None
        return int(scope[0]), int(scope[1])

    def add(self, scope: int, keys: Sequence[tuple[bytes, int]], *, after: int, upto: int, run: int) -> int:
        """Store the digests of the rows after `after` up to `upto`, with their runs; returns the cursor.

        If another process was faster, nothing is written and its cursor is returned.
        """
        run_id = self._crawl.value(_RUN_ID, (run,)) or ""
        with self._db.transaction():
            cursor = int(self._db.value("SELECT cursor FROM scopes WHERE id = ?", (scope,)))
            if cursor != after:
                return cursor
            # sorted, so that neighbours go to the same database page
            self._db.execute_values(_ADD, sorted((scope, digest, first) for digest, first in keys))
            self._db.execute(_MOVE, (upto, run, run_id, scope))
        return upto

    def has_earlier(self, scope: int, before: int) -> bool:
        """Whether a run with a number below `before` had a row."""
        return bool(self._db.value("SELECT EXISTS (SELECT 1 FROM keys WHERE scope = ? AND run < ?)", (scope, before)))

    def find_seen(self, scope: int, digests: Sequence[bytes], before: int) -> set[bytes]:
        """The digests that a run with a number below `before` had."""
        return find_digests(self._db, _FIND_SEEN, (scope, before), digests)

    def close(self) -> None:
        self._db.close()

    def _open(self, path: Path) -> Database:
        # not durable: what a power failure loses is rebuilt; a crash of the process loses nothing
        db = SqliteDatabase.open(path, creates=True, durable=False, busy_seconds=5)
        try:
            db.execute("PRAGMA cache_size = -32000")
            retry_busy(lambda: self._ensure_tables(db), seconds=30)
        except BaseException:
            db.close()
            raise
        return db

    def _ensure_tables(self, db: Database) -> None:
        crawl = str(self._crawl.value(_CRAWL_IDENTITY) or "")
        with db.transaction():
            for table in _TABLES:
                db.execute(table)
            if db.value("SELECT crawl FROM origin") == crawl and not self._is_rewound(db):
                return
            for statement in _RESET:
                db.execute(statement)
            db.execute("INSERT INTO origin (crawl) VALUES (?)", (crawl,))

    def _is_rewound(self, db: Database) -> bool:
        """Whether crawl.db was restored from an older copy, so that its runs since then differ."""
        known = db.all("SELECT run, run_id FROM scopes WHERE run > 0")
        return any(self._crawl.value(_RUN_ID, (run,)) != run_id for run, run_id in known)
