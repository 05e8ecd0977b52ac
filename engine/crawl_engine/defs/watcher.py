"""Watches the defs on disk in a thread, and loads them when they change.

It watches the directory, not the files, because editors save by renaming. A notification is only a hint: a hash of all
files decides whether something changed, and it is also checked periodically.
"""

import contextlib
import hashlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.defs.builders import plugin_files
from crawl_engine.defs.checks import secrets
from crawl_engine.defs.loader import LoadedDefs, load
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml import sources
from crawl_engine.errors import DefsError, Problem
from crawl_engine.model.definition import Definitions
from crawl_engine.model.fingerprint import PreparedDefs

_log = logging.getLogger(__name__)

STEP_MS, DEBOUNCE_MS, WAKE_MS = 20, 160, 200
"""Quiet time that ends a burst of changes, its maximum length, and the interval for load requests."""
RESCAN_SECONDS = 1.0
"""Interval of hash checks without a notification: symlink targets and network disks send none."""
_CALM_SECONDS = 1.0
"""The files are only compared at first: many runs end before a watch, which takes 10 ms of CPU to begin, is of use."""
_MAX_RELOADS = 20


Prepared = TypeVar("Prepared")


class LoadResult(Struct, Generic[Prepared], frozen=True, kw_only=True):
    """The result of loading the defs: an edition, or the problems that prevent one."""

    edition: PreparedDefs | None
    prepared: Prepared | None
    """The result of `prepare` for the edition."""
    problems: tuple[Problem, ...]
    """Only warnings if there is an edition."""
    ticket: int
    """The ticket of the newest load request that this result answers; 0 for none."""


