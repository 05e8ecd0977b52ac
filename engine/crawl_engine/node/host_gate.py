"""Admits requests to their hosts: concurrency, delay and backoff, shared with other processes."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import chain
from typing import TypeVar

from msgspec import Struct

from crawl_engine.model.job import LeasedJob
from crawl_engine.runtime.clock import store_time
from crawl_engine.runtime.host_clock import HostClock, HostRecord

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_SHARE_SECONDS = 0.25
"""Seconds for which the division of a host's slots among data dirs is cached."""
_IDLE_SECONDS = 2.0
"""Seconds without a request after which a host is left to the other data dirs."""
_MAX_LATENESS, _MAX_LATE_SHARE = 0.01, 0.05
"""A turn is lost if its request is later than this many seconds plus this share of the delay."""
_KEEP_SECONDS = 60.0
"""Seconds between two marks of a record in use; an unmarked record may go to another host after 600 s."""
_MAX_GATES = 4_096
"""Gates that are kept for `_KEEP_SECONDS` after their last request: many hosts take turns of seconds."""
_READY_SECONDS = 5.0
"""A job gets ready so long before its turn."""
_POLL_DIVISOR, _MIN_POLL, _MAX_POLL = 12, 0.001, 0.02
"""A slot that another process holds is polled twelve times during a usual request."""


class HostBackingOff(Exception):
    """The host is in backoff: nothing may be sent before `until` (boot-time seconds)."""

    def __init__(self, until: float) -> None:
        super().__init__(until)
        self.until = until


