"""Measures leases and commits of SQLite and PostgreSQL side by side."""

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobState, LeasedJob, link_key
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.location import Location, write_location
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.job import linked_jobs, rings
from crawl_engine.store.tables.job.linked_jobs import ChildJob, Children, NewLink
from crawl_engine.store.tables.outcome import AttemptStats, JobOutcome
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions.commit import commit
from crawl_engine.store.transactions.lease import LeaseRequest, lease
from crawl_engine.store.transactions.placement import PlacementCache
from tests.bench.report import machine, machine_line, put, table
from tests.contract.store.harness import StoreHarness
from tests.postgres_server import PostgresServer

_SETTINGS = ("fsync=on", "shared_buffers=256MB", "autovacuum=on")
_HOSTS, _PAGES = 100, 200
_POLICY = HostPolicy(0.0, 8, False)
_PLANS = tuple((batch, clients) for batch in (32, 200) for clients in (1, 2, 4))


class Work(NamedTuple):
    """What one client did: jobs, and the seconds of its leases and of its commits, which lease the next jobs."""

    jobs: int
    leasing: float
    committing: float


def prepare(folder: Path) -> list[int]:
    """A run with four nodes, and pages on many hosts; returns the nodes."""
    store = StoreHarness(folder, nodes_=4, slots=2_000, policies={f"h{host}:80": _POLICY for host in range(_HOSTS)})
    with closing(store.db):
        store.seed("http://h0/")
        (root,) = store.db.one("SELECT id FROM jobs") or (0,)
        for host in range(_HOSTS):
            place = store.place(f"http://h{host}/")
            pages = [f"http://h{host}/p/{number}" for number in range(_PAGES)]
            with store.db.transaction():
                linked_jobs.add_links(
                    store.db,
                    [NewLink(store.run, place.sequence, 0, 1, 1, root, url, link_key("g", url)) for url in pages],
                )
        with store.db.transaction():
            rings.ring_all(store.db, store.run, store_time())
        return store.nodes


def work(folder: Path, node: int, batch: int, seconds: float, *, apart: bool) -> Work:
    """Lease and commit pages, each with a row, an event, a link that is known and one that is new.

    `apart`: the leases are transactions of their own; else a commit leases the next jobs, as in a crawl.
    """
    places = PlacementCache(1, lambda _: _POLICY)
    done, leasing, committing, number = 0, 0.0, 0.0, node << 32 | int(time.monotonic() * 10) << 10
    with closing(connect(folder / CRAWL, durable=False)) as light, closing(connect(folder / CRAWL)) as durable:
        jobs: Sequence[LeasedJob] = ()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            number += 1
            request = LeaseRequest(node=node, lease_id=number, free_slots=batch, batch=batch)
            if not jobs:
                begun = time.perf_counter()
                jobs = [job for got in lease(light, 1, request, store_time()) for job in got.jobs]
                leasing += time.perf_counter() - begun
                continue
            outcomes = [_outcome(job) for job in jobs]
            begun = time.perf_counter()
            result = commit(durable, node, 1, outcomes, places, store_time(), request=None if apart else request)
            committing += time.perf_counter() - begun
            done += len(result.accepted_ids)
            jobs = result.leased
        commit(durable, node, 1, [_outcome(job) for job in jobs], places, store_time())
    return Work(done, leasing, committing)


def _outcome(job: LeasedJob) -> JobOutcome:
    host, _, _ = job.url.removeprefix("http://").partition("/")
    urls = (f"http://{host}/p/0", f"http://{host}/p/{job.id}-{job.lease}")
    links = [ChildJob("g", f"{host}:80", f"http://{host}", url, 1, 0, link_key("g", url)) for url in urls]
    return JobOutcome(
        job=job, state=JobState.DONE, attempts=1, stats=AttemptStats(1, 1, 0.1, 20_000, ((200, 0.1),)),
        effects=(
            NewRows("book", 1, (f'{{"title":"{job.url}"}}',)), Children(tuple(links)),
            Event(time.time(), "INFO", "n1", "page", "200 1 ms 28 kB 1 rows  ", job.id),
        ),
    )  # fmt: skip


def measurements(rounds: int, seconds: float, url: str | None = None) -> list[dict[str, Any]]:
    """Jobs a second of each store by batch and number of clients: the median of several rounds, in turns."""
    server = None if url else PostgresServer(*_SETTINGS)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            folders = {"sqlite": Path(folder) / "sqlite", "postgresql": Path(folder) / "postgresql"}
            for path in folders.values():
                path.mkdir()
            location = Location(url or (server.create_database() if server else ""), f"bench{os.getpid()}")
            write_location(folders["postgresql"], location)
            nodes = {store: prepare(path) for store, path in folders.items()}
            found: dict[tuple[str, int, int, str], list[float]] = {}
            for _ in range(rounds):
                for batch, clients in _PLANS:
                    for store, path in folders.items():
                        for what, speed in _measure(path, nodes[store][:clients], batch, seconds):
                            found.setdefault((store, batch, clients, what), []).append(speed)
            return [
                {"bench": "stores", "store": store, "batch": batch, "clients": clients, "what": what,
                 "jobs_per_s": statistics.median(speeds)}
                for (store, batch, clients, what), speeds in found.items()
            ]  # fmt: skip
    finally:
        if server is not None:
            server.close()


def _measure(folder: Path, nodes: Sequence[int], batch: int, seconds: float) -> list[tuple[str, float]]:
    """Clients are processes. One alone also tells how long its leases and commits take as transactions of their own."""
    alone = []
    if len(nodes) == 1:
        apart = work(folder, nodes[0], batch, seconds, apart=True)
        alone = [("leases", apart.jobs / apart.leasing), ("commits", apart.jobs / apart.committing)]
    with ProcessPoolExecutor(len(nodes), multiprocessing.get_context("spawn")) as pool:
        started = [pool.submit(work, folder, node, batch, seconds, apart=False) for node in nodes]
        together = sum(one.result().jobs for one in started) / seconds
    return [*alone, ("commits that lease", together)]


def stores_table(results: Sequence[dict[str, Any]]) -> str:
    """The two stores beside each other."""
    speeds = {(r["store"], r["batch"], r["clients"], r["what"]): r["jobs_per_s"] for r in results}
    rows = [
        [what, batch, clients, speed, other := speeds["postgresql", batch, clients, what], other / speed]
        for (store, batch, clients, what), speed in speeds.items()
        if store == "sqlite"
    ]
    return table(["jobs/s", "batch", "clients", "sqlite", "postgresql", "ratio"], rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--url", help="of a database to use instead of an own server")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results as JSON lines")
    options = parser.parse_args()
    print(machine_line())
    results = measurements(options.rounds, options.seconds, options.url)
    print(stores_table(results))
    for result in results:
        put(options.json, {**result, **machine()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
