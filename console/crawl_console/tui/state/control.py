"""Control client: sends commands to the supervisor, and counts, exports and retries jobs."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crawl_console import client
from crawl_console.client import job_as_dict, open_latest_run
from crawl_console.crawl import orders
from crawl_console.crawl.orders import Retried
from crawl_engine.runtime.private_file import create_draft
from crawl_engine.store.db.filter import JobFilter
from crawl_engine.store.read import browse
from crawl_engine.store.transactions import exclude
from crawl_engine.store.transactions.exclude import Exclusion

_EXPORT_PAGE = 500


class ControlClient:
    """Works on a data dir as the command line does, on worker threads. Raises CrawlError if an order cannot be done."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def send(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Send a command; returns whether it succeeded, and the answer."""
        return client.send_command(self._data, name, arguments)

    def acknowledge(self, added: Sequence[str], removed: Sequence[str]) -> None:
        client.acknowledge(self._data, added, removed)

    def count_jobs(self, job_filter: JobFilter) -> int:
        with open_latest_run(self._data) as (db, run):
            return browse.count_jobs(db, run.seq, job_filter)

    def export_jobs(self, job_filter: JobFilter, path: Path) -> int:
        """Write the objects of `jobs --json` as CSV rows; returns how many."""
        path.parent.mkdir(mode=0o700, exist_ok=True)
        count, after = 0, None
        with (
            open_latest_run(self._data) as (db, run),
            os.fdopen(create_draft(path), "w", encoding="utf-8", newline="") as file,
        ):
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

    def retry_jobs(self, job_filter: JobFilter, ids: Sequence[int], at_most: int) -> Retried:
        """Make these jobs READY again, or without ids those that match; never more than the operator agreed to."""
        with open_latest_run(self._data, write=True) as (db, run):
            return orders.retry_chosen(db, run, job_filter, ids, at_most=at_most)

    def undo_retry(self, retried: Retried) -> tuple[bool, str]:
        return orders.undo_retry(self._data, retried)

    def exclude_jobs(self, job_filter: JobFilter) -> Exclusion:
        with open_latest_run(self._data, write=True) as (db, run):
            return exclude.exclude(db, run.seq, job_filter)

    def readmit_jobs(self, exclusion: Exclusion) -> tuple[bool, str]:
        return orders.readmit_jobs(self._data, exclusion)
