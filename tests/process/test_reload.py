"""Defs saved while a crawl runs: published or refused, and the pages already fetched end as a fresh crawl's would."""

import os
import signal
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from .held import GATE, Held, changed, events, fresh, outputs, saved, settled, version
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


def test_formatting_changes_nothing(held: Held, house: House, site: Site) -> None:
    running = held.begin()
    held.write("# a word\n\n" + held.library.defs().replace("selector: b,", "selector:   'b',"))
    done = house.order("reload")
    assert done.code == 0
    assert "nothing changed" in done.out
    assert version(house) == 1
    held.finish(running)
    assert version(house) == 1
    assert house.counted("entry", "book") == held.library.rows()


def test_bad_defs_keep_the_old_version_and_are_shown(held: Held, house: House, site: Site) -> None:
    running = held.begin()
    held.write(held.library.defs().replace("selector: b", "selectr: b"))
    assert until(lambda: house.status()["defs_problems"])
    (problem,) = house.status()["defs_problems"]
    assert set(problem) == {"file", "line", "col", "code", "message"}
    assert problem["code"] == "unknown-key"
    assert "did you mean 'selector'" in problem["message"]
    assert version(house) == 1
    assert "unknown-key" in house.order("status").out
    refused = house.order("reload")
    assert refused.code == 2
    assert "unknown-key" in refused.err
    assert until(lambda: "unknown-key" in running.err)
    held.write(held.library.defs())
    assert until(lambda: not house.status()["defs_problems"])
    held.finish(running)
    assert version(house) == 1
    assert house.counted("entry", "book") == held.library.rows()


def test_sighup_reloads(held: Held, house: House, site: Site) -> None:
    running = held.begin()
    os.kill(running.pid, signal.SIGHUP)
    held.write(changed(held.library.defs()))
    os.kill(running.pid, signal.SIGHUP)
    assert until(lambda: version(house) == 2)
    assert not running.over
    held.finish(running)


@pytest.mark.parametrize("how", ["rename", "new file", "deleted file", "directory"])
def test_ways_to_save(held: Held, house: House, site: Site, how: str) -> None:
    (house.defs / "zz.yml").write_text("hosts: {'example.org': {delay: 1}}\n")
    running = held.begin()
    text = saved(house)
    match how:
        case "rename":
            (house.defs / ".new").write_text(changed(text))
            (house.defs / ".new").replace(house.defs / "crawl.yml")
        case "new file":
            (house.defs / "deep").mkdir()
            (house.defs / "deep" / "more.yaml").write_text("dataDefs: {book: {fields: {only: {selector: b}}}}\n")
        case "deleted file":
            (house.defs / "zz.yml").unlink()
        case "directory":
            (house.defs / "zz.yml").unlink()
            (house.defs / "zz.yml").mkdir()
    if how == "directory":
        assert until(lambda: house.status()["defs_problems"])
        assert version(house) == 1
        (house.defs / "zz.yml").rmdir()
    assert until(lambda: version(house) == 2)
    held.finish(running)
    if how == "new file":
        assert {tuple(row) for row in house.rows("book")} == {("only",)}


def test_truncated_at_any_byte_the_last_save_wins(held: Held, house: House, site: Site) -> None:
    running = held.begin()
    whole = changed(saved(house)).encode()
    for size in range(0, len(whole), 61):
        (house.defs / "crawl.yml").write_bytes(whole[:size])
        assert not running.over
    (house.defs / "crawl.yml").write_bytes(whole)
    done = house.order("reload")
    assert done.code == 0, done.err
    held.finish(running)
    assert sorted(row["isbn"] for row in house.rows("book")) == sorted(
        f"{s:03d}-{b}" for s in range(3) for b in range(4)
    )
    assert len(house.rows("entry")) == 12


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
    import sqlite3

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


def test_a_resumed_run_takes_the_new_defs(house: House, site: Site) -> None:
    held = Held(house, site)
    running = held.begin()
    running.send(signal.SIGTERM)
    held.hold.set()
    running.wait()
    site.forget()
    held.write(changed(held.library.defs()))
    done = house.crawl()
    assert "12 pages to re-extract" in done.err
    assert set(site.paths) <= {GATE}
    assert all(row["isbn"][:4] != "ISBN" for row in house.rows("book"))
    assert len(house.rows("book")) == 12


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


def test_reload_without_a_supervisor(house: House) -> None:
    assert house.order("reload").code == 2


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


def test_manners_of_a_known_host_change_while_it_is_crawled(house: House, site: Site) -> None:
    library = Library(site, shelves=1, books=12)
    site["/robots.txt"] = Page("User-agent: *\nDisallow: /book/0-1", headers={"Content-Type": "text/plain"})
    hold = threading.Event()
    site["/book/0-0"] = Page(html("<b>ISBN 000-0</b>"), hold=hold)
    house.write(library.defs(robots=True))
    running = house.start()
    skipped = "SELECT count(*) FROM jobs WHERE state = 'SKIPPED'"
    assert until(lambda: len(site.paths) > 5)
    assert until(lambda: house.query(skipped) == [(3,)]), house.standing()
    house.write(library.defs(robots=False))
    assert until(lambda: site.times("/book/0-11") == 1), house.standing()
    hold.set()
    done = running.wait()
    assert done.code == 0, done.err
    assert house.counted("entry", "book") == library.rows()
    assert site.times("/robots.txt") == 1


def test_a_delay_is_kept_from_the_next_request_on(house: House, site: Site) -> None:
    library = Library(site, shelves=1, books=40, delay=0.05)
    house.write(library.defs(concurrency=2))
    running = house.start()
    assert until(lambda: len(site.paths) > 5)
    house.write(library.defs(concurrency=2, delay=0.4))
    assert until(lambda: version(house) == 2)
    site.forget()
    assert until(lambda: len(site.begun()) >= 6)
    begun = site.begun()[2:6]
    assert all(later - earlier >= 0.3 for earlier, later in pairwise(begun)), begun
    house.write(library.defs(concurrency=8))
    assert running.wait().code == 0
    assert house.counted("entry", "book") == library.rows()


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
