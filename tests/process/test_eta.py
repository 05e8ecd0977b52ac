"""The estimate of a run's end, compared with when it ended."""

import time
from typing import Any

import pytest

from tests.sample import sampled

from .project import Project, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
locatorGroups: {{pages: {{locators: [{locators}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{title: {{selector: h1}}}}, links: [{{selector: a}}]}}}}
hosts:
  "127.0.0.1": {{private: true, robots: false, concurrency: 4}}
  "127.0.0.1:{slow}": {{private: true, robots: false, delay: 0.3}}
"""


def numbered(site: Site, count: int) -> str:
    return f'{{url: "{site.url("/")}{{1..{count}}}"}}'


def page(request: Request) -> Page:
    return Page(html("<h1>x</h1>"), delay=0.1)


def tree(request: Request) -> Page:
    number = int(request.path[1:])
    links = "".join(f'<a href="/{child}">x</a>' for child in (2 * number, 2 * number + 1) if child <= 300)
    return Page(html(f"<h1>x</h1>{links}"), delay=0.1)


class Backoff:
    """One answer of 429 in the middle."""

    def __init__(self) -> None:
        self.requests = 0

    def __call__(self, request: Request) -> Page:
        self.requests += 1
        return Page("later", 429, {"Retry-After": "4"}) if self.requests == 150 else page(request)


def watch(project: Project) -> tuple[list[tuple[float, dict[str, Any], int]], float]:
    """The estimates during a run with their times and the pages done by then, and the time of its last page."""
    running = project.start()
    estimates = []
    while not running.exited:
        if (project.data / "crawl.db").exists():
            status = project.status()
            estimates.append((time.monotonic(), status["eta"], status["jobs"]["done"]))
        time.sleep(0.2)
    assert running.wait().code == 0
    return estimates, max(at for at, _, done in estimates if done < estimates[-1][2])


@pytest.mark.parametrize("shape", sampled(["tail", "backoff"]))
def test_the_end_is_known_after_a_third(project: Project, site: Site, second_site: Site, shape: str) -> None:
    site.fallback, count, tail = (page, 120, 40) if shape == "tail" else (Backoff(), 400, 1)
    second_site.fallback = page
    locators = f"{numbered(site, count)}, {numbered(second_site, tail)}"
    project.write(DEFS.format(locators=locators, slow=second_site.port))
    estimates, ended_at = watch(project)
    at, eta, _ = next(e for e in estimates if e[2] >= (count + tail) / 2 and e[1]["seconds"] is not None)
    assert eta["seconds"] == pytest.approx(ended_at - at, rel=0.3, abs=1.0)
    if shape == "tail":
        assert eta["bound_by"] == f"127.0.0.1:{second_site.port}"
        assert eta["reason"] == "delay 0.3 s"


@pytest.mark.sweep
def test_while_new_pages_appear_it_is_a_lower_bound(project: Project, site: Site) -> None:
    site.fallback = tree
    project.write(DEFS.format(locators=f'{{url: "{site.url("/1")}"}}', slow=1))
    estimates, ended_at = watch(project)
    measured = [(ended_at - at, eta) for at, eta, done in estimates if done >= 20 and eta["seconds"] and at < ended_at]
    assert any(not eta["exact"] for _, eta in measured)
    above = [(left, eta) for left, eta in measured if eta["seconds"] > 1.1 * left + 1.5]
    assert not above
    assert not any(eta["exact"] for left, eta in measured if left > 5)


def test_a_paused_run_says_so_and_a_run_that_has_ended_has_no_estimate(project: Project, site: Site) -> None:
    site.fallback = page
    project.write(DEFS.format(locators=numbered(site, 100), slow=1))
    running = project.start()
    assert until(lambda: len(site.paths) > 5)
    project.run_with_data("pause")
    assert until(lambda: project.status()["eta"]["bound_by"] == "paused")
    assert project.status()["eta"]["seconds"] is None
    assert "ETA paused" in project.run_with_data("status").out
    project.run_with_data("resume")
    assert until(lambda: project.status()["eta"]["seconds"])
    assert running.wait().code == 0
    assert project.status()["eta"] == {"seconds": None, "bound_by": None, "exact": False, "reason": None, "paused": 0}
