"""Polls a source on a thread of its own, and hands each look over. A failed poll is told, and ends nothing."""

import threading
import time
from collections.abc import Callable

from console.tui.state.source import Accepted, Look, Reading, Source, told

SHOWN = 200


class Poller:
    """One thread, one source. `wake` makes it look at once."""

    def __init__(
        self,
        source: Source,
        hertz: float,
        seen: Callable[[Look], None],
        failed: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`hertz`: looks a second. `seen` and `failed` are called on the thread that runs it."""
        self._clock = clock
        self._source = source
        self._pause = 1.0 / hertz
        self._seen = seen
        self._failed = failed
        self._asked: tuple[object, Reading | None, int] = (None, None, SHOWN)
        self._accepted: Accepted | None = None
        self._hurry = threading.Event()
        self._over = threading.Event()

    def ask(self, who: object, reading: Reading | None, shown: int = SHOWN, *, at_once: bool = True) -> None:
        """What each look shall read besides, from now on."""
        self._asked = (who, reading, shown)
        if at_once:
            self._hurry.set()

    def stop(self) -> None:
        """No more looks."""
        self._over.set()
        self._hurry.set()

    def run(self) -> None:
        """Look until stopped."""
        try:
            while not self._over.is_set():
                self._hurry.clear()
                began = self._clock()
                try:
                    look = self._look(began)
                except Exception as error:  # whatever it is, the next look may succeed
                    if not self._over.is_set():
                        self._failed(told(error))
                else:
                    if not self._over.is_set():
                        self._seen(look)
                self._hurry.wait(max(0.02, self._pause - (self._clock() - began)))
        finally:
            self._source.close()

    def _look(self, began: float) -> Look:
        who, reading, shown = self._asked
        seen = self._source.snapshot(shown)
        alive = self._source.supervisor(seen)
        version = seen.run.defs_version if seen.run is not None else None
        if version is not None and (self._accepted is None or self._accepted.version != version):
            self._accepted = self._source.defs(version)
        found = reading(self._source, seen) if reading is not None else None
        return Look(began, self._clock() - began, seen, alive, self._accepted, found, who)
