"""Every output type: the file has exactly the rows of the run, after any damage, kill or replacement."""

import os
import shutil
import time
from contextlib import closing
from pathlib import Path

import pytest

from crawl_engine.append.loop.turns import TurnResult
from crawl_engine.errors import CrawlError
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run import runs
from crawl_engine.store.tables.run.runs import StaleSearch
from tests.contract.append.harness import (
    GROWING,
    KINDS,
    TYPES,
    Harness,
    book,
    books,
    read_bytes,
    recorded,
    run_until_idle,
)


@pytest.fixture(params=[*TYPES, *KINDS])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    return Harness(tmp_path, request.param)


def test_the_file_has_the_rows_that_were_added(harness: Harness) -> None:
    harness.add(books(50))
    harness.add([{"title": "", "price": None, "stock": False, "tags": [], "parts": None}, {"title": "only"}])
    harness.drain()
    assert harness.written() == harness.expected()


def test_the_file_exists_before_the_first_row(harness: Harness) -> None:
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
    assert harness.path().exists()
    assert harness.written() == []
    if harness.kind in ("csv", "csv.gz"):
        assert read_bytes(harness.path()) == b"title,price,stock,tags,parts\r\n"


def test_only_the_owner_can_read_files_of_the_run(harness: Harness) -> None:
    harness.drain()
    umask = os.umask(0)
    os.umask(umask)
    in_run = harness.path().parent.name == harness.run.id
    assert harness.path().stat().st_mode & 0o777 == (0o600 if in_run else 0o666 & ~umask)
    assert harness.path().parent.stat().st_mode & 0o777 == (0o700 if in_run else 0o777 & ~umask)


def test_each_data_def_has_its_own_output(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "csv", ("book", "author", "empty"))
    for i in range(20):
        harness.add([book(i)], "book")
        harness.add([book(i), book(i + 1)], "author")
    harness.drain()
    assert [len(harness.written(name)) for name in ("book", "author", "empty")] == [20, 40, 0]
    assert all(harness.written(name) == harness.expected(name) for name in ("book", "author"))


def test_rows_of_other_runs_are_not_written(harness: Harness) -> None:
    harness.add(books(3))
    with harness.db.transaction():
        harness.db.execute("UPDATE runs SET id = 'older' WHERE seq = 1")
        harness.db.execute("INSERT INTO runs (id, created_at) VALUES ('newer', 1)")
    harness.run = type(harness.run)(2, "newer", *[getattr(harness.run, n) for n in list(harness.run.__slots__)[2:]])
    harness.expected_rows["book"].clear()
    harness.declare("book")
    harness.add(books(2, start=70))
    harness.drain()
    assert harness.written() == harness.expected()
    assert len(harness.written()) == 2


def test_bytes_beyond_the_record_are_cut_off(harness: Harness) -> None:
    harness.add(books(40))
    harness.drain()
    size = recorded(harness).bytes
    torn = harness.path().read_bytes()[: size // 2] if harness.type != "sqlite" else b""
    if harness.type == "sqlite":
        with closing(connect(harness.path())) as db, db.transaction():
            db.execute("INSERT INTO book (_id, title) VALUES (100000, 'not recorded')")
            db.execute("UPDATE _crawl_console SET cursor = 100000, rows = rows + 1")
    else:
        with harness.path().open("ab") as file:
            file.write(torn)
    harness.add(books(3, start=90))
    harness.drain()
    assert harness.written() == harness.expected()


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.37, 0.8, 0.999])
def test_a_truncated_file_is_rebuilt(harness: Harness, kept: float) -> None:
    harness.add(books(30))
    harness.drain()
    os.truncate(harness.path(), int(harness.path().stat().st_size * kept))
    harness.add(books(3, start=90))
    harness.drain()
    assert harness.written() == harness.expected()


