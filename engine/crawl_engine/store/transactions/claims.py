"""Claims hosts for machines: at any moment one machine alone asks a host, so that its gates are exact.

Hosts with one limit together go to one machine: the row of the first of them says which.

Machines share a database, and divide the hosts by their numbers among those of them that have a node. Where machines
come or go, a host whose number is another's is handed over: its machine leases no more of it, and the other claims it
once the leased jobs have ended. A host whose own machine does not come is lent to another after a second. Whoever
claims a host of another machine first waits for its delay: when the last request was sent, only that machine knows.
"""

from collections.abc import Iterable

from msgspec import Struct

from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.host.hosts import EFFECTIVE_DELAY, LIMITER
from crawl_engine.store.tables.job import rings
from crawl_engine.store.tables.job.holds import POOLS, TAKEN

_PATIENCE, _LENT_SECONDS = 1.0, 10.0
"""Seconds after which the jobs of a host may go to any machine, and for which that one keeps the host."""
_MACHINE = """
WITH m AS MATERIALIZED (
    SELECT own.supervisor AS epoch, count(DISTINCT n.supervisor) AS machines,
        count(DISTINCT n.supervisor) FILTER (WHERE n.supervisor < own.supervisor) AS place
    FROM nodes own JOIN nodes n ON n.run = own.run AND n.ended_at IS NULL
        AND (n.epoch = own.epoch OR (n.role = 'RUNNER' AND n.state IN ('READY', 'DONE')))
    JOIN supervisors o ON o.epoch = n.supervisor AND o.ended_at IS NULL
    WHERE own.epoch = :node GROUP BY own.supervisor
)
"""
_IS_OURS = "h.id % (SELECT machines FROM m) = (SELECT place FROM m)"
_IS_LENT = "coalesce(h.lent_until, 0) > :now"
_KEEPS = f"h.machine = (SELECT epoch FROM m) AND ({_IS_OURS} OR {_IS_LENT})"
# no joins but loops, and `m` as values: so the sequences are read in the order of their rings, and no host besides
_LIMITER = f"SELECT * FROM hosts WHERE id = (SELECT {LIMITER} FROM hosts h WHERE h.id = {{}}) LIMIT 1"
_LIST_RUNG = f"""
{_MACHINE}, {POOLS}
SELECT * FROM (
    SELECT s.id, s.kind <> 'extract' AND ({_KEEPS}) IS NOT TRUE, NULL::bigint
    FROM sequences s CROSS JOIN LATERAL ({_LIMITER.format("s.host")}) h
    WHERE s.run = :run AND s.rung_at IS NOT NULL AND EXISTS (SELECT 1 FROM m)
        AND (s.kind = 'extract' OR (({{wanted}}) AND (({_KEEPS})
        OR ((s.rung_at < :now - {_PATIENCE} OR ({_IS_OURS} AND NOT {_IS_LENT}))
            AND (h.machine IS NULL OR {TAKEN} = 0)))))
    ORDER BY s.rung_at, s.taken, s.id LIMIT +:limit
) rung
UNION ALL SELECT NULL, NULL, i.value
FROM json_each(:held) i CROSS JOIN LATERAL ({_LIMITER.format("i.value")}) h
WHERE (SELECT machines FROM m) > 1 AND ({_KEEPS}) IS NOT TRUE
"""
_LIST_ANY, _LIST_WITHOUT_DELAY = (_LIST_RUNG.format(wanted=wanted) for wanted in ("1 = 1", f"{EFFECTIVE_DELAY} = 0"))
_CLAIM = f"""
{_MACHINE}
UPDATE hosts AS h SET machine = m.epoch, lent_until = CASE WHEN {_IS_OURS} THEN NULL ELSE :now + {_LENT_SECONDS} END,
    next_at = CASE WHEN h.machine IS NULL OR h.machine = m.epoch OR {EFFECTIVE_DELAY} = 0 THEN h.next_at
        ELSE max(coalesce(h.next_at, 0), :now + {EFFECTIVE_DELAY}) END
FROM m WHERE h.id IN (
    SELECT l.id FROM sequences s CROSS JOIN LATERAL ({_LIMITER.format("s.host")}) l
    WHERE s.id IN (SELECT value FROM json_each(:sequences)))
"""
_LEAVE = f"""
UPDATE hosts AS h SET machine = NULL, next_at = CASE WHEN {EFFECTIVE_DELAY} = 0 THEN h.next_at
    ELSE max(coalesce(h.next_at, 0), :now + {EFFECTIVE_DELAY}) END
WHERE h.machine = :machine
"""
_RETURN_LENT = "UPDATE hosts SET lent_until = NULL WHERE lent_until IS NOT NULL"


class Claims(Struct, frozen=True):
    """What the machine of a node may lease from, and what it leaves."""

    sequences: tuple[int, ...]
    """Those that wait longest first."""
    handed_over: frozenset[int] = frozenset()
    """Hosts of which the node holds jobs, and that are another machine's now."""


def claim_rung(
    db: Database, run: int, node: int, limit: int, now: float, *, held: Iterable[int] = (), without_delay: bool = False
) -> Claims:
    """Claim the hosts of at most `limit` rung sequences that the machine of a node may lease from.

    Where one machine has them all, of all that are rung. `now`: seconds of the store's clock. `held`: the hosts of
    which the node holds jobs. `without_delay`: of hosts without a delay alone.
    """
    if not db.is_shared:
        return Claims(tuple((rings.list_rung_without_delay if without_delay else rings.list_rung)(db, run, limit)))
    text = _LIST_WITHOUT_DELAY if without_delay else _LIST_ANY
    found = db.all(text, {"run": run, "node": node, "now": now, "limit": limit, "held": id_list(held)})
    if claimed := [int(sequence) for sequence, is_new, _ in found if is_new]:
        db.execute(_CLAIM, {"node": node, "now": now, "sequences": id_list(claimed)})
    return Claims(
        tuple([int(sequence) for sequence, _, _ in found if sequence is not None]),
        frozenset([int(host) for _, _, host in found if host is not None]),
    )


def leave(db: Database, machine: int, now: float) -> None:
    """Have no host belong to a machine that has ended; its last request may have been sent just now."""
    db.execute(_LEAVE, {"machine": machine, "now": now})
    db.execute(_RETURN_LENT)
