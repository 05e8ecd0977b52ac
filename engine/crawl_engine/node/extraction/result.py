"""The result of a page or a sitemap, in an extraction process, on its way, and in the node."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice, repeat
from operator import attrgetter, methodcaller
from typing import Annotated

from msgspec import Meta, Struct, field

from crawl_engine.extract.documents.sitemap import SitemapEntries
from crawl_engine.model.job import KEY_BYTES
from crawl_engine.model.link import LinkDetails
from crawl_engine.model.record import (
    Count,
    ExtractedLink,
    PageWarning,
    RecordCounts,
    RejectedCount,
    Rejection,
    Texts,
    as_text,
)
from crawl_engine.model.step import StepResult
from crawl_engine.node.lines import Lines, PackedTexts, pack_lines, unpacked_size
from crawl_engine.node.rules import RuleParts

MAX_INTEGER = 2**63 - 1
MAX_SITEMAP_URLS = 50_000
"""The limit of the sitemap protocol."""
_MAX_REJECTION_TEXT = 300
_LAST_SECOND = 253_402_300_800
"""Of the year 9999."""
_OBJECT_START, _OBJECT_END = "{", "}"
_LINKS_PER_STEP = 1_000
"""Links whose keys are compared at once."""
_shared_by_run = attrgetter("group", "priority", "max_depth", "may_leave_host")
_has_scheme = methodcaller("startswith", ("http://", "https://", "file:///"))
_Integer = Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]
"""A number that SQLite can store."""
_LinkRun = tuple[Count, str, _Integer, _Integer | None, bool]


class AnswerTooLarge(Exception):
    """The result of a document takes more bytes than an answer may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"what it gives is larger than {limit / 1e6:,.0f} MB")


