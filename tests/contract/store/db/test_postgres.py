"""The connection to PostgreSQL: one writer, lost connections, commits without an answer, values."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import crawl_engine.runtime.clock as clock_module
from crawl_engine.errors import Fenced, StorageError
from crawl_engine.runtime.clock import StoreClock, boottime, store_time
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.location import Location, write_location
from crawl_engine.store.db.postgres import PostgresDatabase
from crawl_engine.store.db.retry_busy import DatabaseBusy, retry_busy
from crawl_engine.store.db.schema import CRAWL, PAGES, open_databases
from crawl_engine.store.tables.run import machines
from tests.postgres_server import PostgresServer

_OURS = "FROM pg_stat_activity WHERE application_name = 'crawl-console'"
_KILL = f"SELECT pg_terminate_backend(pid) {_OURS}"


@pytest.fixture
def folder(database: str, tmp_path: Path) -> Path:
    write_location(tmp_path, Location(database, "shop"))
    open_databases(tmp_path).close()
    return tmp_path


@pytest.fixture
def db(folder: Path) -> Iterator[PostgresDatabase]:
    with closing(connect(folder / CRAWL, busy_seconds=2)) as opened:
        assert isinstance(opened, PostgresDatabase)
        yield opened


def put(db: PostgresDatabase, name: str, value: str = "1") -> None:
    db.execute("INSERT INTO meta (name, value) VALUES (?, ?)", (name, value))


def get(db: PostgresDatabase, name: str) -> Any:
    return db.value("SELECT value FROM meta WHERE name = ?", (name,))


def test_a_transaction_is_all_or_nothing(db: PostgresDatabase) -> None:
    with pytest.raises(KeyError), db.transaction():
        put(db, "a")
        raise KeyError
    with db.transaction():
        put(db, "b")
        with pytest.raises(StorageError), db.savepoint():
            put(db, "b")
        put(db, "c")

    assert [get(db, name) for name in "abc"] == [None, "1", "1"]


def test_writers_wait_for_each_other_and_files_do_not(db: PostgresDatabase, folder: Path) -> None:
    other = connect(folder / CRAWL, busy_seconds=0.1)
    with closing(other), closing(connect(folder / PAGES, busy_seconds=0.1)) as pages, db.transaction():
        with pytest.raises(DatabaseBusy, match="lock timeout"), other.transaction():
            pass
        with pages.transaction():
            pass
        assert other.blocked_since is not None
    with other.transaction():
        pass
    assert other.blocked_since is None


def test_a_snapshot_sees_no_later_commit(db: PostgresDatabase, folder: Path) -> None:
    with closing(connect(folder / CRAWL)) as other, other.snapshot():
        assert get(other, "late") is None  # type: ignore[arg-type]
        with db.transaction():
            put(db, "late")
        assert get(other, "late") is None  # type: ignore[arg-type]
    assert get(db, "late") == "1"


def test_a_connection_that_died_while_idle_is_replaced(
    db: PostgresDatabase, postgres: PostgresServer, database: str
) -> None:
    get(db, "x")
    postgres.execute(database, _KILL)
    assert get(db, "x") is None
    postgres.execute(database, _KILL)
    with db.transaction():
        put(db, "x")
    assert get(db, "x") == "1"


def test_a_transaction_whose_connection_dies_is_busy_and_leaves_nothing(
    db: PostgresDatabase, postgres: PostgresServer, database: str
) -> None:
    with pytest.raises(DatabaseBusy), db.transaction():
        put(db, "x")
        postgres.execute(database, _KILL)
        put(db, "y")
    assert get(db, "x") is None
    with db.transaction():
        put(db, "x")


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_commit_without_an_answer_is_asked_after(
    db: PostgresDatabase, postgres: PostgresServer, database: str, *, carried_out: bool
) -> None:
    held: list[Any] = []

    def lose_the_answer(statement: str) -> None:
        if carried_out:
            held[0].execute(statement)
        postgres.execute(database, _KILL)
        held[0].execute("SELECT 1")

    def run() -> None:
        with db.transaction():
            put(db, "x")
            held[:] = [db._held]
            db._held = _Proxy(held[0], lose_the_answer)  # type: ignore[assignment]

    if carried_out:
        retry_busy(run)  # as all writers do: on a loaded machine the server may end the transaction before
    else:
        with pytest.raises(DatabaseBusy):
            run()
    assert get(db, "x") == ("1" if carried_out else None)


class _Proxy:
    """A connection that does something else at COMMIT."""

    def __init__(self, connection: Any, at_commit: Any) -> None:
        self._connection, self._at_commit = connection, at_commit

    def execute(self, statement: str, *more: Any) -> Any:
        return self._at_commit(statement) if statement == "COMMIT" else self._connection.execute(statement, *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_silent_transaction_ends_so_that_others_can_write(db: PostgresDatabase, folder: Path) -> None:
    with closing(connect(folder / CRAWL, busy_seconds=5)) as other, pytest.raises(DatabaseBusy), db.transaction():
        put(db, "x")
        begun = time.monotonic()
        with other.transaction():
            put(other, "y")  # type: ignore[arg-type]
        assert 1 < time.monotonic() - begun < 4
        put(db, "z")
    assert get(db, "x") is None


def test_a_writer_that_vanishes_in_the_middle_of_its_statements_ends(db: PostgresDatabase, database: str) -> None:
    import psycopg

    db.busy_seconds = 0.5
    with closing(psycopg.connect(database, autocommit=True)) as vanished:
        vanished.execute("BEGIN")
        vanished.execute(f"SELECT pg_advisory_xact_lock({db._lock})")
        vanished.pgconn.enter_pipeline_mode()
        vanished.pgconn.send_query_params(b"SELECT 1", [])
        vanished.pgconn.send_flush_request()
        vanished.pgconn.flush()
        begun = time.monotonic()
        retry_busy(lambda: write(db), seconds=10)
        assert 2 < time.monotonic() - begun < 6


def write(db: PostgresDatabase) -> None:
    with db.transaction():
        put(db, "x")


def test_the_guard_stops_a_write_before_it_begins(db: PostgresDatabase) -> None:
    def refuse() -> None:
        raise Fenced("the lead is gone", "Join again.")

    db.guard = refuse
    with pytest.raises(Fenced), db.transaction():
        put(db, "x")
    db.guard = None
    assert get(db, "x") is None


def test_a_server_that_is_away_makes_calls_busy_until_it_is_back(
    db: PostgresDatabase, postgres: PostgresServer
) -> None:
    get(db, "x")
    postgres.stop()
    try:
        with pytest.raises(DatabaseBusy), db.transaction():
            pass
        with pytest.raises(DatabaseBusy):
            get(db, "x")
    finally:
        postgres.start()
    with db.transaction():
        put(db, "x")


def test_values_come_back_as_sqlite_gives_them(db: PostgresDatabase) -> None:
    with db.transaction():
        put(db, "nul", "a\0b")
    assert get(db, "nul") == "a\ufffdb"
    assert db.one("SELECT sum(x), avg(x), total(x), max(max(x), 2) FROM (SELECT 1 AS x) AS s") == (1, 1.0, 1.0, 2)
    assert db.one("SELECT sum(seq), total(seq) FROM runs") == (None, 0.0)
    assert db.one("SELECT CAST(? AS INTEGER) + 1, CAST(? AS BLOB), x'00ff'", (True, "é")) == (
        2,
        "é".encode(),
        b"\0\xff",
    )
    assert db.all("SELECT value FROM json_each(?) ORDER BY key DESC", ("[3, 5]",)) == [(5,), (3,)]
    assert db.all("SELECT value FROM json_each(?) texts", ('["a", {"b": 1}]',)) == [("a",), ('{"b": 1}',)]
    assert db.one("SELECT ? ->> '$.a[1]' IS ?", ('{"a": [1, "x"]}', "x")) == (True,)


def test_many_rows_are_written_at_once_and_returned_in_order(db: PostgresDatabase) -> None:
    with db.transaction():
        rows = [(f"n{number}", str(number)) for number in range(2_500)]
        names = db.execute_values("INSERT INTO meta (name, value) {values} RETURNING name", rows)
    assert names == [(name,) for name, _ in rows]


def test_rows_that_conflict_count_as_one_after_another(db: PostgresDatabase) -> None:
    put = """
        WITH given (name, value) AS ({values}) INSERT INTO meta (name, value) SELECT name, value FROM given WHERE true
        ON CONFLICT (name) DO UPDATE SET value = meta.value || excluded.value
    """
    count = (
        "INSERT INTO meta (name, value) {values} ON CONFLICT (name) DO UPDATE SET value = meta.value || excluded.value"
    )
    with db.transaction():
        db.execute_values(put, [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")])
        db.execute_values(count, [("b", "5"), ("b", "6"), ("c", "7")])
    assert db.all("SELECT name, value FROM meta WHERE name < 'd' ORDER BY name") == [
        ("a", "134"), ("b", "256"), ("c", "7"),
    ]  # fmt: skip


def test_the_clock_of_the_database_is_followed_and_never_runs_ahead(db: PostgresDatabase) -> None:
    ahead = []
    for _ in range(20):
        with db.transaction():
            said = db.value("SELECT (julianday('now') - 2440587.5) * 86400.0")
        ahead.append(store_time() - said)
    assert min(ahead) > -0.001
    assert max(ahead) < 1


def test_a_clock_takes_the_fastest_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "boottime", lambda: 10.0)
    clock = StoreClock()
    assert clock.follow(110.0) == clock.follow(109.9) == 0
    assert clock.now() == 110.0
    assert clock.follow(110.1) == 0
    assert clock.now() == 110.1


def test_a_late_answer_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "boottime", lambda: 10.0)
    clock = StoreClock()
    assert [clock.follow(said) for said in (110.0, 60.0, 110.0, 60.0)] == [0.0] * 4
    assert clock.follow(60.0) == -50.0, "two in a row"
    assert clock.now() == 110.0


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_deadlines_go_on_where_the_clock_of_the_server_is_set(db: PostgresDatabase, *, step: float) -> None:
    with db.transaction():
        before = store_time() - boottime()
        db.execute("UPDATE clock SET shift = clock.shift + ?", (step,))
    for _ in range(3):
        with db.transaction():
            pass
    assert store_time() - boottime() == pytest.approx(before, abs=0.2)
    assert db.value("SELECT shift FROM clock") == pytest.approx(0.0, abs=0.2)


def test_who_created_the_tables_sees_the_corrected_clock(database: str, tmp_path: Path) -> None:
    write_location(tmp_path, Location(database, "new"))
    with closing(open_databases(tmp_path)) as db:
        with db.transaction():
            before = store_time() - boottime()
            db.execute("UPDATE clock SET shift = 3")
        with db.transaction():
            pass
        assert store_time() - boottime() == pytest.approx(before + 3, abs=0.5)


def test_the_server_knows_tables_that_were_empty_at_its_last_look(db: PostgresDatabase) -> None:
    count = "SELECT reltuples FROM pg_class WHERE oid = to_regclass($1)"
    machines.analyze(db)
    assert db.run_native(count, (f"{db.schema}.jobs",)).fetchone() == (0.0,)
    with db.transaction():
        columns = "run, key, origin, delay, concurrency, robots"
        db.execute(f"INSERT INTO hosts ({columns}) VALUES (1, 'a.example:80', 'http://a.example', 0, 1, 'OFF')")
    machines.analyze(db)
    assert db.run_native(count, (f"{db.schema}.hosts",)).fetchone() == (1.0,)


def test_processes_and_threads_share_few_connections(folder: Path, postgres: PostgresServer, database: str) -> None:
    opened = [connect(folder / CRAWL, busy_seconds=10) for _ in range(20)]
    threads = [threading.Thread(target=lambda d=d: [d.value("SELECT 1") for _ in range(20)]) for d in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (count,) = postgres.execute(database, f"SELECT count(*) {_OURS} AND datname = current_database()")[0]
    assert count <= 6
    for one in opened:
        one.close()


def test_a_password_is_in_no_message(tmp_path: Path, postgres: PostgresServer) -> None:
    url = postgres.url("missing", "postgres", "hunter2")
    write_location(tmp_path, Location(url, "shop"))
    with pytest.raises(StorageError, match="missing") as caught:
        open_databases(tmp_path)
    assert "hunter2" not in str(caught.value)
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o600
