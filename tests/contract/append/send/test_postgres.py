"""PostgreSQL as an output: each change is in the table exactly once, whatever is lost in between."""

import random
from contextlib import closing
from pathlib import Path

import pytest

from crawl_engine.errors import Fenced
from crawl_engine.store.tables.run import nodes
from tests.contract.append.harness import book, books
from tests.contract.append.send.class_harness import run_until_delivered
from tests.contract.append.send.postgres_harness import PostgresHarness
from tests.postgres_server import PostgresServer


@pytest.fixture
def harness(tmp_path: Path, database: str) -> PostgresHarness:
    return PostgresHarness(tmp_path, database)


@pytest.fixture
def keyed(tmp_path: Path, database: str) -> PostgresHarness:
    return PostgresHarness(tmp_path, database, key=("title",))


def assert_exact(harness: PostgresHarness) -> None:
    assert harness.table() == harness.current()


def test_the_table_has_the_rows_with_their_types(harness: PostgresHarness) -> None:
    harness.add(books(50))
    harness.add([{"title": None, "price": None, "stock": None, "tags": None, "parts": None}, {"title": "only"}])
    harness.deliver()
    assert_exact(harness)
    types = harness.query(
        "SELECT attname::text, format_type(atttypid, -1) FROM pg_attribute"
        " WHERE attrelid = 'book'::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert types == [
        ("_row", "bigint"), ("title", "text"), ("price", "numeric"), ("stock", "boolean"), ("tags", "text[]"),
        ("parts", "jsonb"),
    ]  # fmt: skip
    assert harness.query("SELECT avg(price) FROM book") != []


def test_replaced_rows_are_replaced(harness: PostgresHarness) -> None:
    jobs = [harness.add(books(3, start=10 * n)) for n in range(8)]
    harness.deliver()
    for job in jobs[::2]:
        harness.add(books(2, start=500 + job), job=job)
    harness.deliver()
    assert_exact(harness)
    assert harness.output("sink").rows == 4 * 3 + 4 * 2


def test_a_second_run_adds_its_rows(harness: PostgresHarness) -> None:
    harness.add(books(5))
    harness.deliver()
    harness.begin_run()
    harness.add(books(5))
    harness.deliver()
    assert_exact(harness)
    assert harness.query("SELECT count(*) FROM book") == [(10,)]


def test_a_key_keeps_the_row_with_the_highest_id(keyed: PostgresHarness) -> None:
    keyed.add([book(1, price=1), book(1, price=2), book(2), {"price": 3}, {"price": 3}])
    keyed.deliver()
    keyed.begin_run()
    keyed.add([book(2, price=9), book(3)])
    keyed.deliver()
    assert_exact(keyed)
    assert keyed.query("SELECT count(*) FROM book") == [(5,)]


def test_a_key_may_be_longer_than_an_index_takes(keyed: PostgresHarness) -> None:
    long = random.Random(1).randbytes(6_000).hex()
    keyed.add([{"title": long, "price": 1}, {"title": long, "price": 2}])
    keyed.deliver()
    assert_exact(keyed)
    assert keyed.query("SELECT price FROM book") == [(2,)]


def test_a_row_that_another_replaced_comes_back_when_that_is_deleted(keyed: PostgresHarness) -> None:
    keyed.add([book(1, price=1), book(7)])
    keyed.deliver()
    keyed.begin_run()
    keyed.add([book(2)])
    second = keyed.add([book(2, price=5), book(1, price=6)])
    keyed.deliver()
    keyed.add([book(9)], job=second)
    keyed.deliver()
    assert_exact(keyed)
    assert keyed.query("SELECT count(*) FROM book") == [(4,)]


@pytest.mark.parametrize("key", [(), ("title",)])
def test_changes_that_come_again_change_nothing(tmp_path: Path, database: str, key: tuple[str, ...]) -> None:
    """A crash between the commit in PostgreSQL and the acknowledgement."""
    harness = PostgresHarness(tmp_path, database, key=key)
    first = harness.add(books(4))
    harness.deliver()
    for turn in range(6):
        harness.add(books(3, start=turn), job=first if turn % 2 else None)
        with closing(harness.delivery_loop()) as loop:
            loop._acknowledge = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                run_until_delivered(loop)
        if turn == 3:
            harness.add(books(1, start=70), job=first)
    harness.deliver()
    assert_exact(harness)


def test_a_dropped_table_is_written_again(harness: PostgresHarness) -> None:
    harness.add(books(30))
    harness.deliver()
    harness.query("DROP TABLE book")
    harness.add(books(3, start=50))
    harness.deliver()
    assert_exact(harness)


def test_a_database_that_lost_commits_gets_them_again(harness: PostgresHarness) -> None:
    first = harness.add(books(30))
    harness.deliver()
    older = harness.query("SELECT last_row, withdrawal FROM _crawl_console WHERE run <> ''")
    harness.query("CREATE TABLE saved AS SELECT * FROM book")
    harness.add(books(3, start=50))
    harness.add(books(1, start=80), job=first)
    harness.deliver()
    harness.query("TRUNCATE book; INSERT INTO book SELECT * FROM saved")
    harness.query(f"UPDATE _crawl_console SET (last_row, withdrawal) = {older[0]} WHERE run <> ''")
    harness.add(books(3, start=90))
    harness.deliver()
    assert_exact(harness)


def test_an_older_appender_writes_nothing_any_more(harness: PostgresHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.add(books(3))
    with closing(harness.delivery_loop()) as old:
        harness.deliver()
        harness.add(books(3, start=20))
        monkeypatch.setattr(nodes, "is_appender_alive", lambda *_: True)
        with pytest.raises(Fenced):
            run_until_delivered(old)


def test_another_data_directory_is_refused(harness: PostgresHarness, tmp_path: Path, database: str) -> None:
    harness.add(books(3))
    harness.deliver()
    other = PostgresHarness(tmp_path / "other", database)
    other.add(books(2))
    with closing(other.delivery_loop()) as loop:
        loop.run_turn()
    assert "written by another data directory" in (other.output("sink").error or "")
    assert harness.query("SELECT count(*) FROM book") == [(3,)]


def test_texts_that_postgresql_does_not_take_are_cleaned(harness: PostgresHarness) -> None:
    harness.add([{"title": "a\0b", "tags": ["x\0", "y\\u0000"], "parts": [{"n\0": "\0"}]}])
    harness.deliver()
    assert harness.query("SELECT title, tags, parts FROM book") == [("ab", ["x", "y\\u0000"], [{"n": ""}])]


@pytest.mark.sqlite
def test_a_restart_in_between_loses_and_doubles_nothing(keyed: PostgresHarness, postgres: PostgresServer) -> None:
    first = keyed.add(books(20))
    with closing(keyed.delivery_loop()) as loop:
        loop.run_turn()
        postgres.stop("immediate")
        try:
            keyed.add(books(4, start=90), job=first)
            loop.run_turn()
            assert keyed.output("sink").error
        finally:
            postgres.start()
        loop._retries.begin_drain()
        run_until_delivered(loop)
    assert_exact(keyed)
    assert keyed.output("sink").error is None
