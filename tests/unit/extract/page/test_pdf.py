"""PDF documents as HTML pages: their lines, links and metadata, and those that cannot be read."""

import random
import sys

import pytest
from selectolax.lexbor import LexborHTMLParser

from crawl_engine.extract.documents.document_types import DocumentTooLarge, DocumentUnreadable
from crawl_engine.extract.page.pdf import read_pdf
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field, Link
from crawl_engine.node.extraction.page_extraction import UnreadablePage, UnsupportedContent, parse_page
from crawl_engine.runtime.extras import has_extra
from tests.pdf_documents import (
    encrypted_pdf,
    pdf,
    pdf_of_contents,
    repeated_page_pdf,
    scanned_pdf,
    text_of,
)
from tests.unit.extract.pages import CONTEXT

URL = "https://shop.example/docs/list.pdf"


def tree(body: bytes) -> LexborHTMLParser:
    return LexborHTMLParser(read_pdf(body)[0].decode())


def lines(body: bytes) -> list[list[str]]:
    """The lines of each page."""
    return [[p.text() for p in section.css("p")] for section in tree(body).css("section")]


def test_each_line_is_a_paragraph_in_the_section_of_its_page() -> None:
    body = pdf(["Offers of (May)", "café: 4 < 5 & <b>6</b>"], [], ["last page"])
    assert lines(body) == [["Offers of (May)", "café: 4 < 5 & <b>6</b>"], [], ["last page"]]
    assert [node.attributes["data-page"] for node in tree(body).css("section")] == ["1", "2", "3"]
    assert tree(body).css("b") == []


def test_a_word_that_a_hyphen_divides_is_joined() -> None:
    assert lines(pdf(["the cata-", "logue of 10 -", "20 items"])) == [["the catalogue of 10 -", "20 items"]]


def test_links_end_their_section_each_once() -> None:
    links = ["https://a.example/x?(1)&y=2", "two.pdf", "https://a.example/x?(1)&y=2", '"><script>', "x" * 20_000, ""]
    page = tree(pdf(["first"], ["second"], links=links))
    urls = [link.attributes["href"] for link in page.css("section")[1].css("section > a")]
    assert urls == ["https://a.example/x?(1)&y=2", "two.pdf", '"><script>']
    assert page.css("script") == []


def test_metadata_becomes_the_head() -> None:
    info = b'/Title(</title><b>Prices)/Author<FEFF005A006F00EB>/Keywords(a "b")/Subject(%s)' % (b"s" * 200_000)
    page = tree(pdf(["x"], info=info + b"/CreationDate(D:20260131120000+01'00')/ModDate(D:20260201)"))
    title = page.css_first("title")
    assert title is not None and title.text() == "</title><b>Prices"
    meta = {node.attributes["name"]: node.attributes["content"] for node in page.css("meta")}
    assert meta == {
        "author": "Zoë", "keywords": 'a "b"', "created": "2026-01-31T12:00:00+01:00", "modified": "2026-02-01",
    }  # fmt: skip


@pytest.mark.parametrize("date", [b"yesterday", b"D:2026", b"<script>", b"D:2026013\xb2"])
def test_what_is_no_date_is_left_out(date: bytes) -> None:
    assert tree(pdf(["x"], info=b"/ModDate(%s)" % date)).css("meta") == []


def test_control_characters_and_lone_surrogates_are_no_problem() -> None:
    info = b"/Title<FEFFD8000041>/Author(\x01\x07)"
    page = tree(pdf_of_contents([b"BT /F 12 Tf 72 720 Td (a\\000\\001\\033b) Tj ET"], info=info))
    assert page.css_first("p").text() == "ab"
    assert page.css("meta") == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (encrypted_pdf(), "is encrypted"),
        (pdf(["x"], encrypt=b"<</Filter/Other/V 1/R 2>>"), "is encrypted"),
        (scanned_pdf(), "has no text; it may be a scan"),
        (pdf([]), "has no text; it may be a scan"),
        (pdf(), "is broken"),
        (b"", "is broken"),
        (b"<html><body>Error", "is broken"),
        (b"%PDF-1.7 and then nothing", "is broken"),
        (pdf(["x"])[:300], "is broken"),
    ],
)
def test_what_has_no_text_says_why(body: bytes, reason: str) -> None:
    with pytest.raises(DocumentUnreadable, match=f"^{reason}"):
        read_pdf(body)
    with pytest.raises(UnsupportedContent, match=f"^application/pdf {reason}"):
        parse_page(body, "application/pdf", url=URL, status=200, fetched_at=0.0, reads_documents=True)


