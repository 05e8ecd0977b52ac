"""Reads the text of a PDF as an HTML page, a line in each paragraph; in extraction processes."""

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from crawl_engine.extract.documents.document_types import DocumentTooLarge, DocumentUnreadable
from crawl_engine.extract.page.page import MAX_URL_CHARACTERS
from crawl_engine.extract.page.reading import MAX_CHARACTERS
from crawl_engine.late_regex import late_regex

MAX_PAGES = 10_000
_METADATA = (("author", "Author"), ("subject", "Subject"), ("keywords", "Keywords"), ("generator", "Creator"))
_DATES = (("created", "CreationDate"), ("modified", "ModDate"))
_DATE = late_regex(r"(?:D:)?(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)(?:(Z)|([+-]\d\d)'?(\d\d))?)?", re.ASCII)
_MAX_METADATA_BYTES = 100_000
_SKIPPED_CHARACTERS = dict.fromkeys([*range(9), *range(14, 32), 0x7F, 0xFFFE, 0xFFFF])
"""Control characters. U+0002 is PDFium's sign of a hyphen that divides a word: its halves are joined."""


def read(body: bytes) -> tuple[bytes, tuple[str, ...]]:
    """The document as HTML in UTF-8, and what was skipped. Raises DocumentUnreadable and DocumentTooLarge."""
    html, unreadable = read_pdf(body)
    return html, ("a page of the PDF cannot be read and was skipped",) if unreadable else ()


def read_pdf(body: bytes, *, max_pages: int = MAX_PAGES, max_characters: int = MAX_CHARACTERS) -> tuple[bytes, int]:
    """The document as HTML in UTF-8, and the number of its unreadable pages, which are empty.

    A crash of the library ends this process. Raises DocumentUnreadable and DocumentTooLarge.
    """
    try:
        import pypdfium2  # only processes that read a PDF load it
    except (ImportError, OSError) as error:
        raise DocumentUnreadable(f"cannot be read: pypdfium2: {error}") from error
    raw = pypdfium2.raw
    with _without_system_fonts(raw):
        # PdfDocument(body) would report a document without pages with the error of the document before it
        handle = raw.FPDF_LoadMemDocument64(body, len(body), None)
        if not handle:
            locked = raw.FPDF_GetLastError() in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY)
            raise DocumentUnreadable("is encrypted" if locked else "is broken")
        with pypdfium2.PdfDocument(handle) as document:
            return _PdfReader(pypdfium2, document, max_characters).read(max_pages)


@contextmanager
def _without_system_fonts(raw: Any) -> Iterator[None]:
    """Keep PDFium from opening all fonts of the system for a document that embeds none; text needs no glyphs."""
    no_fonts = raw.FPDF_SYSFONTINFO(version=1)  # a font provider without functions
    raw.FPDF_SetSystemFontInfo(no_fonts)
    try:
        yield
    finally:
        raw.FPDF_SetSystemFontInfo(None)


class _PdfReader:
    """Reads one open document. `library`: the module, imported."""

    def __init__(self, library: Any, document: Any, max_characters: int) -> None:
        self._library = library
        self._raw = library.raw
        self._document = document
        self._max_characters = max_characters
        self._characters = 0
        self._unreadable = 0
        self._has_content = False

    def read(self, max_pages: int) -> tuple[bytes, int]:
        """The HTML page, and the number of unreadable pages."""
        count = len(self._document)
        if count > max_pages:
            raise DocumentTooLarge(f"the PDF has {count:,} pages; the limit is {max_pages:,}")
        parts = [self._head(), *(self._section(number) for number in range(count)), b"</body></html>\n"]
        if not self._has_content:
            raise DocumentUnreadable("is broken" if self._unreadable == count else "has no text; it may be a scan")
        return b"".join(parts), self._unreadable

    def _head(self) -> bytes:
        lines = [f"<!doctype html>\n<html><head><title>{escape(self._metadata('Title'))}</title>"]
        lines += [_meta(name, self._metadata(key)) for name, key in _METADATA]
        lines += [_meta(name, _to_iso_date(self._metadata(key))) for name, key in _DATES]
        return "".join([*lines, "</head><body>\n"]).encode("utf-8", "replace")

    def _section(self, number: int) -> bytes:
        """A page of the document: its lines, then its links."""
        try:
            page = self._document[number]
            text_page = page.get_textpage()
        except self._library.PdfiumError:
            self._unreadable += 1
            return _to_section(number, "")
        self._charge(text_page.count_chars())
        lines = _to_lines(text_page.get_text_bounded())
        content = "".join([f"<p>{escape(line)}</p>\n" for line in lines])
        links = dict.fromkeys(self._links(page))  # a link over several lines has one annotation for each
        self._charge(sum(map(len, links)))
        content += "".join([f'<a href="{escape(url)}"></a>\n' for url in links])
        self._has_content = self._has_content or bool(content)
        text_page.close()
        page.close()
        return _to_section(number, content)

    def _links(self, page: Any) -> Iterator[str]:
        """The URLs of the page's link annotations, as written."""
        position, link = ctypes.c_int(0), self._raw.FPDF_LINK()
        while self._raw.FPDFLink_Enumerate(page, position, link):
            action = self._raw.FPDFLink_GetAction(link)
            if not action or self._raw.FPDFAction_GetType(action) != self._raw.PDFACTION_URI:
                continue
            size = self._raw.FPDFAction_GetURIPath(self._document, action, None, 0)
            if 1 < size <= MAX_URL_CHARACTERS:
                buffer = ctypes.create_string_buffer(size)
                self._raw.FPDFAction_GetURIPath(self._document, action, buffer, size)
                url = buffer.raw[: size - 1].decode("utf-8", "replace").translate(_SKIPPED_CHARACTERS).strip()
                if url:
                    yield url

    def _metadata(self, key: str) -> str:
        """A text of the metadata; empty if missing or huge."""
        name = key.encode()
        size = self._raw.FPDF_GetMetaText(self._document, name, None, 0)
        if not 2 < size <= _MAX_METADATA_BYTES:
            return ""
        buffer = ctypes.create_string_buffer(size)
        self._raw.FPDF_GetMetaText(self._document, name, buffer, size)
        return " ".join(_to_lines(buffer.raw[: size - 2].decode("utf-16-le", "replace")))

    def _charge(self, characters: int) -> None:
        self._characters += characters
        if self._characters > self._max_characters:
            raise DocumentTooLarge(f"the PDF has more than {self._max_characters:,} characters")


def _to_lines(text: str) -> list[str]:
    return [line for line in map(str.strip, text.translate(_SKIPPED_CHARACTERS).splitlines()) if line]


def _to_section(number: int, content: str) -> bytes:
    return f'<section data-page="{number + 1}">\n{content}</section>\n'.encode("utf-8", "replace")


def _meta(name: str, content: str) -> str:
    return f'<meta name="{name}" content="{escape(content)}">' if content else ""


def _to_iso_date(text: str) -> str:
    """The date of a text such as `D:20260131120000+01'00'` in ISO 8601; empty if it is not a date."""
    match = _DATE.match(text)
    if match is None:
        return ""
    year, month, day, hour, minute, second, zulu, offset, offset_minutes = match.groups()
    date = f"{year}-{month}-{day}"
    if hour is None:
        return date
    zone = zulu or (f"{offset}:{offset_minutes}" if offset else "")
    return f"{date}T{hour}:{minute}:{second}{zone}"
