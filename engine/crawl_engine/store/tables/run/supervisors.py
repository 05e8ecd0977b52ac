"""Writes the tables `supervisors` (one epoch for each start) and `meta` (names with values)."""

import os
from collections.abc import Sequence

from msgspec import Struct, json

from crawl_engine.runtime.clock import boot_id, store_time
from crawl_engine.runtime.process_identity import is_process_alive
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.job.jobs import NOW

_BEGIN = "INSERT INTO supervisors (identity, run, started_at) VALUES (?, ?, ?) RETURNING epoch"
_LIVING_SECONDS = 5.0
"""A machine that was silent for longer has been ended, or soon is."""
_CURRENT = f"""
SELECT epoch, identity, run, {NOW} - beat_at AS heart FROM supervisors WHERE ended_at IS NULL
ORDER BY CASE role WHEN 'LEADER' THEN 0 ELSE 1 END, epoch DESC LIMIT 1
"""
_SET = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
SETTINGS = "settings"
"""The metadata key for the settings of the latest supervisor, whose host policies posted seeds must obey."""
_HELPERS, _IDENTITY, _CLOCK = "helpers", "identity", "boot"
_DATABASE_CLOCK = "database"


class Epoch(Struct, frozen=True):
    epoch: int
    identity: str
    run: int | None
    heart: float | None = None
    """Seconds since the last beat of a machine that shares its database; None: it is alone."""

    @property
    def is_alive(self) -> bool:
        """Whether its process runs, on whichever machine."""
        return is_process_alive(self.identity) if self.heart is None else self.heart <= _LIVING_SECONDS

    @property
    def pid(self) -> int | None:
        """The pid in its identity; None if it is not alive."""
        return int(self.identity.split(":")[1]) if self.is_alive else None


class HelperRow(Struct, frozen=True, kw_only=True):
    """A helper of the supervisor. `state`: `starting`, `ready`, `restarting`, `stopping`."""

    name: str
    state: str
    pid: int | None
    restarts: int
    identity: str
    """Of its process; empty if it has none."""


def begin(db: Database, identity: str, run: int, now: float) -> int:
    """Start a new epoch and end all earlier ones."""
    db.execute("UPDATE supervisors SET ended_at = ? WHERE ended_at IS NULL", (now,))
    return int(db.value(_BEGIN, (identity, run, now)))


def end(db: Database, epoch: int, now: float) -> None:
    db.execute("UPDATE supervisors SET ended_at = ? WHERE epoch = ? AND ended_at IS NULL", (now, epoch))


def current(db: Database) -> Epoch | None:
    """The epoch that has not ended, of several machines that of the leader; it may have crashed (check the lock)."""
    return db.row(Epoch, _CURRENT)


def set_meta(db: Database, name: str, value: str) -> None:
    db.execute(_SET, (name, value))


def ensure_identity(db: Database) -> str:
    """What tells this data directory from others, wherever it is moved; made by the first call."""
    identity = get_meta(db, _IDENTITY)
    if identity is None:
        identity = os.urandom(8).hex()
        set_meta(db, _IDENTITY, identity)
    return identity


def set_helpers(db: Database, helpers: Sequence[HelperRow]) -> None:
    """Store which helpers run: for viewers, and for the next supervisor if this one is killed."""
    set_meta(db, _HELPERS, json.encode(helpers).decode())


def list_helpers(db: Database) -> list[HelperRow]:
    """The helpers that were stored last; their supervisor may have been killed."""
    return json.decode(get_meta(db, _HELPERS) or "[]", type=list[HelperRow])


def record_clock(db: Database) -> None:
    """Store which clock the deadlines follow, and its time: under another clock, the rest of each is kept."""
    set_meta(db, _CLOCK, f"{_clock_id(db)} {store_time()}")


def clock_shift(db: Database) -> float | None:
    """The seconds by which stored deadlines move after a reboot or a copy of the store; None: their clock runs on."""
    clock, _, last = (get_meta(db, _CLOCK) or "").partition(" ")
    return None if not last or clock == _clock_id(db) else store_time() - float(last)


def _clock_id(db: Database) -> str:
    return _DATABASE_CLOCK if db.is_shared else boot_id()


def get_meta(db: Database, name: str) -> str | None:
    return db.value("SELECT value FROM meta WHERE name = ?", (name,))
