"""A page gives the same, whether it is extracted in the node or, since it is larger, in an extraction process."""

import pytest

from .project import Project
from .site import Page, Request, Site, html, redirect

pytestmark = pytest.mark.timeout(60)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{urls: [{urls}]}}]}}}}
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
PADDING = {"small": 0, "large": 300_000}
"""Bytes of white space."""


def leaf(request: Request) -> Page:
    """A page; one below `/go` leaves for another name of the site."""
    port = request.headers["host"].rpartition(":")[2]
    return redirect(f"http://localhost:{port}/landed") if request.path.startswith("/go") else Page(html("x"))


def web_page(size: str, tags: str) -> Page:
    links = "".join(f"<a class={kind} href=/go/{size}/{kind}>x</a>" for kind in ("in", "out"))
    body = html(links + " " * PADDING[size], title="A \0").encode().replace(b"\0", b"\xff")
    return Page(body, headers={"Content-Type": "text/html; charset=utf-8", "X-Robots-Tag": tags})


def feed(size: str) -> Page:
    item = f"<item><link>/item/{size}</link></item>"
    text = f'<?xml version="1.0" encoding="koi8-r"?><rss>{" " * PADDING[size]}<title>Канал</title>{item}</rss>'
    return Page(text.encode("koi8-r"), headers={"Content-Type": "text/xml"})


@pytest.mark.parametrize("nofollow", [False, True])
def test_small_and_large_pages_give_the_same(project: Project, site: Site, nofollow: bool) -> None:
    tags = "otherbot: none, crawl-console: noindex"
    site.fallback = leaf
    for size in PADDING:
        site[f"/html/{size}"] = web_page(size, f"{tags}, nofollow" if nofollow else tags)
        site[f"/feed/{size}"] = feed(size)
    project.write(DEFS.format(urls=", ".join(f'"{site.url(path)}"' for path in site.pages)))
    project.nodes = 1
    done = project.crawl()
    titles = {row["url"].removeprefix(site.url("")): row["title"] for row in project.rows("page")}
    texts = [str(text) for (text,) in project.query("SELECT text FROM events")]
    reasons = dict(project.query("SELECT url, reason FROM jobs WHERE state = 'SKIPPED'"))
    for size in PADDING:
        assert (titles[f"/html/{size}"], titles[f"/feed/{size}"]) == ("A \ufffd", "Канал")
        assert site.count(f"/item/{size}") == 1
        [event] = [text for text in texts if text.startswith("200 ") and f" {site.url('/html/')}{size};" in text]
        assert " 1 row " in event
        assert event.endswith("; 1 byte replaced; noindex")
        redirected = [reasons.get(site.url(f"/go/{size}/{kind}")) or "" for kind in ("in", "out")]
        if nofollow:
            assert redirected == ["", ""]
        else:
            assert redirected[0].startswith("redirect leaves 127.0.0.1 for localhost")
            assert redirected[1].startswith("address 127.0.0.1 of localhost")
    assert done.jobs == ({"done": 6} if nofollow else {"done": 6, "skipped": 4})
    assert "2 pages say noindex: their rows are kept, because meta_noindex is false" in texts
