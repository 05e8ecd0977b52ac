"""Extracts a page: decodes it, parses it once, applies every dataDef, and turns links into child jobs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

from engine import urls
from engine.extract.context import Context
from engine.extract.page import Page, PageTooDeep
from engine.fetch.decode import decode
from engine.model.definition import TaskGroup
from engine.model.job import LeasedJob
from engine.model.record import ExtractedLink, Rejection
from engine.node.def_cache import DefCache
from engine.node.heap_trimmer import HeapTrimmer
from engine.node.seen_set import SeenSet
from engine.store.transactions.outcome import ChildJob, ExtractedRow


class UnreadablePage(Exception):
    """The page cannot be extracted at all; the text says why, and what the user may do."""


class UnsupportedContent(Exception):
    """The body is not text, such as an image or an archive; the text names its type."""


@dataclass(frozen=True, slots=True)
class PageExtraction:
    """The results of all dataDefs of a group on one page."""

    rows: tuple[ExtractedRow, ...]
    children: tuple[ChildJob, ...]
    rejected: tuple[Rejection, ...]
    damaged: int
    """Number of bytes that are invalid in the page's encoding, and were replaced."""

    def rejected_counts(self) -> tuple[tuple[str, int], ...]:
        """Rejected records by dataDef."""
        return tuple(Counter(rejection.data_def for rejection in self.rejected).items())


class PageExtractor:
    """Extracts pages for one node; callable from several threads."""

    def __init__(
        self, *, def_cache: DefCache, seen_set: SeenSet, heap_trimmer: HeapTrimmer, run: str, run_time: str
    ) -> None:
        self._def_cache = def_cache
        self._seen_set = seen_set
        self._heap_trimmer = heap_trimmer
        self._run = run
        self._run_time = run_time

    def extract(
        self, job: LeasedJob, *, body: bytes, content_type: str, url: str, status: int, fetched_at: float
    ) -> PageExtraction:
        """Extract a page. Raises UnsupportedContent or UnreadablePage."""
        try:
            return self._extract(job, body, content_type, url, status, fetched_at)
        finally:
            self._heap_trimmer.record_page(len(body))

    def _extract(
        self, job: LeasedJob, body: bytes, content_type: str, url: str, status: int, fetched_at: float
    ) -> PageExtraction:
        page, damaged = parse_page(body, content_type, url=url, status=status, fetched_at=fetched_at)
        rule = self._def_cache.host_rule(job.defs_version, urls.host_key(url))
        context = Context(
            group=job.group,
            locator=job.locator,
            locator_url=job.locator_url,
            depth=job.depth,
            run=self._run,
            run_time=self._run_time,
            nofollow=rule.nofollow,
        )
        rows: list[ExtractedRow] = []
        links: list[ExtractedLink] = []
        rejected: list[Rejection] = []
        try:
            for compiled in self._def_cache.compiled_data_defs(job):
                unchanged = compiled.id in job.extracted_with  # a re-extraction: its rows stay as they are
                if unchanged and not job.links_stale:
                    continue
                extraction = compiled.extractor.extract(page, context)
                links += extraction.links
                if not unchanged:
                    rows += [ExtractedRow(compiled.data_def, compiled.id, encode_row(row)) for row in extraction.rows]
                    rejected += extraction.rejected
        except PageTooDeep as error:
            raise UnreadablePage(str(error)) from error
        return PageExtraction(tuple(rows), self._children(job, links), tuple(rejected), damaged)

    def unchanged_data_defs(self, job: LeasedJob) -> tuple[int, ...]:
        """For a re-extraction: ids of the dataDefs whose rows stay as they are."""
        compiled = self._def_cache.compiled_data_defs(job)
        return tuple(data_def.id for data_def in compiled if data_def.id in job.extracted_with)

    def _children(self, job: LeasedJob, links: Sequence[ExtractedLink]) -> tuple[ChildJob, ...]:
        """The links that become jobs, as far as this node knows; the store drops duplicates."""
        depth = job.depth + 1
        children: dict[bytes, ChildJob] = {}
        for link in links if job.links_stale else self._seen_set.filter_new(links):
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
        return tuple(children.values())


def parse_page(body: bytes, content_type: str, *, url: str, status: int, fetched_at: float) -> tuple[Page, int]:
    """The page of a body, and the number of its bytes that were invalid and replaced. Raises UnsupportedContent."""
    document = decode(body, content_type)
    if document.kind == "binary":
        raise UnsupportedContent(content_type.partition(";")[0].strip() or "unknown type")
    page = Page(url=url, text=document.text, kind=document.kind, status=status, fetched_at=fetched_at)
    return page, document.damaged


def within_depth(link: ExtractedLink, depth: int, group: TaskGroup) -> bool:
    """Whether a page at that depth (links from its locator) is within the limits of the link and of its group."""
    return all(limit is None or depth <= limit for limit in (link.max_depth, group.max_depth))


def encode_row(row: Any) -> str:
    """A row as stored JSON: decimals become numbers with all their digits."""
    try:
        return orjson.dumps(row, default=_encode_decimal).decode()
    except TypeError:
        return orjson.dumps(_make_encodable(row), default=_encode_decimal).decode()


def _encode_decimal(value: Any) -> Any:
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    raise TypeError(type(value).__name__)


def _make_encodable(value: Any) -> Any:
    """The value with huge integers and lone surrogates replaced by what the encoder can write."""
    if isinstance(value, dict):
        return {str(_make_encodable(key)): _make_encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_encodable(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return orjson.Fragment(str(value))
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value
