"""The types of binary documents: how a PDF is told."""

import pytest

from crawl_engine.extract.documents.document_types import PDF, find_document_type
from crawl_engine.http.decode import is_binary


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/pdf", b"x", True),
        ("APPLICATION/PDF; version=1.7", b"\n%PDF-1.7", True),
        ("application/x-pdf", b"", True),
        ("", b"%PDF-1.4 text", True),
        ("application/octet-stream", b"%PDF-1.4 text", True),
        ("text/plain", b"%PDF-1.4 text", True),
        ("application/zip", b"%PDF-1.4", True),
        ("text/html", b"%PDF-1.4", False),
        ("application/json", b"%PDF-1.4", False),
        ("application/octet-stream", b"<p>%PDF-1.4", False),
        ("image/png", b"\x89PNG", False),
    ],
)
def test_a_pdf_is_told_by_its_type_or_its_first_bytes(content_type: str, body: bytes, expected: bool) -> None:
    is_pdf = is_binary(body, content_type) and find_document_type(body, content_type) is PDF
    assert is_pdf is expected
