"""A database of another program or an unreleased version is refused by name; its data dir stays as it was."""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import StorageError
from engine.store.db.connector import connect
from engine.store.db.file_header import APPLICATION_ID, SCHEMA_NUMBER, OtherDatabase, check_data_dir
from engine.store.db.schema import CRAWL, PAGES, open_databases
from engine.store.db.sqlite import SqliteDatabase
from tests.process.test_data_dir import file_states

pytestmark = pytest.mark.sqlite


def change(folder: Path, name: str, sql: str) -> None:
    with closing(sqlite3.connect(folder / name)) as db:
        db.execute(sql)


def of_schema(number: int) -> Callable[[Path, str], None]:
    def make(folder: Path, name: str) -> None:
        open_databases(folder).close()
        change(folder, name, f"PRAGMA user_version = {number}")

    return make


def of_another_program(folder: Path, name: str) -> None:
    change(folder, name, "CREATE TABLE poems (line TEXT)")


def of_another_application(folder: Path, name: str) -> None:
    open_databases(folder).close()
    change(folder, name, f"PRAGMA application_id = {APPLICATION_ID + 1}")


def killed(folder: Path, name: str) -> None:
    """An older data dir whose write-ahead log holds its tables."""
    if not (child := os.fork()):
        db = sqlite3.connect(folder / name, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA user_version = 13")
        db.execute("CREATE TABLE runs (seq INTEGER)")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("name", [CRAWL, PAGES])
@pytest.mark.parametrize(
    "make",
    [of_schema(0), of_schema(13), of_schema(SCHEMA_NUMBER + 1), of_another_program, of_another_application, killed],
)
def test_it_is_refused_and_nothing_changes(tmp_path: Path, make: Callable[[Path, str], None], name: str) -> None:
    make(tmp_path, name)
    before = file_states(tmp_path)
    for use in (open_databases, check_data_dir):
        with pytest.raises(OtherDatabase, match=rf"{name}: of another program or an unreleased version"):
            use(tmp_path)
        assert file_states(tmp_path) == before


def test_a_new_file_has_its_numbers_before_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(database: SqliteDatabase, text: str) -> None:
        raise StorageError("the process dies here")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteDatabase, "execute_script", fail)
        with pytest.raises(StorageError, match="dies"):
            open_databases(tmp_path).close()
    check_data_dir(tmp_path)
    with closing(connect(tmp_path / CRAWL, read_only=True)) as db:
        assert not db.has_tables()
    open_databases(tmp_path).close()
    with closing(connect(tmp_path / PAGES, read_only=True)) as db:
        assert db.has_tables()
        assert (db.value("PRAGMA page_size"), db.value("PRAGMA journal_mode")) == (16384, "wal")


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    (tmp_path / CRAWL).touch()
    open_databases(tmp_path).close()
    check_data_dir(tmp_path)
