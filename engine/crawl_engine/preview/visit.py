"""Fetches one page for an operator by the stages of a crawl, over a store that keeps nothing.

A crawl spreads the hops of a page over leases, which keep each host's delay. Here one operator waits for one page.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.browser.browsers import BrowserPool, BrowserUnavailable
from crawl_engine.browser.loader import BrowserLoader
from crawl_engine.defs.url_patterns import expand
from crawl_engine.errors import PageUnavailable, UsageError
from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import FetchFailed, NoFileLeft
from crawl_engine.http.redirects import RedirectRejected
from crawl_engine.http.request import expand_url
from crawl_engine.http.response import FetchResponse, redact_headers
from crawl_engine.http.robots_request import ask_for_robots
from crawl_engine.model.definition import Definitions, TaskGroup
from crawl_engine.model.fingerprint import list_routed_groups
from crawl_engine.model.job import JobKind, JobLineage, JobOrigin, JobState, LeasedJob, ReasonCode, Request, StoredPage
from crawl_engine.model.locator import Locator
from crawl_engine.model.retry_policy import classify_status
from crawl_engine.model.variables import decode_variables
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.def_cache import DefCache, DefsVersion
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.extraction.page_extraction import UnsupportedContent, parse_page
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.handlers.follow_refresh import FollowRefresh
from crawl_engine.node.handlers.freshness import Revalidation
from crawl_engine.node.handlers.hop_rules import Hop, KeepBody, LeaseAgain
from crawl_engine.node.handlers.page_fetch import Fetch, StartChain
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.host_gate import HostGates
from crawl_engine.node.loading.group_loaders import GroupLoaders
from crawl_engine.node.loading.pool import LoaderPool
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.file_parts import FileParts
from crawl_engine.node.requests.named_hosts import NamedHosts
from crawl_engine.node.requests.request_sender import Attempt, RequestSender
from crawl_engine.node.requests.robots_cache import RobotsCache
from crawl_engine.node.rules import RuleParts
from crawl_engine.node.rules.refresh import RefreshPart, RefreshRule, find_refresh
from crawl_engine.preview.extraction_client import TrialDocument
from crawl_engine.preview.rendering import ProfileFolder, Rendering, describe_rule, find_lack, remedy_of
from crawl_engine.processes.launcher import OwnTemplate
from crawl_engine.robots.host_policy import resolve_host_policy
from crawl_engine.robots.rules import HostRobots, parse_robots
from crawl_engine.runtime.file_folder import FileFolder
from crawl_engine.settings import Settings
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.supervise.seeding.seed_reader import SeedReader

_RUN = "try"
"""The run, as plugin loaders are told it."""
_PLAIN = Request()
_BY_RULES = Rendering()


def fetch_page(
    url: str, definitions: Definitions, settings: Settings, group: str | None = None, rendering: Rendering = _BY_RULES
) -> TrialDocument:
    """Fetch a page, of whatever final status; the document's `url` is the final one, without credentials.

    The loader of `group` fetches it, if there is one; without a group, that of a locator with this URL.
    Applies the host rules of the defs: headers, cookies, and whether to obey robots.txt. The host of `url` may be at
    any address, as that of a locator; a redirect may lead to a public one, or to one that the defs name.
    Raises PageUnavailable, and UsageError for a browser that is missing or does not start.
    """
    start = urls.normalize(url, keeps_route=True)
    if start is None:
        raise PageUnavailable(
            f"{urls.without_credentials(url)}: not an http or https URL", "Write the full URL: https://…"
        )
    request, start_url = Request(userinfo=urls.userinfo_of(start)), urls.without_credentials(start)
    named = _find_locator(definitions, settings, start_url, group)
    if not (rendering.always or (named[0] if named is not None else group) in list_routed_groups(definitions)):
        start_url = start_url.partition("#")[0]
    if named is not None:
        group, locator = named
        request = replace(
            request, method=locator.method, headers=tuple(locator.headers.items()),
            cookies=tuple(locator.cookies.items()), body=locator.body, content_type=locator.content_type,
        )  # fmt: skip
    with _Visit(definitions, settings, start_url, rendering) as visit:
        return visit.fetch(start_url, JobOrigin.LOCATOR, group or "", request)


def fetch_linked_page(
    url: str, start_url: str, definitions: Definitions, settings: Settings, rendering: Rendering = _BY_RULES
) -> TrialDocument:
    """Fetch a page that a link leads to, with no more trust than a crawl has: the site wrote the URL.

    `start_url`: where the operator began; its host may have any address, and `http:` may carry its credentials.
    Empty: not a page of the web. Raises PageUnavailable, UsageError.
    """
    normalized = urls.normalize(url, keeps_route=rendering.always)
    if normalized is None:
        raise PageUnavailable(f"{urls.without_credentials(url)}: not an http or https URL", "Open another link.")
    target, request = urls.without_credentials(normalized), _PLAIN
    named = _find_locator(definitions, settings, start_url, None)
    if named is not None and named[1].cookie_scope is not None and urls.origin(target) == urls.origin(start_url):
        request = replace(request, cookies=tuple(named[1].cookies.items()))
    with _Visit(definitions, settings, start_url, rendering) as visit:
        return visit.fetch(target, JobOrigin.LINK, request=request)


def _find_locator(
    definitions: Definitions, settings: Settings, url: str, group: str | None
) -> tuple[str, Locator] | None:
    """The locator with this URL, and its group; only one of `group`, if that is given."""
    base, routed = settings.base_url or definitions.base_url, list_routed_groups(definitions)
    for locator_group in definitions.locator_groups:
        has_routes = locator_group.name in routed
        wanted = url if has_routes else url.partition("#")[0]
        for locator in locator_group.locators if group in (None, locator_group.name) else ():
            found = (urls.resolve(written, base, keeps_route=has_routes) for written in locator.urls)
            if not locator.body_pieces and wanted in found:
                return locator_group.name, locator
    return None


class _Visit:
    def __init__(self, definitions: Definitions, settings: Settings, start_url: str, rendering: Rendering) -> None:
        """`start_url`: what the operator wrote, without credentials."""
        self._start_url = start_url
        self._rendering = rendering
        self._renders = False
        """Whether the plain page was not enough."""
        self._def_cache = def_cache = _OneVersion(definitions, rendering)
        self._template = OwnTemplate(["crawl_engine.node.loading.loader_child"])
        robots = _AskedRobots()
        db_access, gates = _NoStore(definitions, settings, start_url, robots), _OpenGates()
        named_hosts = NamedHosts(run=0, base_url=settings.base_url, db_access=db_access, def_cache=def_cache)
        pool, fetcher = LoaderPool(self._template, settings), Fetcher.from_settings(settings, connections=2)
        self._profiles = ProfileFolder() if rendering.always or _has_browser(definitions) else None
        folder = Path() if self._profiles is None else self._profiles.path
        browsers = BrowserPool(self._template, settings, folder, _RUN, shows=rendering.window is not None)
        browser = BrowserLoader(browsers, fetcher, settings)
        self._sender = sender = RequestSender(
            settings=settings,
            def_cache=def_cache,
            fetcher=fetcher,
            db_access=db_access,
            robots_cache=robots,
            named_hosts=named_hosts,
            host_gates=gates,
            group_loaders=GroupLoaders(
                pool, settings, browser=browser, def_cache=def_cache, host_gates=gates, run=_RUN
            ),
            file_parts=FileParts(FileFolder(Path(), _RUN), settings),
        )
        outcomes = _Explained(source=_RUN, max_attempts=1)
        ask_robots = _AskRobots(sender, robots)
        rules = KeepBody(db_access, outcomes), ask_robots, LeaseAgain(outcomes)
        stages: list[PageStage] = [
            StartChain(settings.max_redirects, def_cache.query_stripper, sender.cookie_header),
            ask_robots,
            Fetch(sender, Revalidation(db_access), outcomes, rules),
        ]
        if settings.meta_refresh:
            stages += [_ReadRefresh(), FollowRefresh(outcomes, (ask_robots, LeaseAgain(outcomes, always=True)))]
        self._stages = stages

    def __enter__(self) -> "_Visit":
        self._runner = asyncio.Runner()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._rendering.window is not None:
            self._rendering.window.keep(self._close)
        else:
            self._close()

    def _close(self) -> None:
        """End the browser: an impatient Ctrl-C must not leave it."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if self._profiles is not None else None
        try:
            self._runner.run(self._sender.aclose())
        finally:
            self._runner.close()
            self._template.close()
            if self._profiles is not None:
                self._profiles.close()
            if before is not None:
                signal.signal(signal.SIGINT, before)

    def fetch(self, url: str, origin: JobOrigin, group: str = "", request: Request = _PLAIN) -> TrialDocument:
        """The page of a URL, wherever it leads. Raises PageUnavailable, UsageError."""
        lineage = JobLineage(None, 0, group, self._start_url, origin, 0, 0)
        job = LeasedJob(
            id=1, lease=1, run=0, sequence=0, host=0, kind=JobKind.PAGE, group=group, url=url, lineage=lineage,
            attempts=0, crashes=0, hops=0, target=None, request=request, defs_version=1,
        )  # fmt: skip
        task_group, settings = self._def_cache.task_group(1, group), self._sender.settings
        rule = None if task_group.loader is None else task_group.loader.browser
        if rule is None:
            return self._load(job, "")
        if rule.when is None:
            self._rendering.prepare(settings)
            written = self._def_cache.definitions(1).task_group(group)
            reason, advice = describe_rule(written, always=self._rendering.always)
            rendered = self._load(job, reason)
            return replace(rendered, notes=(*rendered.notes, advice)) if advice else rendered
        document = self._load(job, "")
        lacks, reason = find_lack(document, task_group, self._def_cache.definitions(1), settings)
        if not lacks:
            return replace(document, origin=f"{document.origin} ({reason})") if reason else document
        self._rendering.prepare(settings)
        self._renders = True
        return self._load(job._replace(hops=self._page.hops, target=self._page.target), reason)

    def _load(self, job: LeasedJob, reason: str) -> TrialDocument:
        """Load a page. `reason`: why a browser renders it; empty: none does."""
        shown = decode_variables(job.url)
        try:
            page = self._page = self._runner.run(self._follow(job))
        except FetchFailed as failure:
            if isinstance(failure.__cause__, BrowserUnavailable):
                raise UsageError(f"{shown}: {failure.reason}", remedy_of(failure.reason)) from failure
            remedy = failure.remedy or "Try again, or give a file."
            raise PageUnavailable(f"{shown}: {failure.reason}", remedy) from failure
        except NoFileLeft as error:
            raise PageUnavailable(f"{shown}: {error}", "Close other programs, or raise it.") from error
        assert page.response is not None
        verb, why = ("rendered", f" ({reason})") if reason else ("fetched", "")
        return TrialDocument(
            body=page.response.body,
            content_type=page.content_type,
            url=page.url,
            status=page.status,
            fetched_at=page.fetched_at,
            headers=redact_headers(page.response.headers),
            origin=f"{verb} in {page.attempt.seconds * 1000:.0f} ms{why}",
            is_rendered=bool(reason),
            notes=tuple([f"{page.url}: {note}" for note in page.response.notes]),
            refusal=page.response.refusal or "",
        )

    async def _follow(self, job: LeasedJob) -> VisitedPage:
        """Take the job through the stages, and again where a crawl would lease it again."""
        seconds = 0.0
        while True:
            job = self._def_cache.plan_for(job, job.target or job.url)
            page = VisitedPage(attempt=_new_attempt(self._sender.settings))
            page.attempt.renders = self._renders
            result: VisitedPage | JobOutcome = page
            for stage in self._stages:
                result = await stage.run(job, page)
                if isinstance(result, JobOutcome):
                    break
            seconds = page.attempt.seconds = seconds + page.attempt.seconds
            if isinstance(result, VisitedPage):
                return result
            job = job._replace(hops=result.hops, target=result.target)


