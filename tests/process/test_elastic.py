"""A range of nodes: started while jobs wait for one, retired when idle; exact through kills."""

import os
import random
import signal
import threading
from collections import Counter

import pytest

from .project import Project, Running, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{title: {{selector: h1}}}}, links: [{{selector: a}}]}}}}
hosts: {{"127.0.0.1": {{private: true, robots: false, {limits}}}}}
"""
QUICK = ("--set", "concurrency=4", "--set", "node_wait=0.3", "--set", "node_idle=1")


class Shop:
    """A list of pages that take half a second each; the last one waits for `end`."""

    def __init__(self, site: Site, pages: int) -> None:
        self.pages = pages
        self.site = site
        self.end = threading.Event()
        links = "".join(f'<a href="/{number}">x</a>' for number in range(pages))
        site["/"] = html(f'<h1>list</h1><a href="/last">x</a>{links}')
        site["/last"] = Page(html("<h1>/last</h1>"), hold=self.end)
        site.fallback = self._page

    def _page(self, request: Request) -> Page:
        return Page(html(f"<h1>{request.path}</h1>"), delay=0.5)

    def start(self, project: Project, nodes: str, *arguments: str, limits: str = "concurrency: 16") -> Running:
        project.write(DEFS.format(url=self.site.url("/"), limits=limits))
        where = ["--defs", str(project.defs), "--data", str(project.data), "--nodes", nodes]
        return project.start_command("run", "--no-ui", "--json", *where, *QUICK, *arguments)

    def finish(self, project: Project, running: Running) -> None:
        self.end.set()
        done = running.wait()
        assert done.code == 0, done.err
        project.assert_clean(done)
        titles = ["list", "/last", *(f"/{number}" for number in range(self.pages))]
        assert Counter(row["title"] for row in project.rows("page")) == Counter(titles)


def count_live(project: Project) -> int:
    [(count,)] = project.query("SELECT count(*) FROM nodes WHERE ended_at IS NULL AND role = 'RUNNER'")
    return int(count)


def count_nodes(project: Project) -> int:
    [(count,)] = project.query("SELECT count(*) FROM nodes")
    return int(count)


def has_begun(site: Site, running: Running) -> bool:
    return until(lambda: len(site.paths) >= 3 or running.exited, 30) and not running.exited


@pytest.mark.quick
def test_nodes_are_started_for_waiting_jobs_and_retired_when_idle(project: Project, site: Site) -> None:
    shop = Shop(site, 32)
    running = shop.start(project, "1-2", "--backups", "1")
    assert has_begun(site, running), running.err
    assert until(lambda: count_live(project) == 2, 30), project.describe_state()
    assert until(lambda: count_live(project) == 1, 30), project.describe_state()
    [(held,)] = project.query("SELECT count(*) FROM jobs WHERE state = 'TAKEN'")
    assert held == 1, "the node that holds a job stays"
    assert project.query("SELECT count(*) FROM nodes WHERE role = 'BACKUP_RUNNER' AND ended_at IS NULL") == [(1,)]
    retired = project.query("SELECT reason, state FROM nodes WHERE ended_at IS NOT NULL")
    assert retired == [("stopped gracefully", "TERMINATED")]
    texts = [text for (text,) in project.query("SELECT text FROM events WHERE source = 'supervisor'")]
    assert sum("starts because jobs wait for a free slot" in text for text in texts) == 1
    assert sum("is retired: no job for 1 s" in text for text in texts) == 1
    shop.finish(project, running)
    assert len(site.paths) == len(set(site.paths)), "nothing was fetched twice"
    assert project.query("SELECT takeovers FROM runs") == [(0,)]


@pytest.mark.sweep
@pytest.mark.parametrize("limits", ["concurrency: 3", "delay: 0.2"])
def test_a_slow_host_starts_no_second_node(project: Project, site: Site, limits: str) -> None:
    """All its slots but one are free, or the host gives nothing: a second node could lease nothing."""
    shop = Shop(site, 14)
    shop.end.set()
    running = shop.start(project, "1-4", limits=limits)
    shop.finish(project, running)
    assert count_nodes(project) == 1


@pytest.mark.sweep
def test_a_full_node_on_a_host_at_its_limit_is_not_helped(project: Project, site: Site) -> None:
    shop = Shop(site, 24)
    shop.end.set()
    running = shop.start(project, "1-4", "--set", "concurrency=2", limits="concurrency: 2")
    shop.finish(project, running)
    assert count_nodes(project) == 1


@pytest.mark.sweep
def test_killed_nodes_are_replaced_and_the_rows_are_exact(project: Project, site: Site) -> None:
    shop = Shop(site, 200)
    running = shop.start(project, "1-3")
    assert has_begun(site, running), running.err
    for fetched in (30, 90, 150):
        assert until(lambda limit=fetched: len(set(site.paths)) >= limit, 30), project.describe_state()
        os.kill(random.choice(project.children("node")), signal.SIGKILL)
    assert until(lambda: count_live(project) == 3, 30), project.describe_state()
    assert until(lambda: count_live(project) == 1 and len(project.children("node")) == 1, 30), project.describe_state()
    shop.finish(project, running)
    assert project.query("SELECT takeovers FROM runs") == [(3,)]


@pytest.mark.sweep
def test_scale_sets_both_bounds(project: Project, site: Site) -> None:
    shop = Shop(site, 300)
    running = shop.start(project, "1")
    assert has_begun(site, running), running.err
    assert project.run_with_data("scale", "2-3").out == "2-3 runners: 1 started, 0 retired\n"
    assert until(lambda: count_live(project) == 3, 30), project.describe_state()
    assert project.run_with_data("scale", "1-2").out == "1-2 runners: 0 started, 1 retired\n"
    assert project.run_with_data("scale", "2").out == "2 runners: 0 started, 0 retired\n"
    assert until(lambda: count_live(project) == 2, 30)
    assert until(lambda: len(set(site.paths)) == shop.pages + 2, 60)
    assert not until(lambda: count_live(project) != 2, 2.0), "a fixed number is not retired"
    for words, message in ((["4-1"], "write 4, or the least and the most: 1-4"), (["1-999"], "between 1 and 256")):
        refused = project.run_with_data("scale", *words)
        assert refused.code == 2
        assert message in refused.err
    shop.finish(project, running)


@pytest.mark.parametrize("nodes", ["0", "4-1", "many"])
def test_a_wrong_number_of_nodes_is_refused(project: Project, site: Site, nodes: str) -> None:
    flag = Shop(site, 1).start(project, nodes).wait()
    assert flag.code == 2
    assert f"'{nodes}' is not a number of nodes between 1 and 256; write 4, or the least and the most: 1-4" in flag.err
    assigned = project.run_with_data("check", "--set", f"nodes={nodes}")
    assert assigned.code == 2
    assert f"nodes cannot be '{nodes}'" in assigned.err
