"""A job: its states and transitions, the keys that identify it, its lease and its outcome."""

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

import orjson
from msgspec import Struct

from crawl_engine.model.definition import TaskGroup
from crawl_engine.model.file import FieldPath
from crawl_engine.model.host import HostRule, LoginRule, RetryRule
from crawl_engine.model.link import PLAIN_LINK, LinkRequest

KEY_BYTES = 16


class JobState(StrEnum):
    """READY covers both due jobs and jobs that wait for a deadline."""

    READY = "READY"
    TAKEN = "TAKEN"
    DONE = "DONE"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    INCOMPLETE = "INCOMPLETE"


class JobKind(StrEnum):
    """The purpose of a job. Only pages count in the totals that users see."""

    PAGE = "page"
    ROBOTS = "robots"
    SITEMAP = "sitemap"
    LOGIN = "login"
    """Logs in to a host before its pages."""
    EXTRACT = "extract"
    """Re-extracts a stored page; never sends a request."""
    FILE = "file"
    """Downloads the URL of a field of the type `file`."""


class JobOrigin(StrEnum):
    """Where the page's URL comes from: a locator of the defs, or a link on another page."""

    LOCATOR = "locator"
    LINK = "link"


class ReasonCode(StrEnum):
    """Why a job ended SKIPPED or FAILED, where a later event asks for it; its reason says it in words."""

    GROUP = "group"
    """The defs lack its group."""
    LIMIT = "limit"
    """A page limit was reached."""
    ADDRESS = "address"
    """The address guard refused its host."""
    ROBOTS = "robots"
    """A robots.txt disallows it, or could not be read."""
    CANONICAL = "canonical"
    """Its page names another URL as its canonical one."""
    NO_PAGE = "no-page"
    """There is no page at its URL."""


JOB_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.READY: frozenset({JobState.TAKEN, JobState.SKIPPED}),
    JobState.TAKEN: frozenset({JobState.READY, JobState.DONE, JobState.FAILED, JobState.SKIPPED, JobState.INCOMPLETE}),
    JobState.DONE: frozenset({JobState.READY, JobState.FAILED}),
    JobState.FAILED: frozenset({JobState.READY, JobState.DONE}),
    JobState.SKIPPED: frozenset({JobState.READY}),
    JobState.INCOMPLETE: frozenset({JobState.READY}),
}
"""An operator's retry leaves DONE, FAILED or SKIPPED; resuming a run leaves INCOMPLETE.

A re-extraction may move a page between DONE and FAILED if its plugin steps fail or recover.
"""

OPEN_STATES = frozenset({JobState.READY, JobState.TAKEN, JobState.INCOMPLETE})
"""A run with a job in one of these states is not done."""


class Request(Struct, frozen=True, kw_only=True):
    """What a job sends besides its URL: texts of the defs, whose secret variables are resolved on sending.

    A body may hold values of a page, escaped so that they cannot be read as variables.
    """

    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    cookies: tuple[tuple[str, str], ...] = ()
    body: str | None = None
    content_type: str | None = None
    userinfo: str = ""
    """`user:password`, percent-encoded as in a URL: sent as Basic authorization unless that header is set."""
    in_browser: bool = False
    """Whether the group of the page has a browser: its document is another one than that of a plain request."""

    @property
    def account(self) -> str:
        """The user of `userinfo`."""
        return account_of(self.userinfo)

    @property
    def variant(self) -> str:
        """Distinguishes pages of the same URL, method and body: user, headers, cookies, browser; often empty."""
        if not self.headers and not self.cookies and not self.in_browser:
            return self.account
        headers = sorted((name.lower(), value) for name, value in self.headers)
        parts = [self.account, headers, sorted(self.cookies), *(["browser"] if self.in_browser else ())]
        return orjson.dumps(parts).decode()

    @property
    def is_plain_get(self) -> bool:
        """Whether a plain link to the URL would send the same request."""
        return self.method == "GET" and self.body is None


