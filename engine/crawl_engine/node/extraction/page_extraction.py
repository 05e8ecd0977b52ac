"""Extracts one page: decodes it, parses it, applies dataDefs; in the node or an extraction process."""

import re
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from crawl_engine.errors import UsageError, quote_text
from crawl_engine.extract.documents.document_types import (
    DocumentTooLarge,
    DocumentType,
    DocumentUnreadable,
    find_document_type,
)
from crawl_engine.extract.documents.json_value import MISSING, make_encodable, parse_guarded_json, parse_json
from crawl_engine.extract.documents.page_states import split_states
from crawl_engine.extract.links.links import limit_links
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import ArchivedFiles, Page, PageKind
from crawl_engine.extract.page.xhtml import to_html
from crawl_engine.extract.records import RecordExtractor, RecordProgress
from crawl_engine.http.decode import content_type_at, decode, find_first_element, is_binary, is_xml_type, sent_codec
from crawl_engine.model.definition import TaskGroup
from crawl_engine.model.file import name_of_answer, name_of_url
from crawl_engine.model.record import ExtractedLink, Extraction
from crawl_engine.model.step import StepResult
from crawl_engine.node.extraction.result import PageResult, count_rejections
from crawl_engine.node.rules import RuleParts, judge_page
from crawl_engine.node.rules.rule import JudgedPage

if TYPE_CHECKING:
    from crawl_engine.extract.documents.archives import Member

_BYTES_PER_TAG, _BYTES_PER_ATTRIBUTE = 64, 160
"""Memory of the tree for each `<` and `=`: estimated low, since scripts hold them, too."""
_COPIES = 2
"""The body, usually its text in UTF-8, and the same in lower case."""

_PARSER_STEP, _PARSER_CODE = "parser", "table"
_SITEMAP_START = 1_000
_FEEDS = frozenset((b"rss", b"feed", b"rdf:rdf"))
"""The first elements of feeds, by WHATWG's MIME Sniffing 7.3."""
_HTML = re.compile(rb"<(?:html|head|body|script|pre|!doctype)\b", re.IGNORECASE)
_MAX_NOTICE = 4_096
"""Bytes in front of a feed, such as a notice of PHP, in which its beginning is looked for."""
_JSON_START = re.compile(rb"\s*(?:\[|\{(?!\s*\}\s*&&))")
"""Of JSON without a guard: `{}&&` is one."""


class ExtractionUnavailable(Exception):
    """No extraction process can be started now; the page is not at fault."""


class UnreadablePage(Exception):
    """The page cannot be extracted at all; the text says why, and what the user may do."""


class UnsupportedContent(Exception):
    """The body is not text, such as an image or an archive; the message names its type and the reason if known."""


class NeedsProcess(UnsupportedContent):
    """Only an extraction process reads such a document."""


class DataDefProgress(RecordProgress, Protocol):
    """Notes the part of a page in progress."""

    def enter_data_def(self, index: int) -> None: ...


def check_supported(body: bytes, content_type: str) -> DocumentType | None:
    """The type of a document that is read as HTML; None for text. Raises UnsupportedContent for other content."""
    if not is_binary(body, content_type):
        return None
    try:
        type_ = find_document_type(body, content_type)
    except UsageError as error:
        raise UnsupportedContent(str(error)) from error
    reason = content_type.partition(";")[0].strip() or "unknown type" if type_ is None else type_.missing
    if reason:
        raise UnsupportedContent(reason)
    return type_


def apply_data_defs(
    page: Page,
    context: Context,
    data_defs: Sequence[tuple[RecordExtractor, bool]],
    max_links: int,
    progress: DataDefProgress | None = None,
    *,
    patience: float | None = None,
    extract: Callable[[int, RecordExtractor], Extraction] | None = None,
) -> PageResult:
    """Apply each dataDef; one that is paired with False, only for its links. Raises PageTooCostly and MemoryError.

    `patience`: seconds after which OutOfTime is raised; None: no limit. `extract` replaces the extractors.
    Raises UnsupportedContent for an archive of several files of which no dataDef names one.
    """
    stop_at = None if patience is None else time.monotonic() + patience
    parts, judged = RuleParts(), JudgedPage(page, context, [extractor for extractor, _ in data_defs], stop_at)
    if judge_page(judged, parts, reads_rows=False):
        return _to_result(page, parts)
    if page.archive is not None and page.archive.count != 1 and not any(one.reads_members for one, _ in data_defs):
        raise UnsupportedContent(f'an archive of {page.archive.shown}; name one: `from: "member: NAME"`')
    if data_defs:
        _warn_of_reading(page, data_defs[0][0].name)
    for index, (extractor, wants_rows) in enumerate(data_defs):
        if progress is not None:
            progress.enter_data_def(index)
        if extract is not None:
            extraction = extract(index, extractor)
        else:
            extraction = extractor.extract(
                page, context, progress, patience=judged.time_left, links_only=not wants_rows
            )
        judged.found.append(extraction)
    judged.links, dropped = limit_links([extraction.links for extraction in judged.found], max_links)
    is_ended = judge_page(judged, parts, reads_rows=True)
    result = _to_result(page, parts)
    if not is_ended:
        result.links, result.faults, result.signs = tuple(judged.links), tuple(page.faults), tuple(page.signs.values())
        result.dropped_links = dropped + sum([extraction.dropped_links for extraction in judged.found])
        _add_records(result, data_defs, judged.found)
    return result


