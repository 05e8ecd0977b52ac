"""Stopping a crawl: by signal, by command, in order or at once; then the same command goes on where it stopped."""

import os
import signal
import threading
import time

import pytest

from .house import House, Running, until
from .library import Library
from .site import Page, Site, html
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(90)


def begin(house: House, site: Site, *arguments: str, fetched: int = 8) -> Running:
    """A crawl that is under way."""
    running = house.start(*arguments)
    assert until(lambda: len(site.paths) >= fetched or running.over), running.err
    assert not running.over, running.err
    return running


def slow_library(house: House, site: Site, delay: float = 0.15) -> Library:
    library = Library(site, shelves=6, books=6, delay=delay)
    house.write(library.defs(concurrency=4))
    return library


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_first_signal_cancels_and_the_next_run_goes_on(
    house: House, site: Site, number: signal.Signals, code: int
) -> None:
    library = slow_library(house, site)
    running = begin(house, site)
    running.send(number)
    done = running.wait()
    assert done.code == code, done.err
    assert done.summary["exit_code"] == code
    assert done.summary["state"] == "CANCELLED"
    assert done.summary["jobs"]["taken"] == 0
    house.assert_clean(done)
    assert house.counted("entry", "book") <= library.rows()
    assert len(house.rows("book")) == done.summary["rows"]["book"]
    finished = house.query("SELECT count(*) FROM jobs WHERE state = 'DONE'")[0][0]
    fetched = list(site.paths)
    assert finished == len(fetched), "what was in flight was let finish"

    site.forget()
    again = house.crawl()
    assert again.summary["run"] == done.summary["run"]
    assert house.counted("entry", "book") == library.rows()
    assert not set(fetched) & set(site.paths), "nothing is fetched twice"


def test_grace_over_leaves_the_page_incomplete_and_the_next_run_refetches_only_it(house: House, site: Site) -> None:
    library = Library(site, shelves=1, books=4)
    hold = threading.Event()
    site["/book/0-1"] = Page(html("<b>ISBN 000-1</b>"), hold=hold)
    house.write(library.defs())
    running = begin(house, site, "--grace", "1", fetched=5)
    assert until(lambda: house.query("SELECT count(*) FROM jobs WHERE state = 'DONE'") == [(4,)])
    watch, began = Stopwatch(), time.monotonic()
    running.send(signal.SIGINT)
    done = running.wait()
    assert time.monotonic() - began >= 0.8
    assert watch.seconds() <= 6
    assert done.code == 130
    assert done.summary["jobs"]["incomplete"] == 1
    job = house.job(site.url("/book/0-1"))
    assert job["state"] == "INCOMPLETE"
    assert "grace" in job["reason"]
    house.assert_clean(done)
    hold.set()
    site.forget()
    house.crawl()
    assert site.paths == ["/book/0-1"]
    assert house.counted("entry", "book") == library.rows()


def test_second_signal_kills_fast(house: House, site: Site) -> None:
    library = Library(site, shelves=1, books=4)
    hold = threading.Event()
    site["/book/0-1"] = Page(html("<b>ISBN 000-1</b>"), hold=hold)
    house.write(library.defs())
    running = begin(house, site, fetched=5)
    running.send(signal.SIGINT)
    time.sleep(0.5)
    assert not running.over
    watch = Stopwatch()
    running.send(signal.SIGINT)
    done = running.wait()
    assert watch.seconds() < 1
    assert done.code == 137
    assert done.summary["state"] == "KILLED"
    house.assert_clean(done)
    hold.set()
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


def test_two_signals_at_once_kill(house: House, site: Site) -> None:
    library = slow_library(house, site)
    running = begin(house, site, fetched=3)
    running.send(signal.SIGTERM)
    running.send(signal.SIGINT)
    assert running.wait().code == 137
    house.assert_nobody_left(1)
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


def test_signal_while_starting(house: House, site: Site) -> None:
    library = slow_library(house, site)
    for wait in (0.3, 0.45, 0.6):
        running = house.start()
        time.sleep(wait)
        running.send(signal.SIGINT)
        done = running.wait()
        assert done.code in (130, -signal.SIGINT), (wait, done.err)
        house.assert_nobody_left(2)
        if "console/cli" in done.err or "KeyboardInterrupt" not in done.err:  # else Python itself was starting
            assert "Traceback" not in done.err, (wait, done.err)
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


def test_hangup_does_not_end_a_headless_run(house: House, site: Site) -> None:
    library = slow_library(house, site)
    running = begin(house, site)
    running.send(signal.SIGHUP)
    for pid in house.children("node"):
        os.kill(pid, signal.SIGHUP)
    done = running.wait()
    assert done.code == 0, done.err
    assert house.counted("entry", "book") == library.rows()


def test_interrupt_of_the_whole_foreground_group(house: House, site: Site) -> None:
    library = slow_library(house, site)
    running = begin(house, site)
    os.killpg(running.pid, signal.SIGINT)
    done = running.wait()
    assert done.code == 130
    house.assert_clean(done)
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


def test_cancel_by_command(house: House, site: Site) -> None:
    library = slow_library(house, site)
    running = begin(house, site)
    told = house.order("cancel")
    assert told.code == 0, told.err
    done = running.wait()
    assert done.code == 143, done.err
    assert done.summary["state"] == "CANCELLED"
    house.assert_clean(done)
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


def test_graceful_cancel_with_20_ms_pages_takes_two_seconds_at_most(house: House, site: Site) -> None:
    library = Library(site, shelves=40, books=30, delay=0.02)
    house.write(library.defs())
    running = begin(house, site, fetched=60)
    watch = Stopwatch()
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    assert watch.seconds() <= 2


def test_kill_by_command(house: House, site: Site) -> None:
    library = slow_library(house, site)
    running = begin(house, site)
    told = house.order("kill")
    assert told.code == 0, told.err
    done = running.wait()
    assert done.code == 137, done.err
    assert done.summary["state"] == "KILLED"
    house.assert_clean(done)
    house.crawl()
    assert house.counted("entry", "book") == library.rows()


def test_a_killed_node_is_replaced(house: House, site: Site) -> None:
    library = slow_library(house, site)
    running = begin(house, site)
    told = house.order("kill", "n1")
    assert told.code == 0, told.err
    assert until(lambda: len(house.children("node")) == 2)
    done = running.wait()
    assert done.code == 0, done.err
    nodes = {node["id"]: node for node in house.status()["nodes"]}
    assert nodes["n1"]["state"] == "DEAD"
    assert nodes["n1"]["role"] == "DEAD_RUNNER"
    assert nodes["n3"]["replaces"] == "n1"
    assert house.counted("entry", "book") == library.rows()
    house.assert_clean(done)


def test_kill_of_an_unknown_node_is_refused(house: House, site: Site) -> None:
    slow_library(house, site)
    running = begin(house, site)
    told = house.order("kill", "n9")
    assert told.code == 2
    assert "n9" in told.err
    assert "n1" in told.err, "it names those there are"
    running.send(signal.SIGTERM)
    assert running.wait().code == 143


def test_commands_without_a_supervisor_say_so(house: House, site: Site) -> None:
    for _ in range(2):
        for command in (["cancel"], ["kill"], ["kill", "n1"]):
            told = house.order(*command)
            assert told.code == 2
            assert "no supervisor" in told.err
            assert "Traceback" not in told.err
        house.write(Library(site, shelves=1, books=1).defs())
        house.crawl()