class StoredPage(Struct, frozen=True, kw_only=True):
    """A stored page: the id of its body in `pages.db`, and the metadata of its HTTP response."""

    page: int
    url: str
    status: int
    content_type: str
    size: int
    """Bytes of the body."""
    fetched_at: float
    """Wall clock, seconds since 1970."""
    asked_at: float = 0.0
    """When the site was last asked for a newer version: then the page was fetched, or is unchanged since."""
    of_this_run: bool = False
    """Whether the run of the job has fetched or revalidated it."""
    recrawl_after: float | None = None
    """Seconds after which a group with `recrawl` asks for it again; None: no such group has fetched it."""
    headers: tuple[tuple[str, str], ...] | None = None
    """Its response headers as later answers changed them; None: they are those of its page."""
    loader: str | None = None
    """What loaded it (`HostPlan.loading`); None: an earlier version stored it, and did not say."""


class HostTerms(NamedTuple):
    """The terms on which a job is sent to its host."""

    send_at: float | None = None
    """Boot-time second before which the request must not be sent; None: at once."""
    delay: float = 0.0
    """Seconds between two requests to the host."""
    concurrency: int = 1
    """Requests to the host at once, over all nodes."""
    throttled: bool = False
    """Whether the host's delay follows its latency."""
    limits: tuple[str, ...] = ()
    """The codes of the page limits for which its first request was counted when it was leased."""
    login_number: int = 0
    """The login in force at its host, or for a login job the one before; 0: its pages need no login."""
    login_failed: bool = False
    """Whether the login to its host failed: then it sends nothing."""
    given_up: bool = False
    """Whether its host refuses for good: then it sends nothing."""


class HostPlan(Struct, eq=False):
    """What a version of the defs says about all requests of a host, for a group and a kind of job.

    It is found when a job is leased, travels with it, and ends with its version of the defs. What changes otherwise is
    read at the lease, as a delay, or before each request: cookies, backoffs, robots.txt.
    """

    host_key: str = ""
    """`name:port`."""
    rule: HostRule = HostRule(name="")
    group: TaskGroup = TaskGroup(name="")
    retry: RetryRule = RetryRule()
    """Which answers are asked for again."""
    keeps_documents: bool | None = None
    """Whether documents are kept beyond the end of the run; None: all groups keep theirs."""
    file_fields: Mapping[str, tuple[FieldPath, ...]] = {}
    """The fields that name files, by dataDef."""
    rendered_fields: Mapping[str, tuple[str, ...]] = {}
    """Those with files that a browser made of the page."""
    has_loader: bool = False
    """Whether a plugin loads its pages."""
    leads_on: bool = False
    """Whether a dataDef of its group finds the page that follows one."""
    loading: str = ""
    """A hash of what its group has pages loaded by, a browser or a plugin; empty: by a plain request."""
    plain_hosts: frozenset[str] = frozenset()
    """The hosts that the defs name with `http:`."""
    exempt_since: int = 0
    """The version of the defs that lets the host be at a guarded address; it counts until a newer one is known."""

    @property
    def limited(self) -> str:
        """What its limits are of: the host, or the pattern of hosts that have them together."""
        return self.rule.name if self.rule.shared else self.host_key


class JobLineage(NamedTuple):
    """Where a job comes from: its locator, the links from there, and what the last one gives it."""

    locator_id: int | None
    root: int
    """The locator's job from which this job descends; for a locator, its own id."""
    locator: str
    locator_url: str
    origin: JobOrigin
    depth: int
    priority: int
    may_leave_host: bool = False
    """Whether redirects may lead to any host: for a locator, and for a link with `sameHost: false`."""
    carried: str | None = None
    """Values from the page that leads to it (`link.Carried`)."""
    link: LinkRequest = PLAIN_LINK
    """The request of the link to it; part of its request."""
    page_number: int | None = None
    """Its number in the series of its locator; None: it is not part of a series."""
    fresh_since: float | None = None
    """The wall-clock second since when a stored document replaces the fetch; None: as its group says."""
    cookies: tuple[tuple[str, str], ...] = ()
    """What its links send along, within its group and origin."""


class JobExtraction(NamedTuple):
    """What a job extracts of its page."""

    page_job: int | None = None
    """For a re-extraction: the job of the page."""
    extracted_with: tuple[int, ...] = ()
    """For a re-extraction: ids of the dataDefs that extracted the page's rows."""
    links_stale: bool = False
    """The rules for links have changed, so every link of every dataDef is collected."""


