"""Reads a sitemap: its entries and the sitemaps it names become jobs of the locator's group."""

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain, repeat

from msgspec import Struct

from crawl_engine import urls
from crawl_engine.extract.documents.sitemap import UNKNOWN
from crawl_engine.extract.page.patterns import PatternTimeout, TimeBudget, TimedPattern
from crawl_engine.http.byte_budget import BodyShare
from crawl_engine.http.decompress import open_decompressor
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.request import cookies_along
from crawl_engine.late_regex import late_regex
from crawl_engine.model.definition import definition_hash
from crawl_engine.model.job import JobKind, JobState, LeasedJob, link_key, scoped_key, sitemap_key
from crawl_engine.model.link import Carried, LinkRequest
from crawl_engine.model.locator import SitemapRules
from crawl_engine.model.record import Texts, as_text
from crawl_engine.model.retry_policy import classify_status
from crawl_engine.model.variables import SITEMAP
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.def_cache import DefCache
from crawl_engine.node.extraction.extractor import PageExtractor
from crawl_engine.node.extraction.page_extraction import UnreadablePage
from crawl_engine.node.extraction.result import MAX_SITEMAP_URLS, SitemapResult
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.lines import cut_in_pieces, take_first
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.store.pages.body import Body
from crawl_engine.store.tables.job.linked_jobs import ChildJob, Children
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.urls import QueryStripper

_GZIP_MAGIC = b"\x1f\x8b"
_MAX_DEPTH = 4
"""Levels of sitemaps that name further sitemaps."""
_ENTRIES_PER_PIECE = 1_000
"""Entries turned into jobs at once; the committing thread makes all pieces but the first."""
_UNPACKED_PER_STEP = 1_000_000
"""Bytes unpacked before other coroutines get their turn."""
_MAX_SECONDS = 10.0
"""Seconds for all searches in one sitemap."""
_ENTRIES_PER_BUDGET = 1_000
"""The time limits of patterns are those of a page: this many entries count as one."""
_NORMALIZED = late_regex(r"https?://(?!.*(?:xn--|/\.))(?:[a-z0-9-]+\.)+[a-z][a-z-]*/[A-Za-z0-9/_.~-]*")
"""Matches URLs that are certainly normalized, without a port or query."""
NOT_FOLLOWED = -1
_Entry = tuple[str | memoryview, "Route | None", int, str | memoryview]
"""A URL as written, where it leads, when it was modified, and what its entry says."""


class Route(Struct, frozen=True):
    """The group and priority of followed entries."""

    group: str
    priority: int


class SitemapRouting:
    """The compiled rules of one sitemap: which entries are followed, and into which group each leads."""

    def __init__(
        self, rules: SitemapRules, group: str, priorities: Mapping[str, int], priority: int,
        query_stripper: QueryStripper | None = None,
    ) -> None:  # fmt: skip
        """`group`: the locator's own, whose jobs have `priority`. `priorities`: of the groups in the defs.

        A rule for an unknown group takes its entries, and they are not followed.
        """
        self.key = definition_hash(rules)
        self._takes_all = rules.takes_all
        self._query_stripper = query_stripper
        self._allow, self._deny = _compile(rules.allow), _compile(rules.deny)
        self._links = [(_compile(link.allow), _compile(link.deny)) for link in rules.links] or [((), ())]
        self.routes: list[Route | None] = [Route(group, priority)] if not rules.links else []
        for link in rules.links:
            target = link.group or group
            own = priority if target == group else priorities.get(target, 0)
            chosen = own if link.priority is None else link.priority
            self.routes.append(Route(target, chosen) if target in priorities or target == group else None)
        groups = {route.group for route in self.routes if route is not None}
        self._has_routes = query_stripper is not None and not groups.isdisjoint(query_stripper.routed)

    def choose(self, base: str, entries: Texts) -> list[int]:
        """For each entry the index of its route, or NOT_FOLLOWED. Raises UnreadablePage past the time limit."""
        if self._takes_all:
            return [0] * len(entries)
        stop_at = time.monotonic() + _MAX_SECONDS
        chosen: list[int] = []
        try:
            for index, written in enumerate(entries):
                if index % _ENTRIES_PER_BUDGET == 0:
                    budget = TimeBudget()
                if time.monotonic() > stop_at:
                    raise UnreadablePage(f"the rules of the sitemap take more than {_MAX_SECONDS:g} s")
                chosen.append(self._choose_one(base, as_text(written), budget))
        except PatternTimeout as error:
            raise UnreadablePage(f"a rule of the sitemap: {error}") from error
        return chosen

    def _choose_one(self, base: str, written: str, budget: TimeBudget) -> int:
        # most entries are normalized URLs: the general check would take longer than the rules of the sitemap
        target = written if _NORMALIZED.fullmatch(written) else self._join(base, written)
        if target is None or not _accepts(self._allow, self._deny, target, budget):
            return NOT_FOLLOWED
        for index, (allow, deny) in enumerate(self._links):
            if _accepts(allow, deny, target, budget):
                return NOT_FOLLOWED if self.routes[index] is None else index
        return NOT_FOLLOWED

    def _join(self, base: str, written: str) -> str | None:
        target = urls.join(base, written, keeps_route=self._has_routes)
        return target if target is None or self._query_stripper is None else self._query_stripper.strip_url(target)


