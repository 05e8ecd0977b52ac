"""Messages between a node and its extraction processes: a JSON header and raw bytes, never pickles.

A process that ran hostile input is not trusted: an answer of any unexpected form is `InvalidAnswer`.
"""

import json
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice, repeat
from operator import attrgetter, methodcaller
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from engine.extract.select.selection import SelectionResult
from engine.model.job import KEY_BYTES
from engine.model.link import LinkDetails, PageBlocks
from engine.model.record import Count, ExtractedLink, PageWarning, RecordCounts, Rejection, Texts, as_text
from engine.model.step import StepResult
from engine.node.extraction.page_extraction import ExtractedPage
from engine.node.extraction.task import SHOWN_REJECTIONS
from engine.node.lines import pack_lines, read_lines
from engine.processes.frames import InvalidAnswer, encode_frame

MAX_INTEGER = 2**63 - 1
_Integer = Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]
"""A number that SQLite can store."""
_LinkRun = tuple[Count, str, _Integer, _Integer | None, bool]
_PackedSize = tuple[Count, Count]
"""Bytes in the message, and after unpacking."""
MAX_KNOWN_DEFS = 8
"""Versions of defs that a process keeps. It drops the oldest one first, and the node keeps the same count."""
MAX_SITEMAP_URLS = 50_000
"""The limit of the sitemap protocol."""
_MAX_REJECTION_TEXT = 300
_SECONDS, _LAST_SECOND = "q", 253_402_300_800
"""Moments are 64-bit integers, up to the year 9999."""
_OBJECT_START, _OBJECT_END = "{", "}"
_LINKS_PER_STEP = 1_000
"""Links whose keys are compared at once."""
_shared_by_run = attrgetter("group", "priority", "max_depth", "may_leave_host")
_has_scheme = methodcaller("startswith", ("http://", "https://", "file:///"))

FailureKind = Literal["unsupported", "unreadable", "memory", "selector", "step", "internal", "unavailable"]


class LinkColumns(Struct, frozen=True, kw_only=True):
    """Links of a page as columns. `runs`: how many in a row share group, priority, depth and `may_leave_host`.

    `details`: one line a link, empty for most; no lines if all links are plain.
    """

    urls: Texts = ()
    keys: bytes | memoryview = b""
    runs: tuple[_LinkRun, ...] = ()
    details: Texts = ()

    def to_links(self, is_new: Callable[[bytes], bool] | None = None) -> Iterator[ExtractedLink]:
        """The links whose key `is_new`, and all that carry values; without `is_new`, all links."""
        urls, lines = iter(self.urls), iter(self.details or repeat(""))
        at = 0
        for count, group, priority, max_depth, may_leave_host in self.runs:
            for left in range(count, 0, -_LINKS_PER_STEP):
                step = min(left, _LINKS_PER_STEP)
                keys = self._keys_of(at, step)
                at += step
                new = set(keys if is_new is None else filter(is_new, keys))
                if not new and not self.details:  # most links of most pages are known: skip their URLs
                    deque(islice(urls, step), maxlen=0)
                    continue
                for key, url, line in zip(keys, islice(urls, step), lines, strict=False):
                    if key not in new and not line:
                        continue
                    details = LinkDetails.from_line(as_text(line)) if line else None
                    if key in new or (details is not None and details.carried is not None):
                        yield ExtractedLink(as_text(url), group, priority, max_depth, key, may_leave_host, details)

    def _keys_of(self, start: int, count: int) -> list[bytes]:
        keys = bytes(self.keys[start * KEY_BYTES : (start + count) * KEY_BYTES])
        return [keys[at : at + KEY_BYTES] for at in range(0, len(keys), KEY_BYTES)]


