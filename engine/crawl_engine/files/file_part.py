"""Stores a file's partial download on disk: starts, resumes and completes it."""

import contextlib
import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from crawl_engine.model.file import NO_ANSWER, AnswerNote, StoredFile
from crawl_engine.runtime.clock import boot_id
from crawl_engine.runtime.file_folder import FileFolder
from crawl_engine.runtime.file_lock import try_lock_file
from crawl_engine.runtime.private_file import create_draft, open_private

_READ_BYTES = 1_000_000


class PartInUse(Exception):
    """Another download of the file is ending."""


class PartNote(Struct, frozen=True):
    """What must hold for a download to continue: the URL that answered, by its hash, and the validator of the file."""

    url: str
    validator: str
    total: int | None
    """Bytes of the whole file."""


class FilePart:
    """One file. Every method may block: call them in a thread. A lock lets an interrupted one end before the next."""

    def __init__(self, folder: FileFolder, name: str) -> None:
        """`name`: the identity of the job, in hex."""
        self._folder = folder
        self._path, self._note_path = folder.part(name), folder.note(name)
        self._fd: int | None = None
        self._lock = threading.Lock()
        self._is_discarded = False
        self._hash = hashlib.sha256()
        self.size = 0
        """Bytes that are written and hashed."""
        self.note: PartNote | None = None
        """Of the part that an earlier attempt left; None: it starts again."""
        self.earlier_size = 0
        self._held_path = folder.held(name)
        self.held: StoredFile | None = None
        """The file of an earlier run, held for this one."""
        self.answer = NO_ANSWER
        """Of the held file."""
        self.finished: StoredFile | None = None
        """The whole file, which an earlier attempt completed without recording that."""

    def open(self) -> None:
        """Open the part, and read the state that an earlier attempt left. Raises PartInUse and OSError."""
        with self._lock:
            self._folder.create()
            fd = open_private(self._path, os.O_RDWR)
            if not try_lock_file(fd, self._path) or not _is_in_place(fd, self._path):
                os.close(fd)
                raise PartInUse
            self._fd = fd
            self.earlier_size = os.fstat(fd).st_size
            self._read_note()

    def start(self, note: PartNote | None) -> None:
        """Begin with the first byte. `note`: None if the download cannot be continued later. Raises OSError."""
        with self._lock:
            os.ftruncate(self._open_fd, 0)
            self.size, self._hash = 0, hashlib.sha256()
            if note is None:
                self._note_path.unlink(missing_ok=True)
            else:
                _write_note(self._note_path, {**asdict(note), "boot": boot_id()})

    def resume(self) -> None:
        """Continue behind the bytes of the earlier attempt. Raises OSError."""
        with self._lock:
            self._hash_earlier()

    def read_start(self, limit: int) -> bytes:
        """The first bytes of what is written. Raises OSError."""
        with self._lock:
            return os.pread(self._open_fd, limit, 0)

    def write(self, data: bytes) -> None:
        """Append bytes. Raises OSError."""
        with self._lock:
            self._hash.update(data)
            view = memoryview(data)
            while view:
                written = os.pwrite(self._open_fd, view, self.size)
                self.size += written
                view = view[written:]

    @property
    def digest(self) -> str:
        """SHA-256 of the written bytes, in hex."""
        return self._hash.hexdigest()

    def holds(self, hash_: str) -> bool:
        """Whether the held file has this SHA-256."""
        return self.held is not None and self.held.hash == hash_

    def hold(self, source: Path, stored: StoredFile, answer: AnswerNote = NO_ANSWER) -> bool:
        """Keep the file of an earlier run, as a second name of it; False if it is missing or damaged."""
        with self._lock, contextlib.suppress(OSError):
            self._open_fd  # noqa: B018 - the part must be open
            self._held_path.unlink(missing_ok=True)
            os.link(source, self._held_path)
            with self._held_path.open("rb") as file:
                if os.fstat(file.fileno()).st_size == stored.size:
                    is_whole = hashlib.file_digest(file, "sha256").hexdigest() == stored.hash
                    self.held, self.answer = (stored, answer) if is_whole else (None, NO_ANSWER)
        return self.held is stored

    def finish(self, stored: StoredFile) -> None:
        """Give the file its name: from now on it is complete, also after a power loss. Raises OSError.

        The note lets an attempt after a kill find it without a request. A file that has the same name has the same
        content, unless it was damaged. A held file with that content gets the name instead: equal files are one.
        """
        with self._lock:
            if not self.holds(stored.hash):
                os.fsync(self._open_fd)
            _write_note(self._note_path, {"done": asdict(stored)})
            self._move(stored)

    def forget_note(self) -> None:
        """Delete the note of a finished file: its job is recorded, and another attempt at it downloads it again."""
        with contextlib.suppress(OSError):
            self._note_path.unlink(missing_ok=True)

    def discard_later(self) -> None:
        """Have `close` delete the part: the next attempt starts again."""
        self._is_discarded = True

    def close(self) -> None:
        """Close the file; its bytes stay for the next attempt. An empty part is deleted."""
        with self._lock:
            fd, self._fd = self._fd, None
            if fd is None:
                return
            with contextlib.suppress(OSError):
                self._held_path.unlink(missing_ok=True)
                is_empty = os.fstat(fd).st_size == 0
                if (self._is_discarded or is_empty) and _is_in_place(fd, self._path):
                    self._path.unlink(missing_ok=True)
                    if self._is_discarded:
                        self._note_path.unlink(missing_ok=True)
            os.close(fd)

    @property
    def _open_fd(self) -> int:
        if self._fd is None:
            raise OSError("the part of the file is closed")
        return self._fd

    def _move(self, stored: StoredFile) -> None:
        target = self._folder.output / stored.path
        if self.holds(stored.hash) and not _has_size(target, stored.size):
            self._held_path.rename(target)
        if _has_size(target, stored.size):
            self._path.unlink(missing_ok=True)
        else:
            self._path.rename(target)
        self._folder.sync()

    def _read_note(self) -> None:
        try:
            note = json.loads(self._note_path.read_text("utf-8"))
            if "done" in note:
                self._find_finished(StoredFile(**note["done"]))
            elif note.pop("boot") == boot_id() and self.earlier_size:  # after a power loss, bytes may be missing
                found = PartNote(**note)
                self.note = found if found.total is None or self.earlier_size < found.total else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return

    def _find_finished(self, stored: StoredFile) -> None:
        """The file of a note that was written just before it got its name."""
        if _has_size(self._folder.output / stored.path, stored.size):
            self.finished = stored
        elif self.earlier_size == stored.size:
            self._hash_earlier()
            if self.digest == stored.hash:
                self._move(stored)
                self.finished = stored

    def _hash_earlier(self) -> None:
        self.size, self._hash = 0, hashlib.sha256()
        while self.size < self.earlier_size:
            piece = os.pread(self._open_fd, min(_READ_BYTES, self.earlier_size - self.size), self.size)
            if not piece:
                raise OSError("the part of the file became shorter")
            self._hash.update(piece)
            self.size += len(piece)


def _is_in_place(fd: int, path: Path) -> bool:
    """Whether an open file still has its name: another process may have finished it before it was locked here."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def _write_note(path: Path, note: dict[str, Any]) -> None:
    """Replace the note; a kill leaves the old one or the new one."""
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(create_draft(new), "w", encoding="utf-8") as file:
        json.dump(note, file)
    new.replace(path)
