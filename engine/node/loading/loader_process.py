"""One loader process, as its node sees it: asks it for one page at a time, kills it past a limit."""

import asyncio
import logging
from collections.abc import Sequence

from engine.http.byte_budget import BodyShare
from engine.http.errors import NoRoom
from engine.node.extraction.wire import InvalidAnswer
from engine.node.loading.messages import OTHER_BYTES, Answer, decode_answer
from engine.processes.forks import Fork
from engine.processes.frames import PREFIX
from engine.processes.orders import Ended
from engine.runtime.beat_file import resident_bytes

_log = logging.getLogger(__name__)
_WATCH_SECONDS = 0.05
"""Seconds between two looks at the memory of a working process."""
_KEPT_SHARE = 0.5
"""Part of `parse_memory` that a process may keep between two pages; a process that keeps more is replaced."""


class LoaderDied(Exception):
    """A loader process was killed at a limit, or ended. The message says why."""


class LoaderProcess:
    """Used by one job at a time, on one event loop."""

    def __init__(self, fork: Fork, *, memory: int, max_body: int) -> None:
        """`memory`: bytes of resident memory it may have."""
        self._fork = fork
        self._loop = asyncio.get_running_loop()
        self._memory = memory
        self._max_body = max_body
        self._answered: asyncio.Future[Answer] | None = None
        self._reason = ""
        """Why the process was killed."""
        self._gone = asyncio.Event()
        self._share: BodyShare | None = None
        self._deadline: asyncio.Timeout | None = None
        self._seconds = 0.0
        self._waiting: asyncio.Task[None] | None = None
        self._watch: asyncio.TimerHandle
        self.waited = 0.0
        """Seconds that the last answer waited for room in the node."""
        self._connection = fork.read_frames(
            max_bytes=max_body + OTHER_BYTES + PREFIX.size, on_size=self._admit, on_answer=self._receive
        )

    @property
    def pid(self) -> int | None:
        return self._fork.pid

    @property
    def is_usable(self) -> bool:
        """Whether it may load another page."""
        return self._fork.is_open and self._answered is None

    @property
    def keeps_too_much(self) -> bool:
        """Whether it keeps so much memory between two pages that it should be replaced."""
        return self._resident_bytes() > self._memory * _KEPT_SHARE

    async def ask(self, pieces: Sequence[bytes], *, seconds: float, share: BodyShare | None = None) -> Answer:
        """The answer to a message. `share` grows with the answer; waiting for room does not count as time.

        Raises LoaderDied, and NoRoom if the answer waits for longer than `seconds`.
        """
        self._answered = self._loop.create_future()
        self._share, self._seconds, self.waited = share, seconds, 0.0
        self._watch = self._loop.call_later(_WATCH_SECONDS, self._watch_memory)
        if self._gone.is_set():  # it has ended since it was reserved
            self._fail()
        try:
            async with asyncio.timeout(seconds) as self._deadline:
                self._connection.write(pieces)
                answer = await self._answered
        except TimeoutError:
            self.kill(f"takes longer than its limit of {seconds:g} s")
            await self._gone.wait()
            raise LoaderDied(self._reason) from None
        except LoaderDied:
            await self._gone.wait()
            raise LoaderDied(self._reason) from None
        except BaseException:  # its job was cancelled or got no room: the rest of its work is useless
            self.kill("is no longer needed")
            raise
        finally:
            self._watch.cancel()
            if self._waiting is not None:
                self._waiting.cancel()
            self._waiting = self._deadline = self._share = self._answered = None
        return answer

    def kill(self, reason: str) -> None:
        """Kill it, unless it has ended."""
        self._reason = self._reason or reason
        self._fork.kill()

    def close(self) -> None:
        """Ignore its end."""
        self._fork.close()

    def on_end(self, ended: Ended) -> None:
        """Note its end, after what it sent before."""
        self._reason = self._reason or f"its process ended ({ended.cause})"
        self._gone.set()
        self._fail()

    def _receive(self, header: memoryview, body: memoryview) -> None:
        if self._fork.is_killed or self._answered is None or self._answered.done():
            self.kill("its process sent what nobody asked for")
            return
        try:
            self._answered.set_result(decode_answer(header, body, self._max_body))
        except InvalidAnswer as error:
            _log.error("loader process %s: invalid answer: %s", self.pid, error)
            self.kill("its process sent an invalid answer")
            self._fail()

    def _admit(self, size: int) -> bool:
        """Whether the answer may be read now; otherwise it stays in the process until there is room."""
        if self._share is None or self._answered is None or self._share.try_grow(size):
            return True
        self._waiting = self._loop.create_task(self._wait_for_room(self._share, size))
        return False

    async def _wait_for_room(self, share: BodyShare, size: int) -> None:
        if self._deadline is None or self._deadline.expired():
            return  # it is being killed
        began, ends_at = self._loop.time(), self._deadline.when()
        self._deadline.reschedule(None)
        try:
            async with asyncio.timeout(self._seconds):
                await share.grow(size)
        except TimeoutError:
            self._fail(NoRoom())
            return
        self.waited = self._loop.time() - began
        if self._deadline is not None and ends_at is not None:
            self._deadline.reschedule(ends_at + self.waited)
        self._connection.resume()

    def _watch_memory(self) -> None:
        if self._answered is None or self._answered.done():
            return
        if self._resident_bytes() > self._memory:
            self.kill(f"needs more than {self._memory / 1e6:,.0f} MB; the limit is parse_memory")
            self._fail()
            return
        self._watch = self._loop.call_later(_WATCH_SECONDS, self._watch_memory)

    def _resident_bytes(self) -> int:
        return 0 if self.pid is None else resident_bytes(self.pid)

    def _fail(self, error: Exception | None = None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error or LoaderDied())
