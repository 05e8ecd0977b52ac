"""What a console acts through: someone who carries orders to the supervisor, and its answer back."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from console import client
from console.client import job_as_dict, open_latest_run
from engine.store.db.filter import JobFilter
from engine.store.read import browse
from engine.store.transactions import retry as retries

_EXPORT_PAGE = 500


class ControlClient(Protocol):
    """Called on a worker thread; may take seconds. Raises CrawlError where nobody can obey."""

    def send(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Whether it was done, and a sentence for the operator."""

    def count_jobs(self, wanted: JobFilter) -> int:
        """How many jobs match."""

    def newest_job(self, wanted: JobFilter) -> int | None:
        """The id of the last job that matches."""

    def export_jobs(self, wanted: JobFilter, path: Path) -> int:
        """Write all jobs that match to a CSV file; returns how many."""

    def retry_jobs(self, wanted: JobFilter, ids: Sequence[int]) -> int:
        """Make those jobs READY again, or with none named all that match; returns how many were."""


class LocalControlClient:
    """Orders as the commands of the command line give them."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def send(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Give the command, and wait for its answer."""
        return client.send_command(self._data, name, arguments)

    def count_jobs(self, wanted: JobFilter) -> int:
        """How many jobs match."""
        with open_latest_run(self._data) as (db, run):
            return browse.count_jobs(db, run.seq, wanted)

    def newest_job(self, wanted: JobFilter) -> int | None:
        """The id of the last job that matches."""
        with open_latest_run(self._data) as (db, run):
            found = browse.list_jobs(db, run.seq, wanted, limit=1, backwards=True, seconds=2.0).lines
            return found[0].id if found else None

    def export_jobs(self, wanted: JobFilter, path: Path) -> int:
        """The objects of `jobs --json`, as rows."""
        path.parent.mkdir(mode=0o700, exist_ok=True)
        count, at = 0, None
        with open_latest_run(self._data) as (db, run), path.open("w", encoding="utf-8", newline="") as file:
            path.chmod(0o600)
            writer = csv.writer(file)
            while True:
                part = browse.list_jobs(db, run.seq, wanted, after=at, limit=_EXPORT_PAGE)
                told = [job_as_dict(line) for line in part.lines]
                if told and not count:
                    writer.writerow(told[0])
                writer.writerows([row.values() for row in told])
                count, at = count + len(told), part.next
                if at is None:
                    return count

    def retry_jobs(self, wanted: JobFilter, ids: Sequence[int]) -> int:
        """As the command `retry`."""
        with open_latest_run(self._data, write=True) as (db, run):
            return retries.retry_jobs(db, run.seq, list(ids)) if ids else retries.retry(db, run.seq, wanted)
