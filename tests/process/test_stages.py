"""Cancel, kill and SIGKILL in each stage: right exit code, no process left; the next start resumes."""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tests.sample import sampled

from .library import Library
from .project import Project, Running, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)

STOPS = {"cancel": (130,), "kill": (137,), "dies": (-9,)}


def stop(running: Running, how: str) -> None:
    """Stop the supervisor in one of three ways."""
    if how == "dies":
        running.send(signal.SIGKILL)
        return
    running.send(signal.SIGINT)
    if how == "kill":
        running.send(signal.SIGTERM)  # another signal: two pending signals of one kind merge


def assert_resumed(project: Project, library: Library) -> None:
    project.assert_no_process_left()
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


def run_column(project: Project, column: str) -> str | None:
    """State or stage of the run; None while there is none."""
    try:
        return str(project.query(f"SELECT {column} FROM runs")[0][0])
    except (sqlite3.Error, IndexError):
        return None


def stage_is(project: Project, stage: str) -> Callable[[], bool]:
    def reached() -> bool:
        return run_column(project, "stage") == stage

    return reached


def library_of(project: Project, site: Site, **more: float) -> Library:
    library = Library(site, shelves=4, books=4, delay=more.get("delay", 0.02))
    project.write(library.defs(concurrency=4))
    return library


@pytest.mark.parametrize(
    ("delay", "how"),
    sampled(
        [
            (0.0, "cancel"),
            (0.15, "dies"),
            (0.3, "cancel"),
            (0.3, "dies"),
            (0.45, "kill"),
            (0.6, "dies"),
            (0.8, "cancel"),
        ],
        1,
        4,
    ),
)
def test_while_starting(project: Project, site: Site, delay: float, how: str) -> None:
    """The delays fall before the lock, into the start of the children, or after it."""
    library = library_of(project, site, delay=0.15)
    running = project.start()
    until(lambda: running.exited, delay)
    stop(running, how)
    done = running.wait(20)
    # before its handlers are installed, a signal just ends the program
    assert done.code in (*STOPS[how], *((130, -2, -15) if how != "dies" else ())), done.err
    assert "Traceback" not in done.err
    assert_resumed(project, library)


@pytest.mark.quick
@pytest.mark.parametrize("how", sampled(STOPS, 0))
def test_while_seeding(project: Project, site: Site, how: str) -> None:
    project.write(
        f'locatorGroups:\n  many: {{locators: [{{name: a, url: "{site.url("/{1..30000}")}"}}]}}\n'
        "taskGroups:\n  many: {page: {dataDef: page}}\n"
        "dataDefs:\n  page: {fields: {title: {selector: title}}}\n"
        'hosts:\n  "127.0.0.1": {robots: false, concurrency: 1}\n'
    )
    site.fallback = lambda request: Page(html("<b>here</b>"), delay=0.05)
    running = project.start()
    assert until(lambda: run_column(project, "state") == "SEEDING", 10), running.err
    stop(running, how)
    done = running.wait()
    assert done.code in STOPS[how], done.err
    project.assert_no_process_left()
    assert project.query("SELECT count(*) FROM jobs")[0][0] < 30000
    again = project.start()
    assert until(lambda: project.query("SELECT count(*) FROM jobs") == [(30000,)], 20), "all seeds are there once"
    stop(again, "kill")
    again.wait()


@pytest.mark.quick
@pytest.mark.parametrize("how", sampled(STOPS, 1))
def test_while_nodes_drain(project: Project, site: Site, how: str) -> None:
    """A cancel waits for a page that does not arrive; then the second signal follows."""
    library = library_of(project, site)
    hold = threading.Event()
    site["/book/0-1"] = Page(html("<b>ISBN 000-1</b>"), hold=hold)
    running = project.start("--grace", "2")
    assert until(lambda: site.count("/book/0-1") == 1 or running.exited), running.err
    running.send(signal.SIGTERM)
    assert until(stage_is(project, "STOPPING_NODES_GRACEFUL")), running.err
    if how != "cancel":
        running.send(signal.SIGKILL if how == "dies" else signal.SIGTERM)
    done = running.wait(20)
    assert done.code == {"cancel": 143, "kill": 137, "dies": -9}[how], done.err
    if how == "cancel":
        [(state, reason)] = project.query("SELECT state, reason FROM jobs WHERE url LIKE '%book/0-1'")
        assert state == "INCOMPLETE"
        assert "grace" in reason
        assert "in progress for" in reason
    hold.set()
    assert_resumed(project, library)


@pytest.mark.parametrize("how", sampled(STOPS, 2))
def test_while_the_appender_drains(project: Project, site: Site, how: str) -> None:
    """The appender is stopped at a natural end."""
    library = library_of(project, site)
    hold = threading.Event()
    site["/book/0-1"] = Page(html("<b>ISBN 000-1</b>"), hold=hold)
    running = project.start("--grace", "1")
    assert until(lambda: site.count("/book/0-1") == 1 or running.exited), running.err
    [victim] = project.children("appender")
    os.kill(victim, signal.SIGSTOP)
    hold.set()
    assert until(stage_is(project, "STOPPING_APPENDER_GRACEFUL")), running.err
    stop(running, how)
    done = running.wait(30)
    assert done.code in STOPS[how], done.err
    if how == "dies":  # a stopped process cannot read that its lifeline ended
        with contextlib.suppress(ProcessLookupError):  # on a slow machine it was already replaced
            os.kill(victim, signal.SIGCONT)
    assert_resumed(project, library)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(60))
def test_at_any_moment_sweep(project: Project, site: Site, seed: int) -> None:
    rng = random.Random(seed)
    library = library_of(project, site, delay=0.05)
    for _ in range(3):
        running = project.start()
        time.sleep(rng.uniform(0, 2.0))
        stop(running, rng.choice([*STOPS]))
        done = running.wait(30)
        assert done.code in (0, 130, 137, -9, -2), done.err
        project.assert_no_process_left()
    assert_resumed(project, library)


SLOW_TICK = """
import sys, time
import crawl_console.cli.headless
from crawl_console.cli.main import main
crawl_console.cli.headless._TICK_SECONDS = crawl_console.cli.headless._TICK_SOON_SECONDS = 6.0
main(sys.argv[1:])
"""


@pytest.mark.sweep
def test_a_run_is_driven_by_events_and_not_by_the_clock(project: Project, site: Site) -> None:
    """A supervisor that ticks every six seconds still ends a run soon after its nodes ran out of work.

    Five ticks are needed. One comes before any node is up; the others are woken by events.
    """
    library = library_of(project, site)
    where = ["--defs", str(project.defs), "--data", str(project.data), "--nodes", "2"]
    command = [sys.executable, "-c", SLOW_TICK, "run", "--no-ui", "--progress", "quiet", *where]
    started_at = time.monotonic()
    assert subprocess.run(command, cwd=project.folder, timeout=60, capture_output=True).returncode == 0
    assert time.monotonic() - started_at < 3 * 6.0
    assert project.count_rows("entry", "book") == library.rows()
