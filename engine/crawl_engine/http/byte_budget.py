"""A budget of bytes for response bodies in memory: readers wait for room, and one can always finish."""

import asyncio
import threading
from collections import deque

from msgspec import Struct

FREE_BYTES = 64 * 1024
"""Bytes of each body that count as nothing: most pages are smaller, and their number is bounded by the slots."""


class ByteBudget:
    """Shares out bytes to bodies that are being read, extracted or committed. Thread-safe.

    Bodies of unknown length grow piece by piece, so several of them could fill the budget and wait for each other.
    Therefore room for one whole body is kept for one reader at a time, the *large reader*. A reader that finds the rest
    of the budget full becomes the large reader, or waits, in order, until it is free. Its room comes back when its
    body is dropped, or when the rest has room for what it read.
    """

    def __init__(self, *, capacity: int, largest: int) -> None:
        """`capacity`: bytes of all bodies together. `largest`: bytes of one body, at most; not over `capacity`."""
        if capacity < largest:
            raise ValueError("the budget must hold the largest body")
        self._shared_capacity = capacity - largest
        self._lock = threading.Lock()
        self._shared = 0
        self._large_reader: BodyShare | None = None
        self._waiting: deque[_Waiter] = deque()

    @property
    def used(self) -> int:
        """Bytes granted and not released."""
        with self._lock:
            return self._shared + (self._large_reader.granted if self._large_reader is not None else 0)

    def open_share(self) -> "BodyShare":
        """A share of no bytes yet. What opens it must release it."""
        return BodyShare(self)

    def grant_now(self, share: "BodyShare", count: int) -> bool:
        """Grant bytes if there is room and no reader waits for it. Never waits."""
        with self._lock:
            if share is not self._large_reader and self._waiting:
                return False
            return self._grant(share, count)

    async def grant(self, share: "BodyShare", count: int) -> None:
        """Grant bytes; wait for room. To be called from a running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            # A large reader never waits behind others: they may wait for it.
            if (share is self._large_reader or not self._waiting) and self._grant(share, count):
                return
            waiter = _Waiter(share, count, loop, loop.create_future())
            self._waiting.append(waiter)
        try:
            await waiter.granted
        except BaseException:
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                self._serve_waiting()
            raise

    def give_back(self, share: "BodyShare") -> None:
        with self._lock:
            if share is self._large_reader:
                self._large_reader = None
            else:
                self._shared -= share.granted
            share.granted = 0
            self._serve_waiting()

    def mark_read(self, share: "BodyShare") -> None:
        """Note that a body is complete: its share grows no more."""
        with self._lock:
            share.complete = True
            if share is self._large_reader:
                self._serve_waiting()

    def _grant(self, share: "BodyShare", count: int) -> bool:
        if share is self._large_reader:
            pass  # its room is kept for it; its reader keeps the limit of a body
        elif self._shared + count <= self._shared_capacity:
            self._shared += count
        elif self._large_reader is None:
            self._large_reader = share
            self._shared -= share.granted
        else:
            return False
        share.granted += count
        return True

    def _serve_waiting(self) -> None:
        large = self._large_reader
        if large is not None and large.complete and self._shared + large.granted <= self._shared_capacity:
            self._shared += large.granted
            self._large_reader = None
        while self._waiting:
            waiter = self._waiting[0]
            if not self._grant(waiter.share, waiter.count):
                return
            self._waiting.popleft()
            waiter.loop.call_soon_threadsafe(_wake, waiter.granted)


class BodyShare:
    """The bytes that one job's bodies hold of a budget. Used by one task at a time; `release` by any thread."""

    __slots__ = ("_budget", "_counted", "complete", "granted")

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._counted = 0
        self.granted = 0
        """Bytes held of the budget; written by the budget alone."""
        self.complete = False
        """Whether the body is read; written by the budget alone."""

    def try_grow(self, count: int) -> bool:
        """Count further bytes, if that needs no waiting."""
        missing = self._missing(count)
        if missing and not self._budget.grant_now(self, missing):
            return False
        self._counted += count
        return True

    async def grow(self, count: int) -> None:
        """Count further bytes; wait until the budget has room for them."""
        missing = self._missing(count)
        if missing:
            await self._budget.grant(self, missing)
        self._counted += count

    def finish_reading(self) -> None:
        """Note that the body is complete."""
        if self.granted:
            self._budget.mark_read(self)

    def release(self) -> None:
        """Give all bytes back. Harmless when repeated."""
        self._counted = 0
        if self.granted:
            self._budget.give_back(self)

    def _missing(self, count: int) -> int:
        """Bytes to ask the budget for, so that `count` more may be held."""
        return max(0, self._counted + count - FREE_BYTES - self.granted)


class _Waiter(Struct, frozen=True, eq=False):
    share: BodyShare
    count: int
    loop: asyncio.AbstractEventLoop
    granted: asyncio.Future[None]


def _wake(granted: asyncio.Future[None]) -> None:
    if not granted.done():
        granted.set_result(None)
