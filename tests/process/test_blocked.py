"""Answers that refuse the crawler: they rest the host or wait at the end of its queue, and never pass for a page."""

import itertools

import pytest

from tests.sample import sampled

from .project import Completed, Project, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{urls: [{urls}]}}]}}}}
taskGroups: {{pages: {{priority: -3, page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{title: {{selector: h1, required: true}}}}}}}}
hosts: {{"127.0.0.1": {{private: true, robots: false, concurrency: 2{host}}}}}
"""
CHALLENGE = Page(html("<script>window._cf_chl_opt={cType:'managed'}</script>"), status=403)


def defs(site: Site, count: int, host: str = "") -> str:
    return DEFS.format(urls=", ".join(f'"{site.url(f"/{n}")}"' for n in range(count)), host=host and f", {host}")


def good(request: Request) -> Page:
    return Page(html(f"<h1>{request.path}</h1>"))


def crawl(project: Project, attempts: int) -> Completed:
    (project.folder / "crawl.toml").write_text(f"max_attempts = {attempts}\n")
    return project.crawl(code=1)


def reasons(project: Project) -> list[str]:
    return [reason for (reason,) in project.query("SELECT reason FROM jobs WHERE state = 'FAILED' ORDER BY url")]


@pytest.mark.parametrize("status", sampled([401, 403, 407], 1))
def test_a_refused_page_waits_for_the_others_and_rests_nothing(project: Project, site: Site, status: int) -> None:
    site.fallback = good
    site["/0"] = site["/9"] = Page("no", status)
    project.write(defs(site, 40))
    done = crawl(project, attempts=3)
    assert done.jobs == {"done": 38, "failed": 2}
    assert reasons(project) == [f"blocked: HTTP {status} (3 attempts)"] * 2
    paths = site.paths
    assert min(paths.index("/0", paths.index("/0") + 1), paths.index("/9", paths.index("/9") + 1)) >= 30, "others first"
    (host,) = project.status()["hosts"]
    assert (host["blocked"], host["errors"], host["strikes"], host["backoff"]) == (6, 0, 0, None)
    assert [warning["code"] for warning in done.summary["warnings"]] == ["blocked"]
    kept = project.query("SELECT DISTINCT status, hex(key) FROM documents WHERE status <> 200")
    assert kept == [(status, "")], "for people to read, and reused by no job"


@pytest.mark.parametrize(
    "answer",
    sampled(
        [
            CHALLENGE,
            Page(html("wait"), status=403, headers={"cf-mitigated": "challenge"}),
            Page(html("wait"), status=202, headers={"x-amzn-waf-action": "Challenge"}),
            Page(html("<h1>Please VERIFY you are human</h1>")),
            Page(html("<h1>robot?</h1>"), status=418),
        ],
        0,
        2,
    ),
)
def test_a_challenge_rests_the_host_and_is_tried_again(project: Project, site: Site, answer: Page) -> None:
    challenged = set[str]()

    def first_a_challenge(request: Request) -> Page:
        if request.path == "/3" and request.path not in challenged:
            challenged.add(request.path)
            return answer
        return good(request)

    site.fallback = first_a_challenge
    project.write(defs(site, 8, 'blocked: [{status: 418}, {match: "verify you are human"}]'))
    done = project.crawl()
    assert done.jobs == {"done": 8}
    assert len(project.rows("page")) == 8
    times = site.start_times()
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.9
    assert project.status()["hosts"][0]["blocked"] == 1


@pytest.mark.sweep
def test_a_site_that_turns_to_challenges_gives_no_row_and_exit_code_1(project: Project, site: Site) -> None:
    site.fallback = lambda request: good(request) if int(request.path[1:]) < 5 else CHALLENGE
    project.write(defs(site, 8))
    done = crawl(project, attempts=2)
    assert done.jobs == {"done": 5, "failed": 3}
    assert len(project.rows("page")) == 5
    assert all(reason.startswith("blocked: challenge (") for reason in reasons(project))
    assert "blocked" in [warning["code"] for warning in done.summary["warnings"]]


def test_a_host_that_refuses_most_pages_rests(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page("no", 403)
    project.write(defs(site, 12))
    running = project.start()
    assert until(lambda: any(host["backoff"] for host in project.status()["hosts"]))
    (host,) = project.status()["hosts"]
    assert host["strikes"] >= 1
    assert host["blocked"] >= 4
    assert host["throttled"] == 0
    running.process.terminate()
    running.wait()


def test_blocked_false_makes_them_pages_and_failures_again(project: Project, site: Site) -> None:
    site.fallback = good
    site["/0"], site["/1"] = Page("no", 403), Page(html("<h1>x</h1><script>window._cf_chl_opt</script>"))
    project.write(defs(site, 4, "blocked: false"))
    done = project.crawl(code=1)
    assert done.jobs == {"done": 3, "failed": 1}
    assert reasons(project) == ["HTTP 403"]
    assert site.count("/0") == 1
    assert project.status()["hosts"][0]["blocked"] == 0


@pytest.mark.sweep
def test_a_retried_page_has_its_place_in_the_queue_again(project: Project, site: Site) -> None:
    site.fallback = good
    site["/0"] = Page("no", 403)
    project.write(defs(site, 3))
    crawl(project, attempts=2)
    site["/0"] = html("<h1>0</h1>")
    project.run_with_data("retry")
    assert project.query("SELECT min(priority), max(priority) FROM jobs") == [(-3, -3)]
    assert project.crawl().jobs == {"done": 3}
