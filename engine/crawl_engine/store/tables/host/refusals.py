"""Writes the table `refusals`: hosts that refuse each request, and those that were given up for it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.host.hosts import LIMITER

GIVEN_UP = f"EXISTS (SELECT 1 FROM refusals g WHERE g.host = {LIMITER} AND g.given_up <> 0)"
"""SQL: whether the host `h` was given up."""
_LONGEST_GAP = 300.0
"""Seconds between two refusals that count: the crawler's own rests are shorter, so in longer ones nobody asked."""
_LIMITERS = f"SELECT {LIMITER} FROM json_each(?) i CROSS JOIN hosts h ON h.id = i.value"
_LIMITER = f"SELECT {LIMITER} AS id, coalesce(h.pool, h.key) AS name FROM hosts h WHERE h.id = ?"
_ADD = """
INSERT INTO refusals (host, refused, seconds, counted_to) VALUES (:host, :refused, 0, :counted_to)
ON CONFLICT (host) DO UPDATE SET refused = refusals.refused + :refused,
    seconds = refusals.seconds
        + CASE WHEN refusals.counted_to IS NULL THEN 0 ELSE max(0, min(:most, :now - refusals.counted_to)) END,
    counted_to = max(coalesce(refusals.counted_to, 0), :counted_to)
RETURNING refused, seconds, given_up
"""
_NOTE_WAIT = f"""
UPDATE refusals SET counted_to = max(coalesce(counted_to, 0), :until)
WHERE host = (SELECT {LIMITER} FROM hosts h WHERE h.id = :host)
"""
# the few rows are read first: of most runs there is none
_FORGET = f"DELETE FROM refusals WHERE +host IN ({_LIMITERS}) RETURNING given_up"
_FORGET_OF_JOBS = f"""
DELETE FROM refusals WHERE +host IN (
    SELECT {LIMITER} FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value CROSS JOIN sequences s ON s.id = j.sequence
    CROSS JOIN hosts h ON h.id = s.host)
"""
_STOP_CLOCKS = "UPDATE refusals SET counted_to = NULL WHERE host IN (SELECT id FROM hosts WHERE run = ?)"
_END_RESTS = """
UPDATE hosts SET backoff_until = NULL
WHERE backoff_until IS NOT NULL AND id IN (SELECT host FROM refusals WHERE given_up <> 0)
"""
_MEMBERS = """
SELECT m.id FROM hosts h CROSS JOIN hosts m ON m.run = h.run AND (m.id = h.id OR m.pool = h.pool) WHERE h.id = ?
"""


class Limiter(NamedTuple):
    """The host whose row has the limits of a host, and what these are of: a host (`name:port`) or a pattern."""

    id: int
    name: str


class Refusals(NamedTuple):
    """What a host refused in a row, and for how long: seconds without the waits that somebody asked for."""

    refused: int
    seconds: float
    given_up: bool


def find_limiter(db: Database, host: int) -> Limiter:
    """What limits a host."""
    (limiter,) = db.rows(Limiter, _LIMITER, (host,))
    return limiter


def add(db: Database, host: int, refused: int, now: float, counted_to: float) -> Refusals:
    """Count further refusals. `counted_to`: boot-time second from which time counts on: now, or the end of a wait."""
    values = {"host": host, "refused": refused, "now": now, "counted_to": counted_to, "most": _LONGEST_GAP}
    ((count, seconds, given_up),) = db.all(_ADD, values)
    return Refusals(int(count), float(seconds), bool(given_up))


def note_waits(db: Database, until: Mapping[int, float]) -> None:
    """Hosts are not asked before these boot-time seconds, because they or the defs say so."""
    for host, end in until.items():
        db.execute(_NOTE_WAIT, {"host": host, "until": end})


def give_up(db: Database, host: int) -> list[int]:
    """Give up a host, or all that have one limit with it; returns their ids."""
    db.execute("UPDATE refusals SET given_up = 1 WHERE host = ?", (host,))
    return db.column(_MEMBERS, (host,))


def end_rests(db: Database) -> None:
    """End the rests of hosts that were given up: nothing is sent to them."""
    db.execute(_END_RESTS)


def forget(db: Database, hosts: Iterable[int]) -> bool:
    """Ask these hosts again, as if they had refused nothing; whether one of them was given up."""
    return any(given_up for (given_up,) in db.all(_FORGET, (id_list(hosts),)))


def forget_of_jobs(db: Database, jobs: Iterable[int]) -> None:
    """Ask the hosts of these jobs again."""
    db.execute(_FORGET_OF_JOBS, (id_list(jobs),))


def stop_clocks(db: Database, run: int) -> None:
    """A pause or a standstill has ended: it does not count as time in which hosts refused."""
    db.execute(_STOP_CLOCKS, (run,))
