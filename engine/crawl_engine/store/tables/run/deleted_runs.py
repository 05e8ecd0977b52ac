"""Writes the table `deleted_runs`: deleted runs, whose ids are never used again."""

from msgspec import Struct

from crawl_engine.store.db.connector import Database

_ADD = (
    "INSERT INTO deleted_runs (run, id, created_at, deleted_at) SELECT seq, id, created_at, ? FROM runs WHERE seq = ?"
)
_OPEN = "SELECT run AS seq, id FROM deleted_runs WHERE complete = 0 ORDER BY run"
_COMPLETE = "UPDATE deleted_runs SET complete = 1 WHERE run = ?"


class DeletedRun(Struct, frozen=True):
    seq: int
    id: str


def begin(db: Database, run: int, now: float) -> None:
    """From now on the run does not exist for any reader; its rows are still there. In the open transaction."""
    db.execute(_ADD, (now, run))
    db.execute("DELETE FROM runs WHERE seq = ?", (run,))


def list_open(db: Database) -> list[DeletedRun]:
    """Runs of which something is left, the oldest first."""
    return db.rows(DeletedRun, _OPEN)


def complete(db: Database, run: int) -> None:
    """Record that nothing of the run is left."""
    db.execute(_COMPLETE, (run,))


def is_deleted(db: Database, id_: str) -> bool:
    """Whether there was such a run."""
    return bool(db.value("SELECT EXISTS (SELECT 1 FROM deleted_runs WHERE id = ?)", (id_,)))


def has_any_before(db: Database, run: int) -> bool:
    """Whether a run with a number below that was deleted."""
    return bool(db.value("SELECT EXISTS (SELECT 1 FROM deleted_runs WHERE run < ?)", (run,)))
