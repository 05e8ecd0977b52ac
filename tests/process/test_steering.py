"""Commands to a running crawl: drain, restart, scale, pause, resume; and refusals."""

import re
import signal
import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.sample import sampled

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


@pytest.mark.quick
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


@pytest.mark.quick
@pytest.mark.parametrize("command", sampled([["drain", "n1"], ["restart", "n1"], ["scale", "1"]], 1))
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


@pytest.mark.sweep
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


@pytest.mark.quick
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


@pytest.mark.quick
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


@pytest.mark.sweep
def test_one_group_is_paused_and_the_other_continues(project: Project, site: Site) -> None:
    library, running = start_crawl(project, site, nodes=2)
    assert project.run_with_data("pause", "books").code == 0
    status = project.run_with_data("status").out
    assert "PAUSED: 1 sequence (" in status
    assert [line.split()[0] for line in status.splitlines() if line.endswith("incomplete  PAUSED")] == ["books"]
    assert until(lambda: "1 sequence PAUSED: " in running.err, 10), running.err
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


@pytest.mark.sweep
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


@pytest.mark.sweep
def test_a_stopped_group_skips_its_rest_and_what_is_found_later(project: Project, site: Site) -> None:
    """Also after a restart; `resume` lifts it, and a retry of the skipped jobs brings the rest back."""
    library, running = start_crawl(project, site, nodes=1, delay=0.3)
    assert until(lambda: any("/book/" in path for path in site.paths))
    stopped = project.run_with_data("stop", "books")
    assert stopped.code == 0, stopped.err
    assert re.search(r"1 sequence stopped: \d+ jobs? (is|are) skipped, and all found later", stopped.out)
    assert project.run_with_data("pause", "books").code == 2, "a stopped sequence cannot be paused"
    running.process.kill()
    running.wait()
    library.set_delay(0)
    done = project.crawl(nodes=1)
    assert done.jobs["done"] + done.jobs["skipped"] == library.size
    assert done.jobs["skipped"] > 50, "those of later shelves are skipped, too"
    assert project.query("SELECT DISTINCT reason FROM jobs WHERE state = 'SKIPPED'") == [("stopped by an operator",)]
    assert project.count_rows("entry").total() == 80
    assert project.run_with_data("retry", "--state", "skipped").code == 0
    assert project.crawl(nodes=1).jobs["skipped"] == done.jobs["skipped"], "it is stopped until it is resumed"
    assert project.run_with_data("retry", "--match", "/shelf/9", "--state", "done").code == 0
    site["/shelf/9"] = replace(site.pages["/shelf/9"], delay=6)  # type: ignore[type-var]
    running = project.start(nodes=1)
    assert until(lambda: project.run_with_data("resume", "books").code == 0, 20)
    assert project.run_with_data("retry", "--state", "skipped").code == 0
    last = running.wait()
    assert last.code == 0, last.err
    assert "skipped" not in last.jobs
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.quick
def test_a_stopped_sequence_lets_the_run_end(project: Project, site: Site, second_site: Site) -> None:
    """One host of a group alone; the other host of that group goes on."""
    for each in (site, second_site):
        for number in range(40):
            each[f"/{number}"] = Page(html("<b>x</b>"), delay=0.1)
    urls = ", ".join(f'"{each.url("/{0..39}")}"' for each in (site, second_site))
    project.write(
        f"locatorGroups: {{g: {{locators: [{{urls: [{urls}]}}]}}}}\ntaskGroups: {{g: {{t: {{dataDef: d}}}}}}\n"
        "dataDefs: {d: {fields: {b: {selector: b}}}}\nhosts: {127.0.0.1: {robots: false, concurrency: 1}}\n"
    )
    running = project.start(nodes=1)
    assert until(lambda: len(site.paths) >= 2)
    stopped = project.run_with_data("stop", f"g@127.0.0.1:{site.port}")
    assert stopped.code == 0, stopped.err
    assert running.wait().code == 0
    assert len(second_site.paths) == 40
    assert len(site.paths) < 20
