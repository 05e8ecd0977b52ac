"""An S3-like server on the loopback address: PUT, multipart uploads, HEAD, GET, deletions, and faults."""

import contextlib
import hashlib
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "crawler", "AWS_SECRET_ACCESS_KEY": "s3cret-key", "AWS_REGION": "us-east-1"}


class ObjectStore:
    """`objects`: the content by `/bucket/key`; `versions`: all contents that an object had, in order."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.versions: dict[str, list[bytes]] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.numbers = count(1)
        self.fault: tuple[int, str] | None = None
        """Status and code of every answer to a write."""
        self.is_write_only = False
        self.pause = 0.0
        """Seconds before each answer to a write."""
        self.requests: list[str] = []
        store = self

        class Handler(_Handler):
            server_store = store

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """What a crawl needs in its environment to write here."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server.server_address[1]}"}

    def put(self, path: str, content: bytes) -> str:
        self.objects[path] = content
        self.versions.setdefault(path, []).append(content)
        return f'"{hashlib.md5(content).hexdigest()}"'

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def running_store() -> Iterator[ObjectStore]:
    """A store that ends with the block."""
    store = ObjectStore()
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def object_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """A store that the environment names."""
    with running_store() as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        yield store


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_store: ObjectStore

    def do_GET(self) -> None:
        content = self.server_store.objects.get(self._path())
        if self._refuse():
            return
        if content is None:
            self._answer(404, _xml("Error", Code="NoSuchKey", Message="of the test"))
            return
        self._answer(200, content, ETag='"1"', **{"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"})

    def do_HEAD(self) -> None:
        content = self.server_store.objects.get(self._path())
        self.server_store.requests.append(f"HEAD {self._path()}")
        if self.server_store.is_write_only:
            self._answer(403)
            return
        if content is None:
            self._answer(404)
            return
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        self._answer(200, length=len(content), ETag=tag, **{"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"})

    def do_PUT(self) -> None:
        body, store, query = self._body(), self.server_store, self._query()
        if self._refuse():
            return
        if "uploadId" in query:
            store.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
            self._answer(200, ETag=f'"part{query["partNumber"][0]}"')
            return
        self._answer(200, ETag=store.put(self._path(), body))

    def do_POST(self) -> None:
        body, store, query = self._body(), self.server_store, self._query()
        if self._refuse():
            return
        if "delete" in query:
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for key in keys:
                store.objects.pop(f"{self._path().rstrip('/')}/{key}", None)
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())
            return
        if "uploadId" not in query:
            upload = f"u{next(store.numbers)}"
            store.uploads[upload] = {}
            self._answer(200, _xml("InitiateMultipartUploadResult", Bucket="b", Key="k", UploadId=upload))
            return
        parts = store.uploads.pop(query["uploadId"][0])
        numbers = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
        tag = store.put(self._path(), b"".join(parts[number] for number in sorted(numbers)))
        self._answer(200, _xml("CompleteMultipartUploadResult", Location="l", Bucket="b", Key="k", ETag=tag))

    def do_DELETE(self) -> None:
        self.server_store.uploads.pop(self._query().get("uploadId", [""])[0], None)
        self._answer(204)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def _path(self) -> str:
        return unquote(urlsplit(self.path).path)

    def _query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query, keep_blank_values=True)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _refuse(self) -> bool:
        store = self.server_store
        store.requests.append(f"{self.command} {self.path}")
        time.sleep(store.pause)
        if store.fault is None:
            return False
        status, code = store.fault
        self._answer(status, _xml("Error", Code=code, Message=f"{code} of the test"))
        return True

    def _answer(self, status: int, body: bytes = b"", *, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)


def _xml(name: str, **values: str) -> bytes:
    inner = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in values.items())
    return f"<{name}>{inner}</{name}>".encode()
