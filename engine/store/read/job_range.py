"""Finds the run of a job, and the first ids of a run's jobs and rows."""

from typing import Literal

from engine.store.db.connector import Database

_RUN_FROM = "SELECT id, run FROM {table} WHERE id >= ? ORDER BY id LIMIT 1"


def find_first_id(db: Database, run: int, last: int, *, table: Literal["jobs", "rows"] = "jobs") -> int:
    """The first id of this run or a later one; `last`: the highest id of all."""
    sql = _RUN_FROM.format(table=table)
    low, high = 1, last + 1
    while low < high:
        middle = (low + high) // 2
        row = db.one(sql, (middle,))
        if row is None or row[1] >= run:
            high = middle
        else:
            low = row[0] + 1
    return low


def find_run(db: Database, job: int) -> int | None:
    run = db.value("SELECT run FROM jobs WHERE id = ?", (job,))
    return None if run is None else int(run)