class HostGate:
    """The gate of one host. A request holds a slot, which is a byte lock, and waits for its turn under a delay."""

    def __init__(self, clock: HostClock, host_key: str) -> None:
        self._clock = clock
        self._record: HostRecord = clock.find(host_key)
        self._held: dict[int, float] = {}
        self._freed: list[int] = []
        self._queue: deque[_SlotWaiter] = deque()
        self._sleepers: set[asyncio.Future[None]] = set()
        self._turn = asyncio.Lock()
        self.approaching = asyncio.Lock()
        """Held by the one job that gets ready for its turn."""
        self._share = range(0)
        self._share_key = (0, -1.0)
        self._hold_seconds = 0.0
        self._own_backoff = self._own_next_at = 0.0
        self._rest_end = 0.0
        """The end of the last backoff, as read last; 0: the host has answered since."""
        self._is_damaged = False
        self.users = 0
        """Jobs that wait for the host or hold a slot."""
        self.idle_since = 0.0
        self._kept_at = float("-inf")
        self._is_joined = False

    def check_backoff(self) -> bool:
        """Whether the host is on trial: it has not answered since its last backoff. Raises HostBackingOff during one.

        A host on trial gets one request at a time.
        """
        self._rest_end = until = self._read_backoff()
        if until > store_time():
            raise HostBackingOff(until)
        return until > 0 and self._clock.wants_probe(self._record)

    def _read_backoff(self) -> float:
        return self._own_backoff if self._is_damaged else self._clock.backoff(self._record)

    def try_enter(self, concurrency: int) -> int | None:
        """A slot for a request to a host without delay; None: the request must wait. Raises HostBackingOff."""
        is_on_trial = self.check_backoff()
        return None if self._queue else self._try_slot(1 if is_on_trial else concurrency)

    def note_answer(self, sent_at: float) -> None:
        """Note an answer to a request of `sent_at` that is no refusal: it ends the trial that it was sent in."""
        if 0 < self._rest_end <= sent_at:
            self._rest_end = self._own_backoff = 0.0
            self._try(lambda: self._clock.clear_backoff(self._record), None)
            self._wake_first()

    async def await_nearness(self, seconds: float) -> None:
        """Wait until the next turn may come within so many seconds. Raises HostBackingOff."""
        while True:
            self.check_backoff()
            next_at = self._own_next_at if self._is_damaged else self._clock.next_turn(self._record)
            if next_at - store_time() <= seconds:
                return
            await self._sleep_until(next_at - seconds)

    async def enter(self, send_at: float | None, delay: float, concurrency: int) -> tuple[int, float]:
        """Wait until a request may be sent; returns the slot it holds, and the moment of its turn (0: no delay).

        Raises HostBackingOff.
        """
        self.check_backoff()
        if send_at is not None:
            await self._sleep_until(send_at)
        slot = await self._take_slot(concurrency)
        try:
            turn_at = await self.wait_turn(delay) if delay else 0.0
            self.check_backoff()
        except BaseException:
            self.release(slot)
            raise
        return slot, turn_at

    async def wait_turn(self, delay: float) -> float:
        """Wait until the delay since the host's last request is over, then reserve and return the moment.

        The request must be sent at once. Raises HostBackingOff.
        """
        async with self._turn:
            while True:
                self.check_backoff()
                try_at = self._own_next_at
                if try_at <= store_time():
                    try_at = self._try(lambda: self._clock.reserve(self._record, delay), 0.0)
                if not try_at:  # a time that passed meanwhile is not reserved yet
                    turn_at = store_time()
                    self._own_next_at = turn_at + delay if self._is_damaged else 0.0
                    return turn_at
                await self._sleep_until(try_at)

    def release(self, slot: int) -> None:
        """Free a slot; the next request that waits may take it."""
        self._hold_seconds += (store_time() - self._held.pop(slot) - self._hold_seconds) / 4
        try:
            self._clock.unlock_slot(self._record, slot)
        except OSError as error:
            self._note_damage(error)
        self._freed.append(slot)
        if self._queue:
            self._wake_first()

    def strike(
        self, sent_at: float, until: float, asked_until: float, *, probe: bool = True
    ) -> tuple[bool, float]:  # fmt: skip
        """Note an answer of 429 or 503 to a request of `sent_at`, and call back waiting jobs.

        The backoff lasts at least until `until`; if the answer belongs to an earlier burst, until `asked_until`.
        `probe`: one request goes first after it. Returns whether it is its first answer, and when the backoff ends.
        """
        first = self._try(lambda: self._clock.strike(self._record, sent_at, until, asked_until, probe=probe), True)
        self._own_backoff = max(self._own_backoff, until if first else asked_until)
        for waiting in [*self._sleepers, *(waiter.woken for waiter in self._queue)]:
            _wake(waiting)
        return first, self._read_backoff()

    def keep(self, now: float) -> None:
        """Mark the host's record as in use, once a minute."""
        if now - self._kept_at > _KEEP_SECONDS:
            self._kept_at = now
            self._try(lambda: self._clock.keep(self._record), None)

    def leave(self) -> None:
        """Stop counting among the data dirs that use the host."""
        if self._is_joined:
            self._is_joined = False
            self._try(lambda: self._clock.leave(self._record), None)

    async def _take_slot(self, concurrency: int) -> int:
        """A slot, in the order of the calls. Only the first waiting call polls for slots of other processes.

        A data dir whose requests wait counts among those that share the slots; all others take what is free.
        """
        if not self._queue:
            slot = self._try_slot(1 if self.check_backoff() else concurrency)
            if slot is not None:
                return slot
        if not self._is_joined:
            self._is_joined = True
            self._try(lambda: self._clock.join(self._record), None)
        loop = asyncio.get_running_loop()
        waiter = _SlotWaiter(loop.create_future())
        self._queue.append(waiter)
        try:
            while True:
                is_on_trial = self.check_backoff()
                if self._queue[0] is not waiter:
                    await waiter.woken
                else:
                    slot = self._try_slot(1 if is_on_trial else concurrency)
                    if slot is not None:
                        return slot
                    await self._wait(waiter.woken, self._poll_seconds)
                waiter.woken = loop.create_future()
        finally:
            self._queue.remove(waiter)
            self._wake_first()  # which may take another slot, and polls from now on

    def _wake_first(self) -> None:
        if self._queue:
            _wake(self._queue[0].woken)

    @property
    def _poll_seconds(self) -> float:
        return max(_MIN_POLL, min(_MAX_POLL, self._hold_seconds / _POLL_DIVISOR))

    def _try_slot(self, concurrency: int) -> int | None:
        share = self._current_share(concurrency)
        while self._freed:
            freed = self._freed.pop()
            if freed in share and freed not in self._held and self._lock(freed):
                return self._hold(freed)
        if self._held.keys() >= {*share}:
            return None
        first = random.randrange(len(share))
        for slot in chain(share[first:], share[:first]):
            if slot not in self._held and self._lock(slot):
                return self._hold(slot)
        return None

    def _hold(self, slot: int) -> int:
        self._held[slot] = store_time()
        return slot

    def _lock(self, slot: int) -> bool:
        try:
            return self._clock.lock_slot(self._record, slot)
        except OSError as error:
            self._note_damage(error)
            return True

    def _current_share(self, concurrency: int) -> range:
        now = store_time()
        cached_for, read_at = self._share_key
        if concurrency != cached_for or now - read_at > _SHARE_SECONDS:
            self._share_key = concurrency, now
            self._share = self._try(lambda: self._clock.share(self._record, concurrency), range(concurrency))
        return self._share

    async def _sleep_until(self, at: float) -> None:
        """Sleep until a boot-time second, or until the host goes into backoff."""
        left = at - store_time()
        if left > 0:
            waiting = asyncio.get_running_loop().create_future()
            self._sleepers.add(waiting)
            try:
                await self._wait(waiting, left)
            finally:
                self._sleepers.discard(waiting)

    async def _wait(self, waiting: "asyncio.Future[None]", seconds: float) -> None:
        timer = asyncio.get_running_loop().call_later(seconds, _wake, waiting)
        try:
            await waiting
        finally:
            timer.cancel()

    def _try(self, work: Callable[[], _T], otherwise: _T) -> _T:
        """The result of a call of the clock; if its file fails, only this node's values limit the host."""
        try:
            return work()
        except OSError as error:
            self._note_damage(error)
            return otherwise

    def _note_damage(self, error: OSError) -> None:
        if not self._is_damaged:
            self._is_damaged = True
            _log.warning("the host clock cannot be used: %s", error)


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


