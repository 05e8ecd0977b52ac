"""The connection to PostgreSQL and the doorbells through PgBouncer in transaction mode."""

import threading
from contextlib import closing
from pathlib import Path

import pytest

from crawl_engine.queue import Doorbells
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.location import Location, write_location
from crawl_engine.store.db.retry_busy import DatabaseBusy
from crawl_engine.store.db.schema import CRAWL, open_databases
from tests.contract.node.test_postgres_doorbells import consuming, wait_for
from tests.contract.store.db.test_postgres import get, put
from tests.pgbouncer import PgBouncer, pgbouncer
from tests.postgres_server import PostgresServer

__all__ = ["pgbouncer"]

_KILL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid != pg_backend_pid()
"""


@pytest.fixture
def location(pgbouncer: PgBouncer, database: str) -> Location:
    return Location(pgbouncer.url(database), "shop")


@pytest.fixture
def folder(location: Location, tmp_path: Path) -> Path:
    write_location(tmp_path, location)
    open_databases(tmp_path).close()
    return tmp_path


def test_transactions_of_more_threads_than_server_connections(folder: Path) -> None:
    def add() -> None:
        with closing(connect(folder / CRAWL, busy_seconds=20)) as db:
            for _ in range(20):
                with db.transaction():
                    value = int(get(db, "n"))
                    db.execute("UPDATE meta SET value = ? WHERE name = 'n'", (str(value + 1),))
                with db.snapshot():
                    assert get(db, "n") == get(db, "n")

    with closing(connect(folder / CRAWL)) as db:
        with db.transaction():
            put(db, "n", "0")
        threads = [threading.Thread(target=add) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert get(db, "n") == "120"
        assert db.value("SELECT current_setting('lock_timeout')") == "0"
        assert db.value("SELECT current_setting('idle_in_transaction_session_timeout')") == "0"


def test_a_lost_server_connection_is_busy_and_the_next_statement_works(
    folder: Path, postgres: PostgresServer, database: str
) -> None:
    with closing(connect(folder / CRAWL, busy_seconds=2)) as db:
        assert get(db, "x") is None
        postgres.execute(database, _KILL)
        assert get(db, "x") is None
        with pytest.raises(DatabaseBusy), db.transaction():
            put(db, "x")
            postgres.execute(database, _KILL)
            put(db, "y")
        with db.transaction():
            put(db, "x")
        assert get(db, "x") == "1"


def test_a_server_that_is_away_makes_calls_busy_until_it_is_back(
    folder: Path, tmp_path: Path, postgres: PostgresServer, pgbouncer: PgBouncer
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_location(other, Location(pgbouncer.url(postgres.url("never_asked_before")), "shop"))
    with closing(connect(folder / CRAWL, busy_seconds=0.5)) as db:
        get(db, "x")
        postgres.stop()
        try:
            with pytest.raises(DatabaseBusy), db.transaction():
                pass
            never_asked = connect(other / CRAWL, busy_seconds=0.1)
            with pytest.raises(DatabaseBusy, match=r"connection failed.*query_wait_timeout"):
                never_asked.value("SELECT 1")
        finally:
            postgres.start()
        with db.transaction():
            put(db, "x")


@pytest.mark.usefixtures("folder")
def test_each_doorbell_is_answered_once(location: Location) -> None:
    with closing(Doorbells.open_empty(Path("/nowhere"), server=location)) as doorbells:
        with consuming(location) as one, consuming(location) as two:
            for count in range(1, 10):
                doorbells.ring()
                assert wait_for(lambda count=count: one.answered + two.answered == count)
        doorbells.ring()
        assert doorbells.has_pending() is True


@pytest.mark.parametrize("direct", [True, False])
def test_statements_are_prepared_only_where_no_pooler_shares_the_connection(
    location: Location, database: str, tmp_path: Path, *, direct: bool
) -> None:
    write_location(tmp_path, Location(database, "shop") if direct else location)
    open_databases(tmp_path).close()
    with closing(connect(tmp_path / CRAWL)) as db:
        for _ in range(5):
            get(db, "x")
        prepared = [text for (text,) in db.all("SELECT statement FROM pg_prepared_statements")]
        # a plan that is kept while a table grows must not read all of it
        assert db.value("SELECT current_setting('enable_seqscan')") == ("off" if direct else "on")
    assert any("meta" in text for text in prepared) == direct
