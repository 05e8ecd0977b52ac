"""What an answer makes of the part of a file: limits, encodings, disk space, and what is no file."""

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawl_engine.files.file_download import FileDownload, FileLimits
from crawl_engine.files.file_part import FilePart
from crawl_engine.http.deadline import Deadlines
from crawl_engine.http.errors import FetchFailed, NoRoom
from crawl_engine.runtime.file_folder import FileFolder

URL = "http://a/x.pdf"
PDF = {"content-type": "application/pdf"}


class Download:
    """A part, and the answers that it gets."""

    def __init__(self, folder: Path) -> None:
        self.limits = FileLimits(max_file=1_000_000, min_free=0, folder=folder)
        self.part = FilePart(FileFolder(folder, "run"), "ab")
        self.part.open()
        self.threads = ThreadPoolExecutor(1)
        self.read = 0

    def receive(self, headers: dict[str, str], *pieces: bytes, status: int = 200) -> FileDownload:
        download = FileDownload(self.part, URL, self.limits, self.threads)

        async def body() -> AsyncIterator[bytes]:
            for piece in pieces:
                self.read += len(piece)
                yield piece

        async def work() -> None:
            download.request_headers(URL)
            with Deadlines(5).start() as deadline:
                await download.receive(URL, status, headers, body(), deadline)

        asyncio.run(work())
        return download

    def fails(self, headers: dict[str, str], *pieces: bytes, status: int = 200) -> str:
        with pytest.raises(FetchFailed) as caught:
            self.receive(headers, *pieces, status=status)
        return f"{caught.value.reason}{' (retry)' if caught.value.retryable else ''}"


@pytest.fixture
def download(tmp_path: Path) -> Iterator[Download]:
    made = Download(tmp_path)
    yield made
    made.part.close()
    made.threads.shutdown()


def test_the_content_is_written_and_hashed_and_its_beginning_kept(download: Download) -> None:
    content = b"%PDF" + b"x" * 300_000
    result = download.receive({**PDF, "content-length": str(len(content))}, content[:7], content[7:])
    assert (download.part.size, result.received, result.problem) == (len(content), len(content), None)
    assert download.part.digest == hashlib.sha256(content).hexdigest()
    assert result.head == content[:65536]


def test_an_empty_file_is_a_file(download: Download) -> None:
    download.receive({**PDF, "content-length": "0"})
    assert (download.part.size, download.part.digest) == (0, hashlib.sha256(b"").hexdigest())


def test_a_declared_size_over_the_limit_fails_before_it_is_read(download: Download) -> None:
    assert download.fails({"content-length": "5000000000"}, b"x") == "file over 1000000 bytes (max_file)"
    assert download.read == 0


def test_what_arrives_is_limited_as_sent_and_decoded(download: Download) -> None:
    assert download.fails({}, *[b"x" * 100_000] * 50) == "file over 1000000 bytes (max_file)"
    assert download.read <= 1_100_000
    bomb = gzip.compress(b"x" * 50_000_000)
    assert download.fails({"content-encoding": "gzip"}, bomb) == "file over 1000000 bytes (max_file)"
    assert download.part.size <= 1_000_000


def test_an_encoding_that_nobody_asked_for_is_decoded(download: Download) -> None:
    packed = gzip.compress(b"%PDF text")
    download.receive({**PDF, "content-encoding": "gzip", "content-length": str(len(packed)), "etag": '"v"'}, packed)
    assert download.part.digest == hashlib.sha256(b"%PDF text").hexdigest()
    assert download.fails({**PDF, "content-encoding": "gzip"}, packed[:-4]) == "bad encoding gzip (truncated) (retry)"


def test_an_archive_that_is_declared_as_its_own_encoding_stays_packed(download: Download) -> None:
    packed = gzip.compress(b"text")
    download.receive({"content-type": "application/x-gzip", "content-encoding": "gzip"}, packed)
    assert download.part.digest == hashlib.sha256(packed).hexdigest()


def test_a_page_is_no_file_and_not_read_on(download: Download) -> None:
    page = b"<!doctype html><input type=password>" + b"x" * 300_000
    result = download.receive({"content-type": "text/html"}, page, *[b"x" * 300_000] * 2)
    assert result.problem == "is a login page"
    assert (download.part.size, download.read) == (0, len(page))


def test_less_than_was_declared_is_retried_from_the_start(download: Download) -> None:
    assert download.fails({**PDF, "content-length": "10"}, b"%PDF") == "4 bytes instead of 10 (retry)"
    assert download.part.size == 0


def test_a_part_that_was_not_asked_for_is_refused(download: Download) -> None:
    headers = {**PDF, "content-range": "bytes 0-3/4"}
    assert download.fails(headers, b"%PDF", status=206) == "HTTP 206 (a part of the file, which was not asked for)"


def test_the_disk_is_asked_before_and_while_a_file_is_written(
    download: Download, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 10_000
    monkeypatch.setattr("crawl_engine.files.file_download.free_bytes", lambda _: free)
    download.limits = replace(download.limits, min_free=8_000, max_file=100_000_000)
    reason = download.fails({"content-length": "3000"}, b"x" * 3000)
    assert reason == "no room on the disk for 0.0 MB: 0.0 MB free, min_free is 0.0 MB (retry)"
    download.receive({"content-length": "2000"}, b"x" * 2000)
    free = 7_999
    with pytest.raises(NoRoom):
        download.receive({"content-length": "2000"}, b"x" * 2000)
    with pytest.raises(NoRoom):
        download.receive({}, *[b"x" * 1_000_000] * 20)
    assert download.read < 15_000_000


def test_a_full_disk_puts_a_file_off_and_another_error_retries_it(
    download: Download, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int, text: str) -> None:
        def write(_data: bytes) -> None:
            raise OSError(number, text)

        monkeypatch.setattr(download.part, "write", write)

    fail(28, "No space left on device")
    with pytest.raises(NoRoom):
        download.receive(PDF, b"%PDF")
    fail(5, "Input/output error")
    assert download.fails(PDF, b"%PDF") == "cannot write the file: Input/output error (retry)"
