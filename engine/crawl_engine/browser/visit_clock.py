"""The time that a page has in a browser: it stands while the page waits for its turn at its host."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator


class VisitClock:
    """For one page, on one event loop. Its limits stand with it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._used = 0.0
        """Seconds until it was started last."""
        self._started_at = self._loop.time()
        self._waits = 0
        """What the page waits for."""
        self._limits: dict[asyncio.Timeout, float] = {}
        """With the seconds that each has left while the clock stands."""

    @property
    def left(self) -> float:
        """Seconds that the page has left; negative: it is late."""
        running = 0.0 if self._waits else self._loop.time() - self._started_at
        return self.seconds - self._used - running

    @contextlib.asynccontextmanager
    async def limit(self, seconds: float) -> AsyncIterator[None]:
        """Raise TimeoutError after so many seconds of this clock."""
        async with asyncio.timeout(None if self._waits else seconds) as limit:
            self._limits[limit] = seconds
            try:
                yield
            finally:
                del self._limits[limit]

    @contextlib.contextmanager
    def stand(self) -> Iterator[None]:
        """Stand while the page waits for something."""
        if not self._waits:
            self._stop()
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._go_on()

    def _stop(self) -> None:
        now = self._loop.time()
        self._used += now - self._started_at
        for limit in self._limits:
            if not limit.expired() and (end := limit.when()) is not None:
                self._limits[limit] = max(0.0, end - now)
                limit.reschedule(None)

    def _go_on(self) -> None:
        self._started_at = self._loop.time()
        for limit, left in self._limits.items():
            if not limit.expired():
                limit.reschedule(self._started_at + left)
