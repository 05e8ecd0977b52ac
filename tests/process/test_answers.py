"""Outcome of a job by kind of response: retries, redirects, missing pages, duplicates, stored pages."""

import gzip
import zlib
from collections.abc import Callable
from itertools import product

import pytest
import zstandard

from .library import ok
from .project import Project
from .shared_crawl import Part, shared
from .site import Drop, Page, Request, Site, html, redirect
from .test_politeness import defs

pytestmark = pytest.mark.timeout(60)
LIMITS = ("--set", "max_attempts=3", "--set", "deadline=1.5", "--set", "max_redirects=4")


def failing(status: int, times: int = 99, **headers: str) -> Callable[[Request], Page]:
    def page(request: Request) -> Page:
        return Page("no", status, headers) if request.attempt <= times else Page(html("<b>at last</b>"))

    return page


@shared()
def test_a_temporary_error_is_retried(site: Site) -> Part:
    statuses = [500, 502, 504, 508, 408]
    for status in statuses:
        site[f"/{status}"] = failing(status, times=1)
    crawl = yield defs(*(site.url(f"/{status}") for status in statuses))
    assert crawl.jobs == {"done": 5}
    for status in statuses:
        assert crawl.job(site.url(f"/{status}"))["attempts"] == 2
        first, second = site.start_times(f"/{status}")
        assert 0.45 <= second - first <= 2.5


@shared(*LIMITS)
def test_retries_back_off_and_end(site: Site) -> Part:
    site["/a"] = failing(500)
    crawl = yield defs(site.url("/a"))
    assert crawl.jobs == {"failed": 1}
    job = crawl.job(site.url("/a"))
    assert job == {"state": "FAILED", "reason": "HTTP 500 (3 attempts)", "attempts": 3}
    times = site.start_times("/a")
    assert len(times) == 3
    assert times[2] - times[1] >= 0.95


def dropped(site: Site, drop: Drop, reason: str) -> Part:
    site["/once"] = lambda request: Page(html("x" * 999), drop=drop if request.attempt == 1 else "")
    site["/ever"] = Page(html("x" * 999), drop=drop)
    crawl = yield defs(site.url("/once"), site.url("/ever"))
    assert crawl.jobs == {"done": 1, "failed": 1}
    assert site.count("/once") == 2
    assert 3 <= site.count("/ever") <= 4, "a kept connection that ends costs no attempt"
    assert crawl.job(site.url("/ever"))["attempts"] == 3
    assert reason in crawl.job(site.url("/ever"))["reason"]
    assert [row["url"] for row in crawl.rows("page")] == [site.url("/once")]


@shared(*LIMITS)
def test_a_connection_dropped_before_the_answer_is_retried(site: Site) -> Part:
    yield from dropped(site, "unanswered", "connection")


@shared(*LIMITS)
def test_a_connection_dropped_in_the_answer_is_retried(site: Site) -> Part:
    yield from dropped(site, "halfway", "connection lost")


@shared(*LIMITS)
def test_a_page_slower_than_the_deadline_is_a_failure(site: Site) -> Part:
    site["/slow"] = Page(html("x"), delay=20)
    site["/fast"] = html("x")
    crawl = yield defs(site.url("/slow"), site.url("/fast"))
    assert crawl.jobs == {"done": 1, "failed": 1}
    assert "timeout" in crawl.job(site.url("/slow"))["reason"]


@shared()
def test_a_missing_page_is_skipped_on_a_link_and_failed_on_a_locator(site: Site) -> Part:
    site["/"] = html('<a href="/gone/404">x</a><a href="/gone/410">x</a>')
    for status in (404, 410):
        site[f"/gone/{status}"] = site[f"/lost/{status}"] = Page("no", status)
    crawl = yield defs(*(site.url(path) for path in ("/", "/lost/404", "/lost/410")))
    assert crawl.jobs == {"done": 1, "failed": 2, "skipped": 2}
    for status in ("404", "410"):
        gone, lost = crawl.job(site.url(f"/gone/{status}")), crawl.job(site.url(f"/lost/{status}"))
        assert (gone["state"], lost["state"]) == ("SKIPPED", "FAILED")
        assert status in gone["reason"]
        assert "gone" in gone["reason"]
        assert status in lost["reason"]
    assert [row["url"] for row in crawl.rows("page")] == [site.url("/")]


