"""Limits and what is left when one is reached: maxPages, maxDepth, priority, --max-pages, --max-time, -o, --fresh."""

import json
import signal
import sqlite3
import time

import pytest

from .house import House, read_csv, until
from .library import Library
from .site import Page, Site, html
from .stopwatch import Stopwatch, slowness
from .test_politeness import defs

pytestmark = pytest.mark.timeout(60)

TREE = """\
locatorGroups: {{tree: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{tree: {{{group} page: {{dataDef: page}}}}, leaf: {{page: {{dataDef: leaf}}}}}}
dataDefs:
  page:
    fields: {{url: {{value: "%{{document.url}}"}}, depth: {{value: "%{{depth}}", type: int}}}}
    links: [{{selector: "a.t" {link}}}, {{selector: "a.l", linkGroup: leaf, priority: {priority}}}]
  leaf: {{fields: {{url: {{value: "%{{document.url}}"}}}}}}
hosts: {{"127.0.0.1": {{robots: false, concurrency: {concurrency}}}}}
"""


def tree(site: Site, group: str = "", link: str = "", priority: int = 0, concurrency: int = 8, leaves: int = 1) -> str:
    """Pages `/t/1`, each leading to `/t/2n` and `/t/2n+1`, and to leaves of its own, seven levels deep."""
    for number in range(1, 128):
        children = f'<a class=t href="/t/{number * 2}">x</a><a class=t href="/t/{number * 2 + 1}">x</a>' * (number < 64)
        site[f"/t/{number}"] = html(
            children + "".join(f'<a class=l href="/l/{number}-{i}">x</a>' for i in range(leaves))
        )
    site.otherwise = lambda asked: Page(html("leaf"))
    return TREE.format(url=site.url("/t/1"), group=group, link=link, priority=priority, concurrency=concurrency)


def test_max_depth_of_a_group_and_of_a_link(house: House, site: Site) -> None:
    house.write(tree(site, group="maxDepth: 3,"))
    done = house.crawl()
    assert max(int(row["depth"]) for row in house.rows("page")) == 3
    assert done.summary["rows"] == {"page": 15, "leaf": 15}
    house.write(tree(site, link=", maxDepth: 2"))
    assert house.crawl().summary["rows"] == {"page": 7, "leaf": 7}


@pytest.mark.parametrize("limit", [1, 10])
def test_max_pages_of_a_group_counts_fetched_pages_and_skips_the_rest(house: House, site: Site, limit: int) -> None:
    house.write(tree(site, group=f"maxPages: {limit},"))
    done = house.crawl()
    assert sum(path.startswith("/t/") for path in site.paths) == limit
    assert done.summary["rows"] == {"page": limit, "leaf": limit}
    skipped = house.query("SELECT DISTINCT reason FROM jobs WHERE state = 'SKIPPED'")
    assert all("maxPages" in reason for (reason,) in skipped)
    assert done.summary["state"] == "DONE"


def test_higher_priority_goes_first(house: House, site: Site) -> None:
    """The leaf of a page is taken right after it, before any page found earlier."""
    text = tree(site, concurrency=1, group="maxDepth: 4,").replace("linkGroup: leaf, priority: 0", "priority: 9")
    house.write(text.replace(", leaf: {page: {dataDef: leaf}}", ""))
    house.crawl(nodes=1)
    paths = site.paths
    assert paths[0] == "/t/1"
    for number in (2, 3, 4):
        at = paths.index(f"/t/{number}")
        assert f"/l/{number}-0" in paths[at : at + 4], paths[:12]


