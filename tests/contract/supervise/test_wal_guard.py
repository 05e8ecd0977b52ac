"""The write-ahead log stays small beside readers that overlap; a reader that stays delays nobody for long."""

import logging
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.supervise import wal_guard
from crawl_engine.supervise.wal_guard import WalGuard
from tests.process.stopwatch import Stopwatch

pytestmark = pytest.mark.sqlite
MAX_BYTES = 6_000_000
ROUNDS = 60


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "crawl.db"
    db = SqliteDatabase.open(path, creates=True, durable=False)
    db.execute("CREATE TABLE t (x BLOB)")
    yield path
    db.close()


def size_of_log(path: Path) -> int:
    return path.with_name("crawl.db-wal").stat().st_size


def write_beside_readers(path: Path, guard: WalGuard | None) -> int:
    """Write 30 MB while two readers overlap, so that somebody reads at each moment; returns the log's greatest size."""
    stopped = threading.Event()

    def read(delay: float) -> None:
        db = connect(path, read_only=True)
        time.sleep(delay)
        while not stopped.is_set():
            with db.snapshot():
                db.value("SELECT count(*) FROM t")
                time.sleep(0.03)
        db.close()

    threads = [threading.Thread(target=read, args=(delay,)) for delay in (0.0, 0.01, 0.02)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    db, peak = connect(path, durable=False), 0
    try:
        for _ in range(ROUNDS):
            with db.transaction():
                db.execute("INSERT INTO t VALUES (zeroblob(500000))")
            peak = max(peak, size_of_log(path))
            if guard is not None:
                guard.check()
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
        db.close()
    return peak


def test_overlapping_readers_let_the_log_grow_and_the_guard_empties_it(path: Path) -> None:
    assert write_beside_readers(path, None) > 3 * MAX_BYTES, "what SQLite does by itself"
    guard = WalGuard(path, MAX_BYTES)
    guard.check()
    assert size_of_log(path) == 0
    assert write_beside_readers(path, guard) < 2 * MAX_BYTES


def test_a_reader_that_stays_costs_little_and_loses_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader = connect(path, read_only=True)
    guard = WalGuard(path, 1_000_000)
    with caplog.at_level(logging.WARNING), reader.snapshot():
        assert reader.value("SELECT count(*) FROM t") == 0
        db = connect(path, durable=False)
        watch = Stopwatch()
        for _ in range(20):
            with db.transaction():
                db.execute("INSERT INTO t VALUES (zeroblob(500000))")
            guard.check()
        assert watch.seconds() < 3
        assert size_of_log(path) > 5_000_000
        assert reader.value("SELECT count(*) FROM t") == 0
    reader.close()
    time.sleep(0.3)
    guard.check()
    assert size_of_log(path) == 0
    assert db.value("SELECT count(*) FROM t") == 20
    db.close()


def test_the_pauses_between_vain_attempts_grow(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, db, guard = connect(path, read_only=True), connect(path, durable=False), WalGuard(path, 1000)
    now, attempts = 100.0, list[float]()
    checkpoint = SqliteDatabase.checkpoint

    def attempt(database: SqliteDatabase, seconds: float) -> bool:
        attempts.append(now)
        return checkpoint(database, 0.0 * seconds)

    monkeypatch.setattr(SqliteDatabase, "checkpoint", attempt)
    monkeypatch.setattr(wal_guard.time, "monotonic", lambda: now)
    with reader.snapshot():
        reader.value("SELECT count(*) FROM t")
        with db.transaction():
            db.execute("INSERT INTO t VALUES (zeroblob(9000))")
        while now < 140:
            guard.check()
            now += 0.25
    assert [b - a for a, b in pairwise(attempts)] == [0.25, 0.5, 1, 2, 4, 8, 10, 10]
    now += 10
    guard.check()
    assert size_of_log(path) == 0
    with db.transaction():
        db.execute("INSERT INTO t VALUES (zeroblob(9000))")
    guard.check()
    assert size_of_log(path) == 0, "after a success the next attempt is due at once"
    db.close()
    reader.close()


def test_small_and_missing_logs_are_left_alone(path: Path, tmp_path: Path) -> None:
    db = connect(path)
    with db.transaction():
        db.execute("INSERT INTO t VALUES (zeroblob(1000))")
    before = size_of_log(path)
    assert before > 0
    WalGuard(path, MAX_BYTES).check()
    WalGuard(tmp_path / "missing.db", MAX_BYTES).check()
    assert size_of_log(path) == before
    assert not (tmp_path / "missing.db").exists()
    db.close()


def test_a_log_beyond_the_hold_is_full_until_it_is_emptied(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader, db = connect(path, read_only=True), connect(path, durable=False)
    guard = WalGuard(path, 1000, hold_bytes=100_000)
    assert not guard.is_full
    with caplog.at_level(logging.WARNING), reader.snapshot():
        reader.value("SELECT count(*) FROM t")
        with db.transaction():
            db.execute("INSERT INTO t VALUES (zeroblob(200000))")
        guard.check()
        assert guard.is_full
        assert not caplog.records, "nobody has read for long"
    time.sleep(0.3)
    guard.check()
    assert not guard.is_full
    db.close()
    reader.close()
