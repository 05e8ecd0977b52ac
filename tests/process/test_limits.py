"""Limits and output flags: maxPages, maxDepth, priority, --max-pages, --max-time, -o, --fresh."""

import json
import sqlite3
import threading
import time
from dataclasses import replace

import pytest

from .library import Library
from .project import Project, read_csv, until
from .shared_crawl import Part, shared
from .site import Page, Site, html
from .stopwatch import Stopwatch, slowness
from .test_politeness import defs

pytestmark = pytest.mark.timeout(60)
MANY = ("--max-pages", "1000")

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
    """A binary tree of pages from `/t/1`, seven levels deep; each page also links to its own leaves."""
    for number in range(1, 128):
        children = f'<a class=t href="/t/{number * 2}">x</a><a class=t href="/t/{number * 2 + 1}">x</a>' * (number < 64)
        site[f"/t/{number}"] = html(
            children + "".join(f'<a class=l href="/l/{number}-{i}">x</a>' for i in range(leaves))
        )
    site.fallback = lambda request: Page(html("leaf"))
    return TREE.format(url=site.url("/t/1"), group=group, link=link, priority=priority, concurrency=concurrency)


@pytest.mark.sweep
def test_max_depth_of_a_group_and_of_a_link(project: Project, site: Site) -> None:
    project.write(tree(site, group="maxDepth: 3,"))
    done = project.crawl()
    assert max(int(row["depth"]) for row in project.rows("page")) == 3
    assert done.summary["rows"] == {"page": 15, "leaf": 15}
    project.write(tree(site, link=", maxDepth: 2"))
    assert project.crawl().summary["rows"] == {"page": 7, "leaf": 7}


def ends_at_max_pages_of_a_group(site: Site, limit: int) -> Part:
    crawl = yield tree(site, group=f"maxPages: {limit},")
    assert sum(path.startswith("/t/") for path in site.paths) == limit
    assert len(crawl.rows("page")) == len(crawl.rows("leaf")) == limit
    for name in ("page", "leaf"):
        assert crawl.done.summary["rows"][crawl.prefix + name] == limit
    assert all("maxPages" in job["reason"] for job in crawl.all_jobs() if job["state"] == "SKIPPED")
    assert crawl.done.summary["state"] == "DONE"


@shared(*MANY)
def test_one_page_of_a_group_is_fetched(site: Site) -> Part:
    yield from ends_at_max_pages_of_a_group(site, 1)


@shared(*MANY)
def test_max_pages_of_a_group_counts_fetched_pages_and_skips_the_rest(site: Site) -> Part:
    yield from ends_at_max_pages_of_a_group(site, 10)


def test_higher_priority_goes_first(project: Project, site: Site) -> None:
    """The leaf of a page is fetched before pages found earlier, but for those that the node holds already."""
    text = tree(site, concurrency=1, group="maxDepth: 4,").replace("linkGroup: leaf, priority: 0", "priority: 9")
    project.write(text.replace(", leaf: {page: {dataDef: leaf}}", ""))
    project.crawl(nodes=1)
    paths = site.paths
    assert paths[0] == "/t/1"
    for number in (2, 3, 4):
        at = paths.index(f"/t/{number}")
        assert f"/l/{number}-0" in paths[at : at + 7], paths[:16]


def test_max_pages_stops_gracefully_and_the_run_can_be_resumed(project: Project, site: Site) -> None:
    library = Library(site, shelves=6, books=6)
    project.write(library.defs(concurrency=4))
    done = project.crawl("--max-pages", "10")
    assert done.summary["state"] == "CANCELLED"
    assert done.summary["exit_code"] == 0
    assert done.summary["jobs"]["done"] == len(site.paths) == 10
    assert sum(len(project.rows(name)) for name in ("entry", "book")) == sum(done.summary["rows"].values())
    again = project.crawl("--max-pages", "20")
    assert again.summary["run"] == done.summary["run"]
    assert again.summary["state"] == "CANCELLED"
    assert again.summary["jobs"]["done"] == 20
    last = project.crawl()
    assert last.summary["state"] == "DONE"
    assert project.count_rows("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)


@shared(*MANY)
def test_max_pages_larger_than_the_site_is_a_natural_end(site: Site) -> Part:
    crawl = yield Library(site, shelves=1).defs()
    assert crawl.done.summary["state"] == "DONE"
    assert crawl.done.code == 0


@pytest.mark.sweep
def test_max_pages_of_exactly_the_site(project: Project, site: Site) -> None:
    library = Library(site, shelves=2)
    project.write(library.defs())
    done = project.crawl("--max-pages", str(library.size))
    assert done.summary["state"] in ("DONE", "CANCELLED")
    assert project.crawl().summary["state"] == "DONE"
    assert done.jobs == {"done": library.size}


@pytest.mark.sweep
def test_max_time_stops_gracefully(project: Project, site: Site) -> None:
    library = Library(site, shelves=10, books=6, delay=0.15)
    project.write(library.defs(concurrency=1))
    watch, started_at, allowed = Stopwatch(), time.monotonic(), 1.5 * slowness()
    done = project.crawl("--max-time", f"{allowed:.1f}")
    assert time.monotonic() - started_at >= allowed - 0.1
    assert watch.seconds() <= 6
    assert done.summary["state"] == "CANCELLED"
    assert 0 < done.summary["jobs"]["done"] < library.size
    project.write(library.defs(concurrency=16))
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)


