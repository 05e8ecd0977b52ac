"""Judges the errors of PostgreSQL: what a restart, a failover or too much load explains is waited for."""

import re

import psycopg

from crawl_engine.errors import CrawlError, StorageError
from crawl_engine.store.db.retry_busy import DatabaseBusy, DiskFull

_DISK_FULL, _READ_ONLY, _NO_RIGHT = "53100", "25006", "42501"
_WAITED_FOR = {
    "08000": "the connection failed",
    "08001": "no connection can be made",
    "08003": "the connection is gone",
    "08004": "the connection is refused",
    "08006": "the connection broke",
    "08007": "it broke at a commit",
    "08P01": "PgBouncer says what its server lacks",
    _READ_ONLY: "a standby, or a server before or after a failover",
    "25P03": "a process was stopped in its transaction",
    "25P04": "a transaction took longer than the server allows",
    "40000": "rolled back",
    "40001": "conflicts with another transaction, or with recovery",
    "40003": "nobody knows how it ended",
    "40P01": "deadlock",
    "53000": "the server lacks something",
    "53200": "memory",
    "53300": "connections",
    "55P03": "another one holds the lock",
    "57000": "an operator ended it",
    "57014": "cancelled, by an operator or a time limit",
    "57P01": "the server stops",
    "57P02": "one of its processes crashed",
    "57P03": "it starts, stops or recovers",
    "57P05": "the connection was idle for longer than the server allows",
}
"""By SQLSTATE. All others end the process: to try again gives the same answer."""
_REFUSED = re.compile(
    r"FATAL: (?!.*(starting up|shutting down|recovery mode|system is not|too many|connection slots|not yet|"
    r"terminating connection|canceling authentication|out of memory|No space left|"
    r"query_wait_timeout|try again later|connect failed|cannot connect to server|no more connections))"
)
"""The server answers, and will refuse the next connection too; a connection that fails has no SQLSTATE."""


def translate(error: psycopg.Error, name: str) -> CrawlError:
    """The same error for users: DatabaseBusy, DiskFull or StorageError. `name`: of the database."""
    text, state = f"{name}: {' '.join(str(error).split())}", error.diag.sqlstate or error.sqlstate
    if state == _DISK_FULL:
        return DiskFull(text, "Free some space on the disk of the server. A crawl waits for it.")
    if state == _READ_ONLY:
        return DatabaseBusy(
            text, "If it is a standby for good, name the primary server with --store. A crawl waits for a failover."
        )
    if state in _WAITED_FOR or (state is None and _is_lost(error)):
        return DatabaseBusy(
            text, "Check its address, that it runs, and that it has free connections. A crawl tries again by itself."
        )
    if state == _NO_RIGHT:
        return StorageError(text, "Name a server and a user that may write with --store.")
    if isinstance(error, psycopg.ProgrammingError) and state is None:  # psycopg quotes the whole URL
        return StorageError(f"{name}: not a valid URL of PostgreSQL", "Correct the URL of --store.")
    if isinstance(error, psycopg.OperationalError):
        return StorageError(text, "Check the URL of --store: the database, the user and the password.")
    return StorageError(text, "This is a bug in crawl-console; see data/logs.")


def _is_lost(error: psycopg.Error) -> bool:
    """Whether a connection broke or cannot be made now, as opposed to one that the server refuses."""
    return isinstance(error, psycopg.OperationalError) and not _REFUSED.search(" ".join(str(error).split()))
