"""Reads texts of a page as documents: each becomes a page, whose URLs resolve against the outer one."""

import re
import weakref
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct, field

from crawl_engine.extract.documents.json_value import MISSING, parse_embedded_json, parse_json_at
from crawl_engine.extract.embedded.js_literal import LiteralInvalid, find_assigned, read_literal
from crawl_engine.extract.page.page import Page, PageKind, PageTooCostly
from crawl_engine.extract.page.patterns import PatternTimeout, TimeBudget, TimedPattern
from crawl_engine.late_regex import late_regex
from crawl_engine.model.link import PAGE_DATA, PageData, TextFormat, TextSource

_MAX_CHARACTERS = 100_000_000
"""Of all texts together: elements in each other repeat their text."""
_TABLE_PART = late_regex(r"\s*+<(?:caption|col|colgroup|tbody|td|tfoot|th|thead|tr)\b", re.IGNORECASE)
"""Outside a table, the HTML parser drops these tags."""
_SHOWN = 40
_SEARCHED = 1_000
UNREADABLE = "unreadable-text"
EXPRESSION = "js-expression"
LOST_ANSWER = "lost-answer"


class Documents(Struct):
    """What a source gives on one page."""

    pages: list[Page] = field(default_factory=list)
    texts: int = 0
    """Texts that the selector found."""
    problems: dict[str, str] = field(default_factory=dict)
    """By code, the first of each."""

    def miss(self, source: TextSource) -> str:
        """Why there is no document; empty if there is one."""
        if self.pages:
            return ""
        if not self.texts:
            return next(iter(self.problems.values()), f"{source.shown} matches nothing on this page")
        count = "the text" if self.texts == 1 else f"any of {self.texts:,} texts"
        if not self.problems:
            return f"`match: {source.match}` matches nothing in {count} of {source.shown}"
        return next(iter(self.problems.values()))


