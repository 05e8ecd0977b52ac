"""`--stop-within`: a stop ends in time, whichever process hangs, and nothing is lost."""

import os
import signal
import sqlite3
import threading
import time

import pytest

from tests.sample import sampled

from .library import Library
from .project import Project, Running, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)
LIMIT = 4.0
SPARE = 1.5
"""Seconds for a loaded machine, and for the start and end of the command."""


def start(project: Project, site: Site, hold: threading.Event) -> tuple[Library, Running]:
    library = Library(site, shelves=4, books=5)
    site["/book/3-4"] = Page(html("<b>ISBN 003-4</b>"), hold=hold)
    project.write(library.defs())
    running = project.start("--stop-within", f"{LIMIT:g}")
    assert until(lambda: len(set(site.paths)) >= library.size), running.err
    assert until(lambda: project.query("SELECT total(done) FROM sequences WHERE kind = 'page'")[0][0] >= 20)
    return library, running


@pytest.mark.parametrize("hangs", sampled(["a page", "appender", "node"], 2))
def test_a_stop_ends_in_time(project: Project, site: Site, hangs: str) -> None:
    hold = threading.Event()
    library, running = start(project, site, hold)
    for pid in project.children(hangs) if hangs != "a page" else ():
        os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    running.send(signal.SIGTERM)
    running.process.wait(30)
    assert time.monotonic() - began < LIMIT + SPARE
    assert running.process.returncode == 143
    project.assert_no_process_left()
    hold.set()
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_a_foreign_lock_does_not_delay_the_stop(project: Project, site: Site) -> None:
    hold = threading.Event()
    library, running = start(project, site, hold)
    foreign = sqlite3.connect(project.data / "crawl.db", isolation_level=None, timeout=5)
    try:
        foreign.execute(
            "INSERT INTO commands (supervisor, name, arguments, given_at) SELECT max(epoch), 'cancel', '{}', 0"
            " FROM supervisors"
        )
        foreign.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        running.process.wait(30)
        assert time.monotonic() - began < LIMIT + SPARE
    finally:
        foreign.close()
    assert running.process.returncode == 143
    project.assert_no_process_left()
    hold.set()
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()