def test_a_file_truncated_between_writes_is_rebuilt(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "csv")
    with closing(harness.appender()) as appender:
        for cut in range(0, 400, 13):
            harness.add([book(cut)])
            run_until_idle(appender)
            os.truncate(harness.path(), min(cut, harness.path().stat().st_size - 1))
        run_until_idle(appender)
    assert harness.written() == harness.expected()


def test_a_missing_file_is_rebuilt(harness: Harness) -> None:
    harness.add(books(10))
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
        harness.path().unlink()
        harness.add(books(2, start=50))
        run_until_idle(appender)
        assert harness.written() == harness.expected()
        shutil.rmtree(harness.path().parent)
        run_until_idle(appender)
        assert harness.written() == harness.expected()
    harness.path().unlink()
    harness.drain()
    assert harness.written() == harness.expected()


def test_another_file_of_the_same_name_is_replaced(harness: Harness) -> None:
    harness.add(books(10))
    harness.drain()
    harness.path().unlink()
    harness.path().write_bytes(b"not what was written here, and longer than it\n" * 3000)
    harness.drain()
    assert harness.written() == harness.expected()


def test_a_file_older_than_the_run_is_replaced(harness: Harness) -> None:
    harness.path().parent.mkdir(parents=True)
    harness.path().write_bytes(b"from yesterday\n" * 100)
    harness.add(books(2))
    harness.drain()
    assert harness.written() == harness.expected()


def test_replaced_rows_are_removed_from_the_file(harness: Harness) -> None:
    first = harness.add(books(20))
    second = harness.add(books(20, start=20))
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
        harness.add(books(15, start=100), job=first)
        harness.add([], job=second)
        run_until_idle(appender)
        assert harness.written() == harness.expected()
    assert not harness.has_backlog()


