"""Memory: what large pages took goes back to the system."""

import ctypes
import sys
import threading
import time

_LARGE = 1_000_000
"""Bytes of a page whose tree takes 20 MB and more."""
_LATER = 1.0
"""By then it is committed. Large pages come together, lists of everything at a site's start: once serves them all."""


class Memory:
    """The allocator keeps what was freed, tens of MB, where something that came later lies behind it."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._due: float | None = None

    def worked(self, size: int) -> None:
        """A page of so many bytes was worked; any thread may say so."""
        if size >= _LARGE:
            self._last = time.monotonic()
            if self._due is None:
                self._due = self._last + _LATER

    def look(self) -> None:
        """Return free memory 1 s after a large page. To be called often, by one thread."""
        now = time.monotonic()
        if self._due is not None and now >= self._due:
            self._due = None
            if self._last + _LATER > now:  # and what came since may still be held
                self._due = self._last + _LATER
            _give_back()


def _give_back() -> None:
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
        if trim is not None:
            # 1 to 25 ms as a rule, but half a second for hundreds of MB; the interpreter is free meanwhile
            threading.Thread(target=trim, args=(0,), daemon=True, name="trim").start()
