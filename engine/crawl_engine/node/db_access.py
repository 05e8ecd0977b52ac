"""The fetch loop's access to the store: reads run on its own thread, the one write on another."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal

from crawl_engine.http.request import cookies_along
from crawl_engine.model.job import LeasedJob, StoredPage, link_key, scoped_key
from crawl_engine.model.locator import Series, SitemapRules
from crawl_engine.store.db.connector import Database, DatabaseBusy, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.page_store import PageStore, StoredBody
from crawl_engine.store.tables.host import answers, host_logins, hosts
from crawl_engine.store.tables.host.host_logins import HostLogin
from crawl_engine.store.tables.host.hosts import StoredRobots
from crawl_engine.store.tables.job import jobs, linked_jobs, locators, step_values
from crawl_engine.store.tables.row import files
from crawl_engine.store.tables.row.files import EarlierFile
from crawl_engine.store.tables.run import page_limits

_BUSY_SECONDS, _BUSY_PAUSE = 5.0, 0.5


class RequestLimitReached(Exception):
    """A job may send no further request: the limit of its group or run is reached, or its lease is lost."""


class DbAccess:
    """Two readers used by the fetch loop's thread alone, and a writer used by a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self._reader = connect(folder / CRAWL, read_only=True, small_cache=True)
        self._pages = PageStore(folder, read_only=True)
        self._folder = folder
        self._executor = ThreadPoolExecutor(1, "db-writer")
        self._writer: Database | None = None

    def strikes(self, host: int) -> int:
        """Responses 429 or 503 in a row."""
        return hosts.get_backoff(self._reader, host)[0]

    def recent_answers(self, host: int) -> tuple[int, int]:
        """The number of the host's last answers to first requests, at most 20, and how many of them refused."""
        return answers.count_recent(self._reader, host)

    def robots(self, host: int) -> StoredRobots | Literal["OFF"] | None:
        """The host's robots.txt; None: not read yet; OFF: it does not apply."""
        return hosts.get_robots(self._reader, host)

    def find_host(self, run: int, key: str) -> int | None:
        """The id of a host (`name:port`); None: no job of the run was there."""
        return hosts.find(self._reader, run, key)

    def is_named_host(self, run: int, key: str) -> bool:
        """Whether a locator of the run names this host (`name:port`)."""
        return hosts.is_named(self._reader, run, key)

    def is_named_name(self, run: int, name: str) -> bool:
        """Whether a locator of the run names this host, with any port."""
        return hosts.is_name_named(self._reader, run, name)

    def stored_pages(self, run: int, key: bytes) -> Sequence[StoredPage]:
        """The documents of this run for a request, the newest last."""
        return documents.list_stored(self._reader, run, [key], float("inf")).get(key, ())

    def good_documents(self, keys: Sequence[bytes]) -> dict[bytes, list[tuple[StoredPage, bytes | None]]]:
        """The good documents of each request, of any run, with their digests; the newest last."""
        return documents.list_good(self._reader, keys)

    def is_own_document(self, job: LeasedJob, stored: StoredPage) -> bool:
        """Whether the job had this document before, in this run or in that of the document."""
        return documents.is_of_job(self._reader, job.id, stored.page)

    def page_headers(self, pages: Iterable[int]) -> dict[int, tuple[tuple[str, str], ...]]:
        """The response headers of each stored page; missing pages are left out."""
        return self._pages.list_headers(pages)

    async def page_body(self, page: int) -> StoredBody | None:
        """The bytes of a stored page, with the headers it came with. Waits for the object store of a large one."""
        if (row := self._pages.find(page)) is None:
            return None
        headers, frame = row
        while self._pages.objects.is_place(frame):
            try:
                found = await asyncio.to_thread(self._pages.objects.get, frame)
            except DatabaseBusy:
                await asyncio.sleep(_BUSY_PAUSE)
            else:
                return None if found is None else self._pages.unpack(headers, found)
        return self._pages.unpack(headers, frame)

    def step_value(self, run: int, key: str) -> str | None:
        """The JSON that plugin steps stored under a key in a run."""
        return step_values.get(self._reader, run, key)

    def sitemap_rules(self, locator: int) -> SitemapRules | None:
        """The rules for the entries of a locator's sitemap; None: all are followed."""
        return locators.get_sitemap_rules(self._reader, locator)

    def is_page_of_another(self, job: LeasedJob, url: str) -> bool:
        """Whether another job of the group already has this URL."""
        key = scoped_key(link_key(job.group, url), cookies_along(job, job.group, url))
        return linked_jobs.is_page_of_another(self._reader, job.run, key, job.page_id)

    def was_asked_again(self, job: LeasedJob) -> bool:
        """Whether the page of a job was empty before, and was asked for once more."""
        return jobs.was_asked_again(self._reader, job.id)

    def series(self, locator: int) -> Series | None:
        """The pages of a locator that follow one another; None: the locator has no series."""
        return locators.get_series(self._reader, locator)

    def checkpoint(self, job: int) -> str | None:
        """What an earlier attempt at a job stored."""
        return step_values.get_checkpoint(self._reader, job)

    async def write_checkpoint(self, job: LeasedJob, text: str) -> None:
        """Store a text for the next attempt at a job, if its lease is valid. Waits for a busy database."""
        while True:
            try:
                await self._write(partial(step_values.set_checkpoint, job=job, text=text))
                return
            except DatabaseBusy:
                await asyncio.sleep(_BUSY_PAUSE)

    def file_path(self, run: int, digest: str) -> str | None:
        """The path of a file of the run with that content; None: the run has no such file."""
        return files.find_path(self._reader, run, digest)

    def earlier_file(self, job: LeasedJob) -> EarlierFile | None:
        """The file that an earlier run had at the URL of the job."""
        return files.find_earlier(self._reader, job.run, job.url)

    def equal_file(self, run: int, digest: str) -> EarlierFile | None:
        """A file with that content of an earlier run."""
        return files.find_equal(self._reader, run, digest)

    def read(self, work: Callable[[Database], None]) -> None:
        """Call `work` with the reader."""
        work(self._reader)

    def host_login(self, host: int) -> HostLogin:
        """The login of a host."""
        return host_logins.read(self._reader, host)

    def login_failure(self, host: int) -> str:
        """Why the login of a host failed."""
        return host_logins.get_failure(self._reader, host)

    async def claim_target(self, job: LeasedJob, target: str) -> bool:
        """Record that the job fetches `target` next. False: another job does, or the lease is lost."""
        try:
            return await self._write(partial(jobs.claim_target, job=job, target=target))
        except DatabaseBusy:
            return False  # the job continues from there when it is leased again

    async def reserve_request(self, job: LeasedJob) -> bool:
        """Count one more request of a job with a page limit. False: the limit is reached, or the lease is lost.

        Waits for a busy database without a limit: otherwise the job would start again from its first request.
        """
        while True:
            try:
                return await self._write(partial(page_limits.reserve_next, job=job))
            except DatabaseBusy:
                await asyncio.sleep(_BUSY_PAUSE)

    async def _write(self, work: Callable[[Database], bool]) -> bool:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._write_now, work)

    def _write_now(self, work: Callable[[Database], bool]) -> bool:
        if self._writer is None:
            self._writer = connect(self._folder / CRAWL, durable=False, busy_seconds=_BUSY_SECONDS, small_cache=True)
        with self._writer.transaction():
            return work(self._writer)
