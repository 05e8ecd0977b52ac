"""One supervisor per data dir: of many started at once one runs; a dead holder blocks no other."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from crawl_engine.store.db.file_header import LOCK_NAME
from crawl_engine.supervise.lock import Lock

from .killed_crawl import kill
from .library import Library
from .project import Project, Running, until
from .site import Site
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(120)

STAGES = [
    "CHECK_LOCK", "START_APPENDER", "START_NODES", "RUNNING", "CRAWL_COMPLETE", "STOPPING_NODES_GRACEFUL",
    "STOPPING_APPENDER_GRACEFUL", "RELEASING_LOCK",
]  # fmt: skip


def start_many(project: Project, site: Site, count: int, seconds: float) -> float:
    """Start many at once; return the time from the last start to the exit of the last refused one."""
    library = Library(site, shelves=2, books=4, delay=0.4)
    project.write(library.defs(concurrency=2))
    started = [project.start() for _ in range(count)]
    started_at = time.monotonic()
    winner: list[Running] = []

    def all_but_one_over() -> bool:
        winner[:] = [running for running in started if not running.exited]
        return len(winner) <= 1

    assert until(all_but_one_over, seconds), f"{len(winner)} still running"
    took = time.monotonic() - started_at
    assert len(winner) == 1, "the winner is still crawling: the site is slow"
    for running in started:
        if running is not winner[0]:
            done = running.wait()
            assert done.code == 4, done.err
            assert done.out == ""
            named = re.search(r"held by another (?:supervisor|process) \(pid (\d+)", done.err)
            assert named, done.err
            assert int(named[1]) == winner[0].pid
    done = winner[0].wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)
    return took


@pytest.mark.quick
def test_of_thirty_started_at_once_one_runs(project: Project, site: Site) -> None:
    start_many(project, site, 30, 20.0)


@pytest.mark.sweep
@pytest.mark.parametrize(("count", "seconds"), [(30, 2.0), (100, 5.0)])
def test_refused_supervisors_exit_in_time_sweep(project: Project, site: Site, count: int, seconds: float) -> None:
    took = start_many(project, site, count, 60.0)
    print(f"{count}: {took:.2f} s after the last start")
    assert took < seconds


def kill_in_stage(project: Project, site: Site, stage: str) -> None:
    """The holder dies right after it recorded the stage: the next start resumes at once."""
    library = Library(site, shelves=2, books=4, delay=0.05)
    project.write(library.defs(concurrency=4))
    running = project.start()
    stage_event = f"SELECT 1 FROM events WHERE kind = 'stage' AND text = '{stage}'"

    def reached() -> bool:
        try:
            return bool(project.query(stage_event)) or running.exited
        except Exception:
            return False  # no database yet, or no table

    assert until(reached, 20)
    kill(running.pid)
    running.wait()
    started_at = time.monotonic()
    done = project.start().wait()
    assert done.code == 0, done.err
    assert time.monotonic() - started_at < 15
    project.assert_clean(done)
    rows = project.count_rows("entry", "book")
    assert rows == library.rows()


@pytest.mark.parametrize("stage", ["START_APPENDER", "STOPPING_NODES_GRACEFUL"])
def test_a_holder_that_dies_in_a_stage_does_not_block_the_next(project: Project, site: Site, stage: str) -> None:
    kill_in_stage(project, site, stage)


@pytest.mark.sweep
@pytest.mark.parametrize("stage", STAGES)
def test_a_holder_that_dies_in_a_stage_does_not_block_the_next_sweep(project: Project, site: Site, stage: str) -> None:
    kill_in_stage(project, site, stage)


_INTERRUPTED = """
import os, signal, sys

awaited = sys.argv.pop(1)

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == awaited:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from crawl_console.__main__ import main
main()
"""
IMPORTED = [
    "click",
    "crawl_engine.errors",
    "crawl_console.cli.main",
    "crawl_console.cli.commands.work.run",
    "crawl_engine.defs.loader",
    "crawl_engine.supervise.build",
]


@pytest.mark.parametrize("module", IMPORTED)
def test_an_interrupt_while_modules_are_imported_is_quiet(project: Project, site: Site, module: str) -> None:
    project.write(Library(site, shelves=1, delay=0.3).defs())
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, module, "run", "--no-ui", "--defs", project.defs, "--data", project.data],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=20,
        cwd=project.folder,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 130, done.stderr
    project.assert_no_process_left()


def test_a_refused_start_imports_little(project: Project) -> None:
    """A refusal costs what it imports, which matters when many start at once."""
    lock = Lock.acquire(project.data)
    try:
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "crawl_console", "run", "--no-ui", "--data", project.data],
            capture_output=True,
            timeout=20,
            cwd=project.folder,
            check=False,
        )
    finally:
        lock.release()
    assert done.returncode == 4, done.stderr
    heavy = ("yaml", "httpx", "huey", "sqlite3", "orjson", "textual", "rich", "crawl_engine.store.db.connector")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if "|" in line}
    assert not [name for name in imported if name.startswith(heavy)]


@pytest.mark.quick
def test_a_second_supervisor_exits_at_once_naming_the_first(project: Project, site: Site) -> None:
    library = Library(site, shelves=4, delay=0.2)
    project.write(library.defs(concurrency=2))
    first = project.start()
    assert until(lambda: len(site.paths) > 2)
    watch = Stopwatch()
    second = project.start().wait()
    assert watch.seconds() < 2
    assert second.code == 4
    assert str(first.pid) in second.err
    assert project.status()["run"] in second.err
    assert second.out == ""
    done = first.wait()
    assert done.code == 0
    assert project.count_rows("entry", "book") == library.rows()
    project.assert_clean(done)


def test_of_four_started_at_once_one_runs(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, delay=0.1)
    project.write(library.defs())
    codes = sorted(running.wait().code for running in [project.start() for _ in range(4)])
    assert set(codes) <= {0, 4}, codes
    assert codes.count(0) >= 1
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_a_dead_holder_does_not_block_the_next(project: Project, site: Site) -> None:
    library = Library(site, shelves=4, delay=0.2)
    project.write(library.defs(concurrency=2))
    first = project.start()
    assert until(lambda: len(site.paths) > 2)
    first.send(signal.SIGKILL)
    first.wait()
    watch = Stopwatch()
    second = project.start()
    assert until(lambda: (project.data / "crawl.db").exists() and project.status()["supervisor"] is not None)
    assert watch.seconds() < 4
    assert second.wait().code == 0
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_a_stale_lock_file_does_not_block(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    project.data.mkdir(mode=0o700)
    for text in ("not json", f'{{"pid": {os.getpid()}, "identity": "x", "run": "y"}}'):
        (project.data / "supervisor.lock").write_text(text)
        project.crawl()


def test_a_supervisor_whose_lock_was_deleted_ends_where_another_one_starts(project: Project, site: Site) -> None:
    library = Library(site, shelves=6, books=8, delay=0.2)
    project.write(library.defs(concurrency=2))
    first = project.start()
    assert until(lambda: len(site.paths) > 4)
    (project.data / LOCK_NAME).unlink()
    second = project.start()
    done = first.wait()
    assert done.code == 3, done.err
    assert f"{LOCK_NAME}: deleted while a run was writing here" in done.err
    assert second.wait().code == 0
    assert project.count_rows("entry", "book") == library.rows()
    project.assert_no_process_left()
