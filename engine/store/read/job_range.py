"""Finds the run of a job, and where the jobs of a run begin: jobs are created for the newest run only."""

from engine.store.db.connector import Database

_RUN_FROM = "SELECT id, run FROM jobs WHERE id >= ? ORDER BY id LIMIT 1"
_RUN = "SELECT run FROM jobs WHERE id = ?"


def find_first_id(db: Database, run: int, last: int) -> int:
    """The first job id of this run or a later one; `last`: the highest id of all."""
    low, high = 1, last + 1
    while low < high:
        middle = (low + high) // 2
        row = db.one(_RUN_FROM, (middle,))
        if row is None or row[1] >= run:
            high = middle
        else:
            low = row[0] + 1
    return low


def find_run(db: Database, job: int) -> int | None:
    """The run of a job; None: there is no such job."""
    run = db.value(_RUN, (job,))
    return None if run is None else int(run)
