"""Data dirs of every schema since 2, kept as SQL: today's program continues their crawl exactly, on today's schema."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL, PAGES, migrate_databases
from tests.contract.store.test_migrations import shape
from tests.data.kept_crawl import DISALLOWED, DUMPS, HELD, KeptCrawl, load_dump, serve_kept_crawl
from tests.sample import sampled

from .project import Project

pytestmark = pytest.mark.timeout(120)

KEPT = sorted(path.parent for path in DUMPS.glob("schema-*/*/crawl.sql"))
# of every other schema, and of the newest, one data dir; the others in the sweep
SAMPLED = sampled(KEPT, *(i for i in range(len(KEPT)) if i % 8 in (0, 5)), len(KEPT) - 1)


@pytest.fixture
def crawl() -> Iterator[KeptCrawl]:
    with serve_kept_crawl() as crawl:
        yield crawl


def paths_in_state(data: Path, crawl: KeptCrawl, run: int, *states: str) -> set[str]:
    """The pages of a run whose jobs are in these states."""
    db = Database.open(data / CRAWL, read_only=True)
    marks = ",".join("?" * len(states))
    urls = db.all(f"SELECT url FROM jobs WHERE run = ? AND state IN ({marks})", (run, *states))
    db.close()
    return {str(url).removeprefix(crawl.site.url("")) for (url,) in urls} - {"/robots.txt"}


@pytest.mark.parametrize("dump", SAMPLED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_kept_data_dir_is_continued_exactly(project: Project, crawl: KeptCrawl, dump: Path, tmp_path: Path) -> None:
    load_dump(dump, project.data)
    project.write(crawl.defs())
    ended = paths_in_state(project.data, crawl, 2, "DONE", "FAILED", "SKIPPED")
    first_run = project.query("SELECT id, data FROM rows WHERE run = 1 ORDER BY id")
    assert len(ended) > 5
    assert not ended & set(HELD)
    assert len(first_run) > 10

    project.crawl(code=1)

    assert sorted(crawl.site.paths) == sorted(crawl.pages() - ended), "each page that was left, once"
    assert project.count_rows("entry", "book") == crawl.rows()
    assert project.output("book.jsonl").read_bytes().count(b"\n") == len(project.rows("book"))
    assert paths_in_state(project.data, crawl, 2, "DONE", "FAILED") == crawl.pages()
    assert paths_in_state(project.data, crawl, 2, "SKIPPED") == {DISALLOWED}
    assert project.query("SELECT id, data FROM rows WHERE run = 1 ORDER BY id") == first_run
    assert project.query("SELECT count(*), max(defs_version) FROM runs") == [(2, 1)], "the defs did not change"
    assert project.run_with_data("export", "book").out.count("\n") == 1 + len(project.rows("book"))

    fresh = tmp_path / "fresh"
    fresh.mkdir()
    migrate_databases(fresh)
    for name in (CRAWL, PAGES):
        assert shape(project.data / name) == shape(fresh / name)


@pytest.mark.sweep
def test_stored_pages_of_a_kept_data_dir_are_extracted_again(project: Project, crawl: KeptCrawl) -> None:
    """What earlier programs stored of the pages and their defs is read: no page is fetched again."""
    load_dump(KEPT[-1], project.data)
    project.write(crawl.defs())
    project.crawl(code=1)
    crawl.site.clear_log()
    project.write(crawl.defs().replace("isbn: {selector: b, required: true}", 'isbn: {selector: b, match: "[0-9-]+"}'))
    done = project.start_command("extract", "--defs", str(project.defs), "--data", str(project.data)).wait()
    assert done.code in (0, 1), done.err
    assert crawl.site.paths == []
    expected = sorted(row[1].removeprefix("ISBN ") for row in crawl.rows() if row[0] == "book")
    assert sorted(row["isbn"] for row in project.rows("book")) == expected


@pytest.mark.sweep
def test_a_run_with_passwords_in_the_urls_of_its_jobs_is_not_resumed(project: Project, crawl: KeptCrawl) -> None:
    """Its jobs have other identities than those that its locators give today: each page would be fetched twice."""
    load_dump(next(path for path in KEPT if path.parent.name == "schema-2"), project.data)
    with closing(sqlite3.connect(project.data / CRAWL)) as db, db:
        db.execute("UPDATE jobs SET url = replace(url, '://', '://us:pw@') WHERE run = 2 AND origin = 'locator'")
    project.write(crawl.defs())
    for _ in range(2):
        refused = project.start().wait()
        assert refused.code == 2
        assert "--fresh" in refused.err
        assert "us:pw" not in refused.err
    assert crawl.site.paths == []
    project.start("--fresh").wait()
    assert set(crawl.site.paths) == crawl.pages()
    assert project.query("SELECT value FROM meta WHERE name = 'sealed_run'") == [("3",)]


def test_status_reads_no_other_schema_in_silence(project: Project, tmp_path: Path) -> None:
    for name in (CRAWL, PAGES):
        project.data.mkdir(exist_ok=True)
        with closing(sqlite3.connect(project.data / name)) as old:
            old.executescript((DUMPS / "schema-1" / name.replace(".db", ".sql")).read_text("utf-8"))
    done = project.run_with_data("status")
    assert done.code == 3
    assert "made by an older crawl-console (schema 1 of " in done.err
    assert "bug" not in done.err
    assert project.run_with_data("jobs").code == 0
    with closing(sqlite3.connect(project.data / CRAWL)) as newer:
        newer.execute("PRAGMA user_version = 99")
    for command in ("status", "jobs", "runs", "export", "state"):
        done = project.run_with_data(command)
        assert done.code == 3, command
        assert "made by a newer crawl-console (schema 99" in done.err
