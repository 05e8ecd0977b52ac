"""A page on its way through the stages of its job, and the shape of a stage."""

import time
from collections.abc import Callable

from msgspec import Struct

from engine import urls
from engine.http.redirects import RedirectChain
from engine.http.response import FetchResponse
from engine.model.host import LoginRule
from engine.model.job import HostPlan, JobKind, LeasedJob, StoredPage
from engine.node.extraction.extractor import PageExtraction
from engine.node.handlers.freshness import StoredVersion
from engine.store.pages.documents import CheckedDocument, NewDocument
from engine.store.pages.page_store import StoredBody
from engine.store.tables.outcome import Effect, JobOutcome


class VisitedPage(Struct, kw_only=True):
    """Each stage adds what the next ones need."""

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

    @classmethod
    def from_stored(cls, stored: StoredPage, chain: RedirectChain | None = None) -> "VisitedPage":
        """A stored page; `chain`: the redirects that led to it now."""
        hops = 0 if chain is None else chain.hops
        return cls(
            chain=chain, stored=stored, url=stored.url, status=stored.status, content_type=stored.content_type,
            fetched_at=stored.fetched_at, answer=(stored.status, "stored"), hops=hops,
            target=chain.url if chain is not None and hops else None,
        )  # fmt: skip

    @classmethod
    def from_response(
        cls, chain: RedirectChain, response: FetchResponse, before: StoredVersion | None = None
    ) -> "VisitedPage":
        """The page of a response that came now."""
        return cls(
            chain=chain, response=response, before=before, url=urls.without_credentials(chain.url),
            status=response.status, content_type=response.content_type, fetched_at=time.time(),
            answer=describe_answer(response), hops=chain.hops, target=chain.url if chain.hops else None,
        )  # fmt: skip

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
            outcome.target = self.target
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
