"""Writes the table `sequences`: pauses and limits of the jobs of one group on one host.

Triggers alone move the counters in the table.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

import orjson

from crawl_engine.model.job import JobKind
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.host import refusals

CounterName = Literal["ready", "delayed", "taken", "done", "failed", "skipped", "incomplete"]

_PAUSED = """
SELECT s.grp, h.key FROM sequences s JOIN hosts h ON h.id = s.host
WHERE s.run = ? AND s.paused = 1 AND s.kind <> 'extract' ORDER BY s.id LIMIT +?
"""
_ENSURE = """
INSERT INTO sequences (run, grp, host, kind, paused)
SELECT :run, :grp, :host, :kind, CASE WHEN :kind IN ('page', 'sitemap', 'file')
    AND EXISTS (SELECT 1 FROM meta WHERE name = 'stopped:' || :run || ':' || :grp) THEN 2 ELSE 0 END
WHERE true ON CONFLICT (run, grp, host, kind) DO NOTHING RETURNING id
"""
_FIND = "SELECT id FROM sequences WHERE run = ? AND grp = ? AND host = ? AND kind = ?"

_SELECTED = """
id IN (SELECT s.id FROM sequences s JOIN hosts h ON h.id = s.host
    WHERE s.run = :run AND :selector IN (CAST(s.id AS TEXT), s.grp, s.grp || '@' || h.key))
"""
_PAUSE = f"UPDATE sequences SET paused = 1 WHERE run = :run AND paused = 0 AND {_SELECTED} RETURNING kind <> 'extract'"
_RESUME = (
    f"UPDATE sequences SET paused = 0 WHERE run = :run AND paused <> 0 AND {_SELECTED} RETURNING kind <> 'extract'"
)
_STOP = f"""
UPDATE sequences SET paused = 2 WHERE run = :run AND paused <> 2 AND kind IN ('page', 'sitemap', 'file') AND {_SELECTED}
RETURNING ready + delayed
"""
_STOP_GROUP = """
INSERT INTO meta (name, value) SELECT 'stopped:' || :run || ':' || :selector, ''
WHERE EXISTS (SELECT 1 FROM sequences WHERE run = :run AND grp = :selector) ON CONFLICT DO NOTHING
"""
_RESUME_GROUP = "DELETE FROM meta WHERE name = 'stopped:' || :run || ':' || :selector"
"""Sequences that the group gets later are stopped, too, as long as it stands there."""
_ENSURE_EXTRACTS = """
INSERT INTO sequences (run, grp, host, kind)
SELECT DISTINCT s.run, s.grp, s.host, 'extract' FROM json_each(?) i
CROSS JOIN jobs j ON j.id = i.value JOIN sequences s ON s.id = j.sequence WHERE true
ON CONFLICT (run, grp, host, kind) DO NOTHING
"""
_MARK_ABSENT = """
UPDATE sequences SET absent = 1
WHERE run = ? AND kind NOT IN ('robots', 'login') AND absent <> 1 AND grp NOT IN (SELECT value FROM json_each(?) texts)
"""
_MARK_PRESENT = (
    "UPDATE sequences SET absent = 2 WHERE run = ? AND absent = 1 AND grp IN (SELECT value FROM json_each(?) texts)"
)
_RECHECK_SKIPPED = (
    "UPDATE sequences SET absent = 2 WHERE id IN (SELECT value FROM json_each(?)) AND absent = 0 AND skipped > 0"
)
_RECHECK_SKIPPED_OF_HOST = (
    "UPDATE sequences SET absent = 2 WHERE host = ? AND kind IN ('page', 'sitemap', 'file') AND absent = 0 "
    "AND skipped + failed > 0"
)
_UNSETTLED = """
SELECT id, kind, CASE absent WHEN 1 THEN 'absent' ELSE 'returned' END AS reason FROM sequences
WHERE run = ? AND absent > 0 AND (absent = 2 OR ready + delayed > 0)
UNION ALL SELECT id, kind, 'stopped' FROM sequences WHERE run = ? AND paused = 2 AND absent = 0 AND ready + delayed > 0
LIMIT +?
"""
_COUNT_DONE_PAGES = "SELECT grp, sum(done) FROM sequences WHERE run = ? AND kind = 'page' GROUP BY grp"
_COUNT_BY_GROUP = """
SELECT grp, sum(ready + delayed + taken + incomplete),
    total(ready + delayed + taken + incomplete) FILTER (WHERE kind IN ('page', 'robots', 'sitemap', 'login')),
    sum(failed), total(done) FILTER (WHERE kind = 'page')
FROM sequences WHERE run = ? GROUP BY grp
"""

_RECOUNT = """
UPDATE sequences SET {assignments}
FROM (SELECT s.id AS sequence, {sums} FROM sequences s LEFT JOIN (
        SELECT sequence, {counts} FROM jobs WHERE run = :run GROUP BY sequence
      ) c ON c.sequence = s.id WHERE s.run = :run) n
WHERE sequences.id = n.sequence
"""
_COUNTERS = {
    "ready": "state = 'READY' AND not_before IS NULL",
    "delayed": "state = 'READY' AND not_before IS NOT NULL",
    "taken": "state = 'TAKEN'",
    "done": "state = 'DONE'",
    "failed": "state = 'FAILED'",
    "skipped": "state = 'SKIPPED'",
    "incomplete": "state = 'INCOMPLETE'",
}
_RECOUNT_TAKEN = """
UPDATE sequences SET taken = coalesce(t.n, 0)
FROM (SELECT s.id, count(j.id) AS n FROM sequences s LEFT JOIN jobs j ON j.sequence = s.id AND j.state = 'TAKEN'
      WHERE s.run = ? AND s.taken > 0 GROUP BY s.id) t