@pytest.mark.parametrize("harness", GROWING, indirect=True)
def test_rows_replaced_during_a_write_are_removed_from_the_file(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = harness.add(books(5))
    replaced: list[int] = []
    real = rows.list_after

    def after(db: Database, run: int, cursor: int, limit: int) -> list[tuple[int, int, str]]:
        batch = real(db, run, cursor, limit)
        if batch and not replaced:
            replaced.append(harness.add(books(5, start=50), job=job))
        return batch

    monkeypatch.setattr(rows, "list_after", after)
    harness.drain()
    assert replaced
    assert harness.written() == harness.expected()


def test_rows_replaced_during_a_rebuild_are_removed_from_the_file(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, other = harness.add(books(5)), harness.add(books(5, start=20))
    replaced: list[int] = []
    real = rows.list_by_data_def

    def of_data_def(db: Database, run: int, name: str, cursor: int, limit: int) -> list[tuple[int, str]]:
        batch = real(db, run, name, cursor, limit)
        if batch and not replaced:
            replaced.append(harness.add(books(2, start=70), job=other))
        return batch

    with closing(harness.appender()) as appender:
        run_until_idle(appender)
        harness.add(books(5, start=50), job=job)
        monkeypatch.setattr(rows, "list_by_data_def", of_data_def)
        run_until_idle(appender)
    assert replaced
    assert harness.written() == harness.expected()
    assert not harness.has_backlog()


def test_changed_columns_rebuild_the_file(harness: Harness) -> None:
    harness.add(books(10))
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
        harness.declare("book", ("title", "stock"))
        harness.add(books(10, start=10))
        appender.run_turn()
        run_until_idle(appender)
        assert harness.written(columns=("title", "stock")) == harness.expected(columns=("title", "stock"))
    harness.declare("book", ("stock", "title", "new"))
    harness.drain()
    assert harness.written(columns=("stock", "title", "new")) == harness.expected(columns=("stock", "title", "new"))


@pytest.mark.parametrize("harness", GROWING, indirect=True)
def test_an_output_declared_later_gets_all_rows(harness: Harness, tmp_path: Path) -> None:
    harness.add(books(10))
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
        path = tmp_path / "elsewhere" / harness.path().name
        settings = harness.settings()
        with harness.db.transaction():
            outputs.ensure(
                harness.db, 1, appender="copy", type_=harness.type, data_def="book", path=str(path), settings=settings
            )
        harness.add(books(3, start=10))
        run_until_idle(appender)
    assert harness.written() == harness.expected()
    shutil.copy(path, harness.path())
    assert harness.written() == harness.expected()


def test_two_outputs_with_one_path_are_rejected(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "csv", ("book", "author"))
    harness.declare("author", path=harness.path("book"))
    with closing(harness.appender()) as appender, pytest.raises(CrawlError, match="both book and author"):
        run_until_idle(appender)


def test_one_database_can_have_several_tables(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "sqlite", ("book", "author"))
    harness.declare("author", path=harness.path("book"))
    job = harness.add(books(5), "book")
    harness.add(books(7), "author")
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
        harness.add(books(2, start=30), "book", job=job)
        run_until_idle(appender)
    shutil.copy(harness.path("book"), harness.path("author"))
    assert harness.written("book") == harness.expected("book")
    assert harness.written("author") == harness.expected("author")


def test_an_older_copy_of_the_file_is_rebuilt(harness: Harness, tmp_path: Path) -> None:
    harness.add(books(10))
    harness.drain()
    older = harness.path().read_bytes()
    harness.add(books(300, start=10))
    harness.drain()
    harness.path().write_bytes(
        older + b"\n" * (harness.path().stat().st_size - len(older)) * (harness.type == "sqlite")
    )
    harness.add(books(3, start=400))
    harness.drain()
    assert harness.written() == harness.expected()


@pytest.mark.parametrize("harness", GROWING, indirect=True)
def test_while_its_rows_are_replaced_a_file_grows_and_is_rebuilt_now_and_then(harness: Harness) -> None:
    job = harness.add(books(3))
    with closing(harness.appender(rebuild_every=0.5)) as appender:
        run_until_idle(appender)
        with harness.db.transaction():
            runs.set_reextraction(harness.db, harness.run.seq, StaleSearch())
        began, rebuilt = time.monotonic(), 0
        number = 0
        while rebuilt < 2:  # as a reload that never ends
            number += 1
            harness.add(books(3, start=100 * number), job=job)
            harness.add(books(1, start=100 * number + 50))
            while appender.run_turn() is TurnResult.MORE:
                rebuilt += 1
            assert set(harness.expected()) <= set(harness.written()), "every row is in the file"
            assert recorded(harness).cursor == rows.last_id(harness.db, harness.run.seq)
        assert time.monotonic() - began > 0.9
        assert number > 3, "it is not rebuilt for each row"
        with harness.db.transaction():
            runs.set_reextraction(harness.db, harness.run.seq, None)
        run_until_idle(appender)
        assert harness.written() == harness.expected()


@pytest.mark.parametrize("harness", GROWING, indirect=True)
def test_a_dirty_file_has_its_turn_whatever_arrives(harness: Harness) -> None:
    job = harness.add(books(3))
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
        rebuilt = False
        for number in range(500):
            harness.add(books(3, start=100), job=job) if number == 0 else harness.add(books(1, start=1000 + number))
            appender.run_turn()
            if rebuilt := not recorded(harness).dirty:
                break
        assert rebuilt
        run_until_idle(appender)
    assert harness.written() == harness.expected()


def test_a_re_extraction_that_goes_on_delays_no_drain(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "csv", ("book", "author"))
    jobs = [(name, harness.add(books(3), name)) for name in ("book", "author")]
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
    with harness.db.transaction():
        runs.set_reextraction(harness.db, harness.run.seq, StaleSearch())
    for name, job in jobs:
        harness.add(books(3, start=100), name, job=job)
    harness.drain()
    assert [harness.written(name) for name, _ in jobs] == [harness.expected(name) for name, _ in jobs]
