"""Old runs go by settings, between runs and when the data dir is full; a finished run leaves no write-ahead log."""

import os
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_engine.store.db.retry_busy import DatabaseBusy
from crawl_engine.supervise.retention.choice import measure_bytes

from .project import Project, Running, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
locatorGroups: {{shelf: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{shelf: {{page: {{dataDef: page}}}}, detail: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    key: [path]
    fields: {{path: {{selector: h1}}, text: {{selector: p}}}}
    links: [{{selector: a, linkGroup: detail}}]
hosts: {{"127.0.0.1": {{robots: false}}}}
"""
PAGES = 40


def fill(site: Site, number: int, *, size: int = 10, delay: float = 0.0) -> None:
    """Pages that a run finds; those of another number have other bodies."""
    rng = random.Random(number)
    site["/"] = html("".join(f"<a href='/p/{page}'>x</a>" for page in range(PAGES)))
    for page in range(PAGES):
        body = html(f"<h1>{page}</h1><p>text {number}</p><!-- {rng.randbytes(size).hex()} -->")
        site[f"/p/{page}"] = lambda _, body=body: Page(body, delay=delay)


def crawl(project: Project, *settings: str, code: int = 0) -> str:
    """One run to its end; returns what it said."""
    done = project.start("--fresh", *(word for setting in settings for word in ("--set", setting))).wait()
    assert done.code == code, done.err
    return done.err


def list_runs(project: Project) -> list[str]:
    return [id_ for (id_,) in project.query("SELECT id FROM runs ORDER BY seq")]


@pytest.mark.quick
def test_old_runs_pages_and_events_go_when_a_run_is_done(project: Project, site: Site) -> None:
    """What --only-new has seen outlives its run, and so does what a later run uses."""
    project.write(DEFS.format(url=site.url("/")))
    (project.folder / "crawl.toml").write_text('keep_runs = 1\nkeep_pages = "0s"\nkeep_events = "P0D"\n')
    fill(site, 1)
    first = crawl(project)
    assert "deleted" not in first
    [run] = list_runs(project)
    fill(site, 2)
    site["/p/new"] = html("<h1>new</h1>")
    site["/"] = html("".join(f"<a href='/p/{page}'>x</a>" for page in (*range(PAGES - 1), "new")))
    done = project.start("--fresh", "--only-new").wait()
    assert done.code == 0, done.err
    assert done.err.index(f"run {run} of ") < done.err.index("to be deleted when this run is DONE: keep_runs is 1")
    assert " rows, about " in done.err
    [second] = list_runs(project)
    assert second != run
    assert [row["path"] for row in project.rows("page")] == ["new"]
    output = project.data / "output"
    assert sorted(os.listdir(output)) == sorted(["current", "latest", second])
    for table in ("rows", "jobs", "events", "nodes", "supervisors"):
        assert project.query(f"SELECT DISTINCT run FROM {table}") == [(2,)]
    assert project.query("SELECT count(*), count(DISTINCT key) FROM documents WHERE key <> x''") == [(PAGES + 2,) * 2]
    crawl(project, "keep_runs=none")
    third = project.start("--fresh", "--only-new", "--set", "keep_runs=1").wait()
    assert third.code == 0, third.err
    assert project.rows("page") == []
    assert len(list_runs(project)) == 1
    project.assert_clean()
    assert project.run_with_data("state", "--verify").code == 0


@pytest.mark.sweep
def test_a_full_data_dir_pauses_the_run_until_old_runs_are_deleted(project: Project, site: Site) -> None:
    project.write(DEFS.format(url=site.url("/")))
    for number in (1, 2):
        fill(site, number, size=60_000)
        crawl(project)
    first, _ = list_runs(project)
    limit = round(measure_bytes(project.data) * 1.2)
    fill(site, 3, size=60_000, delay=0.8)
    largest = 0
    running = project.start("--fresh", "--set", f"max_data={limit}", "--set", "concurrency=2", "--set", "batch=2")
    while not running.exited:
        largest = max(largest, measure(project.data))
        time.sleep(0.05)
    done = running.wait()
    assert done.code == 0, done.err
    assert "PAUSED: data directory full" in done.err
    assert f"run {first} of " in done.err
    assert "deleted: max_data is" in done.err
    assert "there is space again: the run resumes" in done.err
    assert first not in list_runs(project)
    assert largest <= 1.25 * limit, "what running jobs still store"
    assert sorted(row["path"] for row in project.rows("page")) == sorted(["", *map(str, range(PAGES))])


def test_a_limit_that_no_deletion_meets_ends_the_run_and_says_so(project: Project, site: Site) -> None:
    """A job of cron that waited would hold the lock for ever, and the later ones could not start."""
    project.write(DEFS.format(url=site.url("/")))
    fill(site, 1, size=60_000, delay=0.3)
    for start in ("--fresh", "--base-url=http://127.0.0.1"):
        done = project.start(start, "--set", "max_data=1000000", "--set", "concurrency=2").wait(60)
        assert done.code == 3, done.err
        assert "PAUSED: data directory full" in done.err
        assert "max_data is 1.0 MB, and no run is left to delete; raise max_data" in done.err
        status = project.status()
        assert (status["state"], status["supervisor"]) == ("FAILED", None)
        assert "no run is left to delete" in status["reason"]
    text = project.run_with_data("status").out
    assert "no run is left to delete" in text
    done = project.start().wait(60)
    assert done.code == 0, done.err
    assert sorted(row["path"] for row in project.rows("page")) == sorted(["", *map(str, range(PAGES))])
    project.assert_clean()


@pytest.mark.parametrize("killed", [False, True])
def test_small_runs_go_one_by_one_until_the_crawl_goes_on(project: Project, site: Site, killed: bool) -> None:
    project.write(DEFS.format(url=site.url("/")))
    for number in range(8):
        fill(site, number, size=3_000)
        crawl(project)
    limit = measure_bytes(project.data) - 100_000
    fill(site, 9, size=3_000, delay=0.05)
    running = project.start("--fresh", "--set", f"max_data={limit}")
    for _ in range(3 if killed else 0):
        time.sleep(0.9)
        running.send(signal.SIGKILL)
        running.process.wait()
        project.assert_no_process_left(15)
        running = project.start("--set", f"max_data={limit}")
    done = running.wait(60)
    assert done.code == 0, done.err
    assert sorted(row["path"] for row in project.rows("page")) == sorted(["", *map(str, range(PAGES))])
    assert measure_bytes(project.data) <= limit
    project.assert_clean()


def measure(data: Path) -> int:
    try:
        return measure_bytes(data)
    except (DatabaseBusy, OSError):
        return 0


@pytest.fixture
def viewer(project: Project) -> Iterator[list[sqlite3.Connection]]:
    opened: list[sqlite3.Connection] = []
    yield opened
    for connection in opened:
        connection.close()


@pytest.mark.quick
@pytest.mark.parametrize("cancelled", [True, pytest.param(False, marks=pytest.mark.sweep)])
def test_a_finished_run_leaves_its_logs_empty_beside_a_viewer(
    project: Project, site: Site, viewer: list[sqlite3.Connection], cancelled: bool
) -> None:
    project.write(DEFS.format(url=site.url("/")))
    fill(site, 1, size=20_000, delay=0.5 if cancelled else 0.05)
    running: Running = project.start()
    assert until(lambda: len(site.paths) > 10)
    for name in ("crawl.db", "pages.db"):
        viewer.append(sqlite3.connect(f"file:{project.data / name}?mode=ro", uri=True))
        viewer[-1].execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if cancelled:
        running.send(signal.SIGTERM)
    assert running.wait().code == (143 if cancelled else 0)
    logs = {path.name: path.stat().st_size for path in project.data.glob("*-wal")}
    assert set(logs.values()) <= {0}, logs
    assert "crawl.db-wal" in logs, "the viewer keeps it"
