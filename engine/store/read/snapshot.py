"""The snapshot: all a console, `status` or a summary shows of a data dir, read at one moment. Reads only."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from engine.model.run import RunState
from engine.runtime.clock import boottime
from engine.store.db.connector import Database
from engine.store.tables import metrics, rows, runs, sequences, supervisors
from engine.store.tables.metrics import GroupTotals
from engine.store.tables.runs import Run

_SEQUENCES = """
SELECT s.id, s.grp, h.key, s.ready, s.delayed, s.taken, s.done, s.failed, s.skipped, s.incomplete, s.paused
FROM sequences s JOIN hosts h ON h.id = s.host WHERE s.run = ? AND s.kind = 'page'
ORDER BY s.taken DESC, s.ready DESC, s.id LIMIT ?
"""
_TOTALS = """
SELECT grp, sum(done), sum(failed), sum(skipped), sum(incomplete), sum(ready + delayed), sum(taken), sum(delayed),
    count(*)
FROM sequences WHERE run = ? AND kind = 'page' GROUP BY grp ORDER BY min(id)
"""
_HOSTS = """
SELECT h.key, max(h.delay, h.crawl_delay * (h.robots <> 'OFF')),
    h.concurrency, h.next_at, h.backoff_until, h.strikes, h.throttled,
    h.errors, h.robots, h.robots_status, (SELECT total(taken) FROM sequences WHERE host = h.id AND kind <> 'extract'),
    (SELECT total(ready + delayed) FROM sequences WHERE host = h.id AND kind <> 'extract')
FROM hosts h WHERE h.run = ? ORDER BY h.id LIMIT ?
"""
_NODES = """
SELECT number, role, state, heart, done, failed, pid, beat_age, in_flight, rss, lag, now, replaces, reason, ended_at
FROM nodes WHERE run = ? ORDER BY number
"""
_OUTPUTS = "SELECT appender, data_def, type, path, rows, bytes, cursor, dirty FROM outputs WHERE run = ? ORDER BY id"
_APPENDER = """
SELECT pid, state, beat_age, flush_ms, ended_at FROM appenders WHERE run = ? ORDER BY epoch DESC LIMIT 1
"""
_BACKLOG = """
SELECT d.name, count(*) FROM (SELECT data_def FROM rows WHERE run = ? AND id > ? LIMIT ?) r
JOIN data_defs d ON d.id = r.data_def GROUP BY d.name
"""
_MAX_BACKLOG = 10_001
"""Rows of all dataDefs together that are counted: more is only "more", and a look must stay cheap."""

_FAILURES = """
SELECT coalesce(target, url), reason FROM jobs WHERE run = ? AND state = 'FAILED' AND page IS NULL
ORDER BY coalesce(changed_at, 0), id LIMIT ?
"""
_EVENT_TEXTS = "SELECT DISTINCT text FROM events WHERE run = ? AND kind = ? AND id > ? ORDER BY id LIMIT ?"

_APPENDER_KEYS = ("name", "rows", "bytes", "path", "backlog")
_NODE_KEYS = ("id", "role", "state", "heart", "done", "failed")
"""What the summary tells of them; `status --json` tells all."""

DEFAULT_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at a data dir. Values are JSON types; names are those of `status --json`."""

    run: Run | None
    epoch: supervisors.Epoch | None
    jobs: dict[str, int]
    delayed: int
    rows: dict[str, int]
    rejected: dict[str, int]
    appenders: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    sequences: list[dict[str, Any]]
    sequence_count: int
    hosts: list[dict[str, Any]]
    metrics: dict[str, Any]
    defs_problems: list[dict[str, Any]] = field(default_factory=list)
    """What keeps the defs on disk from being used."""
    reextraction: tuple[int, int] | None = None
    """Pages re-extracted since the defs changed, and those found to be left; None: none is under way."""
    paused_sequences: int = 0


_NO_JOBS = {"done": 0, "failed": 0, "skipped": 0, "incomplete": 0, "ready": 0, "taken": 0}
EMPTY_SNAPSHOT = Snapshot(None, None, _NO_JOBS, 0, {}, {}, [], [], [], 0, [], metrics.build_metrics([], [], {}, 0.0, 0))
"""What a data dir without a run shows."""


def read(db: Database, *, run: int | None = None, limit: int = DEFAULT_LIMIT) -> Snapshot:
    """Look at a run (None: the newest). Costs the nodes plus `shown` sequences and hosts, not the jobs."""
    with db.snapshot():
        found = runs.latest(db) if run is None else runs.get(db, run)
        if found is None:
            return EMPTY_SNAPSHOT
        groups = db.all(_TOTALS, (found.seq,))
        done, failed, skipped, incomplete, ready, taken, delayed, count = (
            sum(int(row[column]) for row in groups) for column in range(1, 9)
        )
        workers = _node_items(db, found.seq)
        counts = rows.counts(db, found.seq)
        epoch = supervisors.current(db)
        return Snapshot(
            run=found,
            epoch=epoch,
            jobs={
                "done": done, "failed": failed, "skipped": skipped, "incomplete": incomplete, "ready": ready,
                "taken": taken,
            },
            delayed=delayed,
            rows={name: made for name, (made, _) in counts.items()},
            rejected={name: lost for name, (_, lost) in counts.items() if lost},
            appenders=_appender_items(db, found.seq),
            nodes=workers,
            sequences=[_sequence_item(row) for row in db.all(_SEQUENCES, (found.seq, limit))],
            sequence_count=count,
            hosts=[_host_item(row) for row in db.all(_HOSTS, (found.seq, limit))],
            metrics=metrics.build_metrics(
                [GroupTotals(g, d, f, s, i, r + t) for g, d, f, s, i, r, t, *_ in groups],
                metrics.list_fetch_stats(db, found.seq),
                {n["id"]: n["done"] + n["failed"] for n in workers},
                found.seconds,
                metrics.count_takeovers(db, found.seq),
            ),
            defs_problems=orjson.loads(supervisors.get_meta(db, "defs_problems") or "[]"),
            reextraction=_reextraction_progress(db, found.seq),
            paused_sequences=sequences.count_paused(db, found.seq) if found.state is not RunState.DONE else 0,
        )  # fmt: skip