def test_max_pages_stops_in_order_and_the_run_goes_on_later(house: House, site: Site) -> None:
    library = Library(site, shelves=6, books=6)
    house.write(library.defs(concurrency=4))
    done = house.crawl("--max-pages", "10")
    assert done.summary["state"] == "CANCELLED"
    assert done.summary["exit_code"] == 0
    assert done.summary["jobs"]["done"] == len(site.paths) == 10
    assert sum(len(house.rows(name)) for name in ("entry", "book")) == sum(done.summary["rows"].values())
    again = house.crawl("--max-pages", "20")
    assert again.summary["run"] == done.summary["run"]
    assert again.summary["state"] == "CANCELLED"
    assert again.summary["jobs"]["done"] == 20
    last = house.crawl()
    assert last.summary["state"] == "DONE"
    assert house.counted("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)


def test_max_pages_beyond_the_site_is_a_plain_end(house: House, site: Site) -> None:
    library = Library(site, shelves=1)
    house.write(library.defs())
    assert house.crawl("--max-pages", "1000").summary["state"] == "DONE"


def test_max_pages_of_exactly_the_site(house: House, site: Site) -> None:
    library = Library(site, shelves=2)
    house.write(library.defs())
    done = house.crawl("--max-pages", str(library.size))
    assert done.summary["state"] in ("DONE", "CANCELLED")
    assert house.crawl().summary["state"] == "DONE"
    assert done.jobs == {"done": library.size}


def test_max_time_stops_in_order(house: House, site: Site) -> None:
    library = Library(site, shelves=10, books=6, delay=0.15)
    house.write(library.defs(concurrency=1))
    watch, began, allowed = Stopwatch(), time.monotonic(), 1.5 * slowness()
    done = house.crawl("--max-time", f"{allowed:.1f}")
    assert time.monotonic() - began >= allowed - 0.1
    assert watch.seconds() <= 6
    assert done.summary["state"] == "CANCELLED"
    assert 0 < done.summary["jobs"]["done"] < library.size
    house.write(library.defs(concurrency=16))
    house.crawl()
    assert house.counted("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)


@pytest.mark.parametrize("suffix", ["csv", "db"])
def test_output_by_flag(house: House, site: Site, suffix: str) -> None:
    library = Library(site, shelves=2)
    house.write(library.defs())
    house.crawl("-o", f"mine.{suffix}")
    if suffix == "db":
        with sqlite3.connect(house.folder / "mine.db") as db:
            found = [row[0] for row in db.execute("SELECT title FROM entry")]
            assert db.execute("SELECT count(*) FROM book").fetchone() == (10,)
        db.close()
    else:
        found = [row["title"] for row in read_csv(house.folder / "mine-entry.csv")]
        assert len(read_csv(house.folder / "mine-book.csv")) == 10
    assert sorted(found) == sorted(key[1] for key in library.rows() if key[0] == "entry")


def test_output_by_flag_of_one_datadef_is_that_very_file(house: House, site: Site) -> None:
    site["/"] = html("<b>x</b>")
    house.write(defs(site.url("/")))
    house.crawl("-o", "x.csv")
    assert read_csv(house.folder / "x.csv") == [{"url": site.url("/")}]


def test_output_by_flag_survives_a_kill(house: House, site: Site) -> None:
    library = Library(site, shelves=6, books=6, delay=0.1)
    house.write(library.defs(concurrency=4))
    running = house.start("-o", "mine.jsonl")
    assert until(lambda: len(site.paths) > 12)
    running.process.kill()
    running.wait()
    house.assert_nobody_left()
    house.crawl("-o", "mine.jsonl")
    lines = (house.folder / "mine-book.jsonl").read_text("utf-8").splitlines()
    assert sorted(json.loads(line)["isbn"] for line in lines) == sorted(k[1] for k in library.rows() if k[0] == "book")


def test_output_into_a_folder_that_is_not_there_is_told(house: House, site: Site) -> None:
    house.write(Library(site, shelves=1).defs())
    done = house.start("-o", "nowhere/below/x.csv").wait()
    if done.code:
        assert done.code in (2, 3), done.err
        assert "nowhere" in done.err
        assert "Traceback" not in done.err
        assert done.seconds < 10
    else:
        assert list((house.folder / "nowhere" / "below").glob("x-*.csv"))


def test_fresh_begins_anew_and_leaves_the_old_run(house: House, site: Site) -> None:
    library = Library(site, shelves=3)
    house.write(library.defs())
    first = house.crawl("--max-pages", "4")
    site.forget()
    second = house.crawl("--fresh")
    assert second.summary["run"] != first.summary["run"]
    assert house.counted("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)
    third = house.crawl()
    assert third.summary["run"] not in (first.summary["run"], second.summary["run"])


def blocked_output(house: House, site: Site) -> Library:
    library = Library(site, shelves=2)
    house.write(library.defs())
    (house.folder / "x-book.csv").mkdir()
    return library


def test_an_output_that_cannot_be_written_is_told_at_once(house: House, site: Site) -> None:
    blocked_output(house, site)
    running = house.start("-o", "x.csv")
    assert until(lambda: "x-book.csv" in running.err or running.over, 10), running.err
    assert "x-book.csv" in running.err


def test_rows_that_could_not_be_written_are_in_the_next_start(house: House, site: Site) -> None:
    blocked_output(house, site)
    running = house.start("-o", "x.csv")
    assert until(lambda: running.over or (len(site.paths) == 12 and not house.children("node")), 20)
    for _ in range(2):
        running.send(signal.SIGTERM)
        time.sleep(0.3)
    done = running.wait()
    assert done.code in (3, 137, 143), done.err
    assert "Traceback" not in done.err
    assert done.summary["state"] != "DONE"
    house.assert_nobody_left(3)
    (house.folder / "x-book.csv").rmdir()
    again = house.crawl("-o", "x.csv")
    assert again.summary["run"] == done.summary["run"]
    assert len(read_csv(house.folder / "x-book.csv")) == 10
    assert len(site.paths) == 12
