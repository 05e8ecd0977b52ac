"""How downloaded files are named, and which answers are no files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawl_engine.model.file import (
    AnswerNote,
    bare_type,
    file_extension,
    name_of_answer,
    name_of_url,
    refuse_page,
    safe_name,
    url_extension,
)

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
    assert file_extension(content_type, "", url) == extension


@pytest.mark.parametrize(
    ("content_type", "name", "extension"),
    [
        ("application/octet-stream", "Prüfbericht 2024.PDF", "pdf"),
        ("application/octet-stream", "data;part=1.xlsx", "xlsx"),
        ("application/vnd.ms-excel", "prices.csv", "csv"),
        ("application/zip", "report.xlsx", "xlsx"),
        ("text/plain", "prices.csv", "csv"),
        ("application/octet-stream", "x.parquet", "parquet"),
        ("application/pdf", "x.parquet", "pdf"),
        ("application/pdf", "page.html", "pdf"),
        ("application/pdf", "passwd", "pdf"),
        ("application/octet-stream", "passwd", "zip"),
        ("application/octet-stream", "x.thisistoolong", "zip"),
    ],
)
def test_the_extension_is_that_of_the_name_that_the_site_gives(content_type: str, name: str, extension: str) -> None:
    assert file_extension(content_type, name, "http://a/b", "http://a/x.zip") == extension


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("attachment; filename=manual.pdf", "manual.pdf"),
        ('inline;FileName="a b.pdf"', "a b.pdf"),
        (
            "attachment; filename*=UTF-8''Pr%C3%BCfbericht%202024.pdf; filename=\"Pruefbericht.pdf\"",
            "Prüfbericht 2024.pdf",
        ),
        ("attachment; filename=\"Pruefbericht.pdf\"; filename*=UTF-8'de'Pr%C3%BCf.pdf", "Prüf.pdf"),
        ("attachment; filename*=iso-8859-1''Pr%FCf.pdf", "Prüf.pdf"),
        ('attachment; filename="data;part=1.xlsx"', "data;part=1.xlsx"),
        ('attachment; filename="a \\"b\\" c.pdf"', "a _b_ c.pdf"),
        ('attachment; filename="Prüf.pdf"', "Prüf.pdf"),
        ("filename=x.pdf", "x.pdf"),
        ("attachment", ""),
        ("attachment; filename=", ""),
        ('attachment; filename=""', ""),
        ("attachment; name=x.pdf", ""),
        ("attachment; filename*=nosuchcharset''a%ff.pdf", "aÿ.pdf"),
        ("attachment; filename*=broken.pdf", "broken.pdf"),
        ("attachment; filename*=idna''xn--a; filename=x.pdf", "x.pdf"),
        ("attachment; filename*=undefined''x", ""),
        ("attachment; filename*=bz2''x.pdf", "x.pdf"),
        ("attachment; filename*=\0''x", ""),
        ('attachment; filename="' + ";" * 9_000, "_" + ";" * 254),
        (';;;=;="', ""),
        ("", ""),
        ('attachment; filename="../../etc/passwd"', "passwd"),
        ('attachment; filename=".."', ""),
        ("attachment; filename*=UTF-8''..%2F..%2Fx.pdf", "x.pdf"),
        ('attachment; filename="C:\\\\temp\\\\x.pdf"', "x.pdf"),
    ],
)
def test_the_name_in_a_content_disposition(value: str, name: str) -> None:
    assert name_of_answer((("etag", "x"), ("content-disposition", value))) == name
    assert name_of_answer(()) == ""


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://a/x/report.final.tar.gz?token=1", "report.final.tar.gz"),
        ("http://a/Pr%C3%BCf%20bericht.pdf#x", "Prüf bericht.pdf"),
        ("http://a/download?id=1", "download"),
        ("http://a/files/", "files"),
        ("http://a/", ""),
        ("http://a/%2e%2e%2f%2e%2e%2fetc", "etc"),
        ("http://a/..%5c..%5cx.exe", "x.exe"),
        ("http://a/x%00.pdf", "x.pdf"),
        ("http://a/%ff.pdf", "\ufffd.pdf"),
        ("http://[/x", ""),
    ],
)
def test_the_name_at_the_end_of_a_url(url: str, name: str) -> None:
    assert name_of_url(url) == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("NUL", "_NUL"), ("con.pdf", "_con.pdf"), ("Com1 .txt", "_Com1 .txt"), ("console.pdf", "console.pdf"),
        ("a\0b\n c\t.pdf", "ab c.pdf"), ("  .hidden. ", "hidden"), ("a<b>:c|?*.pdf", "a_b__c___.pdf"),
        ("\u202efdp.exe", "fdp.exe"), ("\ud800x", "x"), ("...", ""), ("x" * 4_000 + ".pdf", "x" * 251 + ".pdf"),
        ("é" * 4_000, "é" * 127), ("x." + "y" * 4_000, ("x." + "y" * 4_000)[:255]), (".", ""), ("/", ""),
    ],
)  # fmt: skip
def test_a_hostile_name_is_made_safe(written: str, name: str) -> None:
    assert safe_name(written) == name


@given(st.text(), st.text())
def test_a_name_is_always_that_of_a_file_in_one_folder(written: str, more: str) -> None:
    name = name_of_answer((("content-disposition", f"attachment; filename={written}; {more}"),))
    for one in (name, safe_name(written), safe_name(safe_name(more))):
        assert len(one.encode()) <= 255
        assert one not in (".", "..")
        assert not {*"/\\\0\n"} & {*one}


def test_the_note_of_an_answer_is_read_again() -> None:
    note = AnswerNote("h", (("If-None-Match", '"a"'),), "x.pdf")
    for one in (note, AnswerNote(name="x"), AnswerNote(), replace(note, name="")):
        assert AnswerNote.from_text(one.to_text()) == one
    assert AnswerNote.from_text('["h", [["If-None-Match", "\\"a\\""]]]') == replace(note, name=""), "of older data"
    assert AnswerNote("h").to_text() == ""


@given(st.text(), st.text())
def test_the_extension_is_letters_and_digits_whatever_the_server_says(content_type: str, name: str) -> None:
    extension = file_extension(content_type, name, f"http://a/{name}")
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
