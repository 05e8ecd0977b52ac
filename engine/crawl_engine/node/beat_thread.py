"""What tells the supervisor of a node: its row in the `nodes` table, and the thread of its heartbeat."""

import contextlib
import os
import threading
import time

from crawl_engine.errors import CrawlError
from crawl_engine.model.node import NodeState, Role
from crawl_engine.node.build import NodeParts
from crawl_engine.node.capacity import Intake
from crawl_engine.node.node_context import NodeContext
from crawl_engine.node.tuning import CpuMeter, CpuPinner
from crawl_engine.runtime.beat_file import INTERVAL, MAX_WAITING, Beat, BeatWriter, cpu_seconds, resident_bytes
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.store.db.connector import DatabaseBusy, connect
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.run import nodes

_BUSY_SECONDS = 0.5
"""Short, so that a node that waits for a busy database can write beats between two attempts."""
_MIN_TICK_LIMIT, _DEADLINE_MARGIN = 10.0, 5.0
"""Seconds a thread may go without a tick: at least 10, and 5 more than a request may take."""


class Registration:
    """Registers and ends on the main thread; `sync_role` runs on the beat thread, with a connection of its own."""

    def __init__(self, node: NodeContext, intake: Intake, wakeup: threading.Event) -> None:
        """`wakeup` is set when a backup becomes a runner."""
        path = node.folder / CRAWL
        self._db = connect(path, busy_seconds=_BUSY_SECONDS, small_cache=True)
        self._role_reader = connect(path, read_only=True, busy_seconds=_BUSY_SECONDS, small_cache=True)
        self._node = node
        self._intake = intake
        self._wakeup = wakeup

    def register(self) -> bool | None:
        """Record this process in the node's row. False: its epoch is over; None: the database is busy or full."""
        identity = identity_of(os.getpid()) or ""
        try:
            with self._db.transaction():
                return nodes.register(
                    self._db, self._node.epoch, "STANDBY" if self._intake.standby else "DONE", os.getpid(), identity
                )
        except DatabaseBusy:
            return None

    def sync_role(self) -> None:
        """Follow the supervisor's changes to the row: a backup becomes a runner, or the epoch is over."""
        role = nodes.get_live_role(self._role_reader, self._node.epoch)
        if role is None and not self._intake.draining.is_set():
            self._node.on_fenced()
        if role is Role.RUNNER and self._intake.standby:
            self._intake.standby = False
            self._wakeup.set()

    def record_shutdown(self, seconds: float) -> None:
        """Record the shutdown; retry for `seconds` while the database is busy. Raises DatabaseBusy."""
        retry_busy(self._set_shutdown, seconds=seconds)

    def _set_shutdown(self) -> None:
        with self._db.transaction():
            nodes.set_state(self._db, self._node.epoch, NodeState.SHUTDOWN)


class NodeBeatThread(threading.Thread):
    """Writes the beat, with the state of the node; between beats it does the node's periodic upkeep."""

    def __init__(self, parts: NodeParts, registration: Registration) -> None:
        super().__init__(name="beat", daemon=True)
        self._parts = parts
        self._registration = registration
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
                self._registration.sync_role()
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
            browsers=self._parts.browsers.describe(),
        )
        with contextlib.suppress(OSError):  # a full disk may refuse the first record
            self._writer.write(beat)

    def stop(self) -> None:
        """Write a last beat, which says that the node ends on purpose."""
        self._stopped.set()
        self.join(1.0)
        self.write_beat("SHUTDOWN")
