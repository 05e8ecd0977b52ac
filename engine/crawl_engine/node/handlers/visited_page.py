"""A page on its way through the stages of its job, and the shape of a stage."""

import time
from collections.abc import Callable

from msgspec import Struct

from crawl_engine import urls
from crawl_engine.http.redirects import RedirectChain
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.host import LoginRule
from crawl_engine.model.job import HostPlan, JobKind, LeasedJob, StoredPage
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.handlers.freshness import StoredVersion
from crawl_engine.node.requests.request_sender import Attempt
from crawl_engine.store.pages.documents import CheckedDocument, NewDocument
from crawl_engine.store.pages.page_store import StoredBody
from crawl_engine.store.tables.outcome import Effect, JobOutcome


class VisitedPage(Struct, kw_only=True):
    """Each stage adds what the next ones need."""

    attempt: Attempt
    started: Callable[[], None] = lambda: None
    """Called when the first request is about to be sent."""
    chain: RedirectChain | None = None
    """The redirects so far, and the request that is next."""
    response: FetchResponse | None = None
    """The final response; None: the page was not fetched now, or is unchanged."""
    before: StoredVersion | None = None
    """The stored version of the page, if its group compares versions."""
    stored: StoredPage | None = None
    """The document that was fetched before."""
    document: NewDocument | None = None
    """The document that was fetched now."""
    checked: CheckedDocument | None = None
    """The stored document, if the site says that it is unchanged."""
    url: str = ""
    status: int = 0
    content_type: str = ""
    fetched_at: float = 0.0
    answer: tuple[int, str] = (0, "stored")
    """Status and time for the event."""
    hops: int = 0
    target: str | None = None
    login: LoginRule | None = None
    """How to log in to its host, if it was fetched after a login."""
    content: StoredBody | None = None
    extraction: PageExtraction | None = None
    effects: tuple[Effect, ...] = ()
    """What the stages change besides; the outcome of a page that is kept has them."""

    @property
    def is_fetched(self) -> bool:
        return self.response is not None

    @property
    def is_rendered(self) -> bool:
        return self.attempt.renders

    def use(self, stored: StoredPage) -> "VisitedPage":
        """It is a stored page, to which the redirects of its chain have led."""
        self.stored, self.url, self.fetched_at = stored, stored.url, stored.fetched_at
        self.status, self.content_type, self.answer = stored.status, stored.content_type, (stored.status, "stored")
        self._note_redirects()
        return self

    def arrive(self, response: FetchResponse, before: StoredVersion | None = None) -> "VisitedPage":
        """It is the page of a response that came now, to the request of its chain."""
        assert self.chain is not None
        self.response, self.before, self.url = response, before, urls.without_credentials(self.chain.url)
        self.status, self.content_type, self.fetched_at = response.status, response.content_type, time.time()
        self.answer = describe_answer(response)
        self._note_redirects()
        return self

    def _note_redirects(self) -> None:
        if self.chain is not None and self.chain.hops:
            self.hops, self.target = self.chain.hops, self.chain.url

    def add(self, effect: Effect) -> None:
        """Add what the page changes besides its job, its document and its rows."""
        self.effects += (effect,)

    def complete(self, outcome: JobOutcome) -> JobOutcome:
        """Add the document and the effects of the page to the outcome of its job."""
        if self.document is not None or self.checked is not None:
            outcome.attempts = 1
        documents = [effect for effect in (self.document, self.checked) if effect is not None]
        outcome.add(*documents, *self.effects)
        if self.content is not None and outcome.job.kind is JobKind.PAGE:
            outcome.target = self.target or outcome.job.target  # a stored page is used without a chain
            if self.stored is not None:
                outcome.page = self.stored.page
        return outcome


class PageStage(Struct, frozen=True):
    """One step of the work on a job, the same for all jobs of a node. The pipeline lists the stages of each kind."""

    def applies(self, plan: HostPlan) -> bool:  # noqa: ARG002  # most stages are for all
        """Whether it has something to do for the jobs of a plan."""
        return True

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        """The page for the next stage, or the outcome that ends the job."""
        raise NotImplementedError


def describe_answer(response: FetchResponse) -> tuple[int, str]:
    """Status and time of a response, for the event."""
    return response.status, f"{response.elapsed * 1000:.0f} ms"
