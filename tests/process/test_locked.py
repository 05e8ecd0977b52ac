"""A database that another program keeps locked only delays: nothing crashes, nobody is killed, stops end in time."""

import contextlib
import random
import signal
import sqlite3
import time
from collections.abc import Iterator

import pytest

from .house import House, until
from .site import Site
from .stopwatch import Stopwatch
from .test_deaths import kill, library_of, under_way, victims

pytestmark = pytest.mark.timeout(180)


@contextlib.contextmanager
def locked(house: House, name: str) -> Iterator[None]:
    """Another program holds the write lock of a database."""
    with contextlib.closing(sqlite3.connect(house.data / name, isolation_level=None, timeout=20)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


def delayed(house: House, site: Site, name: str, seconds: float) -> None:
    library = library_of(house, site, delay=0.05)
    running = under_way(house, site)
    with locked(house, name):
        time.sleep(seconds)
        assert not running.over
    done = running.wait()
    assert done.code == 0, done.err
    assert {node["state"] for node in done.summary["nodes"]} == {"TERMINATED"}, "a busy database is no death"
    assert house.query("SELECT count(*) FROM appenders") == [(1,)]
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)


@pytest.mark.parametrize(("name", "seconds"), [("crawl.db", 6.5), ("pages.db", 3.0)])
def test_a_database_locked_for_a_while_only_delays(house: House, site: Site, name: str, seconds: float) -> None:
    delayed(house, site, name, seconds)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["crawl.db", "pages.db"])
def test_a_database_locked_for_a_minute_only_delays(house: House, site: Site, name: str) -> None:
    delayed(house, site, name, 60.0)


def bereaved(house: House, site: Site, seconds: float, seed: int) -> None:
    """Processes die while nobody can write it down, and others are started in their place: only the dead are buried."""
    dice = random.Random(f"locked{seed}")
    library = library_of(house, site, delay=0.05)
    running = under_way(house, site, "--backups", "1")
    with locked(house, "crawl.db"):
        end = time.monotonic() + seconds
        dead = victims(house, running, dice.choice(["node", "append"]), dice)
        kill(*dead)
        time.sleep(dice.uniform(0.2, seconds / 2))
        dead += (more := victims(house, running, "node", dice))
        kill(*more)
        time.sleep(max(0.0, end - time.monotonic()))
        assert not running.over, running.err
    done = running.wait()
    assert done.code == 0, (done.err, house.logs()[-3000:])
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    marks = ",".join(map(str, dead))
    ended = house.query(f"SELECT number, pid, reason FROM nodes WHERE state <> 'TERMINATED' AND pid NOT IN ({marks})")
    assert ended == [], "a busy database is no death"


def test_deaths_while_the_database_is_locked(house: House, site: Site) -> None:
    bereaved(house, site, 5.0, 0)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 11))
def test_deaths_while_the_database_is_locked_sweep(house: House, site: Site, seed: int) -> None:
    bereaved(house, site, 60.0, seed)


def test_a_start_waits_for_a_locked_database_and_can_be_stopped_meanwhile(house: House, site: Site) -> None:
    library = library_of(house, site, delay=0.02)
    running = under_way(house, site)
    running.send(signal.SIGTERM)
    assert running.wait().code == 143
    with locked(house, "crawl.db"):
        impatient = house.start()
        assert until(lambda: "waiting for it" in impatient.err, 10), impatient.err
        impatient.send(signal.SIGINT)
        assert impatient.wait().code == 130
        patient = house.start()
        time.sleep(4)
        assert not patient.over, patient.err
    done = patient.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()


@pytest.mark.parametrize(
    ("signals", "code", "seconds"), [pytest.param(1, 143, 11.0, marks=pytest.mark.sweep), (2, 137, 9.0)]
)
def test_a_stop_while_the_database_is_locked_ends_in_time(
    house: House, site: Site, signals: int, code: int, seconds: float
) -> None:
    library = library_of(house, site, delay=0.05)
    running = under_way(house, site, "--grace", "1")
    with locked(house, "crawl.db"):
        time.sleep(0.5)
        watch = Stopwatch()
        for _ in range(signals):
            running.send(signal.SIGTERM)
            time.sleep(0.1)
        assert running.wait().code == code, running.err
        assert watch.seconds() < seconds
        house.assert_nobody_left(3)
    house.crawl()
    assert house.counted("entry", "book") == library.rows()
