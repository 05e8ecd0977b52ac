"""What a host may expect: robots.txt obeyed, its delay and its cap held by all nodes together, Retry-After honoured."""

import time
from itertools import pairwise

import pytest

from .house import House, until
from .library import Library, ok
from .site import Asked, Page, Site, html, moved
from .stopwatch import slowness

pytestmark = pytest.mark.timeout(60)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{urls: [{urls}]}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields: {{url: {{value: "%{{document.url}}"}}}}
    links: [{{selector: a, sameHost: false}}]
hosts: {{"127.0.0.1": {{{host}}}}}
"""


def defs(*urls: str, host: str = "robots: false") -> str:
    return DEFS.format(urls=", ".join(f'"{url}"' for url in urls), host=host)


def least(delay: float) -> float:
    """The shortest gap to be seen: a request may be sent late by a tenth, and arrive late on a loaded machine."""
    return delay - min(0.05, delay / 10) - 0.02 * slowness()


def test_robots_txt_is_asked_for_once_a_host_and_obeyed(house: House, site: Site, second_site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nDisallow: /private\nAllow: /private/open\n"
    other = second_site.url("/else")
    links = "".join(f'<a href="{path}">x</a>' for path in ("/a", "/private/b", "/private/open/c", other))
    site["/"] = html(links)
    site.otherwise = second_site.otherwise = ok
    second_site["/robots.txt"] = Page("none", 404)
    house.write(defs(site.url("/"), site.url("/private/start"), host="concurrency: 8"))
    done = house.crawl()
    assert site.times("/robots.txt") == second_site.times("/robots.txt") == 1
    assert site.visits[0].path == "/robots.txt", "it is read before the first page"
    assert sorted(site.paths) == ["/", "/a", "/private/open/c"]
    assert second_site.paths == ["/else"]
    assert done.jobs == {"done": 4, "skipped": 2}, "robots.txt is no page"
    for path in ("/private/b", "/private/start"):
        job = house.job(site.url(path))
        assert job["state"] == "SKIPPED"
        assert "robots.txt disallows" in job["reason"]


def test_robots_txt_is_for_us_by_name(house: House, site: Site) -> None:
    site["/robots.txt"] = "User-agent: crawl-console\nDisallow: /a\n\nUser-agent: *\nDisallow: /\n"
    site.otherwise = ok
    house.write(defs(site.url("/a"), site.url("/b"), host="concurrency: 8"))
    house.crawl()
    assert site.paths == ["/b"]
    assert all(visit.asked.headers["user-agent"].startswith("crawl-console/") for visit in site.visits)


def test_robots_off_for_a_host_or_for_all(house: House, site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nDisallow: /\n"
    site.otherwise = ok
    house.write(defs(site.url("/a")))
    house.crawl()
    house.write(defs(site.url("/a"), host="concurrency: 8"))
    house.crawl("--set", "robots=false")
    assert site.paths == ["/a", "/a"]
    assert site.times("/robots.txt") == 0


def test_robots_txt_behind_5xx_closes_the_host(house: House, site: Site) -> None:
    site["/robots.txt"] = Page("broken", 500)
    site.otherwise = ok
    house.write(defs(site.url("/a"), host="concurrency: 8"))
    done = house.crawl("--set", "max_attempts=1")
    assert site.paths == []
    assert done.jobs == {"skipped": 1}
    job = house.job(site.url("/a"))
    assert job["state"] == "SKIPPED"
    assert "robots.txt answered 500" in job["reason"]


def test_a_5xx_of_robots_txt_that_passes_is_retried(house: House, site: Site) -> None:
    site["/robots.txt"] = lambda asked: Page("x", 502) if asked.attempt == 1 else Page("User-agent: *\nDisallow: /b\n")
    site.otherwise = ok
    house.write(defs(site.url("/a"), site.url("/b"), host="concurrency: 8"))
    house.crawl()
    assert site.times("/robots.txt") == 2
    assert site.paths == ["/a"]


def test_an_unreachable_host_fails_by_its_page_not_its_robots_txt(house: House) -> None:
    url = "http://127.0.0.1:1/page"
    house.write(defs(url, host="concurrency: 8"))
    done = house.crawl("--set", "max_attempts=2", code=1)
    assert done.jobs == {"failed": 1}
    job = house.job(url)
    assert job["attempts"] == 2
    assert "connection refused" in job["reason"]


def test_robots_txt_moved_to_another_host_is_followed(house: House, site: Site, second_site: Site) -> None:
    site["/robots.txt"] = moved(second_site.url("/rules"))
    second_site["/rules"] = Page("User-agent: *\nDisallow: /b\n", headers={"Content-Type": "text/plain"})
    site.otherwise = ok
    house.write(defs(site.url("/a"), site.url("/b"), host="concurrency: 8"))
    house.crawl()
    assert site.paths == ["/a"]


def test_crawl_delay_of_robots_txt_is_kept(house: House, site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nCrawl-delay: 0.3\n"
    site.otherwise = ok
    house.write(defs(*(site.url(f"/{n}") for n in range(6)), host="concurrency: 8"))
    house.crawl()
    times = site.begun()
    assert len(times) == 6
    assert min(b - a for a, b in pairwise(times)) >= least(0.3)


@pytest.mark.parametrize("delay", [0.05, 0.3])
def test_delay_is_held_by_all_nodes_together_and_no_slower(house: House, site: Site, delay: float) -> None:
    count = 40 if delay < 0.1 else 10
    site.otherwise = ok
    house.write(defs(*(site.url(f"/{n}") for n in range(count)), host=f"robots: false, delay: {delay}"))
    done = house.crawl()
    assert done.jobs == {"done": count}
    times = site.begun()
    gaps = [b - a for a, b in pairwise(times)]
    assert min(gaps) >= least(delay), sorted(gaps)[:5]
    assert (times[-1] - times[0]) / (count - 1) <= delay * 1.25 * slowness()


def test_delay_counts_redirects_and_robots_too(house: House, site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nDisallow:\n"
    site.otherwise = ok
    for number in range(4):
        site[f"/{number}"] = moved(f"/to/{number}")
    house.write(defs(*(site.url(f"/{n}") for n in range(4)), host="delay: 0.25"))
    done = house.crawl()
    assert done.jobs == {"done": 4}
    times = sorted(visit.begun for visit in site.visits)
    assert len(times) == 9
    assert min(b - a for a, b in pairwise(times)) >= least(0.25)


def test_delay_is_kept_over_a_resume(house: House, site: Site) -> None:
    site.otherwise = ok
    house.write(defs(*(site.url(f"/{n}") for n in range(8)), host="robots: false, delay: 0.8"))
    running = house.start()
    assert until(lambda: len(site.paths) == 3)
    running.process.kill()
    running.wait()
    house.crawl()
    times = site.begun()
    assert min(b - a for a, b in pairwise(times)) >= least(0.8)
    assert len(times) <= 9, "at most the page in flight is fetched again"


@pytest.mark.parametrize("cap", [1, 3])
def test_cap_of_a_host_is_held_by_all_nodes_together_and_used(house: House, site: Site, cap: int) -> None:
    site.otherwise = lambda asked: Page(html("x"), delay=0.05)
    count = 12 * cap
    house.write(defs(*(site.url(f"/{n}") for n in range(count)), host=f"robots: false, concurrency: {cap}"))
    began = time.monotonic()
    house.crawl(nodes=3)
    assert site.most_at_once == cap
    took = max(v.ended or 0.0 for v in site.visits) - min(v.begun for v in site.visits)
    assert took <= 12 * 0.05 * 3, time.monotonic() - began


def test_cap_is_eight_where_nobody_says(house: House, site: Site) -> None:
    site["/robots.txt"] = Page("", 404)
    site.otherwise = lambda asked: Page(html("x"), delay=0.1)
    house.write(defs(*(site.url(f"/{n}") for n in range(40)), host="nofollow: true"))
    house.crawl()
    assert site.most_at_once == 8


def test_retry_after_of_a_429_holds_the_whole_host_back(house: House, site: Site) -> None:
    def limited(asked: Asked) -> Page:
        return Page("slow down", 429, {"Retry-After": "2"}) if asked.attempt == 1 else Page(html("x"))

    site.otherwise = lambda asked: Page(html("x"), delay=0.05)
    site["/3"] = limited
    house.write(defs(*(site.url(f"/{n}") for n in range(40)), host="robots: false, concurrency: 2"))
    done = house.crawl()
    assert done.jobs == {"done": 40}
    told = next(v for v in site.visits if v.path == "/3")
    assert told.ended is not None
    after = [v.begun - told.ended for v in site.visits if v.begun > told.ended]
    # what was sent before the answer could be committed cannot be held back; everything else is
    assert sum(gap < 1.9 for gap in after) <= 4, after
    assert min(gap for gap in after if gap > 0.5) >= 1.9
    assert min(gap for gap in after if gap > 0.5) <= 3.5
    assert site.times("/3") == 2


def test_another_host_goes_on_while_one_backs_off(house: House, site: Site, second_site: Site) -> None:
    site.otherwise = lambda asked: Page("slow down", 429, {"Retry-After": "3"}) if asked.attempt == 1 else ok(asked)
    second_site.otherwise = lambda asked: Page(html("x"), delay=0.02)
    urls = [site.url("/a"), *(second_site.url(f"/{n}") for n in range(30))]
    house.write(defs(*urls))
    house.crawl()
    assert max(second_site.begun()) < min(site.begun()) + 2
    assert site.begun()[1] - site.begun()[0] >= 2.9


def test_both_hosts_get_their_share(house: House, site: Site, second_site: Site) -> None:
    """A host with many pages does not make one with few wait for its end."""
    for one in (site, second_site):
        one.otherwise = lambda asked: Page(html("x"), delay=0.03)
    many, few = [site.url(f"/{n}") for n in range(200)], [second_site.url(f"/{n}") for n in range(10)]
    house.write(defs(*many, *few))
    house.crawl()
    assert max(second_site.begun()) < sorted(site.begun())[120]


def test_headers_and_cookies_of_a_host_are_sent_to_it_alone(house: House, site: Site, second_site: Site) -> None:
    site["/"] = html(f'<a href="{second_site.url("/x")}">x</a>')
    second_site.otherwise = ok
    key = f"127.0.0.1:{site.port}"
    text = defs(site.url("/")) + f'  "{key}": {{robots: false, headers: {{X-Key: "s3"}}, cookies: {{c: d}}}}\n'
    house.write(text.replace('hosts: {"127.0.0.1": {robots: false}}', 'hosts:\n  "127.0.0.1": {robots: false}'))
    house.crawl()
    [mine], [other] = site.visits, second_site.visits
    assert mine.asked.headers["x-key"] == "s3"
    assert mine.asked.headers["cookie"] == "c=d"
    assert "x-key" not in other.asked.headers
    assert "cookie" not in other.asked.headers


def test_library_with_delay_is_exact(house: House, site: Site) -> None:
    library = Library(site, shelves=2, books=4)
    house.write(library.defs(delay=0.1))
    house.crawl("--backups", "1")
    assert house.counted("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)
