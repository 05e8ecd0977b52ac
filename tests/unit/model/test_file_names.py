"""How downloaded files are named, and which answers are no files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.file import bare_type, file_extension, refuse_page, url_extension

HTML = b"<!DOCTYPE html><html><body>"
LOGIN = HTML + b"<form><input name=u><input class='x'\n type = 'password'></form>"


@pytest.mark.parametrize(
    ("content_type", "url", "extension"),
    [
        ("application/pdf", "http://a/x", "pdf"),
        ("Application/PDF; charset=binary", "http://a/x.php?y=1", "pdf"),
        ("image/jpeg", "http://a/photo.jpeg", "jpg"),
        ("application/octet-stream", "http://a/x.ZIP?y=.exe#z.pdf", "zip"),
        ("", "http://a/%C3%A9/x.tar.gz", "gz"),
        ("text/plain", "http://a/data.csv", "csv"),
        ("text/plain", "http://a/readme", "txt"),
        ("application/x-unheard-of", "http://a/x.dat", "dat"),
        ("application/x-unheard-of", "http://a/", "bin"),
        ("", "http://a/.htaccess", "bin"),
        ("", "http://a/x.thisistoolong", "bin"),
        ("", "http://a/x.p%2Fdf", "bin"),
        ("", "http://a/x.%2e%2e%2f%2e%2e%2fetc", "bin"),
        ("../../etc/passwd", "http://a/..%5c..%5cx", "bin"),
        ("text/html", "http://a/x.pdf", "html"),
    ],
)
def test_the_extension_is_that_of_the_type_else_that_of_the_url(content_type: str, url: str, extension: str) -> None:
    assert file_extension(content_type, url) == extension


@given(st.text(), st.text())
def test_the_extension_is_letters_and_digits_whatever_the_server_says(content_type: str, name: str) -> None:
    extension = file_extension(content_type, f"http://a/{name}")
    assert extension.isascii()
    assert extension.isalnum()
    assert len(extension) <= 10
    assert bare_type(content_type).isprintable()


@pytest.mark.parametrize("url", ["http://a/x", "http://a/x.pdf/", "http://[/x.pdf", "http://a/?x=1.pdf", "http://a/.."])
def test_a_url_may_have_no_extension(url: str) -> None:
    assert url_extension(url) == ""


@pytest.mark.parametrize(
    ("url", "content_type", "start", "reason"),
    [
        ("http://a/x.pdf", "text/html; charset=utf-8", HTML, "is an HTML page, not a .pdf file"),
        ("http://a/x.JPG", "text/html", b"", "is an HTML page, not a .jpg file"),
        ("http://a/x.pdf", "", b"\xef\xbb\xbf \n<HTML>", "is an HTML page, not a .pdf file"),
        ("http://a/x.pdf", "text/html", LOGIN, "is a login page"),
        ("http://a/download?id=1", "text/html", LOGIN, "is a login page"),
        ("http://a/x.pdf", "text/html", b"%PDF-1.7 misdeclared", None),
        ("http://a/x.pdf", "application/pdf", HTML, None),
        ("http://a/download?id=1", "text/html", HTML, None),
        ("http://a/x.html", "text/html", LOGIN, None),
        ("http://a/x.php", "text/html", HTML, None),
        ("http://a/x.txt", "text/plain", b"<input type=password>", None),
    ],
)
def test_a_page_is_refused_where_a_file_was_expected(
    url: str, content_type: str, start: bytes, reason: str | None
) -> None:
    assert refuse_page(url, content_type, start) == reason
