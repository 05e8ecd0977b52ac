"""A database of another program, or of a format that cannot be read, is refused by name; nothing changes."""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from crawl_engine.errors import StorageError
from crawl_engine.queue import Doorbells
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.file_header import APPLICATION_ID, SCHEMA_NUMBER, OtherDatabase, check_data_dir
from crawl_engine.store.db.schema import CRAWL, PAGES, open_databases
from crawl_engine.store.db.sqlite import SqliteDatabase
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
    ("make", "reason"),
    [
        (of_schema(13), r"made by an older version of crawl-console \(format 13; this one has \d+\)"),
        (of_schema(SCHEMA_NUMBER + 1), rf"made by a newer version of crawl-console \(format {SCHEMA_NUMBER + 1};"),
        (of_another_program, "of another program"),
        (of_another_application, "of another program"),
        (killed, "of another program"),
    ],
)
def test_it_is_refused_and_nothing_changes(
    tmp_path: Path, make: Callable[[Path, str], None], reason: str, name: str
) -> None:
    make(tmp_path, name)
    before = file_states(tmp_path)
    for use in (open_databases, check_data_dir):
        with pytest.raises(OtherDatabase, match=f"{name}: {reason}"):
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


@pytest.mark.parametrize("name", [CRAWL, PAGES])
def test_a_database_that_is_gone_is_named_and_not_made_again(tmp_path: Path, name: str) -> None:
    open_databases(tmp_path).close()
    path = tmp_path / name
    path.unlink()
    for state in ("missing", "empty"):
        with pytest.raises(StorageError, match=f"{name}: {state}"):
            connect(path)
        assert path.exists() is (state == "empty")
        assert not (tmp_path / f"{name}-wal").exists()
        path.touch()


def test_no_file_beside_a_database_can_be_read_by_others(tmp_path: Path) -> None:
    """SQLite gives a write-ahead log the mode that its database has when it is opened."""
    umask = os.umask(0)
    try:
        with closing(open_databases(tmp_path)) as db, closing(Doorbells.open_empty(tmp_path)) as doorbells:
            doorbells.ring()
            with db.transaction():
                db.execute("INSERT INTO meta (name, value) VALUES ('cookie', 'secret')")
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(umask)
    assert {"crawl.db-wal", "crawl.db-shm", "queue.db"} <= modes.keys()
    assert set(modes.values()) == {0o600}


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    (tmp_path / CRAWL).touch()
    open_databases(tmp_path).close()
    check_data_dir(tmp_path)
