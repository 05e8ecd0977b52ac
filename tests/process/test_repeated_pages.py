"""Soft 404s: a site that answers every URL, with relative links that never end."""

import json
import signal

import pytest

from .project import Project, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
baseUrl: {base}
locatorGroups: {{shop: {{locators: [{{url: /shop/}}]}}}}
taskGroups: {{shop: {{t: {{dataDef: item}}}}}}
dataDefs:
  item:
    query: {{block: .item}}
    fields: {{text: {{}}, url: {{value: "%{{document.url}}"}}}}
    links: [{{selector: a}}]
hosts: {{"127.0.0.1": {{robots: false, concurrency: 4}}}}
"""


def serve(request: Request) -> Page:
    """Twelve pages that are merely alike; below the last one every URL is a page, and leads to two others."""
    number = request.path.removeprefix("/shop/").strip("/")
    if number.isdigit() or not number:
        following = int(number or 0) + 1
        link = f"<a href=/shop/{following}/>on</a>" if following < 12 else "<a href=tea/>tea</a>"
        return Page(html(f"<h1>shop</h1><p class=item>thing {number}</p>{link}"))
    return Page(html("<h1>we did not find that</h1><p class=item>nothing</p><a href=tea/>T</a><a href='?p=1'>P</a>"))


@pytest.mark.quick
@pytest.mark.parametrize("kill", [False, True])
def test_endless_repeats_are_skipped_and_told(project: Project, site: Site, kill: bool) -> None:
    site.fallback = serve
    project.write(DEFS.format(base=site.url()))
    arguments = ["--nodes", "2", "--set", "max_repeats=12"]
    if kill:
        running = project.start(*arguments)
        assert until(lambda: len(site.paths) > 16)
        running.send(signal.SIGKILL)
        running.wait()
    done = project.crawl(*arguments)
    rows = project.query("SELECT data FROM rows ORDER BY id")
    texts = [json.loads(data)["text"] for (data,) in rows]
    assert (len(texts), texts.count("nothing")) == (24, 12)
    assert len({json.loads(data)["url"] for (data,) in rows}) == 24
    (warning,) = [one for one in done.summary["warnings"] if one["code"] == "repeated-pages"]
    assert warning["host"] == f"127.0.0.1:{site.port}"
    assert f"in a row gave the same text and fields: {site.url('/shop/11/tea/')}" in warning["text"]
    assert "max_repeats skipped" in warning["text"]


def test_without_a_limit_there_is_only_the_warning(project: Project, site: Site) -> None:
    site.fallback = serve
    project.write(DEFS.format(base=site.url()))
    done = project.crawl("--nodes", "2", "--max-pages", "40")
    (warning,) = [one for one in done.summary["warnings"] if one["code"] == "repeated-pages"]
    assert "max_repeats" not in warning["text"]
    assert project.query("SELECT count(*) FROM jobs WHERE state = 'SKIPPED'") == [(0,)]
    project.write(DEFS.format(base=site.url()).replace("links: [{selector: a}]", "links: [{selector: a, deny: [tea]}]"))
    alike = project.crawl("--fresh")
    assert alike.summary["warnings"] == []
    assert len(project.query("SELECT 1 FROM rows WHERE run = 2")) == 12
