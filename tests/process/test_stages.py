"""Cancel, kill and SIGKILL in each stage of a run: the right exit code, nobody left; the next start makes it whole."""

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

from .house import House, Running, until
from .library import Library
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)

FATES = {"cancel": (130,), "kill": (137,), "dies": (-9,)}


def meet(running: Running, fate: str) -> None:
    """What befalls the supervisor."""
    if fate == "dies":
        running.send(signal.SIGKILL)
        return
    running.send(signal.SIGINT)
    if fate == "kill":
        running.send(signal.SIGTERM)  # another one: two of a kind at once are one


def made_whole(house: House, library: Library) -> None:
    house.assert_nobody_left()
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


def standing(house: House, column: str) -> str | None:
    """State or stage of the run; None while there is none."""
    try:
        return str(house.query(f"SELECT {column} FROM runs")[0][0])
    except (sqlite3.Error, IndexError):
        return None


def stage_is(house: House, stage: str) -> Callable[[], bool]:
    def look() -> bool:
        return standing(house, "stage") == stage

    return look


def library_of(house: House, site: Site, **more: float) -> Library:
    library = Library(site, shelves=4, books=4, delay=more.get("delay", 0.02))
    house.write(library.defs(concurrency=4))
    return library


@pytest.mark.parametrize(
    ("delay", "fate"),
    [(0.0, "cancel"), (0.15, "dies"), (0.3, "cancel"), (0.3, "dies"), (0.45, "kill"), (0.6, "dies"), (0.8, "cancel")],
)
def test_while_starting(house: House, site: Site, delay: float, fate: str) -> None:
    """The moment is chosen by time: it falls before the lock, into the start of the children, or behind it."""
    library = library_of(house, site, delay=0.15)
    running = house.start()
    until(lambda: running.over, delay)
    meet(running, fate)
    done = running.wait(20)
    # before it can say so, a program that is told to stop just stops
    assert done.code in (*FATES[fate], *((130, -2, -15) if fate != "dies" else ())), done.err
    assert "Traceback" not in done.err
    made_whole(house, library)


@pytest.mark.parametrize("fate", FATES)
def test_while_seeding(house: House, site: Site, fate: str) -> None:
    house.write(
        f'locatorGroups:\n  many: {{locators: [{{name: a, url: "{site.url("/{1..30000}")}"}}]}}\n'
        "taskGroups:\n  many: {page: {dataDef: page}}\n"
        "dataDefs:\n  page: {fields: {title: {selector: title}}}\n"
        'hosts:\n  "127.0.0.1": {robots: false, concurrency: 1}\n'
    )
    site.otherwise = lambda asked: Page(html("<b>here</b>"), delay=0.05)
    running = house.start()
    assert until(lambda: standing(house, "state") == "SEEDING", 10), running.err
    meet(running, fate)
    done = running.wait()
    assert done.code in FATES[fate], done.err
    house.assert_nobody_left()
    assert house.query("SELECT count(*) FROM jobs")[0][0] < 30000
    again = house.start()
    assert until(lambda: house.query("SELECT count(*) FROM jobs") == [(30000,)], 20), "all seeds are there, once"
    meet(again, "kill")
    again.wait()


@pytest.mark.parametrize("fate", FATES)
def test_while_nodes_drain(house: House, site: Site, fate: str) -> None:
    """A cancel waits for a page that does not come; then the second blow falls."""
    library = library_of(house, site)
    hold = threading.Event()
    site["/book/0-1"] = Page(html("<b>ISBN 000-1</b>"), hold=hold)
    running = house.start("--grace", "2")
    assert until(lambda: site.times("/book/0-1") == 1 or running.over), running.err
    running.send(signal.SIGTERM)
    assert until(stage_is(house, "STOPPING_NODES_GRACEFUL")), running.err
    if fate != "cancel":
        running.send(signal.SIGKILL if fate == "dies" else signal.SIGTERM)
    done = running.wait(20)
    assert done.code == {"cancel": 143, "kill": 137, "dies": -9}[fate], done.err
    if fate == "cancel":
        [(state, reason)] = house.query("SELECT state, reason FROM jobs WHERE url LIKE '%book/0-1'")
        assert state == "INCOMPLETE"
        assert "grace" in reason
        assert "in progress for" in reason
    hold.set()
    made_whole(house, library)


@pytest.mark.parametrize("fate", FATES)
def test_while_the_appender_drains(house: House, site: Site, fate: str) -> None:
    """The appender stands still at a natural end."""
    library = library_of(house, site)
    hold = threading.Event()
    site["/book/0-1"] = Page(html("<b>ISBN 000-1</b>"), hold=hold)
    running = house.start("--grace", "1")
    assert until(lambda: site.times("/book/0-1") == 1 or running.over), running.err
    [victim] = house.children("append")
    os.kill(victim, signal.SIGSTOP)
    hold.set()
    assert until(stage_is(house, "STOPPING_APPENDER_GRACEFUL")), running.err
    meet(running, fate)
    done = running.wait(30)
    assert done.code in FATES[fate], done.err
    if fate == "dies":  # a stopped process cannot read that its lifeline ended
        with contextlib.suppress(ProcessLookupError):  # on a slow machine it was replaced for its silence before
            os.kill(victim, signal.SIGCONT)
    made_whole(house, library)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(60))
def test_at_any_moment_sweep(house: House, site: Site, seed: int) -> None:
    dice = random.Random(seed)
    library = library_of(house, site, delay=0.05)
    for _ in range(3):
        running = house.start()
        time.sleep(dice.uniform(0, 2.0))
        meet(running, dice.choice([*FATES]))
        done = running.wait(30)
        assert done.code in (0, 130, 137, -9, -2), done.err
        house.assert_nobody_left()
    made_whole(house, library)


SLOW_TICK = """
import sys, time
import console.cli.commands.run
from console.cli.main import main
console.cli.commands.run._TICK_SECONDS = console.cli.commands.run._TICK_SOON_SECONDS = 6.0
main(sys.argv[1:])
"""


def test_a_run_is_led_by_what_happens_and_not_by_the_clock(house: House, site: Site) -> None:
    """A supervisor that looks every six seconds ends a run all the same once its nodes are out of work, and gone.

    Five looks are needed. One falls asleep before any node is up; the others come when something happened.
    """
    library = library_of(house, site)
    where = ["--defs", str(house.defs), "--data", str(house.data), "--nodes", "2"]
    command = [sys.executable, "-c", SLOW_TICK, "run", "--no-ui", "--progress", "quiet", *where]
    begun = time.monotonic()
    assert subprocess.run(command, cwd=house.folder, timeout=60, capture_output=True).returncode == 0
    assert time.monotonic() - begun < 3 * 6.0
    assert house.counted("entry", "book") == library.rows()
