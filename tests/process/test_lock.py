"""One supervisor a data dir: of many started at once one runs, and a holder that dies in any stage bars nobody."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from engine.supervise.lock import Lock

from .house import House, Running, until
from .library import Library
from .site import Site
from .stopwatch import Stopwatch
from .test_deaths import kill

pytestmark = pytest.mark.timeout(120)

STAGES = [
    "CHECK_LOCK", "START_APPENDER", "START_NODES", "RUNNING", "CRAWL_COMPLETE", "STOPPING_NODES_GRACEFUL",
    "STOPPING_APPENDER_GRACEFUL", "RELEASING_LOCK",
]  # fmt: skip


def stampede(house: House, site: Site, count: int, seconds: float) -> float:
    """Start many at once; returns how long after the last start the last refused one was gone."""
    library = Library(site, shelves=2, books=4, delay=0.4)
    house.write(library.defs(concurrency=2))
    started = [house.start() for _ in range(count)]
    began = time.monotonic()
    winner: list[Running] = []

    def all_but_one_over() -> bool:
        winner[:] = [running for running in started if not running.over]
        return len(winner) <= 1

    assert until(all_but_one_over, seconds), f"{len(winner)} still there"
    took = time.monotonic() - began
    assert len(winner) == 1, "the winner is still at work: the site is slow"
    for running in started:
        if running is not winner[0]:
            done = running.wait()
            assert done.code == 4, done.err
            assert done.out == ""
            named = re.search(r"held by another supervisor \(pid (\d+)", done.err)
            assert named, done.err
            assert int(named[1]) == winner[0].pid
    done = winner[0].wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)
    return took


def test_of_thirty_started_at_once_one_runs(house: House, site: Site) -> None:
    stampede(house, site, 30, 20.0)


@pytest.mark.sweep
@pytest.mark.parametrize(("count", "seconds"), [(30, 2.0), (100, 5.0)])
def test_the_others_are_gone_in_time_sweep(house: House, site: Site, count: int, seconds: float) -> None:
    took = stampede(house, site, count, 60.0)
    print(f"{count}: {took:.2f} s after the last start")
    assert took < seconds


def dies_in(house: House, site: Site, stage: str) -> None:
    """The holder dies where it has just written the stage: the next start goes on at once."""
    library = Library(site, shelves=2, books=4, delay=0.05)
    house.write(library.defs(concurrency=4))
    running = house.start()
    seen = f"SELECT 1 FROM events WHERE kind = 'stage' AND text = '{stage}'"

    def reached() -> bool:
        try:
            return bool(house.query(seen)) or running.over
        except Exception:
            return False  # no database yet, or no table

    assert until(reached, 20)
    kill(running.pid)
    running.wait()
    began = time.monotonic()
    done = house.start().wait()
    assert done.code == 0, done.err
    assert time.monotonic() - began < 15
    house.assert_clean(done)
    rows = house.counted("entry", "book")
    assert rows == library.rows()


@pytest.mark.parametrize("stage", ["START_APPENDER", "STOPPING_NODES_GRACEFUL"])
def test_a_holder_that_dies_in_a_stage_bars_nobody(house: House, site: Site, stage: str) -> None:
    dies_in(house, site, stage)


@pytest.mark.sweep
@pytest.mark.parametrize("stage", STAGES)
def test_a_holder_that_dies_in_a_stage_bars_nobody_sweep(house: House, site: Site, stage: str) -> None:
    dies_in(house, site, stage)


_INTERRUPTED = """
import os, signal, sys

awaited = sys.argv.pop(1)

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == awaited:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from console.__main__ import main
main()
"""
IMPORTED = [
    "click",
    "engine.errors",
    "console.cli.main",
    "console.cli.commands.run",
    "engine.defs.loader",
    "engine.supervise.build",
]


@pytest.mark.parametrize("module", IMPORTED)
def test_an_interrupt_while_modules_are_imported_is_quiet(house: House, site: Site, module: str) -> None:
    house.write(Library(site, shelves=1, delay=0.3).defs())
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, module, "run", "--no-ui", "--defs", house.defs, "--data", house.data],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=20,
        cwd=house.folder,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 130, done.stderr
    house.assert_nobody_left()


def test_a_refused_start_imports_little(house: House) -> None:
    """What a refusal costs is what it imports: of many at once each has little of the machine."""
    lock = Lock.acquire(house.data)
    try:
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "console", "run", "--no-ui", "--data", house.data],
            capture_output=True,
            timeout=20,
            cwd=house.folder,
            check=False,
        )
    finally:
        lock.release()
    assert done.returncode == 4, done.stderr
    heavy = ("pydantic", "yaml", "httpx", "huey", "sqlite3", "orjson", "textual", "rich", "engine.store.db.connector")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if "|" in line}
    assert not [name for name in imported if name.startswith(heavy)]


def test_a_second_supervisor_leaves_at_once_naming_the_first(house: House, site: Site) -> None:
    library = Library(site, shelves=4, delay=0.2)
    house.write(library.defs(concurrency=2))
    first = house.start()
    assert until(lambda: len(site.paths) > 2)
    watch = Stopwatch()
    second = house.start().wait()
    assert watch.seconds() < 2
    assert second.code == 4
    assert str(first.pid) in second.err
    assert house.status()["run"] in second.err
    assert second.out == ""
    done = first.wait()
    assert done.code == 0
    assert house.counted("entry", "book") == library.rows()
    house.assert_clean(done)


def test_of_many_started_at_once_one_wins(house: House, site: Site) -> None:
    library = Library(site, shelves=2, delay=0.1)
    house.write(library.defs())
    codes = sorted(running.wait().code for running in [house.start() for _ in range(4)])
    assert set(codes) <= {0, 4}, codes
    assert codes.count(0) >= 1
    assert house.counted("entry", "book") == library.rows()


def test_a_dead_holder_blocks_nobody(house: House, site: Site) -> None:
    library = Library(site, shelves=4, delay=0.2)
    house.write(library.defs(concurrency=2))
    first = house.start()
    assert until(lambda: len(site.paths) > 2)
    first.send(signal.SIGKILL)
    first.wait()
    watch = Stopwatch()
    second = house.start()
    assert until(lambda: (house.data / "crawl.db").exists() and house.status()["supervisor"] is not None)
    assert watch.seconds() < 4
    assert second.wait().code == 0
    assert house.counted("entry", "book") == library.rows()


def test_a_stale_lock_file_blocks_nobody(house: House, site: Site) -> None:
    house.write(Library(site, shelves=1).defs())
    house.data.mkdir(mode=0o700)
    for text in ("not json", f'{{"pid": {os.getpid()}, "identity": "x", "run": "y"}}'):
        (house.data / "supervisor.lock").write_text(text)
        house.crawl()
