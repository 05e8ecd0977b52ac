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
from engine.model.fingerprint import Edition

_log = logging.getLogger(__name__)

STEP_MS, DEBOUNCE_MS, WAKE_MS = 20, 160, 200
"""Quiet that ends a burst of changes, its longest wait, and how often orders to look are noticed."""
LOOK_SECONDS = 1.0
"""How often the hash is taken although nothing was told: links to elsewhere and network disks tell nothing."""
_SETTLE_TRIES = 20


Prepared = TypeVar("Prepared")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look(Generic[Prepared]):
    """What the defs on disk came to: an edition, or the problems that forbid one."""

    edition: Edition | None
    prepared: Prepared | None
    """What was made of the edition for who publishes it."""
    problems: tuple[Problem, ...]
    """With an edition: warnings."""
    ticket: int
    """The newest order to look that this answers; 0: none."""


def fingerprint(path: Path) -> str:
    """A hash of all that `load` would read below a directory, or of one file; it changes with any saved byte."""
    problems = Problems()
    told = hashlib.blake2b(digest_size=16)
    for source in sources.read(path, problems):
        for text in (source.shown, source.text):
            told.update(text.encode("utf-8", "surrogatepass") + b"\0")
    for problem in problems.told(()):
        told.update(str(problem).encode("utf-8", "surrogatepass") + b"\0")
    return told.hexdigest()


class Watcher(threading.Thread, Generic[Prepared]):
    """Use `take` from one thread: it gives each look once, the newest only."""

    def __init__(self, path: Path, seen: str, prepare: Callable[[Edition], Prepared]) -> None:
        """`seen`: the fingerprint of what is in force, taken before it was loaded.

        `prepare` is called in this thread: what takes long for large defs shall not be done in a tick.
        """
        super().__init__(name="defs-watcher", daemon=True)
        self._path = path
        self._seen = seen
        self._prepare = prepare
        self._lock = threading.Lock()
        self._look: Look[Prepared] | None = None
        self._asked = self._answered = 0
        self._looked_at = time.monotonic()
        self._ended = threading.Event()

    def ask(self) -> int:
        """Order a look whether or not anything changed; returns its ticket."""
        with self._lock:
            self._asked += 1
            return self._asked

    def take(self) -> Look[Prepared] | None:
        """The newest look nobody has taken yet."""
        with self._lock:
            look, self._look = self._look, None
            return look

    def settled(self) -> bool:
        """Whether everything on disk was looked at and taken: reads all files."""
        with self._lock:
            waits = self._look is not None or self._asked > self._answered
            seen = self._seen
        return not waits and fingerprint(self._path) == seen

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()

    def run(self) -> None:
        """The thread."""
        while not self._ended.is_set():
            with contextlib.suppress(OSError, RuntimeError):
                for told in self._hints():
                    self._consider(told=told)
            # the directory is gone, or nothing can be watched here: look by the clock
            self._ended.wait(WAKE_MS / 1000)
            if not self._ended.is_set():
                self._consider(told=False)

    def _hints(self) -> Iterator[bool]:
        import watchfiles  # 60 ms, which no start waits for

        folder = self._path if self._path.is_dir() else self._path.parent
        for changes in watchfiles.watch(
            folder, watch_filter=None, step=STEP_MS, debounce=DEBOUNCE_MS, rust_timeout=WAKE_MS, yield_on_timeout=True,
            stop_event=self._ended, raise_interrupt=False,
        ):  # fmt: skip
            yield bool(changes)
            if not folder.is_dir():
                return

    def _consider(self, *, told: bool) -> None:
        now = time.monotonic()
        with self._lock:
            ticket = self._asked
            asked = ticket > self._answered
        if not (told or asked or now - self._looked_at >= LOOK_SECONDS):
            return
        self._looked_at = now
        try:
            self._load(ticket, asked=asked)
        except Exception:
            _log.exception("the defs cannot be looked at; it is tried again")

    def _looked(self, ticket: int) -> Look[Prepared]:
        try:
            loaded = load(self._path)
        except DefsError as error:
            return Look(edition=None, prepared=None, problems=tuple(error.problems), ticket=ticket)
        edition = Edition.of(loaded.definitions)
        return Look(edition=edition, prepared=self._prepare(edition), problems=loaded.warnings, ticket=ticket)

    def _load(self, ticket: int, *, asked: bool) -> None:
        found = fingerprint(self._path)
        if found == self._seen and not asked:
            return
        for _ in range(_SETTLE_TRIES):
            look = self._looked(ticket if asked else 0)
            again = fingerprint(self._path)
            if again == found:
                break
            found = again  # saved while it was read: half of one and half of the other was seen
        with self._lock:
            if self._look is not None:
                look = replace(look, ticket=max(look.ticket, self._look.ticket))
            self._look, self._seen, self._answered = look, found, max(self._answered, ticket)
