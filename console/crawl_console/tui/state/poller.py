"""Polls a data source on its own thread. Errors are reported; polling continues."""

import threading
import time
from collections.abc import Callable

from msgspec.structs import replace

from crawl_console.crawl.source import AcceptedDefs, DataSource, PollResult, ViewQuery, describe_error, poll

DEFAULT_SNAPSHOT_LIMIT = 200


class Poller:
    """One thread, one source. `set_query` can wake it at once."""

    def __init__(
        self,
        source: DataSource,
        hertz: float,
        on_result: Callable[[PollResult], None],
        on_error: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`hertz`: polls a second. The callbacks are called on the polling thread."""
        self._clock = clock
        self._source = source
        self._interval = 1.0 / hertz
        self._on_result = on_result
        self._on_error = on_error
        self._request: tuple[object, ViewQuery | None, ViewQuery | None, int] = (
            None, None, None, DEFAULT_SNAPSHOT_LIMIT,
        )  # fmt: skip
        self._accepted_defs: AcceptedDefs | None = None
        self._wake = threading.Event()
        self._stopped = threading.Event()

    def set_query(
        self,
        requester: object,
        query: ViewQuery | None,
        log_query: ViewQuery | None = None,
        limit: int = DEFAULT_SNAPSHOT_LIMIT,
        *,
        at_once: bool = True,
    ) -> None:
        """What each poll reads from now on: the snapshot with `limit` sequences and hosts, the queries' data."""
        self._request = (requester, query, log_query, limit)
        if at_once:
            self._wake.set()

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._wake.clear()
                started = self._clock()
                try:
                    result = self._poll()
                except Exception as error:  # whatever it is, the next poll may succeed
                    if not self._stopped.is_set():
                        self._on_error(describe_error(error))
                else:
                    if not self._stopped.is_set():
                        self._on_result(result)
                self._wake.wait(max(0.02, self._interval - (self._clock() - started)))
        finally:
            self._source.close()

    def _poll(self) -> PollResult:
        requester, query, log_query, limit = self._request
        result = poll(self._source, limit, self._clock)
        snapshot = result.snapshot
        version = snapshot.run.defs_version if snapshot.run is not None else None
        if version is not None and (self._accepted_defs is None or self._accepted_defs.version != version):
            self._accepted_defs = self._source.accepted_defs(version)
        return replace(
            result,
            accepted_defs=self._accepted_defs,
            view_data=query(self._source, snapshot) if query is not None else None,
            requester=requester,
            log=log_query(self._source, snapshot) if log_query is not None else None,
            duration=self._clock() - result.at,
        )