class DocumentReader:
    """A compiled `match` and `as`. Raises ValueError if the pattern does not compile."""

    def __init__(self, source: TextSource) -> None:
        self._source = source
        self._format: TextFormat = source.format or "html"
        self._pattern = None if source.match is None else TimedPattern(source.match)

    def read(self, page: Page, texts: Sequence[Any]) -> Documents:
        """The documents of the texts, which may be values of JSON. Raises PageTooCostly."""
        if (framework := PAGE_DATA.get(self._format)) is not None:
            return self._read_page_data(framework, page, [text for text in texts if isinstance(text, str)])
        documents = Documents(texts=len(texts))
        time_budget = TimeBudget()
        left = _MAX_CHARACTERS
        for number, text in enumerate(texts, 1):
            if isinstance(text, str):
                if not text or text.isspace():
                    continue
                left -= len(text)
                if left < 0:
                    raise PageTooCostly(page.url, f"has texts of more than {_MAX_CHARACTERS:,} characters")
            try:
                self._read_text(page, text, documents, time_budget)
            except _TextUnreadable as error:
                where = _describe_place(page, text, number, error.at)
                problem = f"{self._source.shown}: {where} {error}"
                documents.problems.setdefault(UNREADABLE, problem)
            except PatternTimeout as error:
                documents.problems.setdefault(UNREADABLE, str(error))
        return documents

    def _read_page_data(self, framework: PageData, page: Page, texts: Sequence[str]) -> Documents:
        """The one document of all texts."""
        reader = import_module(f"{__package__}.{self._format}")
        data, fault = reader.read_page_data(texts)
        documents = Documents([] if data is MISSING else [embed(page, "json", "", data)], texts=len(texts))
        if fault or data is MISSING:
            documents.problems[UNREADABLE] = f"{self._source.shown}: {fault or f'no text has data of {framework.name}'}"
        return documents

    def _read_text(self, page: Page, text: Any, documents: Documents, time_budget: TimeBudget) -> None:
        if not isinstance(text, str):
            if self._format != "json" or self._pattern is not None:
                raise _TextUnreadable("is no text, but a value of JSON: write `as: json`", 0)
            documents.pages.append(embed(page, "json", "", text))
            return
        start, end = 0, len(text)
        if self._pattern is not None:
            span = self._cut(text, time_budget)
            if span is None:
                return
            start, end = span
        kind = self._format
        if kind == "json" or kind == "js":
            value = self._read_value(page, text, start, documents)
            if value is not None:
                documents.pages.append(embed(page, "json", "", value))
        elif (part := text[start:end].strip()) and (kind == "html" or kind == "xml" or kind == "csv"):
            if kind == "html":
                part = _place_part(part)
            documents.pages.append(embed(page, kind, part))

    def _cut(self, text: str, time_budget: TimeBudget) -> tuple[int, int] | None:
        """Where the part begins and ends that the pattern cuts out; None: it does not match."""
        assert self._pattern is not None
        found = self._pattern.search(text, time_budget)
        if found is None:
            return None
        if self._pattern.compiled.groups:
            return found.span(1) if found.start(1) >= 0 else None
        begins_value = found[0].startswith(("{", "[", '"', "'", "JSON.parse"))
        return (found.end(), len(text)) if self._format in ("json", "js") and not begins_value else found.span()

    def _read_value(self, page: Page, text: str, start: int, documents: Documents) -> Any:
        """The JSON value that begins there, whatever follows its end. Raises _TextUnreadable."""
        if self._format == "json":
            value = parse_embedded_json(text) if self._pattern is None else parse_json_at(text, start)
            if value is MISSING:
                raise _TextUnreadable("is not JSON, or nests too deep; `as: js` reads literals of scripts", start)
            return value
        at = start if self._pattern is not None else find_assigned(text)
        if at is None:
            raise _TextUnreadable("has no object or list that a script assigns; write a `match`", 0)
        value = parse_json_at(text, at)  # most literals are JSON
        if value is not MISSING:
            return value
        try:
            written, expressions = read_literal(text, at)
        except LiteralInvalid as error:
            raise _TextUnreadable(f"has a value that {error}", at) from None
        value = parse_json_at(written, 0)
        if value is MISSING:
            raise _TextUnreadable("has a value that nests too deep", at)
        if expressions:
            where = _describe_place(page, text, 0, expressions[0])
            shown = " ".join(text[expressions[0] : expressions[0] + _SHOWN].split())
            count = "a value" if len(expressions) == 1 else f"{len(expressions):,} values"
            problem = f"{count} of {self._source.shown}{where} only a script knows: missing, such as `{shown}…`"
            documents.problems.setdefault(EXPRESSION, problem)
        return value


class _TextUnreadable(Exception):
    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def _place_part(html: str) -> str:
    """The HTML of a part of a page, with the element that it needs around it."""
    if html.startswith("<!--"):  # in front of the first element, a comment would be in none
        return f"<body>{html}"
    return f"<table>{html}" if _TABLE_PART.match(html) else html


def embed(page: Page, kind: PageKind, text: str, value: Any = MISSING) -> Page:
    """A page of a text of that page. `value`: of JSON, in place of the text."""
    inner = Page(
        url=page.url, text=text, kind=kind, status=page.status, fetched_at=page.fetched_at, headers=page.headers
    )  # fmt: skip
    inner.base = page.base
    inner.faults = page.faults
    inner.outer = weakref.ref(page.root)  # no circle: trees are large
    if value is not MISSING:
        inner.data = value
    return inner


def _describe_place(page: Page, text: Any, number: int, at: int) -> str:
    """Where a place of a text is: by line and column of the page, where the page has the text as it stands."""
    if isinstance(text, str):
        begin = page.utf8.find(text[:_SEARCHED].encode("utf-8", "replace"))
        if begin >= 0 and text:
            offset = begin + len(text[:at].encode("utf-8", "replace"))
            line = page.utf8.count(b"\n", 0, offset) + 1
            column = offset - page.utf8.rfind(b"\n", 0, offset)
            place = f"{line}:{column} of the page"
            return f"the text at {place}" if number else f" at {place}"
    return f"text {number}" if number else ""
