"""A machine that works for a run that another machine leads: its own nodes, helpers and doorbells."""

import contextlib
import logging
import time

from crawl_engine.errors import CrawlError
from crawl_engine.model.run import Stage
from crawl_engine.processes.spawner import Spawner
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.run.machines import MachineView
from crawl_engine.store.transactions.takeover import end_machine
from crawl_engine.supervise.commands import CommandHandlers
from crawl_engine.supervise.log_rotation import LogRotation
from crawl_engine.supervise.nodes.machine_parts import MachineParts
from crawl_engine.supervise.stages import ACTIVE_STAGES, EXIT_CODES, ExitReason, StopDeadlines

_RECORD_SECONDS = 1.0
_STARTING_STAGES = (Stage.INIT, Stage.CHECK_LOCK, Stage.START_APPENDER)
"""The leader tidies up before nodes of any machine store pages."""

_log = logging.getLogger(__name__)


class Standby:
    """The work of one machine while another one leads. No method waits."""

    def __init__(self, parts: MachineParts, spawner: Spawner) -> None:
        self._run = run = parts.run
        self.parts = parts
        self._spawner = spawner
        self._log_rotation = LogRotation(run.folder / "logs")
        self._deadlines = StopDeadlines(run.settings)
        self._deadline = 0.0
        self._is_started = bool(parts.node_pool.nodes)
        self._is_stopping = False
        self._recorded_at = 0.0
        self._commands = CommandHandlers(run, parts.node_pool, defs_sync=None)
        self.exit_reason: ExitReason | None = None
        """Why this machine leaves the run; None while it stays."""
        self.reason: str | None = None
        self.exit_code: int | None = None
        """Set at its end."""
        self._kill_reason: str | None = None
        parts.helpers.is_listed = False

    @property
    def is_finished(self) -> bool:
        return self.exit_code is not None

    @property
    def kill_requested(self) -> bool:
        return self._kill_reason is not None

    def stop(self, exit_reason: ExitReason, reason: str | None = None) -> None:
        """Leave the run: running jobs may finish, and others do the rest."""
        if self.exit_reason is None:
            self._deadlines.bound(time.monotonic())
            self.exit_reason, self.reason, self._is_stopping = exit_reason, reason, False

    def request_kill(self, reason: str) -> None:
        """Leave the run at the next tick."""
        self._kill_reason = self._kill_reason or reason

    def kill_processes(self) -> None:
        """Kill every process of this machine, and wait for their end."""
        self.parts.node_pool.kill_all()
        self.parts.helpers.kill_all()

    def close(self) -> None:
        """Close what is open."""
        self.parts.queue_maintainer.close()
        self._run.db.close()

    def tick(self, view: MachineView) -> None:
        """Do what is due. A busy database delays it. Raises Fenced."""
        self._spawner.check()
        self._log_rotation.check()
        self.parts.helpers.watch()
        if self._kill_reason is not None:
            self.kill_processes()
            self._finish(EXIT_CODES[ExitReason.KILLED], self._kill_reason, view)
        elif view.exit_code is not None:
            self.kill_processes()
            self._finish(view.exit_code, None, view)
        else:
            with contextlib.suppress(DatabaseBusy):
                self._advance(view)

    def _advance(self, view: MachineView) -> None:
        self._commands.handle_new(self)
        self._record()
        if self.exit_reason is not None or (view.stage and view.stage not in ACTIVE_STAGES):
            self._stop(view)
        elif self._is_started and not self._is_stopping:
            self._work()
        elif view.stage not in _STARTING_STAGES and view.stage and self.parts.helpers.start():
            self.parts.node_pool.start_missing_nodes()  # also where a new leader continues a run that was stopping
            self._is_started, self._is_stopping = True, False
        if (failure := self._failure()) and self.exit_reason is None:
            self.stop(ExitReason.FAILED, failure)

    def _work(self) -> None:
        self.parts.node_pool.watch()
        self.parts.elastic_nodes.tick()
        self.parts.queue_maintainer.tick()

    def _failure(self) -> str | None:
        works = self._is_started and not self._is_stopping
        return self.parts.helpers.failure or (self.parts.node_pool.failure if works else None)

    def _stop(self, view: MachineView) -> None:
        """Drain the nodes, as the leader does; then leave, or wait for the end of the run."""
        pool, now = self.parts.node_pool, time.monotonic()
        if not self._is_stopping:
            self._is_stopping = True
            self._deadline = self._deadlines.nodes(now)
            pool.stop_nodes()
        if view.stage == Stage.STOPPING_NODES_FORCEFUL or now > self._deadline:
            pool.kill_nodes()
        if pool.reap() and self.exit_reason is not None and self.parts.helpers.stop(self._deadlines.helpers()):
            self._finish(EXIT_CODES[self.exit_reason], self.reason, view)

    def _record(self) -> None:
        now = time.monotonic()
        if now - self._recorded_at >= _RECORD_SECONDS or self.parts.node_pool.has_heart_changes:
            self._recorded_at = now
            self.parts.node_pool.record_beats()

    def _finish(self, exit_code: int, reason: str | None, view: MachineView) -> None:
        """Leave the row of this machine ended. Without the database the others notice its silence."""
        try:
            with self._run.db.transaction():
                end_machine(self._run.db, self._run.epoch, time.time())
                if view.exit_code is None and view.stage in ACTIVE_STAGES:
                    jobs.resume_incomplete(self._run.db, self._run.seq)
        except CrawlError as error:
            _log.warning("%s; the other machines notice the end of this one", error.message)
        self.exit_code, self.reason = exit_code, reason
        self.close()
