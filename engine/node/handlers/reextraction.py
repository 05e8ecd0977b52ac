"""Re-extracts a stored page with the current defs. No request, no host, no clock."""

from engine import urls
from engine.http.byte_budget import BodyShare
from engine.model.job import JobState, LeasedJob
from engine.node.db_access import DbAccess
from engine.node.extraction.extractor import PageExtractor
from engine.node.extraction.page_extraction import UnreadablePage, UnsupportedContent
from engine.node.handlers.file_rows import FileRows
from engine.node.outcomes import OutcomeBuilder
from engine.store.tables.outcome import JobOutcome
from engine.store.transactions.supersede import OldRows


class Reextractor:
    """One for each node, beside its pipeline."""

    def __init__(
        self, *, db_access: DbAccess, page_extractor: PageExtractor, outcomes: OutcomeBuilder, file_rows: FileRows
    ) -> None:
        self._db_access = db_access
        self._page_extractor = page_extractor
        self._outcomes = outcomes
        self._file_rows = file_rows

    async def reextract(self, job: LeasedJob, share: BodyShare) -> JobOutcome:
        """The outcome: rows that replace the old ones, or why the old ones stay. `share` holds the stored body."""
        stored = job.stored
        if stored is None:
            return self._failed(job, "its stored page is missing")
        await share.grow(stored.size)
        share.finish_reading()
        content = self._db_access.page_body(stored.page)
        if content is None:
            return self._failed(job, "its stored page is missing")
        try:
            extraction = await self._page_extractor.extract(
                job,
                body=content.body,
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
        await self._file_rows.hold(job, extraction, stored.url)
        outcome = self._outcomes.extracted(
            job, extraction, status=stored.status, url=stored.url, fetch_time="stored", size=content.body.size, hops=0
        )
        return outcome.add(OldRows(self._page_extractor.unchanged_data_defs(job)))

    def _failed(self, job: LeasedJob, reason: str) -> JobOutcome:
        text = f"{urls.without_credentials(job.url)}: {reason}; it keeps its old rows"
        event = self._outcomes.event(job, "WARNING", text)
        return JobOutcome(job=job, state=JobState.FAILED, reason=reason, effects=(event,))
