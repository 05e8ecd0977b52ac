"""Watches the defs on disk. A thread that loads what changed and lays it ready; it publishes nothing.

The directory is watched, not its files: editors save by renaming. What is told is only a hint to look: a hash of all
files decides whether anything changed, and is taken now and then even where nothing was told.
"""

import contextlib
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from engine.defs import sources
from engine.defs.loader import load
from engine.defs.problems import Problems
from engine.errors import DefsError, Problem
from engine.model.fingerprint import PreparedDefs

_log = logging.getLogger(__name__)

STEP_MS, DEBOUNCE_MS, WAKE_MS = 20, 160, 200
"""Quiet that ends a burst of changes, its longest wait, and how often orders to look are noticed."""
RESCAN_SECONDS = 1.0
"""How often the hash is taken although nothing was told: links to elsewhere and network disks tell nothing."""
_MAX_RELOADS = 20


Prepared = TypeVar("Prepared")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult(Generic[Prepared]):
    """What the defs on disk came to: an edition, or the problems that forbid one."""

    edition: PreparedDefs | None
    prepared: Prepared | None
    """What was made of the edition for who publishes it."""
    problems: tuple[Problem, ...]
    """With an edition: warnings."""
    ticket: int
    """The newest order to look that this answers; 0: none."""


def fingerprint_files(path: Path) -> str:
    """A hash of all that `load` would read below a directory, or of one file; it changes with any saved byte."""
    problems = Problems()
    told = hashlib.blake2b(digest_size=16)
    for source in sources.read(path, problems):
        for text in (source.display_path, source.text):
            told.update(text.encode("utf-8", "surrogatepass") + b"\0")
    for problem in problems.in_file_order(()):
        told.update(str(problem).encode("utf-8", "surrogatepass") + b"\0")
    return told.hexdigest()


class DefsWatcher(threading.Thread, Generic[Prepared]):
    """Use `take` from one thread: it gives each look once, the newest only."""

    def __init__(self, path: Path, loaded_fingerprint: str, prepare: Callable[[PreparedDefs], Prepared]) -> None:
        """`seen`: the fingerprint of what is in force, taken before it was loaded.

        `prepare` is called in this thread: what takes long for large defs shall not be done in a tick.
        """
        super().__init__(name="defs-watcher", daemon=True)
        self._path = path
        self._fingerprint = loaded_fingerprint
        self._prepare = prepare
        self._lock = threading.Lock()
        self._result: LoadResult[Prepared] | None = None
        self._requested = self._completed = 0
        self._checked_at = time.monotonic()
        self._stop_requested = threading.Event()

    def request_load(self) -> int:
        """Order a look whether or not anything changed; returns its ticket."""
        with self._lock:
            self._requested += 1
            return self._requested

    def take_result(self) -> LoadResult[Prepared] | None:
        """The newest look nobody has taken yet."""
        with self._lock:
            look, self._result = self._result, None
            return look

    def settled(self) -> bool:
        """Whether everything on disk was looked at and taken: reads all files."""
        with self._lock:
            waits = self._result is not None or self._requested > self._completed
            seen = self._fingerprint
        return not waits and fingerprint_files(self._path) == seen

    def stop(self) -> None:
        """End the thread."""
        self._stop_requested.set()

    def run(self) -> None:
        """The thread."""
        while not self._stop_requested.is_set():
            with contextlib.suppress(OSError, RuntimeError):
                for told in self._iter_changes():
                    self._check(told=told)
            # the directory is gone, or nothing can be watched here: look by the clock
            self._stop_requested.wait(WAKE_MS / 1000)
            if not self._stop_requested.is_set():
                self._check(told=False)

    def _iter_changes(self) -> Iterator[bool]:
        import watchfiles  # 60 ms, which no start waits for

        folder = self._path if self._path.is_dir() else self._path.parent
        for changes in watchfiles.watch(
            folder, watch_filter=None, step=STEP_MS, debounce=DEBOUNCE_MS, rust_timeout=WAKE_MS, yield_on_timeout=True,
            stop_event=self._stop_requested, raise_interrupt=False,
        ):  # fmt: skip
            yield bool(changes)
            if not folder.is_dir():
                return

    def _check(self, *, told: bool) -> None:
        now = time.monotonic()
        with self._lock:
            ticket = self._requested
            asked = ticket > self._completed
        if not (told or asked or now - self._checked_at >= RESCAN_SECONDS):
            return
        self._checked_at = now
        try:
            self._load(ticket, asked=asked)
        except Exception:
            _log.exception("the defs cannot be looked at; it is tried again")

    def _load_once(self, ticket: int) -> LoadResult[Prepared]:
        try:
            loaded = load(self._path)
        except DefsError as error:
            return LoadResult(edition=None, prepared=None, problems=tuple(error.problems), ticket=ticket)
        edition = PreparedDefs.from_definitions(loaded.definitions)
        return LoadResult(edition=edition, prepared=self._prepare(edition), problems=loaded.warnings, ticket=ticket)

    def _load(self, ticket: int, *, asked: bool) -> None:
        found = fingerprint_files(self._path)
        if found == self._fingerprint and not asked:
            return
        for _ in range(_MAX_RELOADS):
            look = self._load_once(ticket if asked else 0)
            again = fingerprint_files(self._path)
            if again == found:
                break
            found = again  # saved while it was read: half of one and half of the other was seen
        with self._lock:
            if self._result is not None:
                look = replace(look, ticket=max(look.ticket, self._result.ticket))
            self._result, self._fingerprint, self._completed = look, found, max(self._completed, ticket)
