"""Stopping helpers: in time, with all that they started, by whatever ends the run or its supervisor."""

import os
import signal
import time

import pytest

from tests.sample import sampled

from .helper_tables import Helpers, assert_exact, free_port, is_alive, library, start
from .project import Project, until
from .site import Site
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(120)


def test_one_that_ignores_sigterm_is_killed_with_its_children(project: Project, site: Site, helpers: Helpers) -> None:
    expected = library(project, site)
    helpers.add("stubborn", "--ignore-term", "--line", "up", ready='{line = "up"}', stop="700ms")
    done = project.crawl()
    assert_exact(project, expected)
    rows = project.query("SELECT text, at FROM events WHERE kind IN ('helper', 'stage') ORDER BY id")
    times = dict(rows)
    killed = times["helper stubborn did not stop in time; killed"]
    assert 0.65 < killed - times["RELEASING_LOCK"] < 2.5
    assert done.summary["state"] == "DONE"
    assert len(helpers.pids) == 2
    assert helpers.alive == []


@pytest.mark.sweep
def test_stop_within_bounds_their_time(project: Project, site: Site, helpers: Helpers) -> None:
    library(project, site, shelves=10, delay=0.3)
    for name in ("one", "two"):
        helpers.add(name, "--ignore-term", "--line", "up", ready='{line = "up"}', stop=60)
    running = start(project, site, "--stop-within", "3")
    watch = Stopwatch()
    running.send(signal.SIGTERM)
    done = running.wait()
    assert watch.seconds() < 4.5
    assert done.code == 143
    assert [line for line in helpers.notes if " term " in line] == [
        f"{name} term nodes=0 appenders=0" for name in ("two", "one")
    ], "each is asked to stop"
    assert helpers.alive == []


@pytest.mark.quick
def test_no_helper_outlives_a_killed_supervisor(project: Project, site: Site, helpers: Helpers) -> None:
    expected, port = library(project, site, shelves=6, delay=0.2), free_port()
    helpers.add("polite", "--port", str(port), ready=f"{{port = {port}}}")
    helpers.add("stubborn", "--ignore-term", stop=0.2)
    running = start(project, site)
    assert len(helpers.pids) == 4
    watch = Stopwatch()
    running.send(signal.SIGKILL)
    running.wait()
    assert until(lambda: not helpers.alive and not helpers.guards())
    assert watch.seconds() < 3.5
    assert any(line.startswith("polite term") for line in helpers.notes)
    project.crawl()
    assert_exact(project, expected)


@pytest.mark.sweep
def test_a_start_right_after_the_kill_ends_what_is_left(project: Project, site: Site, helpers: Helpers) -> None:
    """The guard is stopped, so that the helper outlives its supervisor and holds its port."""
    expected, port = library(project, site, shelves=6, delay=0.2), free_port()
    helpers.add("stubborn", "--ignore-term", "--port", str(port), ready=f"{{port = {port}}}", stop="200ms")
    running = start(project, site)
    [guard] = helpers.guards()
    os.kill(guard, signal.SIGSTOP)
    running.send(signal.SIGKILL)
    running.wait()
    left = helpers.alive
    assert len(left) == 2
    project.crawl()
    assert not set(left) & set(helpers.alive)
    assert helpers.alive == []
    assert_exact(project, expected)


@pytest.mark.sweep
def test_the_program_dies_although_its_guard_is_killed_with_the_supervisor(
    project: Project, site: Site, helpers: Helpers
) -> None:
    library(project, site, shelves=6, delay=0.2)
    helpers.add("stubborn", "--ignore-term")
    running = start(project, site)
    os.kill(running.pid, signal.SIGSTOP)
    for pid in (*helpers.guards(), running.pid):
        os.kill(pid, signal.SIGKILL)
    running.wait()
    assert until(lambda: not is_alive(helpers.pids[0]), 2.0)
    os.kill(helpers.pids[1], signal.SIGKILL)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("stop", "code"), sampled([("SIGINT", 130), ("SIGTERM", 143), ("cancel", 143), ("kill", 137), ("twice", 137)], 0)
)
def test_a_stop_while_a_helper_gets_ready(project: Project, site: Site, helpers: Helpers, stop: str, code: int) -> None:
    expected = library(project, site)
    helpers.add("slow", "--line", "up", "--after", "60", ready='{line = "up", within = "2m"}')
    running = project.start()
    assert until(lambda: helpers.starts("slow") == 1 or running.exited), running.err
    if stop == "kill":
        assert [one["state"] for one in project.status()["helpers"]] == ["starting"]
    watch = Stopwatch()
    if stop in ("cancel", "kill"):
        assert project.run_with_data(stop).code == 0
    else:
        running.send(signal.SIGINT if stop == "twice" else signal.Signals[stop])
        if stop == "twice":
            running.send(signal.SIGTERM)
    done = running.wait()
    assert watch.seconds() < (6 if stop in ("cancel", "kill") else 3)
    assert done.code == code, done.err
    assert site.paths == []
    assert until(lambda: not helpers.alive, 1.0)
    helpers.remove()
    project.crawl()
    assert_exact(project, expected)


@pytest.mark.sweep
def test_a_cancel_while_a_helper_stops_ends_in_time_and_keeps_the_result(
    project: Project, site: Site, helpers: Helpers
) -> None:
    expected = library(project, site)
    helpers.add("stubborn", "--ignore-term", "--line", "up", ready='{line = "up"}', stop=60)
    running = project.start("--stop-within", "3")
    assert until(lambda: any(" term " in line for line in helpers.notes)), running.err
    watch = Stopwatch()
    time.sleep(0.3)
    running.send(signal.SIGTERM)
    done = running.wait()
    assert watch.seconds() < 4.5
    assert (done.code, done.summary["state"]) == (0, "DONE")
    assert helpers.alive == []
    assert_exact(project, expected)