def _accepts(allow: Sequence[TimedPattern], deny: Sequence[TimedPattern], url: str, budget: TimeBudget) -> bool:
    return (not allow or any(pattern.has_match(url, budget) for pattern in allow)) and not any(
        pattern.has_match(url, budget) for pattern in deny
    )


def _compile(patterns: Sequence[str]) -> tuple[TimedPattern, ...]:
    return tuple(map(TimedPattern, patterns))


class SitemapChildren(Struct, frozen=True):
    """The jobs of a sitemap."""

    first: tuple[ChildJob, ...]
    later: Iterator[tuple[ChildJob, ...]] | None
    """Further jobs in pieces, made at the commit."""
    entries: int
    """The number of jobs; for a large sitemap the number of entries, some of which may make no job."""
    denied: int
    """Entries that the rules of the locator do not follow."""
    dropped: int
    """Entries beyond the protocol's limit."""
    share: BodyShare
    """The part of the budget of answers that the URLs hold, released after the commit."""
    is_cut_short: bool = False
    """Whether the sitemap ends too early."""
    is_empty: bool = False
    """Whether it has no entry at all, as a page that is no sitemap."""


class SitemapHandler(PageStage, frozen=True):
    """One for each node."""

    max_body: int
    page_extractor: PageExtractor
    db_access: DbAccess
    def_cache: DefCache
    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> JobOutcome:
        """The outcome of a sitemap's job."""
        share, url, hops, response = page.attempt.share, page.url, page.hops, page.response
        assert response is not None, "sitemaps are not stored"
        if response.refusal is not None:
            return self.outcomes.refused(job, url, response)
        status_class = classify_status(response.status, job.plan.retry.statuses)
        if status_class == "retry":
            return self.outcomes.retry_status(job, url, response)
        if status_class != "ok":
            return self.outcomes.failed(job, f"HTTP {response.status}", url, hops)
        try:
            children = await self.list_children(job, url, response.take_body(), share)
        except FetchFailed as failure:
            return self.outcomes.fetch_failed(job, url, failure)
        except UnreadablePage as error:
            return self.outcomes.ended(job, JobState.FAILED, str(error), url, hops=hops)
        if children.is_empty:
            children.share.release()
            if job.plan.group.confirm_end and not self.db_access.was_asked_again(job):
                return self.outcomes.asked_again(job, url, "no entry in the sitemap")
            return self.outcomes.ended(job, JobState.SKIPPED, "no sitemap: it has no entry", url, hops=hops)
        text, dropped = f"{job.url}: {children.entries} entries", children.dropped
        if children.denied:
            text += f"; {children.denied} not followed, by the rules of the sitemap"
        if dropped:
            text += f"; {dropped} beyond the {MAX_SITEMAP_URLS:,} that the sitemap protocol allows are dropped"
        if children.is_cut_short:
            text += "; it ends too early, and further entries may be missing"
        is_whole = children.entries and not dropped and not children.is_cut_short
        event = self.outcomes.event(job, "INFO" if is_whole else "WARNING", text)
        outcome = JobOutcome(
            job=job, state=JobState.DONE, attempts=1, hops=hops,
            effects=(Children(children.first, children.later), event),
        )  # fmt: skip
        outcome.release_when_settled(children.share.release)
        return outcome

    async def list_children(self, job: LeasedJob, url: str, body: bytes, share: BodyShare) -> SitemapChildren:
        """The jobs of the sitemap at that URL. `share` grows with the unpacked bytes.

        Raises FetchFailed if it cannot be decompressed, and UnreadablePage.
        """
        if body.startswith(_GZIP_MAGIC):
            body = await self._unpack(body, share)
        content = Body(body)
        del body  # a large one is compressed while it is read
        # the rules at the creation of the job; after an edit of them the sitemap is read again
        rules = None if job.lineage.locator_id is None else self.db_access.sitemap_rules(job.lineage.locator_id)
        now = time.time() if rules is not None and rules.since is not None else None
        names = self.def_cache.version(job.defs_version).sitemap_names
        sitemap, held = await self.page_extractor.read_sitemap(content, now, names)
        try:
            stripper = self.def_cache.query_stripper(job.defs_version)
            routing = None if rules is None else self._routing(job, rules, stripper)
            # in a thread: the searches of a large sitemap take long, a bad pattern far longer
            chosen = None if routing is None else await asyncio.to_thread(routing.choose, url, sitemap.pages)
            first, later = take_first(_pieces(job, url, sitemap, routing, chosen, stripper))
        except BaseException:
            held.release()
            raise
        denied = 0 if chosen is None else chosen.count(NOT_FOLLOWED)
        entries = len(first) if later is None else len(sitemap.pages) + len(sitemap.sitemaps) - denied
        return SitemapChildren(
            first, later, entries, denied, sitemap.dropped, held, sitemap.is_cut_short,
            is_empty=not (len(sitemap.pages) or len(sitemap.sitemaps) or sitemap.dropped),
        )  # fmt: skip

    def _routing(self, job: LeasedJob, rules: SitemapRules, query_stripper: QueryStripper | None) -> SitemapRouting:
        priorities = self.def_cache.version(job.defs_version).priorities
        return SitemapRouting(rules, job.group, priorities, job.lineage.priority, query_stripper)

    async def _unpack(self, body: bytes, share: BodyShare) -> bytes:
        decompressor = open_decompressor("gzip", self.max_body)
        assert decompressor is not None
        unpacked, step = BytesIO(), 0
        for piece in decompressor.feed(body):
            await share.grow(len(piece))
            unpacked.write(piece)
            step += len(piece)
            if step >= _UNPACKED_PER_STEP:
                step = 0
                await asyncio.sleep(0)
        decompressor.finish()
        share.finish_reading()
        return unpacked.getvalue()


