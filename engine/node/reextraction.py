"""Re-extraction: a stored page worked anew with the current defs. No request, no host, no clock."""

import asyncio
import time
from concurrent.futures import Executor

from engine import urls
from engine.model.job import JobState, LeasedJob
from engine.node.db_access import Clerk
from engine.node.extraction import Harvest, Harvester, NotAPage, Unreadable
from engine.store.tables.events import Event
from engine.store.transactions.commit import Finished

PARSED_ON_THE_LOOP = 64 * 1024
"""Bytes of a page that is parsed where the fetches are waited for; a larger one would hold them up."""
_REJECTIONS_TOLD = 5


class Reextraction:
    """One for each node, beside its pipeline."""

    def __init__(self, *, source: str, clerk: Clerk, harvester: Harvester, threads: Executor) -> None:
        """`source` names this node in events; `threads` parse large pages."""
        self._source = source
        self._clerk = clerk
        self._harvester = harvester
        self._threads = threads

    async def work(self, job: LeasedJob) -> Finished:
        """What became of it: rows to take the place of the old ones, or the reason why those stay."""
        stored = job.stored
        body = self._clerk.body(stored.page) if stored is not None else None
        if stored is None or body is None:
            return self._hindered(job, "its stored page is missing")

        def work() -> Harvest:
            return self._harvester.work(
                job, body=body, content_type=stored.content_type, url=stored.url, status=stored.status,
                fetched_at=stored.fetched_at,
            )  # fmt: skip

        try:
            if len(body) <= PARSED_ON_THE_LOOP:
                harvest = work()
            else:
                harvest = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except NotAPage as what:
            return self._hindered(job, f"not a page: {what}")
        except Unreadable as problem:
            return self._hindered(job, str(problem))
        counts: dict[str, int] = {}
        for rejection in harvest.rejected:
            counts[rejection.data_def] = counts.get(rejection.data_def, 0) + 1
        events = tuple(
            self._event(job, f"{r.data_def}.{r.field}: {r.reason} {r.place} on {stored.url}", "row")
            for r in harvest.rejected[:_REJECTIONS_TOLD]
        )
        return Finished(
            job=job, state=JobState.DONE, rows=harvest.rows, children=harvest.children, kept=self._harvester.kept(job),
            rejected=tuple(counts.items()), events=events,
        )  # fmt: skip

    def _hindered(self, job: LeasedJob, why: str) -> Finished:
        event = self._event(job, f"{urls.without_credentials(job.url)}: {why}; it keeps the rows it had", "page")
        return Finished(job=job, state=JobState.FAILED, reason=why, events=(event,))

    def _event(self, job: LeasedJob, text: str, kind: str) -> Event:
        return Event(time.time(), "WARNING", self._source, kind, text, job.page)