class _SlotWaiter(Struct, eq=False):
    woken: "asyncio.Future[None]"


class _Admission(Struct):
    gate: HostGate
    slot: int
    turn_at: float
    """Boot-time second of the job's last turn."""

    def is_late(self, delay: float) -> bool:
        """Whether the request came so late after its turn that the next turn would follow it too soon."""
        return store_time() - self.turn_at > min(_MAX_LATENESS, delay * _MAX_LATE_SHARE)


class HostGates:
    """The gates of the hosts a node works on, and the slots its jobs hold. Used on the fetch loop's thread."""

    def __init__(self, clock: HostClock) -> None:
        self._clock = clock
        self._gates: dict[str, HostGate] = {}
        """In the order in which they were used last."""
        self._admissions: dict[tuple[int, int], _Admission] = {}
        self._swept_at = 0.0

    async def enter(self, job: LeasedJob, host_key: str, *, send_at: float | None, takes_turn: bool = True) -> None:
        """Wait until a job may send a request to the host; it then holds one of its slots. Raises HostBackingOff.

        `takes_turn`: it sends at once. Otherwise its turn comes with `wait_turn`.
        """
        delay, concurrency = job.terms.delay if takes_turn else 0.0, job.terms.concurrency
        gate = self._gate(host_key)
        gate.users += 1
        turn_at = 0.0
        try:
            slot = gate.try_enter(concurrency) if send_at is None and not delay else None
            if slot is None:
                slot, turn_at = await gate.enter(send_at, delay, concurrency)
        except BaseException:
            self._leave(gate)
            raise
        self._admissions[job.lease_key] = _Admission(gate, slot, turn_at)

    async def wait_turn(self, job: LeasedJob, *, again: bool) -> None:
        """Have an admitted job wait for a new turn if it needs one. Raises HostBackingOff.

        `again`: it has sent a request in its last turn. Otherwise the turn is lost if it came too late.
        """
        admission = self._admissions[job.lease_key]
        if job.terms.delay and (again or admission.is_late(job.terms.delay)):
            admission.turn_at = await admission.gate.wait_turn(job.terms.delay)
        else:
            admission.gate.check_backoff()

    @asynccontextmanager
    async def approach(self, job: LeasedJob) -> AsyncIterator[None]:
        """Get an admitted job ready for its turn, one of its host at a time. Raises HostBackingOff.

        What it gets ready with, as a place in a browser, is not kept from others for the time of a long delay.
        """
        gate = self._admissions[job.lease_key].gate
        if job.terms.delay <= _READY_SECONDS:
            yield
            return
        async with gate.approaching:
            await gate.await_nearness(_READY_SECONDS)
            yield

    def gate_of(self, job: LeasedJob) -> HostGate | None:
        """The gate whose slot the job holds."""
        admission = self._admissions.get(job.lease_key)
        return None if admission is None else admission.gate

    def exit(self, job: LeasedJob) -> None:
        """Free the slot of a job, if it holds one."""
        admission = self._admissions.pop(job.lease_key, None)
        if admission is not None:
            admission.gate.release(admission.slot)
            self._leave(admission.gate)

    def close(self) -> None:
        """Close the clock."""
        self._clock.close()

    def _gate(self, host_key: str) -> HostGate:
        now = store_time()
        if now - self._swept_at > _IDLE_SECONDS / 2:
            self._swept_at = now
            self._sweep(now)
        gate = self._gates.pop(host_key) if host_key in self._gates else HostGate(self._clock, host_key)
        self._gates[host_key] = gate
        gate.keep(now)
        return gate

    def _leave(self, gate: HostGate) -> None:
        gate.users -= 1
        gate.idle_since = store_time()

    def _sweep(self, now: float) -> None:
        excess = len(self._gates) - _MAX_GATES
        for key, gate in list(self._gates.items()):
            idle_seconds = now - gate.idle_since
            if gate.users:
                gate.keep(now)
            elif idle_seconds > _KEEP_SECONDS or excess > 0:
                gate.leave()
                del self._gates[key]
                excess -= 1
            elif idle_seconds > _IDLE_SECONDS:
                gate.leave()
