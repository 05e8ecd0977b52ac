"""Creates a data dir with many READY jobs: started by a real run, then filled as its commits would."""

import subprocess
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from crawl_engine import urls
from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import link_key
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.job import linked_jobs
from crawl_engine.store.tables.job.linked_jobs import NewLink
from crawl_engine.store.tables.run import runs
from crawl_engine.store.transactions.placement import PlacementCache
from tests.bench.crawlers import PROJECT, run_command, write_defs
from tests.bench.pages import path_of
from tests.bench.site import Site

_BATCH = 5_000
_A_JOB = "SELECT sequence, locator, root, id FROM jobs WHERE run = ? AND origin = 'locator' LIMIT 1"
_COUNT = "SELECT count(*) FROM jobs WHERE run = ? AND state = 'READY'"
GROUP = "docs"


@dataclass(frozen=True, slots=True)
class Filled:
    """A data dir, its defs, and the run and sequence of its jobs."""

    data: Path
    defs: Path
    run: int
    sequence: int
    ready: int


def begin(site: Site, folder: Path) -> Filled:
    """Start a run that stops at its page limit and can be resumed."""
    defs, data = write_defs(site.starts[:1], folder), folder / "data"
    run(site, data, defs, pages=1)
    db = connect(data / CRAWL, read_only=True)
    try:
        latest = runs.latest(db)
        assert latest is not None
        sequence = int(db.value(_A_JOB, (latest.seq,)))
        return Filled(data, defs, latest.seq, sequence, int(db.value(_COUNT, (latest.seq,))))
    finally:
        db.close()


def fill(filled: Filled, site: Site, upto: int) -> Filled:
    """Add jobs until `upto` are READY; they are links to pages of the site."""
    db = connect(filled.data / CRAWL, durable=False)
    try:
        _, locator, root, id_ = db.all(_A_JOB, (filled.run,))[0]
        numbers = iter(range(1, 2 * upto + 1000))
        ready = filled.ready
        while ready < upto:
            new = []
            for number in islice(numbers, min(_BATCH, upto - ready)):
                url = urls.normalize(site.origins[0] + path_of(number))
                assert url is not None
                key = link_key(GROUP, url)
                new.append(NewLink(filled.run, filled.sequence, 0, 1, locator, root or id_, url, key))
            with db.transaction():
                linked_jobs.add_links(db, new)
            ready += len(new)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return Filled(filled.data, filled.defs, filled.run, filled.sequence, ready)
    finally:
        db.close()


def spread(filled: Filled, hosts: int, each: int) -> Filled:
    """Add `each` jobs on each of `hosts` more hosts. The data dir cannot be run after that."""
    db = connect(filled.data / CRAWL, durable=False)
    places = PlacementCache(filled.run, lambda _: HostPolicy(0.0, 1, False))
    ready = filled.ready
    try:
        _, locator, root, id_ = db.all(_A_JOB, (filled.run,))[0]
        with db.transaction():
            for host in range(hosts):
                origin = f"http://host{host}.invalid"
                place = places.find_or_create(db, GROUP, f"host{host}.invalid:80", origin)
                pages = [f"{origin}{path_of(number)}" for number in range(each)]
                keys = [link_key(GROUP, url) for url in pages]
                links = [
                    NewLink(filled.run, place.sequence, 0, 1, locator, root or id_, url, key)
                    for url, key in zip(pages, keys, strict=True)
                ]
                linked_jobs.add_links(db, links)
                ready += len(links)
        return Filled(filled.data, filled.defs, filled.run, filled.sequence, ready)
    finally:
        db.close()


def run(site: Site, data: Path, defs: Path, *, pages: int) -> subprocess.CompletedProcess[str]:
    """`crawl-console run` of a data dir until it has fetched `pages` pages in all its runs."""
    command = [*run_command(defs, data), "--max-pages", str(pages)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, timeout=300)
    if done.returncode:
        sys.stderr.write(done.stdout[-1000:] + done.stderr[-3000:])
        raise RuntimeError(f"crawl-console of {site.name}: exit {done.returncode}")
    return done
