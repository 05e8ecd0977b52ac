"""Scrolling in a real pty: the mouse as a terminal sends it, and no byte for a poll that changes nothing."""

import os
import time

import pytest

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.node import Role
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.tables.job import linked_jobs
from crawl_engine.store.tables.job.linked_jobs import NewLink
from crawl_engine.store.tables.run import nodes, runs, supervisors
from crawl_engine.store.transactions.placement import PlacementCache
from tests.console.terminals import Terminal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a pty")
WHEEL_UP, WHEEL_DOWN = 64, 65


def filled(data):
    """Fill a data dir with a run of 600 jobs on 60 hosts and four nodes. This process plays the supervisor."""
    data.mkdir()
    open_databases(data).close()
    db = connect(data / CRAWL, durable=False)
    identity = identity_of(os.getpid()) or ""
    with db.transaction():
        run = runs.create(db, None, 0.0).seq
        epoch = supervisors.begin(db, identity, run, 0.0)
        runs.begin(db, run, 0.0)
        for _ in range(4):
            node = nodes.insert(db, run, epoch, Role.RUNNER, None, 0.0)[0]
            nodes.register(db, node, "DONE", os.getpid(), identity)
    places = PlacementCache(run, lambda _: HostPolicy(0.5, 4, False))
    with db.transaction():
        for host in range(60):
            place = places.find_or_create(db, "docs", f"host{host}.example:80", f"http://host{host}.example")
            urls = [f"http://host{host}.example/item-{number}.html" for number in range(10)]
            linked_jobs.add_links(
                db, [NewLink(run, place.sequence, 0, 1, None, None, url, url.encode()) for url in urls]
            )
    places.commit_cache()
    db.close()


@pytest.fixture
def console(tmp_path):
    filled(tmp_path / "data")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state")}
    shown = Terminal(["--read-only", "--data", str(tmp_path / "data")], environ=environ, cwd=tmp_path)
    yield shown
    shown.end()


def mouse(shown, button, column, row, *, release=False):
    """Send what a terminal sends for the mouse; columns and rows count from 0."""
    shown.press(f"\x1b[<{button};{column + 1};{row + 1}{'m' if release else 'M'}")


def thumb(shown):
    return [y for y, cells in enumerate(shown.cells) if cells[shown.size[0] - 1] == "█"]


def quiet_bytes(shown, seconds=2.0):
    """Wait until the sparkline of the header stands still. Return how many bytes come after that."""
    for _ in range(20):
        before = len(shown.raw)
        silence(shown, 1.2)
        if len(shown.raw) == before:
            break
    before = len(shown.raw)
    silence(shown, seconds)
    return len(shown.raw) - before


def silence(shown, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        shown.read(0.1)


@pytest.mark.extended
@pytest.mark.parametrize("screen", [pytest.param("2", marks=pytest.mark.sweep), "3"])
def test_a_terminal_scrolls_and_a_quiet_screen_sends_nothing(console, screen):
    console.until("[1 Nodes]")
    console.press(screen)
    console.until(lambda _: thumb(console))
    top = thumb(console)[0]
    assert quiet_bytes(console) == 0

    for _ in range(10):
        mouse(console, WHEEL_DOWN, 30, 12)
    console.until(lambda text: "host0." not in text)
    assert quiet_bytes(console) == 0

    grip = thumb(console)[0]
    mouse(console, 0, 79, grip)
    silence(console, 0.5)
    for row in range(grip + 1, 23):
        mouse(console, 32, 79, row)
    mouse(console, 0, 79, 22, release=True)
    console.until(lambda text: "host59" in text)
    console.until(lambda _: thumb(console)[-1:] > [top])  # the bar follows the rows one refresh later
    console.press("q")
    assert console.wait() == 0
    assert console.restored() == []
