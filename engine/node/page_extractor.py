"""Extracts the pages of a node: itself where that is certainly cheap, else in an extraction process."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engine import urls
from engine.extract.context import Context
from engine.extract.nesting_guard import exceeds_depth
from engine.extract.page import PageTooDeep
from engine.extract.sitemap import parse_sitemap
from engine.fetch.decode import decode, is_binary
from engine.model.job import LeasedJob
from engine.model.record import ExtractedLink, Rejection
from engine.node import extraction_wire as wire
from engine.node.def_cache import CompiledDataDef, DefCache
from engine.node.extraction import UnreadablePage, UnsupportedContent, encode_row, parse_page, within_depth
from engine.node.extraction_process import ExtractionPool, ExtractionRequest
from engine.node.heap_trimmer import HeapTrimmer
from engine.node.seen_set import SeenSet
from engine.store.transactions.outcome import ChildJob, ExtractedRow

MAX_INLINE_BYTES = 64 * 1024
"""Size up to which a page may be parsed on the fetch loop's thread; a larger one would delay the fetches."""
MAX_INLINE_DEPTH = 200
MAX_COSTLY_TAGS = 2_000
"""Tags up to which a costly selector is evaluated on the fetch loop's thread."""
_CHILDREN_PER_STEP = 1_000
"""Links turned into jobs before other coroutines have their turn: about 3 ms."""


@dataclass(frozen=True, slots=True)
class PageExtraction:
    """The results of all dataDefs of a group on one page."""

    rows: tuple[ExtractedRow, ...]
    children: tuple[ChildJob, ...]
    rejected: tuple[Rejection, ...]
    damaged: bool
    """Whether bytes that are invalid in the page's charset were replaced."""

    def rejected_counts(self) -> tuple[tuple[str, int], ...]:
        """Rejected records by dataDef."""
        return tuple(Counter(rejection.data_def for rejection in self.rejected).items())


@dataclass(frozen=True, slots=True)
class SitemapUrls:
    """The URLs of a sitemap, as written; `dropped`: how many more it has than the protocol allows."""

    pages: Sequence[str]
    sitemaps: Sequence[str]
    dropped: int


