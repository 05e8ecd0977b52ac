"""Which errors of PostgreSQL a crawl waits for, by SQLSTATE and by the text of a connection that fails."""

import inspect

import psycopg
import pytest
from psycopg import errors

from crawl_engine.errors import StorageError
from crawl_engine.store.db.postgres_errors import translate
from crawl_engine.store.db.retry_busy import DatabaseBusy, DiskFull

_WAITED_FOR = {
    "08000", "08001", "08003", "08004", "08006", "08007", "08P01", "25006", "25P03", "25P04", "40000", "40001",
    "40003", "40P01", "53000", "53100", "53200", "53300", "55P03", "57000", "57014", "57P01", "57P02", "57P03", "57P05",
}  # fmt: skip
_CLASSES = [
    class_ for _, class_ in inspect.getmembers(errors, inspect.isclass) if isinstance(vars(class_).get("sqlstate"), str)
]


def test_each_error_is_waited_for_or_ends_the_process() -> None:
    translated = {class_.sqlstate: translate(class_("it broke"), "shop") for class_ in _CLASSES}
    assert {state for state, error in translated.items() if isinstance(error, DatabaseBusy)} == _WAITED_FOR
    assert all(isinstance(error, StorageError) for state, error in translated.items() if state not in _WAITED_FOR)
    assert isinstance(translated["53100"], DiskFull)
    assert "primary" in translated["25006"].remedy
    assert "may write" in translated["42501"].remedy
    assert "the user and the password" in translated["28P01"].remedy
    assert "bug" in translated["42601"].remedy


@pytest.mark.parametrize(
    ("text", "is_waited_for"),
    [
        ("connection refused", True),
        ("server closed the connection unexpectedly", True),
        ("FATAL: the database system is starting up", True),
        ("FATAL: the database system is shutting down", True),
        ("FATAL: the database system is in recovery mode", True),
        ("FATAL: the database system is not accepting connections DETAIL: Hot standby mode is disabled.", True),
        ("FATAL: the database system is not yet accepting connections", True),
        ("FATAL: sorry, too many clients already", True),
        ('FATAL: too many connections for role "crawler"', True),
        ("FATAL: remaining connection slots are reserved for roles with the SUPERUSER attribute", True),
        ("FATAL: terminating connection due to administrator command", True),
        ("FATAL: canceling authentication due to timeout", True),
        ("FATAL: out of memory", True),
        ("FATAL: could not write init file: No space left on device", True),
        ("session is read-only", True),
        ("server is in hot standby mode", True),
        ("FATAL: query_wait_timeout", True),
        ("FATAL: server login has been failing, try again later (server_login_retry)", True),
        ('FATAL: password authentication failed for user "crawler"', False),
        ('FATAL: database "crawls" does not exist', False),
        ('FATAL: database "crawls" is not currently accepting connections', False),
        ('FATAL: no pg_hba.conf entry for host "10.0.0.7"', False),
    ],
)
def test_a_connection_that_cannot_be_made_now_is_waited_for(text: str, *, is_waited_for: bool) -> None:
    error = translate(psycopg.OperationalError(f"connection failed: {text}"), "shop")
    assert isinstance(error, DatabaseBusy) is is_waited_for


def test_an_invalid_url_is_not_quoted() -> None:
    error = translate(psycopg.ProgrammingError("invalid connection option hunter2"), "shop")
    assert isinstance(error, StorageError) and "hunter2" not in str(error)
