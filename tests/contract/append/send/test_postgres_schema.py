"""Tables that exist already: what is added to them, and what is refused."""

from contextlib import closing
from pathlib import Path

import pytest

from crawl_engine.append.send.postgres import prepare_tables
from crawl_engine.append.send.postgres_table import PostgresTable, UnfitTable
from crawl_engine.append.send.sent_rows import DataDir
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.output_type import AppenderDef
from crawl_engine.supervise.outputs import output_settings
from tests.contract.append.harness import books
from tests.contract.append.send.postgres_harness import FIELDS, PostgresHarness
from tests.postgres_server import PostgresServer


def table_of(*fields: Field, key: tuple[str, ...] = (), name: str = "book") -> PostgresTable:
    data_def = DataDef(name=name, fields=fields or FIELDS, key=key)
    return PostgresTable(name, output_settings(data_def, AppenderDef(name="x", type="postgresql", kind="sender")))


def prepare(url: str, table: PostgresTable, last: int = 10**9) -> str:
    return prepare_tables(url, [table], DataDir("d1", "/data"), last, limit=5)


def test_missing_columns_are_added_and_others_stay(tmp_path: Path, postgres: PostgresServer, database: str) -> None:
    postgres.execute(database, "CREATE TABLE book (id serial PRIMARY KEY, title varchar, at timestamptz DEFAULT now())")
    postgres.execute(database, "INSERT INTO book (title) VALUES ('mine')")
    harness = PostgresHarness(tmp_path, database)
    harness.add(books(3))
    harness.deliver()
    assert harness.query("SELECT count(*), count(at), count(_row), count(price) FROM book") == [(4, 4, 3, 3)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("title integer", "the column title is integer, and its field needs text"),
        ("price double precision", "the column price is double precision, and its field needs numeric"),
        ("stock text[]", "the column stock is text[], and its field needs boolean"),
        ("_row integer", "the column _row is integer, not bigint"),
        ("mine text NOT NULL", "the column mine must have a value, and no field gives one"),
        ("title text GENERATED ALWAYS AS ('x') STORED", "the column title is generated"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    postgres: PostgresServer, database: str, columns: str, message: str
) -> None:
    postgres.execute(database, f"CREATE TABLE book ({columns})")
    with pytest.raises(UnfitTable) as caught:
        prepare(database, table_of())
    assert caught.value.message == f"the table book does not fit: {message}"
    assert postgres.execute(database, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'book'::regclass"
                            " AND attnum > 0") == [(1,)]  # fmt: skip


def test_what_else_is_refused(postgres: PostgresServer, database: str) -> None:
    postgres.execute(database, "CREATE VIEW book AS SELECT 1")
    for table, message in (
        (table_of(), "book: is not a table"),
        (table_of(name="x" * 64), f"'{'x' * 64}' cannot be a name in PostgreSQL"),
        (table_of(Field(name="é" * 32), name="a"), f"'{'é' * 32}' cannot be a name in PostgreSQL"),
        (table_of(name="_crawl_console"), "'_crawl_console' cannot be a name in PostgreSQL"),
    ):
        with pytest.raises(UnfitTable) as caught:
            prepare(database, table)
        assert caught.value.message == message


def test_a_key_that_the_rows_do_not_have_once_is_refused(postgres: PostgresServer, database: str) -> None:
    postgres.execute(database, "CREATE TABLE book AS SELECT 'same' AS title FROM generate_series(1, 2)")
    with pytest.raises(UnfitTable, match=r"several rows with one key \(title\)"):
        prepare(database, table_of(key=("title",)))
    assert prepare(database, table_of()) == ""


def test_another_key_replaces_the_index_of_the_first(postgres: PostgresServer, database: str) -> None:
    count = "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'crawl_console_%'"
    for key, indexes in ((("title",), 1), (("title", "price"), 1), ((), 0)):
        prepare(database, table_of(key=key))
        assert postgres.execute(database, count) == [(indexes,)]


def test_an_older_copy_of_the_data_directory_is_refused(tmp_path: Path, database: str) -> None:
    harness = PostgresHarness(tmp_path, database)
    harness.add(books(30))
    harness.deliver()
    with pytest.raises(UnfitTable, match="written by another data directory, "):
        prepare(database, table_of())
    harness.query("UPDATE _crawl_console SET data_dir = 'd1'")
    with pytest.raises(UnfitTable, match="rows up to 30, and this data directory only up to 20: it is an older copy"):
        prepare(database, table_of(), last=20)


def test_a_server_that_cannot_be_reached_is_a_text_without_secrets(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(database, "DROP ROLE IF EXISTS guarded")
    postgres.execute(database, "CREATE ROLE guarded LOGIN PASSWORD 'right'")
    monkeypatch.setenv("PW", "s3cret/@:")
    url = postgres.url(database.split("/")[3].partition("?")[0], "guarded", "%{env.PW}")
    assert "password authentication failed" in prepare(url, table_of())
    assert "s3cret" not in prepare(url, table_of())
    assert "No such file" in prepare("postgresql:///x?host=/nowhere", table_of())
    assert "Connection refused" in prepare("postgresql://127.0.0.1:1/x", table_of())


def test_types_follow_the_values(tmp_path: Path, database: str) -> None:
    fields = (Field(name="day", type="date"), Field(name="n", type="int"), Field(name="ok", type="bool"))
    harness = PostgresHarness(tmp_path, database, fields=fields)
    harness.add([{"day": "2026-11-27", "n": 1, "ok": True}])
    harness.deliver()
    harness.add([{"day": "2026-11-27T10:00:00+02:00", "n": 12345678901234567890, "ok": "perhaps"}])
    harness.deliver()
    assert harness.query("SELECT (day AT TIME ZONE 'UTC')::text, n::text, ok FROM book ORDER BY _row") == [
        ("2026-11-27 00:00:00", "1", "true"), ("2026-11-27 08:00:00", "12345678901234567890", "perhaps"),
    ]  # fmt: skip


def test_prices_become_columns(tmp_path: Path, database: str) -> None:
    field = Field(name="price", type="price")
    data_def = DataDef(name="book", fields=(field,))
    appender = AppenderDef(name="x", type="postgresql", kind="sender", flatten=True)
    table = PostgresTable("book", output_settings(data_def, appender))
    from crawl_engine.append.send import postgres as module

    with closing(module.connect(database, 5)) as db, module.transaction(db, 5) as opened:
        types = module.prepare(opened, table, DataDir("d1", "/data"), 10)
        table.insert(opened, [(1, '{"price":{"amount":1.50,"currency":"EUR"}}'), (2, '{"price":null}')], types)
        found = opened.execute('SELECT "price.amount"::text, "price.currency" FROM book ORDER BY _row').fetchall()
    assert found == [("1.50", "EUR"), (None, None)]
