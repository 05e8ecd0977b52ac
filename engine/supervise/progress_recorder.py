"""Writes the progress of a run for viewers; a busy database only delays it."""

import contextlib
import time
from collections.abc import Callable

from msgspec import Struct, field

from engine.store.db.connector import DatabaseBusy
from engine.supervise.analysis.run_stats import RunStats
from engine.supervise.checkpoints.tracker import CheckpointTracker
from engine.supervise.nodes.node_pool import NodePool

_RECORD_SECONDS = 1.0


class ProgressRecorder(Struct):
    """Records the progress of one run, about once a second."""

    node_pool: NodePool
    stats: RunStats
    checkpoints: CheckpointTracker
    _recorded_at: float = field(default_factory=time.monotonic)

    def record(self, is_stopped_early: Callable[[], bool]) -> None:
        """Record it if a second has passed, or a heartbeat state has changed."""
        now = time.monotonic()
        if now - self._recorded_at >= _RECORD_SECONDS or self.node_pool.has_heart_changes:
            self._recorded_at = now
            try:
                self.node_pool.record_beats()
                self.stats.record(self.node_pool.waiting_hosts())
                self.checkpoints.update(is_stopped_early)
            except DatabaseBusy:
                with contextlib.suppress(DatabaseBusy):
                    self.stats.judge()

    def record_end(self) -> None:
        """Record the last rates and sample, and the checkpoints."""
        with contextlib.suppress(DatabaseBusy):
            self.stats.record({}, last=True)
        with contextlib.suppress(DatabaseBusy):
            self.checkpoints.write_state_file()
