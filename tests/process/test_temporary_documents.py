"""A group with `documents: false` keeps its pages until its run ends, and no longer."""

import contextlib
import random
import signal
import sqlite3

import pytest

from crawl_console.tui.state.live_preview import LivePreview
from crawl_engine.settings import Settings

from .library import Library
from .project import Project, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)


def defs_of(library: Library, *, shared: bool = False) -> str:
    """The library's defs; its books are not kept. `shared`: a group that keeps documents has the first book."""
    text = library.defs().replace("books: {page:", "books: {documents: false, page:")
    if shared:
        group = f'{{locators: [{{url: "{library.site.url("/book/0-0")}"}}]}}'
        text = text.replace("locatorGroups:\n", f"locatorGroups:\n  kept: {group}\n")
        text = text.replace("taskGroups:\n", "taskGroups:\n  kept: {page: {dataDef: nothing}}\n")
    return text


def stored_paths(project: Project, site: Site) -> set[str]:
    """The paths of the documents whose bodies are stored."""
    pages = {page for (page,) in project.query("SELECT id FROM pages", "pages.db")}
    documents = project.query("SELECT id, url FROM documents")
    return {str(url).removeprefix(site.url("")) for id_, url in documents if id_ in pages}


def shelves(library: Library) -> set[str]:
    return {f"/shelf/{shelf}" for shelf in range(library.shelves)}


@pytest.mark.quick
def test_bodies_are_deleted_at_the_end_of_the_run(project: Project, site: Site) -> None:
    library = Library(site)
    project.write(defs_of(library))
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()
    assert stored_paths(project, site) == shelves(library)
    assert project.query("SELECT count(*) FROM temporary_documents") == [(0,)]
    assert project.query("SELECT count(*) FROM documents WHERE pruned") == [(20,)], "what was answered is still there"
    site.clear_log()
    project.crawl()
    assert len(site.paths) == library.size, "nothing is reused"
    assert stored_paths(project, site) == shelves(library)


@pytest.mark.sweep
def test_the_disk_space_is_reused_by_the_next_run(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=20)
    noise = random.Random(1)
    for book in range(20):
        site[f"/book/0-{book}"] = Page(html(f"<b>{book}</b><p>{noise.randbytes(40_000).hex()}"))
    project.write(defs_of(library))
    project.crawl()
    file = project.data / "pages.db"
    size = file.stat().st_size
    assert size > 20 * 40_000
    project.crawl()
    assert file.stat().st_size < size * 1.2


def test_a_document_that_another_group_uses_is_kept(project: Project, site: Site) -> None:
    library = Library(site)
    project.write(defs_of(library, shared=True))
    project.crawl()
    assert stored_paths(project, site) == {*shelves(library), "/book/0-0"}
    assert len(site.paths) == library.size


@pytest.mark.quick
def test_an_interrupted_run_keeps_its_documents_until_it_is_finished(project: Project, site: Site) -> None:
    library = Library(site, shelves=4, books=5, delay=0.05)
    project.write(defs_of(library).replace("concurrency: 16", "concurrency: 2"))
    running = project.start()
    assert until(lambda: project.data.joinpath("crawl.db").exists() and len(site.paths) > 8)
    running.send(signal.SIGINT)
    running.wait()
    assert project.query("SELECT count(*) > 0 FROM temporary_documents") == [(1,)]
    assert stored_paths(project, site) - shelves(library), "they are needed when the run is resumed"
    project.crawl()
    assert project.query("SELECT count(*) FROM runs") == [(1,)]
    assert project.count_rows("entry", "book") == library.rows()
    assert stored_paths(project, site) == shelves(library)


@pytest.mark.sweep
def test_what_a_kill_left_is_deleted_at_the_next_start(project: Project, site: Site) -> None:
    library = Library(site)
    project.write(library.defs())
    project.crawl()
    project.write(defs_of(library))
    documents = project.query("SELECT d.id FROM documents d WHERE d.url LIKE '%/book/%'")
    with contextlib.closing(sqlite3.connect(project.data / "crawl.db")) as db, db:
        db.executemany("INSERT INTO temporary_documents VALUES (1, ?, 'gone')", documents)
    assert len(stored_paths(project, site)) == library.size
    project.crawl()
    assert stored_paths(project, site) == shelves(library)
    assert project.query("SELECT count(*) FROM temporary_documents") == [(0,)]


@pytest.mark.sweep
def test_commands_say_why_pages_cannot_be_used(project: Project, site: Site) -> None:
    library = Library(site)
    project.write(defs_of(library))
    project.crawl()
    reason = "the documents of the group books were deleted (`documents: false`, or `pages prune`)"
    edited = defs_of(library).replace("isbn: {selector: b,", 'isbn: {selector: b, match: "ISBN (.*)",')
    project.write(edited)
    planned = project.run_with_data("plan", "--defs", str(project.defs))
    assert f"{reason}: 20 pages would keep their rows" in planned.out, planned
    planned = project.run_with_data("plan", "--json", "--defs", str(project.defs))
    assert planned.summary["pruned"] == {"books": 20}
    [(job,)] = project.query("SELECT min(id) FROM jobs WHERE url LIKE '%/book/%'")
    tried = project.run_with_data("try", "book", "--job", str(job), "--defs", str(project.defs))
    assert (tried.code, reason in tried.err) == (1, True), tried
    lines = LivePreview(project.data, project.defs, "book", Settings()).evaluate()
    assert lines[0][0] == f"no stored page of book: {reason}"
    rows = project.query("SELECT id, data FROM rows")
    extracted = project.run_with_data("extract", "--defs", str(project.defs))
    assert extracted.code == 1, "none of the pages could be re-extracted"
    assert f"{reason}: 20 pages keep their rows" in extracted.err, extracted
    assert project.query("SELECT id, data FROM rows") == rows


def test_pages_are_re_extracted_while_the_run_lasts(project: Project, site: Site) -> None:
    library = Library(site, delay=0.05)
    project.write(defs_of(library).replace("concurrency: 16", "concurrency: 1"))
    running = project.start()
    assert until(lambda: len(site.paths) > 8)
    project.write(
        defs_of(library)
        .replace("concurrency: 16", "concurrency: 1")
        .replace("isbn: {selector: b,", 'isbn: {selector: b, match: "ISBN (.*)",')
    )
    done = running.wait()
    assert done.code == 0, done.err
    assert len(site.paths) == library.size
    assert {row["isbn"] for row in project.rows("book")} == {f"{s:03d}-{b}" for s in range(4) for b in range(5)}
    assert stored_paths(project, site) == shelves(library)
