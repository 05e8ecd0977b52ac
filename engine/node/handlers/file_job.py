"""Downloads the file of a job into the run's folder; a file that is already there costs no request."""

from functools import partial

from msgspec import Struct

from engine import urls
from engine.errors import StorageError
from engine.files.file_part import FilePart, PartInUse
from engine.http.byte_budget import NoRoom
from engine.http.errors import FetchFailed
from engine.http.response import FetchResponse
from engine.model.file import FILES_FOLDER, StoredFile, bare_type, file_extension
from engine.model.job import OPEN_STATES, JobState, LeasedJob
from engine.node.db_access import DbAccess
from engine.node.handlers.visited_page import PageStage, VisitedPage
from engine.node.outcomes import OutcomeBuilder
from engine.node.requests.file_parts import FileParts
from engine.store.tables.host.hosts import HostFailure
from engine.store.tables.outcome import JobOutcome
from engine.store.tables.row.files import DownloadedFile


class FileHandler(Struct, frozen=True):
    """One for each node."""

    fetch: PageStage
    parts: FileParts
    outcomes: OutcomeBuilder
    db_access: DbAccess

    async def run(self, job: LeasedJob, page: VisitedPage) -> JobOutcome:
        """The outcome of a job. Raises NoRoom."""
        outcome = None
        try:
            outcome = await self._download(job, page, await self.parts.open(job))
        except PartInUse:
            raise NoRoom from None  # an interrupted attempt is still ending
        except (OSError, StorageError) as error:
            outcome = self._disk_failed(job, error)
        finally:
            is_over = outcome is not None and outcome.state not in OPEN_STATES and outcome.find(DownloadedFile) is None
            self.parts.close(job, discard=is_over)
        return outcome

    async def _download(self, job: LeasedJob, page: VisitedPage, part: FilePart) -> JobOutcome:
        if part.finished is not None:
            return self._downloaded(job, part, part.finished, job.url, "was there")
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
        if not response.is_file:
            return self._without_file(job, response, url, hops)
        stored = self._name(job, part, response, url)
        await self.parts.run(partial(part.finish, stored))
        outcome = self._downloaded(job, part, stored, url, f"{response.elapsed * 1000:.0f} ms")
        outcome.hops, outcome.target = hops, fetched.target
        return outcome

    def _without_file(self, job: LeasedJob, response: FetchResponse, url: str, hops: int) -> JobOutcome:
        """The outcome for another status than 200."""
        status = f"HTTP {response.status}"
        match self.outcomes.classify(job, url, response.status):
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
        extension = file_extension(type_, job.url)
        if extension == "bin":
            extension = file_extension(type_, url)
        path = self.db_access.file_path(job.run, digest) or f"{FILES_FOLDER}/{digest}.{extension}"
        return StoredFile(path, part.size, digest, bare_type(type_))

    def _downloaded(self, job: LeasedJob, part: FilePart, stored: StoredFile, url: str, time: str) -> JobOutcome:
        text = f"file {time:>7} {stored.size / 1000:4.0f} kB  {urls.without_credentials(url)} → {stored.path}"
        event = self.outcomes.event(job, "INFO", text)
        outcome = JobOutcome(job=job, state=JobState.DONE, attempts=1, effects=(DownloadedFile(stored), event))
        outcome.release_when_settled(part.forget_note)
        return outcome

    def _disk_failed(self, job: LeasedJob, error: Exception) -> JobOutcome:
        text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        failure = FetchFailed(f"cannot write the file: {text}", kind="file", retryable=True)
        outcome = self.outcomes.fetch_failed(job, job.url, failure)
        outcome.remove(HostFailure)
        return outcome