WHERE sequences.id = t.id AND sequences.taken <> coalesce(t.n, 0)
"""


class GroupCounts(NamedTuple):
    """Jobs of a group: open ones of any kind, open ones that fetch, failed ones of any kind, pages done."""

    open: int = 0
    loading: int = 0
    failed: int = 0
    done: int = 0


def ensure(db: Database, run: int, group: str, host: int, kind: str) -> int:
    values = {"run": run, "grp": group, "host": host, "kind": kind}
    created = db.value(_ENSURE, values)
    return int(created if created is not None else db.value(_FIND, (run, group, host, kind)))


def pause(db: Database, run: int, selector: str, paused: bool) -> int:
    """Pause or resume the sequences that match an id, a group, or `group@host:port`; returns how many changed.

    A stopped one is resumed, too, and cannot be paused.
    Re-extractions of the same pages change with them, and are counted only where they are alone, as in `count_paused`.
    """
    values = {"run": run, "selector": selector}
    fetching = db.column(_PAUSE if paused else _RESUME, values)
    if not paused:
        db.execute(_RESUME_GROUP, values)
        refusals.stop_clocks(db, run)
    return sum(fetching) or len(fetching)


def stop(db: Database, run: int, selector: str) -> tuple[int, int]:
    """Stop the sequences that match, as `pause` names them, until they are resumed: their jobs are skipped.

    Returns how many sequences changed, and how many jobs wait in them now. Re-extractions continue.
    """
    values = {"run": run, "selector": selector}
    waiting = db.column(_STOP, values)
    db.execute(_STOP_GROUP, values)
    return len(waiting), sum(waiting)


def count_paused(db: Database, run: int) -> int:
    return int(db.value("SELECT count(*) FROM sequences WHERE run = ? AND paused = 1 AND kind <> 'extract'", (run,)))


def list_paused(db: Database, run: int, limit: int) -> list[str]:
    """The first paused sequences: `GROUP on HOST`."""
    return [f"{group} on {host}" for group, host in db.all(_PAUSED, (run, limit))]


def ensure_extracts(db: Database, jobs: str) -> None:
    """Create the re-extraction sequences of these pages; `jobs` is a JSON list of the pages' jobs."""
    db.execute(_ENSURE_EXTRACTS, (jobs,))


def set_groups(db: Database, run: int, present: Iterable[str]) -> None:
    """Suspend the sequences of groups that the defs lack, and resume those of groups that came back."""
    groups = orjson.dumps(list(present)).decode()
    db.execute(_MARK_ABSENT, (run, groups))
    db.execute(_MARK_PRESENT, (run, groups))


def recheck_skipped(db: Database, ids: Iterable[int]) -> None:
    """Schedule a recheck of jobs skipped because of a limit of these sequences."""
    db.execute(_RECHECK_SKIPPED, (id_list(ids),))


def recheck_skipped_of_host(db: Database, host: int) -> None:
    """Schedule a recheck of jobs that ended because of a host's robots.txt or address."""
    db.execute(_RECHECK_SKIPPED_OF_HOST, (host,))


UnsettledReason = Literal["absent", "returned", "stopped"]


class Unsettled(NamedTuple):
    id: int
    kind: str
    reason: UnsettledReason


def list_unsettled(db: Database, run: int, limit: int) -> list[Unsettled]:
    """Sequences whose jobs must be requeued, since their group has returned, or be skipped."""
    return db.rows(Unsettled, _UNSETTLED, (run, run, limit))


def mark_rechecked(db: Database, sequence: int) -> None:
    """Record that the skipped jobs of a sequence were rechecked."""
    db.execute("UPDATE sequences SET absent = 0 WHERE id = ? AND absent = 2", (sequence,))


def count_done_pages(db: Database, run: int) -> dict[str, int]:
    """Done pages by group, from the counters."""
    return dict(db.all(_COUNT_DONE_PAGES, (run,)))


def count(
    db: Database, run: int, *counters: CounterName, kind: JobKind | None = JobKind.PAGE, group: str | None = None
) -> int:
    """Jobs of a run in one of these states (none given: in any), from the counters. `kind` None: of all kinds."""
    sql = f"SELECT total({' + '.join(counters or _COUNTERS)}) FROM sequences WHERE run = ?"
    if kind is not None:
        sql += f" AND kind = '{kind}'"  # as text: with a placeholder, no partial index applies
    return int(db.value(sql, (run,)) if group is None else db.value(f"{sql} AND grp = ?", (run, group)))


def count_by_group(db: Database, run: int) -> dict[str, GroupCounts]:
    """Job counts of each group, from the counters."""
    return {str(row[0]): GroupCounts(*map(int, row[1:])) for row in db.all(_COUNT_BY_GROUP, (run,))}


def recount(db: Database, run: int) -> None:
    """Rebuild every counter of a run from its jobs: one pass over them."""
    sql = _RECOUNT.format(
        assignments=", ".join(f"{name} = n.{name}" for name in _COUNTERS),
        sums=", ".join(f"coalesce(c.{name}, 0) AS {name}" for name in _COUNTERS),
        counts=", ".join(f"count(*) FILTER (WHERE {where}) AS {name}" for name, where in _COUNTERS.items()),
    )
    db.execute(sql, {"run": run})


def recount_taken(db: Database, run: int) -> None:
    """Rebuild the counters of taken jobs from the partial index of TAKEN jobs."""
    db.execute(_RECOUNT_TAKEN, (run,))
