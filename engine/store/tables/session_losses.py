"""Writes the table `session_losses`: the pages that were answered as if nobody had logged in."""

from collections.abc import Iterable

import orjson

from engine.store.db.connector import Database, id_list

_ADD = "INSERT INTO session_losses (job, login) VALUES (?, ?) ON CONFLICT (job) DO UPDATE SET login = excluded.login"
_READ = """
SELECT json_group_array(json_array(job, login)) FROM session_losses WHERE job IN (SELECT value FROM json_each(?))
"""
_REMOVE = "DELETE FROM session_losses WHERE job IN (SELECT value FROM json_each(?))"


def add(db: Database, job: int, login: int) -> None:
    """The page of a job was lost with the login of this number."""
    db.execute(_ADD, (job, login))


def read(db: Database, jobs: Iterable[int]) -> dict[int, int]:
    """By job: the number of the login with which its page was lost."""
    return {int(job): int(login) for job, login in orjson.loads(db.value(_READ, (id_list(jobs),)))}


def remove(db: Database, jobs: Iterable[int]) -> None:
    """Forget the losses of jobs that begin anew."""
    db.execute(_REMOVE, (id_list(jobs),))
