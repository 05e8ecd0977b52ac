"""Writes the stored pages of a run as a WARC file; a body that it has already is a revisit record."""

import hashlib
import http.client
from base64 import b32encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, BinaryIO

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from crawl_engine import __version__
from crawl_engine.store.db.connector import Database
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.read import stored_documents
from crawl_engine.store.read.stored_documents import StoredDocument
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.store.transactions.unused import list_used_by

_OF_ENCODING = frozenset({"content-encoding", "transfer-encoding", "content-length"})
"""Bodies are stored decoded: these headers would be wrong."""
_MAX_RECORD = 64 * 1024
"""A failed answer of this length may have been longer."""


class WarcExport:
    """Writes one file."""

    def __init__(self, db: Database, pages: PageStore, run: Run, stream: BinaryIO, *, gzip: bool) -> None:
        self._db = db
        self._pages = pages
        self._run = run
        self._writer = WARCWriter(stream, gzip=gzip)
        self._written: dict[bytes, int] = {}
        """By SHA-1 of a body the document whose record has it."""
        self.missing = 0
        """Pages whose body is lost."""

    def write(self, on_page: Callable[[int], None]) -> None:
        """Write all pages that the run fetched, found unchanged or used. `on_page` is called with 1 for each."""
        info = {
            "software": f"crawl-console/{__version__}",
            "format": "WARC File Format 1.0",
            "isPartOf": f"run {self._run.id}",
            "description": "bodies are decoded; headers of their encoding are left out",
        }
        self._writer.write_record(self._writer.create_warcinfo_record("", info))
        used = list_used_by(self._db, [self._run.seq])
        for document in stored_documents.iterate(self._db, oldest_first=True):
            if document.id in used:
                for record in self._records(document):
                    self._writer.write_record(record)
                on_page(1)

    def _records(self, document: StoredDocument) -> Iterator[Any]:
        body = self._pages.read(document.id)
        if body is None:
            self.missing += 1
            return
        sha1 = hashlib.sha1(body, usedforsecurity=False).digest()
        digest = f"sha1:{b32encode(sha1).decode()}"
        headers = self._http_headers(document, len(body))
        first = self._written.setdefault(sha1, document.id)
        if first != document.id:
            yield self._revisit(document, first, digest, _to_date(document.fetched_at), headers)
        else:
            yield self._response(document, body, digest, headers)
        if document.checked_at is not None and document.checked_run == self._run.id:
            yield self._revisit(document, first, digest, _to_date(document.checked_at), None)

    def _response(self, document: StoredDocument, body: bytes, digest: str, headers: StatusAndHeaders) -> Any:
        named = {"WARC-Date": _to_date(document.fetched_at), "WARC-Payload-Digest": digest}
        if document.is_record and len(body) == _MAX_RECORD:
            named["WARC-Truncated"] = "length"
        return self._writer.create_warc_record(
            document.url, "response", payload=BytesIO(body), length=len(body), http_headers=headers,
            warc_headers_dict=named,
        )  # fmt: skip

    def _revisit(
        self, document: StoredDocument, first: int, digest: str, date: str, headers: StatusAndHeaders | None
    ) -> Any:
        original = stored_documents.get(self._db, first)
        assert original is not None, "it was written in this snapshot"
        return self._writer.create_revisit_record(
            document.url, digest, original.url, _to_date(original.fetched_at), http_headers=headers,
            warc_headers_dict={"WARC-Date": date},
        )  # fmt: skip

    def _http_headers(self, document: StoredDocument, size: int) -> StatusAndHeaders:
        stored = self._pages.list_headers([document.id]).get(document.id, ())
        kept = [(name, value) for name, value in stored if name.lower() not in _OF_ENCODING]
        phrase = http.client.responses.get(document.status, "")
        return StatusAndHeaders(
            f"{document.status} {phrase}".strip(), [*kept, ("content-length", str(size))], protocol="HTTP/1.1"
        )


def _to_date(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
