"""The node's row in the `nodes` table: registers, follows role changes, records the shutdown."""

import os
import threading

from engine.model.node import NodeState, Role
from engine.node.capacity import Intake
from engine.node.node_context import NodeContext
from engine.runtime.process_identity import identity_of
from engine.store.db.connector import DatabaseBusy, connect
from engine.store.db.retry_busy import retry_busy
from engine.store.db.schema import CRAWL
from engine.store.tables.run import nodes

_BUSY_SECONDS = 0.5
"""Short, so that a node that waits for a busy database can write beats between two attempts."""


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
