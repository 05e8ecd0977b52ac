"""`until: empty`: pages fetched one after another, exactly up to the last, whatever ends them."""

import json
import os
import re
import signal
import threading
import urllib.parse
from collections.abc import Callable

import pytest

from .project import Project, Running, until
from .shared_crawl import Crawled, Part, shared
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
baseUrl: {base}
locatorGroups: {{list: {{locators: [{locator}]}}}}
taskGroups: {{list: {{maxDepth: 3, page: {{dataDef: item}}}}}}
dataDefs:
  item:
    query: {{block: {block}}}
    fields: {{id: {{attribute: id{required}}}, page: {{value: "%{{document.url}}"}}}}
    {more}
hosts: {{"127.0.0.1": {{robots: false, concurrency: 4{host}}}}}
"""
OPEN = '{url: "/list?page={1..}", until: empty}'


def text_of(
    site: Site, locator: str = OPEN, *, block: str = ".item", required: str = "", more: str = "", host: str = ""
) -> str:
    return DEFS.format(base=site.url(), locator=locator, block=block, required=required, more=more, host=host)


def write(project: Project, site: Site, locator: str = OPEN, **options: str) -> None:
    project.write(text_of(site, locator, **options))


def items(page: int, count: int = 3) -> str:
    return "".join(f'<p class="item" id="{page}-{number}">thing {page}-{number}</p>' for number in range(count))


def listing(last: int, make: Callable[[int], str] = items) -> Callable[[Request], Page]:
    """Pages by their number; those beyond the last have no item."""

    def serve(request: Request) -> Page:
        page = int(urllib.parse.parse_qs(request.path.partition("?")[2])["page"][0])
        return Page(html(make(page) if page <= last else "<h1>nothing here</h1>"))

    return serve


def expected(last: int, count: int = 3) -> list[str]:
    return sorted(f"{page}-{number}" for page in range(1, last + 1) for number in range(count))


def ids(crawl: Project | Crawled) -> list[str]:
    return sorted(row["id"] for row in crawl.rows("item"))


@pytest.mark.quick
def test_a_series_ends_with_its_first_empty_page(project: Project, site: Site) -> None:
    site.fallback = listing(7)
    write(project, site)
    project.crawl()
    assert ids(project) == expected(7)
    asked = [f"/list?page={page}" for page in (*range(1, 9), 8)]
    assert site.paths == asked, "one after another, the empty one twice, and none beyond the end"
    assert project.query("SELECT DISTINCT depth, origin FROM jobs") == [(0, "locator")]
    site.clear_log()
    write(project, site)
    project.crawl()
    assert site.paths == asked, "a new run asks again"


def test_the_pages_of_a_series_share_commits(project: Project, site: Site) -> None:
    """The next page is asked for while the finished one waits for others, not after a commit for each."""
    site.fallback = listing(60)
    write(project, site)
    project.crawl()
    assert ids(project) == expected(60)
    assert site.paths == [f"/list?page={page}" for page in (*range(1, 62), 61)]
    ((commits,),) = project.query("SELECT count(DISTINCT changed_at) FROM jobs")
    assert commits <= 30, "a commit for two pages at least, on whatever machine"


@shared()
def test_a_site_that_repeats_its_last_page_for_ever(site: Site) -> Part:
    site.fallback = lambda request: listing(5, lambda page: items(min(page, 5)))(
        request if int(request.path.partition("=")[2]) <= 5 else Request(
            method="GET", path="/list?page=5", headers={}, body=b"", attempt=1
        )
    )  # fmt: skip
    crawl = yield text_of(site)
    assert ids(crawl) == expected(5), "the repeated page gives no rows"
    assert site.paths[-1] == "/list?page=6"
    assert crawl.jobs == {"done": 6}
    assert crawl.events("the same records as on the page before")


@shared()
def test_the_number_of_a_repeated_page_outside_of_its_blocks_does_not_count(site: Site) -> Part:
    site.fallback = lambda request: Page(
        html(f"<h1>page {request.path[-1]}</h1>{items(min(3, int(request.path[-1])))}")
    )
    crawl = yield text_of(site).replace("page: {value", "head: {selector: h1, scope: page}, page: {value")
    assert ids(crawl) == expected(3)
    assert site.paths[-1] == "/list?page=4"


@shared()
def test_pages_whose_records_are_all_rejected_or_dropped_do_not_end_it(site: Site) -> Part:
    def make(page: int) -> str:
        return '<p class="item">no id</p>' * page if page in (2, 3) else items(page)

    site.fallback = listing(6, make)
    crawl = yield text_of(site, required=", required: true", more='filters: [{field: id, pattern: "4-.*"}]')
    assert ids(crawl) == sorted(set(expected(6)) - {f"{p}-{n}" for p in (2, 3, 4) for n in range(3)})
    assert site.paths[-1] == "/list?page=7"


@pytest.mark.sweep
def test_a_failed_page_leaves_the_series_open_and_a_retry_continues_it(project: Project, site: Site) -> None:
    site.fallback = listing(6)
    site["/list?page=4"] = Page(status=500)
    write(project, site)
    project.crawl("--set", "max_attempts=1", code=1)
    assert ids(project) == expected(3)
    assert site.paths[-1] == "/list?page=4"
    del site.pages["/list?page=4"]
    assert project.run_with_data("retry").code == 0
    project.crawl()
    assert ids(project) == expected(6)
    assert site.paths[-1] == "/list?page=7"


def without_fifth_page(site: Site, status: int) -> Part:
    pages = listing(4)
    site.fallback = lambda request: pages(request) if int(request.path[-1]) < 5 else Page(status=status)
    crawl = yield text_of(site)
    assert ids(crawl) == expected(4)
    assert crawl.jobs == {"done": 4, "skipped": 1}


@pytest.mark.quick
@shared()
def test_a_page_that_does_not_exist_ends_it(site: Site) -> Part:
    yield from without_fifth_page(site, 404)


@shared()
def test_a_page_that_is_gone_ends_it(site: Site) -> Part:
    yield from without_fifth_page(site, 410)


@shared()
def test_a_first_page_that_does_not_exist_is_a_failure(site: Site) -> Part:
    crawl = yield text_of(site)
    assert site.paths == ["/list?page=1"]
    assert crawl.jobs == {"failed": 1}


@pytest.mark.sweep
def test_each_combination_of_the_other_ranges_is_a_series(
    project: Project, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "s3cret")
    last = {"tea": 3, "coffee": 1, "cocoa": 0}

    def search(request: Request) -> Page:
        fields = {name: values[0] for name, values in urllib.parse.parse_qs(request.body.decode()).items()}
        assert request.method == "POST"
        assert request.headers["x-key"] == "s3cret"
        page = int(fields["page"])
        return Page(html(items(page).replace('id="', f'id="{fields["q"]}-') if page <= last[fields["q"]] else ""))

    site["/search"] = search
    locator = '{url: /search, form: {q: "{tea,coffee,cocoa}", page: "{1..}"}, until: empty,'
    write(project, site, f'{locator} headers: {{X-Key: "%{{env.SHOP_KEY}}"}}}}')
    project.crawl()
    assert ids(project) == sorted([*(f"tea-{id_}" for id_ in expected(3)), *(f"coffee-{id_}" for id_ in expected(1))])
    assert len(site.paths) == 4 + 2 + 1 + 3, "three pages are empty, each twice"


@shared()
def test_a_series_in_json_has_an_end_if_its_range_has_one(site: Site) -> Part:
    def api(request: Request) -> Page:
        page = int(json.loads(request.body)["page"])
        return Page(json.dumps([{"id": f"{page}"}]), headers={"Content-Type": "application/json"})

    site["/api"] = api
    locator = '{url: /api, json: {page: "{03..01}", q: "{ x }"}, until: empty}'
    crawl = yield text_of(site, locator, block='"jmespath: @"')
    assert ids(crawl) == ["1", "2", "3"]
    assert [json.loads(exchange.request.body)["page"] for exchange in site.exchanges] == ["03", "02", "01"]


@shared()
def test_pages_that_links_reach_first_belong_to_the_series_all_the_same(site: Site) -> Part:
    """Pager links lead to pages that the series has not reached; beyond them it goes on by itself."""

    def make(page: int) -> str:
        pager = "".join(f'<a class="page" href="/list?page={number}">{number}</a>' for number in range(1, 6))
        return items(page) + (pager if page < 6 else "")

    site.fallback = listing(9, make)
    site["/list?page=2"] = Page(html(make(2)), delay=0.5)
    crawl = yield text_of(site, more="links: [{selector: a.page}]")
    assert ids(crawl) == expected(9), "no page twice, and none left out"
    assert sorted(site.paths) == sorted(f"/list?page={page}" for page in (*range(1, 11), 10))


@pytest.mark.sweep
def test_an_edit_of_the_block_continues_a_series_that_ended_too_early(project: Project, site: Site) -> None:
    site.fallback = listing(4)
    slow = threading.Event()
    site["/slow"] = Page(html(""), hold=slow)
    write(project, site, f"{OPEN}, {{url: /slow}}", block=".wrong")
    running = project.start()
    assert until(lambda: project.status()["jobs"]["done"] == 1), running.err
    assert sorted(site.paths) == ["/list?page=1", "/list?page=1", "/slow"], "it was empty twice"
    site.clear_log()
    write(project, site, f"{OPEN}, {{url: /slow}}")
    assert until(lambda: site.count("/list?page=5") == 1), running.err
    slow.set()
    assert running.wait().code == 0
    assert sorted(row["id"] for row in project.rows("item") if row["id"]) == expected(4)
    assert sorted(site.paths) == [f"/list?page={page}" for page in (2, 3, 4, 5, 5)]


def by_offset(total: int) -> Callable[[Request], Page]:
    """A list of which a page shows up to 20 rows from `start` on."""

    def serve(request: Request) -> Page:
        start = int(urllib.parse.parse_qs(request.path.partition("?")[2])["start"][0])
        numbers = range(start, min(start + 20, total))
        return Page(html("".join(f'<p class="item" id="{number}">thing {number}</p>' for number in numbers)))

    return serve


@pytest.mark.quick
@shared()
def test_offsets_with_an_open_end(site: Site) -> Part:
    site.fallback = by_offset(75)
    crawl = yield text_of(site, '{url: "/list?start={0..*..20}", until: empty}')
    assert ids(crawl) == sorted(map(str, range(75)))
    assert site.paths == [f"/list?start={start}" for start in (0, 20, 40, 60, 80, 80)], "one after another"


@shared()
def test_offsets_to_an_end(site: Site) -> Part:
    site.fallback = by_offset(75)
    crawl = yield text_of(site, '{url: "/list?start={0..60..20}"}')
    assert ids(crawl) == sorted(map(str, range(75)))
    assert sorted(site.paths) == [f"/list?start={start}" for start in (0, 20, 40, 60)]


@shared()
def test_offsets_that_end_with_a_page_that_does_not_exist(site: Site) -> Part:
    pages = by_offset(75)
    site.fallback = lambda request: Page(status=404) if "=80" in request.path else pages(request)
    crawl = yield text_of(site, '{url: "/list?start={0..*..20}", until: empty}')
    assert ids(crawl) == sorted(map(str, range(75)))
    assert crawl.jobs == {"done": 4, "skipped": 1}


def wait_for_pages(site: Site, running: Running, count: int) -> None:
    assert until(lambda: len(set(site.paths)) >= count or running.exited), running.err


@pytest.mark.quick
@pytest.mark.parametrize("kills", [(9, 20), pytest.param((3, 9, 17, 24), marks=pytest.mark.sweep)])
@pytest.mark.parametrize("range_", ["{1..}", pytest.param("{1..*..1}", marks=pytest.mark.sweep)])
def test_a_series_survives_kills(project: Project, site: Site, kills: tuple[int, ...], range_: str) -> None:
    pages = listing(30)
    site.fallback = lambda request: Page(pages(request).body, delay=0.02)
    write(project, site, OPEN.replace("{1..}", range_))
    for after in kills:
        running = project.start(nodes=2)
        wait_for_pages(site, running, after)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        project.assert_no_process_left()
    project.crawl()
    assert ids(project) == expected(30)
    assert {int(path.partition("=")[2]) for path in site.paths} == set(range(1, 32))


def test_what_check_says_of_ranges_and_until(project: Project, site: Site) -> None:
    for locator, message in (
        ('{url: "/list?page=1", until: empty}', r"`until` needs a range of pages"),
        ('{url: "/list?page={1..}"}', r"the range has no end; add `until: empty`"),
        ('{url: "/a{1..}/{1..}", until: empty}', r"only one range can be that of `until`"),
        ('{url: "/a{1..}", sitemap: /map.xml, until: empty}', r"`sitemap` has no range"),
        ('{url: "http://h{1..}.example/", until: empty}', r"cannot be in the host"),
        ('{url: "/a{1..}", until: full}', r"`until`"),
        ('{url: "/a?start={0..*..20}"}', r"the range has no end; add `until: empty`"),
        ('{url: "/a?start={0..80..0}"}', r"the step of '{0..80..0}' in '.*' is not 1 or more"),
        ('{url: "/a?start={0..*..-20}", until: empty}', r"is not 1 or more. Write {0..80..20}"),
        ('{url: /a, form: {start: "{80..0..-20}"}}', r"is not 1 or more"),
        ('{url: /a, json: {start: "{0..80..0}"}}', r"is not 1 or more"),
    ):
        write(project, site, locator)
        done = project.run_command("check", "--defs", str(project.defs))
        assert done.code == 2, done.err
        assert re.search(r"crawl\.yml:2:\d+: \S+ .*" + message, done.out + done.err), (locator, done.out, done.err)