def test_a_success_without_a_page_gives_no_rows(project: Project, site: Site) -> None:
    site["/"] = html('<a href="/linked/204">x</a><a href="/linked/206">x</a>')
    for status in (204, 205, 206):
        # a response 204 has no body, so neither has ours: its rows would be empty
        content = Page("" if status == 204 else html("<b>x</b>"), status, {"Content-Range": "bytes 0-30/99"})
        site[f"/{status}"] = site[f"/linked/{status}"] = content
    asked = f'{{url: "{site.url("/asked")}", headers: {{Range: "bytes=0-30"}}}}'
    site["/asked"] = Page(html("<b>a part</b>"), 206, {"Content-Range": "bytes 0-30/99"})
    text = defs(*(site.url(path) for path in ("/", "/204", "/205", "/206")))
    text = text.replace("pages: {page:", "pages: {live: P1D, page:")
    project.write(text.replace("locators: [", f"locators: [{asked}, "))
    done = project.crawl(code=1)
    assert done.jobs == {"done": 2, "failed": 3, "skipped": 2}
    assert project.job(site.url("/204"))["reason"] == "HTTP 204 (no content)"
    assert project.job(site.url("/206"))["reason"] == "HTTP 206 (a part of the page, which was not asked for)"
    assert project.job(site.url("/linked/206"))["state"] == "SKIPPED"
    assert sorted(row["url"] for row in project.rows("page")) == [site.url("/"), site.url("/asked")]
    site.clear_log()
    project.crawl(code=1)
    assert "/206" in site.paths, "it is not reused as a live page"
    assert "/" not in site.paths


@shared()
def test_a_redirect_on_the_same_host_is_followed(site: Site) -> Part:
    statuses = [301, 302, 303, 307, 308]
    for status in statuses:
        site[f"/old/{status}"] = redirect(f"../new/{status}", status)
        site[f"/new/{status}"] = html("<b>x</b>")
    crawl = yield defs(*(site.url(f"/old/{status}") for status in statuses))
    assert crawl.jobs == {"done": 5}
    assert sorted(row["url"] for row in crawl.rows("page")) == [site.url(f"/new/{status}") for status in statuses]
    assert len(site.paths) == 10


@shared()
def test_a_redirect_to_another_host_is_followed_under_its_rules(site: Site, second_site: Site) -> Part:
    site["/robots.txt"] = second_site["/robots.txt"] = "User-agent: *\nDisallow: /no\n"
    site["/a"] = redirect(second_site.url("/yes"))
    site["/b"] = redirect(second_site.url("/no"))
    second_site.fallback = ok
    crawl = yield defs(site.url("/a"), site.url("/b"), host="concurrency: 4")
    assert crawl.jobs == {"done": 1, "skipped": 1}
    assert second_site.count("/robots.txt") == 1
    assert second_site.exchanges[0].path == "/robots.txt"
    assert second_site.paths == ["/yes"]
    assert [row["url"] for row in crawl.rows("page")] == [second_site.url("/yes")]


FORMS = """\
locatorGroups: {{pages: {{locators: [{locators}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{title: {{selector: h1}}}}}}}}
hosts: {{"127.0.0.1": {{private: true, robots: false, delay: 0.1}}}}
"""


