"""Disks that fill up: intake pauses visibly and resumes with space; no row is lost or doubled."""

import contextlib
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .library import Library
from .project import Project, Running, until
from .site import Site
from .small_disk import SmallDisk, small_disk
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(120)

MIN_FREE = 4_000_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def project_on_disk(project: Project, disk: SmallDisk) -> Project:
    """A project whose data dir is on the small disk."""
    project.data = disk.path / "data"
    return project


def library_of(project: Project, site: Site, shelves: int = 6, delay: float = 0.05) -> Library:
    library = Library(site, shelves=shelves, books=8, delay=delay)
    project.write(library.defs(concurrency=6, more="appenders: {rows: {type: csv}, lines: {type: jsonl}}\n"))
    return library


def start_crawl(project: Project, site: Site, *arguments: str, min_free: int = MIN_FREE, fetched: int = 6) -> Running:
    running = project.start("--set", f"min_free={min_free}", *arguments)
    assert until(lambda: len(site.paths) >= fetched or running.exited), running.err
    assert not running.exited, running.err
    return running


def no_requests(site: Site, seconds: float = 1.0) -> bool:
    """Whether no page is requested for this long."""
    fetched = len(site.paths)
    time.sleep(seconds)
    return len(site.paths) == fetched


def assert_exact(project: Project, site: Site, library: Library) -> None:
    project.assert_clean()
    assert project.count_rows("entry", "book") == library.rows()
    assert project.output("book.jsonl").read_bytes().count(b"\n") == len(project.rows("book"))
    assert project.query("SELECT count(*), count(DISTINCT url) FROM jobs WHERE state = 'DONE'") == [
        (library.size, library.size)
    ]


@pytest.mark.quick
@pytest.mark.parametrize("leave", [MIN_FREE // 2, pytest.param(0, marks=pytest.mark.sweep)])
def test_a_full_disk_pauses_the_run_until_there_is_space(
    project_on_disk: Project, disk: SmallDisk, site: Site, leave: int
) -> None:
    library = library_of(project_on_disk, site, shelves=12, delay=0.15)
    running = start_crawl(project_on_disk, site)
    ballast = disk.fill(leave)
    assert until(lambda: "PAUSED: disk nearly full" in running.err, 15), running.err
    assert until(lambda: no_requests(site), 10)
    disk.fill(leave)  # what a log of the databases gave back since
    assert len(set(site.paths)) < library.size
    status = project_on_disk.status()
    assert "disk nearly full" in status["alarm"]
    assert "ALARM: disk nearly full" in project_on_disk.run_with_data("status").out
    if leave:
        assert until(lambda: project_on_disk.status()["paused"] == "disk", 15)
        assert until(lambda: any("disk nearly full" in node["now"] for node in project_on_disk.status()["nodes"]), 15)
    assert not running.exited
    ballast.unlink()
    done = running.wait()
    assert done.code == 0, done.err
    assert "there is space again" in done.err
    assert_exact(project_on_disk, site, library)
    assert sorted(site.paths) == sorted(library.pages), "pages in flight were kept"
    levels = project_on_disk.query("SELECT level FROM events WHERE kind = 'disk' ORDER BY id")
    assert levels == [("ERROR",), ("INFO",)]
    assert project_on_disk.query("SELECT paused FROM runs") == [(None,)]


@pytest.mark.parametrize("inodes", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_what_was_crawled_is_read_on_a_full_disk(
    project_on_disk: Project, disk: SmallDisk, site: Site, inodes: bool
) -> None:
    library_of(project_on_disk, site, shelves=1, delay=0)
    assert project_on_disk.start("--set", "min_free=0").wait().code == 0
    assert sorted(path.name for path in project_on_disk.data.glob("*.db*")) == ["crawl.db", "pages.db", "queue.db"]
    ballast = disk.use_up_files(0) if inodes else disk.fill()
    for command in ("status", "jobs", "events", "runs", "state", "export book"):
        done = project_on_disk.run_with_data(*command.split())
        assert done.code == 0, done.err
    assert project_on_disk.run_with_data("jobs").code == 0, "it left no file that needs space"
    shutil.rmtree(ballast) if inodes else ballast.unlink()
    assert project_on_disk.run_with_data("retry", "--state", "failed").code == 0


@pytest.mark.sweep
def test_without_min_free_a_full_disk_only_delays(project_on_disk: Project, disk: SmallDisk, site: Site) -> None:
    """Free space is not checked and every write fails: fetched pages stay in memory until they can be committed."""
    library = library_of(project_on_disk, site)
    running = start_crawl(project_on_disk, site, min_free=0)
    ballast = disk.fill()
    assert until(lambda: no_requests(site), 20)
    assert not running.exited
    ballast.unlink()
    done = running.wait()
    assert done.code == 0, done.err
    assert_exact(project_on_disk, site, library)
    assert sorted(site.paths) == sorted(library.pages)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.sweep)]
)
def test_a_cancel_on_a_full_disk_ends_in_time_and_loses_nothing(
    project_on_disk: Project, disk: SmallDisk, site: Site, number: signal.Signals, code: int
) -> None:
    library = library_of(project_on_disk, site, delay=0.1)
    running = start_crawl(project_on_disk, site, "--grace", "1")
    ballast = disk.fill()
    time.sleep(1.5 if number == signal.SIGINT else 0.1)
    watch = Stopwatch()
    running.send(number)
    done = running.wait()
    assert watch.seconds() < 1 + 5 + 3, "the grace, the extra time of a node, and a margin"
    assert done.code == code, done.err
    project_on_disk.assert_no_process_left(2)
    ballast.unlink()
    project_on_disk.crawl("--set", f"min_free={MIN_FREE}")
    assert_exact(project_on_disk, site, library)


