"""Fetched pages get the rows of the new defs without a request, the same as in a fresh crawl."""

import signal
import sqlite3
import threading
from collections import Counter
from pathlib import Path

import pytest

from .gated_crawl import (
    GatedCrawl,
    crawl_from_scratch,
    defs_version,
    events,
    outputs,
    read_defs,
    reextraction_finished,
    with_changed_field,
)
from .library import Library
from .project import Project, until
from .site import Page, Site, html
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def gated(project: Project, site: Site) -> GatedCrawl:
    return GatedCrawl(project, site)


def test_a_changed_field_reaches_pages_already_fetched(
    gated: GatedCrawl, project: Project, site: Site, tmp_path: Path
) -> None:
    running = gated.start()
    site.clear_log()
    text = with_changed_field(gated.library.defs())
    gated.write(text)
    assert until(lambda: defs_version(project) == 2)
    assert until(lambda: reextraction_finished(project))
    assert project.query(
        "SELECT DISTINCT j.defs FROM jobs j JOIN sequences s ON s.id = j.sequence"
        " WHERE s.grp = 'books' AND s.kind = 'page'"
    ) == [(2,)]
    assert until(lambda: outputs_have(project, "book.csv", "isbn,short,path"))
    assert site.paths == [], "no page was requested again"
    gated.finish(running)
    rows = project.rows("book")
    assert sorted(row["isbn"] for row in rows) == sorted(f"{s:03d}-{b}" for s in range(3) for b in range(4))
    assert any(
        text.startswith("defs v1 → v2: book: 1 field changed, 1 field added, 12 pages to re-extract")
        for text in events(project)
    ), events(project)
    other = tmp_path / "other"
    other.mkdir()
    assert outputs(project) == outputs(crawl_from_scratch(project, site, read_defs(project), other))


def outputs_have(project: Project, name: str, header: str) -> bool:
    return project.output(name).read_text("utf-8").startswith(header)


def test_a_page_in_flight_ends_with_the_new_rows(project: Project, site: Site) -> None:
    hold = threading.Event()
    library = Library(site, shelves=1, books=3)
    for book in range(3):
        site[f"/book/0-{book}"] = Page(html(f"<b>ISBN 000-{book}</b>"), hold=hold)
    project.write(library.defs())
    running = project.start()
    assert until(lambda: len(site.paths) == 4)
    project.write(with_changed_field(library.defs()))
    assert until(lambda: defs_version(project) == 2)
    hold.set()
    done = running.wait()
    assert done.code == 0
    project.assert_clean(done)
    assert {tuple(row.values())[:2] for row in project.rows("book")} == {(f"000-{b}", "1") for b in range(3)}
    assert done.summary["rows"]["book"] == 3


@pytest.mark.sweep
def test_vanished_rows_are_reported(gated: GatedCrawl, project: Project, site: Site) -> None:
    running = gated.start()
    gated.write(gated.library.defs().replace("isbn: {selector: b,", "isbn: {selector: blink,"))
    assert until(lambda: defs_version(project) == 2)
    assert until(lambda: reextraction_finished(project))
    gated.finish(running, code=1)  # each record of a dataDef was rejected
    assert project.rows("book") == []
    assert any("book: matches nothing any more, its 12 rows are gone" in t for t in events(project)), events(project)
    assert len(project.rows("entry")) == 12


def test_a_missing_document_keeps_its_rows(gated: GatedCrawl, project: Project, site: Site) -> None:
    running = gated.start()
    (page,) = project.query(f"SELECT document FROM jobs WHERE url = '{site.url('/book/1-1')}'")[0]
    with sqlite3.connect(project.data / "pages.db") as db:
        db.execute("DELETE FROM pages WHERE id = ?", (page,))
    db.close()
    gated.write(with_changed_field(gated.library.defs()))
    assert until(lambda: defs_version(project) == 2)
    gated.finish(running)
    assert sorted(row["isbn"] for row in project.rows("book")).count("ISBN 001-1") == 1
    assert len(project.rows("book")) == 12
    assert any("1 page could not be re-extracted and keep" in t for t in events(project)), events(project)


@pytest.mark.sweep
def test_new_only_leaves_done_pages_alone(project: Project, site: Site) -> None:
    gated = GatedCrawl(project, site)
    running = gated.start("--set", "on_reload=new_only")
    site["/book/0-9"] = html("<b>ISBN 999-9</b>")
    text = with_changed_field(read_defs(project)).replace(
        "locatorGroups:", f'locatorGroups:\n  books: {{locators: [{{url: "{site.url("/book/0-9")}"}}]}}'
    )
    project.write(text)
    assert until(lambda: site.count("/book/0-9") == 1)
    gated.finish(running)
    rows = project.rows("book")
    assert list(rows[0]) == ["isbn", "path", "short"], "the columns of both versions, those of the old defs first"
    assert Counter(row["short"] for row in rows) == {"": 12, "0": 1}


