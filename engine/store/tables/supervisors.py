"""Supervisor epochs, and what a data dir remembers of its machine. Alone in writing `supervisors` and `meta`."""

from dataclasses import dataclass

from engine.runtime.clock import boot_id, boottime
from engine.store.db.connector import Database

_BEGIN = "INSERT INTO supervisors (identity, run, started_at) VALUES (?, ?, ?) RETURNING epoch"
_END_ALL = "UPDATE supervisors SET ended_at = ? WHERE ended_at IS NULL"
_END = "UPDATE supervisors SET ended_at = ? WHERE epoch = ? AND ended_at IS NULL"
_CURRENT = "SELECT epoch, identity, run FROM supervisors WHERE ended_at IS NULL ORDER BY epoch DESC LIMIT 1"
_ALIVE = "SELECT 1 FROM supervisors WHERE epoch = ? AND ended_at IS NULL"
_SET = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_GET = "SELECT value FROM meta WHERE name = ?"


@dataclass(frozen=True, slots=True)
class Epoch:
    """A supervisor's time in office."""

    epoch: int
    identity: str
    run: int | None


def begin(db: Database, identity: str, run: int, now: float) -> int:
    """A new epoch; all earlier ones are over."""
    db.execute(_END_ALL, (now,))
    return int(db.value(_BEGIN, (identity, run, now)))


def end(db: Database, epoch: int, now: float) -> None:
    """This supervisor is done."""
    db.execute(_END, (now, epoch))


def current(db: Database) -> Epoch | None:
    """The epoch that has not ended; its supervisor may have crashed (ask the lock)."""
    row = db.one(_CURRENT)
    return None if row is None else Epoch(int(row[0]), str(row[1]), row[2])


def is_alive(db: Database, epoch: int) -> bool:
    """Whether an epoch still holds."""
    return db.one(_ALIVE, (epoch,)) is not None


def set_meta(db: Database, name: str, value: str) -> None:
    """Keep a fact about the data dir."""
    db.execute(_SET, (name, value))


def record_clock(db: Database) -> None:
    """Remember which boot this is and how old: after the next one, what was left of each wait is told from it."""
    set_meta(db, "boot", f"{boot_id()} {boottime()}")


def get_meta(db: Database, name: str) -> str | None:
    """A fact kept by `remember`."""
    value = db.value(_GET, (name,))
    return None if value is None else str(value)
