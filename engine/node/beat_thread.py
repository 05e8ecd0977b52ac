"""The node's heartbeat thread: writes a beat while the other threads tick, with the state of the node."""

import contextlib
import threading
import time

from engine.errors import CrawlError
from engine.node.build import NodeParts
from engine.node.tuning import CpuMeter, CpuPinner
from engine.runtime.beat_file import INTERVAL, MAX_WAITING, Beat, BeatWriter, cpu_seconds, resident_bytes

_MIN_TICK_LIMIT, _DEADLINE_MARGIN = 10.0, 5.0
"""Seconds a thread may go without a tick: at least 10, and 5 more than a request may take."""


class NodeBeatThread(threading.Thread):
    """Writes the beat, with the state of the node; between beats it does the node's periodic upkeep."""

    def __init__(self, parts: NodeParts) -> None:
        super().__init__(name="beat", daemon=True)
        self._parts = parts
        settings = parts.node.settings
        self._cpu_pinner = CpuPinner(parts.loop) if settings.cpu_affinity == "auto" else None
        self._cpu_meter = CpuMeter(parts.loop)
        self._tick_limit = max(_MIN_TICK_LIMIT, settings.deadline + _DEADLINE_MARGIN)
        self._writer = BeatWriter(parts.node.folder / "beats" / f"n{parts.node.epoch}")
        self._stopped = threading.Event()
        self._number = 0

    @property
    def state(self) -> str:
        """The state for the beat."""
        if self._parts.intake.draining.is_set():
            return "DRAINING"
        if self._parts.intake.standby:
            return "STANDBY"
        return "READY" if self._parts.capacity.held else "DONE"

    @property
    def is_stalled(self) -> bool:
        """Whether a thread exceeded the tick limit, so that the beat must stop."""
        silence = time.monotonic() - min(part.ticked_at for part in self._parts.ticking)
        return not self._parts.intake.draining.is_set() and silence > self._tick_limit

    def mark_ticked(self) -> None:
        """Count every part as alive now: those that have not started yet are not stalled."""
        now = time.monotonic()
        for part in self._parts.ticking:
            part.ticked_at = now

    def run(self) -> None:
        while True:
            self.write_beat(self.state)
            if self._cpu_pinner is not None:
                self._cpu_pinner.adjust()
            self._parts.heap_trimmer.trim_if_due()
            with contextlib.suppress(CrawlError):
                self._parts.registration.sync_role()
            if self._stopped.wait(INTERVAL):
                return

    def write_beat(self, state: str) -> None:
        """Write one beat, unless a thread is stalled."""
        if self.is_stalled:
            return
        self._number += 1
        held = self._parts.capacity.held
        url, age, limit = self._parts.loop.oldest_request if held else ("", 0.0, 0.0)
        children = (*self._parts.extraction_pool.pids, *self._parts.loader_pool.pids)
        beat = Beat(
            number=self._number,
            state=state,
            runs_alone=self._parts.capacity.exclusive,
            in_flight=held,
            done=self._parts.committer.done,
            failed=self._parts.committer.failed,
            rss=resident_bytes() + sum(map(resident_bytes, children)),
            cpu=cpu_seconds() + sum(map(cpu_seconds, children)),
            is_cpu_bound=self._cpu_meter.is_bound(),
            lag=self._parts.loop.lag,
            now=self._parts.intake.alarm or url,
            now_age=age,
            now_limit=limit,
            waiting_hosts=tuple(sorted(self._parts.loop.waiting_hosts.items(), key=lambda item: item[1])[:MAX_WAITING]),
        )
        with contextlib.suppress(OSError):  # a full disk may refuse the first record
            self._writer.write(beat)

    def stop(self) -> None:
        """Write a last beat, which says that the node ends on purpose."""
        self._stopped.set()
        self.join(1.0)
        self.write_beat("SHUTDOWN")
