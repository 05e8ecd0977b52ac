"""The node's heartbeat thread: writes a beat while the other threads tick, with the state of the node."""

import contextlib
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from engine.errors import CrawlError
from engine.node.capacity import Capacity, Intake
from engine.node.committer import Committer
from engine.node.extraction.process_pool import ExtractionPool
from engine.node.fetch_loop import FetchLoop
from engine.node.loading.pool import LoaderPool
from engine.node.registration import Registration
from engine.node.tuning import CpuMeter, CpuPinner, HeapTrimmer
from engine.runtime.beat_file import INTERVAL, MAX_WAITING, Beat, BeatWriter, cpu_seconds, resident_bytes

_MIN_TICK_LIMIT, _DEADLINE_MARGIN = 10.0, 5.0
"""Seconds a thread may go without a tick: at least 10, and 5 more than a request may take."""


class Ticking(Protocol):
    """A part of the node that sets `ticked_at`, a monotonic second, while it works."""

    ticked_at: float


class NodeStatus:
    """Derives the node's state from its parts."""

    def __init__(self, *, intake: Intake, capacity: Capacity, ticking: Sequence[Ticking], deadline: float) -> None:
        """`deadline`: the setting."""
        self._intake = intake
        self._capacity = capacity
        self._ticking = ticking
        self._tick_limit = max(_MIN_TICK_LIMIT, deadline + _DEADLINE_MARGIN)

    @property
    def state(self) -> str:
        """The state for the beat."""
        if self._intake.draining.is_set():
            return "DRAINING"
        if self._intake.standby:
            return "STANDBY"
        return "READY" if self._capacity.held else "DONE"

    @property
    def is_stalled(self) -> bool:
        """Whether a thread exceeded the tick limit, so that the beat must stop."""
        silence = time.monotonic() - min(part.ticked_at for part in self._ticking)
        return not self._intake.draining.is_set() and silence > self._tick_limit

    def mark_ticked(self) -> None:
        """Count every part as alive now: those that have not started yet are not stalled."""
        now = time.monotonic()
        for part in self._ticking:
            part.ticked_at = now


class NodeBeatThread(threading.Thread):
    """Writes the beat; between beats it does the node's periodic upkeep."""

    def __init__(
        self,
        path: Path,
        *,
        status: NodeStatus,
        registration: Registration,
        intake: Intake,
        capacity: Capacity,
        committer: Committer,
        loop: FetchLoop,
        heap_trimmer: HeapTrimmer,
        extraction_pool: ExtractionPool,
        loader_pool: LoaderPool,
        cpu_pinner: CpuPinner | None,
    ) -> None:
        """`path`: the beat file. `cpu_pinner`: None where the threads are not to be pinned."""
        super().__init__(name="beat", daemon=True)
        self._status = status
        self._registration = registration
        self._intake = intake
        self._capacity = capacity
        self._committer = committer
        self._loop = loop
        self._heap_trimmer = heap_trimmer
        self._extraction_pool = extraction_pool
        self._loader_pool = loader_pool
        self._cpu_pinner = cpu_pinner
        self._cpu_meter = CpuMeter(loop)
        self._writer = BeatWriter(path)
        self._stopped = threading.Event()
        self._number = 0

    def run(self) -> None:
        while True:
            self.write_beat(self._status.state)
            if self._cpu_pinner is not None:
                self._cpu_pinner.adjust()
            self._heap_trimmer.trim_if_due()
            with contextlib.suppress(CrawlError):
                self._registration.sync_role()
            if self._stopped.wait(INTERVAL):
                return

    def write_beat(self, state: str) -> None:
        """Write one beat, unless a thread is stalled."""
        if self._status.is_stalled:
            return
        self._number += 1
        held = self._capacity.held
        url, age, limit = self._loop.oldest_request if held else ("", 0.0, 0.0)
        children = (*self._extraction_pool.pids, *self._loader_pool.pids)
        beat = Beat(
            number=self._number,
            state=state,
            runs_alone=self._capacity.exclusive,
            in_flight=held,
            done=self._committer.done,
            failed=self._committer.failed,
            rss=resident_bytes() + sum(map(resident_bytes, children)),
            cpu=cpu_seconds() + sum(map(cpu_seconds, children)),
            is_cpu_bound=self._cpu_meter.is_bound(),
            lag=self._loop.lag,
            now=self._intake.alarm or url,
            now_age=age,
            now_limit=limit,
            waiting_hosts=tuple(sorted(self._loop.waiting_hosts.items(), key=lambda item: item[1])[:MAX_WAITING]),
        )
        with contextlib.suppress(OSError):  # a full disk may refuse the first record
            self._writer.write(beat)

    def stop(self) -> None:
        """Write a last beat, which says that the node ends on purpose."""
        self._stopped.set()
        self.join(1.0)
        self.write_beat("SHUTDOWN")