@pytest.mark.sweep
def test_a_hard_kill_on_a_full_disk_ends_at_once(project_on_disk: Project, disk: SmallDisk, site: Site) -> None:
    library = library_of(project_on_disk, site, delay=0.1)
    running = start_crawl(project_on_disk, site)
    ballast = disk.fill()
    running.send(signal.SIGTERM)
    time.sleep(0.5)
    watch = Stopwatch()
    running.send(signal.SIGTERM)
    assert running.wait().code == 137
    assert watch.seconds() < 3
    project_on_disk.assert_no_process_left(2)
    ballast.unlink()
    project_on_disk.crawl("--set", f"min_free={MIN_FREE}")
    assert_exact(project_on_disk, site, library)


@pytest.mark.sweep
def test_a_node_that_dies_on_a_full_disk_is_replaced_when_there_is_space(
    project_on_disk: Project, disk: SmallDisk, site: Site
) -> None:
    library = library_of(project_on_disk, site)
    running = start_crawl(project_on_disk, site)
    ballast = disk.fill()
    os.kill(project_on_disk.children("node")[0], signal.SIGKILL)
    os.kill(project_on_disk.children("appender")[0], signal.SIGKILL)
    time.sleep(4)
    assert not running.exited
    ballast.unlink()
    done = running.wait()
    assert done.code == 0, done.err
    assert_exact(project_on_disk, site, library)


def test_a_full_disk_of_the_output_alone(project: Project, disk: SmallDisk, site: Site) -> None:
    """The database still has space; without a pause the rows would pile up in it unnoticed."""
    library = Library(site, shelves=6, books=8, delay=0.05)
    project.write(library.defs(concurrency=6))
    output = disk.path / "rows.db"
    running = start_crawl(project, site, "-o", str(output))
    ballast = disk.fill()
    assert until(lambda: project.status()["paused"] == "disk", 15)
    assert until(lambda: no_requests(site), 10)
    status = project.status()
    assert str(disk.path) in status["alarm"]
    ballast.unlink()
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    with contextlib.closing(sqlite3.connect(output)) as db:
        assert db.execute("SELECT count(*), count(DISTINCT isbn) FROM book").fetchone() == (48, 48)
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert sorted(site.paths) == sorted(library.pages)


@pytest.mark.sweep
def test_a_full_disk_of_the_pages_alone(project: Project, disk: SmallDisk, site: Site) -> None:
    library = library_of(project, site)
    project.data.mkdir(mode=0o700)
    (project.data / "pages.db").symlink_to(disk.path / "pages.db")
    running = start_crawl(project, site)
    ballast = disk.fill()
    assert until(lambda: project.status()["paused"] == "disk", 15)
    assert until(lambda: no_requests(site), 10)
    ballast.unlink()
    done = running.wait()
    assert done.code == 0, done.err
    assert_exact(project, site, library)
    assert sorted(site.paths) == sorted(library.pages)


@pytest.mark.sweep
def test_an_operator_pause_survives_a_disk_pause(project_on_disk: Project, disk: SmallDisk, site: Site) -> None:
    library = library_of(project_on_disk, site)
    running = start_crawl(project_on_disk, site)
    with contextlib.closing(sqlite3.connect(project_on_disk.data / "crawl.db", timeout=20)) as db:
        [(epoch,)] = db.execute("SELECT max(epoch) FROM supervisors").fetchall()

        def insert_command(name: str) -> None:
            with db:
                db.execute(
                    "INSERT INTO commands (supervisor, name, arguments, given_at) VALUES (?, ?, '{}', 0)",
                    (epoch, name),
                )

        insert_command("pause")
        ballast = disk.fill(MIN_FREE // 2)
        paused = "SELECT paused FROM runs"
        assert until(lambda: project_on_disk.query(paused) == [("operator, disk",)], 15)
        ballast.unlink()
        assert until(lambda: project_on_disk.query(paused) == [("operator",)], 15)
        assert no_requests(site)
        assert not running.exited
        insert_command("resume")
    assert running.wait().code == 0
    assert_exact(project_on_disk, site, library)
