"""How long an appender that has nothing else to do retries an output that cannot be written."""

import time

GIVE_UP_SECONDS = 5.0


class Patience:
    """Ends when outputs have failed for some seconds, and nothing was written: the next run writes their rows."""

    def __init__(self, seconds: float = GIVE_UP_SECONDS) -> None:
        self._seconds = seconds
        self._failing_since: float | None = None

    def is_over(self, *, failing: bool, written_at: float) -> bool:
        """Whether outputs have failed for so long.

        `failing`: whether one fails now. `written_at`: when rows were last written to one, in monotonic seconds.
        """
        if not failing:
            self._failing_since = None
            return False
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        return time.monotonic() - max(self._failing_since, written_at) >= self._seconds
