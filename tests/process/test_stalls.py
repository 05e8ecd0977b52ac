"""A process that stands still where it hurts, in a transaction or in its loop: the culprit alone is ended."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.store.db import writer_lock

from .house import House, Running, until
from .library import Library
from .site import Asked, Page, Site, html

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the kernel does not tell who holds a lock"),
]


def begun(house: House, site: Site, *, fetched: int = 6, books: int = 10) -> tuple[Library, Running]:
    library = Library(site, shelves=10, books=books, delay=0.05)
    house.write(library.defs(concurrency=6))
    running = house.start()
    # a process that has yet to say that it works is given longer than one that falls silent
    assert until(lambda: (len(site.paths) >= fetched and at_work(house) == 2) or running.over), running.err
    return library, running


def at_work(house: House) -> int:
    return len(house.query("SELECT 1 FROM nodes WHERE heart = 'HEALTHY'"))


def stopped_in_a_transaction(house: House, pids: list[int], seconds: float = 30.0) -> int:
    """Stop the first of these processes that is caught while it holds the write lock; its pid."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid = writer_lock.find_writer_pid(house.data / "crawl.db")
        if pid in pids:
            os.kill(pid, signal.SIGSTOP)
            until(lambda pid=pid: process_state(pid) == "T", 2)  # its threads run on until the signal has reached them
            if writer_lock.find_writer_pid(house.data / "crawl.db") == pid:
                return pid
            os.kill(pid, signal.SIGCONT)
    raise AssertionError("nobody was caught writing")


def process_state(pid: int) -> str:
    """`R`, `S`, `T`, `Z` and so on, as the kernel tells it."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("kind", ["node", "append"])
def test_a_process_stopped_inside_a_transaction_is_ended_and_the_others_go_on(
    house: House, site: Site, kind: str
) -> None:
    library, running = begun(house, site, books=100)
    victim = stopped_in_a_transaction(house, house.children(kind))
    library.pace(0)
    at, asked = time.monotonic(), len(site.paths)
    assert until(lambda: victim not in house.alive(), 8), "the culprit was not found"
    assert time.monotonic() - at < 8
    assert until(lambda: len(site.paths) > asked + 10 or running.over, 10)
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    dead = house.query("SELECT pid, reason FROM nodes WHERE state = 'DEAD'")
    assert [pid for pid, _ in dead] == ([victim] if kind == "node" else []), "nobody else was declared dead"


@contextmanager
def held_up(pid: int, path: str, seconds: int) -> Iterator[None]:
    """Each thread of a process is held up that long at its next write to a file."""
    fate = f"inject=pwrite64:delay_enter={seconds}s:when=1"
    tracer = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", "/dev/null", "-P", path, "-e", fate, "-p", str(pid)], stderr=subprocess.PIPE
    )
    try:
        yield
    finally:
        tracer.kill()
        tracer.wait()


def was_killed(pid: int) -> bool:
    """Whether a process is gone, or SIGKILL waits for its tracer to let go of it."""
    try:
        with open(f"/proc/{pid}/status") as file:
            told = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    except OSError:
        return True
    return told["State"].startswith("Z") or bool((int(told["ShdPnd"], 16) | int(told["SigPnd"], 16)) & 1 << 8)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to hold a single thread up")
def test_a_thread_stuck_in_a_transaction_is_found_though_its_process_beats(house: House, site: Site) -> None:
    library, running = begun(house, site, books=40)
    victim = house.children("node")[0]
    with held_up(victim, str(house.data / "crawl.db-wal"), 60):
        assert until(lambda: was_killed(victim) or running.over, 40)
        assert not running.over, running.err
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    [(pid, reason)] = house.query("SELECT pid, reason FROM nodes WHERE state = 'DEAD'")
    assert pid == victim
    # by the lock it holds; or by its beat, where the beat had to wait for the very connection that is stuck
    assert "held the database lock" in reason or "no beat for" in reason


COSTLY = """\
locatorGroups:
  start: {{locators: [{{name: start, urls: ["{site}/good", "{site}/costly"]}}]}}
taskGroups:
  start: {{page: {{dataDef: page}}}}
dataDefs:
  page:
    fields:
      title: {{selector: title}}
      sum: {{selector: "xpath:count(//i[count(//i[count(//i[count(//i) > 1]) > 1]) > 1])"}}
"""


def test_a_loop_that_hangs_is_ended_and_its_page_is_tried_alone(house: House, site: Site) -> None:
    """The page holds its node up for ever when it is first fetched, and is harmless the second time."""
    site["/good"] = Page(html("<b>good</b>"))
    costly = html("<i>1</i>" * 3000)

    def fetched(asked: Asked) -> Page:
        return Page(costly if asked.attempt == 1 else html("<i>harmless</i>"))

    site["/costly"] = fetched
    house.write(COSTLY.format(site=site.url("")))
    done = house.crawl("--set", "deadline=1", "--set", "robots=false", nodes=1, seconds=60)
    assert site.times("/costly") == 2
    assert [row["sum"] for row in house.rows("page")] == ["0", "0"]
    [(reason,)] = house.query("SELECT reason FROM nodes WHERE state = 'DEAD'")
    assert "no beat for" in reason
    assert house.query("SELECT crashes FROM jobs WHERE url LIKE '%costly'") == [(1,)]
    assert done.code == 0
