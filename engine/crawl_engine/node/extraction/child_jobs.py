"""Turns a page's links into jobs, and adds the next page of a series unless this page ends it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.http.request import cookies_along
from crawl_engine.model.job import LeasedJob, link_key, locator_key, scoped_key
from crawl_engine.model.link import PLAIN_LINK, Carried, LinkRequest, PageBlocks
from crawl_engine.model.locator import Series
from crawl_engine.model.record import ExtractedLink
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.def_cache import DefCache
from crawl_engine.node.extraction.page_extraction import within_depth
from crawl_engine.node.extraction.result import LinkColumns
from crawl_engine.node.lines import cut_in_pieces
from crawl_engine.node.seen_set import SeenSet
from crawl_engine.store.tables.job.linked_jobs import ChildJob

CHILDREN_PER_PIECE = 2_000
"""Links turned into jobs at once; the committing thread makes all pieces but the first."""

_MAX_SERIES = 1_000


class ChildJobs:
    """The child jobs of the pages of one node; the store drops duplicates."""

    def __init__(self, def_cache: DefCache, seen_set: SeenSet, db_access: DbAccess) -> None:
        self._def_cache = def_cache
        self._seen_set = seen_set
        self._db_access = db_access
        self._series: dict[int, Series | None] = {}

    def of_series(self, job: LeasedJob, blocks: PageBlocks | None) -> tuple[ChildJob, ...]:
        """The next page of the job's series, if this page has a block or followed link and does not repeat another.

        `blocks`: of this page; None: its series needs none.
        """
        if job.lineage.page_number is None or job.lineage.locator_id is None or blocks is None or not blocks.present:
            return ()
        if blocks.digest == Carried.from_json(job.lineage.carried).blocks:
            return ()
        series = self._find_series(job.lineage.locator_id)
        number = None if series is None else series.following(job.lineage.page_number)
        if series is None or number is None:
            return ()
        url, body = series.request(number)
        method, account = job.request.method, job.request.account
        is_plain = method == "GET" and body is None and job.request.body is None
        own_body = job.request.body if body is None else body
        cookies = cookies_along(job, job.group, url)
        identity = locator_key(job.group, job.lineage.locator, url, method, own_body, account)
        return (
            ChildJob(
                job.group,
                urls.host_key(url),
                urls.origin(url),
                url,
                0,
                self._def_cache.task_group(job.defs_version, job.group).priority,
                scoped_key(identity, cookies),
                may_leave_host=True,
                request=LinkRequest(body=body, page=number).to_json(),
                carried=Carried(blocks=blocks.digest).to_json(),
                page_key=scoped_key(link_key(job.group, url), cookies) if is_plain else None,
                in_series=True,
            ),
        )

    def _find_series(self, locator: int) -> Series | None:
        """The series of a locator, which never changes; those of the last locators are kept."""
        if locator not in self._series:
            if len(self._series) >= _MAX_SERIES:
                self._series.clear()
            self._series[locator] = self._db_access.series(locator)
        return self._series[locator]

    def of_links(
        self, job: LeasedJob, links: LinkColumns | Sequence[ExtractedLink], *, have_details: bool = False
    ) -> Iterator[tuple[ChildJob, ...]]:
        """The jobs of a page's links, in pieces that are not empty; links that were made here are one piece.

        `have_details`: whether any of them may send or carry something.
        """
        cookies = job.lineage.cookies
        is_new = partial(self._is_new, cookies) if cookies else self._seen_set.is_new
        if isinstance(links, LinkColumns):
            new = links.list_new(None if job.extraction.links_stale else is_new)
            for piece in cut_in_pieces(_first_carrying(new), lambda link: len(link.url), CHILDREN_PER_PIECE):
                if children := self._make(job, piece):
                    yield children
            return
        if job.extraction.links_stale:
            new_links: Sequence[ExtractedLink] = links
        elif cookies:
            new_links = [link for link in links if is_new(link.key)]
        else:
            new_links = self._seen_set.filter_new(links)
        if have_details and len(new_links) < len(links):
            new_links = [
                link
                for link in links
                if (link.details is not None and link.details.concerns_known_job) or is_new(link.key)
            ]
        if children := self._make(job, new_links):
            yield children

    def _is_new(self, cookies: Sequence[tuple[str, str]], key: bytes) -> bool:
        return self._seen_set.is_new(scoped_key(key, cookies))

    def _make(self, job: LeasedJob, links: Sequence[ExtractedLink]) -> tuple[ChildJob, ...]:
        children: dict[bytes, ChildJob] = {}
        seeds, along = Carried.from_json(job.lineage.carried).of_seed, job.lineage.cookies
        for link in links:
            details = link.details
            carried = None if details is None else details.carried
            identity, page_key = link.key, None
            depth = job.lineage.depth if details is not None and details.stays_at_depth else job.lineage.depth + 1
            if details is not None and details.request.relation == "next":
                identity, page_key = self._key_of_next(job, link, details.request)
            is_canonical = details is not None and details.request.relation == "canonical"
            if urls.is_file_url(link.url) and not self._may_read(job, link.url):
                continue
            request = None if details is None else details.request
            if along and (cookies := cookies_along(job, link.group, link.url)):
                identity = scoped_key(identity, cookies)
                page_key = None if page_key is None else scoped_key(page_key, cookies)
                request = replace(request or PLAIN_LINK, cookies=cookies)
            if identity in children or not within_depth(
                link, depth, self._def_cache.task_group(job.defs_version, link.group)
            ):
                continue
            children[identity] = ChildJob(
                link.group,
                urls.host_key(link.url),
                urls.origin(link.url),
                link.url,
                depth,
                job.lineage.priority if is_canonical else link.priority,
                identity,
                may_leave_host=link.may_leave_host,
                request=None if request is None else request.to_json(),
                carried=seeds.add_to(carried) if seeds is not None else carried,
                page_key=page_key,
            )
        return tuple(children.values())

    def _key_of_next(self, job: LeasedJob, link: ExtractedLink, request: LinkRequest) -> tuple[bytes, bytes | None]:
        """The identity of a next page, as if its locator named it: a chain that returns to its start ends there.

        With it the key of a plain link to the same page, if the request is one.
        """
        sent = job.request
        identity = locator_key(link.group, job.lineage.locator, link.url, request.method, request.body, sent.account)
        return identity, link.key if request.is_plain_get else None

    def _may_read(self, job: LeasedJob, url: str) -> bool:
        """Whether a page may lead to a file: below the page's folder or below a table's `baseUrl`."""
        tables = [data_def.axis for data_def in self._def_cache.definitions(job.defs_version).data_defs]
        bases = [f"{table.base_url.rstrip('/')}/" for table in tables if table is not None and table.base_url]
        folders = [base for base in (*bases, job.url[: job.url.rfind("/") + 1]) if urls.is_file_url(base)]
        return url.startswith(tuple(folders))


def _first_carrying(links: Iterable[ExtractedLink]) -> Iterator[ExtractedLink]:
    """The links, without those that carry values to a page that an earlier link carries values to."""
    keys: set[bytes] = set()
    for link in links:
        if link.details is not None and link.details.carried is not None:
            if link.key in keys:
                continue
            keys.add(link.key)
        yield link
