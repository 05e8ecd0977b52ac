"""A headless crawl in a terminal that is closed: it goes on to its end, and what it cannot say hurts nobody."""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from .house import CRAWL, LAUNCH, House, until
from .library import Library
from .site import Site

pytestmark = pytest.mark.timeout(60)


def in_terminal(house: House, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """The program with a terminal of its own, whose session it leads; the process, and the terminal's other end."""
    master, slave = pty.openpty()

    where = ["--defs", str(house.defs), "--data", str(house.data), "--nodes", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, *CRAWL, "run", "--no-ui", *where, *arguments],
        stdin=slave, stdout=slave, stderr=slave, cwd=house.folder, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    return process, master


def test_a_closed_terminal_does_not_end_the_crawl(house: House, site: Site) -> None:
    library = Library(site, shelves=6, books=6, delay=0.1)
    house.write(library.defs(concurrency=4))
    process, master = in_terminal(house)
    assert until(lambda: len(site.paths) > 5), "it did not begin"
    os.close(master)  # the kernel hangs up on the session, and writing to the terminal fails with EIO from now on
    assert process.wait(30) == 0
    house.assert_clean()
    assert house.counted("entry", "book") == library.rows()
    assert house.query("SELECT count(*) FROM nodes WHERE state <> 'TERMINATED'") == [(0,)]


def test_an_interrupt_typed_at_the_terminal_cancels_in_order(house: House, site: Site) -> None:
    """The terminal sends it to the whole foreground group: the nodes are not in it, and finish what they hold."""
    library = Library(site, shelves=6, books=6, delay=0.1)
    house.write(library.defs(concurrency=4))
    process, master = in_terminal(house)
    assert until(lambda: len(site.paths) > 5), "it did not begin"
    os.write(master, b"\x03")
    told = b""
    deadline = time.monotonic() + 15
    while process.poll() is None and time.monotonic() < deadline:
        try:
            told += os.read(master, 65536)
        except OSError:
            break
    assert process.wait(30) == 130, told
    assert b"\r\x1b[Kstopping: running jobs may finish" in told, "not behind the line of progress"
    os.close(master)
    house.assert_clean()
    house.crawl()
    assert house.counted("entry", "book") == library.rows()
    assert len(site.paths) == len(set(site.paths))


def test_nodes_and_appender_outlive_a_hangup_sent_to_them(house: House, site: Site) -> None:
    """Huey would start itself anew at a SIGHUP: here nothing happens."""
    library = Library(site, shelves=5, books=5, delay=0.1)
    house.write(library.defs(concurrency=4))
    running = house.start()
    assert until(lambda: len(site.paths) > 5 or running.over), running.err
    children = house.children("node") + house.children("append")
    for pid in [*children, running.pid]:
        os.kill(pid, signal.SIGHUP)
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.query("SELECT count(*) FROM nodes") == [(2,)]
    assert house.counted("entry", "book") == library.rows()
