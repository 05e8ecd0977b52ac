"""Stopping a crawl by signal or command, gracefully or at once; the same command then resumes it."""

import os
import signal
import threading
import time

import pytest

from tests.sample import sampled

from .library import Library
from .project import Project, Running, until
from .site import Page, Site, html
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(90)


def start_crawl(project: Project, site: Site, *arguments: str, fetched: int = 8) -> Running:
    """Start a crawl and wait until it has fetched some pages."""
    running = project.start(*arguments)
    assert until(lambda: len(site.paths) >= fetched or running.exited), running.err
    assert not running.exited, running.err
    return running


def slow_library(project: Project, site: Site, delay: float = 0.15) -> Library:
    library = Library(site, shelves=6, books=6, delay=delay)
    project.write(library.defs(concurrency=4))
    return library


@pytest.mark.quick
@pytest.mark.parametrize(("number", "code"), sampled([(signal.SIGINT, 130), (signal.SIGTERM, 143)], 0))
def test_first_signal_cancels_and_the_next_run_resumes(
    project: Project, site: Site, number: signal.Signals, code: int
) -> None:
    library = slow_library(project, site)
    running = start_crawl(project, site)
    running.send(number)
    done = running.wait()
    assert done.code == code, done.err
    assert done.summary["exit_code"] == code
    assert done.summary["state"] == "CANCELLED"
    assert done.summary["jobs"]["taken"] == 0
    project.assert_clean(done)
    assert project.count_rows("entry", "book") <= library.rows()
    assert len(project.rows("book")) == done.summary["rows"]["book"]
    finished = project.query("SELECT count(*) FROM jobs WHERE state = 'DONE'")[0][0]
    fetched = list(site.paths)
    assert finished == len(fetched), "pages in flight were allowed to finish"

    site.clear_log()
    again = project.crawl()
    assert again.summary["run"] == done.summary["run"]
    assert project.count_rows("entry", "book") == library.rows()
    assert not set(fetched) & set(site.paths), "nothing is fetched twice"


