"""Downloads a file: asks for the missing rest (Range, If-Range), checks sizes, writes the part."""

import asyncio
import contextlib
import errno
import hashlib
import re
from collections.abc import AsyncIterable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from msgspec import Struct

from crawl_engine.errors import megabytes
from crawl_engine.files.file_part import FilePart, PartNote
from crawl_engine.http.deadline import Deadline
from crawl_engine.http.decompress import open_decompressor
from crawl_engine.http.errors import FetchFailed, NoRoom
from crawl_engine.http.exchange import WireBody
from crawl_engine.http.response import FILE_STATUSES
from crawl_engine.late_regex import late_regex
from crawl_engine.model.file import AnswerNote, bare_type, refuse_page
from crawl_engine.runtime.disk_space import free_bytes

HEAD_BYTES = 64 * 1024
"""Bytes at the beginning of a file that are checked: for a login page, a challenge, the kind of content."""
MIN_RATE = 2_000
"""Bytes per second, over a `deadline`, below which a download has timed out: it may take hours, but not stand still."""
_BUFFER_BYTES = 256 * 1024
_BYTES_PER_SPACE_CHECK = 8_000_000
_PARTIAL, _NO_SUCH_RANGE = 206, 416
_T = TypeVar("_T")
_P = ParamSpec("_P")
_GZIP_TYPES = frozenset({"application/gzip", "application/x-gzip", "application/x-tar", "application/x-tgz"})
"""Archives that servers declare as their own encoding; browsers keep them packed, too."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_STRONG_TAG = late_regex(r'"[\x21\x23-\x7e]{1,200}"')
_DATE_SECONDS = 60.0
"""A file that changed less than this before its answer may have changed again in the same second."""
_CONTENT_RANGE = late_regex(r"bytes\s+([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", re.IGNORECASE)


class ContentRange(NamedTuple):
    """The part of a file that an answer has."""

    start: int
    end: int
    """Of the last byte."""
    total: int | None


def parse_content_range(value: str) -> ContentRange | None:
    """The value of a Content-Range; None: it is not valid."""
    match = _CONTENT_RANGE.fullmatch(value.strip())
    if match is None:
        return None
    start, end, total = int(match[1]), int(match[2]), None if match[3] == "*" else int(match[3])
    valid = start <= end and (total is None or end < total)
    return ContentRange(start, end, total) if valid else None


def find_validator(headers: Mapping[str, str]) -> str | None:
    """A validator for `If-Range` that tells whether the file is still the same; None: the file starts again.

    A strong ETag; else a Last-Modified that lies well before the answer. `headers`: names in lower case.
    """
    tag = headers.get("etag", "").strip()
    if tag:
        return tag if _STRONG_TAG.fullmatch(tag) else None
    modified = headers.get("last-modified", "").strip()
    try:
        age = (parsedate_to_datetime(headers.get("date", "")) - parsedate_to_datetime(modified)).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return modified if age >= _DATE_SECONDS and modified.isascii() and modified.isprintable() else None


def may_continue(headers: Mapping[str, str]) -> bool:
    """Whether the server may send the rest of this answer later: not if it refuses, or encodes the content."""
    encoding = headers.get("content-encoding", "").strip().lower()
    return headers.get("accept-ranges", "").strip().lower() != "none" and encoding in ("", "identity")


def declared_length(headers: Mapping[str, str]) -> int | None:
    """The bytes of the body by Content-Length; None: unknown."""
    text = headers.get("content-length", "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


class FileLimits(Struct, frozen=True):
    """Bounds of a download."""

    max_file: int
    """Bytes, as sent and decoded."""
    min_free: int
    """Bytes that stay free on the disk; 0: it is not checked."""
    folder: Path
    """The place for checks of disk space."""


class FileDownload:
    """One request for a file, in an event loop."""

    def __init__(self, part: FilePart, job_url: str, limits: FileLimits, threads: Executor) -> None:
        """`part`: open. `job_url`: as the page names it. `threads`: for the work on the disk."""
        self._threads = threads
        self._part = part
        self._job_url = job_url
        self._limits = limits
        self._continues_at = 0
        self._unchecked = 0
        self._window = 0
        self.head = b""
        """The first bytes of the file."""
        self.received = 0
        """Bytes of the body, as sent."""
        self.problem: str | None = None
        """Why the answer is not the file; the rest of it is not read."""

    def request_headers(self, url: str) -> dict[str, str]:
        """The headers to add to the request to this URL: those that continue the part, or ask for a newer file."""
        headers = {"Accept-Encoding": "identity"}
        note = self._part.note
        if note is not None and note.url == _hash_url(url) and self._part.earlier_size < self._limits.max_file:
            self._continues_at = self._part.earlier_size
            headers |= {"Range": f"bytes={self._continues_at}-", "If-Range": note.validator}
        elif self._part.held is not None and self._part.answer.sender == _hash_url(url):
            headers |= dict(self._part.answer.conditions)  # those of another URL say nothing
        return headers

    async def read(
        self, url: str, status: int, headers: Mapping[str, str], body: WireBody, deadline: Deadline
    ) -> bytes:
        """Read a response of any status; returns the beginning of its content. See `receive`."""
        try:
            if status in FILE_STATUSES:
                await self.receive(url, status, headers, body, deadline)
                return self.head
            if status == _NO_SUCH_RANGE and self.continues:
                await self.refuse_range()
            with contextlib.suppress(FetchFailed):
                return await body.read_start(HEAD_BYTES)
            return b""
        finally:
            body.close()

    async def receive(
        self, url: str, status: int, headers: Mapping[str, str], body: AsyncIterable[bytes], deadline: Deadline
    ) -> None:
        """Write the body of a 200 or 206 to the part. `headers`: names in lower case.

        `deadline` begins again with progress.
        Raises FetchFailed; NoRoom where the disk is nearly full; and what reading the body raises.
        """
        expected = await self._prepare(url, status, headers)
        deadline.restart()
        await self._read(headers, body, deadline)
        if self.problem is None and expected is not None and self._part.size != expected:
            text = f"{self._part.size:,} bytes instead of {expected:,}"
            await self._forget()
            raise FetchFailed(text, kind="connection", retryable=True)

    async def refuse_range(self) -> None:
        """The server has no such part: the next attempt starts again. Raises FetchFailed."""
        await self._forget()
        raise FetchFailed("the server cannot continue the file; it starts again", kind="protocol", retryable=True)

    @property
    def continues(self) -> bool:
        """Whether the request asks for the rest of the file alone."""
        return self._continues_at > 0

    async def _prepare(self, url: str, status: int, headers: Mapping[str, str]) -> int | None:
        """Position the part; returns the size of the whole file, None if unknown."""
        length = declared_length(headers)
        if status == _PARTIAL:
            return await self._continue(headers, length)
        encoded = not may_continue(headers)
        self._continues_at = 0  # the server sends it from its first byte
        self._check_size(length or 0)
        validator = None if encoded else find_validator(headers)
        note = None if validator is None else PartNote(_hash_url(url), validator, length)
        await self._on_disk(self._part.start, note)
        return None if encoded else length

    async def _continue(self, headers: Mapping[str, str], length: int | None) -> int | None:
        note, part_range = self._part.note, parse_content_range(headers.get("content-range", ""))
        if not self.continues or note is None:
            raise FetchFailed(
                "HTTP 206 (a part of the file, which was not asked for)", kind="protocol", retryable=False
            )
        tag = headers.get("etag", "").strip()
        total = note.total if part_range is None or part_range.total is None else part_range.total
        fits = (
            part_range is not None
            and part_range.start == self._continues_at
            and may_continue(headers)
            and note.total in (None, total)
            and (not tag or not note.validator.startswith('"') or tag == note.validator)
            and (total is None or part_range.end == total - 1)
        )
        if not fits or part_range is None:
            await self.refuse_range()
            return None
        self._check_size(length or 0, before=self._continues_at)
        await self._on_disk(self._part.resume)
        self.head = await self._on_disk(self._part.read_start, HEAD_BYTES)
        return part_range.end + 1

    async def _read(self, headers: Mapping[str, str], body: AsyncIterable[bytes], deadline: Deadline) -> None:
        decode = self._open_decoder(headers)
        buffer = bytearray()
        content_type, is_checked = headers.get("content-type", ""), False
        async for piece in body:
            self.received += len(piece)
            self._check_size(0, before=self.received + self._continues_at)
            self._note_progress(len(piece), deadline)
            for decoded in decode(piece):
                buffer += decoded
                if len(buffer) >= _BUFFER_BYTES:
                    if not is_checked and self._find_problem(content_type, buffer):
                        return
                    is_checked = True
                    await self._write(buffer)
                    buffer = bytearray()
        for decoded in decode(b""):
            buffer += decoded
        if is_checked or not self._find_problem(content_type, buffer):
            await self._write(buffer)

    def _find_problem(self, content_type: str, buffer: bytearray) -> bool:
        """Check the beginning: True if it is not that of the file."""
        if not self.head:
            self.head = bytes(buffer[:HEAD_BYTES])
        self.problem = refuse_page(self._job_url, content_type, self.head)
        return self.problem is not None

    async def _write(self, buffer: bytearray) -> None:
        self._unchecked += len(buffer)
        if self._unchecked >= _BYTES_PER_SPACE_CHECK:
            self._unchecked = 0
            self._check_space(0)
        self._check_size(0, before=self._part.size + len(buffer))
        await self._on_disk(self._part.write, bytes(buffer))

    def _open_decoder(self, headers: Mapping[str, str]) -> "_Decoder":
        encoding = headers.get("content-encoding", "")
        packed = encoding.strip().lower() in ("gzip", "x-gzip")
        if packed and bare_type(headers.get("content-type", "")) in _GZIP_TYPES:
            return _Decoder("", 0)
        return _Decoder(encoding, self._limits.max_file + _BYTES_PER_SPACE_CHECK)  # the check of the part comes first

    def _note_progress(self, count: int, deadline: Deadline) -> None:
        self._window += count
        if self._window >= MIN_RATE * deadline.seconds:
            self._window = 0
            deadline.restart()

    def _check_size(self, declared: int, *, before: int = 0) -> None:
        """Raise FetchFailed for a file that is too large, or larger than the room on the disk."""
        if before + declared > self._limits.max_file:
            text = f"file over {self._limits.max_file} bytes (max_file)"
            remedy = "Raise the setting max_file to download such files."
            raise FetchFailed(text, kind="too-large", retryable=False, remedy=remedy)
        if declared:
            self._check_space(declared)

    def _check_space(self, needed: int) -> None:
        """Raise NoRoom if the disk is nearly full, FetchFailed if so many bytes would fill it."""
        free = free_bytes(self._limits.folder) if self._limits.min_free else None
        if free is None or free >= self._limits.min_free + needed:
            return
        if free < self._limits.min_free:
            raise NoRoom
        text = f"no room on the disk for {megabytes(needed)}: {megabytes(free)} free"
        raise FetchFailed(f"{text}, min_free is {megabytes(self._limits.min_free)}", kind="file", retryable=True)

    async def _on_disk(self, work: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
        """Work on the part, in a thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments, **named))
        except OSError as error:
            if error.errno in _DISK_FULL:
                raise NoRoom from error
            text = f"cannot write the file: {error.strerror or error}"
            raise FetchFailed(text, kind="file", retryable=True) from error

    async def _forget(self) -> None:
        self._part.note = None
        await self._on_disk(self._part.start, None)


class _Decoder:
    """Decodes a body piece by piece; an empty piece ends it."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._decompressor = open_decompressor(encoding, limit)

    def __call__(self, piece: bytes) -> Iterator[bytes]:
        if self._decompressor is None:
            return iter((piece,))
        return self._decompressor.feed(piece) if piece else self._decompressor.finish()


def note_answer(url: str, conditions: Sequence[tuple[str, str]], name: str) -> AnswerNote:
    """The note of the answer of this URL. `conditions`, `name`: as it has them."""
    return AnswerNote(_hash_url(url), tuple(conditions), name)


def _hash_url(url: str) -> str:
    """URLs may hold signatures: they are not written down."""
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
