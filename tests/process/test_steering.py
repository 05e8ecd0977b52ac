"""Commands to a running crawl: drain, restart, scale, pause, resume; and refusals."""

import re
import signal
import threading
from typing import Any

import pytest

from .library import Library
from .project import Project, Running, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)

LIVE_NODES = "SELECT number FROM nodes WHERE ended_at IS NULL ORDER BY number"


def start_crawl(project: Project, site: Site, *, nodes: int, delay: float = 0.5) -> tuple[Library, Running]:
    library = Library(site, shelves=10, books=8, delay=delay)
    project.write(library.defs(concurrency=5))
    running = project.start(nodes=nodes)
    assert until(lambda: len(site.paths) >= 5 or running.exited), running.err
    return library, running


def live_nodes(project: Project) -> list[int]:
    return [number for (number,) in project.query(LIVE_NODES)]


def finish(project: Project, running: Running, library: Library) -> dict[str, Any]:
    library.set_delay(0)
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    return {node["id"]: node for node in done.summary["nodes"]}


def test_drain_retires_a_node_without_replacement(project: Project, site: Site) -> None:
    library, running = start_crawl(project, site, nodes=2)
    result = project.run_with_data("drain", "n2")
    assert result.code == 0, result.err
    assert "draining n2" in result.out
    assert until(lambda: live_nodes(project) == [1], 15)
    refused = project.run_with_data("drain", "n1")
    assert refused.code == 2
    assert "last runner" in refused.err
    nodes = finish(project, running, library)
    assert nodes["n2"]["state"] == "TERMINATED"
    assert nodes["n2"]["heart"] == "APPARENT_DEATH"
    assert set(nodes) == {"n1", "n2"}
    assert site.max_concurrent <= 5
    assert len(site.paths) == len(set(site.paths)), "its jobs were finished, not fetched again"


@pytest.mark.parametrize("command", [["drain", "n1"], ["restart", "n1"], ["scale", "1"]])
def test_an_interrupted_job_is_fetched_by_another_node(project: Project, site: Site, command: list[str]) -> None:
    """Its request outlasts the grace: the node drops it, and the run continues to its end."""
    library = Library(site, shelves=3, books=4)
    hold = threading.Event()
    site["/book/0-1"] = lambda request: Page(html("<b>ISBN 000-1</b>"), hold=hold if request.attempt == 1 else None)
    project.write(library.defs(concurrency=5))
    running = project.start("--grace", "0.5", nodes=2)
    holder = (
        "SELECT n.number FROM jobs j JOIN nodes n ON n.epoch = j.node WHERE j.url LIKE '%0-1' AND j.state = 'TAKEN'"
    )
    assert until(lambda: site.count("/book/0-1") == 1 and project.query(holder)), running.err
    [(number,)] = project.query(holder)
    command = [command[0], f"n{number}"] if command[0] != "scale" else command
    if command[0] == "scale" and number == 1:
        command = ["drain", "n1"]  # scale retires the highest number
    assert project.run_with_data(*command).code == 0
    finish(project, running, library)
    hold.set()
    assert site.count("/book/0-1") == 2


def test_restart_replaces_a_node_and_counts_no_crash(project: Project, site: Site) -> None:
    library, running = start_crawl(project, site, nodes=1)
    result = project.run_with_data("restart", "n1")
    assert result.code == 0, result.err
    assert until(lambda: live_nodes(project) == [2], 15)
    nodes = finish(project, running, library)
    assert nodes["n1"]["state"] == "TERMINATED"
    assert project.query("SELECT replaces FROM nodes WHERE number = 2") == [(1,)]
    assert project.query("SELECT total(crashes) FROM jobs") == [(0.0,)]
    assert len(site.paths) == len(set(site.paths))


def test_scale_starts_and_retires_runners(project: Project, site: Site) -> None:
    library, running = start_crawl(project, site, nodes=1)
    result = project.run_with_data("scale", "3")
    assert result.code == 0, result.err
    assert "2 started" in result.out
    assert until(lambda: live_nodes(project) == [1, 2, 3], 15)
    assert project.run_with_data("scale", "3").out == "3 runners: 0 started, 0 retired\n"
    assert "2 retired" in project.run_with_data("scale", "1").out
    assert until(lambda: live_nodes(project) == [1], 15)
    assert project.run_with_data("scale", "0").code == 2
    assert project.run_with_data("scale", "999").code == 2
    nodes = finish(project, running, library)
    assert nodes["n3"]["state"] == nodes["n2"]["state"] == "TERMINATED"


def test_a_paused_crawl_fetches_nothing_and_can_be_resumed(project: Project, site: Site) -> None:
    library, running = start_crawl(project, site, nodes=2)
    assert project.run_with_data("pause").code == 0
    assert until(lambda: project.query("SELECT total(taken) FROM sequences") == [(0.0,)], 15)
    fetched = len(site.paths)
    assert not until(lambda: len(site.paths) > fetched or running.exited, 1.0)
    assert "PAUSED" in project.run_with_data("status").out
    assert project.run_with_data("resume").code == 0
    assert until(lambda: len(site.paths) > fetched, 15)
    finish(project, running, library)


@pytest.mark.sweep
def test_a_pause_survives_a_restart_and_is_shown(project: Project, site: Site) -> None:
    library, running = start_crawl(project, site, nodes=1)
    assert project.run_with_data("pause").code == 0
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    fetched = len(site.paths)
    again = project.start("--progress", "plain")
    assert until(lambda: "\n" in again.err), project.describe_state()
    assert "PAUSED (operator; `crawl-console resume`)" in again.err.splitlines()[0]
    assert len(site.paths) == fetched
    assert project.run_with_data("resume").code == 0
    finish(project, again, library)


def test_one_group_is_paused_and_the_other_continues(project: Project, site: Site) -> None:
    library, running = start_crawl(project, site, nodes=2)
    assert project.run_with_data("pause", "books").code == 0
    status = project.run_with_data("status").out
    assert "PAUSED: 1 sequence\n" in status
    assert [line.split()[0] for line in status.splitlines() if line.endswith("incomplete  PAUSED")] == ["books"]
    assert until(lambda: "1 sequence PAUSED (`crawl-console resume SEQ`)" in running.err, 10), running.err
    unpause = project.run_with_data("resume")
    assert (unpause.code, unpause.out.count("not paused"), unpause.out.count("1 sequence paused by name")) == (0, 1, 1)
    assert until(lambda: site.count("/shelf/9") == 1, 15), "the shelves continue"
    assert not running.exited
    fetched = len(site.paths)
    assert not until(lambda: len(site.paths) > fetched + 5, 1.0)
    host = re.escape(site.url("")).removeprefix("http://")
    again = project.run_with_data("resume", f"books@{host.replace(chr(92), '')}")
    assert again.code == 0, again.err
    finish(project, running, library)


@pytest.mark.parametrize("command", [["drain", "n7"], ["restart", "n7"], ["kill", "n7"], ["pause", "nothing"]])
def test_an_unknown_name_is_refused(project: Project, site: Site, command: list[str]) -> None:
    _, running = start_crawl(project, site, nodes=1, delay=0.3)
    result = project.run_with_data(*command)
    assert result.code == 2
    assert command[1] in result.err
    if command[0] != "pause":
        assert "n1" in result.err, "what is there is result"
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    gone = project.run_with_data(*command)
    assert gone.code == 2
    assert "no supervisor is running" in gone.err
