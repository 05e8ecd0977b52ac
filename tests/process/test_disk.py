"""Disks that fill up: intake pauses and says so, goes on when there is space, and nothing is lost or doubled."""

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .house import House, Running, until
from .library import Library
from .site import Site
from .small_disk import SmallDisk, small_disk
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(120)

LEAST = 4_000_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def small(house: House, disk: SmallDisk) -> House:
    """Its data dir lies on the small disk."""
    house.data = disk.path / "data"
    return house


def library_of(house: House, site: Site, shelves: int = 6, delay: float = 0.05) -> Library:
    library = Library(site, shelves=shelves, books=8, delay=delay)
    house.write(library.defs(concurrency=6, more="appenders: {rows: {type: csv}, lines: {type: jsonl}}\n"))
    return library


def under_way(house: House, site: Site, *arguments: str, least: int = LEAST, fetched: int = 6) -> Running:
    running = house.start("--set", f"min_free={least}", *arguments)
    assert until(lambda: len(site.paths) >= fetched or running.over), running.err
    assert not running.over, running.err
    return running


def quiet(site: Site, seconds: float = 1.0) -> bool:
    """Whether nobody asks for pages any more."""
    asked = len(site.paths)
    time.sleep(seconds)
    return len(site.paths) == asked


def assert_exact(house: House, site: Site, library: Library) -> None:
    house.assert_clean()
    assert house.counted("entry", "book") == library.rows()
    assert house.output("book.jsonl").read_bytes().count(b"\n") == len(house.rows("book"))
    assert house.query("SELECT count(*), count(DISTINCT url) FROM jobs WHERE state = 'DONE'") == [
        (library.size, library.size)
    ]


@pytest.mark.parametrize("leave", [LEAST // 2, 0])
def test_a_full_disk_pauses_the_run_until_there_is_space(small: House, disk: SmallDisk, site: Site, leave: int) -> None:
    library = library_of(small, site, shelves=12, delay=0.15)
    running = under_way(small, site)
    ballast = disk.fill(leave)
    assert until(lambda: "PAUSED: disk nearly full" in running.err, 15), running.err
    assert until(lambda: quiet(site), 10)
    assert len(set(site.paths)) < library.size
    told = small.status()
    assert "disk nearly full" in told["alarm"]
    assert "ALARM: disk nearly full" in small.order("status").out
    if leave:
        assert until(lambda: small.status()["paused"] == "disk", 15)
        assert until(lambda: any("disk nearly full" in node["now"] for node in small.status()["nodes"]), 15)
    assert not running.over
    ballast.unlink()
    done = running.wait()
    assert done.code == 0, done.err
    assert "disk space is free again" in done.err
    assert_exact(small, site, library)
    assert sorted(site.paths) == sorted(library.pages), "what was under way was kept"
    told_of = small.query("SELECT level FROM events WHERE kind = 'disk' ORDER BY id")
    assert told_of == [("ERROR",), ("INFO",)]
    assert small.query("SELECT paused FROM runs") == [(None,)]


@pytest.mark.sweep
def test_without_a_least_space_a_full_disk_only_delays(small: House, disk: SmallDisk, site: Site) -> None:
    """Nobody looks at the space, and every write fails: what is fetched is kept in hand until it can be committed."""
    library = library_of(small, site)
    running = under_way(small, site, least=0)
    ballast = disk.fill()
    assert until(lambda: quiet(site), 20)
    assert not running.over
    ballast.unlink()
    done = running.wait()
    assert done.code == 0, done.err
    assert_exact(small, site, library)
    assert sorted(site.paths) == sorted(library.pages)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.sweep)]
)
def test_a_cancel_on_a_full_disk_ends_in_time_and_loses_nothing(
    small: House, disk: SmallDisk, site: Site, number: signal.Signals, code: int
) -> None:
    library = library_of(small, site, delay=0.1)
    running = under_way(small, site, "--grace", "1")
    ballast = disk.fill()
    time.sleep(1.5 if number == signal.SIGINT else 0.1)
    watch = Stopwatch()
    running.send(number)
    done = running.wait()
    assert watch.seconds() < 1 + 5 + 3, "the grace, what a node has beyond it, and a little"
    assert done.code == code, done.err
    small.assert_nobody_left(2)
    ballast.unlink()
    small.crawl("--set", f"min_free={LEAST}")
    assert_exact(small, site, library)


