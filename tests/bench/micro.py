"""Measures leases, commits, snapshots and starts, each with its number of jobs."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobState
from crawl_engine.model.node import Role
from crawl_engine.model.run import RunState
from crawl_engine.runtime.clock import boottime
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.read import snapshot
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.tables.run import nodes, page_limits, runs, supervisors
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions.commit import commit
from crawl_engine.store.transactions.lease import LeaseRequest, lease
from crawl_engine.store.transactions.placement import PlacementCache
from tests.bench.crawlers import CONCURRENCY, console
from tests.bench.filled import Filled, begin, fill, run, spread
from tests.bench.report import machine, machine_line, put, table
from tests.bench.site import Site, served_pages

FEW, MANY = 1_000, 1_000_000
_HOSTS = 1_000
_REPEATS = 30


def start_times(times: int = 5) -> float:
    """Seconds from starting `crawl-console run` on a fresh data dir to the first request at the server; the median."""
    seconds = []
    with served_pages(FEW) as site:
        for _ in range(times):
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                site.forget()
                started = time.monotonic()
                begin(site, Path(folder))
                seconds.append(_first(site) - started)
    return statistics.median(seconds)


def version_time(times: int = 10) -> float:
    """Seconds `crawl-console --version` takes; the median."""
    seconds = []
    for _ in range(times):
        started = time.monotonic()
        subprocess.run([*console(), "--version"], check=True, capture_output=True)
        seconds.append(time.monotonic() - started)
    return statistics.median(seconds)


def resume_time(filled: Filled, site: Site) -> float:
    """Seconds from starting `crawl-console run` on a data dir with many READY jobs to its first request."""
    db = connect(filled.data / CRAWL, read_only=True)
    done = snapshot.read(db).jobs["done"]
    db.close()
    site.forget()
    started = time.monotonic()
    run(site, filled.data, filled.defs, pages=done + 1)
    return _first(site) - started


def snapshot_time(filled: Filled) -> float:
    """Seconds to read a snapshot over an open connection; the median."""
    db = connect(filled.data / CRAWL, read_only=True)
    try:
        snapshot.read(db)
        return statistics.median(_timed(lambda: snapshot.read(db)) for _ in range(_REPEATS))
    finally:
        db.close()


def leases(filled: Filled, upto: int = 20_000, batch: int = 32) -> tuple[float, float]:
    """Jobs per second leased by one node, and jobs per second committed as DONE with a row and an event each.

    The connections are those of a node: NORMAL for leases, FULL for commits.
    """
    leasing = connect(filled.data / CRAWL, durable=False)
    committing = connect(filled.data / CRAWL)
    try:
        node = _node(committing, filled.run)
        places = PlacementCache(filled.run, lambda _: HostPolicy(0.0, CONCURRENCY, False))
        leased, leasing_s, committing_s = 0, 0.0, 0.0
        while leased < min(upto, filled.ready // 2):
            started = time.perf_counter()
            request = LeaseRequest(node=node, lease_id=(node << 32) | (leased + 1), free_slots=batch, batch=batch)
            (result,) = lease(leasing, filled.run, request, boottime())
            between = time.perf_counter()
            if not result.jobs:
                raise RuntimeError(f"a lease returned no job after {leased} jobs")
            finished = [
                JobOutcome(
                    job=job, state=JobState.DONE, attempts=1,
                    effects=(
                        NewRows("page", 1, (f'{{"url":"{job.url}"}}',)),
                        Event(time.time(), "INFO", "n1", "page", f"200 {job.url} 1 ms 28 kB 1 rows", job.id),
                    ),
                )
                for job in result.jobs
            ]  # fmt: skip
            prepared = time.perf_counter()
            accepted = commit(committing, node, filled.run, finished, places, boottime()).accepted_ids
            committing_s += time.perf_counter() - prepared
            leasing_s += between - started
            if len(accepted) != len(result.jobs):
                raise RuntimeError(f"{len(result.jobs) - len(accepted)} of {len(result.jobs)} leases were lost")
            leased += len(result.jobs)
        return leased / leasing_s, leased / committing_s
    finally:
        leasing.close()
        committing.close()


def _node(db: Database, run_seq: int) -> int:
    """Register this process as a live node of a run that accepts leases."""
    with db.transaction():
        identity = identity_of(os.getpid()) or ""
        epoch = supervisors.begin(db, identity, run_seq, time.time())
        node, _ = nodes.insert(db, run_seq, epoch, Role.RUNNER, None, time.time())
        nodes.register(db, node, "DONE", os.getpid(), identity)
        page_limits.set_most(db, run_seq, "run", "", None)
        runs.set_slots(db, run_seq, 2 * Settings().concurrency)
        for state in (RunState.SEEDING, RunState.READY):
            runs.set_state(db, run_seq, state)
    return node


def _first(site: Site) -> float:
    first = site.first_hit()
    if first is None:
        raise RuntimeError("the crawl made no request")
    return first


def _timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measurements(many: int = MANY) -> Iterator[dict[str, Any]]:
    """Yield each measurement: what, number of jobs, value, unit, budget."""

    def result(what: str, jobs: int | None, value: float, unit: str, budget: str | None = None) -> dict[str, Any]:
        return {"bench": "micro", "what": what, "jobs": jobs, "value": value, "unit": unit, "budget": budget}

    yield result("crawl-console --version", None, version_time() * 1000, "ms", "≤ 60")
    yield result("start → first fetch", None, start_times() * 1000, "ms", "≤ 350")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, served_pages(2 * many + 1000) as site:
        filled = fill(begin(site, Path(folder)), site, FEW)
        yield result("snapshot", filled.ready, snapshot_time(filled) * 1000, "ms")
        started = time.perf_counter()
        more = fill(filled, site, many)
        seconds = time.perf_counter() - started
        yield result("jobs created, one process", more.ready, (more.ready - filled.ready) / seconds, "jobs/s")
        yield result("snapshot", more.ready, snapshot_time(more) * 1000, "ms", "≤ 20")
        yield result("resume → first fetch", more.ready, resume_time(more, site), "s", "≤ 10")
        leased, committed = leases(more)
        yield result("leases of 32, one node", more.ready, leased, "jobs/s")
        yield result("commits of 32, one node", more.ready, committed, "jobs/s")
        wide = spread(more, _HOSTS, 10)
        yield result(f"snapshot, {_HOSTS:,} hosts", wide.ready, snapshot_time(wide) * 1000, "ms", "≤ 20")


def micro_table(results: list[dict[str, Any]]) -> str:
    """All of them."""
    return table(
        ["what", "jobs", "measured", "unit", "budget"],
        [[r["what"], r["jobs"], r["value"], r["unit"], r["budget"] or ""] for r in results],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure leases, snapshots and starts.")
    parser.add_argument("--jobs", type=int, default=MANY, help="READY jobs of the large data dir")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results as JSON lines")
    options = parser.parse_args()
    print(machine_line())
    results = list(measurements(options.jobs))
    print(micro_table(results))
    for result in results:
        put(options.json, {**result, **machine()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
