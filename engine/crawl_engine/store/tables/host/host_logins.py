"""Writes the logins of hosts, and the table `session_losses`: pages answered without a login."""

from collections.abc import Iterable
from typing import NamedTuple

import orjson

from crawl_engine.store.db.connector import Database, id_list

_READ = "SELECT key, origin, login AS state, login_number AS number FROM hosts WHERE id = ?"
_WANT = "UPDATE hosts SET login = 'WANTED', login_number = login_number + ?, lost_in_row = 0 WHERE id = ?"
_COMPLETE = """
UPDATE hosts SET login = 'DONE', login_number = login_number + 1, login_failure = NULL
WHERE id = ? AND login = 'WANTED'
"""
_FAIL = "UPDATE hosts SET login = 'FAILED', login_failure = ? WHERE id = ? AND login = 'WANTED' RETURNING key"
_ABANDON = """
UPDATE hosts SET login = 'FAILED', login_failure = 'its node ended during the login'
WHERE run = ? AND login = 'WANTED' AND EXISTS (
    SELECT 1 FROM sequences s WHERE s.host = hosts.id AND s.kind = 'login' AND s.failed > 0 AND s.ready + s.delayed = 0)
RETURNING key
"""
_RESET_LOST = "UPDATE hosts SET lost_in_row = 0 WHERE lost_in_row > 0 AND id IN (SELECT value FROM json_each(?))"
_LIST_FAILED_OF_JOBS = """
SELECT DISTINCT h.id FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value
CROSS JOIN sequences s ON s.id = j.sequence CROSS JOIN hosts h ON h.id = s.host WHERE h.login = 'FAILED'
"""
LOST_PAUSE = 2
"""`hosts.paused` where a lost login, and no operator, has paused the host."""
_ADD_LOSS = (
    "INSERT INTO session_losses (job, login) VALUES (?, ?) ON CONFLICT (job) DO UPDATE SET login = excluded.login"
)
_READ_LOSSES = """
SELECT json_group_array(json_array(job, login)) FROM session_losses WHERE job IN (SELECT value FROM json_each(?))
"""


class HostLogin(NamedTuple):
    """The login of a host (`name:port`): OFF, WANTED, DONE or FAILED, and its number."""

    key: str
    origin: str
    state: str
    number: int


def read(db: Database, host: int) -> HostLogin:
    (login,) = db.rows(HostLogin, _READ, (host,))
    return login


def want(db: Database, host: int, *, renewed: bool = False) -> None:
    """Have the host's pages wait for a login. `renewed`: one in progress under the old defs does not count."""
    db.execute(_WANT, (int(renewed), host))


def turn_off(db: Database, host: int) -> None:
    db.execute("UPDATE hosts SET login = 'OFF', lost_in_row = 0 WHERE id = ?", (host,))


def complete(db: Database, host: int) -> None:
    """Record a login, if the host still waits for one."""
    db.execute(_COMPLETE, (host,))


def fail(db: Database, host: int, reason: str) -> str | None:
    """Record a failed login; returns the host's key, or None if the host no longer waits for a login."""
    return db.value(_FAIL, (reason, host))


def abandon(db: Database, run: int) -> list[str]:
    """Fail the logins whose job failed with its nodes, so that pages do not wait forever; returns their hosts' keys."""
    return db.column(_ABANDON, (run,))


def get_failure(db: Database, host: int) -> str:
    return str(db.value("SELECT login_failure FROM hosts WHERE id = ?", (host,)) or "")


def count_lost(db: Database, host: int) -> int:
    """Count a page that failed right after a new login; returns how many there are in a row."""
    return int(db.value("UPDATE hosts SET lost_in_row = lost_in_row + 1 WHERE id = ? RETURNING lost_in_row", (host,)))


def reset_lost(db: Database, hosts: Iterable[int]) -> None:
    """The logins of these hosts serve: a page of each was answered as expected."""
    db.execute(_RESET_LOST, (id_list(hosts),))


def pause(db: Database, host: int) -> None:
    """Pause a host whose login does not last, until an operator resumes it."""
    db.execute(f"UPDATE hosts SET paused = {LOST_PAUSE} WHERE id = ? AND paused = 0", (host,))


def list_failed(db: Database, run: int) -> list[int]:
    return db.column("SELECT id FROM hosts WHERE run = ? AND login = 'FAILED'", (run,))


def has_failed(db: Database, host: int) -> bool:
    return bool(db.value("SELECT login = 'FAILED' FROM hosts WHERE id = ?", (host,)))


def list_failed_of_jobs(db: Database, ids: Iterable[int]) -> list[int]:
    return db.column(_LIST_FAILED_OF_JOBS, (id_list(ids),))


def add_loss(db: Database, job: int, login: int) -> None:
    """Record that the page of a job was lost with the login of this number."""
    db.execute(_ADD_LOSS, (job, login))


def read_losses(db: Database, jobs: Iterable[int]) -> dict[int, int]:
    """By job: the number of the login with which its page was lost."""
    return {int(job): int(login) for job, login in orjson.loads(db.value(_READ_LOSSES, (id_list(jobs),)))}


def remove_losses(db: Database, jobs: Iterable[int]) -> None:
    db.execute("DELETE FROM session_losses WHERE job IN (SELECT value FROM json_each(?))", (id_list(jobs),))
