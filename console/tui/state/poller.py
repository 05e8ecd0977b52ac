"""Polls a source on a thread of its own, and hands each look over. A failed poll is told, and ends nothing."""

import threading
import time
from collections.abc import Callable

from console.tui.state.source import AcceptedDefs, DataSource, PollResult, ViewQuery, describe_error

DEFAULT_SNAPSHOT_LIMIT = 200


class Poller:
    """One thread, one source. `wake` makes it look at once."""

    def __init__(
        self,
        source: DataSource,
        hertz: float,
        seen: Callable[[PollResult], None],
        failed: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`hertz`: looks a second. `seen` and `failed` are called on the thread that runs it."""
        self._clock = clock
        self._source = source
        self._interval = 1.0 / hertz
        self._on_result = seen
        self._on_error = failed
        self._request: tuple[object, ViewQuery | None, int] = (None, None, DEFAULT_SNAPSHOT_LIMIT)
        self._accepted_defs: AcceptedDefs | None = None
        self._wake = threading.Event()
        self._stopped = threading.Event()

    def set_query(
        self, who: object, reading: ViewQuery | None, shown: int = DEFAULT_SNAPSHOT_LIMIT, *, at_once: bool = True
    ) -> None:
        """What each look shall read besides, from now on."""
        self._request = (who, reading, shown)
        if at_once:
            self._wake.set()

    def stop(self) -> None:
        """No more looks."""
        self._stopped.set()
        self._wake.set()

    def run(self) -> None:
        """Look until stopped."""
        try:
            while not self._stopped.is_set():
                self._wake.clear()
                began = self._clock()
                try:
                    look = self._poll(began)
                except Exception as error:  # whatever it is, the next look may succeed
                    if not self._stopped.is_set():
                        self._on_error(describe_error(error))
                else:
                    if not self._stopped.is_set():
                        self._on_result(look)
                self._wake.wait(max(0.02, self._interval - (self._clock() - began)))
        finally:
            self._source.close()

    def _poll(self, began: float) -> PollResult:
        who, reading, shown = self._request
        seen = self._source.snapshot(shown)
        alive = self._source.supervisor_pid(seen)
        version = seen.run.defs_version if seen.run is not None else None
        if version is not None and (self._accepted_defs is None or self._accepted_defs.version != version):
            self._accepted_defs = self._source.accepted_defs(version)
        found = reading(self._source, seen) if reading is not None else None
        return PollResult(began, self._clock() - began, seen, alive, self._accepted_defs, found, who)
