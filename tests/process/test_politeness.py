"""Politeness: robots.txt, delay and concurrency of a host shared by all nodes, Retry-After."""

import time

import pytest

from tests.sample import sampled

from .gaps import assert_spaced
from .library import Library, ok
from .project import Project, until
from .site import Page, Request, Site, html, redirect
from .stopwatch import slowness

pytestmark = pytest.mark.timeout(60)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{urls: [{urls}]}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields: {{url: {{value: "%{{document.url}}"}}}}
    links: [{{selector: a, sameHost: false}}]
hosts: {{"127.0.0.1": {{private: true, {host}}}}}
"""


def defs(*urls: str, host: str = "robots: false") -> str:
    return DEFS.format(urls=", ".join(f'"{url}"' for url in urls), host=host)


def test_robots_txt_is_fetched_once_per_host_and_obeyed(project: Project, site: Site, second_site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nDisallow: /private\nAllow: /private/open\n"
    other = second_site.url("/else")
    links = "".join(f'<a href="{path}">x</a>' for path in ("/a", "/private/b", "/private/open/c", other))
    site["/"] = html(links)
    site.fallback = second_site.fallback = ok
    second_site["/robots.txt"] = Page("none", 404)
    project.write(defs(site.url("/"), site.url("/private/start"), host="concurrency: 8"))
    done = project.crawl()
    assert site.count("/robots.txt") == second_site.count("/robots.txt") == 1
    assert site.exchanges[0].path == "/robots.txt", "it is read before the first page"
    assert sorted(site.paths) == ["/", "/a", "/private/open/c"]
    assert second_site.paths == ["/else"]
    assert done.jobs == {"done": 4, "skipped": 2}, "robots.txt is not a page"
    for path in ("/private/b", "/private/start"):
        job = project.job(site.url(path))
        assert job["state"] == "SKIPPED"
        assert "robots.txt disallows" in job["reason"]


def test_robots_txt_rules_for_our_user_agent_apply(project: Project, site: Site) -> None:
    site["/robots.txt"] = "User-agent: crawl-console\nDisallow: /a\n\nUser-agent: *\nDisallow: /\n"
    site.fallback = ok
    project.write(defs(site.url("/a"), site.url("/b"), host="concurrency: 8"))
    project.crawl()
    assert site.paths == ["/b"]
    assert all(exchange.request.headers["user-agent"].startswith("crawl-console/") for exchange in site.exchanges)


@pytest.mark.sweep
def test_robots_off_for_a_host_or_for_all(project: Project, site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nDisallow: /\n"
    site.fallback = ok
    project.write(defs(site.url("/a")))
    project.crawl()
    project.write(defs(site.url("/a"), host="concurrency: 8"))
    project.crawl("--set", "robots=false")
    assert site.paths == ["/a", "/a"]
    assert site.count("/robots.txt") == 0


def test_a_temporary_5xx_of_robots_txt_is_retried(project: Project, site: Site) -> None:
    site["/robots.txt"] = lambda request: (
        Page("x", 502) if request.attempt == 1 else Page("User-agent: *\nDisallow: /b\n")
    )
    site.fallback = ok
    project.write(defs(site.url("/a"), site.url("/b"), host="concurrency: 8"))
    project.crawl()
    assert site.count("/robots.txt") == 2
    assert site.paths == ["/a"]


def test_robots_txt_redirected_to_another_host_is_followed(project: Project, site: Site, second_site: Site) -> None:
    site["/robots.txt"] = redirect(second_site.url("/rules"))
    second_site["/rules"] = Page("User-agent: *\nDisallow: /b\n", headers={"Content-Type": "text/plain"})
    site.fallback = ok
    project.write(defs(site.url("/a"), site.url("/b"), host="concurrency: 8"))
    project.crawl()
    assert site.paths == ["/a"]


def test_crawl_delay_of_robots_txt_is_kept(project: Project, site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nCrawl-delay: 0.3\n"
    site.fallback = ok
    project.write(defs(*(site.url(f"/{n}") for n in range(6)), host="concurrency: 8"))
    project.crawl()
    times = site.start_times()
    assert len(times) == 6
    assert_spaced(times, 0.3)


@pytest.mark.parametrize("delay", sampled([0.05, 0.3], 0))
def test_delay_is_shared_by_all_nodes_and_no_slower(project: Project, site: Site, delay: float) -> None:
    count = 40 if delay < 0.1 else 10
    site.fallback = ok
    project.write(defs(*(site.url(f"/{n}") for n in range(count)), host=f"robots: false, delay: {delay}"))
    done = project.crawl()
    assert done.jobs == {"done": count}
    times = site.start_times()
    assert_spaced(times, delay)
    assert (times[-1] - times[0]) / (count - 1) <= delay * 1.25 * slowness()


def test_pages_that_send_no_request_take_no_turn(project: Project, site: Site) -> None:
    """Those that robots.txt disallows, and those that are stored: a host with a delay would take twice as long."""
    site["/robots.txt"] = "User-agent: *\nDisallow: /no\nCrawl-delay: 1\n"
    site.fallback = ok
    urls = [site.url(f"/{kind}/{number}") for number in range(3) for kind in ("no", "no/more", "yes")]
    project.write(defs(*urls, host="concurrency: 8"))
    assert project.crawl().jobs == {"done": 3, "skipped": 6}
    times = site.start_times()
    assert len(times) == 3
    assert_spaced(times, 1.0)
    assert times[-1] - times[0] < 4.0 * slowness(), "nine turns would take 7 s"
    began = time.monotonic()
    done = project.crawl("--set", "live=PT1H")
    assert done.jobs == {"done": 3, "skipped": 6}
    assert len(site.start_times()) == 3
    assert time.monotonic() - began < 6.0 * slowness()


@pytest.mark.sweep
def test_delay_counts_redirects_and_robots_too(project: Project, site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nDisallow:\n"
    site.fallback = ok
    for number in range(4):
        site[f"/{number}"] = redirect(f"/to/{number}")
    project.write(defs(*(site.url(f"/{n}") for n in range(4)), host="delay: 0.25"))
    done = project.crawl()
    assert done.jobs == {"done": 4}
    times = sorted(exchange.started for exchange in site.exchanges)
    assert len(times) == 9
    assert_spaced(times, 0.25)


@pytest.mark.sweep
def test_delay_is_kept_over_a_resume(project: Project, site: Site) -> None:
    site.fallback = ok
    project.write(defs(*(site.url(f"/{n}") for n in range(8)), host="robots: false, delay: 0.8"))
    running = project.start()
    assert until(lambda: len(site.paths) == 3)
    running.process.kill()
    running.wait()
    project.crawl()
    times = site.start_times()
    assert_spaced(times, 0.8)
    assert len(times) <= 9, "at most the page in flight is fetched again"


@pytest.mark.parametrize("cap", sampled([1, 3], 1))
def test_concurrency_of_a_host_is_shared_by_all_nodes_and_used(project: Project, site: Site, cap: int) -> None:
    site.fallback = lambda request: Page(html("x"), delay=0.05)
    count = 12 * cap
    project.write(defs(*(site.url(f"/{n}") for n in range(count)), host=f"robots: false, concurrency: {cap}"))
    started_at = time.monotonic()
    project.crawl(nodes=3)
    assert site.max_concurrent == cap
    took = max(v.ended or 0.0 for v in site.exchanges) - min(v.started for v in site.exchanges)
    assert took <= 12 * 0.05 * 3, time.monotonic() - started_at


@pytest.mark.sweep
def test_concurrency_of_a_host_is_eight_by_default(project: Project, site: Site) -> None:
    site["/robots.txt"] = Page("", 404)
    site.fallback = lambda request: Page(html("x"), delay=0.1)
    project.write(defs(*(site.url(f"/{n}") for n in range(40)), host="nofollow: true"))
    project.crawl()
    assert site.max_concurrent == 8


def test_retry_after_of_a_429_holds_the_whole_host_back(project: Project, site: Site) -> None:
    def limited(request: Request) -> Page:
        return Page("slow down", 429, {"Retry-After": "2"}) if request.attempt == 1 else Page(html("x"))

    site.fallback = lambda request: Page(html("x"), delay=0.05)
    site["/3"] = limited
    project.write(defs(*(site.url(f"/{n}") for n in range(40)), host="robots: false, concurrency: 2"))
    done = project.crawl()
    assert done.jobs == {"done": 40}
    refused = next(v for v in site.exchanges if v.path == "/3")
    assert refused.ended is not None
    after = [v.started - refused.ended for v in site.exchanges if v.started > refused.ended]
    # requests sent before the 429 is committed cannot be held back; all others wait
    assert sum(gap < 1.9 for gap in after) <= 4, after
    assert min(gap for gap in after if gap > 0.5) >= 1.9
    assert min(gap for gap in after if gap > 0.5) <= 3.5
    assert site.count("/3") == 2


@pytest.mark.parametrize("retry_after", ["0", "Thu, 01 Jan 2015 00:00:00 GMT"])
def test_a_429_without_a_wait_holds_the_host_back_longer_each_time(
    project: Project, site: Site, retry_after: str
) -> None:
    def limited(request: Request) -> Page:
        return Page("slow down", 429, {"Retry-After": retry_after}) if request.attempt <= 2 else Page(html("x"))

    site.fallback = limited
    project.write(defs(site.url("/0"), site.url("/1"), host="robots: false, concurrency: 2"))
    assert project.crawl().jobs == {"done": 2}
    times = site.start_times("/0")
    assert times[1] - times[0] >= 0.9
    assert times[2] - times[1] >= 1.9


@pytest.mark.sweep
def test_other_hosts_continue_while_one_backs_off(project: Project, site: Site, second_site: Site) -> None:
    site.fallback = lambda request: (
        Page("slow down", 429, {"Retry-After": "3"}) if request.attempt == 1 else ok(request)
    )
    second_site.fallback = lambda request: Page(html("x"), delay=0.02)
    urls = [site.url("/a"), *(second_site.url(f"/{n}") for n in range(30))]
    project.write(defs(*urls))
    project.crawl()
    assert max(second_site.start_times()) < min(site.start_times()) + 2
    assert site.start_times()[1] - site.start_times()[0] >= 2.9


@pytest.mark.sweep
def test_hosts_get_a_fair_share(project: Project, site: Site, second_site: Site) -> None:
    """A host with few pages does not wait for the end of one with many."""
    for host in (site, second_site):
        host.fallback = lambda request: Page(html("x"), delay=0.03)
    many, few = [site.url(f"/{n}") for n in range(200)], [second_site.url(f"/{n}") for n in range(10)]
    project.write(defs(*many, *few))
    project.crawl()
    assert max(second_site.start_times()) < sorted(site.start_times())[120]


@pytest.mark.sweep
def test_headers_and_cookies_of_a_host_are_sent_to_it_alone(project: Project, site: Site, second_site: Site) -> None:
    site["/"] = html(f'<a href="{second_site.url("/x")}">x</a>')
    second_site.fallback = ok
    key = f"127.0.0.1:{site.port}"
    text = defs(site.url("/")) + f'  "{key}": {{robots: false, headers: {{X-Key: "s3"}}, cookies: {{c: d}}}}\n'
    project.write(
        text.replace(
            'hosts: {"127.0.0.1": {private: true, robots: false}}',
            'hosts:\n  "127.0.0.1": {private: true, robots: false}',
        )
    )
    project.crawl()
    [first], [second] = site.exchanges, second_site.exchanges
    assert first.request.headers["x-key"] == "s3"
    assert first.request.headers["cookie"] == "c=d"
    assert "x-key" not in second.request.headers
    assert "cookie" not in second.request.headers


@pytest.mark.sweep
def test_library_with_delay_is_exact(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=4)
    project.write(library.defs(delay=0.1))
    project.crawl("--backups", "1")
    assert project.count_rows("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)