class PageExtractor:
    """Extracts pages for one node, on its fetch loop."""

    def __init__(
        self,
        *,
        def_cache: DefCache,
        seen_set: SeenSet,
        heap_trimmer: HeapTrimmer,
        pool: ExtractionPool,
        run: str,
        run_time: str,
    ) -> None:
        self._def_cache = def_cache
        self._seen_set = seen_set
        self._heap_trimmer = heap_trimmer
        self._pool = pool
        self._run = run
        self._run_time = run_time

    async def extract(
        self, job: LeasedJob, *, body: bytes, content_type: str, url: str, status: int, fetched_at: float
    ) -> PageExtraction:
        """Extract a page. Raises UnsupportedContent or UnreadablePage."""
        context = Context(
            group=job.group,
            locator=job.locator,
            locator_url=job.locator_url,
            depth=job.depth,
            run=self._run,
            run_time=self._run_time,
            nofollow=self._def_cache.host_rule(job.defs_version, urls.host_key(url)).nofollow,
        )
        compiled = self._applicable_data_defs(job)
        if _is_cheap(body, compiled):
            return self._extract_here(job, compiled, context, body, content_type, url, status, fetched_at)
        self._heap_trimmer.record_page(len(body))
        if is_binary(body, content_type):
            raise UnsupportedContent(content_type.partition(";")[0].strip() or "unknown type")
        task = wire.PageTask(
            defs=job.defs_version,
            data_defs=tuple([(c.data_def, c.id not in job.extracted_with) for c in compiled]),
            url=url,
            content_type=content_type,
            status=status,
            fetched_at=fetched_at,
            context=context,
        )
        request = ExtractionRequest(
            header=task.to_header(),
            body=body,
            definitions=(job.defs_version, self._def_cache.definitions(job.defs_version)),
            data_defs=[c.data_def for c in compiled],
        )
        answer = await self._pool.work(request)
        assert isinstance(answer, wire.PageAnswer)
        rows: list[ExtractedRow] = []
        for index, texts in answer.rows:
            data_def = compiled[index]
            rows += [ExtractedRow(data_def.data_def, data_def.id, text) for text in texts]
        children = await self._children_in_steps(job, answer.links)
        return PageExtraction(tuple(rows), children, answer.rejected, answer.damaged)

    def unchanged_data_defs(self, job: LeasedJob) -> tuple[int, ...]:
        """For a re-extraction: ids of the dataDefs whose rows stay as they are."""
        compiled = self._def_cache.compiled_data_defs(job)
        return tuple(data_def.id for data_def in compiled if data_def.id in job.extracted_with)

    async def read_sitemap(self, body: bytes) -> SitemapUrls:
        """The URLs of an unpacked sitemap. Raises UnreadablePage."""
        self._heap_trimmer.record_page(len(body))
        if len(body) <= MAX_INLINE_BYTES:
            pages, sitemaps = parse_sitemap(decode(body, "application/xml").text)
            return SitemapUrls(pages, sitemaps, 0)
        header = {"kind": "sitemap", "content_type": "application/xml"}
        answer = await self._pool.work(ExtractionRequest(header=header, body=body))
        assert isinstance(answer, wire.SitemapAnswer)
        return SitemapUrls(answer.pages, answer.sitemaps, answer.dropped)

    def close(self) -> None:
        """End the extraction processes."""
        self._pool.close()

    def _applicable_data_defs(self, job: LeasedJob) -> Sequence[CompiledDataDef]:
        """What to apply; in a re-extraction, a dataDef whose rows stay is applied only for its links."""
        compiled = self._def_cache.compiled_data_defs(job)
        if not job.extracted_with or job.links_stale:
            return compiled
        return [data_def for data_def in compiled if data_def.id not in job.extracted_with]

    def _extract_here(
        self,
        job: LeasedJob,
        data_defs: Sequence[CompiledDataDef],
        context: Context,
        body: bytes,
        content_type: str,
        url: str,
        status: int,
        fetched_at: float,
    ) -> PageExtraction:
        page, damaged = parse_page(body, content_type, url=url, status=status, fetched_at=fetched_at)
        rows: list[ExtractedRow] = []
        links: list[ExtractedLink] = []
        rejected: list[Rejection] = []
        try:
            for compiled in data_defs:
                extraction = compiled.extractor.extract(page, context)
                links += extraction.links
                if compiled.id not in job.extracted_with:
                    rows += [ExtractedRow(compiled.data_def, compiled.id, encode_row(row)) for row in extraction.rows]
                    rejected += extraction.rejected
        except PageTooDeep as error:
            raise UnreadablePage(str(error)) from error
        new = links if job.links_stale else self._seen_set.filter_new(links)
        children: dict[bytes, ChildJob] = {}
        self._add_children(job, new, children)
        return PageExtraction(tuple(rows), tuple(children.values()), tuple(rejected), damaged)

    async def _children_in_steps(self, job: LeasedJob, columns: wire.LinkColumns) -> tuple[ChildJob, ...]:
        links = columns.to_links(None if job.links_stale else self._seen_set.is_new)
        children: dict[bytes, ChildJob] = {}
        for start in range(0, len(links), _CHILDREN_PER_STEP):
            if start:
                await asyncio.sleep(0)
            self._add_children(job, links[start : start + _CHILDREN_PER_STEP], children)
        return tuple(children.values())

    def _add_children(self, job: LeasedJob, links: Sequence[ExtractedLink], children: dict[bytes, ChildJob]) -> None:
        """Add the links that become jobs, as far as this node knows; the store drops duplicates."""
        depth = job.depth + 1
        for link in links:
            identity = link.key
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
                link.priority,
                identity,
            )


def _is_cheap(body: bytes, data_defs: Sequence[CompiledDataDef]) -> bool:
    """Whether no content of this body can hold the fetch loop for long."""
    if len(body) > MAX_INLINE_BYTES:
        return False
    tags = body.count(b"<")
    if tags <= MAX_INLINE_DEPTH:
        return True
    if tags > MAX_COSTLY_TAGS and any(data_def.extractor.costly for data_def in data_defs):
        return False
    return not exceeds_depth(body.lower(), MAX_INLINE_DEPTH)
