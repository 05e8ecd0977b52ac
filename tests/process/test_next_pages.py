"""`next` in real crawls: chains by cursor that end where they should; and canonical URLs."""

import json
import os
import signal
import urllib.parse
from collections import Counter
from collections.abc import Callable

import pytest

from .project import Project, Running, until
from .shared_crawl import Crawled, Part, shared
from .site import Page, Request, Site, redirect

pytestmark = pytest.mark.timeout(120)

API = """\
locatorGroups: {{items: {{locators: [{locator}]}}}}
baseUrl: {base}
taskGroups:
  items: {{maxDepth: 1, list: {{dataDef: item}}}}
dataDefs:
  item:
    query: {{block: "jmespath: items"}}
    fields: {{id: {{selector: "jmespath: id"}}}}
    next: {next}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""
CURSOR = '{url: "/api?cursor=%{cursor}", cursor: "jmespath: next", until: empty}'


def answer(items: list[str], cursor: object) -> Page:
    body = json.dumps({"items": [{"id": id_} for id_ in items], "next": cursor})
    return Page(body, headers={"Content-Type": "application/json"})


def chain(site: Site, cursors: list[object]) -> None:
    """Pages whose cursors lead from one to the next: the first page has the first."""
    keys = ["", *(str(cursor) for cursor in cursors[:-1])]
    pages = {key: answer([f"{number}a", f"{number}b"], cursors[number]) for number, key in enumerate(keys)}

    def serve(request: Request) -> Page:
        query = urllib.parse.parse_qs(request.path.partition("?")[2])
        return pages.get(query.get("cursor", [""])[0], Page(status=404))

    site.fallback = serve


def ids(crawl: Project | Crawled) -> list[str]:
    return sorted(row["id"] for row in crawl.rows("item"))


def expected(pages: int) -> list[str]:
    return sorted(f"{number}{letter}" for number in range(pages) for letter in "ab")


def text_of(site: Site, next_page: str = CURSOR, locator: str = "{url: /api}") -> str:
    return API.format(base=site.url(), next=next_page, locator=locator)


def write(project: Project, site: Site, next_page: str = CURSOR) -> None:
    project.write(text_of(site, next_page))


def ending(site: Site, last: object) -> Part:
    chain(site, ["c/1 &?=#", 2, "three", last])
    crawl = yield text_of(site)
    assert ids(crawl) == expected(4)
    assert site.paths == ["/api", "/api?cursor=c%2F1%20%26%3F%3D%23", "/api?cursor=2", "/api?cursor=three"]
    assert {job["depth"] for job in crawl.all_jobs()} == {0}


@shared()
def test_a_chain_ends_at_a_null_cursor(site: Site) -> Part:
    yield from ending(site, None)


@shared()
def test_a_chain_ends_at_an_empty_cursor(site: Site) -> Part:
    yield from ending(site, "")


@shared()
def test_a_chain_ends_at_a_false_cursor(site: Site) -> Part:
    yield from ending(site, False)


@shared()
def test_a_chain_ends_at_an_empty_list(site: Site) -> Part:
    yield from ending(site, [])


def repeating(site: Site, last: str) -> Part:
    chain(site, ["a", "b", "c", last])
    crawl = yield text_of(site)
    assert ids(crawl) == expected(4)
    assert len(site.paths) == 4


@shared()
def test_a_cursor_of_two_pages_before_ends_it(site: Site) -> Part:
    yield from repeating(site, "b")


@shared()
def test_a_cursor_of_the_second_page_ends_it(site: Site) -> Part:
    yield from repeating(site, "a")


@shared()
def test_a_cursor_of_the_same_page_ends_it(site: Site) -> Part:
    yield from repeating(site, "c")


@pytest.mark.sweep
def test_a_chain_that_returns_to_its_start_ends_there(project: Project, site: Site) -> None:
    site.fallback = lambda request: answer([request.path], {"/api": "/p2", "/p2": "/p3", "/p3": "/api"}[request.path])
    write(project, site, '{url: "%{to}", to: "jmespath: next"}')
    project.crawl()
    assert sorted(ids(project)) == ["/api", "/p2", "/p3"]
    assert site.paths == ["/api", "/p2", "/p3"]


@pytest.mark.quick
def test_an_empty_page_and_one_that_does_not_exist_end_it(project: Project, site: Site) -> None:
    site["/api"] = answer(["0a"], "x")
    site["/api?cursor=x"] = answer([], "y")
    write(project, site)
    project.crawl()
    assert site.paths == ["/api", "/api?cursor=x", "/api?cursor=x"]
    site["/api?cursor=x"] = answer(["1a"], "gone")
    site.clear_log()
    project.crawl()
    assert site.paths == ["/api", "/api?cursor=x", "/api?cursor=gone"]
    assert ids(project) == ["0a", "1a"]


OFFSET = "{offset: 20}"


def by_offset(total: int, after: Page | None = None) -> Callable[[Request], Page]:
    """20 items from `offset` on; `after`: what is given beyond the last one, by default a page without any."""

    def serve(request: Request) -> Page:
        start = int(urllib.parse.parse_qs(request.path.partition("?")[2]).get("offset", ["0"])[0])
        items = [str(number) for number in range(start, min(start + 20, total))]
        return answer(items, None) if items or after is None else after

    return serve


def added_paths(*offsets: int) -> list[str]:
    return ["/api", *(f"/api?offset={offset}" for offset in offsets)]


@pytest.mark.quick
@shared()
def test_a_number_is_added_until_a_page_is_empty(site: Site) -> Part:
    site.fallback = by_offset(75)
    crawl = yield text_of(site, OFFSET)
    assert ids(crawl) == sorted(map(str, range(75)))
    assert site.paths == added_paths(20, 40, 60, 80, 80)
    assert {job["depth"] for job in crawl.all_jobs()} == {0}


@shared()
def test_a_number_is_added_until_a_page_does_not_exist(site: Site) -> Part:
    site.fallback = by_offset(75, Page(status=404))
    crawl = yield text_of(site, OFFSET, "{url: '/api?offset=0'}")
    assert ids(crawl) == sorted(map(str, range(75)))
    assert crawl.jobs == {"done": 4, "skipped": 1}


@shared()
def test_a_number_is_added_until_a_page_repeats_the_one_before(site: Site) -> Part:
    site.fallback = by_offset(45, answer([str(number) for number in range(40, 45)], None))
    crawl = yield text_of(site, OFFSET)
    assert ids(crawl) == sorted(map(str, range(45)))
    assert site.paths == added_paths(20, 40, 60)


@shared()
def test_a_site_that_ignores_the_number_is_asked_twice(site: Site) -> Part:
    site.fallback = lambda _: answer(["a", "b"], None)
    crawl = yield text_of(site, OFFSET)
    assert (ids(crawl), site.paths) == (["a", "b"], added_paths(20))


def kill_after(pages: int, project: Project, site: Site, running: Running) -> None:
    assert until(lambda: len(set(site.paths)) >= pages or running.exited), running.err
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    project.assert_no_process_left()


@pytest.mark.sweep
def test_a_number_is_added_over_kills(project: Project, site: Site) -> None:
    pages = by_offset(400)
    site.fallback = lambda request: Page(pages(request).body, delay=0.02, headers={"Content-Type": "application/json"})
    write(project, site, OFFSET)
    for after in (3, 9, 15):
        running = project.start(nodes=2)
        kill_after(after, project, site, running)
    project.crawl()
    assert ids(project) == sorted(map(str, range(400)))
    assert set(site.paths) == set(added_paths(*range(20, 401, 20)))


@shared()
def test_a_site_that_repeats_its_last_page_under_new_cursors(site: Site) -> Part:
    def serve(request: Request) -> Page:
        number = int(request.path.partition("=")[2] or 0)
        return answer([f"{min(number, 3)}{letter}" for letter in "ab"], number + 1)

    site.fallback = serve
    crawl = yield text_of(site)
    assert ids(crawl) == expected(4)
    assert site.paths[-1] == "/api?cursor=4"


@shared()
def test_the_locators_headers_and_cookies_go_along_at_its_origin(site: Site) -> Part:
    chain(site, ["a", "b", None])
    locator = '{url: /api, headers: {X-Token: "%{env.TOKEN}"}, cookies: {shop: "1"}}'
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKEN", "t0ken-secret")
        crawl = yield text_of(site, locator=locator)
    sent = [(e.request.headers.get("x-token"), e.request.headers.get("cookie")) for e in site.exchanges]
    assert sent == [("t0ken-secret", "shop=1")] * 3
    for path in crawl.project.data.rglob("*"):
        assert not path.is_file() or b"t0ken-secret" not in path.read_bytes(), path


@shared()
def test_another_host_is_not_asked(site: Site) -> Part:
    site["/api"] = answer(["0a"], "http://localhost:1/steal")
    crawl = yield text_of(site, '{url: "%{to}", to: "jmespath: next"}')
    assert site.paths == ["/api"]
    assert len(crawl.all_jobs()) == 1


@shared()
def test_a_query_in_json_is_sent_with_its_cursor(site: Site) -> Part:
    cursors = {None: ("c1", ["a"]), "c1": (7, ["b"]), 7: (None, ["c"])}

    def graphql(request: Request) -> Page:
        sent = json.loads(request.body)
        assert sent["query"] == "query($after: String) { items(after: $after) { id } }"
        cursor, items = cursors[sent.get("variables", {}).get("after")]
        return answer(items, cursor)

    site["/graphql"] = graphql
    query = 'query: "query($after: String) { items(after: $after) { id } }"'
    crawl = yield text_of(
        site, f'{{json: {{{query}, variables: {{after: "%{{after}}"}}}}, after: "jmespath: next"}}',
        f"{{url: /graphql, json: {{{query}}}}}",
    )  # fmt: skip
    assert ids(crawl) == ["a", "b", "c"]
    assert len(site.paths) == 3


def wait_for_pages(site: Site, running: Running, count: int) -> None:
    assert until(lambda: len(set(site.paths)) >= count or running.exited), running.err


@pytest.mark.sweep
@pytest.mark.parametrize("kills", [(11,), pytest.param((4, 11, 20), marks=pytest.mark.sweep)])
def test_a_chain_survives_kills_and_an_edit(project: Project, site: Site, kills: tuple[int, ...]) -> None:
    cursors: list[object] = [*(f"c{number}" for number in range(1, 30)), None]
    chain(site, cursors)
    serve = site.fallback
    assert serve is not None
    site.fallback = lambda request: Page(serve(request).content, headers=serve(request).headers, delay=0.02)
    write(project, site)
    for after in kills:
        running = project.start(nodes=2)
        wait_for_pages(site, running, after)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        project.assert_no_process_left()
    project.crawl()
    assert ids(project) == expected(30)
    site.clear_log()
    write(project, site, CURSOR.replace(", until: empty", ""))
    assert project.run_with_data("extract", "--defs", str(project.defs), seconds=60).code == 0
    assert ids(project) == expected(30)
    assert site.paths == []


CANONICAL = """\
locatorGroups: {{list: {{locators: [{{urls: [{urls}]}}]}}}}
baseUrl: {base}
taskGroups: {{list: {{{key}page: {{dataDef: item}}}}}}
dataDefs: {{item: {{fields: {{h: {{selector: h1}}, url: {{value: "%{{document.url}}", match: "/[^/]*$"}}}}, links: [{{selector: a}}]}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""  # noqa: E501


def page(name: str, canonical: str | None, links: str = "") -> Page:
    head = f'<link rel="canonical" href="{canonical}">' if canonical else ""
    return Page(f"<!doctype html><head>{head}</head><body><h1>{name}</h1>{links}")


@shared()
def test_a_page_is_skipped_in_favour_of_its_canonical_url(site: Site) -> Part:
    site["/a?x=1"] = page("a", "/a#top", '<a href="/lost">l</a>')
    site["/a?x=2"] = page("a", "/a")
    site["/a"] = page("a", site.url("/a"), '<a href="/b">b</a>')
    site["/b"] = page("b", None)
    site["/c"] = page("c", "http://other.example/c")
    site["/d"] = page("d", "/e")
    site["/e"] = page("e", "/d")
    urls = '"/a?x=1", "/a?x=2", /c, /d'
    crawl = yield CANONICAL.format(base=site.url(), urls=urls, key="canonical: true, ")
    assert Counter(row["url"] for row in crawl.rows("item")) == Counter(["/a", "/b", "/c", "/e"])
    skipped = sorted((job["url"], job["reason"]) for job in crawl.all_jobs() if job["state"] == "SKIPPED")
    assert [reason for _, reason in skipped] == [
        f"its canonical URL is {site.url('/a')}", f"its canonical URL is {site.url('/a')}",
        f"its canonical URL is {site.url('/e')}",
    ]  # fmt: skip
    assert "/lost" not in site.paths


@pytest.mark.sweep
def test_the_key_added_later_takes_the_rows_of_other_pages(project: Project, site: Site) -> None:
    site["/a?x=1"] = page("a", "/a")
    site["/a"] = page("a", "/a")
    site["/old"] = redirect("/a?x=1")
    text = CANONICAL.format(base=site.url(), urls='"/a?x=1", /a', key="{key}")
    project.write(text.replace("{key}", ""))
    project.crawl()
    assert len(project.rows("item")) == 2
    project.write(text.replace("{key}", "canonical: true, "))
    assert project.run_with_data("extract", "--defs", str(project.defs), seconds=60).code == 0
    assert [row["url"] for row in project.rows("item")] == ["/a"]
