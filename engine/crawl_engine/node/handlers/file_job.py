"""Downloads the file of a job into the run's folder; a file that is already there costs no request."""

import time
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.errors import StorageError
from crawl_engine.files.file_download import note_answer
from crawl_engine.files.file_part import FilePart, PartInUse
from crawl_engine.http.errors import FetchFailed, NoRoom
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.file import (
    FILES_FOLDER,
    AnswerNote,
    StoredFile,
    bare_type,
    file_extension,
    name_of_answer,
    name_of_url,
    url_extension,
)
from crawl_engine.model.job import OPEN_STATES, JobState, LeasedJob
from crawl_engine.model.retry_policy import NOT_MODIFIED, classify_status
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.handlers.freshness import FreshnessRules, Headers, list_conditions
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.file_parts import FileParts
from crawl_engine.store.tables.host.hosts import HostFailure
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.row.files import DownloadedFile, EarlierFile


class FileHandler(PageStage, frozen=True):
    """One for each node."""

    fetch: PageStage
    parts: FileParts
    outcomes: OutcomeBuilder
    db_access: DbAccess

    async def run(self, job: LeasedJob, page: VisitedPage) -> JobOutcome:
        """The outcome of a job. Raises NoRoom."""
        outcome = await self._with_part(job, partial(self._download, job, page))
        assert outcome is not None
        return outcome

    async def keep(self, job: LeasedJob, earlier: EarlierFile) -> JobOutcome | None:
        """The outcome with the file of an earlier run; None if it is missing or damaged. Raises NoRoom."""

        async def hold(part: FilePart) -> JobOutcome | None:
            if part.finished is None and await self.parts.hold(part, earlier):
                return await self._keep(job, part, earlier, earlier.at, "stored")
            return None

        return await self._with_part(job, hold)

    async def _with_part(
        self, job: LeasedJob, work: Callable[[FilePart], Awaitable[JobOutcome | None]]
    ) -> JobOutcome | None:
        outcome = None
        try:
            outcome = await work(await self.parts.open(job))
        except PartInUse:
            raise NoRoom from None  # an interrupted attempt is still ending
        except (OSError, StorageError) as error:
            outcome = disk_failed(self.outcomes, job, error)
        finally:
            is_over = outcome is not None and outcome.state not in OPEN_STATES and outcome.find(DownloadedFile) is None
            self.parts.close(job, discard=is_over)
        return outcome

    async def _download(self, job: LeasedJob, page: VisitedPage, part: FilePart) -> JobOutcome:
        if part.finished is not None:
            note = AnswerNote(name=part.finished.name)
            return self._downloaded(job, part, DownloadedFile(part.finished, answer=note), job.url, "was there")
        earlier = self.db_access.earlier_file(job)
        if earlier is not None:
            await self.parts.hold(part, earlier)
        fetched = await self.fetch.run(job, page)
        if isinstance(fetched, JobOutcome):
            return fetched
        response, url, hops = fetched.response, fetched.url, fetched.hops
        assert response is not None, "only pages are stored"
        if response.refusal is not None:
            part.discard_later()
            return self.outcomes.refused(job, url, response)
        if response.file_problem is not None:
            return self.outcomes.ended(job, JobState.FAILED, response.file_problem, url, hops=hops)
        shown_time = f"{response.elapsed * 1000:.0f} ms"
        if response.status == NOT_MODIFIED and earlier is not None and part.held is not None:
            outcome = await self._keep(job, part, earlier, time.time(), shown_time, list_conditions(response.headers))
        elif response.is_file:
            if not part.holds(part.digest) and (equal := self.db_access.equal_file(job.run, part.digest)):
                await self.parts.hold(part, equal)
            stored = self._name(job, part, response, url)
            await self.parts.run(partial(part.finish, stored))
            note = note_answer(url, list_conditions(response.headers), stored.name)
            new = DownloadedFile(stored, time.time(), note)
            outcome = self._downloaded(job, part, new, url, shown_time)
        else:
            return self._without_file(job, response, url, hops)
        outcome.hops, outcome.target = hops, fetched.target
        return outcome

    async def _keep(
        self, job: LeasedJob, part: FilePart, earlier: EarlierFile, at: float, shown_time: str,
        conditions: Headers = (),
    ) -> JobOutcome:  # fmt: skip
        """The file of an earlier run is that of this one, too. `conditions`: those of an answer 304."""
        path = self.db_access.file_path(job.run, earlier.file.hash) or earlier.file.path
        answer = AnswerNote.from_text(earlier.validators).ask_by(conditions)
        stored = replace(earlier.file, path=path, name=answer.name)
        await self.parts.run(partial(part.finish, stored))
        return self._downloaded(job, part, DownloadedFile(stored, at, answer), job.url, shown_time)

    def _without_file(self, job: LeasedJob, response: FetchResponse, url: str, hops: int) -> JobOutcome:
        """The outcome for another status than 200."""
        status = f"HTTP {response.status}"
        match classify_status(response.status, job.plan.retry.statuses):
            case "gone":
                outcome = self.outcomes.ended(job, JobState.SKIPPED, f"{status} (gone)", url, hops=hops)
                outcome.attempts = 1
                return outcome.add(HostFailure(failed=False, gone=True))
            case "retry":
                return self.outcomes.retry_status(job, url, response)
            case _:
                return self.outcomes.failed(job, status, url, hops)

    def _name(self, job: LeasedJob, part: FilePart, response: FetchResponse, url: str) -> StoredFile:
        """Name the file by its content; a file with that content in the run keeps its name."""
        digest, type_ = part.digest, response.content_type
        name = name_of_answer(response.headers)
        extension = file_extension(type_, name, job.url, url)
        path = self.db_access.file_path(job.run, digest) or f"{FILES_FOLDER}/{digest}.{extension}"
        if not name and url_extension(url) and not url_extension(job.url):
            name = name_of_url(url)  # a redirect led there
        return StoredFile(path, part.size, digest, bare_type(type_), name)

    def _downloaded(self, job: LeasedJob, part: FilePart, new: DownloadedFile, url: str, shown_time: str) -> JobOutcome:
        stored = new.file
        text = f"file {shown_time:>7} {stored.size / 1000:4.0f} kB  {urls.without_credentials(url)} → {stored.path}"
        event = self.outcomes.event(job, "INFO", text)
        outcome = JobOutcome(job=job, state=JobState.DONE, attempts=1, effects=(new, event))
        outcome.release_when_settled(part.forget_note)
        return outcome


def disk_failed(outcomes: OutcomeBuilder, job: LeasedJob, error: Exception) -> JobOutcome:
    """The outcome of a job whose file cannot be written."""
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    failure = FetchFailed(f"cannot write the file: {text}", kind="file", retryable=True)
    outcome = outcomes.fetch_failed(job, job.url, failure)
    outcome.remove(HostFailure)
    return outcome


class KeepFreshFile(PageStage, frozen=True):
    """Ends jobs whose file an earlier run has, while it is younger than `live`: nothing is asked for."""

    handler: FileHandler
    freshness: FreshnessRules

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        earlier = self.handler.db_access.earlier_file(job)
        if earlier is None or not self.freshness.is_file_fresh(job, earlier.at):
            return page
        return await self.handler.keep(job, earlier) or page
