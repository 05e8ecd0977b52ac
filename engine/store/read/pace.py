"""Reads what is left of a run and how far each host is, to estimate its end."""

from msgspec import Struct

from engine.store.db.connector import Database, id_list
from engine.store.tables.host import hosts
from engine.store.tables.run import metrics

_SEQUENCES = """
SELECT host, grp, max_pages,
    paused OR absent = 1 OR host IN (SELECT id FROM hosts WHERE run = :run AND paused),
    ready + delayed + taken, done + failed, skipped + incomplete
FROM sequences WHERE run = :run AND kind = 'page'
"""
_WAITS = f"""
SELECT h.id, h.key, {hosts.EFFECTIVE_DELAY}, h.backoff_until FROM json_each(?) i CROSS JOIN hosts h ON h.id = i.value
"""


class HostWork(Struct):
    left: float = 0.0
    """Those that limits still allow, without those of paused sequences and of groups that the defs lack."""
    ended: int = 0
    key: str = ""
    delay: float = 0.0
    backoff_until: float | None = None
    """Boot-time seconds."""


class RunWork(Struct):
    hosts: dict[int, HostWork]
    """By id; those with pages left have their limits, too."""
    total: int = 0
    """All its pages so far."""
    paused: int = 0
    """Pages of such sequences."""
    run_room: float | None = None
    """Requests that the limit of the run still allows."""


def read(db: Database, run: int, max_pages: int | None) -> RunWork:
    """What is left of a run, from the counters. `max_pages`: its limit."""
    work = RunWork({})
    in_groups: dict[str, list[tuple[HostWork, int]]] = {}
    limits: dict[str, int] = {}
    for host, group, limit, paused, left, ended, other in db.all(_SEQUENCES, {"run": run}):
        of_host = work.hosts.setdefault(int(host), HostWork())
        of_host.ended += int(ended)
        work.total += int(left + ended + other)
        if paused:
            work.paused += int(left)
            continue
        in_groups.setdefault(str(group), []).append((of_host, int(left)))
        if limit is not None:
            limits[str(group)] = int(limit)
    for group, parts in in_groups.items():
        share = 1.0
        waiting = sum(left for _, left in parts)
        if group in limits and waiting:
            share = min(1.0, max(0, limits[group] - metrics.count_requests(db, run, group)) / waiting)
        for of_host, left in parts:
            of_host.left += left * share
    if max_pages is not None:
        work.run_room = max(0, max_pages - metrics.count_requests(db, run))
    busy = [id_ for id_, of_host in work.hosts.items() if of_host.left]
    for id_, key, delay, backoff in db.all(_WAITS, (id_list(busy),)):
        of_host = work.hosts[int(id_)]
        of_host.key, of_host.delay, of_host.backoff_until = str(key), float(delay), backoff
    return work
