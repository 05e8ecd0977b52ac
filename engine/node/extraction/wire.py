"""Messages between a node and its extraction processes: a JSON header and raw bytes, never pickles.

A process that ran hostile input is not trusted: an answer of any unexpected form is `InvalidAnswer`.
"""

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, repeat
from operator import methodcaller
from typing import Any, Literal

import orjson
from msgspec import Struct

from engine.extract.select.selection import SelectionResult, result_from_fields
from engine.model.job import KEY_BYTES
from engine.model.link import LinkDetails, PageBlocks
from engine.model.record import ExtractedLink, RecordCounts, Rejection, Texts, as_text
from engine.model.step import OUTCOMES, StepResult
from engine.node.extraction.page_extraction import ExtractedPage
from engine.node.extraction.task import SHOWN_REJECTIONS
from engine.node.lines import pack_lines, read_lines
from engine.processes.frames import encode_frame

MAX_INTEGER = 2**63 - 1


def count_of(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise ValueError("not a count")
    return value


def integer_of(value: Any) -> int:
    """Accepts a number that SQLite can store."""
    if type(value) is not int or not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise ValueError("not an integer")
    return value


def text_of(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("not a text")
    return value


def one_of(value: Any, allowed: Sequence[Any]) -> Any:
    if value not in allowed:
        raise ValueError("not a known word")
    return value


_LINKS_PER_STEP = 1_000
"""Links whose keys are compared at once."""
_has_scheme = methodcaller("startswith", ("http://", "https://", "file:///"))


class LinkColumns(Struct, frozen=True, kw_only=True):
    """Links of a page as columns. `runs`: how many in a row share group, priority, depth and `may_leave_host`.

    `details`: one line a link, empty for most; no lines if all links are plain.
    """

    urls: Texts = ()
    keys: bytes | memoryview = b""
    runs: tuple[tuple[int, str, int, int | None, bool], ...] = ()
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


class PackedLinks(Struct, frozen=True):
    """Links as a message holds them: fields of its header, and bytes behind it."""

    fields: dict[str, Any]
    parts: tuple[bytes, ...]
    size: int
    """Bytes after unpacking."""


def pack_links(links: Sequence[ExtractedLink]) -> PackedLinks:
    urls, urls_size = pack_lines([link.url for link in links])
    details, details_size = b"", 0
    if any(link.details is not None for link in links):
        details, details_size = pack_lines([link.details.to_line() if link.details else "" for link in links])
    runs: list[list[Any]] = []
    for link in links:
        run = [link.group, link.priority, link.max_depth, link.may_leave_host]
        if runs and runs[-1][1:] == run:
            runs[-1][0] += 1
        else:
            runs.append([1, *run])
    fields = {"links": runs, "urls": (len(urls), urls_size)}
    if details:
        fields["details"] = (len(details), details_size)
    keys = b"".join([link.key for link in links])
    return PackedLinks(fields, (urls, details, keys), urls_size + details_size + len(keys))


def links_size(fields: dict[str, Any]) -> int:
    """The size of URLs and details according to a message. Raises ValueError."""
    return count_of(fields["urls"][1]) + count_of(fields.get("details", (0, 0))[1])


def unpack_links(fields: dict[str, Any], body: memoryview) -> LinkColumns:
    """The links of a message. Raises ValueError, TypeError or LookupError if it is invalid."""
    runs = tuple(
        (
            count_of(count), text_of(group), integer_of(priority),
            None if depth is None else integer_of(depth), leaves is True,
        )
        for count, group, priority, depth, leaves in fields["links"]
    )  # fmt: skip
    packed_urls, urls_size = map(count_of, fields["urls"])
    packed_details, details_size = map(count_of, fields.get("details", (0, 0)))
    total = sum(run[0] for run in runs)
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
    return LinkColumns(urls=urls, keys=bytes(keys) if isinstance(urls, tuple) else keys, runs=runs, details=details)


MAX_KNOWN_DEFS = 8
"""Versions of defs that a process keeps. It drops the oldest one first, and the node keeps the same count."""
MAX_SITEMAP_URLS = 50_000
"""The limit of the sitemap protocol."""
_MAX_REJECTION_TEXT = 300
_SECONDS, _LAST_SECOND = "q", 253_402_300_800
"""Moments are 64-bit integers, up to the year 9999."""
_OBJECT_START, _OBJECT_END = "{", "}"

FailureKind = Literal["unsupported", "unreadable", "memory", "selector", "step", "internal", "unavailable"]
_FAILURE_KINDS = ("unsupported", "unreadable", "memory", "selector", "step", "internal")


class AnswerTooLarge(Exception):
    """The result of a document takes more bytes than an answer may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"what it gives is larger than {limit / 1e6:,.0f} MB")


class InvalidAnswer(Exception):
    """An extraction process sent an invalid answer: it counts as dead."""


class Failure(Struct, frozen=True, kw_only=True):
    """Why a document could not be worked; the process itself is alive."""

    kind: FailureKind
    reason: str
    unit: int | None = None
    """The unit in whose plugin code it happened, by index in the task."""
    step: int = 0
    """That step's index in its chain."""


class NodeCallRequest(Struct, frozen=True, kw_only=True):
    """A question of plugin code to the node, in the middle of a page."""

    call: str
    key: str
    value: Any


class PageAnswer(Struct, frozen=True, kw_only=True):
    """The results of the dataDefs of a task on its page."""

    page_kind: str
    damaged: int
    rows: tuple[tuple[int, Texts], ...]
    """Rows as JSON objects, by index of their dataDef in the task."""
    links: LinkColumns
    dropped_links: int
    rejected: tuple[Rejection, ...]
    """The first rejected records."""
    rejected_counts: tuple[tuple[str, int], ...]
    """The number of all rejected records, by dataDef."""
    filtered: int
    counts: tuple[tuple[int, RecordCounts], ...]
    """How the records were filled, by index of their dataDef in the task."""
    noindex: bool
    results: tuple[tuple[int, StepResult], ...] = ()
    """Results of plugin steps, by index of their unit."""
    stops: tuple[tuple[int, int], ...] = ()
    """Units whose rows a command works on next: their index, and the command's index in the chain."""
    faults: tuple[str, ...] = ()
    """Parts of the page that were skipped because they cannot be read."""
    blocks: PageBlocks | None = None
    """Blocks of a page in a series that ends with an empty page."""
    replaced_by: str = ""
    """As in `ExtractedPage`."""


class SitemapAnswer(Struct, frozen=True, kw_only=True):
    """The URLs of a sitemap, as written: of pages, and of nested sitemaps; `dropped` more were left out."""

    pages: Texts
    sitemaps: Texts
    dropped: int
    modified: Sequence[int] = ()
    """The second in which each page was last modified, 0: unknown. Empty: not asked for."""
    is_cut_short: bool = False
    """Whether the document ends too early."""


class RobotsAnswer(Struct, frozen=True, kw_only=True):
    """The Crawl-delay and the decisions of a robots.txt."""

    crawl_delay: float
    rules: tuple[str | None, ...]
    """By URL, the rule that disallows it; None: it is allowed."""


Result = PageAnswer | SitemapAnswer | RobotsAnswer | SelectionResult
Answer = Result | Failure | NodeCallRequest


def count_rejections(rejected: Sequence[Rejection]) -> tuple[tuple[str, int], ...]:
    """The number of rejected records, by dataDef."""
    if not rejected:
        return ()
    return tuple(Counter([rejection.data_def for rejection in rejected]).items())


def encode_failure(failure: Failure) -> list[bytes]:
    place = (failure.unit, failure.step)
    return encode_frame({"failed": failure.kind, "reason": _clean(failure.reason), "place": place})


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
    links = pack_links(extracted.links)
    rows_bytes = sum([row[-1] for row in rows])
    if rows_bytes > max_rows_bytes:
        raise AnswerTooLarge(max_rows_bytes)
    if rows_bytes + links.size > max_bytes:
        raise AnswerTooLarge(max_bytes)
    header = {
        "page": page_kind,
        "damaged": damaged,
        "rows": [(index, count, len(packed), size) for index, count, packed, size in rows],
        "dropped_links": extracted.dropped_links,
        "rejected": [
            [r.data_def, r.field, *(_clean(text[:_MAX_REJECTION_TEXT]) for text in (r.reason, r.place))]
            for r in extracted.rejected[:max_rejections]
        ],
        "rejected_counts": count_rejections(extracted.rejected),
        "filtered": extracted.filtered,
        "counts": [(index, [*counts]) for index, counts in extracted.counts],
        "noindex": extracted.noindex,
        **links.fields,
    }
    if extracted.results or extracted.stops:
        header["results"] = [(unit, (*result,)) for unit, result in extracted.results]
        header["stops"] = extracted.stops
    if extracted.faults:
        header["faults"] = [_clean(text) for text in extracted.faults]
    if extracted.blocks is not None:
        header["blocks"] = (*extracted.blocks,)
    if extracted.replaced_by:
        header["replaced_by"] = extracted.replaced_by
    body = b"".join((*[packed for _, _, packed, _ in rows], *links.parts))
    return encode_frame(header, body)


def encode_sitemap(answer: SitemapAnswer, *, max_bytes: int = MAX_INTEGER) -> list[bytes]:
    """The message of an answer. Raises AnswerTooLarge."""
    pages, size = pack_lines(answer.pages)
    nested, nested_size = pack_lines(answer.sitemaps)
    modified = array(_SECONDS, answer.modified).tobytes()
    if size + nested_size + len(modified) > max_bytes:
        raise AnswerTooLarge(max_bytes)
    header = {
        "sitemap": len(answer.pages), "nested": len(answer.sitemaps), "dropped": answer.dropped,
        "sizes": (len(pages), size, nested_size), "modified": len(answer.modified),
        "cut_short": answer.is_cut_short,
    }  # fmt: skip
    return encode_frame(header, pages + nested + modified)


def encode_robots(answer: RobotsAnswer) -> list[bytes]:
    rules = [None if rule is None else _clean(rule) for rule in answer.rules]
    return encode_frame({"robots": rules, "crawl_delay": answer.crawl_delay})


def encode_selection(result: SelectionResult) -> list[bytes]:
    """The message of a result. Lone surrogates cannot be sent."""
    fields = {
        "values": [None if value is None else _clean(value) for value in result.values],
        "links": [_clean(link) for link in result.links],
        "count": result.count,
        "blocks": result.blocks,
        "blocks_without": result.blocks_without,
        "base": _clean(result.base),
    }
    return encode_frame({"selection": fields})


def decode_answer(header: bytes | memoryview, body: memoryview, max_bytes: int = MAX_INTEGER) -> Answer:
    """The answer of a message that may unpack to `max_bytes`. Raises only InvalidAnswer."""
    try:
        fields = orjson.loads(header)
        if "failed" in fields:
            unit, step = fields["place"]
            return Failure(
                kind=one_of(fields["failed"], _FAILURE_KINDS), reason=text_of(fields["reason"]),
                unit=None if unit is None else count_of(unit), step=count_of(step),
            )  # fmt: skip
        if "page" in fields:
            return _decode_page(fields, body, max_bytes)
        if "sitemap" in fields:
            return _decode_sitemap(fields, body, max_bytes)
        if "robots" in fields:
            rules = tuple(None if rule is None else text_of(rule) for rule in fields["robots"])
            return RobotsAnswer(crawl_delay=max(0.0, float(fields["crawl_delay"])), rules=rules)
        if "call" in fields:
            return NodeCallRequest(call=text_of(fields["call"]), key=text_of(fields["key"]), value=fields["value"])
        if "selection" in fields:
            return result_from_fields(fields["selection"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise InvalidAnswer(f"{type(error).__name__}: {error}"[:200]) from error
    raise InvalidAnswer("no known kind")


def _decode_page(fields: dict[str, Any], body: memoryview, max_bytes: int) -> PageAnswer:
    rows, start = list[tuple[int, Texts]](), 0
    if links_size(fields) + sum(count_of(size) for *_, size in fields["rows"]) > max_bytes:
        raise ValueError("it is too large")
    for index, count, packed, size in fields["rows"]:
        texts = read_lines(body[start : start + count_of(packed)], count_of(count), size)
        if not all(map(_is_object, texts)):
            raise ValueError("a row is not an object")
        rows.append((count_of(index), texts))
        start += packed
    blocks = fields.get("blocks")
    return PageAnswer(
        page_kind=text_of(fields["page"]),
        damaged=count_of(fields["damaged"]),
        rows=tuple(rows),
        links=unpack_links(fields, body[start:]),
        dropped_links=count_of(fields["dropped_links"]),
        rejected=tuple(
            Rejection(data_def=text_of(name), field=text_of(field), reason=text_of(reason), place=text_of(place))
            for name, field, reason, place in fields["rejected"]
        ),
        rejected_counts=tuple((text_of(name), count_of(count)) for name, count in fields["rejected_counts"]),
        filtered=count_of(fields["filtered"]),
        counts=tuple((count_of(index), _record_counts(counts)) for index, counts in fields["counts"]),
        noindex=fields["noindex"] is True,
        results=tuple((count_of(index), _step_result(result)) for index, result in fields.get("results", ())),
        stops=tuple((count_of(index), count_of(step)) for index, step in fields.get("stops", ())),
        faults=tuple(map(text_of, fields.get("faults", ()))),
        blocks=None if blocks is None else PageBlocks.from_plain(blocks),
        replaced_by=text_of(fields.get("replaced_by", "")),
    )


def _record_counts(value: Any) -> RecordCounts:
    records, rejected, missing = value
    by_field = tuple((text_of(name), count_of(count)) for name, count in missing)
    return RecordCounts(count_of(records), count_of(rejected), by_field)


def _step_result(value: Any) -> StepResult:
    task, step, outcome, code, milliseconds, text = value
    if type(milliseconds) not in (int, float):
        raise TypeError("not a time")
    return StepResult(
        text_of(task), text_of(step), one_of(outcome, OUTCOMES), text_of(code), float(milliseconds), text_of(text)
    )


def _decode_sitemap(fields: dict[str, Any], body: memoryview, max_bytes: int) -> SitemapAnswer:
    pages, nested = count_of(fields["sitemap"]), count_of(fields["nested"])
    if pages + nested > MAX_SITEMAP_URLS:
        raise ValueError("too many URLs")
    packed, pages_size, nested_size = map(count_of, fields["sizes"])
    modified = array(_SECONDS)
    end = len(body) - count_of(fields["modified"]) * modified.itemsize
    if pages_size + nested_size + len(body) - end > max_bytes:
        raise ValueError("it is too large")
    if end < packed:
        raise ValueError("sizes do not add up")
    modified.frombytes(body[end:])
    if modified and (len(modified) != pages or min(modified) < 0 or max(modified) > _LAST_SECOND):
        raise ValueError("not the moments of the pages")
    return SitemapAnswer(
        pages=read_lines(body[:packed], pages, pages_size),
        sitemaps=read_lines(body[packed:end], nested, nested_size),
        dropped=count_of(fields["dropped"]),
        modified=modified or (),
        is_cut_short=fields["cut_short"] is True,
    )


def _is_object(row: str | memoryview) -> bool:
    if isinstance(row, str):
        return row.startswith(_OBJECT_START) and row.endswith(_OBJECT_END)
    return row[0] == ord(_OBJECT_START) and row[-1] == ord(_OBJECT_END)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
