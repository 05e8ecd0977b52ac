"""Doorbells on PostgreSQL: the promises of those on SQLite, over machines and over restarts of the server."""

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import run

import pytest

from crawl_engine.errors import StorageError
from crawl_engine.queue import Doorbells
from crawl_engine.store.db.connector import connect_postgres
from crawl_engine.store.db.file_header import CRAWL
from crawl_engine.store.db.location import Location
from tests.postgres_server import PostgresServer


@pytest.fixture
def server(database: str, tmp_path: Path) -> Location:
    location = Location(database, "shop")
    connect_postgres(location, tmp_path / CRAWL).create_tables()
    return location


class _Node:
    """A process that answers doorbells, in a thread."""

    def __init__(self, server: Location, gate: Callable[[], bool]) -> None:
        self.answered = 0
        self.should_dequeue = gate
        self.doorbells = Doorbells(Path("/nowhere"), server=server)
        self.thread = threading.Thread(target=self.doorbells.consume, args=(self,), daemon=True)

    def lease_rung(self) -> None:
        self.answered += 1


@contextmanager
def consuming(server: Location, gate: Callable[[], bool] = lambda: True) -> Iterator[_Node]:
    node = _Node(server, gate)
    node.thread.start()
    try:
        yield node
    finally:
        node.doorbells.stop()
        node.thread.join(5)
        node.doorbells.close()
        assert not node.thread.is_alive()


def wait_for(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return condition()


@contextmanager
def doorbells_on(server: Location) -> Iterator[Doorbells]:
    doorbells = Doorbells(Path("/nowhere"), server=server)
    try:
        yield doorbells
    finally:
        doorbells.close()


def test_each_doorbell_is_answered_by_one_node_of_any_machine(server: Location) -> None:
    with doorbells_on(server) as doorbells, consuming(server) as one, consuming(server) as two:
        for count in range(1, 30):
            doorbells.ring()
            assert wait_for(lambda count=count: one.answered + two.answered >= count)
        time.sleep(0.1)
        assert one.answered + two.answered == 29
        assert doorbells.has_pending() is False


def test_one_doorbell_waits_at_most_and_only_a_leader_discards_it(server: Location) -> None:
    with doorbells_on(server) as doorbells, doorbells_on(server) as other_machine:
        assert doorbells.has_pending() is False
        for _ in range(20):
            doorbells.ring()
            other_machine.ring()
        assert [len(d._huey.storage.enqueued_items()) for d in (doorbells, other_machine)] == [1, 1]
        Doorbells.open_empty(Path("/nowhere"), server=server).close()
        assert doorbells.has_pending() is False


def test_a_closed_gate_leaves_doorbells_to_other_machines(server: Location) -> None:
    with doorbells_on(server) as doorbells, consuming(server, gate=lambda: False) as busy:
        doorbells.ring()
        time.sleep(0.1)
        assert (busy.answered, doorbells.has_pending()) == (0, True)
        with consuming(server) as node:
            assert wait_for(lambda: node.answered == 1)


def test_doorbells_heal_after_a_restart_of_the_server(
    postgres: PostgresServer, server: Location, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with doorbells_on(server) as doorbells, consuming(server) as node:
        doorbells.ring()
        assert wait_for(lambda: node.answered == 1)
        postgres.stop("immediate")
        try:
            started = time.monotonic()
            doorbells.ring()
            assert doorbells.has_pending() is None
            with pytest.raises(StorageError, match="doorbells: "):
                Doorbells.open_empty(Path("/nowhere"), server=server)
            assert time.monotonic() - started < 1
            time.sleep(0.3)
        finally:
            postgres.start()
        assert sum("trying again" in message for message in caplog.messages) == 1, "one line for all polls"
        assert wait_for(lambda: doorbells.has_pending() is False), "a crash empties the table"
        doorbells.ring()
        assert wait_for(lambda: node.answered == 2)


def test_a_server_that_never_answers_holds_a_node_for_two_seconds(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / ".s.PGSQL.5432"))
        silent.listen()
        with doorbells_on(Location(f"postgresql:///shop?host={tmp_path}", "shop")) as doorbells:
            started = time.monotonic()
            assert doorbells.has_pending() is None
            doorbells.ring()
            assert time.monotonic() - started < 2.9


def test_a_poll_without_a_doorbell_writes_nothing(postgres: PostgresServer, server: Location) -> None:
    def next_transaction() -> int:
        return int(postgres.execute(server.url, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text")[0][0])

    with consuming(server) as node, doorbells_on(server) as doorbells:
        doorbells.ring()
        assert wait_for(lambda: node.answered == 1)
        before = next_transaction()
        time.sleep(0.3)
        assert next_transaction() == before


def test_psycopg_is_imported_for_postgresql_alone() -> None:
    program = "import crawl_engine.queue, pathlib, sys, tempfile\n" \
        "crawl_engine.queue.Doorbells(pathlib.Path(tempfile.mkdtemp())).ring()\n" \
        "print('psycopg' in sys.modules)"  # fmt: skip
    assert run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