def _has_browser(definitions: Definitions) -> bool:
    return any(group.loader is not None for group in definitions.task_groups)


def _new_attempt(settings: Settings) -> Attempt:
    return Attempt(0, ByteBudget(capacity=settings.max_body, largest=settings.max_body).open_share())


class _AskRobots(PageStage, frozen=True):
    """Asks each host for its robots.txt in place; a crawl does so in jobs of their own.

    Redirects may lead to any site that allows it: the address guard refuses a host at the connection.
    """

    sender: RequestSender
    asked: "_AskedRobots"

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage:
        assert page.chain is not None
        url = page.chain.url
        key = urls.host_key(url)
        definitions = self.sender.def_cache.definitions(job.defs_version)
        policy = resolve_host_policy(definitions, self.sender.settings, key)
        if not policy.robots:
            return page
        robots = self.asked.by_host.get(key)
        if robots is None:
            answer = await ask_for_robots(f"{urls.origin(url)}/robots.txt", partial(self._send, job))
            robots = self.asked.by_host[key] = parse_robots(*answer, policy.agent)
        refusal = robots.refusal(expand_url(url) if job.is_written(url) else url)
        if refusal is None:
            return page
        crawl = "A crawl would skip it." if robots.readable else "A crawl would retry, then fail it."
        advice = "If the site is yours, use --set robots=false, or `robots: false` in `hosts`."
        if not robots.has_answer:
            refusal, advice = robots.problem, "Check the URL and the network."
        raise PageUnavailable(f"{urls.without_credentials(url)}: {refusal}", f"{crawl} {advice}")

    async def judge(self, job: LeasedJob, hop: Hop) -> None:
        if hop.problem is not None:
            raise PageUnavailable(f"{urls.without_credentials(hop.chain.url)}: {hop.problem}", hop.problem.remedy)
        await self.run(job, hop.page)

    async def _send(self, job: LeasedJob, url: str, request: Request) -> FetchResponse:
        robots_job = self.sender.def_cache.plan_for(job._replace(kind=JobKind.ROBOTS, sequence=1), url)
        return await self.sender.send(robots_job, _new_attempt(self.sender.settings), url, request)


