"""Statements whose results nobody reads wait for the next one: order, failures, parts of transactions."""

import contextlib

import pytest

from crawl_engine.errors import StorageError
from crawl_engine.store.db.postgres import PostgresDatabase
from crawl_engine.store.db.postgres_pipeline import WriteQueue
from tests.contract.store.db.test_postgres import db, folder, get, put

__all__ = ["db", "folder"]


def test_what_waits_is_sent_before_a_read_and_in_order(db: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[str] = []
    send = WriteQueue.send
    monkeypatch.setattr(WriteQueue, "send", lambda self, c, text="", v=(): ways.append(text) or send(self, c, text, v))
    with db.transaction():
        put(db, "a")
        changed = db.execute("UPDATE meta SET value = '2' WHERE name = 'a'")
        db.execute_values("INSERT INTO meta (name, value) {values}", [("b", "\0"), ("c", "3")])
        assert get(db, "a") == "2"
        assert changed.rowcount == 1
        assert db.execute("DELETE FROM meta WHERE name IN ('b', 'c')").rowcount == 2
        put(db, "d")
    assert get(db, "d") == "1"
    assert len(ways) == 5  # BEGIN, the first read, the count, COMMIT, the last read


def test_a_write_that_fails_while_it_waits_fails_the_transaction(db: PostgresDatabase) -> None:
    with pytest.raises(StorageError, match="duplicate key"), db.transaction():
        put(db, "a")
        put(db, "a")
        put(db, "b")
    assert (get(db, "a"), get(db, "b")) == (None, None)
    with db.transaction():
        put(db, "a")
    assert get(db, "a") == "1"


def test_a_part_that_fails_takes_back_what_waits_in_it_alone(db: PostgresDatabase) -> None:
    with db.transaction():
        put(db, "a")
        with pytest.raises(StorageError, match="duplicate key"), db.savepoint():
            put(db, "b")
            put(db, "a")
        with pytest.raises(KeyError), db.savepoint():
            put(db, "c")
            raise KeyError
        put(db, "d")
    assert [get(db, name) for name in "abcd"] == ["1", None, None, "1"]


def test_a_transaction_that_has_failed_is_never_taken_for_committed(db: PostgresDatabase) -> None:
    with pytest.raises(StorageError, match="failed before its end"), db.transaction():
        put(db, "a")
        with contextlib.suppress(StorageError):
            db.value("SELECT 1 / 0")
    assert get(db, "a") is None
