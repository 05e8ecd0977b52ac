"""A job: one URL to be worked through its steps, and how it may change state."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class JobState(StrEnum):
    """Where a job stands. READY covers work that is due and work that waits for a deadline."""

    READY = "READY"
    TAKEN = "TAKEN"
    DONE = "DONE"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    INCOMPLETE = "INCOMPLETE"


class JobKind(StrEnum):
    """What a job is for. Only pages count in the totals a user sees."""

    PAGE = "page"
    ROBOTS = "robots"
    SITEMAP = "sitemap"
    EXTRACT = "extract"
    """A stored page is worked anew: never a request."""


class JobOrigin(StrEnum):
    """Who asked for the page: a locator of the defs, or a link of another page."""

    LOCATOR = "locator"
    LINK = "link"


JOB_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.READY: frozenset({JobState.TAKEN, JobState.SKIPPED}),
    JobState.TAKEN: frozenset({JobState.READY, JobState.DONE, JobState.FAILED, JobState.SKIPPED, JobState.INCOMPLETE}),
    JobState.DONE: frozenset({JobState.READY}),
    JobState.FAILED: frozenset({JobState.READY}),
    JobState.SKIPPED: frozenset({JobState.READY}),
    JobState.INCOMPLETE: frozenset({JobState.READY}),
}
"""Leaving DONE, FAILED or SKIPPED is an operator's retry; leaving INCOMPLETE is the resume of a run."""

OPEN_STATES = frozenset({JobState.READY, JobState.TAKEN, JobState.INCOMPLETE})
"""While a run has a job in one of these it is not done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent for a job besides its URL. Values may hold `%{env.NAME}`, which only the sender resolves."""

    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    cookies: tuple[tuple[str, str], ...] = ()
    body: str | None = None
    content_type: str | None = None

    @property
    def is_plain_get(self) -> bool:
        """Whether a link to the same URL would fetch the same page."""
        return self.method == "GET" and self.body is None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPage:
    """Where the body of a page lies in `pages.db`, with what its HTTP answer said."""

    page: int
    url: str
    status: int
    content_type: str
    fetched_at: float
    """Wall clock, seconds since 1970."""


class LeasedJob(NamedTuple):
    """A job in a node's hands. `lease` fences every write about it: it is never used twice."""

    id: int
    lease: int
    run: int
    sequence: int
    host: int
    kind: JobKind
    group: str
    locator_id: int | None
    root: int
    """The locator's job this one descends from: itself, for a locator."""
    locator: str
    locator_url: str
    url: str
    origin: JobOrigin
    depth: int
    priority: int
    attempts: int
    crashes: int
    hops: int
    """Redirects followed so far."""
    target: str | None
    """Where the last redirect pointed; the fetch goes there."""
    request: Request
    send_at: float | None
    """Boot-time second before which the request must not be sent; None: at once."""
    delay: float
    """The host's seconds between two requests; 0: none."""
    stored: StoredPage | None
    """A document that serves instead of a fetch."""
    defs_version: int
    page_job: int | None = None
    """Of a re-extraction: the job of the page."""
    extracted_with: tuple[int, ...] = ()
    """Of a re-extraction: ids of the dataDefs that the page's rows were made with."""
    links_stale: bool = False
    """What decides on links has changed: unchanged dataDefs are asked for theirs, and those known are told, too."""