class LinkColumns(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Links of a page as columns. `runs`: how many in a row share group, priority, depth and `may_leave_host`.

    `details`: one line a link, empty for most; no lines if all links are plain.
    """

    urls: PackedTexts = ()
    keys: bytes = b""
    runs: tuple[_LinkRun, ...] = ()
    details: PackedTexts = ()

    @classmethod
    def from_links(cls, links: Sequence[ExtractedLink]) -> "LinkColumns":
        details: PackedTexts = ()
        if any(link.details is not None for link in links):
            details = pack_lines([link.details.to_line() if link.details else "" for link in links])
        return cls(
            urls=pack_lines(tuple([link.url for link in links])),
            keys=b"".join([link.key for link in links]),
            runs=tuple([(len(list(run)), *shared) for shared, run in groupby(links, _shared_by_run)]),
            details=details,
        )

    def __len__(self) -> int:
        return len(self.urls)

    def __iter__(self) -> Iterator[ExtractedLink]:
        return self.list_new(None)

    def list_new(self, is_new: Callable[[bytes], bool] | None) -> Iterator[ExtractedLink]:
        """The links whose key `is_new`, and all that concern known jobs; with None, all links."""
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
                    if key in new or (details is not None and details.concerns_known_job):
                        yield ExtractedLink(as_text(url), group, priority, max_depth, key, may_leave_host, details)

    def check(self) -> None:
        """Raise ValueError or TypeError if they are not the links of a page."""
        total = sum([run[0] for run in self.runs])
        if not len(self.urls) == total == len(self.keys) / KEY_BYTES or len(self.details) not in (0, total):
            raise ValueError("sizes do not add up")
        _check_links(self.urls, self.details)

    def _keys_of(self, start: int, count: int) -> list[bytes]:
        keys = self.keys[start * KEY_BYTES : (start + count) * KEY_BYTES]
        return [keys[at : at + KEY_BYTES] for at in range(0, len(keys), KEY_BYTES)]


class PageResult(Struct, kw_only=True, omit_defaults=True, tag="page"):
    """What the dataDefs of a page gave. An index is that of a dataDef in the order in which they were asked for."""

    page_kind: str
    damaged: Count = 0
    """Bytes that are invalid in the page's encoding, and were replaced."""
    rows: tuple[tuple[Count, PackedTexts], ...] = ()
    """Rows as JSON objects, by index."""
    links: LinkColumns | tuple[ExtractedLink, ...] = ()
    """In columns where they crossed processes."""
    dropped_links: Count = 0
    """Links beyond the limit of a page."""
    rejected: tuple[Rejection, ...] = ()
    """The rejected records; only the first ones where they crossed processes."""
    rejected_counts: tuple[RejectedCount, ...] = ()
    """The number of all rejected records, by dataDef, field and code."""
    filtered: Count = 0
    """Records that a filter dropped, also where `counts` are left out."""
    counts: tuple[tuple[Count, RecordCounts], ...] = ()
    """How the records were filled, by index."""
    results: tuple[tuple[Count, StepResult], ...] = ()
    """Results of plugin steps, and of parsers that failed, by index."""
    stops: tuple[tuple[Count, Count], ...] = ()
    """Those whose rows a command works on next: their index, and the command's index in the chain."""
    faults: tuple[str, ...] = ()
    """Parts of the page that were skipped because they cannot be read."""
    warnings: tuple[PageWarning, ...] = ()
    signs: tuple[PageWarning, ...] = ()
    """What parts of the dataDefs gave, for the end of the run."""
    parts: RuleParts = field(default_factory=RuleParts)
    """What the rules of the page found."""

    @property
    def lacks_rows(self) -> bool:
        """Whether a record lacks a required field, or there is no record."""
        return bool(self.rejected or not any(texts for _, texts in self.rows))

    def pack(self, max_rejections: int, *, max_bytes: int = MAX_INTEGER, max_rows_bytes: int = MAX_INTEGER) -> None:
        """Make it small, to be sent. Rows and URLs hold no line feed: JSON and URLs escape it.

        Raises AnswerTooLarge if rows and links take more than `max_bytes`, or rows alone more than `max_rows_bytes`.
        """
        self.rows = tuple([(index, pack_lines(texts)) for index, texts in self.rows])
        self.links = links = LinkColumns.from_links(tuple(self.links))
        self.rejected = tuple([_cut(rejection) for rejection in self.rejected[:max_rejections]])
        size = sum([unpacked_size(texts) for _, texts in self.rows])
        if size > max_rows_bytes:
            raise AnswerTooLarge(max_rows_bytes)
        if size + unpacked_size(links.urls) + unpacked_size(links.details) + len(links.keys) > max_bytes:
            raise AnswerTooLarge(max_bytes)

    def check(self, max_bytes: int) -> None:
        """Raise ValueError or TypeError unless it is valid, of packed form, and unpacks to at most `max_bytes`."""
        if not isinstance(self.links, LinkColumns):
            raise TypeError("links are not in columns")
        rows = [texts for _, texts in self.rows]
        check_lines([*rows, self.links.urls, self.links.details], max_bytes)
        if not all(_is_object(row) for texts in rows for row in texts):
            raise ValueError("a row is not an object")
        self.links.check()


class SitemapResult(Struct, frozen=True, kw_only=True, tag="sitemap"):
    """The URLs of a sitemap, as written: of pages, and of nested sitemaps."""

    pages: PackedTexts
    sitemaps: PackedTexts = ()
    dropped: Count = 0
    """How many more it has than the protocol allows."""
    modified: tuple[Annotated[int, Meta(ge=0, le=_LAST_SECOND)], ...] = ()
    """The second in which each page was last modified, 0: unknown. Empty: not asked for."""
    values: PackedTexts = ()
    """What the entry of each page says: a JSON object of texts by name. Empty: nothing was asked for."""
    is_cut_short: bool = False
    """Whether the document ends too early."""

    @classmethod
    def from_entries(cls, entries: SitemapEntries, dropped: int = 0) -> "SitemapResult":
        return cls(
            pages=pack_lines(entries.pages), sitemaps=pack_lines(entries.sitemaps), dropped=dropped,
            modified=tuple(entries.modified), values=pack_lines(entries.values), is_cut_short=entries.is_cut_short,
        )  # fmt: skip

    def check(self, max_bytes: int) -> None:
        """Raise ValueError unless it is valid and unpacks to at most `max_bytes`."""
        check_lines([self.pages, self.sitemaps, self.values], max_bytes)
        if len(self.values) not in (0, len(self.pages)):
            raise ValueError("not the values of the pages")
        if len(self.pages) + len(self.sitemaps) > MAX_SITEMAP_URLS:
            raise ValueError("too many URLs")
        if self.modified and len(self.modified) != len(self.pages):
            raise ValueError("not the moments of the pages")


def check_lines(parts: Sequence[PackedTexts], max_bytes: int) -> None:
    """Raise ValueError unless all these texts can be read, and are at most so many bytes."""
    packed = [part for part in parts if isinstance(part, Lines)]
    if sum([lines.size for lines in packed]) > max_bytes:
        raise ValueError("it is too large")
    for lines in packed:
        lines.check()


def count_rejections(rejected: Sequence[Rejection]) -> tuple[RejectedCount, ...]:
    """The number of rejected records, by dataDef, field and code."""
    if not rejected:
        return ()
    counts = Counter([(one.data_def, one.field, one.code) for one in rejected])
    return tuple([RejectedCount(name, count, field, code) for (name, field, code), count in counts.items()])


def _check_links(urls: Texts, details: Texts) -> None:
    if not all(map(_has_scheme, map(as_text, urls))):
        raise ValueError("a link is neither http nor a file")
    for line in details:
        if line:
            LinkDetails.from_line(as_text(line))


def _cut(rejection: Rejection) -> Rejection:
    return Rejection(
        data_def=rejection.data_def, field=rejection.field, code=rejection.code,
        reason=rejection.reason[:_MAX_REJECTION_TEXT], place=rejection.place[:_MAX_REJECTION_TEXT],
    )  # fmt: skip


def _is_object(row: str | memoryview) -> bool:
    if isinstance(row, str):
        return row.startswith(_OBJECT_START) and row.endswith(_OBJECT_END)
    return row[0] == ord(_OBJECT_START) and row[-1] == ord(_OBJECT_END)
