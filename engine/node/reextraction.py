"""Re-extraction: a stored page worked anew with the current defs. No request, no host, no clock."""

import asyncio
import time
from concurrent.futures import Executor

from engine import urls
from engine.model.job import JobState, LeasedJob
from engine.node.db_access import DbAccess
from engine.node.extraction import PageExtraction, PageExtractor, UnreadablePage, UnsupportedContent
from engine.store.tables.events import Event
from engine.store.transactions.outcome import JobOutcome

MAX_INLINE_PARSE_BYTES = 64 * 1024
"""Bytes of a page that is parsed where the fetches are waited for; a larger one would hold them up."""
_MAX_REJECTION_EVENTS = 5


class Reextractor:
    """One for each node, beside its pipeline."""

    def __init__(self, *, source: str, db_access: DbAccess, page_extractor: PageExtractor, executor: Executor) -> None:
        """`source` names this node in events; `threads` parse large pages."""
        self._source = source
        self._db_access = db_access
        self._page_extractor = page_extractor
        self._executor = executor

    async def reextract(self, job: LeasedJob) -> JobOutcome:
        """What became of it: rows to take the place of the old ones, or the reason why those stay."""
        stored = job.stored
        body = self._db_access.page_body(stored.page) if stored is not None else None
        if stored is None or body is None:
            return self._failed(job, "its stored page is missing")

        def work() -> PageExtraction:
            return self._page_extractor.extract(
                job, body=body, content_type=stored.content_type, url=stored.url, status=stored.status,
                fetched_at=stored.fetched_at,
            )  # fmt: skip

        try:
            if len(body) <= MAX_INLINE_PARSE_BYTES:
                harvest = work()
            else:
                harvest = await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except UnsupportedContent as what:
            return self._failed(job, f"not a page: {what}")
        except UnreadablePage as problem:
            return self._failed(job, str(problem))
        counts: dict[str, int] = {}
        for rejection in harvest.rejected:
            counts[rejection.data_def] = counts.get(rejection.data_def, 0) + 1
        events = tuple(
            self._event(job, f"{r.data_def}.{r.field}: {r.reason} {r.place} on {stored.url}", "row")
            for r in harvest.rejected[:_MAX_REJECTION_EVENTS]
        )
        return JobOutcome(
            job=job, state=JobState.DONE, rows=harvest.rows, children=harvest.children, kept_data_defs=self._page_extractor.unchanged_data_defs(job),
            rejected=tuple(counts.items()), events=events,
        )  # fmt: skip

    def _failed(self, job: LeasedJob, why: str) -> JobOutcome:
        event = self._event(job, f"{urls.without_credentials(job.url)}: {why}; it keeps the rows it had", "page")
        return JobOutcome(job=job, state=JobState.FAILED, reason=why, events=(event,))

    def _event(self, job: LeasedJob, text: str, kind: str) -> Event:
        return Event(time.time(), "WARNING", self._source, kind, text, job.page_job)