@pytest.mark.sweep
def test_a_page_beyond_the_grace_is_incomplete_and_refetched_by_the_next_run(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=4)
    hold = threading.Event()
    site["/book/0-1"] = Page(html("<b>ISBN 000-1</b>"), hold=hold)
    project.write(library.defs())
    running = start_crawl(project, site, "--grace", "1", fetched=5)
    assert until(lambda: project.query("SELECT count(*) FROM jobs WHERE state = 'DONE'") == [(4,)])
    watch, started_at = Stopwatch(), time.monotonic()
    running.send(signal.SIGINT)
    done = running.wait()
    assert time.monotonic() - started_at >= 0.8
    assert watch.seconds() <= 6
    assert done.code == 130
    assert done.summary["jobs"]["incomplete"] == 1
    job = project.job(site.url("/book/0-1"))
    assert job["state"] == "INCOMPLETE"
    assert "grace" in job["reason"]
    project.assert_clean(done)
    hold.set()
    site.clear_log()
    project.crawl()
    assert site.paths == ["/book/0-1"]
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.quick
def test_second_signal_kills_fast(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=4)
    hold = threading.Event()
    site["/book/0-1"] = Page(html("<b>ISBN 000-1</b>"), hold=hold)
    project.write(library.defs())
    running = start_crawl(project, site, fetched=5)
    running.send(signal.SIGINT)
    time.sleep(0.5)
    assert not running.exited
    watch = Stopwatch()
    running.send(signal.SIGINT)
    done = running.wait()
    assert watch.seconds() < 1
    assert done.code == 137
    assert done.summary["state"] == "KILLED"
    project.assert_clean(done)
    hold.set()
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_two_signals_at_once_kill(project: Project, site: Site) -> None:
    library = slow_library(project, site)
    running = start_crawl(project, site, fetched=3)
    running.send(signal.SIGTERM)
    running.send(signal.SIGINT)
    assert running.wait().code == 137
    project.assert_no_process_left(1)
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_signal_while_starting(project: Project, site: Site) -> None:
    library = slow_library(project, site)
    for wait in (0.3, 0.45, 0.6):
        running = project.start()
        time.sleep(wait)
        running.send(signal.SIGINT)
        done = running.wait()
        assert done.code in (130, -signal.SIGINT), (wait, done.err)
        project.assert_no_process_left(2)
        if (
            "console/crawl_console/cli" in done.err or "KeyboardInterrupt" not in done.err
        ):  # else the interpreter was starting
            assert "Traceback" not in done.err, (wait, done.err)
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_hangup_does_not_end_a_headless_run(project: Project, site: Site) -> None:
    library = slow_library(project, site)
    running = start_crawl(project, site)
    running.send(signal.SIGHUP)
    for pid in project.children("node"):
        os.kill(pid, signal.SIGHUP)
    done = running.wait()
    assert done.code == 0, done.err
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_interrupt_of_the_whole_foreground_group(project: Project, site: Site) -> None:
    library = slow_library(project, site)
    running = start_crawl(project, site)
    os.killpg(running.pid, signal.SIGINT)
    done = running.wait()
    assert done.code == 130
    project.assert_clean(done)
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_cancel_by_command(project: Project, site: Site) -> None:
    library = slow_library(project, site)
    running = start_crawl(project, site)
    result = project.run_with_data("cancel")
    assert result.code == 0, result.err
    done = running.wait()
    assert done.code == 143, done.err
    assert done.summary["state"] == "CANCELLED"
    project.assert_clean(done)
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.quick
def test_graceful_cancel_with_20_ms_pages_takes_two_seconds_at_most(project: Project, site: Site) -> None:
    library = Library(site, shelves=40, books=30, delay=0.02)
    project.write(library.defs())
    running = start_crawl(project, site, fetched=60)
    watch = Stopwatch()
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    assert watch.seconds() <= 2


@pytest.mark.quick
def test_kill_by_command(project: Project, site: Site) -> None:
    library = slow_library(project, site)
    running = start_crawl(project, site)
    result = project.run_with_data("kill")
    assert result.code == 0, result.err
    done = running.wait()
    assert done.code == 137, done.err
    assert done.summary["state"] == "KILLED"
    project.assert_clean(done)
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


def test_a_killed_node_is_replaced(project: Project, site: Site) -> None:
    library = slow_library(project, site)
    running = start_crawl(project, site)
    result = project.run_with_data("kill", "n1")
    assert result.code == 0, result.err
    assert until(lambda: len(project.children("node")) == 2)
    done = running.wait()
    assert done.code == 0, done.err
    nodes = {node["id"]: node for node in project.status()["nodes"]}
    assert nodes["n1"]["state"] == "DEAD"
    assert nodes["n1"]["role"] == "DEAD_RUNNER"
    assert nodes["n3"]["replaces"] == "n1"
    assert project.count_rows("entry", "book") == library.rows()
    project.assert_clean(done)


def test_kill_of_an_unknown_node_is_refused(project: Project, site: Site) -> None:
    slow_library(project, site)
    running = start_crawl(project, site)
    result = project.run_with_data("kill", "n9")
    assert result.code == 2
    assert "n9" in result.err
    assert "n1" in result.err, "it names the nodes that exist"
    running.send(signal.SIGTERM)
    assert running.wait().code == 143


@pytest.mark.sweep
def test_commands_without_a_supervisor_say_so(project: Project, site: Site) -> None:
    for _ in range(2):
        for command in (["cancel"], ["kill"], ["kill", "n1"]):
            result = project.run_with_data(*command)
            assert result.code == 2
            assert "no supervisor" in result.err
            assert "Traceback" not in result.err
        project.write(Library(site, shelves=1, books=1).defs())
        project.crawl()