def _to_result(page: Page, parts: RuleParts) -> PageResult:
    """What is said of a page even if a rule leaves nothing of it."""
    return PageResult(
        page_kind=page.kind, damaged=page.damaged, warnings=tuple(page.warnings.values()), parts=parts
    )  # fmt: skip


def _add_records(
    result: PageResult, data_defs: Sequence[tuple[RecordExtractor, bool]], found: Sequence[Extraction]
) -> None:  # fmt: skip
    """Add the records of the dataDefs whose rows are wanted, unless a rule leaves the links alone."""
    keeps_rows = result.parts.keeps_rows
    for index, (extractor, wants_rows) in enumerate(data_defs):
        if not wants_rows:
            continue
        extraction = found[index]
        result.filtered += extraction.counts.filtered
        if extraction.failure:
            result.results += ((index, failed_parser(extraction.failure)),)
        if keeps_rows:
            result.rows += ((index, tuple(map(encode_row, extraction.rows))),)
            result.rejected += tuple(extraction.rejected)
            if extractor.has_fields:
                result.counts += ((index, extraction.counts),)
    result.rejected_counts = count_rejections(result.rejected)


def _warn_of_reading(page: Page, data_def: str) -> None:
    """Warn of a page that is read otherwise than its answer says."""
    if page.disguise:
        kind = "JSON" if page.kind == "json" else "XML"
        text = f"{data_def}: pages are {kind}, and {page.disguise}; they are read as {kind}"
        page.warn(data_def, "", f"{kind.lower()}-type", text)
    if page.said_encoding:
        said = page.said_encoding.replace("cp125", "windows-125").replace("iso8859", "iso-8859")
        text = f"{data_def}: pages are said to be {said}, and are UTF-8 with damaged bytes, which are replaced"
        page.warn(data_def, "", "wrong-encoding", text)


def ends_when_empty(extractor: RecordExtractor) -> bool:
    """Whether a page without a record of this dataDef ends its series, if all its dataDefs agree."""
    return extractor.next_page is not None and extractor.next_page.until_empty


def failed_parser(reason: str, task: str = "") -> StepResult:
    """The result of a built-in parser that fails its task on a page."""
    return StepResult(task, _PARSER_STEP, "error", _PARSER_CODE, 0.0, reason)


def parse_page(
    body: bytes,
    content_type: str,
    *,
    url: str,
    status: int,
    fetched_at: float,
    headers: tuple[tuple[str, str], ...] = (),
    page_class: type[Page] = Page,
    only_tree: bool = False,
    reads_documents: bool = False,
    name: str = "",
) -> Page:
    """The page of a body; `name`: of the file in an archive that it was. Raises UnsupportedContent.

    `only_tree`: no XPath will be used. `reads_documents`: only for an extraction process, since a PDF may crash it;
    raises UnreadablePage for a document beyond a limit. Without it, raises NeedsProcess for a document.
    """
    content_type = content_type_at(content_type, name or url)
    document = decode(body, content_type)
    kind: PageKind
    value: Any = MISSING
    feed: int | None = None
    guard = ""
    skipped: tuple[str, ...] = ()
    if document.kind == "binary":
        type_ = check_supported(body, content_type)
        assert type_ is not None
        if not reads_documents:
            raise NeedsProcess(type_.content_types[0])
        if type_.is_archive and name:
            raise UnsupportedContent(f"{quote_text(name)} in an archive is an archive, too")
        if type_.is_archive:
            return _parse_archive(type_, body, partial(
                parse_page, url=url, status=status, fetched_at=fetched_at, headers=headers, page_class=page_class,
                only_tree=only_tree, reads_documents=reads_documents,
            ), url, headers)  # fmt: skip
        (text, skipped), kind = _read_document(type_, body), "html"
    else:
        text, kind = document.utf8, document.kind
        if _JSON_START.match(text) is None:
            value, guard = parse_guarded_json(text) if kind in ("html", "xml", "json") else (MISSING, "")
        elif kind in ("html", "xml"):
            value = parse_json(text.decode())
        feed = _find_feed(text) if kind in ("html", "xml") and value is MISSING else None
        if value is not MISSING:
            kind = "json"
        elif feed is not None:
            text, kind = text[feed:], "xml"
        elif kind == "html" and is_xml_type(content_type):
            text = to_html(text)
    states = None
    if kind == "html":
        text, states = split_states(text)
    page = page_class(
        url=url,
        text=text,
        kind=kind,
        status=status,
        fetched_at=fetched_at,
        headers=headers,
        only_tree=only_tree,
        encoding=sent_codec(document, content_type),
    )
    page.states = states
    if value is not MISSING:
        page.data = value
    if guard:
        page.disguise = f"{quote_text(guard)} stands in front"
    elif (value is not MISSING or kind != document.kind == "html") and content_type.strip():
        page.disguise = f"their type is {quote_text(content_type.partition(';')[0].strip())}"
    if feed:
        page.faults["what stands in front of the feed was skipped"] = None
    page.faults.update(dict.fromkeys(skipped))
    page.damaged, page.said_encoding = document.damaged, document.declared
    return page


