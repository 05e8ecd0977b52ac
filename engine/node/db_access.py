"""The clerk: what the fetch loop asks of the store. Reads are answered at once; a write goes through a thread."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine.model.job import LeasedJob, StoredPage
from engine.store.db.connector import Busy, Database
from engine.store.db.schema import CRAWL
from engine.store.pages import documents
from engine.store.pages.documents import Pages
from engine.store.tables import hosts, jobs


class Clerk:
    """Used by the fetch loop's thread alone, but for the writes it sends to its own."""

    def __init__(self, folder: Path) -> None:
        self._read = Database.open(folder / CRAWL, read_only=True)
        self._pages = Pages(folder, read_only=True)
        self._folder = folder
        self._writing = ThreadPoolExecutor(1, "clerk")
        self._write: Database | None = None

    def backs_off(self, host: int, now: float) -> bool:
        """Whether the host asked to be left alone at this boot-time second."""
        until = hosts.standing(self._read, host)[1]
        return until is not None and until > now

    def strikes(self, host: int) -> int:
        """Answers 429 or 503 in a row."""
        return hosts.standing(self._read, host)[0]

    def robots(self, host: int) -> tuple[int, str] | None:
        """Status and text of the host's robots.txt; None where it does not count."""
        return hosts.robots(self._read, host)

    def stored(self, run: int, key: bytes) -> StoredPage | None:
        """The document of this run for a request."""
        return documents.stored(self._read, run, [key], float("inf")).get(key)

    def body(self, page: int) -> bytes | None:
        """The bytes of a stored page."""
        return self._pages.read(page)

    async def claim(self, job: LeasedJob, target: str) -> bool:
        """Say that the job goes on to fetch `target`; False: another job is at it, or the lease is lost."""
        return await asyncio.get_running_loop().run_in_executor(self._writing, self._claim, job, target)

    def _claim(self, job: LeasedJob, target: str) -> bool:
        if self._write is None:
            self._write = Database.open(self._folder / CRAWL, durable=False, busy_seconds=5)
        try:
            with self._write.transaction():
                return jobs.claim_target(self._write, job, target)
        except Busy:
            return False
