"""Writes the progress of a run for viewers; a busy database only delays it."""

import contextlib
import time
from collections.abc import Callable

from engine.store.db.connector import DatabaseBusy
from engine.supervise.analysis.run_stats import RunStats
from engine.supervise.checkpoints.tracker import CheckpointTracker
from engine.supervise.nodes.node_pool import NodePool

_RECORD_SECONDS = 1.0


class ProgressRecorder:
    """Records the progress of one run, about once a second."""

    def __init__(self, node_pool: NodePool, stats: RunStats, checkpoints: CheckpointTracker) -> None:
        self._node_pool = node_pool
        self._stats = stats
        self._checkpoints = checkpoints
        self._recorded_at = time.monotonic()

    def record(self, is_stopped_early: Callable[[], bool]) -> None:
        """Record it if a second has passed, or a heartbeat state has changed."""
        now = time.monotonic()
        if now - self._recorded_at >= _RECORD_SECONDS or self._node_pool.has_heart_changes:
            self._recorded_at = now
            try:
                self._node_pool.record_beats()
                self._stats.record(self._node_pool.waiting_hosts())
                self._checkpoints.update(is_stopped_early)
            except DatabaseBusy:
                with contextlib.suppress(DatabaseBusy):
                    self._stats.judge()

    def record_end(self) -> None:
        """Record the last rates and sample, and the checkpoints."""
        with contextlib.suppress(DatabaseBusy):
            self._stats.record({}, last=True)
        with contextlib.suppress(DatabaseBusy):
            self._checkpoints.write_state_file()
