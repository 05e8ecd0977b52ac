"""A user's statement over PostgreSQL reads the crawl's tables, and nothing else of the server."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from signal import SIGINT, default_int_handler, pthread_kill, signal
from typing import Any

import pytest

from crawl_engine.errors import UsageError
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.location import Location, write_location
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.read.query import open_query
from tests.contract.append.harness import until
from tests.postgres_server import PostgresServer

_ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000)"


@pytest.fixture(scope="module")
def folder(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    write_location(folder, Location(postgres.create_database(), "shop"))
    open_databases(folder).close()
    return folder


@pytest.fixture(scope="module")
def db(folder: Path) -> Iterator[Database]:
    with closing(connect(folder / CRAWL)) as opened:
        with opened.transaction():
            opened.execute("INSERT INTO runs (id, created_at, base_url) VALUES ('r1', 1.5, 'http://me:secret@a/')")
            opened.execute("INSERT INTO cookie_jars VALUES (1, 'a', 1, 1, ?)", (b"secret",))
        yield opened


def read(db: Database, sql: str, seconds: float = 20.0) -> list[tuple[Any, ...]]:
    with open_query(db, sql, lambda *_: None, seconds=seconds) as result:
        return list(result.rows)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT id, created_at, base_url FROM runs", [("r1", 1.5, None)]),
        ("TABLE cookie_jars;", [(1, "a", 1, 1, None)]),
        ("SELECT to_json(c) ->> 'jar' FROM cookie_jars AS c -- whole rows, too", [(None,)]),
        ("WITH runs AS (SELECT * FROM runs) SELECT x.b FROM (SELECT base_url FROM runs) AS x (b)", [(None,)]),
        ("SELECT 1 AS a, 2 AS a /* the same name */ ;", [(1, 2)]),
        ("VALUES (date '2026-01-02', interval '1 day', 1.50, NULL, 'x')",
         [("2026-01-02", "1 day", 1.5, None, "x")]),
        ("SELECT i FROM generate_series(1, 2500) AS i ORDER BY i DESC", [(i,) for i in range(2500, 0, -1)]),
    ],
)  # fmt: skip
def test_it_reads_tables_and_columns_with_secrets_are_null(db: Database, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert read(db, sql) == rows


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT jar FROM shop.cookie_jars", "names the schema shop"),
        ('SELECT jar FROM "shop" /**/ . cookie_jars', "names the schema shop"),
        ("SELECT * FROM information_schema.tables", "names the schema information_schema"),
        ("SELECT most_common_vals FROM pg_stats", "names pg_stats"),
        ("SELECT pg_read_file('/etc/passwd')", "names pg_read_file"),
        ("SELECT \"pg_read_file\" ('/etc/passwd')", "names pg_read_file"),
        ("SELECT U&\"pg\\005fread_file\"('/etc/passwd')", "cannot read"),
        ("SELECT E'\\' , lo_get(1) --'", "cannot read"),
        ("/* /* ' */ */ SELECT lo_get(1) --'", "cannot read"),
        ("SELECT 1 --\r, lo_get(1)", "calls the function lo_get"),
        ("SELECT public.f(1)", "names f"),
        ("SELECT table_to_xml('shop.cookie_jars', true, true, '')", "calls the function table_to_xml"),
        ("SELECT query_to_xml('TABLE shop.cookie_jars', true, true, '')", "calls the function query_to_xml"),
        ("SELECT current_setting('data_directory')", "calls the function current_setting"),
        ("SELECT set_config('search_path', 'public', false)", "calls the function set_config"),
        ("COPY runs TO PROGRAM 'cat'", "COPY: `query` only reads"),
        ("DELETE FROM runs", "DELETE: `query` only reads"),
        ("WITH gone AS (DELETE FROM runs RETURNING 1) SELECT * FROM gone", "data-modifying"),
        ("SELECT 1 FROM jobs FOR UPDATE", "read-only transaction"),
        ("SELECT 1; DELETE FROM runs", "more than one statement"),
        ("  -- nothing\n ;", "it gives no rows"),
        ("SELECT missing FROM runs", 'column "missing" does not exist'),
        ("SELECT $1", "cannot read"),
        ("SELECT 1 / 0", "division by zero"),
    ],
)
def test_anything_else_is_refused(db: Database, sql: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read(db, sql)
    assert read(db, "SELECT count(*) FROM runs") == [(1,)]


def test_a_long_statement_is_stopped(db: Database) -> None:
    with pytest.raises(UsageError, match=r"stopped after 0\.2 s"):
        read(db, _ENDLESS, seconds=0.2)


def test_ctrl_c_stops_it_at_the_server(db: Database, folder: Path) -> None:
    main = threading.get_ident()
    running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SET LOCAL%FETCH%'"

    def interrupt() -> None:
        with closing(connect(folder / CRAWL)) as other:
            assert until(lambda: other.value(running) == 1)
        pthread_kill(main, SIGINT)

    before = signal(SIGINT, default_int_handler)  # another test may have left its own
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            read(db, _ENDLESS)
    finally:
        signal(SIGINT, before)
    assert db.value(running) == 0
