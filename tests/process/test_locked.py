"""A database locked by another program only delays: no crash, no kill, stops end in time."""

import contextlib
import random
import signal
import sqlite3
import time
from collections.abc import Iterator

import pytest

from tests.sample import sampled

from .killed_crawl import kill, library_of, start_crawl, victims
from .project import Project, until
from .site import Site
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(180)


@contextlib.contextmanager
def locked(project: Project, name: str) -> Iterator[None]:
    """Another program holds the write lock of a database."""
    with contextlib.closing(sqlite3.connect(project.data / name, isolation_level=None, timeout=20)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


def crawl_under_lock(project: Project, site: Site, name: str, seconds: float) -> None:
    library = library_of(project, site, delay=0.05)
    running = start_crawl(project, site)
    with locked(project, name):
        time.sleep(seconds)
        assert not running.exited
    done = running.wait()
    assert done.code == 0, done.err
    assert {node["state"] for node in done.summary["nodes"]} == {"TERMINATED"}, "busy is not dead"
    assert project.query("SELECT count(*) FROM appenders") == [(1,)]
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)


@pytest.mark.quick
@pytest.mark.parametrize(("name", "seconds"), sampled([("crawl.db", 6.5), ("pages.db", 3.0)], 0))
def test_a_database_locked_for_a_while_only_delays(project: Project, site: Site, name: str, seconds: float) -> None:
    crawl_under_lock(project, site, name, seconds)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["crawl.db", "pages.db"])
def test_a_database_locked_for_a_minute_only_delays(project: Project, site: Site, name: str) -> None:
    crawl_under_lock(project, site, name, 60.0)


def kill_under_lock(project: Project, site: Site, seconds: float, seed: int) -> None:
    """Processes die and are replaced while the database is locked: only these are declared dead."""
    rng = random.Random(f"locked{seed}")
    library = library_of(project, site, delay=0.05)
    running = start_crawl(project, site, "--backups", "1")
    with locked(project, "crawl.db"):
        end = time.monotonic() + seconds
        dead = victims(project, running, rng.choice(["node", "appender"]), rng)
        kill(*dead)
        time.sleep(rng.uniform(0.2, seconds / 2))
        dead += (more := victims(project, running, "node", rng))
        kill(*more)
        time.sleep(max(0.0, end - time.monotonic()))
        assert not running.exited, running.err
    done = running.wait()
    assert done.code == 0, (done.err, project.logs()[-3000:])
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    marks = ",".join(map(str, dead))
    ended = project.query(f"SELECT number, pid, reason FROM nodes WHERE state <> 'TERMINATED' AND pid NOT IN ({marks})")
    assert ended == [], "busy is not dead"


@pytest.mark.sweep
def test_deaths_while_the_database_is_locked(project: Project, site: Site) -> None:
    kill_under_lock(project, site, 5.0, 0)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 11))
def test_deaths_while_the_database_is_locked_sweep(project: Project, site: Site, seed: int) -> None:
    kill_under_lock(project, site, 60.0, seed)


@pytest.mark.sweep
def test_a_start_waits_for_a_locked_database_and_can_be_cancelled(project: Project, site: Site) -> None:
    library = library_of(project, site, delay=0.02)
    running = start_crawl(project, site)
    running.send(signal.SIGTERM)
    assert running.wait().code == 143
    with locked(project, "crawl.db"):
        cancelled = project.start()
        assert until(lambda: "waiting for it" in cancelled.err, 10), cancelled.err
        cancelled.send(signal.SIGINT)
        assert cancelled.wait().code == 130
        waiting = project.start()
        time.sleep(4)
        assert not waiting.exited, waiting.err
    done = waiting.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("signals", "code", "seconds"), [pytest.param(1, 143, 11.0, marks=pytest.mark.sweep), (2, 137, 9.0)]
)
def test_a_stop_while_the_database_is_locked_ends_in_time(
    project: Project, site: Site, signals: int, code: int, seconds: float
) -> None:
    library = library_of(project, site, delay=0.05)
    running = start_crawl(project, site, "--grace", "1")
    with locked(project, "crawl.db"):
        time.sleep(0.5)
        watch = Stopwatch()
        for _ in range(signals):
            running.send(signal.SIGTERM)
            time.sleep(0.1)
        assert running.wait().code == code, running.err
        assert watch.seconds() < seconds
        project.assert_no_process_left(3)
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()
