"""Locators, links and groups that come and go with new defs, while a crawl runs."""

import threading

import pytest

from .held import GATE, Held, events, saved, settled, version
from .house import House, until
from .library import Library
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def held(house: House, site: Site) -> Held:
    return Held(house, site)


def test_a_removed_group_is_skipped_and_comes_back(house: House, site: Site) -> None:
    hold = threading.Event()
    library = Library(site, shelves=1, books=6)
    for book in range(6):
        site[f"/book/0-{book}"] = Page(html(f"<b>ISBN 000-{book}</b>"), hold=hold)
    house.write(library.defs(concurrency=2))
    running = house.start()
    assert until(lambda: len(site.paths) == 3)
    text = saved(house)
    without = text.replace("  books: {page: {dataDef: book}, more: {dataDef: nothing}}\n", "").replace(
        '      - {selector: "li a", linkGroup: books}\n', ""
    )
    house.write(without)
    counts = "SELECT state, count(*) FROM jobs GROUP BY 1 ORDER BY 1"
    assert until(lambda: ("SKIPPED", 4) in house.query(counts)), house.standing()
    house.write(text)
    assert until(lambda: ("READY", 4) in house.query(counts)), house.standing()
    hold.set()
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    assert done.jobs == {"done": 7}


def test_a_new_locator_is_seeded_and_new_links_are_followed(held: Held, house: House, site: Site) -> None:
    running = held.begin()
    site["/extra"] = html("<b>ISBN 999-9</b>")
    for shelf in range(3):
        site.pages[f"/shelf/{shelf}"] = Page("changed since", 500)  # what is stored counts
    text = saved(house).replace(
        "locatorGroups:", f'locatorGroups:\n  books: {{locators: [{{url: "{site.url("/extra")}"}}]}}'
    )
    house.write(text)
    assert until(lambda: site.times("/extra") == 1), house.standing()
    text = text.replace(
        "  book:\n    fields:", '  book:\n    links: [{selector: "b", attribute: "title"}]\n    fields:'
    )
    house.write(text)
    held.finish(running)
    assert any("1 locator added" in t for t in events(house)), events(house)
    assert any("links changed" in t for t in events(house)), events(house)
    assert len(house.rows("book")) == 13


def test_links_that_only_new_defs_make_become_jobs(house: House, site: Site) -> None:
    hold = threading.Event()
    library = Library(site, shelves=3, books=3)
    site[GATE] = Page(html("no"), hold=hold)
    text = library.defs().replace(
        'url: "' + site.url("/shelf/0") + '"}', 'url: "' + site.url("/shelf/0") + '"}, {url: "' + site.url(GATE) + '"}'
    )
    house.write(text.replace('      - {selector: "a.next", linkGroup: shelves}\n', ""))
    running = house.start()
    assert until(lambda: len(site.paths) == 5)
    house.write(text)
    assert until(lambda: len(site.paths) == 13), house.standing()
    hold.set()
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    assert site.times("/shelf/0") == 1


def test_pages_that_only_old_links_led_to_keep_their_rows_and_are_counted(held: Held, house: House, site: Site) -> None:
    running = held.begin()
    narrowed = '{selector: "li a", linkGroup: books, deny: ["/book/1-"]}'
    held.write(held.library.defs().replace('{selector: "li a", linkGroup: books}', narrowed))
    assert until(lambda: version(house) == 2)
    assert until(lambda: settled(house))
    held.finish(running)
    assert house.counted("entry", "book") == held.library.rows()
    told = [text for text in events(house) if "no link leads" in text]
    assert told == ["4 pages keep their rows: no link leads to them any more"], events(house)