def test_a_scan_with_links_is_a_page() -> None:
    assert [link.attributes["href"] for link in tree(pdf([], links=["/next"])).css("a")] == ["/next"]


def test_pages_that_cannot_be_read_are_counted() -> None:
    body = pdf(["one"], ["two"], ["three"]).replace(b"/Kids[4 0 R 6 0 R 8 0 R]", b"/Kids[4 0 R 99 0 R 8 0 R]")
    html, unreadable = read_pdf(body)
    assert unreadable == 1
    assert html.count(b"<p>") == 2
    page = parse_page(body, "", url=URL, status=200, fetched_at=0.0, reads_documents=True)
    assert list(page.faults) == ["a page of the PDF cannot be read and was skipped"]
    assert page.damaged == 0


def test_pages_and_characters_are_limited() -> None:
    body = pdf(["1234567890"], ["1234567890"], links=["https://a.example/"])
    assert read_pdf(body, max_pages=2, max_characters=60)[1] == 0
    with pytest.raises(DocumentTooLarge, match=r"^the PDF has 2 pages; the limit is 1$"):
        read_pdf(body, max_pages=1)
    with pytest.raises(DocumentTooLarge, match=r"^the PDF has more than 50 characters$"):
        read_pdf(body, max_characters=50)
    with pytest.raises(UnreadablePage, match="10,001 pages"):
        parse_page(
            repeated_page_pdf(10_001), "application/pdf", url=URL, status=200, fetched_at=0.0, reads_documents=True
        )


def test_selectors_match_and_links_work_on_it() -> None:
    body = pdf(["Invoice 2026-17", "Total: 1,250.00 EUR"], ["Terms"], links=["terms.pdf"])
    page = parse_page(body, "application/octet-stream", url=URL, status=200, fetched_at=0.0, reads_documents=True)
    fields = (
        Field(name="number", selector="section[data-page='1'] p:first-child", match=r"\d+-\d+"),
        Field(name="total", selector="xpath: //p[starts-with(., 'Total')]", match=r"[\d.,]+"),
        Field(name="pages", selector="section", attribute="data-page", all=True),
    )
    found = RecordExtractor(DataDef(name="d", fields=fields, links=(Link(selector="a"),))).extract(page, CONTEXT)
    assert page.kind == "html"
    assert found.rows == ({"number": "2026-17", "total": "1,250.00", "pages": ["1", "2"]},)
    assert [link.url for link in found.links] == ["https://shop.example/docs/terms.pdf"]


def test_without_the_extra_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_extra("pdf")
    monkeypatch.setitem(sys.modules, "pypdfium2", None)  # an import of it fails
    assert not has_extra("pdf")
    with pytest.raises(UnsupportedContent, match=r"^application/pdf, .*pip install 'crawl-console\[pdf\]'"):
        parse_page(pdf(["x"]), "application/pdf", url=URL, status=200, fetched_at=0.0, reads_documents=True)
    with pytest.raises(DocumentUnreadable, match=r"^cannot be read: pypdfium2"):
        read_pdf(pdf(["x"]))


def test_changed_bytes_never_raise_anything_else() -> None:
    randomness = random.Random(7)
    good = pdf_of_contents(
        [text_of(["one", "two"]), text_of(["three"])], links=["/a"], info=b"/Title(t)", compress=True
    )
    for _ in range(300):
        body = bytearray(good)
        for _ in range(randomness.choice((1, 4, 20))):
            position = randomness.randrange(len(body))
            body[position : position + randomness.choice((0, 1, 30))] = randomness.randbytes(randomness.choice((0, 1)))
        try:
            html, _ = read_pdf(bytes(body))
        except (DocumentUnreadable, DocumentTooLarge):
            continue
        html.decode()
