"""Rings sequences: the column `rung_at` of the table `sequences`, at most one ring of each at a time."""

import random
from collections.abc import Iterable, Sequence

from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.host.hosts import EFFECTIVE_CONCURRENCY, EFFECTIVE_DELAY, NEXT_AT
from crawl_engine.store.tables.job.holds import PLACES, POOLS, TAKEN, free_of

LOOKAHEAD = 0.1
"""Seconds by which a lease may come before the host's next send time."""
_LEAST_RUNG = 16
"""Sequences of a host to ring at a time, or twice as many as jobs have room: most of a thousand would get none."""

_POOL_SAMPLE = 64
"""Hosts of one limit that may be rung by the commit of one: most of thousands would not be sent."""
_SPARE_JOBS = 4
"""For each place of a host: while many wait for one commit, others are sent."""
_SPARE = f"""
(SELECT max(0, min({_SPARE_JOBS} * {EFFECTIVE_CONCURRENCY},
        r.slots / max(1, r.active_sequences) - {EFFECTIVE_CONCURRENCY})) FROM runs r WHERE r.seq = h.run)
"""
_WAITS = f"ready > 0 AND {free_of(PLACES, s='')}"
_NOT_RUNG, _IS_RUNG = f"rung_at IS NULL AND {_WAITS}", f"rung_at IS NOT NULL AND {_WAITS}"
_HOSTS_NOT_RUNG = f"SELECT host FROM sequences WHERE run = :run AND {_NOT_RUNG}"
_ELIGIBLE = f"""
WITH {POOLS},
room AS MATERIALIZED (
    SELECT h.id AS host, coalesce(h.pool, h.key) AS pool, h.robots, h.login, {{most}} AS most, {TAKEN} AS taken
    FROM hosts h WHERE h.id IN ({{hosts}}) AND {free_of(("host-paused", "backoff"))}
        AND coalesce({NEXT_AT}, 0) <= :now + :lookahead
),
eligible AS (
    SELECT s.id, s.host, room.pool, s.taken, s.rung_at, room.most - room.taken AS places
    FROM room CROSS JOIN sequences s ON s.host = room.host
    WHERE room.taken < room.most AND s.kind <> 'extract' AND s.ready > 0 AND {free_of(PLACES)}
        AND {free_of(("robots", "login", "login-pages"), h="room.", taken="room.taken")}
)
"""
_LIST_SENDABLE = f"""
{
    _ELIGIBLE.format(
        hosts=f"{_HOSTS_NOT_RUNG} UNION SELECT host FROM sequences WHERE run = :run AND {_IS_RUNG}",
        most=f"CASE WHEN :shared = 1 AND {EFFECTIVE_CONCURRENCY} > 1 THEN 1000000000 ELSE {EFFECTIVE_CONCURRENCY} END",
    )
}
SELECT id FROM sequences WHERE run = :run AND kind = 'extract' AND {_WAITS}
UNION ALL SELECT id FROM eligible LIMIT +:limit
"""
_RING = f"""
{_ELIGIBLE}
UPDATE sequences SET rung_at = :now WHERE id IN (
    SELECT id FROM sequences WHERE {{which}} AND kind = 'extract' AND {_NOT_RUNG}
    UNION ALL SELECT id FROM (
        SELECT id, places, row_number() OVER (PARTITION BY pool ORDER BY taken, random()) AS place
        FROM eligible WHERE rung_at IS NULL
    ) ranked WHERE place <= max({_LEAST_RUNG}, 2 * places)
) RETURNING id
"""
_PLACES = f"{EFFECTIVE_CONCURRENCY} + {_SPARE}"
_GIVEN = "SELECT value FROM json_each(:hosts)"
_RING_HOSTS = _RING.format(
    hosts=f"SELECT host FROM sequences WHERE host IN ({_GIVEN}) AND {_NOT_RUNG}",
    which=f"host IN ({_GIVEN})",
    most=_PLACES,
)
_POOLS_OF = """
SELECT DISTINCT h.run, h.pool, (SELECT max(id) FROM sequences) FROM json_each(?) i CROSS JOIN hosts h ON h.id = i.value
WHERE h.pool IS NOT NULL
"""
_SOME_OF_POOL = f"""
SELECT s.host FROM sequences s CROSS JOIN hosts h ON h.id = s.host
WHERE s.run = :run AND s.rung_at IS NULL AND s.ready > 0 AND s.id BETWEEN :first AND :last AND h.pool = :pool
    AND {free_of((*PLACES, "host-paused", "robots"))}
ORDER BY s.id LIMIT +:limit
"""
_RING_ALL = _RING.format(hosts=_HOSTS_NOT_RUNG, which="run = :run", most=_PLACES)
_RING_EXTRACTS = f"UPDATE sequences SET rung_at = ? WHERE run = ? AND kind = 'extract' AND {_NOT_RUNG} RETURNING id"
_RUNG = "SELECT id FROM sequences WHERE run = ? AND rung_at IS NOT NULL ORDER BY rung_at, taken, id LIMIT +?"
_RUNG_WITHOUT_DELAY = f"""
SELECT s.id FROM sequences s CROSS JOIN hosts h ON h.id = s.host
WHERE s.run = ? AND s.rung_at IS NOT NULL AND (s.kind = 'extract' OR {EFFECTIVE_DELAY} = 0)
ORDER BY s.rung_at, s.taken, s.id LIMIT +?
"""
_END = "UPDATE sequences SET rung_at = NULL WHERE id IN (SELECT value FROM json_each(?))"
_RENEW = "UPDATE sequences SET rung_at = ? WHERE id IN (SELECT value FROM json_each(?))"


