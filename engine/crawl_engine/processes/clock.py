"""Measures how long a process takes for a question, as the event loop sees it."""

import asyncio
from collections.abc import Callable

_TICK_SECONDS = 0.1
_STARTING_SECONDS, _MAX_START_SECONDS = 0.02, 20.0


class QuestionClock:
    """The clock of one question. Time in which the event loop stood still counts little: the answer may be waiting.

    Time in which the process waited for a processor does not count: a page is not to blame for a loaded machine.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        *,
        has_begun: Callable[[], bool],
        received: Callable[[], int],
        run_delay: Callable[[], float],
        on_expired: Callable[[], None],
    ) -> None:
        """`has_begun`: whether the process ever began a question. `received`: bytes of answers so far.

        `run_delay`: seconds so far in which the process waited for a processor.
        """
        self._loop = loop
        self._limit = seconds
        self._has_begun = has_begun
        self._received = received
        self._run_delay = run_delay
        self._on_expired = on_expired
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._known_delay: float | None = None
        """None: the first tick has not ended; most questions are answered within it."""
        self.began_at = 0.0
        """When the question was begun, by the clock of the loop."""

    def start(self) -> None:
        """Start the time, or wait until the process has started."""
        self._check_start(0.0)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pause(self, *, paused: bool) -> None:
        """While paused, time does not count: the answer waits for the client."""
        self._paused = paused

    def _check_start(self, waited: float) -> None:
        """Begin to count once the process has begun the question; a start has a limit of its own."""
        self.began_at = self._loop.time()
        if self._has_begun():
            self._watch_next(self._limit)
        elif waited < _MAX_START_SECONDS:
            self._timer = self._loop.call_later(_STARTING_SECONDS, self._check_start, waited + _STARTING_SECONDS)
        else:
            self._on_expired()

    def _watch_next(self, left: float) -> None:
        tick = min(_TICK_SECONDS, max(left, _TICK_SECONDS / 10)) if left > 0 else _TICK_SECONDS
        due = self._loop.time() + tick
        self._timer = self._loop.call_at(due, self._watch, left, tick, due, self._received())

    def _watch(self, left: float, tick: float, due: float, received: int) -> None:
        """Count a tick. After a late one, the loop first reads what has come meanwhile; an answer may be long."""
        lateness = self._loop.time() - due
        late, delay = lateness > _TICK_SECONDS, self._new_delay()
        arriving = self._received() > received
        if not self._paused:
            left -= min(tick, tick + lateness - delay)
        if self._paused or left > 0 or ((late or arriving) and left > -self._limit):
            self._watch_next(left)
        else:
            self._on_expired()

    def _new_delay(self) -> float:
        """Seconds of waiting for a processor that were added since the tick before."""
        known, self._known_delay = self._known_delay, self._run_delay()
        return 0.0 if known is None else max(0.0, self._known_delay - known)  # a process that has ended has none
