"""Ends requests that take too long, with one timer for all of an event loop."""

import asyncio
import math
from types import TracebackType


class Deadlines:
    """The deadlines of one event loop."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._running: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def start(self) -> "Deadline":
        """A deadline for the block of a `with` statement, which awaits the request."""
        return Deadline(self)

    def watch(self, deadline: "Deadline", ends_at: float) -> None:
        """Note when a deadline ends, by the clock of the loop."""
        self._running.add(deadline)
        if ends_at < self._timer_at:
            self._set_timer(ends_at)

    def forget(self, deadline: "Deadline") -> None:
        """Note that a deadline does not end."""
        self._running.discard(deadline)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = asyncio.get_running_loop().call_at(at, self._end_overdue), at

    def _end_overdue(self) -> None:
        self._timer, self._timer_at = None, math.inf
        now = asyncio.get_running_loop().time()
        for deadline in [one for one in self._running if one.ends_at <= now]:
            self._running.discard(deadline)
            deadline.cancel()
        if self._running:
            self._set_timer(min([deadline.ends_at for deadline in self._running]))


class Deadline:
    """Raises TimeoutError in the block of a task that lasts too long, as `asyncio.timeout` does."""

    __slots__ = ("_cancelling", "_deadlines", "_has_ended", "_task", "ends_at")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._has_ended = False
        self.ends_at = 0.0
        """By the clock of the loop."""

    def __enter__(self) -> "Deadline":
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self.restart()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._deadlines.forget(self)
        if self._has_ended and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    @property
    def seconds(self) -> float:
        """The seconds that the block may last."""
        return self._deadlines.seconds

    def restart(self) -> None:
        """Begin again: the request makes progress."""
        self.resume(self.seconds)

    def pause(self) -> float:
        """Stand still; returns the seconds left."""
        self._deadlines.forget(self)
        return self.ends_at - asyncio.get_running_loop().time()

    def resume(self, left: float) -> None:
        """Go on with `left` seconds."""
        self.ends_at = asyncio.get_running_loop().time() + left
        self._deadlines.watch(self, self.ends_at)

    def cancel(self) -> None:
        """End the block: its deadline is over."""
        self._has_ended = True
        self._task.cancel()
