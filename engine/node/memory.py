"""Memory: what large pages took goes back to the system."""

import ctypes
import sys
import time
from collections.abc import Iterable

_LARGE = 1_000_000
"""Bytes of a page whose tree takes 20 MB and more."""
_EVERY = 2.0
"""Large pages come together, lists of everything at a site's start: what they took is given back once for all."""


class Memory:
    """The allocator keeps what was freed, tens of MB, where something that came later lies behind it. One owner."""

    def __init__(self) -> None:
        self._since: float | None = None

    def done_with(self, sizes: Iterable[int]) -> None:
        """Pages of so many bytes were let go. 2 s after a large one free memory is returned; that takes 1 to 25 ms."""
        if self._since is None:
            if any(size >= _LARGE for size in sizes):
                self._since = time.monotonic()
        elif time.monotonic() >= self._since + _EVERY:
            self._since = None
            _give_back()


def _give_back() -> None:
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
        if trim is not None:
            trim(0)
