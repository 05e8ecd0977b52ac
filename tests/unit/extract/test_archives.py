"""Compressed and archived documents: what they hold, and those that are damaged, encrypted or too many."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Mapping

import pytest
import zstandard

from crawl_engine.extract.documents import archives
from crawl_engine.extract.documents.archives import unpack
from crawl_engine.extract.documents.document_types import DocumentTooLarge, DocumentUnreadable, find_document_type
from crawl_engine.http.decode import is_binary

CSV = b"sku,name\nA-1,Cup\n"


def zipped(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(files: Mapping[str, bytes], mode: str = "w") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("feed.csv.gz", gzip.compress(CSV)),
        ("feed.csv.gz", gzip.compress(CSV[:5]) + gzip.compress(CSV[5:])),
        ("feed.csv.bz2", bz2.compress(CSV)),
        ("feed.csv.xz", lzma.compress(CSV)),
        ("feed.csv.zst", zstandard.compress(CSV)),
        ("feed.csv.zst", zstandard.compress(CSV[:5]) + zstandard.compress(CSV[5:])),
        ("x.zip", zipped({"feed.csv": CSV, "__MACOSX/._feed.csv": b"x", ".DS_Store": b"x", "folder/": b""})),
        ("x.tar", tarred({"feed.csv": CSV, "./._feed.csv": b"x"})),
        ("x.tgz", tarred({"feed.csv": CSV}, "w:gz")),
        ("x.tar.xz", tarred({"feed.csv": CSV}, "w:xz")),
    ],
    ids=["gz", "gz-2", "bz2", "xz", "zst", "zst-2", "zip", "tar", "tgz", "tar-xz"],
)
@pytest.mark.parametrize("content_type", ["application/octet-stream", "", "text/csv", "application/x-gzip"])
def test_the_only_file_is_found_whatever_the_type_says(name: str, body: bytes, content_type: str) -> None:
    assert is_binary(body, content_type) or body.startswith(b"BZh") or name == "x.tar"
    type_ = find_document_type(body, content_type)
    assert type_ is not None
    assert type_.is_archive
    (member,) = unpack(body, name).members
    assert (member.name, member.read()) == ("feed.csv", CSV)


def test_other_documents_that_are_archives_are_none() -> None:
    sheet = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    for content_type in (sheet, "application/epub+zip", "application/java-archive"):
        assert find_document_type(zipped({"a": b""}), content_type) is None


def test_files_are_found_by_their_names() -> None:
    archive = unpack(zipped({"in/a.csv": CSV, "b.csv": CSV, "../../etc/x.txt": b"x", "\x1b[31m.csv": b""}), "x.zip")
    assert [one.name for one in archive.find("*.csv")] == ["in/a.csv", "b.csv", "\x1b[31m.csv"]
    assert [one.name for one in archive.find("a.csv")] == ["in/a.csv"]
    assert [one.name for one in archive.find("in/?.csv")] == ["in/a.csv"]
    assert [one.name for one in archive.find("x.txt")] == ["../../etc/x.txt"], "a name, and no path"
    assert archive.describe() == "4 files, such as 'in/a.csv', 'b.csv', '../../etc/x.txt'"


@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(CSV)[:-3], b"\x1f\x8b" + b"x" * 50, bz2.compress(CSV)[:-3], lzma.compress(CSV)[:-3],
        zstandard.compress(CSV * 9)[:-3], b"\x28\xb5\x2f\xfd" + b"\xff" * 20, b"PK\x03\x04" + b"x" * 50,
        zipped({"a.csv": CSV})[:-10],
    ],
    ids=["gz", "gz-head", "bz2", "xz", "zst", "zst-head", "zip-head", "zip"],
)  # fmt: skip
def test_what_is_damaged_is_said(body: bytes) -> None:
    with pytest.raises(DocumentUnreadable, match="damaged"):
        unpack(body, "x")


def test_a_damaged_and_an_encrypted_file_in_an_archive() -> None:
    body = bytearray(zipped({"a.csv": CSV * 50}))
    body[45] ^= 0xFF
    with pytest.raises(DocumentUnreadable, match="damaged"):
        unpack(bytes(body), "x.zip").members[0].read()
    body = bytearray(zipped({"a.csv": CSV}))
    body[6] |= 1  # the local header, and the directory
    body[body.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(DocumentUnreadable, match="encrypted"):
        unpack(bytes(body), "x.zip").members[0].read()


def test_too_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    for body in (zipped({f"{n}.csv": b"" for n in range(4)}), tarred({f"{n}.csv": b"" for n in range(4)})):
        with pytest.raises(DocumentTooLarge, match="more than 3 files"):
            unpack(body, "x")
