"""A page gives the same, whether it is extracted in the node or, since it is larger, in an extraction process."""

import pytest

from .project import Project
from .site import Page, Request, Site, html, redirect

pytestmark = pytest.mark.timeout(60)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{urls: ["{url}/html", "{url}/feed"]}}]}}}}
taskGroups: {{pages: {{t: {{dataDef: page}}}}, items: {{t: {{dataDef: leaf}}}}}}
dataDefs:
  page:
    fields: {{title: {{selector: title}}, url: {{value: "%{{document.url}}"}}}}
    links:
      - {{selector: a.in, linkGroup: items}}
      - {{selector: a.out, linkGroup: items, sameHost: false}}
      - {{selector: item > link, attribute: text, linkGroup: items}}
  leaf: {{fields: {{url: {{value: "%{{document.url}}"}}}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""
SMALL, LARGE = 0, 100_000
"""Bytes of white space."""
TAGS = "otherbot: none, crawl-console: noindex"


def leaf(request: Request) -> Page:
    """A page; one below `/go` leaves for another name of the site."""
    port = request.headers["host"].rpartition(":")[2]
    return redirect(f"http://localhost:{port}/landed") if request.path.startswith("/go") else Page(html("x"))


@pytest.mark.parametrize("padding", [SMALL, LARGE])
@pytest.mark.parametrize("tags", ["", "nofollow"])
def test_robots_tags_links_and_damaged_bytes_of_pages(project: Project, site: Site, padding: int, tags: str) -> None:
    site.fallback = leaf
    links = "<a class=in href=/go/in>x</a><a class=out href=/go/out>x</a><a class=in href=/plain>x</a>"
    body = html(links, title="A \0").encode().replace(b"\0", b"\xff") + b" " * padding
    site["/html"] = Page(
        body, headers={"Content-Type": "text/html; charset=utf-8", "X-Robots-Tag": f"{TAGS}, {tags}" if tags else TAGS}
    )
    items = "<item><link>/plain2</link></item>"
    feed = f'<?xml version="1.0" encoding="koi8-r"?><rss>{" " * padding}<title>Канал</title>{items}</rss>'
    site["/feed"] = Page(feed.encode("koi8-r"), headers={"Content-Type": "text/xml"})
    project.write(DEFS.format(url=site.url("")))
    project.nodes = 1
    done = project.crawl()
    followed = {"/plain2"} if tags else {"/plain2", "/plain", "/go/in", "/go/out"}
    assert set(site.paths) - {"/html", "/feed"} == followed
    assert {row["url"]: row["title"] for row in project.rows("page")} == {
        site.url("/html"): "A \ufffd", site.url("/feed"): "Канал"
    }  # fmt: skip
    texts = [str(text) for (text,) in project.query("SELECT text FROM events")]
    [told] = [text for text in texts if f"{site.url('/html')} " in text and " rows" in text]
    assert told.endswith("1 rows; 1 byte replaced; noindex")
    assert "1 page says noindex: its rows are kept, because meta_noindex is false" in texts
    reasons = dict(project.query("SELECT url, reason FROM jobs WHERE state = 'SKIPPED'"))
    assert done.jobs["done"] == (3 if tags else 4)
    if not tags:
        assert reasons[site.url("/go/in")].startswith("redirect leaves 127.0.0.1 for localhost")
        assert reasons[site.url("/go/out")].startswith("address 127.0.0.1 of localhost")
