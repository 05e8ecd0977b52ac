"""Crawls whose rows go to databases: PostgreSQL is away or crashes, the crawl is killed; every row is there once."""

from collections import Counter

import pytest

from tests.postgres_server import PostgresServer

from .killed_crawl import kill
from .library import Library
from .project import Project, until
from .site import Site

pytestmark = pytest.mark.timeout(180)


def write_project(project: Project, library: Library, url: str) -> None:
    server = f"  server: {{type: postgresql, url: '{url}', limit: 5}}\n"
    project.write(library.defs(more=f"appenders:\n  rows: {{type: csv}}\n{server}", concurrency=4))


def assert_exact(project: Project, postgres: PostgresServer, database: str) -> None:
    for name in ("shelf", "book"):
        stored = project.query(f"SELECT r.id FROM rows r JOIN data_defs d ON d.id = r.data_def WHERE d.name = '{name}'")
        if stored:
            found = postgres.execute(database, f'SELECT _row FROM "{name}"')
            assert Counter(found) == Counter(stored), name


@pytest.mark.quick
def test_a_server_that_crashes_and_an_appender_that_is_killed_leave_exact_tables(
    project: Project, site: Site, postgres: PostgresServer, database: str
) -> None:
    library = Library(site, shelves=8, books=6, delay=0.1)
    write_project(project, library, database)
    running = project.start(nodes=1)
    assert until(lambda: len(site.paths) > 12, 30)
    postgres.stop("immediate")
    try:
        assert until(lambda: any(output["error"] for output in project.status()["appenders"]), 30)
        kill(*project.children("appender"))
    finally:
        postgres.start()
    done = running.wait(90)
    assert done.code == 0, done.err
    assert_exact(project, postgres, database)


def test_a_server_that_is_away_fails_the_run_and_the_next_one_sends_the_rest(
    project: Project, site: Site, postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "s3cr/t:pw")
    library = Library(site, shelves=3, books=4)
    write_project(project, library, database.replace("postgres@", "postgres:%{env.PW}@"))
    postgres.stop()
    try:
        done = project.start("--set", "send_drain=1", nodes=1).wait(60)
    finally:
        postgres.start()
    assert done.code == 3, done.err
    assert ": connection is bad: connection to server on socket" in done.err
    assert "lacks rows" in done.err
    assert (
        "its rows wait, and are sent when it answers"
        in project.query("SELECT text FROM events WHERE kind = 'output'")[0][0]
    )
    asked = len(site.paths)
    done = project.start(nodes=1).wait(60)
    assert done.code == 0, done.err
    assert len(site.paths) == asked, "the next run sends without fetching"
    assert_exact(project, postgres, database)
    for path in project.data.rglob("*"):
        if path.is_file() and not path.is_socket():
            content = path.read_bytes()
            assert b"s3cr/t" not in content, path
            assert b"s3cr%2Ft" not in content, path


def test_a_table_that_does_not_fit_is_refused_before_anything_is_fetched(
    project: Project, site: Site, postgres: PostgresServer, database: str
) -> None:
    library = Library(site, shelves=2, books=2)
    write_project(project, library, database)
    postgres.execute(database, "CREATE TABLE book (path integer)")
    done = project.start(nodes=1).wait(30)
    assert done.code == 2
    assert "the table book does not fit: the column path is integer, and its field needs text" in done.err
    assert not site.paths
