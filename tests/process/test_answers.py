"""What becomes of a job for every kind of answer: retries, redirects, nothing there, a page twice, stored pages."""

import gzip
import zlib
from collections.abc import Callable

import pytest
import zstandard

from .house import House
from .library import ok
from .site import Asked, Page, Site, html, moved
from .test_politeness import defs

pytestmark = pytest.mark.timeout(60)


def failing(status: int, times: int = 99, **headers: str) -> Callable[[Asked], Page]:
    def page(asked: Asked) -> Page:
        return Page("no", status, headers) if asked.attempt <= times else Page(html("<b>at last</b>"))

    return page


def test_a_passing_error_is_tried_again(house: House, site: Site) -> None:
    statuses = [500, 502, 504, 508, 408]
    for status in statuses:
        site[f"/{status}"] = failing(status, times=1)
    house.write(defs(*(site.url(f"/{status}") for status in statuses)))
    done = house.crawl()
    assert done.jobs == {"done": 5}
    for status in statuses:
        assert house.job(site.url(f"/{status}"))["attempts"] == 2
        first, second = site.begun(f"/{status}")
        assert 0.45 <= second - first <= 2.5


def test_retries_wait_longer_each_time_and_end(house: House, site: Site) -> None:
    site["/a"] = failing(500)
    house.write(defs(site.url("/a")))
    done = house.crawl("--set", "max_attempts=3", code=1)
    assert done.jobs == {"failed": 1}
    job = house.job(site.url("/a"))
    assert job == {"state": "FAILED", "reason": "HTTP 500 (3 attempts)", "attempts": 3}
    times = site.begun("/a")
    assert len(times) == 3
    assert times[2] - times[1] >= 0.95


@pytest.mark.parametrize(("drop", "reason"), [("unanswered", "connection"), ("halfway", "connection lost")])
def test_a_dropped_connection_is_tried_again(house: House, site: Site, drop: str, reason: str) -> None:
    site["/once"] = lambda a: Page(html("x" * 999), drop=drop if a.attempt == 1 else "")  # type: ignore[arg-type]
    site["/ever"] = Page(html("x" * 999), drop=drop)  # type: ignore[arg-type]
    house.write(defs(site.url("/once"), site.url("/ever")))
    done = house.crawl("--set", "max_attempts=2", code=1)
    assert done.jobs == {"done": 1, "failed": 1}
    assert site.times("/once") == 2
    assert site.times("/ever") == 2
    assert reason in house.job(site.url("/ever"))["reason"]
    assert [row["url"] for row in house.rows("page")] == [site.url("/once")]


def test_a_page_slower_than_the_deadline_is_a_failure(house: House, site: Site) -> None:
    site["/slow"] = Page(html("x"), delay=20)
    site["/fast"] = html("x")
    house.write(defs(site.url("/slow"), site.url("/fast")))
    done = house.crawl("--set", "deadline=0.5", "--set", "max_attempts=2", code=1)
    assert done.jobs == {"done": 1, "failed": 1}
    assert "timeout" in house.job(site.url("/slow"))["reason"]


def test_nothing_there_is_skipped_on_a_link_and_failed_on_a_locator(house: House, site: Site) -> None:
    site["/"] = html('<a href="/gone/404">x</a><a href="/gone/410">x</a>')
    for status in (404, 410):
        site[f"/gone/{status}"] = site[f"/lost/{status}"] = Page("no", status)
    house.write(defs(*(site.url(path) for path in ("/", "/lost/404", "/lost/410"))))
    done = house.crawl(code=1)
    assert done.jobs == {"done": 1, "failed": 2, "skipped": 2}
    for status in ("404", "410"):
        gone, lost = house.job(site.url(f"/gone/{status}")), house.job(site.url(f"/lost/{status}"))
        assert (gone["state"], lost["state"]) == ("SKIPPED", "FAILED")
        assert status in gone["reason"]
        assert "gone" in gone["reason"]
        assert status in lost["reason"]
    assert [row["url"] for row in house.rows("page")] == [site.url("/")]


