"""Decoding of bodies: encodings and document kinds."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fetch.decode import DecodedBody, decode

HTML = "text/html"


@pytest.mark.parametrize(
    ("body", "content_type", "text", "encoding"),
    [
        (b"plain", HTML, "plain", "utf-8"),
        ("Köln €".encode(), HTML, "Köln €", "utf-8"),
        ("Köln €".encode("cp1252"), HTML, "Köln €", "cp1252"),
        ("Köln €".encode("cp1252"), f"{HTML}; charset=ISO-8859-1", "Köln €", "cp1252"),
        ("Привет".encode("koi8-r"), f'{HTML}; charset="KOI8-R"', "Привет", "koi8-r"),
        ("日本".encode("cp932"), f"{HTML};charset=Shift_JIS", "日本", "cp932"),
        ("日本".encode("iso2022_jp"), f"{HTML};charset=iso-2022-jp", "日本", "iso2022_jp"),
        ("中文".encode("gb18030"), f"{HTML}; charset=gb2312", "中文", "gb18030"),
        ("Ü".encode("utf-16-le"), f"{HTML}; charset=utf-16le", "Ü", "utf-16-le"),
        (b"<meta charset=windows-1251>" + "мир".encode("cp1251"), HTML, "<meta charset=windows-1251>мир", "cp1251"),
        (b"<meta charset=utf-16>" + "é".encode(), HTML, "<meta charset=utf-16>é", "utf-8"),
        (b"<meta charset=iso-2022-jp>" + "日".encode("iso2022_jp"), HTML, "<meta charset=iso-2022-jp>日", "iso2022_jp"),
        (b"<meta charset=utf-7>+ADw-b+AD4-", HTML, "<meta charset=utf-7>+ADw-b+AD4-", "utf-8"),
        ("é".encode(), f"{HTML}; charset=unicode_escape", "é", "utf-8"),
        ("é".encode(), f"{HTML}; charset=no-such", "é", "utf-8"),
        (codecs.BOM_UTF8 + "é".encode(), f"{HTML}; charset=koi8-r", "é", "utf-8"),
        (codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), "", "é", "utf-16-le"),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be"), "text/plain", "é", "utf-16-be"),
        ('<?xml version="1.0" encoding="iso-8859-2"?><a>ł</a>'.encode("iso8859-2"), "application/xml",
         '<?xml version="1.0" encoding="iso-8859-2"?><a>ł</a>', "iso8859-2"),
        ('{"a": "é"}'.encode(), "application/json", '{"a": "é"}', "utf-8"),
        (b"", HTML, "", "utf-8"),
    ],
)  # fmt: skip
def test_the_encoding_is_detected(body: bytes, content_type: str, text: str, encoding: str) -> None:
    document = decode(body, content_type)
    assert (document.text, document.encoding, document.damaged) == (text, encoding, False)


def test_invalid_bytes_are_replaced_and_reported() -> None:
    assert decode(b"a\xffb", "text/html; charset=utf-8") == DecodedBody("a\ufffdb", "utf-8", "html", True)
    assert decode(b'{"a":"\xff"}', "application/json") == DecodedBody('{"a":"\ufffd"}', "utf-8", "json", True)
    assert decode(b"a\x81b", HTML) == DecodedBody("a\ufffdb", "cp1252", "html", True)


def test_the_header_overrides_the_page() -> None:
    assert decode(b"<meta charset=koi8-r>" + "é".encode(), "text/html; charset=utf-8").text.endswith("é")


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html", b"%PDF-1.7", "html"),
        ("TEXT/HTML; charset=utf-8", b"x", "html"),
        ("application/xhtml+xml", b"<?xml?>", "html"),
        ("application/json", b"[1]", "json"),
        ("application/ld+json; charset=utf-8", b"{}", "json"),
        ("application/rss+xml", b"<rss/>", "xml"),
        ("text/xml", b"<urlset/>", "xml"),
        ("image/svg+xml", b"<svg/>", "xml"),
        ("application/pdf", b"x", "binary"),
        ("image/png", b"x", "binary"),
        ("video/mp4", b"", "binary"),
        ("font/woff2", b"x", "binary"),
        ("application/zip", b"x", "binary"),
        ("application/vnd.ms-excel", b"x", "binary"),
        ("", b"<p>x", "html"),
        ("", b' \n{"a": 1}', "json"),
        ("", b"[1]", "json"),
        ("application/octet-stream", b'{"a": 1}', "json"),
        ("text/plain", b'{"a": 1}', "html"),
        ("", b'<?xml version="1.0"?><rss/>', "xml"),
        ("", b'<?xml version="1.0"?><!DOCTYPE html><html/>', "html"),
        ("application/octet-stream", b"<html>", "html"),
        ("application/x-httpd-php", b"<html>", "html"),
        ("text/plain", b"words", "html"),
        ("text/plain", b"a\0b", "binary"),
        ("", b"%PDF-1.4 text", "binary"),
        ("", b"\x89PNG\r\n\x1a\n", "binary"),
        ("", b"GIF89a", "binary"),
        ("application/octet-stream", b"\xff\xd8\xff\xe0", "binary"),
        ("", b"PK\x03\x04", "binary"),
        ("nonsense", b"<p>", "html"),
        ("", "é".encode(), "html"),
        ("", b"\x1b[0m", "html"),
    ],
)
def test_the_kind_is_detected(content_type: str, body: bytes, kind: str) -> None:
    document = decode(body, content_type)
    assert document.kind == kind
    if kind == "binary":
        assert (document.text, document.encoding) == ("", "")


@given(
    st.binary(max_size=200),
    st.one_of(st.text(max_size=40), st.sampled_from([HTML, "", "text/xml", "application/json"])),
)
def test_any_bytes_are_decoded(body: bytes, content_type: str) -> None:
    document = decode(body, content_type)
    assert document.damaged == (document.damaged and "\ufffd" in document.text)


@given(st.text(max_size=100))
def test_utf_8_round_trips(text: str) -> None:
    document = decode(text.encode(), "text/html; charset=utf-8")
    assert document.text == text.removeprefix("\ufeff")
    assert not document.damaged