@shared()
def test_a_303_is_a_get_without_a_body_also_where_it_waits_for_its_turn(site: Site, second_site: Site) -> Part:
    sites = list(product(("POST", "PUT", "DELETE"), (site, second_site)))
    locators = []
    for number, (method, target) in enumerate(sites):
        site[f"/form/{number}"] = redirect(target.url(f"/end/{number}"), 303)
        target[f"/end/{number}"] = html("<h1>x</h1>")
        locators.append(f'{{url: "{site.url(f"/form/{number}")}", method: {method}, form: {{pw: "%{{env.PW}}"}}}}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PW", "s3cret")
        crawl = yield FORMS.format(locators=", ".join(locators))
    assert crawl.jobs == {"done": len(sites)}
    for number, (method, target) in enumerate(sites):
        [first] = [exchange.request for exchange in site.exchanges if exchange.path == f"/form/{number}"]
        [last] = [exchange.request for exchange in target.exchanges if exchange.path == f"/end/{number}"]
        assert (first.method, last.method) == (method, "GET")
        assert b"s3cret" in first.body
        assert not last.body


@shared()
def test_redirects_in_a_circle_end(site: Site, second_site: Site) -> Part:
    site["/self"] = redirect("/self")
    site["/a"], site["/b"] = redirect("/b"), redirect("/a")
    site["/far"] = redirect(second_site.url("/near"))
    second_site["/near"] = redirect(site.url("/far"))
    crawl = yield defs(site.url("/self"), site.url("/a"), site.url("/far"))
    assert crawl.jobs == {"failed": 3}
    assert "redirect loop" in crawl.job(site.url("/self"))["reason"]
    assert "redirect loop" in crawl.job(site.url("/a"))["reason"]
    assert "redirect loop" in crawl.job(site.url("/far"))["reason"]
    assert len(site.paths) + len(second_site.paths) <= 20


@shared(*LIMITS)
def test_too_many_redirects_end(site: Site) -> Part:
    site.fallback = lambda request: (
        redirect(f"/{int(request.path[1:]) + 1}") if request.path[1:].isdigit() else Page("", 404)
    )
    crawl = yield defs(site.url("/0"))
    assert crawl.jobs == {"failed": 1}
    assert "more than 4 redirects" in crawl.job(site.url("/0"))["reason"]
    assert site.paths == ["/0", "/1", "/2", "/3", "/4"]


def cookie_wall(request: Request) -> Page:
    if "ok=1" in request.headers.get("cookie", ""):
        return Page(html("<b>inside</b>"))
    return Page(status=302, headers={"Location": "/wall", "Set-Cookie": "ok=1; Path=/wall"})


@shared(*LIMITS)
def test_a_cookie_wall_and_a_quick_refresh_lead_on(site: Site) -> Part:
    site["/wall"], site["/end"] = cookie_wall, html("end")
    site["/loop"] = Page(status=302, headers={"Location": "/loop", "Set-Cookie": "no=1; Path=/elsewhere"})
    refresh = '<meta http-equiv=refresh content="%s;url=/end">on the way'
    site["/quick"], site["/slow"] = html(refresh % 1), html(refresh % 60)
    site["/large"] = html(refresh % 0 + "<p>x</p>" * 20_000)
    crawl = yield defs(*(site.url(path) for path in ("/wall", "/loop", "/quick", "/slow", "/large")))
    assert crawl.jobs == {"done": 3, "failed": 1, "skipped": 1}, "two pages lead to one"
    assert crawl.job(site.url("/loop"))["reason"] == "redirect loop"
    assert (site.count("/wall"), site.count("/loop")) == (2, 1)
    ends = ["/end", "/slow", "/wall"]
    assert sorted(row["url"] for row in crawl.rows("page")) == [site.url(path) for path in ends]


@shared()
def test_a_refresh_header_leads_on_by_the_rules_for_redirects(site: Site) -> Part:
    targets = {"/now": "0; url=/end", "/soon": "3, /end?soon", "/late": "60; url=/end", "/own": "0"}
    targets |= {"/file": "0; url=file:///etc/passwd", "/guarded": "0; url=http://169.254.169.254/"}
    for path, refresh in targets.items():
        site[path] = Page(html("on the way"), headers={"Refresh": refresh})
    site["/end"] = site["/end?soon"] = html("end")
    crawl = yield defs(*map(site.url, targets))
    assert crawl.jobs == {"done": 4, "failed": 1, "skipped": 1}
    ends = ["/end", "/end?soon", "/late", "/own"]
    assert sorted(row["url"] for row in crawl.rows("page")) == [site.url(path) for path in ends]
    assert "not http or https: file:///etc/passwd" in crawl.job(site.url("/file"))["reason"]
    assert "address 169.254.169.254 is link-local" in crawl.job(site.url("/guarded"))["reason"]


@shared()
def test_a_redirect_to_an_invalid_url_fails(site: Site) -> Part:
    locations = ["ftp://h/x", "javascript:x", "http://[::bad", "", None]
    for number, location in enumerate(locations):
        site[f"/{number}"] = Page(status=302, headers={} if location is None else {"Location": location})
    crawl = yield defs(*(site.url(f"/{number}") for number in range(5)))
    assert crawl.jobs == {"failed": 5}
    for number in range(5):
        assert "redirect" in crawl.job(site.url(f"/{number}"))["reason"]


@shared()
def test_two_links_that_lead_to_one_page_fetch_it_once(site: Site) -> Part:
    site["/"] = html('<a href="/x">1</a><a href="/y">2</a><a href="/z">3</a>')
    site["/x"], site["/y"] = redirect("/z"), redirect("/z")
    site["/z"] = Page(html("<b>z</b>"), delay=0.2)
    crawl = yield defs(site.url("/"))
    assert site.count("/z") == 1
    assert crawl.jobs == {"done": 2, "skipped": 2}


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


@shared()
def test_the_same_page_in_two_groups_is_fetched_once(site: Site) -> Part:
    site["/p"] = Page(html("<b>x</b>"), delay=0.3)
    crawl = yield TWO_GROUPS.format(url=site.url("/p"))
    assert site.count("/p") == 1
    assert crawl.jobs == {"done": 3}
    assert crawl.rows("first") == [{"b": "x"}] * 2
    assert sorted(row["from"].removeprefix(crawl.prefix) for row in crawl.rows("both")) == ["one/a", "one/b", "two/c"]


@shared()
def test_a_page_that_fails_for_good_is_requested_once(site: Site) -> Part:
    site["/p"] = Page("no", 418, delay=0.2)
    crawl = yield TWO_GROUPS.format(url=site.url("/p"))
    assert crawl.jobs == {"failed": 3}
    assert site.count("/p") == 1


@pytest.mark.sweep
def test_live_documents_are_reused_by_the_next_run(project: Project, site: Site) -> None:
    site["/"] = html('<a href="/x">1</a><a href="/moved">2</a><a href="/gone">2</a><b>0</b>')
    site["/x"] = html("<b>x</b>")
    site["/moved"], site["/to"] = redirect("/to"), html("<b>to</b>")
    text = defs(site.url("/"))
    project.write(text.replace("pages: {page:", "pages: {live: P1D, page:"))
    first = project.crawl()
    rows = project.count_rows("page")
    site.clear_log()
    second = project.crawl()
    assert second.summary["run"] != first.summary["run"]
    assert site.paths == ["/gone"], "an error response is not reused"
    assert project.count_rows("page") == rows
    assert second.jobs == first.jobs == {"done": 3, "skipped": 1}
    site.clear_log()
    project.write(text)
    project.crawl()
    assert sorted(site.paths) == ["/", "/gone", "/moved", "/to", "/x"], "without live, everything is fetched again"


@shared()
def test_fetched_pages_are_stored(site: Site) -> Part:
    body = html("<b>stored ☃</b>" * 100)
    site["/a"] = Page(body, headers={"X-Note": "kept"})
    crawl = yield defs(site.url("/a"))
    [(document, *stored)] = crawl.project.query(
        f"SELECT id, url, status, size FROM documents WHERE url LIKE '{site.url('/%')}'"
    )
    assert stored == [site.url("/a"), 200, len(body.encode())]
    [(headers, packed)] = crawl.project.query(f"SELECT headers, body FROM pages WHERE id = {document}", "pages.db")
    assert zstandard.ZstdDecompressor().decompress(packed) == body.encode()
    assert '"kept"' in headers
    assert len(packed) < len(body) / 5


@shared()
def test_compressed_responses_are_decoded(site: Site) -> Part:
    body = html("<b>packed</b>").encode()
    site["/gzip"] = Page(gzip.compress(body), headers={"Content-Encoding": "gzip"})
    site["/deflate"] = Page(zlib.compress(body), headers={"Content-Encoding": "deflate"})
    site["/wrong"] = Page(body, headers={"Content-Encoding": "gzip"})
    site["/odd"] = Page(body, headers={"Content-Encoding": "secret"})
    bomb = gzip.compress(bytes(60_000_000))
    site["/bomb"] = Page(bomb, headers={"Content-Encoding": "gzip"})
    urls = [site.url(path) for path in ("/gzip", "/deflate", "/wrong", "/odd", "/bomb")]
    crawl = yield defs(*urls).replace("{url: {", "{b: {selector: b}, url: {")
    assert crawl.jobs == {"done": 3, "failed": 2}
    assert [row["b"] for row in crawl.rows("page")] == ["packed"] * 3, "an unknown encoding is ignored"
    assert "bad encoding gzip" in crawl.job(site.url("/wrong"))["reason"]
    assert "over 10000000 bytes" in crawl.job(site.url("/bomb"))["reason"]


@shared()
def test_cookies_of_a_site_come_back_to_it(site: Site) -> Part:
    site["/"] = Page(html('<a href="/x">1</a>'), headers={"Set-Cookie": "seen=1; Path=/"})
    site["/x"] = html("x")
    yield defs(site.url("/"))
    assert site.exchanges[-1].request.headers.get("cookie") == "seen=1"
