"""The keys `delay`, `retry` and `hours` of hosts in real crawls."""

import contextlib
import signal
import sqlite3
import time
from itertools import pairwise

import pytest

from .project import Project, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(90)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{urls: [{urls}]}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{title: {{selector: b}}}}}}}}
hosts: {{"127.0.0.1": {{robots: false, {keys}}}}}
"""


def write(project: Project, site: Site, keys: str) -> None:
    site.fallback = Page(html("<b>1</b>"))
    project.write(DEFS.format(urls=", ".join(site.url(f"/{number}") for number in range(6)), keys=keys))


def rests(project: Project) -> bool:
    with contextlib.suppress(sqlite3.Error):  # the database is being made
        return bool(project.query("SELECT 1 FROM hosts WHERE backoff_until > 0"))
    return False


def test_the_delay_is_drawn_within_its_bounds(project: Project, site: Site) -> None:
    write(project, site, "delay: {min: 0.2, max: 0.8}")
    project.crawl()
    gaps = [after.started - before.started for before, after in pairwise(site.exchanges)]
    assert len(gaps) == 5
    assert min(gaps) > 0.15
    assert max(gaps) - min(gaps) > 0.02


def test_further_statuses_are_retried_as_often_as_the_rule_says(project: Project, site: Site) -> None:
    asked: list[str] = []

    def page(request: Request) -> Page:
        asked.append(request.path)
        return Page("no", 404) if asked.count(request.path) < 2 or request.path == "/5" else Page(html("<b>1</b>"))

    write(project, site, "retry: {statuses: [404], attempts: 2}")
    site.fallback = page
    project.crawl(code=1)
    assert [asked.count(f"/{number}") for number in range(6)] == [2] * 6
    assert project.job(site.url("/4"))["state"] == "DONE"
    last = project.job(site.url("/5"))
    assert (last["state"], last["reason"]) == ("FAILED", "HTTP 404 (2 attempts)")


def test_a_host_rests_outside_its_hours(project: Project, site: Site) -> None:
    begin, end = (time.strftime("%H:%M", time.localtime(time.time() + hours * 3600)) for hours in (2, 3))
    write(project, site, f'hours: "{begin}-{end}"')
    running = project.start()
    assert until(lambda: rests(project))
    time.sleep(0.5)
    assert site.exchanges == []
    now, begins = project.query("SELECT state, backoff_until FROM hosts, runs")[0]
    assert now == "READY"
    assert begins - time.clock_gettime(time.CLOCK_BOOTTIME) == pytest.approx(7_200, abs=70)
    running.send(signal.SIGTERM)
    running.wait()


def test_a_redirect_to_a_host_outside_its_hours_waits_there(project: Project, site: Site, second_site: Site) -> None:
    begin, end = (time.strftime("%H:%M", time.localtime(time.time() + hours * 3600)) for hours in (2, 3))
    far = second_site.url("/far").replace("127.0.0.1", "localhost")
    write(project, site, f'}}, localhost: {{private: true, robots: false, hours: "{begin}-{end}"')
    site.fallback = Page("", 302, {"Location": far})
    running = project.start()
    assert until(lambda: rests(project))
    waiting = "SELECT count(*) FROM jobs WHERE state = 'READY' AND target IS NOT NULL"
    assert until(lambda: project.query(waiting) == [(6,)], seconds=20)
    assert {target for (target,) in project.query("SELECT target FROM jobs")} == {far}
    assert second_site.exchanges == []
    assert len(site.exchanges) == 6, "none is asked for twice"
    running.send(signal.SIGTERM)
    running.wait()


def test_a_host_is_asked_within_its_hours(project: Project, site: Site) -> None:
    begin, end = (time.strftime("%H:%M", time.localtime(time.time() + hours * 3600)) for hours in (-1, 1))
    write(project, site, f'hours: "{begin}-{end}"')
    project.crawl()
    assert len(site.exchanges) == 6