class AnswerTooLarge(Exception):
    """The result of a document takes more bytes than an answer may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"what it gives is larger than {limit / 1e6:,.0f} MB")


class Failure(Struct, frozen=True, kw_only=True, tag="failure"):
    """Why a document could not be worked; the process itself is alive."""

    kind: FailureKind
    reason: str
    unit: Count | None = None
    """The unit in whose plugin code it happened, by index in the task."""
    step: Count = 0
    """That step's index in its chain."""


class NodeCallRequest(Struct, frozen=True, kw_only=True, tag="call"):
    """A question of plugin code to the node, in the middle of a page."""

    call: str
    key: str
    value: Any


class _PageFields(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the dataDefs of a task gave on its page, besides rows and links."""

    page_kind: str
    damaged: Count
    dropped_links: Count
    rejected: tuple[Rejection, ...]
    """The first rejected records."""
    rejected_counts: tuple[tuple[str, Count], ...]
    """The number of all rejected records, by dataDef."""
    filtered: Count
    counts: tuple[tuple[Count, RecordCounts], ...]
    """How the records were filled, by index of their dataDef in the task."""
    noindex: bool
    results: tuple[tuple[Count, StepResult], ...] = ()
    """Results of plugin steps, by index of their unit."""
    stops: tuple[tuple[Count, Count], ...] = ()
    """Units whose rows a command works on next: their index, and the command's index in the chain."""
    faults: tuple[str, ...] = ()
    """Parts of the page that were skipped because they cannot be read."""
    warnings: tuple[PageWarning, ...] = ()
    blocks: PageBlocks | None = None
    """Blocks of a page in a series that ends with an empty page."""
    replaced_by: str = ""
    """As in `ExtractedPage`."""
    refresh_to: str = ""
    """As in `ExtractedPage`."""
    digest: Annotated[int, Meta(ge=0, le=MAX_INTEGER)] = 0
    """As in `ExtractedPage`."""


class PageAnswer(_PageFields, frozen=True, kw_only=True):
    """The results of the dataDefs of a task on its page."""

    rows: tuple[tuple[int, Texts], ...]
    """Rows as JSON objects, by index of their dataDef in the task."""
    links: LinkColumns


class _PageHeader(_PageFields, frozen=True, kw_only=True, tag="page"):
    """Its rows and links are the body: packed lines of rows, URLs and details, then keys."""

    rows: tuple[tuple[Count, Count, Count, Count], ...]
    """The index of a dataDef, its number of rows, their bytes in the message, and those after unpacking."""
    links: tuple[_LinkRun, ...]
    urls: _PackedSize
    details: _PackedSize | None = None


class SitemapAnswer(Struct, frozen=True, kw_only=True):
    """The URLs of a sitemap, as written: of pages, and of nested sitemaps; `dropped` more were left out."""

    pages: Texts
    sitemaps: Texts
    dropped: int
    modified: Sequence[int] = ()
    """The second in which each page was last modified, 0: unknown. Empty: not asked for."""
    is_cut_short: bool = False
    """Whether the document ends too early."""


class _SitemapHeader(Struct, frozen=True, kw_only=True, tag="sitemap"):
    """Its body: packed lines of pages and of nested sitemaps, then moments."""

    pages: Count
    nested: Count
    dropped: Count
    sizes: tuple[Count, Count, Count]
    """Bytes of the pages in the message, of the pages after unpacking, of the nested sitemaps after unpacking."""
    modified: Count
    is_cut_short: bool


class RobotsAnswer(Struct, frozen=True, kw_only=True, tag="robots"):
    """The Crawl-delay and the decisions of a robots.txt."""

    crawl_delay: Annotated[float, Meta(ge=0)]
    rules: tuple[str | None, ...]
    """By URL, the rule that disallows it; None: it is allowed."""


Result = PageAnswer | SitemapAnswer | RobotsAnswer | SelectionResult
Answer = Result | Failure | NodeCallRequest
_Header = _PageHeader | _SitemapHeader | RobotsAnswer | SelectionResult | Failure | NodeCallRequest
_decoder: msgspec.json.Decoder[_Header] = msgspec.json.Decoder(_Header)


def count_rejections(rejected: Sequence[Rejection]) -> tuple[tuple[str, int], ...]:
    """The number of rejected records, by dataDef."""
    if not rejected:
        return ()
    return tuple(Counter([rejection.data_def for rejection in rejected]).items())


def encode(header: _Header, body: bytes = b"") -> list[bytes]:
    """A message. Lone surrogates, which cannot be sent, become `?`."""
    try:
        return encode_frame(msgspec.json.encode(header), body)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(header), ensure_ascii=False)
        return encode_frame(text.encode("utf-8", "replace"), body)


