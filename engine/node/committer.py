"""The committer: gathers finished jobs and writes them in one fenced transaction, after the bodies they refer to."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import CrawlError, Fenced
from engine.model.job import JobKind, JobState
from engine.node.capacity import Room
from engine.node.ringer import Ringer
from engine.node.seen_set import Seen
from engine.node.slice import Slicer
from engine.runtime.clock import boottime
from engine.store.db.connector import Busy, Database
from engine.store.db.schema import CRAWL
from engine.store.pages.documents import Pages
from engine.store.transactions.commit import Committed, Finished, commit
from engine.store.transactions.placement import Places

_log = logging.getLogger(__name__)

LONGEST_WAIT = 0.05
"""Seconds a finished job waits for others at most."""
_PART, _OF = 3, 4
"""Of what the node holds, so much is committed together."""
_RETRY_PAUSE = 0.1
_BUSY_SECONDS = 3.0
"""For each of the two databases: between them a tick, so that neither looks like a thread that hangs."""


class Committer(threading.Thread):
    """Commits when three quarters of what the node holds are finished, at the latest after 50 ms."""

    def __init__(
        self,
        folder: Path,
        *,
        node: int,
        run: int,
        places: Places,
        seen: Seen,
        ringer: Ringer,
        room: Room,
        refill: Callable[[], Slicer | None],
        idle: Callable[[], None] = lambda: None,
        fenced: Callable[[], None],
        broken: Callable[[CrawlError], None],
        renew: bool = True,
    ) -> None:
        """`refill` tells who leases in the place of what is committed, in the same transaction; None: nobody does.

        `idle` is called after a commit that leaves the node without a job.
        `renew`: whether pages that went stale while they were worked are re-extracted.
        """
        super().__init__(name="committer", daemon=True)
        self._folder = folder
        self._node = node
        self._run = run
        self._places = places
        self._seen = seen
        self._ringer = ringer
        self._renew = renew
        self._room = room
        self._refill = refill
        self._idle = idle
        self._fenced = fenced
        self._broken = broken
        self._condition = threading.Condition()
        self._finished: list[Finished] = []
        self._since = 0.0
        self._stopped = False
        self.ticked_at = time.monotonic()
        self.done = 0
        self.failed = 0

    def add(self, finished: Finished) -> None:
        """A job is done with; any thread may say so."""
        with self._condition:
            if not self._finished:
                self._since = time.monotonic()
                self._condition.notify()
            self._finished.append(finished)
            if self._is_enough():
                self._condition.notify()

    def _is_enough(self) -> bool:
        return len(self._finished) * _OF >= self._room.held * _PART

    def stop(self) -> None:
        """Commit what is there and end the thread."""
        with self._condition:
            self._stopped = True
            self._condition.notify()

    def run(self) -> None:
        """The thread."""
        try:
            db = Database.open(self._folder / CRAWL, busy_seconds=_BUSY_SECONDS)
            pages = Pages(self._folder, busy_seconds=_BUSY_SECONDS)
            while (group := self._next_group()) is not None:
                self._write(db, pages, group)
            db.close()
            pages.close()
        except Fenced:
            self._fenced()
        except CrawlError as error:
            self._broken(error)

    def _next_group(self) -> list[Finished] | None:
        with self._condition:
            while True:
                self.ticked_at = time.monotonic()
                if self._finished:
                    left = self._since + LONGEST_WAIT - time.monotonic()
                    if left <= 0 or self._stopped or self._is_enough():
                        group, self._finished = self._finished, []
                        return group
                    self._condition.wait(left)
                elif self._stopped:
                    return None
                else:
                    self._condition.wait(1.0)

    def _write(self, db: Database, pages: Pages, group: list[Finished]) -> None:
        """Commit a group, again and again while the database is busy or the disk is full: nothing is dropped."""
        while True:
            try:
                _store_bodies(pages, group)
                result = self._commit(db, group)
                break
            except Busy as busy:
                _log.warning("commit waits: %s", busy.what)
                self.ticked_at = time.monotonic()
                time.sleep(_RETRY_PAUSE)
        self._room.let_go([f.job for f in group])
        self._after(group, result)
        if not self._room.held:
            self._idle()

    def _commit(self, db: Database, group: list[Finished]) -> Committed:
        """One attempt. The places it frees are filled by the same transaction."""
        with self._room.turn:
            self.ticked_at = time.monotonic()
            slicer = self._refill()
            wish = slicer.wish([f.job for f in group]) if slicer is not None else None
            result = commit(db, self._node, self._run, group, self._places, boottime(), renew=self._renew, wish=wish)
            if slicer is not None and (result.leased or result.shared):
                slicer.hand_on(db, result.leased)
                self._room.fed()
        return result

    def _after(self, group: list[Finished], result: Committed) -> None:
        for f in group:
            if f.job.id in result.won:
                if f.job.kind is JobKind.PAGE:
                    self.done += f.state is JobState.DONE
                    self.failed += f.state is JobState.FAILED
                self._seen.add(child.identity for child in f.children)
        self._ringer.ring(result.ring)
        for due in result.due:
            self._ringer.arm(due)


def _store_bodies(pages: Pages, group: list[Finished]) -> None:
    """Put the new documents of a group into pages.db, once."""
    fresh = [f for f in group if f.document is not None and f.page is None]
    if fresh:
        for f, page in zip(fresh, pages.add([f.document for f in fresh if f.document]), strict=True):
            f.page = page