def _appender_items(db: Database, run: int) -> list[dict[str, Any]]:
    process = db.one(_APPENDER, (run,))
    alive = process is not None and process[4] is None
    backlogs: dict[int, dict[str, int]] = {}
    told = []
    for appender, data_def, kind, path, written, size, cursor, dirty in db.all(_OUTPUTS, (run,)):
        if cursor not in backlogs:
            backlogs[cursor] = dict(db.all(_BACKLOG, (run, cursor, _MAX_BACKLOG)))
        behind = backlogs[cursor]
        more = sum(behind.values()) == _MAX_BACKLOG
        told.append(
            {
                "name": f"{appender}/{data_def}", "type": kind, "rows": written, "bytes": size, "path": path,
                "backlog": _MAX_BACKLOG if more else behind.get(data_def, 0),
                "rebuilding": bool(dirty),
                "pid": process[0] if alive and process else None,
                "beat_age": process[2] if alive and process else None,
                "flush_ms": process[3] if process else None,
            }
        )  # fmt: skip
    return told


def _reextraction_progress(db: Database, run: int) -> tuple[int, int] | None:
    search, done = runs.get_reextraction(db, run)
    left = sequences.count_open_extracts(db, run)
    return (done, left) if search is not None or left else None


def _node_items(db: Database, run: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"n{number}", "role": role, "state": state, "heart": heart, "done": done, "failed": failed,
            "pid": pid if ended is None else None, "beat_age": age if ended is None else None,
            "in_flight": held if ended is None else 0, "rss": rss, "lag": lag, "now": now if ended is None else "",
            "replaces": None if replaces is None else f"n{replaces}", "reason": reason,
        }
        for number, role, state, heart, done, failed, pid, age, held, rss, lag, now, replaces, reason, ended
        in db.all(_NODES, (run,))
    ]  # fmt: skip


def _sequence_item(row: tuple[Any, ...]) -> dict[str, Any]:
    id_, group, host, ready, delayed, taken, done, failed, skipped, incomplete, paused = row
    return {
        "id": id_, "group": group, "host": host, "ready": ready, "delayed": delayed, "taken": taken, "done": done,
        "failed": failed, "skipped": skipped, "incomplete": incomplete, "paused": bool(paused),
    }  # fmt: skip


def _host_item(row: tuple[Any, ...]) -> dict[str, Any]:
    key, delay, concurrency, next_at, backoff, strikes, throttled, errors, robots, status, running, waiting = row
    now = boottime()

    def left(moment: float | None) -> float | None:
        return None if moment is None or moment <= now else round(moment - now, 3)

    return {
        "host": key, "running": int(running), "waiting": int(waiting), "delay": delay, "concurrency": concurrency,
        "next_in": left(next_at), "backoff": left(backoff), "strikes": strikes, "throttled": throttled,
        "errors": errors, "robots": robots.lower(), "robots_status": status,
    }  # fmt: skip


def list_failures(db: Database, run: int, limit: int) -> list[tuple[str, str]]:
    """URL and reason of failed jobs, the first ones."""
    return [(str(url), str(reason)) for url, reason in db.all(_FAILURES, (run, limit))]


def list_event_texts(db: Database, run: int, kind: str, after: int, limit: int) -> list[str]:
    """Texts of events of a kind, each once, the first ones after an event's id."""
    return [str(row[0]) for row in db.all(_EVENT_TEXTS, (run, kind, after, limit))]


def build_report(snapshot: Snapshot, *, exit_code: int | None) -> dict[str, Any]:
    """The object `--no-ui --json` prints: a run as it stands, or as it ended."""
    run = snapshot.run
    seconds = run.seconds if run else 0.0
    return {
        "run": run.id if run else None,
        "state": run.state if run else None,
        "exit_code": exit_code,
        "seconds": round(seconds, 3),
        "pages_per_s": round(snapshot.jobs["done"] / seconds, 2) if seconds > 0 else 0.0,
        "jobs": snapshot.jobs,
        "rows": snapshot.rows,
        "appenders": [{key: a[key] for key in _APPENDER_KEYS} for a in snapshot.appenders],
        "nodes": [{key: n[key] for key in _NODE_KEYS} for n in snapshot.nodes],
        "defs_version": run.defs_version if run else None,
    }