def encode_page(
    page_kind: str,
    damaged: int,
    extracted: ExtractedPage,
    max_rejections: int = SHOWN_REJECTIONS,
    *,
    max_bytes: int = MAX_INTEGER,
    max_rows_bytes: int = MAX_INTEGER,
) -> list[bytes]:
    """The message with the results of a page. Rows and URLs hold no line feed: JSON and URLs escape it.

    Raises AnswerTooLarge if rows and links take more than `max_bytes`, or rows alone more than `max_rows_bytes`.
    """
    rows = [(index, len(texts), *pack_lines(texts)) for index, texts in extracted.rows]
    links = extracted.links
    urls, urls_size = pack_lines([link.url for link in links])
    details, details_size = b"", 0
    if any(link.details is not None for link in links):
        details, details_size = pack_lines([link.details.to_line() if link.details else "" for link in links])
    keys = b"".join([link.key for link in links])
    rows_bytes = sum([row[-1] for row in rows])
    if rows_bytes > max_rows_bytes:
        raise AnswerTooLarge(max_rows_bytes)
    if rows_bytes + urls_size + details_size + len(keys) > max_bytes:
        raise AnswerTooLarge(max_bytes)
    header = _PageHeader(
        page_kind=page_kind,
        damaged=damaged,
        rows=tuple([(index, count, len(packed), size) for index, count, packed, size in rows]),
        links=_runs_of(links),
        urls=(len(urls), urls_size),
        details=(len(details), details_size) if details else None,
        dropped_links=extracted.dropped_links,
        rejected=tuple([_cut(rejection) for rejection in extracted.rejected[:max_rejections]]),
        rejected_counts=count_rejections(extracted.rejected),
        filtered=extracted.filtered,
        counts=tuple(extracted.counts),
        noindex=extracted.noindex,
        results=tuple(extracted.results),
        stops=tuple(extracted.stops),
        faults=tuple(extracted.faults),
        warnings=tuple(extracted.warnings),
        blocks=extracted.blocks,
        replaced_by=extracted.replaced_by,
        refresh_to=extracted.refresh_to,
        digest=extracted.digest,
    )
    return encode(header, b"".join((*[packed for _, _, packed, _ in rows], urls, details, keys)))


def encode_sitemap(answer: SitemapAnswer, *, max_bytes: int = MAX_INTEGER) -> list[bytes]:
    """The message of an answer. Raises AnswerTooLarge."""
    pages, size = pack_lines(answer.pages)
    nested, nested_size = pack_lines(answer.sitemaps)
    modified = array(_SECONDS, answer.modified).tobytes()
    if size + nested_size + len(modified) > max_bytes:
        raise AnswerTooLarge(max_bytes)
    header = _SitemapHeader(
        pages=len(answer.pages), nested=len(answer.sitemaps), dropped=answer.dropped,
        sizes=(len(pages), size, nested_size), modified=len(answer.modified), is_cut_short=answer.is_cut_short,
    )  # fmt: skip
    return encode(header, pages + nested + modified)