def _parse_archive(
    type_: DocumentType, body: bytes, parse: Callable[..., Page], url: str, headers: tuple[tuple[str, str], ...]
) -> Page:  # fmt: skip
    """The page of the only file in an archive, or a blank one; its files are read by their names."""
    from crawl_engine.extract.documents.archives import unpack  # few pages need it

    label = type_.content_types[0]
    try:
        archive = unpack(body, name_of_answer(headers) or name_of_url(url))
        if len(archive.members) == 1:
            (member,) = archive.members
            page = parse(member.read(), "", name=member.name)
        else:
            page = parse(b"", "text/html")
    except DocumentUnreadable as error:
        raise UnsupportedContent(f"{label} {error}") from error
    except DocumentTooLarge as error:
        raise UnreadablePage(str(error)) from error
    page.archive = ArchivedFiles(
        lambda pattern: [(one.name, partial(_read_member, one)) for one in archive.find(pattern)],
        len(archive.members), archive.describe(),
    )  # fmt: skip
    return page


def _read_member(member: "Member") -> str:
    """The text of a file in an archive. Raises DocumentUnreadable."""
    document = decode(member.read(), content_type_at("", member.name))
    if document.kind == "binary":
        raise DocumentUnreadable("is no text")
    return document.text


def _find_feed(text: bytes) -> int | None:
    """Where a feed begins that is said to be HTML, perhaps behind a notice of PHP; None: it is none."""
    if find_first_element(text) in _FEEDS:
        return 0
    declared = text.find(b"<?xml", 0, _MAX_NOTICE)
    if declared < 0 or _HTML.search(text, 0, declared) or find_first_element(text, declared) not in _FEEDS:
        return None
    return declared


def read_sitemap_text(body: bytes, content_type: str) -> str:
    """The text of a sitemap. Raises UnreadablePage if it is not text."""
    starts_as_xml = body[:_SITEMAP_START].lstrip()[:2] in (b"<?", b"<u", b"<s", b"<!", b"<\0", b"\0<")
    if not starts_as_xml and is_binary(body, ""):
        raise UnreadablePage("not a sitemap: it is not text")
    return decode(body, content_type).text


def _read_document(type_: DocumentType, body: bytes) -> tuple[bytes, tuple[str, ...]]:
    """The HTML that stands for a document, and what was skipped."""
    try:
        return type_.read(body)
    except DocumentUnreadable as error:
        raise UnsupportedContent(f"{type_.content_types[0]} {error}") from error
    except DocumentTooLarge as error:
        raise UnreadablePage(str(error)) from error


def estimate_tree_bytes(body: bytes, limit: int) -> int:
    """A rough estimate of the memory for parsing a body; 0 if it is certainly below `limit`."""
    if len(body) * (_COPIES + _BYTES_PER_ATTRIBUTE) <= limit:
        return 0
    return len(body) * _COPIES + body.count(b"<") * _BYTES_PER_TAG + body.count(b"=") * _BYTES_PER_ATTRIBUTE


def within_depth(link: ExtractedLink, depth: int, group: TaskGroup) -> bool:
    """Whether a page at that depth (links from its locator) is within the limits of the link and its group."""
    if link.max_depth is not None and depth > link.max_depth:
        return False
    return group.max_depth is None or depth <= group.max_depth


def encode_row(row: Any) -> str:
    """A row as stored JSON: decimals become numbers with all their digits."""
    try:
        return orjson.dumps(row, default=_encode_decimal).decode()
    except TypeError:
        return orjson.dumps(make_encodable(row), default=_encode_decimal).decode()


def _encode_decimal(value: Any) -> Any:
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    raise TypeError(type(value).__name__)