def spare_jobs(concurrency: int, slots: int, active: int) -> int:
    """Jobs of a host that nodes hold beyond its concurrency, where slots for them are left over.

    `slots` of all nodes; `active` sequences. The SQL above computes the same.
    """
    return max(0, min(_SPARE_JOBS * concurrency, slots // max(1, active) - concurrency))


def ring_hosts(db: Database, hosts: Iterable[int], now: float, *, has_pools: bool = True) -> list[int]:
    """Mark sequences of these hosts that can be leased now as rung; returns those to ring after COMMIT.

    Where many wait for one host, some of them, those with the fewest taken jobs; by chance among equal ones.
    `has_pools`: whether hosts of the run may have limits together.
    """
    given = id_list([*hosts, *(_list_pooled(db, hosts) if has_pools else ())])
    rows = db.all(_RING_HOSTS, {"now": now, "lookahead": LOOKAHEAD, "hosts": given})
    return [int(row[0]) for row in rows]


def _list_pooled(db: Database, hosts: Iterable[int]) -> set[int]:
    """Some hosts with jobs that wait for the limit that they have together with these: the next ones, from any on."""
    found: set[int] = set()
    for run, pool, last in db.all(_POOLS_OF, (id_list(hosts),)):
        start = random.randint(1, last)
        for first, end in ((start, last), (1, start - 1)):
            values = {"run": run, "pool": pool, "first": first, "last": end, "limit": _POOL_SAMPLE - len(found)}
            found |= set(db.column(_SOME_OF_POOL, values))
    return found


def ring_all(db: Database, run: int, now: float) -> list[int]:
    """The same for all hosts of a run."""
    rows = db.all(_RING_ALL, {"now": now, "lookahead": LOOKAHEAD, "run": run})
    return [int(row[0]) for row in rows]


def ring_extracts(db: Database, run: int, now: float) -> list[int]:
    """Mark the re-extraction sequences that can be leased now as rung; returns those to ring after COMMIT."""
    return db.column(_RING_EXTRACTS, (now, run))


def has_waited(db: Database, run: int, since: float) -> bool:
    """Whether a sequence has been rung since before that boot-time second."""
    return bool(db.value("SELECT EXISTS (SELECT 1 FROM sequences WHERE run = ? AND rung_at < ?)", (run, since)))


def list_rung(db: Database, run: int, limit: int) -> list[int]:
    """The rung sequences, at most `limit`: those that wait longest first, and of equal ones those with fewer jobs."""
    return db.column(_RUNG, (run, limit))


def list_rung_without_delay(db: Database, run: int, limit: int) -> list[int]:
    """The same, of hosts without a delay."""
    return db.column(_RUNG_WITHOUT_DELAY, (run, limit))


def list_sendable(db: Database, run: int, now: float, limit: int, *, shared: bool = False) -> list[int]:
    """Sequences, at most `limit`, with jobs whose hosts would take a request now (boot-time seconds).

    The jobs that nodes may hold beyond the concurrency of a host are not counted: none of them could be sent.
    `shared`: a host at its concurrency counts too, if nodes can share that.
    """
    rows = db.all(_LIST_SENDABLE, {"run": run, "now": now, "lookahead": LOOKAHEAD, "limit": limit, "shared": shared})
    return [int(row[0]) for row in rows]


def end(db: Database, ids: Sequence[int]) -> None:
    """Clear the rings that a lease answered."""
    if ids:
        db.execute(_END, (id_list(ids),))


def renew(db: Database, ids: Sequence[int], now: float) -> None:
    """Ring sequences again that have more jobs than a lease took; all others that are rung come before them."""
    if ids:
        db.execute(_RENEW, (now, id_list(ids)))


def clear_rings(db: Database, run: int) -> None:
    db.execute("UPDATE sequences SET rung_at = NULL WHERE run = ? AND rung_at IS NOT NULL", (run,))
