"""Re-extracts a stored page with the current defs. No request, no host, no clock."""

import time

from engine import urls
from engine.model.job import JobState, LeasedJob
from engine.node.db_access import DbAccess
from engine.node.extraction import UnreadablePage, UnsupportedContent
from engine.node.page_extractor import PageExtractor
from engine.store.tables.events import Event
from engine.store.transactions.outcome import JobOutcome

_MAX_REJECTION_EVENTS = 5


class Reextractor:
    """One for each node, beside its pipeline."""

    def __init__(self, *, source: str, db_access: DbAccess, page_extractor: PageExtractor) -> None:
        """`source` names this node in events."""
        self._source = source
        self._db_access = db_access
        self._page_extractor = page_extractor

    async def reextract(self, job: LeasedJob) -> JobOutcome:
        """The outcome: rows that replace the old ones, or the reason why those stay."""
        stored = job.stored
        content = self._db_access.page_body(stored.page) if stored is not None else None
        if stored is None or content is None:
            return self._failed(job, "its stored page is missing")
        body = content.body

        try:
            extraction = await self._page_extractor.extract(
                job,
                body=body,
                content_type=stored.content_type,
                url=stored.url,
                status=stored.status,
                fetched_at=stored.fetched_at,
                robots_tags=content.robots_tags,
            )
        except UnsupportedContent as error:
            return self._failed(job, f"not a page: {error}")
        except UnreadablePage as error:
            return self._failed(job, str(error))
        events = tuple(
            self._event(job, f"{r.data_def}.{r.field}: {r.reason} {r.place} on {stored.url}", "row")
            for r in extraction.rejected[:_MAX_REJECTION_EVENTS]
        )
        outcome = JobOutcome(
            job=job,
            state=JobState.DONE,
            rows=extraction.rows,
            children=extraction.children,
            kept_data_defs=self._page_extractor.unchanged_data_defs(job),
            rejected=extraction.rejected_counts,
            events=events,
        )
        if extraction.share is not None:
            outcome.release_when_settled(extraction.share.release)
        return outcome

    def _failed(self, job: LeasedJob, reason: str) -> JobOutcome:
        event = self._event(job, f"{urls.without_credentials(job.url)}: {reason}; it keeps its old rows", "page")
        return JobOutcome(job=job, state=JobState.FAILED, reason=reason, events=(event,))

    def _event(self, job: LeasedJob, text: str, kind: str) -> Event:
        return Event(time.time(), "WARNING", self._source, kind, text, job.page_job)