def test_a_hard_kill_on_a_full_disk_ends_at_once(small: House, disk: SmallDisk, site: Site) -> None:
    library = library_of(small, site, delay=0.1)
    running = under_way(small, site)
    ballast = disk.fill()
    running.send(signal.SIGTERM)
    time.sleep(0.5)
    watch = Stopwatch()
    running.send(signal.SIGTERM)
    assert running.wait().code == 137
    assert watch.seconds() < 3
    small.assert_nobody_left(2)
    ballast.unlink()
    small.crawl("--set", f"min_free={LEAST}")
    assert_exact(small, site, library)


def test_a_node_that_dies_on_a_full_disk_is_replaced_when_there_is_space(
    small: House, disk: SmallDisk, site: Site
) -> None:
    library = library_of(small, site)
    running = under_way(small, site)
    ballast = disk.fill()
    os.kill(small.children("node")[0], signal.SIGKILL)
    os.kill(small.children("append")[0], signal.SIGKILL)
    time.sleep(4)
    assert not running.over
    ballast.unlink()
    done = running.wait()
    assert done.code == 0, done.err
    assert_exact(small, site, library)


def test_a_full_disk_of_the_output_alone(house: House, disk: SmallDisk, site: Site) -> None:
    """The database could go on; the rows would pile up in it, and nobody would know."""
    library = Library(site, shelves=6, books=8, delay=0.05)
    house.write(library.defs(concurrency=6))
    output = disk.path / "rows.db"
    running = under_way(house, site, "-o", str(output))
    ballast = disk.fill()
    assert until(lambda: house.status()["paused"] == "disk", 15)
    assert until(lambda: quiet(site), 10)
    told = house.status()
    assert str(disk.path) in told["alarm"]
    ballast.unlink()
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    with contextlib.closing(sqlite3.connect(output)) as db:
        assert db.execute("SELECT count(*), count(DISTINCT isbn) FROM book").fetchone() == (48, 48)
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert sorted(site.paths) == sorted(library.pages)


@pytest.mark.sweep
def test_a_full_disk_of_the_pages_alone(house: House, disk: SmallDisk, site: Site) -> None:
    library = library_of(house, site)
    house.data.mkdir(mode=0o700)
    (house.data / "pages.db").symlink_to(disk.path / "pages.db")
    running = under_way(house, site)
    ballast = disk.fill()
    assert until(lambda: house.status()["paused"] == "disk", 15)
    assert until(lambda: quiet(site), 10)
    ballast.unlink()
    done = running.wait()
    assert done.code == 0, done.err
    assert_exact(house, site, library)
    assert sorted(site.paths) == sorted(library.pages)


def test_an_operators_pause_outlives_the_disks(small: House, disk: SmallDisk, site: Site) -> None:
    library = library_of(small, site)
    running = under_way(small, site)
    with contextlib.closing(sqlite3.connect(small.data / "crawl.db", timeout=20)) as db:
        [(epoch,)] = db.execute("SELECT max(epoch) FROM supervisors").fetchall()

        def order(name: str) -> None:
            with db:
                db.execute(
                    "INSERT INTO commands (supervisor, name, arguments, given_at) VALUES (?, ?, '{}', 0)",
                    (epoch, name),
                )

        order("pause")
        ballast = disk.fill(LEAST // 2)
        paused = "SELECT paused FROM runs"
        assert until(lambda: small.query(paused) == [("operator, disk",)], 15)
        ballast.unlink()
        assert until(lambda: small.query(paused) == [("operator",)], 15)
        assert quiet(site)
        assert not running.over
        order("resume")
    assert running.wait().code == 0
    assert_exact(small, site, library)
