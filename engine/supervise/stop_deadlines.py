"""Until when each stage of a stop may last.

A natural end has ample time. A stop that was asked for is bounded as a whole, since who asked, such as a container's
runtime, kills what is left after a while.
"""

import math

from engine.settings import Settings

_FORCE_SECONDS = 10.0
"""For processes to end after they were asked again."""
_COMMIT_SECONDS = 5.0
"""Time that nodes have beyond the grace of their jobs: to commit and to report their end."""
_MIN_FILE_SECONDS = 30.0


class StopDeadlines:
    """The deadlines of one supervisor. All times are monotonic seconds."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._end: float | None = None

    def bound(self, now: float) -> None:
        """Somebody asks for the stop. Does nothing at the second time."""
        if self._end is None:
            self._end = now + self._settings.stop_seconds

    def nodes(self, now: float) -> float:
        """Until when nodes that are asked to stop now may finish."""
        limit = self._settings.node_drain if self._end is None else self._settings.job_grace + _COMMIT_SECONDS
        return self._before_end(now + limit, 0.75)

    def nodes_forced(self, now: float) -> float:
        """When nodes that are asked again now are killed."""
        return self._before_end(now + _FORCE_SECONDS, 0.5)

    def files(self, now: float) -> float:
        """Until when the appender may write what is left."""
        limit = self._settings.file_drain if self._end is None else max(self._settings.grace, _MIN_FILE_SECONDS)
        return self._before_end(now + limit, 0.25)

    def files_forced(self, now: float) -> float:
        """When the appender that is asked again now is killed."""
        return self._before_end(now + _FORCE_SECONDS, 0.15)

    def helpers(self) -> float:
        """When helpers that still run are killed, whatever time of their own they have left."""
        return self._before_end(math.inf, 0.1)

    def busy(self, deadline: float, *, processes_alive: bool) -> float:
        """Until when a database that is busy may delay a stage with this deadline."""
        return self._before_end(deadline + (_FORCE_SECONDS if processes_alive else 0.0), 0.1)

    def _before_end(self, moment: float, share: float) -> float:
        """A moment, at most so early that this share of the reserve is left."""
        return moment if self._end is None else min(moment, self._end - share * self._settings.stop_reserve)
