"""Claims hosts for machines: at any moment one machine alone asks a host, so that its gates are exact.

Machines share a database. A machine may claim a host that no machine has, or that its machine has left alone: it holds
no job of it, and let its next send time pass. The machines divide the hosts by their numbers; a host whose own machine
does not come is taken by others after a second. Whoever claims a host of another machine first waits for its delay:
when the last request was sent, only that machine knows.
"""

from engine.store.db.connector import Database, id_list
from engine.store.tables.host.hosts import EFFECTIVE_DELAY
from engine.store.tables.job import rings

_PATIENCE = 1.0
"""Seconds after which a host is left alone, and its jobs may go to any machine."""
_MACHINE = """
WITH m AS MATERIALIZED (
    SELECT n.supervisor AS epoch, count(*) AS machines, count(*) FILTER (WHERE o.epoch < n.supervisor) AS place
    FROM nodes n JOIN supervisors o ON o.run = n.run AND o.ended_at IS NULL WHERE n.epoch = :node GROUP BY n.supervisor
)
"""
# no join but a loop, and `m` as values: so the sequences are read in the order of their rings, no more than are wanted
_LIST_RUNG = f"""
{_MACHINE}
SELECT s.id, s.kind <> 'extract' AND h.machine IS DISTINCT FROM (SELECT epoch FROM m)
FROM sequences s CROSS JOIN LATERAL (SELECT * FROM hosts WHERE id = s.host LIMIT 1) h
WHERE s.run = :run AND s.rung_at IS NOT NULL AND EXISTS (SELECT 1 FROM m)
    AND (s.kind = 'extract' OR (({{wanted}}) AND (
    h.machine = (SELECT epoch FROM m)
    OR ((h.id % (SELECT machines FROM m) = (SELECT place FROM m) OR s.rung_at < :now - {_PATIENCE})
        AND (h.machine IS NULL OR (coalesce(h.next_at, 0) < :now - {_PATIENCE} AND NOT EXISTS (
            SELECT 1 FROM sequences t WHERE t.host = h.id AND t.kind <> 'extract' AND t.taken > 0)))))))
ORDER BY s.rung_at, s.taken LIMIT +:limit
"""
_LIST_ANY, _LIST_WITHOUT_DELAY = (_LIST_RUNG.format(wanted=wanted) for wanted in ("1 = 1", f"{EFFECTIVE_DELAY} = 0"))
_CLAIM = f"""
{_MACHINE}
UPDATE hosts AS h SET machine = m.epoch, next_at = CASE WHEN h.machine IS NULL OR {EFFECTIVE_DELAY} = 0 THEN h.next_at
    ELSE max(coalesce(h.next_at, 0), :now + {EFFECTIVE_DELAY}) END
FROM m WHERE h.id IN (SELECT host FROM sequences WHERE id IN (SELECT value FROM json_each(:sequences)))
"""
_LEAVE = f"""
UPDATE hosts AS h SET machine = NULL, next_at = CASE WHEN {EFFECTIVE_DELAY} = 0 THEN h.next_at
    ELSE max(coalesce(h.next_at, 0), :now + {EFFECTIVE_DELAY}) END
WHERE h.machine = :machine
"""


def claim_rung(db: Database, run: int, node: int, limit: int, now: float, *, without_delay: bool = False) -> list[int]:
    """The rung sequences that the machine of a node may lease from, those that wait longest first; claims their hosts.

    At most `limit`; where one machine has them all, all that are rung. `now`: seconds of the store's clock.
    `without_delay`: of hosts without a delay alone.
    """
    if not db.is_shared:
        return (rings.list_rung_without_delay if without_delay else rings.list_rung)(db, run, limit)
    text = _LIST_WITHOUT_DELAY if without_delay else _LIST_ANY
    found = db.all(text, {"run": run, "node": node, "now": now, "limit": limit})
    if claimed := [int(sequence) for sequence, is_new in found if is_new]:
        db.execute(_CLAIM, {"node": node, "now": now, "sequences": id_list(claimed)})
    return [int(sequence) for sequence, _ in found]


def leave(db: Database, machine: int, now: float) -> None:
    """Have no host belong to a machine that has ended; its last request may have been sent just now."""
    db.execute(_LEAVE, {"machine": machine, "now": now})
