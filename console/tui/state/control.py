"""Control client: sends commands to the supervisor, and counts, exports and retries jobs."""

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
    """Called on worker threads; may take seconds. Raises CrawlError if a command cannot be carried out."""

    def send(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Send a command; returns whether it succeeded, and the answer."""

    def count_jobs(self, job_filter: JobFilter) -> int:
        """How many jobs match."""

    def export_jobs(self, job_filter: JobFilter, path: Path) -> int:
        """Write all jobs that match to a CSV file; returns how many."""

    def retry_jobs(self, job_filter: JobFilter, ids: Sequence[int]) -> int:
        """Make these jobs READY again, or without ids all that match; returns how many changed."""


class LocalControlClient:
    """Works on a local data dir, as the command line does."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def send(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Send a command and wait for the answer."""
        return client.send_command(self._data, name, arguments)

    def count_jobs(self, job_filter: JobFilter) -> int:
        """How many jobs match."""
        with open_latest_run(self._data) as (db, run):
            return browse.count_jobs(db, run.seq, job_filter)

    def export_jobs(self, job_filter: JobFilter, path: Path) -> int:
        """Write the objects of `jobs --json` as CSV rows."""
        path.parent.mkdir(mode=0o700, exist_ok=True)
        count, after = 0, None
        with open_latest_run(self._data) as (db, run), path.open("w", encoding="utf-8", newline="") as file:
            path.chmod(0o600)
            writer = csv.writer(file)
            while True:
                page = browse.list_jobs(db, run.seq, job_filter, after=after, limit=_EXPORT_PAGE)
                rows = [job_as_dict(line) for line in page.lines]
                if rows and not count:
                    writer.writerow(rows[0])
                writer.writerows([row.values() for row in rows])
                count, after = count + len(rows), page.next
                if after is None:
                    return count

    def retry_jobs(self, job_filter: JobFilter, ids: Sequence[int]) -> int:
        """As the command `retry` does."""
        with open_latest_run(self._data, write=True) as (db, run):
            return retries.retry_jobs(db, run.seq, list(ids)) if ids else retries.retry(db, run.seq, job_filter)