class LeasedJob(NamedTuple):
    """A job leased by a node. `lease`, never used twice, fences every write about it."""

    id: int
    lease: int
    run: int
    sequence: int
    host: int
    kind: JobKind
    group: str
    url: str
    lineage: JobLineage
    attempts: int
    crashes: int
    hops: int
    """Redirects followed so far."""
    target: str | None
    """The URL of the last redirect, which is fetched instead."""
    request: Request
    defs_version: int
    terms: HostTerms = HostTerms()
    stored: StoredPage | None = None
    """A document that replaces the fetch."""
    extraction: JobExtraction = JobExtraction()
    plan: HostPlan = HostPlan()
    """Of the host of its next request, or of its stored page."""

    def is_written(self, url: str) -> bool:
        """Whether a URL of the job is a text of the defs, and so may hold variables with secrets."""
        return self.lineage.origin is JobOrigin.LOCATOR and url == self.url

    @property
    def login(self) -> LoginRule | None:
        """How to log in to the host, if the job is sent after a login."""
        return self.plan.rule.login if self.terms.login_number else None

    @property
    def lease_key(self) -> tuple[int, int]:
        """The key of a node's data about the job, which may be leased again before that data is freed."""
        return self.id, self.lease

    @property
    def page_id(self) -> int:
        """The job of its page: for a re-extraction another one, else the job itself."""
        return self.extraction.page_job or self.id


def _key(*parts: str) -> bytes:
    return hashlib.blake2b("\x00".join(parts).encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def link_key(group: str, url: str) -> bytes:
    """The key of a page reached by a link, within its group."""
    return _key("link", group, url)


def scoped_key(key: bytes, cookies: Sequence[tuple[str, str]]) -> bytes:
    """The key of the same page as asked for with the cookies that a locator sends along; without any, the same key.

    `cookies`: texts of the defs, in which secrets are still variables.
    """
    return _key("cookies", key.hex(), orjson.dumps(sorted(cookies)).decode()) if cookies else key


def request_key(
    group: str, url: str, method: str, body: str | None, headers: Sequence[tuple[str, str]] = ()
) -> bytes:  # fmt: skip
    """The key of a page reached by a link that sends another request than a plain GET, within its group."""
    return _key("request", group, url, method, body or "", *chain.from_iterable(headers))


def locator_key(group: str, name: str, url: str, method: str, body: str | None, account: str = "") -> bytes:
    """The key of a page of a locator, for the user whose credentials are sent."""
    return _key("locator", group, name, url, method, body or "", *([account] if account else ()))


def sitemap_key(group: str, name: str, url: str, body: str | None, account: str = "", rules: str = "") -> bytes:
    """The key of a sitemap of a locator. `rules`: a hash of its entry rules; with other rules it is read again."""
    plain = locator_key(group, name, url, "sitemap", body, account)
    return _key("sitemap", plain.hex(), rules) if rules else plain


def account_of(userinfo: str) -> str:
    """The user of a `user:password`. It is part of document keys, since each user may see another page."""
    return userinfo.partition(":")[0]


def robots_key(host: str) -> bytes:
    """The key of the robots.txt of a host (`name:port`)."""
    return _key("robots", host)


def login_key(host: str) -> bytes:
    """The key of the login to a host (`name:port`)."""
    return _key("login", host)


def file_key(url: str) -> bytes:
    """The key of a file that fields name; a run downloads it once."""
    return _key("file", url)


def document_key(url: str, method: str = "GET", body: str | None = None, variant: str = "") -> bytes:
    """The key of a fetch: jobs with the same key share one document. `variant`: of the request, such as its headers."""
    return _key("document", method, url, body or "", *([variant] if variant else ()))


def landing_key(group: str, document: bytes) -> bytes:
    """The key of the page of a document, within its group."""
    return _key("landing", group, document.hex())


def quota(active: int, slots: int) -> int:
    """Jobs that each of `active` sequences may run at once, of the `slots` of all nodes.

    The rule of the SNIG services monitor: all slots for a single sequence, else `1 + ⌊slots/active⌋`.
    """
    return slots if active <= 1 else 1 + slots // active


def lease_limit(*, active: int, slots: int, running: int, free: int, batch: int) -> int:
    """Jobs one lease may take for a sequence with `running` jobs; never negative.

    While there are other sequences a tenth of the quota stays free, with a floor of one job, so that a new sequence
    gets a slot at once.
    """
    allowed = quota(active, slots)
    if active > 1:
        allowed = max(1, allowed * 9 // 10)
    return max(0, min(free, batch, allowed - running))
