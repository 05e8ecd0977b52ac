"""A WARC file of stored pages is read by warcio's own reader: records, dates, digests, revisits."""

import io
from collections.abc import Iterator, Sequence

import pytest
from warcio.archiveiterator import ArchiveIterator

from crawl_engine.append.warc import WarcExport
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.documents import CheckedDocument, NewDocument
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.run import runs
from tests.contract.store.harness import StoreHarness, document

PROFILE = "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest"


class Record:
    """What a test looks at."""

    def __init__(self, record: object) -> None:
        self.named = dict(record.rec_headers.headers)  # type: ignore[attr-defined]
        self.kind, self.http = self.named["WARC-Type"], record.http_headers  # type: ignore[attr-defined]
        self.content = record.content_stream().read()  # type: ignore[attr-defined]
        assert record.digest_checker.passed is not False, record.digest_checker.problems  # type: ignore[attr-defined]


@pytest.fixture
def pages(store: StoreHarness) -> Iterator[PageStore]:
    opened = PageStore(store.folder)
    yield opened
    opened.close()


def fetch(store: StoreHarness, pages: PageStore, new: NewDocument) -> int:
    documents.find_equal(store.db, [new])
    (page,) = pages.add([new])
    with store.db.transaction():
        documents.add(store.db, store.run, [(page, new)])
    return page


def read(stream: io.BytesIO) -> list[Record]:
    stream.seek(0)
    return [Record(record) for record in ArchiveIterator(stream, check_digests="raise")]


def export(store: StoreHarness, pages: PageStore, *, gzip: bool = True, missing: int = 0) -> list[Record]:
    stream, counted = io.BytesIO(), list[int]()
    writer = WarcExport(store.db, pages, runs.get(store.db, store.run), stream, gzip=gzip)
    writer.write(counted.append)
    assert writer.missing == missing
    assert stream.getvalue().startswith(b"\x1f\x8b" if gzip else b"WARC/1.0")
    info, *records = read(stream)
    assert info.kind == "warcinfo"
    assert b"software: crawl-console/" in info.content
    return records


def kinds(records: Sequence[Record]) -> list[str]:
    return [record.kind for record in records]


@pytest.mark.parametrize("gzip", [True, False])
def test_a_page_is_a_response_record(store: StoreHarness, pages: PageStore, gzip: bool) -> None:
    new = document("http://a/caf%C3%A9?x=1", "<p>é</p>".encode() * 100, at=1_700_000_000.9)
    new.headers = (
        ("content-type", "text/html"), ("content-encoding", "br"), ("Transfer-Encoding", "chunked"),
        ("content-length", "17"), ("x-name", "Zoë"), ("set-cookie", "a=***"), ("set-cookie", "b=***"),
    )  # fmt: skip
    fetch(store, pages, new)
    [record] = export(store, pages, gzip=gzip)
    assert record.kind == "response"
    assert record.named["WARC-Target-URI"] == "http://a/caf%C3%A9?x=1"
    assert record.named["WARC-Date"] == "2023-11-14T22:13:20Z"
    assert record.content == "<p>é</p>".encode() * 100
    assert record.http.statusline == "200 OK"
    names = [name.lower() for name, _ in record.http.headers]
    assert names == ["content-type", "x-name", "set-cookie", "set-cookie", "content-length"]
    assert record.http.get_header("content-length") == str(len(record.content))


@pytest.mark.parametrize("status", [404, 299, 599])
def test_any_status_and_an_empty_body_are_written(store: StoreHarness, pages: PageStore, status: int) -> None:
    new = document("http://a/", b"")
    new.status = status
    fetch(store, pages, new)
    [record] = export(store, pages)
    assert (record.content, record.http.get_statuscode()) == (b"", str(status))


def test_an_equal_body_is_a_revisit_of_the_first(store: StoreHarness, pages: PageStore) -> None:
    for at, url in enumerate(("http://a/1", "http://a/1", "http://a/other")):
        fetch(store, pages, document(url, b"same", at=float(at)))
    first, *revisits = export(store, pages)
    assert (first.kind, kinds(revisits)) == ("response", ["revisit", "revisit"])
    for at, revisit in enumerate(revisits, 1):
        assert revisit.named["WARC-Profile"] == PROFILE
        assert revisit.named["WARC-Payload-Digest"] == first.named["WARC-Payload-Digest"]
        assert revisit.named["WARC-Refers-To-Target-URI"] == "http://a/1"
        assert revisit.named["WARC-Refers-To-Date"] == first.named["WARC-Date"] == "1970-01-01T00:00:00Z"
        assert revisit.named["WARC-Date"] == f"1970-01-01T00:00:0{at}Z"
        assert revisit.http.get_header("content-type") == "text/html"


def test_a_page_that_was_called_unchanged_is_a_response_and_a_revisit(store: StoreHarness, pages: PageStore) -> None:
    page = fetch(store, pages, document("http://a/1", b"x", at=5.0))
    with store.db.transaction():
        store.run = runs.create(store.db, None, 0.0).seq
        documents.mark_checked(store.db, store.run, [CheckedDocument(page, 60.0)])
    response, revisit = export(store, pages)
    assert (response.kind, response.named["WARC-Date"]) == ("response", "1970-01-01T00:00:05Z")
    assert (revisit.kind, revisit.named["WARC-Date"]) == ("revisit", "1970-01-01T00:01:00Z")
    assert revisit.named["WARC-Refers-To-Date"] == "1970-01-01T00:00:05Z"
    store.run = 1
    assert kinds(export(store, pages)) == ["response"], "to its own run the site did not say so"


def test_pages_of_other_runs_and_deleted_ones_are_left_out(store: StoreHarness, pages: PageStore) -> None:
    kept, pruned, lost = (fetch(store, pages, document(f"http://a/{n}", b"%d" % n)) for n in range(3))
    with store.db.transaction():
        documents.mark_pruned(store.db, [pruned])
    pages.delete([pruned, lost])
    assert [record.named["WARC-Target-URI"] for record in export(store, pages, missing=1)] == ["http://a/0"]
    assert kept
    with store.db.transaction():
        store.run = runs.create(store.db, None, 0.0).seq
    assert export(store, pages) == []


def test_the_beginning_of_a_failed_answer_is_marked_as_cut(store: StoreHarness, pages: PageStore) -> None:
    for size in (65_536, 10):
        new = document("http://a/", b"x" * size)
        new.keys = ()
        fetch(store, pages, new)
    cut, whole = export(store, pages)
    assert (cut.named.get("WARC-Truncated"), whole.named.get("WARC-Truncated")) == ("length", None)