class _ReadRefresh(PageStage, frozen=True):
    """Reads where a page leads by itself; what else it holds is extracted later."""

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage:  # noqa: ARG002  # as any stage
        response = page.response
        if response is None or response.refusal or classify_status(page.status) != "ok":
            return page
        try:
            read = parse_page(
                response.body, page.content_type, url=page.url, status=page.status, fetched_at=0.0,
                headers=response.headers,
            )  # fmt: skip
        except UnsupportedContent:
            return page
        if target := find_refresh(read):
            parts = RuleParts({RefreshRule.name: RefreshPart(target)})
            page.extraction = PageExtraction(PageResult(page_kind=read.kind, parts=parts))
        return page


class _Explained(OutcomeBuilder):
    """Tells the operator why there is no page. Nothing is tried again."""

    def fetch_failed(self, job: LeasedJob, url: str, failure: FetchFailed) -> NoReturn:  # noqa: ARG002
        raise failure

    def ended(
        self, job: LeasedJob, state: JobState, reason: str, url: str, *, hops: int = 0,  # noqa: ARG002
        code: ReasonCode | None = None,  # noqa: ARG002
    ) -> NoReturn:  # fmt: skip
        raise PageUnavailable(f"{urls.without_credentials(url)}: {reason}", RedirectRejected.remedy)


