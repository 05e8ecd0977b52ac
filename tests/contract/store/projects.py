"""Projects of a PostgreSQL server for tests: one that a test gives back is emptied, since new tables cost much."""

import contextlib
import os
from pathlib import Path
from typing import Any

from crawl_engine.store.db.connector import connect_postgres
from crawl_engine.store.db.location import Location
from tests.postgres_server import PostgresServer

_SHAPE = """
SELECT relname, relkind, relnatts, relchecks, obj_description(oid, 'pg_class') FROM pg_class
WHERE relnamespace = to_regnamespace('{name}')
"""
_SEQUENCES = (
    "SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S' AND relnamespace = '{name}'::regnamespace"
)
_MODEL = "model"


class Projects:
    """Their schemas equal the model's: one that a test has changed is given to no other test."""

    def __init__(self, server: PostgresServer) -> None:
        self._url = server.url("postgres")
        self._free: list[str] = []
        self._count = 0
        connect_postgres(Location(self._url, _MODEL), Path("crawl.db")).create_tables()
        self._connect()
        self._shape = self._read_shape(_MODEL)
        self._tables = sorted(name for name, kind, *_ in self._shape if kind == "r")
        self._begun = self._filled(_MODEL)

    def take(self) -> Location:
        """A project without rows, or without tables."""
        if not self._free:
            self._count += 1
            self._free.append(f"t{self._count}")
        return Location(self._url, self._free.pop())

    def give(self, location: Location) -> None:
        """Empty it for the next test; one whose tables are locked, or have changed, is not used again."""
        from psycopg import OperationalError

        from crawl_engine.store.db.postgres import _connections

        idle = _connections(self._url, os.getpid())._idle
        while idle:  # a test may restart the server
            idle.pop().close()
        name = location.project
        with contextlib.suppress(OperationalError):
            if self._is_lost():
                self._connect()
            shape = self._read_shape(name)
            for relation, kind, *_ in shape - self._shape:
                if kind == "r":  # the parts of a run
                    self._execute(f"DROP TABLE {name}.{relation}")
            if shape and self._read_shape(name) != self._shape:
                return
            if shape:
                self._empty(name)
            self._free.append(name)

    def close(self) -> None:
        self._connection.close()

    def _connect(self) -> None:
        import psycopg

        self._connection = psycopg.connect(self._url, autocommit=True)
        self._connection.execute("SET lock_timeout = '2s'")

    def _is_lost(self) -> bool:
        """Whether a test has restarted the server."""
        from psycopg import OperationalError

        try:
            self._connection.execute("SELECT")
        except OperationalError:
            return True
        return False

    def _empty(self, name: str) -> None:
        if filled := self._filled(name):
            self._execute("TRUNCATE " + ", ".join(f"{name}.{table}" for table in filled))
        for table in self._begun:
            self._execute(f"INSERT INTO {name}.{table} SELECT * FROM {_MODEL}.{table}")
        self._execute(
            f"UPDATE {name}.meta SET value = replace(gen_random_uuid()::text, '-', '') WHERE name = 'identity'"
        )
        self._execute(_SEQUENCES.format(name=name))

    def _filled(self, name: str) -> list[str]:
        """The tables that have rows."""
        found = (f"SELECT '{table}' WHERE EXISTS (SELECT FROM {name}.{table})" for table in self._tables)
        return [row[0] for row in self._execute(" UNION ALL ".join(found))]

    def _read_shape(self, name: str) -> set[tuple[Any, ...]]:
        return set(self._execute(_SHAPE.format(name=name)))

    def _execute(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []
