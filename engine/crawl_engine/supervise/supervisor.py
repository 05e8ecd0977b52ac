"""The supervisor: drives a run through its stages. `tick` starts no thread and never waits."""

import contextlib
import time
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from crawl_engine.errors import CrawlError, StorageError, UsageError, plural
from crawl_engine.model.node import NodeState
from crawl_engine.model.run import Alarm, Stage
from crawl_engine.processes.spawner import Spawner
from crawl_engine.runtime.file_folder import remove_profiles
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.db.schema import checkpoint_wal
from crawl_engine.store.tables.run import nodes
from crawl_engine.store.transactions import robots
from crawl_engine.supervise.analysis.run_stats import RunStats
from crawl_engine.supervise.checkpoints.tracker import CheckpointTracker
from crawl_engine.supervise.commands import CommandHandlers
from crawl_engine.supervise.disk_guard import DiskGuard
from crawl_engine.supervise.lock import Lock
from crawl_engine.supervise.lock_watch import LockWatch
from crawl_engine.supervise.log_rotation import LogRotation
from crawl_engine.supervise.nodes.machine_parts import MachineParts
from crawl_engine.supervise.reload.defs_sync import DefsSync
from crawl_engine.supervise.retention.keeper import Retention
from crawl_engine.supervise.run_context import RunContext
from crawl_engine.supervise.run_end import RunEnd, delete_documents
from crawl_engine.supervise.seeding.seeder import Seeder
from crawl_engine.supervise.stages import (
    ACTIVE_STAGES,
    FORCED_TRANSITIONS,
    ExitReason,
    StageTracker,
    StopDeadlines,
    exit_code_of,
)
from crawl_engine.supervise.wal_guard import WalGuard

_KILL_RETRY_SECONDS = 3.0
_PROGRESS_SECONDS = 1.0
_ROBOTS_SECONDS = 3600.0
"""Between two looks for old robots.txt. Together with `hosts.ROBOTS_MAX_AGE` less than a day."""


class Supervisor(Struct, kw_only=True):
    """One run under one supervisor, from its start to the release of the lock."""

    run: RunContext
    parts: MachineParts
    lock: Lock
    spawner: Spawner
    deadlines: StopDeadlines
    stages: StageTracker
    stats: RunStats
    seeder: Seeder
    defs_sync: DefsSync
    commands: CommandHandlers
    checkpoints: CheckpointTracker
    disk: DiskGuard
    lock_watch: LockWatch
    wal_guards: Sequence[WalGuard]
    log_rotation: LogRotation
    retention: Retention
    run_end: RunEnd
    exit_reason: ExitReason | None = None
    reason: str | None = None
    _kill_reason: str | None = None
    _started_at: float = field(default_factory=time.monotonic)
    _deadline: float = 0.0
    _progress_at: float = field(default_factory=time.monotonic)
    _robots_at: float = field(default_factory=time.monotonic)
    _is_recorded: bool = False
    """Whether the end of the run is in the tables."""
    _falls_short: bool = False

    @property
    def stage(self) -> Stage:
        return self.stages.current

    @property
    def is_finished(self) -> bool:
        """Whether all processes have ended and the lock is released."""
        return self.stage is Stage.SHUTDOWN_COMPLETE

    @property
    def tick_soon(self) -> bool:
        """Whether the next tick is due soon, because something starts or ends."""
        return self.stage is not Stage.RUNNING or not self.seeder.done or not self.defs_sync.done

    @property
    def exit_code(self) -> int:
        return exit_code_of(self.exit_reason, falls_short=self._falls_short)

    @property
    def alarm(self) -> str:
        """The full disk or data dir, as a sentence; empty while it has room."""
        return self.disk.alarm

    @property
    def notices(self) -> Sequence[str]:
        """What the operator should know at the start."""
        return self.defs_sync.notices

    @property
    def alarms(self) -> Sequence[Alarm]:
        """What is wrong with the run now."""
        return self.stats.alarms

    @property
    def kill_requested(self) -> bool:
        """Whether an operator ordered a hard kill of the run."""
        return self._kill_reason is not None

    def tick(self) -> None:
        """Do everything that is due, through every stage that needs no waiting. A busy database only delays it.

        Raises StorageError if a database was deleted or replaced.
        """
        started = time.monotonic()
        try:
            self._tick()
        finally:
            self.disk.tick_seconds = time.monotonic() - started

    def _tick(self) -> None:
        self.disk.check()
        self.spawner.check()
        if self._kill_reason is not None:
            self._kill(self._kill_reason)
            return
        self.log_rotation.check()
        for guard in self.wal_guards:
            guard.check()
        self.stages.flush()
        self.parts.helpers.watch()
        for work in (self._serve_operator, self._advance):  # a lock that delays the operator must not delay a stop
            try:
                work()
            except DatabaseBusy as busy:
                self.lock_watch.warn(f"{busy.message}; retrying")
                limit = self.deadlines.busy(self._deadline, processes_alive=self.parts.node_pool.any_alive)
                if self.stage not in ACTIVE_STAGES and time.monotonic() > limit:
                    self._abandon(busy)
                    return

    def _serve_operator(self) -> None:
        if self._is_recorded:
            return
        self.lock_watch.kill_stalled_writer()
        self.disk.record()
        self.commands.handle_new(self)

    def _advance(self) -> None:
        """Do the work of the stage, and of each that follows without waiting."""
        stage = None
        while stage is not self.stage:
            stage = self.stage
            if (handler := _STAGE_HANDLERS.get(stage)) is not None:
                handler(self)

    def stop(self, exit_reason: ExitReason, reason: str | None = None) -> None:
        """Stop gracefully: take no new job, let jobs in flight finish, keep all committed work.

        A finished crawl that still writes its files gets the grace for that; a run that is already stopping is left
        alone.
        """
        if self._is_recorded:
            self.retention.stop()
        if self.exit_reason in (None, ExitReason.COMPLETE):
            self.deadlines.bound(time.monotonic())
        if self.exit_reason in (None, ExitReason.COMPLETE) and self.stage is not Stage.RELEASING_LOCK:
            if self.exit_reason is ExitReason.COMPLETE:
                self._deadline = min(self._deadline, self.deadlines.nodes(time.monotonic()))
            self.exit_reason, self.reason = exit_reason, reason

    def request_kill(self, reason: str) -> None:
        """Kill the run at the next tick. Does nothing after the run's end."""
        self._kill_reason = self._kill_reason or reason

    def request_reload(self) -> None:
        if (reloader := self.defs_sync.reloader) is not None:
            reloader.check_now()

    def kill_processes(self) -> None:
        """Kill every process of the run, and wait for their end."""
        self.parts.node_pool.kill_all()
        self.parts.helpers.kill_all()

    def _kill(self, reason: str) -> None:
        """Stop at once: processes die, their jobs are READY again, rows reach the files at the next start."""
        if self.is_finished:
            return
        if self._is_recorded:  # only old runs are left to delete
            self.retention.stop()
            self._finish()
            return
        self.exit_reason, self.reason = ExitReason.KILLED, reason
        self.kill_processes()
        try:
            retry_busy(self._finish_killed, seconds=_KILL_RETRY_SECONDS, wait_for_space=False)
        except (DatabaseBusy, StorageError) as error:
            self._abandon(error)

    def _finish_killed(self) -> None:
        self.parts.node_pool.appender.end(NodeState.DEAD)
        while self.stage is not Stage.RELEASING_LOCK:
            if self.stage is Stage.INTERRUPTED:
                self.parts.node_pool.reap()
            self.stages.enter(FORCED_TRANSITIONS[self.stage])
        self.parts.node_pool.reap()
        self._finish()

    def _tick_starting(self) -> None:
        """Start helpers, appender, nodes: consumers before producers. A signal during the start ends it."""
        if self.stage is Stage.INIT:
            self.stages.enter(Stage.CHECK_LOCK)
        elif self.stage is Stage.CHECK_LOCK:
            if self.exit_reason is not None or self.retention.step():
                self.stages.enter(Stage.START_APPENDER)
        elif self.exit_reason is not None:
            self._begin_shutdown()
        elif self.parts.helpers.failure:
            self.stop(ExitReason.FAILED, self.parts.helpers.failure)
        elif self.stage is Stage.START_APPENDER:
            if self.parts.helpers.start():
                if self.parts.node_pool.appender.child is None:
                    self.parts.node_pool.appender.start()
                self.stages.enter(Stage.START_NODES)
        else:
            self.parts.node_pool.start_missing_nodes()
            self.stages.enter(Stage.RUNNING)

    def _tick_running(self) -> None:
        if self.exit_reason is None:
            self._run_once()
        if self.exit_reason is not None:
            self._begin_shutdown()

    def _run_once(self) -> None:
        self.parts.node_pool.watch()
        self._record_progress()
        self.parts.elastic_nodes.tick()
        self.retention.make_room()
        if not self.disk.alarm:
            self.seeder = self.defs_sync.tick(self.seeder)
        if not self.seeder.done and not self.disk.alarm and not any(guard.is_full for guard in self.wal_guards):
            self._seed_batch()
        self._refresh_robots()
        self.parts.queue_maintainer.tick()
        if self.exit_reason is None and (limit := self.stats.limit_reached()):
            self.stop(ExitReason.LIMIT, limit)
        if (failure := self.parts.node_pool.failure or self.parts.helpers.failure) and self.exit_reason is None:
            self.stop(ExitReason.FAILED, failure)
        if self.exit_reason is None and self.seeder.done and self.run_end.try_complete():
            self.exit_reason = ExitReason.COMPLETE
        if self.exit_reason is None and self.disk.dead_end:  # waiting would hold the lock for ever
            self.stop(ExitReason.FAILED, self.disk.dead_end)

    def _record_progress(self) -> None:
        """Write the progress about once a second, or when a heartbeat state changed. A busy database delays it."""
        now, pool = time.monotonic(), self.parts.node_pool
        if now - self._progress_at < _PROGRESS_SECONDS and not pool.has_heart_changes:
            return
        self._progress_at = now
        try:
            pool.record_beats()
            self.stats.record(pool.waiting_hosts())
            self.checkpoints.update(self._is_stopped_early)
        except DatabaseBusy:
            with contextlib.suppress(DatabaseBusy):
                self.stats.judge()

    def _refresh_robots(self) -> None:
        """Ask for old robots.txt again; the start of the run has already asked. Raises DatabaseBusy."""
        if time.monotonic() - self._robots_at < _ROBOTS_SECONDS:
            return
        with self.run.db.transaction():
            if count := robots.ask_stale_hosts(self.run.db, self.run.seq, time.time()):
                self.run.log("INFO", "run", f"robots.txt of {plural(count, 'host')} asked for again")
        self._robots_at = time.monotonic()

    def _seed_batch(self) -> None:
        try:
            self.parts.queue_maintainer.ring(self.seeder.step())
        except UsageError as error:
            self.stop(ExitReason.FAILED, error.message)

    def _begin_shutdown(self) -> None:
        self.stages.enter(Stage.CRAWL_COMPLETE if self.exit_reason is ExitReason.COMPLETE else Stage.INTERRUPTED)

    def _stop_nodes(self) -> None:
        self.stages.enter(Stage.STOPPING_NODES_GRACEFUL)
        self._deadline = self.deadlines.nodes(time.monotonic())
        self.parts.node_pool.stop_nodes()

    def _await_nodes(self) -> None:
        self._record_progress()
        if self.parts.node_pool.reap() and not nodes.has_live(self.run.db):  # none of another machine either
            self._stop_appender()
        elif time.monotonic() > self._deadline:
            self.stages.enter(Stage.STOPPING_NODES_FORCEFUL, "nodes did not stop in time; forcing them")
            self._deadline = self.deadlines.nodes_forced(time.monotonic())
            self.parts.node_pool.stop_nodes()

    def _force_nodes(self) -> None:
        is_over = time.monotonic() > self._deadline
        if is_over:
            self.parts.node_pool.kill_nodes()
        if self.parts.node_pool.reap() and (is_over or not nodes.has_live(self.run.db)):
            self._stop_appender()

    def _stop_appender(self) -> None:
        self.stages.enter(Stage.STOPPING_APPENDER_GRACEFUL)
        self._deadline = self.deadlines.files(time.monotonic())

    def _await_appender(self) -> None:
        self._record_progress()
        if self.parts.node_pool.appender.drain():
            self.stages.enter(Stage.RELEASING_LOCK)
        elif time.monotonic() > self._deadline:
            self.stages.enter(Stage.STOPPING_APPENDER_FORCEFUL, "the appender did not stop in time; forcing it")
            self._deadline = self.deadlines.files_forced(time.monotonic())

    def _force_appender(self) -> None:
        if time.monotonic() > self._deadline:
            self.parts.node_pool.kill_all()
            self.parts.node_pool.appender.end(NodeState.DEAD)
        if self.parts.node_pool.appender.drain():
            self.stages.enter(Stage.RELEASING_LOCK)

    def _stop_helpers(self) -> None:
        """Stop the helpers last: nodes and outputs use them until they end."""
        if self._is_recorded or self.parts.helpers.stop(self.deadlines.helpers()):
            self._finish()

    def _finish(self) -> None:
        """Record the end of the run, end the epoch, tidy up, release the lock."""
        if not self._is_recorded:
            self._record_end()
        if self.retention.step():
            self.disk.check_databases()  # the end may have been written to a file that nobody will find
            self._release()

    def _record_end(self) -> None:
        self.retention.stop()
        outcome = self.run_end.record(self.exit_reason or ExitReason.FAILED, self.reason)
        self.exit_reason, self.reason = outcome.exit_reason, outcome.reason
        self._falls_short = outcome.falls_short
        with contextlib.suppress(DatabaseBusy):
            self.stats.record({}, last=True)
        with contextlib.suppress(DatabaseBusy):
            self.checkpoints.state_file.refresh()
        if outcome.exit_reason is ExitReason.COMPLETE:
            delete_documents(self.run.db, self.run.folder, lambda: self.kill_requested)
            self.retention.begin_end(time.monotonic() - self._started_at)
        self._is_recorded = True

    def _abandon(self, error: CrawlError) -> None:
        """Give up writing to the tables after the last deadline: the next start takes over as after a crash."""
        self.kill_processes()
        if self.exit_reason is ExitReason.COMPLETE:
            self.exit_reason = ExitReason.FAILED
        self.reason = f"{self.reason or 'stopped'}; not recorded: {error.message}"
        self._release()

    def give_up(self) -> None:
        """Give up the lead, for a machine that goes on without it: nodes and helpers stay. Raises DatabaseBusy."""
        if (appender := self.parts.node_pool.appender).child is not None:
            appender.child.process.kill()
            appender.end(NodeState.DEAD)
        self.retention.stop()
        self.defs_sync.stop()
        self.disk.close()

    def close(self) -> None:
        """Close what is open; nothing more is written."""
        self.defs_sync.stop()
        self.parts.queue_maintainer.close()
        self.disk.close()
        self.run.db.close()

    def _release(self) -> None:
        self.stages.current = Stage.SHUTDOWN_COMPLETE
        self.close()
        remove_profiles(self.run.folder)
        checkpoint_wal(self.run.folder)
        self.lock.release()

    def _is_stopped_early(self) -> bool:
        return self.kill_requested or self.exit_reason not in (None, ExitReason.COMPLETE)


_STAGE_HANDLERS: dict[Stage, Callable[[Supervisor], None]] = {
    Stage.INIT: Supervisor._tick_starting,
    Stage.CHECK_LOCK: Supervisor._tick_starting,
    Stage.START_APPENDER: Supervisor._tick_starting,
    Stage.START_NODES: Supervisor._tick_starting,
    Stage.RUNNING: Supervisor._tick_running,
    Stage.CRAWL_COMPLETE: Supervisor._stop_nodes,
    Stage.INTERRUPTED: Supervisor._stop_nodes,
    Stage.STOPPING_NODES_GRACEFUL: Supervisor._await_nodes,
    Stage.STOPPING_NODES_FORCEFUL: Supervisor._force_nodes,
    Stage.STOPPING_APPENDER_GRACEFUL: Supervisor._await_appender,
    Stage.STOPPING_APPENDER_FORCEFUL: Supervisor._force_appender,
    Stage.RELEASING_LOCK: Supervisor._stop_helpers,
}
