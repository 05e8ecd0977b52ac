"""Pages already fetched end with the rows of the new defs, as a fresh crawl would give them, without a request."""

import signal
import sqlite3
import threading
from collections import Counter
from pathlib import Path

import pytest

from .held import Held, changed, events, fresh, outputs, saved, settled, version
from .house import House, until
from .library import Library
from .site import Page, Site, html
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def held(house: House, site: Site) -> Held:
    return Held(house, site)


def test_a_changed_field_reaches_pages_already_fetched(held: Held, house: House, site: Site, tmp_path: Path) -> None:
    running = held.begin()
    site.forget()
    text = changed(held.library.defs())
    held.write(text)
    assert until(lambda: version(house) == 2)
    assert until(lambda: settled(house))
    assert house.query(
        "SELECT DISTINCT j.defs FROM jobs j JOIN sequences s ON s.id = j.sequence"
        " WHERE s.grp = 'books' AND s.kind = 'page'"
    ) == [(2,)]
    assert until(lambda: outputs_have(house, "book.csv", "isbn,short,path"))
    assert site.paths == [], "no page was asked for again"
    held.finish(running)
    rows = house.rows("book")
    assert sorted(row["isbn"] for row in rows) == sorted(f"{s:03d}-{b}" for s in range(3) for b in range(4))
    assert any(
        text.startswith("defs v1 → v2: book: 1 field changed, 1 field added, 12 pages to re-extract")
        for text in events(house)
    ), events(house)
    other = tmp_path / "other"
    other.mkdir()
    assert outputs(house) == outputs(fresh(house, site, saved(house), other))


def outputs_have(house: House, name: str, header: str) -> bool:
    return house.output(name).read_text("utf-8").startswith(header)


def test_a_page_in_flight_ends_with_the_new_rows(house: House, site: Site) -> None:
    hold = threading.Event()
    library = Library(site, shelves=1, books=3)
    for book in range(3):
        site[f"/book/0-{book}"] = Page(html(f"<b>ISBN 000-{book}</b>"), hold=hold)
    house.write(library.defs())
    running = house.start()
    assert until(lambda: len(site.paths) == 4)
    house.write(changed(library.defs()))
    assert until(lambda: version(house) == 2)
    hold.set()
    done = running.wait()
    assert done.code == 0
    house.assert_clean(done)
    assert {tuple(row.values())[:2] for row in house.rows("book")} == {(f"000-{b}", "1") for b in range(3)}
    assert done.summary["rows"]["book"] == 3


def test_rows_that_vanish_are_told(held: Held, house: House, site: Site) -> None:
    running = held.begin()
    held.write(held.library.defs().replace("isbn: {selector: b,", "isbn: {selector: blink,"))
    assert until(lambda: version(house) == 2)
    assert until(lambda: settled(house))
    held.finish(running)
    assert house.rows("book") == []
    assert any("book: matches nothing any more, its 12 rows are gone" in t for t in events(house)), events(house)
    assert len(house.rows("entry")) == 12


def test_a_missing_document_keeps_its_rows(held: Held, house: House, site: Site) -> None:
    running = held.begin()
    (page,) = house.query(f"SELECT document FROM jobs WHERE url = '{site.url('/book/1-1')}'")[0]
    with sqlite3.connect(house.data / "pages.db") as db:
        db.execute("DELETE FROM pages WHERE id = ?", (page,))
    db.close()
    held.write(changed(held.library.defs()))
    assert until(lambda: version(house) == 2)
    held.finish(running)
    assert sorted(row["isbn"] for row in house.rows("book")).count("ISBN 001-1") == 1
    assert len(house.rows("book")) == 12
    assert any("1 page could not be re-extracted and keep" in t for t in events(house)), events(house)


def test_new_only_leaves_done_pages_alone(house: House, site: Site) -> None:
    held = Held(house, site)
    running = held.begin("--set", "on_reload=new_only")
    site["/book/0-9"] = html("<b>ISBN 999-9</b>")
    text = changed(saved(house)).replace(
        "locatorGroups:", f'locatorGroups:\n  books: {{locators: [{{url: "{site.url("/book/0-9")}"}}]}}'
    )
    house.write(text)
    assert until(lambda: site.times("/book/0-9") == 1)
    held.finish(running)
    rows = house.rows("book")
    assert list(rows[0]) == ["isbn", "path", "short"], "the columns of both, those of the old defs first"
    assert Counter(row["short"] for row in rows) == {"": 12, "0": 1}


def test_extract_on_a_done_run(house: House, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    text = library.defs().replace('      - {selector: "a.next", linkGroup: shelves}\n', "")
    house.write(text)
    first = house.crawl().summary["run"]
    site.forget()
    house.write(changed(text))
    done = house.order("extract", "--defs", str(house.defs), "--json", seconds=45)
    assert done.code == 0, done.err
    assert done.summary["state"] == "DONE"
    assert done.summary["run"] == first
    assert site.visits == []
    assert {row["isbn"] for row in house.rows("book")} == {f"000-{b}" for b in range(3)}
    house.write(changed(library.defs()))  # finds the next shelf
    done = house.order("extract", "--defs", str(house.defs), "--json", seconds=45)
    assert done.code == 0, done.err
    assert done.summary["state"] == "CANCELLED"
    assert done.jobs == {"done": 4, "ready": 1}
    assert site.visits == []
    assert house.crawl().summary["run"] == first
    assert len(house.rows("book")) == 6
    site.forget()
    again = house.order("extract", "book", "--defs", str(house.defs), "--json", seconds=45)
    assert again.code == 0, again.err
    assert "6 pages to re-extract" in again.err
    assert len(house.rows("book")) == 6
    assert site.visits == []
    assert house.order("extract", "bok", "--defs", str(house.defs)).code == 2
    house.assert_clean()


def test_extract_without_a_run_says_so(house: House, site: Site) -> None:
    house.write(Library(site, shelves=1).defs())
    done = house.order("extract", "--defs", str(house.defs))
    assert done.code == 2
    assert "nothing was crawled here" in done.err
    assert not house.data.exists()


def test_hosts_do_not_slow_a_re_extraction(house: House, site: Site) -> None:
    held = Held(house, site, shelves=4, books=10)
    running = held.begin()
    slow = changed(saved(house)).replace("delay: 0}", "delay: 5}")
    house.write(slow)
    assert until(lambda: version(house) == 2)
    watch = Stopwatch()
    assert until(lambda: settled(house), 30), house.standing()
    assert watch.seconds() < 4
    held.finish(running)
    assert len(house.rows("book")) == 40


def test_a_killed_supervisor_goes_on_re_extracting(house: House, site: Site) -> None:
    held = Held(house, site, shelves=6, books=20)
    running = held.begin()
    held.write(changed(held.library.defs()))
    assert until(lambda: version(house) == 2)
    running.send(signal.SIGKILL)
    running.process.wait()
    house.assert_nobody_left(15)
    held.hold.set()
    house.crawl()
    assert len(house.rows("book")) == 120
    assert all(row["isbn"][:4] != "ISBN" for row in house.rows("book"))
