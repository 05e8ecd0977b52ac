"""A page of a chain that is empty for a moment, pages that lack what they must have: each is asked for again."""

import os
import signal
from collections.abc import Callable

import pytest

from .project import Project, until
from .shared_crawl import Part, shared
from .site import Page, Request, Site, html
from .test_series import OPEN, expected, ids, items, listing, text_of

pytestmark = pytest.mark.timeout(120)
NOTHING = Page(html("<p>nothing here</p>"))


def empty_once(pages: Callable[[Request], Page], *paths: str, by: Page = NOTHING) -> Callable[[Request], Page]:
    """The pages, of which these are another one at first."""
    return lambda request: by if request.attempt == 1 and request.path in paths else pages(request)


@shared()
def test_a_page_that_is_empty_for_a_moment_ends_no_series(site: Site) -> Part:
    site.fallback = empty_once(listing(5), "/list?page=1", "/list?page=3")
    crawl = yield text_of(site)
    assert ids(crawl) == expected(5)
    assert site.paths == [f"/list?page={page}" for page in (1, 1, 2, 3, 3, 4, 5, 6, 6)], "empty twice is empty"
    assert crawl.jobs == {"done": 6}
    assert crawl.events("nothing on the page: asked for once more in ")


@shared()
def test_a_page_in_place_of_the_list_ends_no_chain(site: Site) -> Part:
    """Not the rows but the whole page is missing, with its cursor, which says nothing of `until`."""

    def serve(request: Request) -> Page:
        page = int(request.path.partition("=")[2] or 1)
        return Page(html(items(page) + (f'<a class="on" data-p="{page + 1}">on</a>' if page < 4 else "")))

    site.fallback = empty_once(serve, "/list?page=2", by=Page("THROTTLED", headers={"Content-Type": "text/plain"}))
    follow = 'next: {url: "/list?page=%{p}", p: "xpath: //a[@class=\'on\']/@data-p"}'
    crawl = yield text_of(site, '{url: "/list"}', more=follow)
    assert ids(crawl) == expected(4)
    assert site.paths == ["/list", *(f"/list?page={page}" for page in (2, 2, 3, 4))], (
        "a last page with rows is no doubt"
    )


@shared()
def test_a_page_that_redirects_to_the_start_for_a_moment_ends_no_series(site: Site) -> Part:
    away = Page(status=302, headers={"Location": "/list?page=1"})
    site.fallback = empty_once(listing(4), "/list?page=3", by=away)
    crawl = yield text_of(site)
    assert ids(crawl) == expected(4)


@shared()
def test_a_group_may_take_the_first_empty_page_as_the_end(site: Site) -> Part:
    site.fallback = listing(2)
    crawl = yield text_of(site).replace("maxDepth: 3", "confirmEnd: false")
    assert ids(crawl) == expected(2)
    assert site.paths == [f"/list?page={page}" for page in (1, 2, 3)]


@shared()
def test_a_sitemap_that_is_empty_for_a_moment_is_read(site: Site) -> Part:
    site["/list?page=1"] = Page(html(items(1)))
    entry = f"<url><loc>{site.url('/list?page=1')}</loc></url>"
    site["/map.xml"] = lambda request: Page(
        f"<urlset>{entry if request.attempt > 1 else ''}</urlset>", headers={"Content-Type": "text/xml"}
    )
    site["/none.xml"] = NOTHING
    maps = [f"{{sitemap: '{site.url(path)}', name: {path[1:5]}}}" for path in ("/map.xml", "/none.xml")]
    crawl = yield text_of(site, ", ".join(maps))
    assert ids(crawl) == expected(1)
    assert (site.count("/map.xml"), site.count("/none.xml")) == (2, 2)


@shared()
def test_a_page_with_a_text_of_retry_is_no_page(site: Site) -> Part:
    site.fallback = empty_once(listing(3), "/list?page=2", by=Page(html(f"{items(9)} Too Busy")))
    crawl = yield text_of(site, host=", retry: {match: too busy}")
    assert ids(crawl) == expected(3)
    assert crawl.events("'too busy' on the page; attempt 2 in ")


@shared()
def test_a_page_that_lacks_what_it_must_have_is_retried_and_fails(site: Site) -> Part:
    site.fallback = empty_once(listing(3), "/list?page=2", by=Page(html(items(2).replace('id="2-1"', ""))))
    crawl = yield text_of(site, required=", required: true", host=", retry: {missing: required, attempts: 2}")
    assert ids(crawl) == expected(3)
    assert [job["reason"] for job in crawl.all_jobs() if job["state"] == "FAILED"] == [
        "the page lacks a required field (2 attempts)"
    ], "the page behind the last one: whether it is the end is for `retry` to say"


@shared()
def test_pages_without_an_element_are_retried(site: Site) -> Part:
    site.fallback = empty_once(listing(1), "/list?page=1")
    crawl = yield text_of(site, '{url: "/list?page=1"}', host=", retry: {missing: .item}")
    assert ids(crawl) == expected(1)
    assert crawl.events("the page lacks `.item`; attempt 2 in ")


@pytest.mark.quick
def test_a_kill_between_the_two_requests_for_an_empty_page(project: Project, site: Site) -> None:
    """The page waits for its second request in the database, with the first one counted."""
    site.fallback = empty_once(listing(4), "/list?page=3")
    project.write(text_of(site, OPEN))
    running = project.start()
    assert until(lambda: site.count("/list?page=3") == 1 or running.exited), running.err
    waiting = "SELECT url FROM jobs WHERE asked_again = 1 AND state = 'READY'"
    assert until(lambda: bool(project.query(waiting)) or running.exited), running.err
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    project.assert_no_process_left()
    project.crawl()
    assert ids(project) == expected(4)
    assert [site.count(f"/list?page={page}") for page in range(1, 7)] == [1, 1, 2, 1, 2, 0]


def test_check_refuses_a_selector_that_does_not_compile(project: Project, site: Site) -> None:
    project.write(text_of(site, host=', retry: {missing: "p["}'))
    done = project.run_command("check", "--defs", str(project.defs))
    assert done.code == 2
    assert "crawl.yml:9:" in done.err + done.out
    assert "bad-selector" in done.err + done.out