def test_a_redirect_on_the_same_host_is_followed(house: House, site: Site) -> None:
    statuses = [301, 302, 303, 307, 308]
    for status in statuses:
        site[f"/old/{status}"] = moved(f"../new/{status}", status)
        site[f"/new/{status}"] = html("<b>x</b>")
    house.write(defs(*(site.url(f"/old/{status}") for status in statuses)))
    assert house.crawl().jobs == {"done": 5}
    assert sorted(row["url"] for row in house.rows("page")) == [site.url(f"/new/{status}") for status in statuses]
    assert len(site.paths) == 10


def test_a_redirect_to_another_host_is_followed_under_its_rules(house: House, site: Site, second_site: Site) -> None:
    site["/robots.txt"] = second_site["/robots.txt"] = "User-agent: *\nDisallow: /no\n"
    site["/a"] = moved(second_site.url("/yes"))
    site["/b"] = moved(second_site.url("/no"))
    second_site.otherwise = ok
    house.write(defs(site.url("/a"), site.url("/b"), host="concurrency: 4"))
    done = house.crawl()
    assert done.jobs == {"done": 1, "skipped": 1}
    assert second_site.times("/robots.txt") == 1
    assert second_site.visits[0].path == "/robots.txt"
    assert second_site.paths == ["/yes"]
    assert [row["url"] for row in house.rows("page")] == [second_site.url("/yes")]


def test_redirects_in_a_circle_end(house: House, site: Site, second_site: Site) -> None:
    site["/self"] = moved("/self")
    site["/a"], site["/b"] = moved("/b"), moved("/a")
    site["/far"] = moved(second_site.url("/near"))
    second_site["/near"] = moved(site.url("/far"))
    house.write(defs(site.url("/self"), site.url("/a"), site.url("/far")))
    done = house.crawl(code=1)
    assert done.jobs == {"failed": 3}
    assert "redirect loop" in house.job(site.url("/self"))["reason"]
    assert "redirect loop" in house.job(site.url("/a"))["reason"]
    assert "redirect loop" in house.job(site.url("/far"))["reason"]
    assert len(site.paths) + len(second_site.paths) <= 20


def test_too_many_redirects_end(house: House, site: Site) -> None:
    site.otherwise = lambda asked: moved(f"/{int(asked.path[1:]) + 1}") if asked.path[1:].isdigit() else Page("", 404)
    house.write(defs(site.url("/0")))
    done = house.crawl("--set", "max_redirects=4", code=1)
    assert done.jobs == {"failed": 1}
    assert "more than 4 redirects" in house.job(site.url("/0"))["reason"]
    assert site.paths == ["/0", "/1", "/2", "/3", "/4"]


def test_a_redirect_to_nowhere_is_a_failure(house: House, site: Site) -> None:
    nowhere = ["ftp://h/x", "javascript:x", "http://[::bad", "", None]
    for number, location in enumerate(nowhere):
        site[f"/{number}"] = Page(status=302, headers={} if location is None else {"Location": location})
    house.write(defs(*(site.url(f"/{number}") for number in range(5))))
    done = house.crawl(code=1)
    assert done.jobs == {"failed": 5}
    for number in range(5):
        assert "redirect" in house.job(site.url(f"/{number}"))["reason"]


def test_two_links_that_lead_to_one_page_fetch_it_once(house: House, site: Site) -> None:
    site["/"] = html('<a href="/x">1</a><a href="/y">2</a><a href="/z">3</a>')
    site["/x"], site["/y"] = moved("/z"), moved("/z")
    site["/z"] = Page(html("<b>z</b>"), delay=0.2)
    house.write(defs(site.url("/")))
    done = house.crawl()
    assert site.times("/z") == 1
    assert done.jobs == {"done": 4}


