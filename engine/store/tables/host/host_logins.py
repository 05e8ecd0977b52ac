"""Writes the logins of hosts, and the table `session_losses`: pages answered without a login."""

from collections.abc import Iterable
from typing import NamedTuple

import orjson

from engine.store.db.connector import Database, id_list

_READ = "SELECT key, origin, login, login_number FROM hosts WHERE id = ?"
_WANT = "UPDATE hosts SET login = 'WANTED', lost_in_row = 0 WHERE id = ?"
_RENEW = "UPDATE hosts SET login = 'WANTED', login_number = login_number + 1, lost_in_row = 0 WHERE id = ?"
_TURN_OFF = "UPDATE hosts SET login = 'OFF', lost_in_row = 0 WHERE id = ?"
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
_GET_FAILURE = "SELECT login_failure FROM hosts WHERE id = ?"
_COUNT_LOST = "UPDATE hosts SET lost_in_row = lost_in_row + 1 WHERE id = ? RETURNING lost_in_row"
_RESET_LOST = "UPDATE hosts SET lost_in_row = 0 WHERE lost_in_row > 0 AND id IN (SELECT value FROM json_each(?))"
_LIST_FAILED = "SELECT id FROM hosts WHERE run = ? AND login = 'FAILED'"
_LIST_FAILED_OF_JOBS = """
SELECT DISTINCT h.id FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value
CROSS JOIN sequences s ON s.id = j.sequence CROSS JOIN hosts h ON h.id = s.host WHERE h.login = 'FAILED'
"""
LOST_PAUSE = 2
"""`hosts.paused` where a lost login, and no operator, has paused the host."""
_PAUSE = f"UPDATE hosts SET paused = {LOST_PAUSE} WHERE id = ? AND paused = 0"
_ADD_LOSS = (
    "INSERT INTO session_losses (job, login) VALUES (?, ?) ON CONFLICT (job) DO UPDATE SET login = excluded.login"
)
_READ_LOSSES = """
SELECT json_group_array(json_array(job, login)) FROM session_losses WHERE job IN (SELECT value FROM json_each(?))
"""
_REMOVE_LOSSES = "DELETE FROM session_losses WHERE job IN (SELECT value FROM json_each(?))"


class HostLogin(NamedTuple):
    """The login of a host (`name:port`): OFF, WANTED, DONE or FAILED, and its number."""

    key: str
    origin: str
    state: str
    number: int


def read(db: Database, host: int) -> HostLogin:
    """The login of a host."""
    return HostLogin(*db.all(_READ, (host,))[0])


def want(db: Database, host: int) -> None:
    """The host's pages wait for a login."""
    db.execute(_WANT, (host,))


def renew(db: Database, host: int) -> None:
    """The same, by other defs: a login that is being made by the old ones does not count."""
    db.execute(_RENEW, (host,))


def turn_off(db: Database, host: int) -> None:
    """The defs have no login for the host."""
    db.execute(_TURN_OFF, (host,))


def complete(db: Database, host: int) -> None:
    """The login has been made; nothing where none is wanted any more."""
    db.execute(_COMPLETE, (host,))


def fail(db: Database, host: int, reason: str) -> str | None:
    """The login cannot be made; returns the host's key, None where none is wanted any more."""
    key = db.value(_FAIL, (reason, host))
    return None if key is None else str(key)


def abandon(db: Database, run: int) -> list[str]:
    """Fail the logins whose job failed with its nodes, so that pages do not wait forever; returns their hosts' keys."""
    return [str(key) for (key,) in db.all(_ABANDON, (run,))]


def get_failure(db: Database, host: int) -> str:
    """Why the host's login failed."""
    return str(db.value(_GET_FAILURE, (host,)) or "")


def count_lost(db: Database, host: int) -> int:
    """Count a page that failed right after a new login; returns how many there are in a row."""
    return int(db.value(_COUNT_LOST, (host,)))


def reset_lost(db: Database, hosts: Iterable[int]) -> None:
    """A page of each of these hosts was answered to who has logged in."""
    db.execute(_RESET_LOST, (id_list(hosts),))


def pause(db: Database, host: int) -> None:
    """Pause a host whose login does not last, until an operator resumes it."""
    db.execute(_PAUSE, (host,))


def list_failed(db: Database, run: int) -> list[int]:
    """The hosts whose login failed."""
    return [int(id_) for (id_,) in db.all(_LIST_FAILED, (run,))]


def list_failed_of_jobs(db: Database, ids: Iterable[int]) -> list[int]:
    """The hosts of these jobs whose login failed."""
    return [int(id_) for (id_,) in db.all(_LIST_FAILED_OF_JOBS, (id_list(ids),))]


def add_loss(db: Database, job: int, login: int) -> None:
    """Record that the page of a job was lost with the login of this number."""
    db.execute(_ADD_LOSS, (job, login))


def read_losses(db: Database, jobs: Iterable[int]) -> dict[int, int]:
    """By job: the number of the login with which its page was lost."""
    return {int(job): int(login) for job, login in orjson.loads(db.value(_READ_LOSSES, (id_list(jobs),)))}


def remove_losses(db: Database, jobs: Iterable[int]) -> None:
    """Forget the losses of jobs that start again."""
    db.execute(_REMOVE_LOSSES, (id_list(jobs),))
