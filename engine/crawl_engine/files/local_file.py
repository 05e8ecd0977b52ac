"""Reads the file of a `file:` URL as if it were a response, under the same bounds."""

import asyncio
import mimetypes
import os
import stat
from time import perf_counter
from urllib.parse import unquote, urlsplit

from crawl_engine.http.byte_budget import BodyShare
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.response import FetchResponse


async def read_file(url: str, *, max_body: int, share: BodyShare) -> FetchResponse:
    """The file of a normalized `file:` URL, in a thread. Raises FetchFailed; also for a directory or device."""
    start = perf_counter()
    path = unquote(urlsplit(url).path)
    descriptor = await asyncio.to_thread(_open, path)
    try:
        size = os.fstat(descriptor).st_size
        if size > max_body:
            raise FetchFailed(f"larger than max_body ({max_body:,} bytes)", kind="too-large", retryable=False)
        await share.grow(size)
        body = await asyncio.to_thread(_read, descriptor, size)
    finally:
        os.close(descriptor)
    content_type, _ = mimetypes.guess_type(path)
    return FetchResponse(
        url=url, status=200, headers=(), body=body, received=len(body), elapsed=perf_counter() - start,
        content_type=content_type or "", location=None, location_problem=None, retry_after=None,
    )  # fmt: skip


def _open(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not block
    except OSError as error:
        raise _failure(error) from error
    except ValueError as error:  # a NUL
        raise FetchFailed("not the name of a file", kind="file", retryable=False) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FetchFailed("not a regular file", kind="file", retryable=False)
    return descriptor


def _read(descriptor: int, size: int) -> bytes:
    """The first `size` bytes: bytes that are written meanwhile belong to the next crawl."""
    pieces = []
    try:
        while size > 0 and (piece := os.read(descriptor, size)):
            pieces.append(piece)
            size -= len(piece)
    except OSError as error:
        raise _failure(error) from error
    return b"".join(pieces)


def _failure(error: OSError) -> FetchFailed:
    lasting = isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError)
    return FetchFailed((error.strerror or str(error)).lower(), kind="file", retryable=not lasting)
