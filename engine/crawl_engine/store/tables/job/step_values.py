"""Writes the tables `step_values` and `step_checkpoints`: what plugin steps store."""

from collections.abc import Mapping, Sequence

from crawl_engine.model.job import LeasedJob
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome

_SET = """
INSERT INTO step_values (run, key, value) {values} ON CONFLICT (run, key) DO UPDATE SET value = excluded.value
"""
_SET_CHECKPOINT = """
INSERT INTO step_checkpoints (job, text) VALUES (?, ?) ON CONFLICT (job) DO UPDATE SET text = excluded.text
"""


def get(db: Database, run: int, key: str) -> str | None:
    return db.value("SELECT value FROM step_values WHERE run = ? AND key = ?", (run, key))


class PluginRun(Effect):
    """A page went through plugin code, which may have stored a checkpoint and values: JSON by key."""

    stored_values: Mapping[str, str]


def write(commit: Commit, made: Sequence[tuple[JobOutcome, PluginRun]]) -> None:
    """Store the values of pages; their jobs need no checkpoint any more."""
    values = {key: value for _, plugins in made for key, value in plugins.stored_values.items()}
    commit.db.execute_values(_SET, [(commit.run, key, value) for key, value in values.items()])
    delete_checkpoints(commit.db, [outcome.job.page_id for outcome, _ in made])


def get_checkpoint(db: Database, job: int) -> str | None:
    return db.value("SELECT text FROM step_checkpoints WHERE job = ?", (job,))


def set_checkpoint(db: Database, job: LeasedJob, text: str) -> bool:
    """Store a text for the next attempt at a job; False: the lease is lost, and nothing is written."""
    if not jobs.is_held(db, job):
        return False
    db.execute(_SET_CHECKPOINT, (job.page_id, text))
    return True


def delete_checkpoints(db: Database, ended: Sequence[int]) -> None:
    db.execute("DELETE FROM step_checkpoints WHERE job IN (SELECT value FROM json_each(?))", (id_list(ended),))
