"""How long an appender that has nothing else to do retries an output that cannot be written."""

import time

GIVE_UP_SECONDS = 5.0


class Patience:
    """Ends when outputs have failed for some seconds without a pause: the next run writes their rows."""

    def __init__(self) -> None:
        self._failing_since: float | None = None

    def is_over(self, *, failing: bool) -> bool:
        """Whether outputs have failed for so long. `failing`: whether one fails now."""
        if not failing:
            self._failing_since = None
            return False
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        return time.monotonic() - self._failing_since >= GIVE_UP_SECONDS
