"""A process that hangs in a transaction or in its loop: only that process is killed."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from crawl_engine.supervise import lock_watch
from tests.sample import sampled

from .library import Library
from .project import Project, Running, until
from .site import Page, Site, html

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the kernel does not list lock holders"),
]


def start_crawl(project: Project, site: Site, *, fetched: int = 6, books: int = 10) -> tuple[Library, Running]:
    library = Library(site, shelves=10, books=books, delay=0.05)
    project.write(library.defs(concurrency=6))
    running = project.start()
    # a node without a first heartbeat has a longer limit than one that becomes silent
    assert until(lambda: (len(site.paths) >= fetched and count_healthy(project) == 2) or running.exited), running.err
    return library, running


def count_healthy(project: Project) -> int:
    return len(project.query("SELECT 1 FROM nodes WHERE heart = 'HEALTHY'"))


def stop_writer(project: Project, pids: list[int], seconds: float = 30.0) -> int:
    """Stop the first of these processes that is seen holding the write lock; return its pid."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid = lock_watch.find_writer_pid(project.data / "crawl.db")
        if pid in pids:
            os.kill(pid, signal.SIGSTOP)
            until(lambda pid=pid: process_state(pid) == "T", 2)  # its threads run on until the signal has reached them
            if lock_watch.find_writer_pid(project.data / "crawl.db") == pid:
                return pid
            os.kill(pid, signal.SIGCONT)
    raise AssertionError("no process was seen writing")


def process_state(pid: int) -> str:
    """The state from the kernel: `R`, `S`, `T`, `Z`…"""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


@pytest.mark.quick
@pytest.mark.parametrize("kind", sampled(["node", "appender"], 0))
def test_a_process_stopped_inside_a_transaction_is_killed_and_the_others_continue(
    project: Project, site: Site, kind: str
) -> None:
    library, running = start_crawl(project, site, books=100)
    victim = stop_writer(project, project.children(kind))
    library.set_delay(0)
    stopped_at, fetched = time.monotonic(), len(site.paths)
    assert until(lambda: victim not in project.live_processes(), 8), "the stopped process was not killed"
    assert time.monotonic() - stopped_at < 8
    assert until(lambda: len(site.paths) > fetched + 10 or running.exited, 10)
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    dead = project.query("SELECT pid, reason FROM nodes WHERE state = 'DEAD'")
    assert [pid for pid, _ in dead] == ([victim] if kind == "node" else []), "no other node was declared dead"


@contextmanager
def delayed_write(pid: int, path: str, seconds: int) -> Iterator[None]:
    """Delay the next write of each thread of a process to a file."""
    inject = f"inject=pwrite64:delay_enter={seconds}s:when=1"
    tracer = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", "/dev/null", "-P", path, "-e", inject, "-p", str(pid)], stderr=subprocess.PIPE
    )
    try:
        yield
    finally:
        tracer.kill()
        tracer.wait()


def was_killed(pid: int) -> bool:
    """Whether a process has ended, or SIGKILL is pending until its tracer detaches."""
    try:
        with open(f"/proc/{pid}/status") as file:
            fields = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    except OSError:
        return True
    return fields["State"].startswith("Z") or bool((int(fields["ShdPnd"], 16) | int(fields["SigPnd"], 16)) & 1 << 8)


@pytest.mark.sweep
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to delay a single thread")
def test_a_thread_stuck_in_a_transaction_is_detected_although_its_process_beats(project: Project, site: Site) -> None:
    library, running = start_crawl(project, site, books=40)
    victim = project.children("node")[0]
    with delayed_write(victim, str(project.data / "crawl.db-wal"), 60):
        assert until(lambda: was_killed(victim) or running.exited, 40)
        assert not running.exited, running.err
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    [(pid, reason)] = project.query("SELECT pid, reason FROM nodes WHERE state = 'DEAD'")
    assert pid == victim
    # by the lock it holds; or by its heartbeat, which may wait for the blocked connection
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


@pytest.mark.quick
def test_a_selector_that_takes_years_costs_its_page_alone(project: Project, site: Site) -> None:
    """On a page of any size: in the node it would block the fetch loop, and the node would be killed."""
    site["/good"] = Page(html("<b>good</b>"))
    site["/costly"] = Page(html("<i>1</i>" * 900))
    project.write(COSTLY.format(site=site.url("")))
    done = project.crawl("--set", "parse_limit=1", "--set", "robots=false", nodes=1, seconds=60, code=1)
    assert done.jobs == {"done": 1, "failed": 1}
    job = project.job(site.url("/costly"))
    assert (job["state"], job["attempts"]) == ("FAILED", 1)
    assert "field sum" in job["reason"]
    assert "parse_limit" in job["reason"]
    assert [row["sum"] for row in project.rows("page")] == ["0"]
    assert project.query("SELECT number, state FROM nodes") == [(1, "TERMINATED")], "no node was replaced"