def _pieces(
    job: LeasedJob, url: str, sitemap: SitemapResult, routing: SitemapRouting | None, chosen: Sequence[int] | None,
    query_stripper: QueryStripper | None,
) -> Iterator[tuple[ChildJob, ...]]:  # fmt: skip
    """The jobs of the entries, in pieces that are not empty. `chosen`: the route of each page."""
    nested = sitemap.sitemaps if job.lineage.depth < _MAX_DEPTH else ()
    own = Route(job.group, job.lineage.priority)
    dated = zip(sitemap.pages, sitemap.modified or repeat(UNKNOWN), sitemap.values or repeat(""), strict=False)
    pages: Iterable[_Entry] = ((page, own, modified, values) for page, modified, values in dated)
    if routing is not None and chosen is not None:
        chosen_pages = zip(dated, chosen, strict=True)
        pages = (
            (page, routing.routes[index], modified, values)
            for (page, modified, values), index in chosen_pages
            if index != NOT_FOLLOWED
        )
    rules = "" if routing is None else routing.key
    entries = chain(pages, ((other, None, UNKNOWN, "") for other in nested))
    for piece in cut_in_pieces(entries, lambda entry: len(entry[0]), _ENTRIES_PER_PIECE):
        children: dict[bytes, ChildJob] = {}
        for written, route, modified, values in piece:
            has_routes = route is not None and query_stripper is not None and route.group in query_stripper.routed
            target = _join(url, as_text(written), keeps_route=has_routes)
            if target is None:
                continue
            if query_stripper is not None:
                target = query_stripper.strip_url(target)
            host_key, origin = urls.host_key(target), urls.origin(target)
            if route is not None:
                cookies = cookies_along(job, route.group, target)
                key = scoped_key(link_key(route.group, target), cookies)
                children[key] = ChildJob(
                    route.group, host_key, origin, target, 0, route.priority, key, JobKind.PAGE,
                    request=LinkRequest(cookies=cookies).to_json(), fresh_since=_later(modified, children.get(key)),
                    carried=_carry(as_text(values)),
                )  # fmt: skip
            else:
                cookies = cookies_along(job, job.group, target)
                key = scoped_key(sitemap_key(job.group, job.lineage.locator, target, None, rules=rules), cookies)
                children[key] = ChildJob(
                    job.group,
                    host_key,
                    origin,
                    target,
                    job.lineage.depth + 1,
                    job.lineage.priority,
                    key,
                    JobKind.SITEMAP,
                    request=LinkRequest(cookies=cookies).to_json(),
                )
        if children:
            yield tuple(children.values())


def _carry(values: str) -> str | None:
    """What a page knows of its entry, as it is stored."""
    known = json.loads(values) if values else {}
    return Carried(values={f"{SITEMAP}{name}": text for name, text in known.items()}).to_json() if known else None


def _later(modified: int, same: ChildJob | None) -> float | None:
    """The later modification time of two entries for a page; None: unknown."""
    if modified == UNKNOWN or (same is not None and same.fresh_since is None):
        return None
    return float(modified) if same is None or same.fresh_since is None else max(modified, same.fresh_since)


def _join(base: str, written: str, *, keeps_route: bool) -> str | None:
    """The URL of an entry, without credentials: those of a site are neither stored nor sent."""
    target = urls.join(base, written, keeps_route=keeps_route)
    return None if target is None else urls.without_credentials(target)
