"""PgBouncer in transaction mode before the PostgreSQL server of the tests."""

import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.postgres_server import PostgresServer

_SERVER_CONNECTIONS = 3
"""Fewer than a process opens, so that transactions of one client take turns on them."""


class PgBouncer:
    """PgBouncer on a Unix socket, with the server's databases. Raises pytest's Skipped where it is not installed."""

    def __init__(self, server: PostgresServer) -> None:
        program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
        if program is None:
            pytest.skip("no PgBouncer: install Debian's pgbouncer")
        self._server = server
        self.folder = server.folder / "bouncer"
        self.folder.mkdir()
        users = self.folder / "users"
        users.write_text('"postgres" ""\n')
        settings = self.folder / "settings"
        settings.write_text(
            f"[databases]\n* = host={server.folder}\n[pgbouncer]\npool_mode = transaction\nlisten_addr =\n"
            f"unix_socket_dir = {self.folder}\nauth_type = trust\nauth_file = {users}\n"
            f"default_pool_size = {_SERVER_CONNECTIONS}\nserver_login_retry = 0\n"
            "query_wait_timeout = 2\n"
        )
        for path in (self.folder, users, settings):
            if server.user is not None:
                shutil.chown(path, server.user)
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, settings], stdout=log, stderr=log, cwd=self.folder, **server.identity()
            )
        deadline = time.monotonic() + 10
        while not (self.folder / ".s.PGSQL.6432").exists():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "PgBouncer does not start"
            time.sleep(0.01)

    def url(self, database: str) -> str:
        """The URL through PgBouncer of a database that is named by its own URL."""
        name = database.partition("?")[0]
        return f"{name}?host={self.folder}&port=6432"

    def close(self) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait(10)
        shutil.rmtree(self.folder)


@pytest.fixture(scope="module")
def pgbouncer(postgres: PostgresServer) -> Iterator[PgBouncer]:
    """One for the tests of a module."""
    bouncer = PgBouncer(postgres)
    yield bouncer
    bouncer.close()