@pytest.mark.sweep
def test_extract_on_a_done_run(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    text = library.defs().replace('      - {selector: "a.next", linkGroup: shelves}\n', "")
    project.write(text)
    first = project.crawl().summary["run"]
    site.clear_log()
    project.write(with_changed_field(text))
    done = project.run_with_data("extract", "--defs", str(project.defs), "--json", seconds=45)
    assert done.code == 0, done.err
    assert done.summary["state"] == "DONE"
    assert done.summary["run"] == first
    assert site.exchanges == []
    assert {row["isbn"] for row in project.rows("book")} == {f"000-{b}" for b in range(3)}
    project.write(with_changed_field(library.defs()))  # follows the link to the next shelf
    done = project.run_with_data("extract", "--defs", str(project.defs), "--json", seconds=45)
    assert done.code == 0, done.err
    assert done.summary["state"] == "CANCELLED"
    assert done.jobs == {"done": 4, "ready": 1}
    assert site.exchanges == []
    assert project.crawl().summary["run"] == first
    assert len(project.rows("book")) == 6
    site.clear_log()
    again = project.run_with_data("extract", "book", "--defs", str(project.defs), "--json", seconds=45)
    assert again.code == 0, again.err
    assert "6 pages to re-extract" in again.err
    assert len(project.rows("book")) == 6
    assert site.exchanges == []
    assert project.run_with_data("extract", "bok", "--defs", str(project.defs)).code == 2
    project.assert_clean()


def test_extract_without_a_run_says_so(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    done = project.run_with_data("extract", "--defs", str(project.defs))
    assert done.code == 2
    assert "nothing was crawled here" in done.err
    assert not project.data.exists()


@pytest.mark.sweep
def test_hosts_do_not_slow_a_re_extraction(project: Project, site: Site) -> None:
    gated = GatedCrawl(project, site, shelves=4, books=10)
    running = gated.start()
    slow = with_changed_field(read_defs(project)).replace("delay: 0}", "delay: 5}")
    project.write(slow)
    assert until(lambda: defs_version(project) == 2)
    watch = Stopwatch()
    assert until(lambda: reextraction_finished(project), 30), project.describe_state()
    assert watch.seconds() < 4
    gated.finish(running)
    assert len(project.rows("book")) == 40


@pytest.mark.sweep
def test_re_extraction_resumes_after_a_supervisor_kill(project: Project, site: Site) -> None:
    gated = GatedCrawl(project, site, shelves=6, books=20)
    running = gated.start()
    gated.write(with_changed_field(gated.library.defs()))
    assert until(lambda: defs_version(project) == 2)
    running.send(signal.SIGKILL)
    running.process.wait()
    project.assert_no_process_left(15)
    gated.hold.set()
    project.crawl()
    assert len(project.rows("book")) == 120
    assert all(row["isbn"][:4] != "ISBN" for row in project.rows("book"))


@pytest.mark.extended
@pytest.mark.parametrize("lead", ["series", "next"])
def test_pages_that_follow_one_another_are_found_again_by_their_request(
    project: Project, site: Site, lead: str
) -> None:
    """A form with a series, and a chain for an account: the request of a page is part of the keys of the next ones."""
    site.fallback = lambda request: Page(
        html(f"<p class=p><b>{request.body.decode() or request.path}</b></p>")
        if (request.body or request.path.encode())[-1:] <= b"3"
        else html("none")
    )
    numbers = "xpath://b/text()"
    locator, more = {
        "series": ('url: /c, form: {page: "{1..}"}, until: empty', ""),
        "next": (f'url: "{site.url("/n?a=1").replace("//", "//ann:pw@")}"', "next: {a: 1}"),
    }[lead]

    def write(fields: str) -> None:
        project.write(
            f"baseUrl: {site.url('/')}\nlocatorGroups: {{g: {{locators: [{{{locator}}}]}}}}\n"
            "taskGroups: {g: {page: {dataDef: item}}}\n"
            f"dataDefs:\n  item:\n    query: {{block: .p}}\n    fields: {{{fields}}}\n    {more}\n"
            'hosts: {"127.0.0.1": {robots: false}}\n'
        )

    write("at: {selector: b}")
    project.crawl()
    rows, asked = project.count_rows("item"), len(site.paths)
    assert sum(rows.values()) == 3
    write(f"at: {{selector: '{numbers}'}}")
    assert project.run_command("extract", "item", "--defs", str(project.defs)).code == 0
    assert project.count_rows("item") == rows
    assert project.query("SELECT count(*) FROM jobs WHERE state <> 'DONE'") == [(0,)]
    assert len(site.paths) == asked
