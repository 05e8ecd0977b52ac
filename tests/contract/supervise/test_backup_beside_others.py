"""A backup while others write: the copy is whole, and has no run whose files were deleted meanwhile."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.schema import CRAWL, PAGES
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.tables.run import deleted_runs, runs
from crawl_engine.store.transactions import delete_run
from crawl_engine.supervise.backup import back_up
from crawl_engine.supervise.retention.deletion import delete_left
from tests.contract.console.test_delete_runs import crawl


@pytest.fixture
def done(tmp_path: Path) -> list[str]:
    """Three DONE runs whose pages change, the oldest first."""
    data = tmp_path / "data"
    data.mkdir()
    return [crawl(data, {"1": f"text {number}", "2": "same"}, at=float(number)) for number in (1, 2, 3)]


@pytest.fixture
def db(done: list[str], tmp_path: Path) -> Iterator[Database]:
    with contextlib.closing(connect(tmp_path / "data" / CRAWL, durable=False)) as opened:
        yield opened


def test_a_run_that_is_deleted_meanwhile_is_deleted_in_the_copy(db: Database, done: list[str], tmp_path: Path) -> None:
    copied = list[int]()

    def delete_once(count: int) -> None:
        if not copied:  # crawl.db is copied, no file is yet
            delete_run.begin(db, 1)
            for _ in delete_left(db, tmp_path / "data", with_documents=True):
                pass
        copied.append(count)

    back_up(db, tmp_path / "copy", delete_once)
    with contextlib.closing(connect(tmp_path / "copy" / CRAWL, durable=False)) as copy:
        assert runs.list_ids(copy, 9)[::-1] == done[1:]
        for _ in delete_left(copy, tmp_path / "copy", with_documents=True):
            pass
        assert deleted_runs.list_open(copy) == []
        assert copy.value("SELECT count(*) FROM rows WHERE run = 1") == 0
    names = {path.name for path in (tmp_path / "copy" / "output").iterdir()}
    assert names == {"current", "latest", *done[1:]}


def test_pages_that_a_crawl_stores_meanwhile_do_not_tear_the_copy(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, execute, written = tmp_path / "data" / PAGES, SqliteDatabase.execute, list[int]()

    def write_between(self: SqliteDatabase, sql: str, parameters: Any = ()) -> Any:
        result = execute(self, sql, parameters)
        if sql == "SELECT 1 FROM sqlite_schema" and self.path == path and not written:
            written.append(1)
            with contextlib.closing(connect(path)) as crawling, crawling.transaction():
                for _ in range(50):
                    crawling.execute("INSERT INTO pages (headers, body) VALUES ('[]', zeroblob(20000))")
        return result

    before = [path.name for path in (tmp_path / "data").iterdir() if PAGES in path.name]
    assert before == [PAGES], "no process has it open"
    monkeypatch.setattr(SqliteDatabase, "execute", write_between)
    back_up(db, tmp_path / "copy", lambda _: None)
    assert written
    with contextlib.closing(connect(tmp_path / "copy" / PAGES)) as copy:
        assert copy.all("PRAGMA integrity_check") == [("ok",)]
        assert copy.value("SELECT count(*) FROM pages WHERE length(body) = 20000") == 0, "as it was at one moment"