def decode_answer(header: bytes | memoryview, body: memoryview, max_bytes: int = MAX_INTEGER) -> Answer:
    """The answer of a message that may unpack to `max_bytes`. Raises only InvalidAnswer."""
    try:
        decoded = _decoder.decode(header)
        if isinstance(decoded, _PageHeader):
            return _read_page(decoded, body, max_bytes)
        if isinstance(decoded, _SitemapHeader):
            return _read_sitemap(decoded, body, max_bytes)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise InvalidAnswer(f"{type(error).__name__}: {error}"[:200]) from error
    if isinstance(decoded, Failure) and decoded.kind == "unavailable":
        raise InvalidAnswer("a process that answers is available")
    return decoded


def _read_page(header: _PageHeader, body: memoryview, max_bytes: int) -> PageAnswer:
    sizes = (row[-1] for row in (*header.rows, header.urls, header.details or (0, 0)))
    if sum(sizes) > max_bytes:
        raise ValueError("it is too large")
    rows, start = list[tuple[int, Texts]](), 0
    for index, count, packed, size in header.rows:
        texts = read_lines(body[start : start + packed], count, size)
        if not all(map(_is_object, texts)):
            raise ValueError("a row is not an object")
        rows.append((index, texts))
        start += packed
    fields = {name: getattr(header, name) for name in _PageFields.__struct_fields__}
    return PageAnswer(rows=tuple(rows), links=_read_links(header, body[start:]), **fields)


def _read_links(header: _PageHeader, body: memoryview) -> LinkColumns:
    packed_urls, urls_size = header.urls
    packed_details, details_size = header.details or (0, 0)
    total = sum(run[0] for run in header.links)
    if len(body) != packed_urls + packed_details + total * KEY_BYTES:
        raise ValueError("sizes do not add up")
    urls = read_lines(body[:packed_urls], total, urls_size)
    if not all(map(_has_scheme, urls if isinstance(urls, tuple) else map(as_text, urls))):
        raise ValueError("a link is neither http nor a file")
    details: Texts = ()
    if packed_details:
        details = read_lines(body[packed_urls : packed_urls + packed_details], total, details_size)
        for line in details:
            if line:
                LinkDetails.from_line(as_text(line))
    keys = body[packed_urls + packed_details :]
    return LinkColumns(
        urls=urls, keys=bytes(keys) if isinstance(urls, tuple) else keys, runs=header.links, details=details
    )


def _read_sitemap(header: _SitemapHeader, body: memoryview, max_bytes: int) -> SitemapAnswer:
    if header.pages + header.nested > MAX_SITEMAP_URLS:
        raise ValueError("too many URLs")
    packed, pages_size, nested_size = header.sizes
    modified = array(_SECONDS)
    end = len(body) - header.modified * modified.itemsize
    if pages_size + nested_size + len(body) - end > max_bytes:
        raise ValueError("it is too large")
    if end < packed:
        raise ValueError("sizes do not add up")
    modified.frombytes(body[end:])
    if modified and (len(modified) != header.pages or min(modified) < 0 or max(modified) > _LAST_SECOND):
        raise ValueError("not the moments of the pages")
    return SitemapAnswer(
        pages=read_lines(body[:packed], header.pages, pages_size),
        sitemaps=read_lines(body[packed:end], header.nested, nested_size),
        dropped=header.dropped,
        modified=modified or (),
        is_cut_short=header.is_cut_short,
    )


def _runs_of(links: Sequence[ExtractedLink]) -> tuple[_LinkRun, ...]:
    return tuple([(len(list(run)), *shared) for shared, run in groupby(links, _shared_by_run)])


def _cut(rejection: Rejection) -> Rejection:
    return Rejection(
        data_def=rejection.data_def, field=rejection.field,
        reason=rejection.reason[:_MAX_REJECTION_TEXT], place=rejection.place[:_MAX_REJECTION_TEXT],
    )  # fmt: skip


def _is_object(row: str | memoryview) -> bool:
    if isinstance(row, str):
        return row.startswith(_OBJECT_START) and row.endswith(_OBJECT_END)
    return row[0] == ord(_OBJECT_START) and row[-1] == ord(_OBJECT_END)
