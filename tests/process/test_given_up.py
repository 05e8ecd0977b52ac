"""Hosts that refuse for good: they are given up after so many refusals and so long, and `retry` brings them back."""

import itertools
import time
from collections.abc import Callable

import pytest

from .project import Project, Running, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
locatorGroups:
  seeds: {{locators: [{{urls: [{urls}]}}]}}
  list: {{locators: [{{url: "{list}"}}]}}
taskGroups:
  seeds: {{page: {{dataDef: page}}}}
  list: {{page: {{dataDef: links}}}}
dataDefs:
  page: {{fields: {{title: {{selector: h1}}}}}}
  links: {{fields: {{title: {{selector: h1}}}}, links: [{{selector: a, linkGroup: seeds, sameHost: false}}]}}
hosts:
  "127.0.0.1": {{robots: false, concurrency: 2, giveUp: {rule}{more}}}
  localhost: {{private: true, robots: false}}
"""
REASON = "blocked: the host refuses"


def defs(site: Site, count: int, rule: str = "{refusals: 6, after: PT3S}", more: str = "") -> str:
    urls = ", ".join(f'"{site.url(f"/{n}")}"' for n in range(count))
    listed = site.url("/list").replace("127.0.0.1", "localhost")
    return DEFS.format(urls=urls, list=listed, rule=rule, more=more and f", {more}")


def good(request: Request) -> Page:
    return Page(html(f"<h1>{request.path}</h1>"))


def refusing(site: Site, status: int = 403, **headers: str) -> Callable[[Request], Page]:
    """Refuses all pages; the list, of another host, is slow and links to one of them."""

    def answer(request: Request) -> Page:
        if request.path == "/list":
            return Page(html(f"<h1>list</h1><a href='{site.url('/late')}'>x</a>"), delay=8)
        return Page("no", status, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return answer


def reasons(project: Project) -> dict[str, int]:
    query = "SELECT reason, count(*) FROM jobs WHERE state = 'FAILED' GROUP BY reason"
    return dict(project.query(query))


@pytest.mark.parametrize("status", [403, 429])
def test_a_host_that_refuses_for_good_is_given_up_and_retry_brings_it_back(
    project: Project, site: Site, status: int
) -> None:
    site.fallback = refusing(site, status)
    project.write(defs(site, 300))
    started = time.monotonic()
    done = project.crawl(code=1)
    assert time.monotonic() - started < 40
    asked = len([path for path in site.paths if path != "/list"])
    assert 6 <= asked <= 40
    assert done.jobs == {"done": 1, "failed": 301}
    assert "/late" not in site.paths
    assert reasons(project)[REASON] >= 290, reasons(project)
    (told,) = project.query("SELECT text FROM events WHERE text LIKE '%given up after%'")
    assert "127.0.0.1:" in told[0]
    assert "`crawl-console retry` asks again" in told[0]
    assert any("given up" in warning["text"] for warning in done.summary["warnings"])

    site.fallback = good
    assert project.run_with_data("retry").code == 0
    again = project.crawl()
    assert again.jobs["done"] >= 300
    assert reasons(project) == {}


def test_waits_that_the_host_asked_for_do_not_count(project: Project, site: Site) -> None:
    site.fallback = refusing(site, 429, Retry_After="2")
    project.write(defs(site, 30, "{refusals: 4, after: PT3S}"))
    (project.folder / "crawl.toml").write_text("max_attempts = 20\n")
    running = project.start()
    assert until(lambda: len(site.paths) >= 10, seconds=40)
    assert not project.query("SELECT 1 FROM events WHERE text LIKE '%given up%'")
    running.process.terminate()
    running.wait()


def test_a_good_answer_ends_the_row(project: Project, site: Site) -> None:
    counter = itertools.count()
    site.fallback = lambda request: Page("no", 403) if next(counter) % 3 == 0 else good(request)
    project.write(defs(site, 60, "{refusals: 3, after: PT1S}", "delay: 0.05"))
    (project.folder / "crawl.toml").write_text("max_attempts = 1\n")
    project.crawl(code=1)
    assert set(reasons(project)) == {"blocked: HTTP 403 (1 attempt)"}


def crawl_until_given_up(project: Project, site: Site) -> Running:
    site.fallback = refusing(site)
    project.write(defs(site, 30, "{refusals: 6, after: PT1S}"))
    running = project.start()
    assert until(lambda: len(site.paths) >= 8, seconds=20)
    assert until(lambda: bool(project.query("SELECT 1 FROM refusals WHERE given_up = 1")), seconds=20)
    return running


def test_saved_defs_ask_the_host_again(project: Project, site: Site) -> None:
    running = crawl_until_given_up(project, site)
    site.fallback = good
    project.write(defs(site, 30, "false"))
    assert until(lambda: not project.query("SELECT 1 FROM refusals"), seconds=20)
    assert running.wait().code == 1
    assert "/late" in site.paths


def test_an_operator_brings_a_host_back(project: Project, site: Site) -> None:
    running = crawl_until_given_up(project, site)
    site.fallback = good
    host = site.url("/").split("/")[2]
    assert project.run_with_data("host", host, "--resume").code == 0
    assert running.wait().code == 1
    assert "/late" in site.paths, "it is asked again"


@pytest.mark.quick
def test_the_rule_is_checked(project: Project) -> None:
    site_free = DEFS.format(urls='"http://a.example/"', list="http://b.example/", rule="{rule}", more="")
    for rule, said in (
        ("{refusals: 0}", "refusals"),
        ("{after: soon}", "after"),
        ("true", "giveUp"),
        ("{tries: 3}", "unknown key"),
    ):
        project.write(site_free.replace("{rule}", rule))
        checked = project.run_with_data("check")
        assert checked.code == 2, rule
        assert said in checked.out + checked.err