class _NoStore(DbAccess):
    """What the stages ask of the store about a page that was never crawled."""

    def __init__(self, definitions: Definitions, settings: Settings, start_url: str, robots: "_AskedRobots") -> None:
        self._robots = robots
        self._exempt = {urls.host_key(start_url)} if urls.is_http_url(start_url) else set[str]()
        self._find_hosts = partial(locator_hosts, definitions, settings.base_url)

    def find_host(self, run: int, key: str) -> int | None:  # noqa: ARG002
        return self._robots.find_host(key)

    def is_named_host(self, run: int, key: str) -> bool:  # noqa: ARG002
        return key in self._exempt or key in self._find_hosts()

    def recent_answers(self, host: int) -> tuple[int, int]:  # noqa: ARG002
        return 0, 0

    def good_documents(self, keys: Sequence[bytes]) -> dict[bytes, list[tuple[StoredPage, bytes | None]]]:  # noqa: ARG002
        return {}

    def page_headers(self, pages: Iterable[int]) -> dict[int, tuple[tuple[str, str], ...]]:  # noqa: ARG002
        return {}


class _AskedRobots(RobotsCache):
    """The robots.txt of each host that was asked for it; what a page in a browser asks for obeys them."""

    def __init__(self) -> None:
        self.by_host: dict[str, HostRobots] = {}

    def find_host(self, key: str) -> int | None:
        """Its number; None: the preview has not been there, and a crawl that begins here has not either."""
        return list(self.by_host).index(key) if key in self.by_host else None

    async def rules(self, host: int, version: int) -> HostRobots:  # noqa: ARG002
        return list(self.by_host.values())[host]


class _OneVersion(DefCache):
    """The defs that are tried; no store has them."""

    def __init__(self, definitions: Definitions, rendering: Rendering) -> None:
        self._version = DefsVersion(definitions)
        self._rendering = rendering

    def version(self, number: int) -> DefsVersion:  # noqa: ARG002
        return self._version

    def task_group(self, version: int, name: str) -> TaskGroup:
        return self._rendering.rule_for(super().task_group(version, name))


class _OpenGates(HostGates):
    """An operator waits for the page: no turn is kept, and crawls learn nothing of it."""

    def __init__(self) -> None:
        self._admissions = {}

    async def enter(self, job: LeasedJob, host_key: str, *, send_at: float | None, takes_turn: bool = True) -> None:
        pass

    @asynccontextmanager
    async def approach(self, job: LeasedJob) -> AsyncIterator[None]:  # noqa: ARG002
        yield

    async def wait_turn(self, job: LeasedJob, *, again: bool) -> None:
        pass

    def close(self) -> None:
        pass


def locator_hosts(definitions: Definitions, base_url: str | None) -> frozenset[str]:
    """The hosts (`name:port`) of all locators, and of the base of relative ones; those on stdin are not read."""
    base = base_url or definitions.base_url
    locators = (locator for group in definitions.locator_groups for locator in group.locators)
    written = (url for locator in locators for url in _written_urls(locator, base))
    resolved = (urls.resolve(url, base) for url in ("", *written))
    return frozenset(urls.host_key(url) for url in resolved if url is not None)


def _written_urls(locator: Locator, base: str | None) -> Iterator[str]:
    for pattern in locator.urls:
        yield from expand(pattern)
    if locator.sitemap:
        yield locator.sitemap
    if locator.from_file and locator.from_file != "-":
        try:
            yield from (seed.url for seed in SeedReader(base).list_listed(locator) if seed is not None)
        except UsageError:
            return  # a crawl reports it; here it only names no host
