"""Locators, links and groups that come and go with new defs, while a crawl runs."""

import threading

import pytest

from .gated_crawl import (
    GATE,
    GatedCrawl,
    defs_version,
    events,
    read_defs,
    reextraction_finished,
)
from .library import Library
from .project import Project, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def gated(project: Project, site: Site) -> GatedCrawl:
    return GatedCrawl(project, site)


def test_a_removed_group_is_skipped_and_can_be_restored(project: Project, site: Site) -> None:
    hold = threading.Event()
    library = Library(site, shelves=1, books=24)  # nodes hold ten at most: two, and eight spare ones
    for book in range(24):
        site[f"/book/0-{book}"] = Page(html(f"<b>ISBN 000-{book}</b>"), hold=hold)
    project.write(library.defs(concurrency=2))
    running = project.start()
    assert until(lambda: len(site.paths) == 3)
    text = read_defs(project)
    without = text.replace("  books: {page: {dataDef: book}, more: {dataDef: nothing}}\n", "").replace(
        '      - {selector: "li a", linkGroup: books}\n', ""
    )
    project.write(without)
    counts = "SELECT state, count(*) FROM jobs WHERE url LIKE '%/book/%' GROUP BY 1"
    assert until(lambda: set(dict(project.query(counts))) == {"SKIPPED", "TAKEN"}), project.describe_state()
    assert dict(project.query(counts))["SKIPPED"] >= 6
    project.write(text)  # a node that has started meanwhile takes some at once
    assert until(lambda: set(dict(project.query(counts))) == {"READY", "TAKEN"}), project.describe_state()
    hold.set()
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    assert done.jobs == {"done": 25}


def test_a_new_locator_is_seeded_and_new_links_are_followed(gated: GatedCrawl, project: Project, site: Site) -> None:
    running = gated.start()
    site["/extra"] = html("<b>ISBN 999-9</b>")
    for shelf in range(3):
        site.pages[f"/shelf/{shelf}"] = Page("changed since", 500)  # the stored page is used
    text = read_defs(project).replace(
        "locatorGroups:", f'locatorGroups:\n  books: {{locators: [{{url: "{site.url("/extra")}"}}]}}'
    )
    project.write(text)
    assert until(lambda: site.count("/extra") == 1), project.describe_state()
    text = text.replace(
        "  book:\n    fields:", '  book:\n    links: [{selector: "b", attribute: "title"}]\n    fields:'
    )
    project.write(text)
    gated.finish(running)
    assert any("1 locator added" in t for t in events(project)), events(project)
    assert any("links changed" in t for t in events(project)), events(project)
    assert len(project.rows("book")) == 13


def test_links_that_only_new_defs_make_become_jobs(project: Project, site: Site) -> None:
    hold = threading.Event()
    library = Library(site, shelves=3, books=3)
    site[GATE] = Page(html("no"), hold=hold)
    text = library.defs().replace(
        'url: "' + site.url("/shelf/0") + '"}', 'url: "' + site.url("/shelf/0") + '"}, {url: "' + site.url(GATE) + '"}'
    )
    project.write(text.replace('      - {selector: "a.next", linkGroup: shelves}\n', ""))
    running = project.start()
    assert until(lambda: len(site.paths) == 5)
    project.write(text)
    assert until(lambda: len(site.paths) == 13), project.describe_state()
    hold.set()
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    assert site.count("/shelf/0") == 1


def test_pages_that_only_old_links_led_to_keep_their_rows_and_are_counted(
    gated: GatedCrawl, project: Project, site: Site
) -> None:
    running = gated.start()
    narrowed = '{selector: "li a", linkGroup: books, deny: ["/book/1-"]}'
    gated.write(gated.library.defs().replace('{selector: "li a", linkGroup: books}', narrowed))
    assert until(lambda: defs_version(project) == 2)
    assert until(lambda: reextraction_finished(project))
    gated.finish(running)
    assert project.count_rows("entry", "book") == gated.library.rows()
    messages = [text for text in events(project) if "no link leads" in text]
    assert messages == ["4 pages keep their rows: no link leads to them any more"], events(project)
