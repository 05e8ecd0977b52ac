"""The parts of the files that a node is downloading, by job."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from crawl_engine.files.file_download import FileDownload, FileLimits
from crawl_engine.files.file_part import FilePart
from crawl_engine.model.file import AnswerNote, StoredFile
from crawl_engine.model.job import LeasedJob, file_key
from crawl_engine.runtime.file_folder import FileFolder
from crawl_engine.settings import Settings
from crawl_engine.store.tables.row.files import EarlierFile

_T = TypeVar("_T")
_THREADS = 4
"""Threads that write, hash and flush; a disk is not faster with more."""


class FileParts:
    """One for each node."""

    def __init__(self, folder: FileFolder, settings: Settings) -> None:
        self._folder = folder
        self._limits = FileLimits(settings.max_file, settings.min_free, folder.output)
        self._threads = ThreadPoolExecutor(_THREADS, "files")
        self._open: dict[tuple[int, int], FilePart] = {}

    async def open(self, job: LeasedJob) -> FilePart:
        """Open the part of the job's file. Raises PartInUse, OSError and StorageError."""
        part = self._open[job.lease_key] = FilePart(self._folder, file_key(job.url).hex())
        await self.run(part.open)
        return part

    def hold(self, part: FilePart, earlier: EarlierFile) -> Awaitable[bool]:
        """Hold the file of an earlier run for a part; False if it is missing or damaged."""
        source = self._folder.output.parent / earlier.run / earlier.file.path
        return self.run(partial(part.hold, source, earlier.file, AnswerNote.from_text(earlier.validators)))

    async def run(self, work: Callable[[], _T]) -> _T:
        """Work on the disk in a thread of its own: the event loop's threads resolve names."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def download(self, job: LeasedJob) -> FileDownload:
        """A request for the job's file, whose part is open."""
        return FileDownload(self._open[job.lease_key], job.url, self._limits, self._threads)

    async def keep(self, name: str, stored: StoredFile, content: bytes | EarlierFile) -> bool:
        """Give the run a whole file; False: that of an earlier run is missing or damaged.

        `name`: of its part, in hex. Raises PartInUse, OSError.
        """
        return await self.run(partial(self._keep, FilePart(self._folder, name), stored, content))

    def _keep(self, part: FilePart, stored: StoredFile, content: bytes | EarlierFile) -> bool:
        part.open()
        try:
            if isinstance(content, EarlierFile):
                if not part.hold(self._folder.output.parent / content.run / content.file.path, content.file):
                    return False
            else:
                part.start(None)
                part.write(content)
            part.finish(stored)
            part.forget_note()
        finally:
            part.close()
        return True

    def close(self, job: LeasedJob, *, discard: bool) -> None:
        """Close the part after all pending writes; its content stays unless it is to be discarded."""
        part = self._open.pop(job.lease_key, None)
        if part is not None:
            if discard:
                part.discard_later()
            asyncio.get_running_loop().run_in_executor(self._threads, part.close)
