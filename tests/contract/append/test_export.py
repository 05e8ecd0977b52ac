"""Exports equal the outputs of a run."""

import io
from contextlib import closing
from pathlib import Path

import pytest

from crawl_engine.append.export import export, export_table
from crawl_engine.errors import CrawlError, StorageError
from crawl_engine.store.db.sqlite import sqlite3
from tests.contract.append.harness import COLUMNS, Harness, books, read

JOINS = {"tags": ";"}
SETTINGS = {"columns": list(COLUMNS), "joins": JOINS}


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
def test_an_export_equals_the_output(format_: str, tmp_path: Path) -> None:
    harness = Harness(tmp_path, format_, ("book", "author"))
    harness.add(books(4500))
    harness.add(books(3), "author")
    out = tmp_path / f"out.{format_}"
    with out.open("wb") as binary:
        assert export(harness.db, 1, "book", SETTINGS, format_, binary) == 4500
    assert sorted(map(repr, read(format_, out, "book", list(COLUMNS)))) == harness.expected()
    text = io.StringIO(newline="")
    export(harness.db, 1, "book", SETTINGS, format_, text)
    assert text.getvalue().encode() == out.read_bytes()


def test_an_export_to_sqlite_replaces_only_its_table(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "sqlite", ("book", "author"))
    job = harness.add(books(30))
    harness.add(books(3), "author")
    out = tmp_path / "out.db"
    assert export_table(harness.db, 1, "author", SETTINGS, "sqlite", out) == 3
    export_table(harness.db, 1, "book", SETTINGS, "sqlite", out)
    harness.add(books(2), job=job)
    assert export_table(harness.db, 1, "book", SETTINGS, "sqlite", out) == 2
    for name in ("book", "author"):
        assert sorted(map(repr, read("sqlite", out, name, list(COLUMNS)))) == harness.expected(name)


def test_an_export_to_sqlite_without_rows_has_the_table(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "sqlite")
    assert export_table(harness.db, 1, "book", SETTINGS, "sqlite", tmp_path / "out.db") == 0
    with closing(sqlite3.connect(tmp_path / "out.db")) as db:
        assert [row[1] for row in db.execute("PRAGMA table_info(book)")] == ["_id", *COLUMNS]


def test_an_export_reports_errors(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "csv")
    with pytest.raises(CrawlError, match="unknown output type 'xml'"):
        export(harness.db, 1, "book", SETTINGS, "xml", io.BytesIO())
    (tmp_path / "text.db").write_text("no database at all, but long stop to be looked at " * 40)
    harness.add(books(1))
    with pytest.raises(StorageError, match="not a database"):
        export_table(harness.db, 1, "book", SETTINGS, "sqlite", tmp_path / "text.db")


def test_an_export_to_duckdb_replaces_only_its_table(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "duckdb", ("book", "author"))
    job = harness.add(books(30))
    harness.add(books(3), "author")
    out = tmp_path / "out.duckdb"
    out.touch()  # as a file that takes the place of another one
    assert export_table(harness.db, 1, "author", harness.settings(), "duckdb", out) == 3
    export_table(harness.db, 1, "book", harness.settings(), "duckdb", out)
    harness.add(books(2), job=job)
    assert export_table(harness.db, 1, "book", harness.settings(), "duckdb", out) == 2
    (tmp_path / "text.duckdb").write_text("not a database")
    with pytest.raises(StorageError, match="not a valid DuckDB database file"):
        export_table(harness.db, 1, "book", harness.settings(), "duckdb", tmp_path / "text.duckdb")
    for name in ("book", "author"):
        assert sorted(map(repr, read("duckdb", out, name, list(COLUMNS)))) == harness.expected(name)
