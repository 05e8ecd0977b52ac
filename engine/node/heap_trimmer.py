"""Returns freed heap to the OS (`malloc_trim`) after large pages."""

import ctypes
import sys
import threading
import time

LARGE_PAGE_BYTES = 1_000_000
"""Size from which a page's tree takes 20 MB and more."""
_TRIM_DELAY = 1.0
"""By then the page is committed. Large pages come in groups, such as the full lists of a site: one trim serves all."""


class HeapTrimmer:
    """Trims the heap once a large page is done. The allocator alone keeps tens of MB that lie before a used block."""

    def __init__(self) -> None:
        self._last_large_at = float("-inf")
        self._trim_at: float | None = None

    def record_page(self, size: int) -> None:
        """Note that a page of `size` bytes was extracted. Callable from any thread."""
        if size >= LARGE_PAGE_BYTES:
            self._last_large_at = time.monotonic()
            if self._trim_at is None:
                self._trim_at = self._last_large_at + _TRIM_DELAY

    def trim_if_due(self) -> None:
        """Trim 1 s after a large page. Call it often, from one thread."""
        now = time.monotonic()
        if self._trim_at is not None and now >= self._trim_at:
            self._trim_at = None
            if self._last_large_at + _TRIM_DELAY > now:  # a later large page may still be in memory
                self._trim_at = self._last_large_at + _TRIM_DELAY
            _trim_heap()


def trim_heap() -> None:
    """Return freed memory to the system, where the allocator can: usually 1 to 25 ms, half a second for 500 MB."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
        if trim is not None:
            trim(0)


def _trim_heap() -> None:
    # the call releases the GIL
    threading.Thread(target=trim_heap, daemon=True, name="trim").start()
