"""Pages that only a script leaves are no rows, and are told; pages with content stay pages."""

import pytest

from .shared_crawl import Part, shared
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)
DEFS = """\
baseUrl: {base}
locatorGroups: {{g: {{locators: [{locators}]}}}}
taskGroups: {{g: {{page: {{dataDef: p}}}}}}
dataDefs:
  p:
    fields: {{url: {{value: "%{{document.url}}"}}, title: {{selector: {selector}}}}}
    {more}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""
MOVED = '<html><head><title>Wait</title><script>window.location.replace("/new");</script></head><body></body></html>'
WALL = "<p>checking your browser<script>document.cookie = 'js=1; path=/'; location.reload()</script>"


def text_of(site: Site, *paths: str, selector: str = "h1", more: str = "") -> str:
    locators = ", ".join(f'{{url: "{path}"}}' for path in paths)
    return DEFS.format(base=site.url(), locators=locators, selector=selector, more=more)


@shared()
def test_a_page_that_only_a_script_leaves_is_no_row(site: Site) -> Part:
    site["/old"], site["/wall"], site["/tea"] = Page(MOVED), Page(WALL), Page(html("<h1>tea</h1>"))
    crawl = yield text_of(site, "/tea", "/old", "/wall")
    assert [row["title"] for row in crawl.rows("p")] == ["tea"]
    assert crawl.jobs == {"done": 1, "skipped": 2}
    assert {job["reason"] for job in crawl.all_jobs() if job["state"] == "SKIPPED"} == {
        "only a script leaves the page (see the warning script-redirect)"
    }
    (warning,) = [w for w in crawl.project.status()["warnings"] if w["text"].startswith(f"{crawl.prefix}p: only")]
    assert warning["code"] == "script-redirect"
    advice = "Such pages are skipped; `loader: browser` runs it, or "
    assert advice in warning["text"]
    assert any(way in warning["text"] for way in ("leads to /new", "sets the cookie js=1"))


@shared()
def test_the_title_of_such_a_page_is_no_content(site: Site) -> Part:
    site["/old"], site["/tea"] = Page(MOVED), Page("<title>tea</title>")
    crawl = yield text_of(site, "/old", "/tea", selector="title")
    assert [row["title"] for row in crawl.rows("p")] == ["tea"]


@shared()
def test_pages_with_values_or_links_that_are_followed_stay_pages(site: Site) -> Part:
    script = "<script>function go() { location.href = '/x' }</script>"
    site["/tea"] = Page(html(f"<h1>tea</h1>{script}"))
    site["/doors"] = Page(html(f"<a href=/tea>on</a>{script}"))
    crawl = yield text_of(site, "/doors", more="links: [{selector: a}]")
    assert sorted(row["title"] for row in crawl.rows("p")) == ["", "tea"]


@shared()
def test_a_wall_that_stands_for_a_moment_ends_no_series(site: Site) -> Part:
    site.fallback = lambda request: (
        Page(WALL)
        if request.path == "/list/2" and request.attempt == 1
        else Page(html(f"<h1>list {request.path[-1]}</h1>" if request.path < "/list/4" else ""))
    )
    text = text_of(site, "/list/{1..}").replace('{1..}"}', '{1..}", until: empty}')
    crawl = yield text.replace("p:\n", "p:\n    query: {block: h1}\n").replace("selector: h1", "attribute: text")
    assert sorted(row["title"] for row in crawl.rows("p")) == ["list 1", "list 2", "list 3"]
