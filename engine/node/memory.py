"""Memory: what large pages took goes back to the system."""

import ctypes
import sys
import threading
import time

_LARGE_PAGE_BYTES = 1_000_000
"""Bytes of a page whose tree takes 20 MB and more."""
_TRIM_DELAY = 1.0
"""By then it is committed. Large pages come together, lists of everything at a site's start: once serves them all."""


class HeapTrimmer:
    """The allocator keeps what was freed, tens of MB, where something that came later lies behind it."""

    def __init__(self) -> None:
        self._last_large_at = float("-inf")
        self._trim_at: float | None = None

    def record_page(self, size: int) -> None:
        """A page of so many bytes was worked; any thread may say so."""
        if size >= _LARGE_PAGE_BYTES:
            self._last_large_at = time.monotonic()
            if self._trim_at is None:
                self._trim_at = self._last_large_at + _TRIM_DELAY

    def trim_if_due(self) -> None:
        """Return free memory 1 s after a large page. To be called often, by one thread."""
        now = time.monotonic()
        if self._trim_at is not None and now >= self._trim_at:
            self._trim_at = None
            if self._last_large_at + _TRIM_DELAY > now:  # and what came since may still be held
                self._trim_at = self._last_large_at + _TRIM_DELAY
            _trim_heap()


def _trim_heap() -> None:
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
        if trim is not None:
            # 1 to 25 ms as a rule, but half a second for hundreds of MB; the interpreter is free meanwhile
            threading.Thread(target=trim, args=(0,), daemon=True, name="trim").start()
