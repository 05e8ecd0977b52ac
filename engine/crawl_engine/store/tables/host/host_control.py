"""Writes what an operator sets for a host at run time: pause, delay and concurrency."""

from typing import NamedTuple

from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.host import refusals
from crawl_engine.store.tables.host.hosts import EFFECTIVE_CONCURRENCY, EFFECTIVE_DELAY, LIMITER, NAME

_FIND = f"""
SELECT key FROM hosts WHERE run = :run AND (key = :name OR {NAME} = :name)
ORDER BY key LIMIT 3
"""
_SET = """
UPDATE hosts SET paused = coalesce(:paused, paused), operator_delay = coalesce(:delay, operator_delay),
    operator_concurrency = coalesce(:concurrency, operator_concurrency)
WHERE run = :run AND key = :key
"""
_RESET = "UPDATE hosts SET paused = 0, operator_delay = NULL, operator_concurrency = NULL WHERE run = ? AND key = ?"
_LIMITER_OF = f"(SELECT {LIMITER} FROM hosts h WHERE h.run = :run AND h.key = :key)"
_END_REST = f"""
UPDATE hosts SET backoff_until = NULL, strikes = 0, rest_reason = NULL
WHERE id = {_LIMITER_OF} AND backoff_until > :now RETURNING id
"""
# a send time reserved under a longer delay comes earlier: no job has it yet
_BRING_FORWARD = f"""
UPDATE hosts AS h SET next_at = min(next_at, :now + {EFFECTIVE_DELAY}) WHERE id = {_LIMITER_OF} AND next_at IS NOT NULL
"""
_READ = f"""
SELECT paused, {EFFECTIVE_DELAY} AS delay, {EFFECTIVE_CONCURRENCY} AS concurrency, delay AS defs_delay,
    concurrency AS defs_concurrency, crawl_delay, robots <> 'OFF' AS obeys_robots, operator_delay, operator_concurrency
FROM hosts h WHERE run = ? AND key = ?
"""


class HostControl(NamedTuple):
    """What applies to a host, what the defs say, and what an operator set (None: nothing)."""

    paused: bool
    delay: float
    concurrency: int
    defs_delay: float
    defs_concurrency: int
    crawl_delay: float
    obeys_robots: bool
    operator_delay: float | None
    operator_concurrency: int | None


def find_keys(db: Database, run: int, name: str) -> list[str]:
    """The hosts (`name:port`) of a run with this key or name, at most three."""
    return db.column(_FIND, {"run": run, "name": name})


def list_some(db: Database, run: int, limit: int) -> list[str]:
    return db.column("SELECT key FROM hosts WHERE run = ? ORDER BY key LIMIT +?", (run, limit))


def count_paused(db: Database, run: int) -> int:
    """How many hosts an operator paused."""
    return int(db.value("SELECT count(*) FROM hosts WHERE run = ? AND paused <> 0", (run,)))


def set_limits(
    db: Database, run: int, key: str, now: float, *, paused: bool | None = None, delay: float | None = None,
    concurrency: int | None = None,
) -> None:  # fmt: skip
    """Set those that are given. `delay`: seconds; `now`: boot-time seconds."""
    limits = {"paused": None if paused is None else int(paused), "delay": delay, "concurrency": concurrency}
    db.execute(_SET, {**limits, "run": run, "key": key})
    db.execute(_BRING_FORWARD, {"now": now, "run": run, "key": key})


def reset(db: Database, run: int, key: str, now: float) -> None:
    """Go back to the defs' values, not paused. `now`: boot-time seconds."""
    db.execute(_RESET, (run, key))
    db.execute(_BRING_FORWARD, {"now": now, "run": run, "key": key})


def end_rest(db: Database, run: int, key: str, now: float) -> bool:
    """End the rest of a host that refused requests; False: it does not rest, and was not given up.

    `now`: boot-time seconds.
    """
    given_up = refusals.forget(db, db.column("SELECT id FROM hosts WHERE run = ? AND key = ?", (run, key)))
    return bool(db.all(_END_REST, {"run": run, "key": key, "now": now})) or given_up


def read_limited(db: Database, run: int, key: str) -> str:
    """What the limits of a host (`name:port`) are of: itself, or the pattern of hosts that have them together."""
    return str(db.value("SELECT coalesce(pool, key) FROM hosts WHERE run = ? AND key = ?", (run, key)))


def read(db: Database, run: int, key: str) -> HostControl:
    (control,) = db.rows(HostControl, _READ, (run, key))
    return control