TWO_GROUPS = """\
locatorGroups:
  one: {{locators: [{{name: a, url: "{url}"}}, {{name: b, url: "{url}"}}]}}
  two: {{locators: [{{name: c, url: "{url}#part"}}]}}
taskGroups: {{one: {{t: {{dataDef: first}}, u: {{dataDef: both}}}}, two: {{t: {{dataDef: both}}}}}}
dataDefs:
  first: {{fields: {{b: {{selector: b}}}}}}
  both: {{fields: {{b: {{selector: b}}, from: {{value: "%{{locator.group}}/%{{locator.name}}"}}}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""


def test_the_same_page_in_two_groups_is_fetched_once(house: House, site: Site) -> None:
    site["/p"] = Page(html("<b>x</b>"), delay=0.3)
    house.write(TWO_GROUPS.format(url=site.url("/p")))
    done = house.crawl()
    assert site.times("/p") == 1
    assert done.jobs == {"done": 3}
    assert house.rows("first") == [{"b": "x"}] * 2
    assert sorted(row["from"] for row in house.rows("both")) == ["one/a", "one/b", "two/c"]


def test_a_refused_page_is_asked_for_once_too(house: House, site: Site) -> None:
    site["/p"] = Page("no", 403, delay=0.2)
    house.write(TWO_GROUPS.format(url=site.url("/p")))
    done = house.crawl(code=1)
    assert done.jobs == {"failed": 3}
    assert site.times("/p") == 1


def test_live_documents_serve_the_next_run(house: House, site: Site) -> None:
    site["/"] = html('<a href="/x">1</a><a href="/moved">2</a><a href="/gone">2</a><b>0</b>')
    site["/x"] = html("<b>x</b>")
    site["/moved"], site["/to"] = moved("/to"), html("<b>to</b>")
    text = defs(site.url("/"))
    house.write(text.replace("pages: {page:", "pages: {live: P1D, page:"))
    first = house.crawl()
    rows = house.counted("page")
    site.forget()
    second = house.crawl()
    assert second.summary["run"] != first.summary["run"]
    assert site.paths == ["/gone"], "an error is no document that lives"
    assert house.counted("page") == rows
    assert second.jobs == first.jobs == {"done": 3, "skipped": 1}
    site.forget()
    house.write(text)
    house.crawl()
    assert sorted(site.paths) == ["/", "/gone", "/moved", "/to", "/x"], "without live, everything is fetched anew"


def test_what_was_fetched_is_stored(house: House, site: Site) -> None:
    body = html("<b>stored ☃</b>" * 100)
    site["/a"] = Page(body, headers={"X-Note": "kept"})
    house.write(defs(site.url("/a")))
    house.crawl()
    assert house.query("SELECT url, status, size FROM documents") == [(site.url("/a"), 200, len(body.encode()))]
    [(headers, packed)] = house.query("SELECT headers, body FROM pages", "pages.db")
    assert zstandard.ZstdDecompressor().decompress(packed) == body.encode()
    assert '"kept"' in headers
    assert len(packed) < len(body) / 5


def test_packed_answers_are_unpacked(house: House, site: Site) -> None:
    body = html("<b>packed</b>").encode()
    site["/gzip"] = Page(gzip.compress(body), headers={"Content-Encoding": "gzip"})
    site["/deflate"] = Page(zlib.compress(body), headers={"Content-Encoding": "deflate"})
    site["/wrong"] = Page(body, headers={"Content-Encoding": "gzip"})
    site["/odd"] = Page(body, headers={"Content-Encoding": "secret"})
    bomb = gzip.compress(bytes(60_000_000))
    site["/bomb"] = Page(bomb, headers={"Content-Encoding": "gzip"})
    urls = [site.url(path) for path in ("/gzip", "/deflate", "/wrong", "/odd", "/bomb")]
    house.write(defs(*urls).replace("{url: {", "{b: {selector: b}, url: {"))
    done = house.crawl(code=1)
    assert done.jobs == {"done": 3, "failed": 2}
    assert [row["b"] for row in house.rows("page")] == ["packed"] * 3, "an encoding nobody knows is taken for none"
    assert "bad encoding gzip" in house.job(site.url("/wrong"))["reason"]
    assert "over 20000000 bytes" in house.job(site.url("/bomb"))["reason"]


def test_cookies_of_a_site_come_back_to_it(house: House, site: Site) -> None:
    site["/"] = Page(html('<a href="/x">1</a>'), headers={"Set-Cookie": "seen=1; Path=/"})
    site["/x"] = html("x")
    house.write(defs(site.url("/")))
    house.crawl(nodes=1)
    assert site.visits[-1].asked.headers.get("cookie") == "seen=1"
