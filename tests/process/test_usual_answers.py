"""A crawl of usual answers: statuses, redirects, encodings, cookies, credentials, robots.txt."""

import json

import pytest

from .shared_crawl import Crawled, Part, shared
from .usual_answers import serve_usual_answers

pytestmark = pytest.mark.timeout(60)
LIMITS = ("--set", "max_attempts=2", "--set", "max_redirects=5", "--set", "deadline=4")

DEFS = """\
locatorGroups:
  pages: {{locators: [{locators}]}}
taskGroups:
  pages: {{page: {{dataDef: page}}}}
dataDefs:
  page:
    fields:
      url: {{value: "%{{document.url}}"}}
      heading: {{selector: h1}}
      sample: {{selector: pre}}
      slide: {{selector: "jmespath: slideshow.title"}}
      echoed: {{selector: "jmespath: headers", type: json}}
      user: {{selector: "jmespath: user"}}
      cookie: {{selector: "jmespath: cookies.flavour"}}
      gzipped: {{selector: "jmespath: gzipped || deflated || brotli", type: bool}}
    links: [{{selector: a}}]
hosts: {{"127.0.0.1": {{concurrency: 8, robots: {robots}, headers: {{X-Canary: "7"}}}}}}
"""


def defs(base: str, *paths: str, robots: str = "false") -> str:
    locators = ", ".join(f'{{url: "{base}{path}"}}' for path in paths)
    return DEFS.format(locators=locators, robots=robots)


def rows_by_path(crawl: Crawled, base: str) -> dict[str, dict[str, str]]:
    return {row["url"].removeprefix(base): row for row in crawl.rows("page")}


@shared(*LIMITS)
def test_bodies_in_every_encoding_are_read() -> Part:
    with serve_usual_answers() as base:
        crawl = yield defs(base, "/html", "/json", "/gzip", "/deflate", "/brotli", "/xml", "/encoding/utf8")
    rows = rows_by_path(crawl, base)
    assert rows["/html"]["heading"] == "Herman Melville - Moby-Dick"
    assert rows["/json"]["slide"] == "Sample Slide Show"
    assert [rows[path]["gzipped"] for path in ("/gzip", "/deflate", "/brotli")] == ["true"] * 3
    assert "∮ E⋅da = Q" in rows["/encoding/utf8"]["sample"]


@shared(*LIMITS)
def test_redirects_of_each_kind_end_at_their_target() -> Part:
    with serve_usual_answers() as base:
        paths = ("/relative-redirect/3", "/absolute-redirect/2", "/redirect-to?url=/html&status_code=307")
        crawl = yield defs(base, *paths)
    assert sorted(row["url"].removeprefix(base) for row in crawl.rows("page")) == ["/get", "/html"]


@shared(*LIMITS)
def test_too_many_redirects_fail_with_the_reason() -> Part:
    with serve_usual_answers() as base:
        crawl = yield defs(base, "/relative-redirect/15")
    job = crawl.job(f"{base}/relative-redirect/15")
    assert job["state"] == "FAILED"
    assert "redirects" in job["reason"]


@shared(*LIMITS)
def test_error_statuses_fail_and_only_passing_ones_are_retried() -> Part:
    attempts = {400: 1, 401: 2, 403: 2, 404: 1, 410: 1, 418: 1, 500: 2}
    with serve_usual_answers() as base:
        crawl = yield defs(base, *(f"/status/{status}" for status in attempts))
    for status in attempts:
        job = crawl.job(f"{base}/status/{status}")
        assert job["state"] == "FAILED"
        assert f"HTTP {status}" in job["reason"]
        assert job["attempts"] == attempts[status]


def failing_twice(status: int) -> Part:
    with serve_usual_answers() as base:
        crawl = yield defs(base, f"/status/{status}")
    job = crawl.job(f"{base}/status/{status}")
    assert (job["state"], job["attempts"]) == ("FAILED", 2)
    assert f"HTTP {status}" in job["reason"]


@shared(*LIMITS)
def test_too_many_requests_are_retried() -> Part:
    yield from failing_twice(429)


@shared(*LIMITS)
def test_an_unavailable_service_is_retried() -> Part:
    yield from failing_twice(503)


@shared(*LIMITS)
def test_host_headers_basic_credentials_and_cookies_arrive() -> Part:
    with serve_usual_answers() as base:
        plain = base.removeprefix("http://")
        crawl = yield DEFS.format(
            locators=f'{{url: "{base}/headers"}}, {{url: "http://ada:pw@{plain}/basic-auth/ada/pw"}},'
            f' {{url: "{base}/cookies", cookies: {{flavour: vanilla}}}}',
            robots="false",
        )
    rows = rows_by_path(crawl, base)
    assert json.loads(rows["/headers"]["echoed"])["X-Canary"] == "7"
    assert rows["/basic-auth/ada/pw"]["user"] == "ada"
    assert rows["/cookies"]["cookie"] == "vanilla"


@shared(*LIMITS)
def test_a_page_of_links_is_followed_to_its_end() -> Part:
    with serve_usual_answers() as base:
        crawl = yield defs(base, "/links/12/0")
    assert len(rows_by_path(crawl, base)) == 12


@shared(*LIMITS)
def test_its_robots_txt_is_obeyed() -> Part:
    with serve_usual_answers() as base:
        crawl = yield defs(base, "/html", "/deny", robots="true")
    assert list(rows_by_path(crawl, base)) == ["/html"]
    job = crawl.job(f"{base}/deny")
    assert job["state"] == "SKIPPED"
    assert "robots.txt" in job["reason"]


@shared(*LIMITS)
def test_a_drip_is_cut_at_the_deadline() -> Part:
    with serve_usual_answers() as base:
        crawl = yield defs(base, "/drip?duration=30&numbytes=30&code=200", "/html")
    assert crawl.jobs == {"done": 1, "failed": 1}
    assert "timeout" in crawl.job(f"{base}/drip?duration=30&numbytes=30&code=200")["reason"]


@shared(*LIMITS)
def test_what_is_no_page_fails_as_a_locator() -> Part:
    with serve_usual_answers() as base:
        crawl = yield defs(base, "/image/png", "/html")
    assert crawl.jobs == {"done": 1, "failed": 1}
    assert "not a page: image/png" in crawl.job(f"{base}/image/png")["reason"]