def fingerprint_files(path: Path) -> str:
    """A hash of everything `load` would read; any changed byte changes it."""
    problems = Problems()
    digest = hashlib.blake2b(digest_size=16)
    for source in sources.read(path, problems):
        for text in (source.display_path, source.text):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    for file in plugin_files.read(path, problems):
        for text in (file.path, file.text):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    for problem in problems.in_file_order(()):
        digest.update(str(problem).encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def iterate_saves(defs: Path) -> Iterator[None]:
    """Yields at once, and after each save of defs, plugins or golden tests. Ends with KeyboardInterrupt.

    Raises DefsError if there are no defs.
    """
    import watchfiles

    problems = Problems()
    sources.read(defs, problems)
    if not defs.exists():
        raise DefsError(problems.in_file_order(()))
    roots = [defs] if defs.is_dir() else [defs, sources.tests_folder(defs), plugin_files.plugins_dir(defs)]
    seen = _stamp(roots)
    yield
    for _ in watchfiles.watch(
        *filter(Path.exists, roots), step=STEP_MS, debounce=DEBOUNCE_MS, rust_timeout=int(RESCAN_SECONDS * 1000),
        yield_on_timeout=True,
    ):  # fmt: skip
        stamp = _stamp(roots)
        if stamp != seen:
            seen = stamp
            yield


def _stamp(roots: Sequence[Path]) -> list[tuple[str, int, int]]:
    """The names, times and sizes of all files that an editor or `test` may have saved."""
    stamp = []
    for path in itertools.chain(*map(_list_files, roots)):
        with contextlib.suppress(OSError):
            status = path.stat()
            stamp.append((str(path), status.st_mtime_ns, status.st_size))
    return sorted(stamp)


def _list_files(root: Path) -> Iterator[Path]:
    """The file itself, or those in a folder, without the dotted names of editors, and caches."""
    if root.is_file():
        yield root
    for at, folders, names in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        yield from (Path(at, name) for name in names if not name.startswith("."))


class DefsWatcher(threading.Thread, Generic[Prepared]):
    """Call `take_result` from one thread: it returns each result once, the newest only."""

    def __init__(
        self,
        path: Path,
        loaded_fingerprint: str,
        prepare: Callable[[PreparedDefs], Prepared],
        *,
        complete: Callable[[Definitions], Definitions],
        load_defs: Callable[[Path], LoadedDefs] = load,
    ) -> None:
        """`loaded_fingerprint`: the fingerprint of the active defs, taken before they were loaded.

        `complete` adds what follows from the settings. The watcher thread calls it and `prepare`: work that takes long
        for large defs must not run in a supervisor tick.
        """
        super().__init__(name="defs-watcher", daemon=True)
        self._path = path
        self._fingerprint = loaded_fingerprint
        self._prepare = prepare
        self._complete = complete
        self._load_defs = load_defs
        self._lock = threading.Lock()
        self._result: LoadResult[Prepared] | None = None
        self._requested = self._completed = 0
        self._checked_at = time.monotonic()
        self._stop_requested = threading.Event()

    def request_load(self) -> int:
        """Requests a load even if nothing changed. Returns a ticket."""
        with self._lock:
            self._requested += 1
            return self._requested

    def take_result(self) -> LoadResult[Prepared] | None:
        """The newest result not taken yet."""
        with self._lock:
            result, self._result = self._result, None
            return result

    def settled(self) -> bool:
        """Whether everything on disk was loaded and taken. Reads all files."""
        with self._lock:
            pending = self._result is not None or self._requested > self._completed
            loaded = self._fingerprint
        return not pending and fingerprint_files(self._path) == loaded

    def stop(self) -> None:
        """Stops the thread."""
        self._stop_requested.set()

    def run(self) -> None:
        """The body of the thread."""
        begin = time.monotonic() + _CALM_SECONDS
        while time.monotonic() < begin and not self._stop_requested.wait(WAKE_MS / 1000):
            self._check(notified=True)
        while not self._stop_requested.is_set():
            with contextlib.suppress(OSError, RuntimeError):
                for notified in self._iter_changes():
                    self._check(notified=notified)
            # the directory is gone, or cannot be watched: poll
            self._stop_requested.wait(WAKE_MS / 1000)
            if not self._stop_requested.is_set():
                self._check(notified=False)

    def _iter_changes(self) -> Iterator[bool]:
        import watchfiles  # takes 60 ms: not at start

        folder = self._path if self._path.is_dir() else self._path.parent
        for changes in watchfiles.watch(
            folder, watch_filter=None, step=STEP_MS, debounce=DEBOUNCE_MS, rust_timeout=WAKE_MS, yield_on_timeout=True,
            stop_event=self._stop_requested, raise_interrupt=False,
        ):  # fmt: skip
            yield bool(changes)
            if not folder.is_dir():
                return

    def _check(self, *, notified: bool) -> None:
        now = time.monotonic()
        with self._lock:
            ticket = self._requested
            requested = ticket > self._completed
        if not (notified or requested or now - self._checked_at >= RESCAN_SECONDS):
            return
        self._checked_at = now
        try:
            self._load(ticket, requested=requested)
        except Exception:
            _log.exception("cannot check the defs; retrying")

    def _load_once(self, ticket: int) -> LoadResult[Prepared]:
        try:
            loaded = self._load_defs(self._path)
            secrets.require_secrets(loaded.root, loaded.definitions.files)
        except DefsError as error:
            return LoadResult(edition=None, prepared=None, problems=tuple(error.problems), ticket=ticket)
        edition = PreparedDefs.from_definitions(self._complete(loaded.definitions))
        return LoadResult(edition=edition, prepared=self._prepare(edition), problems=loaded.warnings, ticket=ticket)

    def _load(self, ticket: int, *, requested: bool) -> None:
        fingerprint = fingerprint_files(self._path)
        if fingerprint == self._fingerprint and not requested:
            return
        for _ in range(_MAX_RELOADS):
            loaded = fingerprint
            result = self._load_once(ticket if requested else 0)
            fingerprint = fingerprint_files(self._path)
            if fingerprint == loaded:
                break
            # files changed during the load: the result may mix old and new ones
        with self._lock:
            if self._result is not None:
                result = replace(result, ticket=max(result.ticket, self._result.ticket))
            # not the newest fingerprint: where the changes did not end, the next check loads again
            self._result, self._fingerprint, self._completed = result, loaded, max(self._completed, ticket)
