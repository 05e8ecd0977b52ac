"""Defs saved while a crawl runs: published as a new version, or refused and reported."""

import os
import signal
import threading
from itertools import pairwise

import pytest

from .held import GATE, Held, changed, saved, version
from .house import House, until
from .library import Library
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def held(house: House, site: Site) -> Held:
    return Held(house, site)


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


def test_reload_without_a_supervisor(house: House) -> None:
    assert house.order("reload").code == 2


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
