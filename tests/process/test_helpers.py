"""Helpers: ready before the first node, restarted when they end; one that does not get ready ends the start."""

import os
import signal
import socket

import pytest

from tests.sample import sampled

from .helper_tables import Helpers, assert_exact, free_port, library, start
from .project import Project, until
from .site import Site

pytestmark = pytest.mark.timeout(120)


@pytest.mark.sweep
def test_they_are_ready_before_the_nodes_and_end_after_all_others(
    project: Project, site: Site, helpers: Helpers
) -> None:
    expected, port = library(project, site, shelves=8, delay=0.4), free_port()
    helpers.add("proxy", "--port", str(port), "--after", "0.4", ready=f"{{port = {port}}}")
    helpers.add("browser", "--line", "listening", "--after", "0.3", ready='{line = "listening"}')
    helpers.add("plain")
    running = start(project, site)
    states = project.status()["helpers"]
    assert [(one["name"], one["state"], one["restarts"]) for one in states] == [
        ("proxy", "ready", 0), ("browser", "ready", 0), ("plain", "ready", 0),
    ]  # fmt: skip
    assert set(helpers.guards()) == {one["pid"] for one in states}
    assert "helper proxy: ready, 0 restarts" in project.run_with_data("status").out
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert_exact(project, expected)
    events = helpers.events()
    order = ["START_APPENDER", "helper proxy started", "helper proxy is ready after", "helper browser started",
             "helper browser is ready after", "helper plain started", "helper plain is ready after", "START_NODES",
             "n1 started", "RELEASING_LOCK", "helper plain stopped", "helper browser stopped", "helper proxy stopped",
             "SHUTDOWN_COMPLETE"]  # fmt: skip
    places = [next(at for at, text in enumerate(events) if text.startswith(part)) for part in order]
    assert places == sorted(places), events
    assert [line for line in helpers.notes if " term " in line] == [
        f"{name} term nodes=0 appenders=0" for name in ("plain", "browser", "proxy")
    ]
    assert helpers.alive == [], "a child that ignores SIGTERM ends with its helper"
    assert project.status()["helpers"] == []
    assert "now listening!" in project.run_with_data("logs", "helper-browser").out


@pytest.mark.quick
@pytest.mark.parametrize(
    ("case", "message"),
    sampled(
        [
            ("port", "not ready after 2.5 s: port PORT of 127.0.0.1 accepts no connection; last output: now idle!"),
            ("line", "not ready after 2.5 s: its output has no line with 'listening'; last output: now idle!"),
            ("ends", "ended with exit code 7; last output: giving up"),
            ("missing", "cannot be run; last output: cannot run /no/such/program: No such file or directory"),
            ("taken", "port PORT of 127.0.0.1 is in use by another program"),
        ],
        0,
    ),
)
def test_one_that_does_not_get_ready_ends_the_start(
    project: Project, site: Site, helpers: Helpers, case: str, message: str
) -> None:
    expected, port = library(project, site), free_port()
    helpers.add("first", "--line", "up", ready='{line = "up"}')
    if case in ("port", "line"):
        ready = f"port = {port}" if case == "port" else 'line = "listening"'
        helpers.add("bad", "--line", "idle", ready=f"{{{ready}, within = 2.5}}")
    elif case == "ends":
        helpers.add("bad", "--lives", "0.2", ready=f"{{port = {port}}}")
    elif case == "missing":
        helpers.write('[helpers.bad]\nrun = ["/no/such/program"]')
    else:
        helpers.add("bad", ready=f"{{port = {port}}}")
    helpers.add("later")
    with socket.socket() as other:
        if case == "taken":
            other.bind(("127.0.0.1", port))
            other.listen()
        done = project.crawl(code=3)
    text = f"helper 'bad': {message.replace('PORT', str(port))}; see {project.data}/logs/helper-bad.log"
    assert text in done.err
    assert "check [helpers.bad] in crawl.toml" in done.err
    assert done.summary["state"] == "FAILED"
    assert helpers.starts("first") == 1
    assert helpers.starts("later") == 0
    assert helpers.alive == []
    assert site.paths == []
    assert done.summary["nodes"] == []
    helpers.remove()
    assert project.crawl().summary["run"] == done.summary["run"]
    assert_exact(project, expected)


@pytest.mark.quick
def test_one_that_ends_is_restarted_and_nodes_continue(project: Project, site: Site, helpers: Helpers) -> None:
    expected = library(project, site, shelves=5, delay=0.2)
    helpers.add("proxy", "--line", "up", "--lives-first", "0.6", ready='{line = "up"}')
    running = start(project, site)
    assert until(lambda: helpers.starts("proxy") == 2)
    assert until(lambda: [one["restarts"] for one in project.status()["helpers"]] == [1])
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert_exact(project, expected)
    events = helpers.events()
    assert "helper proxy ended with exit code 7; last output: giving up; restarting" in events
    assert sum(text.startswith("helper proxy is ready") for text in events) == 2
    assert sum(text.startswith("n1 started") for text in events) == 1
    assert helpers.alive == []


@pytest.mark.sweep
def test_a_killed_helper_and_a_killed_guard_are_restarted(project: Project, site: Site, helpers: Helpers) -> None:
    expected = library(project, site, shelves=8, delay=0.2)
    helpers.add("proxy")
    running = start(project, site)
    os.kill(helpers.pids[0], signal.SIGKILL)
    assert until(lambda: helpers.starts("proxy") == 2)
    assert until(lambda: "ready" in [one["state"] for one in project.status()["helpers"]])
    [guard] = helpers.guards()
    os.kill(guard, signal.SIGKILL)
    assert until(lambda: helpers.starts("proxy") == 3)
    assert len(helpers.alive) == 2, "nothing of the first two is left"
    done = running.wait()
    assert done.code == 0, done.err
    assert_exact(project, expected)
    assert sum(text == "helper proxy ended by signal 9; restarting" for text in helpers.events()) == 2


@pytest.mark.sweep
def test_one_that_keeps_crashing_ends_the_run(project: Project, site: Site, helpers: Helpers) -> None:
    expected = library(project, site, shelves=12, delay=1.0)
    helpers.add("proxy", "--lives", "0.1")
    done = project.crawl(code=3)
    assert "helper 'proxy' keeps crashing: ended with exit code 7" in done.err
    assert helpers.starts("proxy") == 5
    assert site.paths != []
    assert done.summary["state"] == "FAILED"
    library_now = set(site.paths)
    helpers.remove()
    expected.set_delay(0.0)
    project.crawl()
    assert_exact(project, expected)
    assert library_now <= set(site.paths)


def test_a_mistake_in_the_file_starts_nothing(project: Project, site: Site, helpers: Helpers) -> None:
    library(project, site)
    helpers.add("first")
    helpers.write('[helpers.bad]\nrun = "proxy"')
    done = project.crawl(code=2)
    assert "helpers.bad.run: cannot be 'proxy'" in done.err
    assert helpers.notes == []
    assert not project.data.exists()