@pytest.mark.parametrize("suffix", ["csv", "db"])
def test_output_by_flag(project: Project, site: Site, suffix: str) -> None:
    library = Library(site, shelves=2)
    project.write(library.defs())
    project.crawl("-o", f"mine.{suffix}")
    if suffix == "db":
        with sqlite3.connect(project.folder / "mine.db") as db:
            titles = [row[0] for row in db.execute("SELECT title FROM entry")]
            assert db.execute("SELECT count(*) FROM book").fetchone() == (10,)
        db.close()
    else:
        titles = [row["title"] for row in read_csv(project.folder / "mine-entry.csv")]
        assert len(read_csv(project.folder / "mine-book.csv")) == 10
    assert sorted(titles) == sorted(key[1] for key in library.rows() if key[0] == "entry")


def test_output_by_flag_of_one_datadef_is_exactly_that_file(project: Project, site: Site) -> None:
    site["/"] = html("<b>x</b>")
    project.write(defs(site.url("/")))
    project.crawl("-o", "x.csv")
    assert read_csv(project.folder / "x.csv") == [{"url": site.url("/")}]


@pytest.mark.sweep
def test_output_by_flag_survives_a_kill(project: Project, site: Site) -> None:
    library = Library(site, shelves=6, books=6, delay=0.1)
    project.write(library.defs(concurrency=4))
    running = project.start("-o", "mine.jsonl")
    assert until(lambda: len(site.paths) > 12)
    running.process.kill()
    running.wait()
    project.assert_no_process_left()
    project.crawl("-o", "mine.jsonl")
    lines = (project.folder / "mine-book.jsonl").read_text("utf-8").splitlines()
    assert sorted(json.loads(line)["isbn"] for line in lines) == sorted(k[1] for k in library.rows() if k[0] == "book")


def test_output_into_a_missing_folder_is_created_or_reported(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    done = project.start("-o", "nowhere/below/x.csv").wait()
    if done.code:
        assert done.code in (2, 3), done.err
        assert "nowhere" in done.err
        assert "Traceback" not in done.err
        assert done.seconds < 10
    else:
        assert list((project.folder / "nowhere" / "below").glob("x-*.csv"))


@pytest.mark.sweep
def test_fresh_starts_a_new_run_and_keeps_the_old_one(project: Project, site: Site) -> None:
    library = Library(site, shelves=3)
    project.write(library.defs())
    first = project.crawl("--max-pages", "4")
    site.clear_log()
    second = project.crawl("--fresh")
    assert second.summary["run"] != first.summary["run"]
    assert project.count_rows("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)
    third = project.crawl()
    assert third.summary["run"] not in (first.summary["run"], second.summary["run"])


def test_an_output_that_cannot_be_written_is_reported_at_once(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=2).defs())
    (project.folder / "x-book.csv").mkdir()
    running = project.start("-o", "x.csv")
    assert until(lambda: "x-book.csv" in running.err or running.exited, 10), running.err
    assert "x-book.csv" in running.err
    assert running.wait().code == 2


@pytest.mark.sweep
def test_rows_that_could_not_be_written_are_written_at_the_next_start(project: Project, site: Site) -> None:
    library, hold = Library(site, shelves=2), threading.Event()
    project.write(library.defs())
    for path in library.pages:
        page = site.pages[path]
        assert isinstance(page, Page)
        site[path] = replace(page, hold=hold)
    running = project.start("-o", "x.csv")
    assert until(lambda: site.paths)
    (project.folder / "x-book.csv").unlink(missing_ok=True)
    (project.folder / "x-book.csv").mkdir()
    hold.set()
    done = running.wait()
    assert done.code == 3, done.err
    assert "Traceback" not in done.err
    assert done.summary["state"] != "DONE"
    project.assert_no_process_left(3)
    (project.folder / "x-book.csv").rmdir()
    again = project.crawl("-o", "x.csv")
    assert again.summary["run"] == done.summary["run"]
    assert len(read_csv(project.folder / "x-book.csv")) == 10
    assert len(site.paths) == 12
