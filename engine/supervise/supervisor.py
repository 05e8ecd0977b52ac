"""The supervisor: walks a run through its stages. `tick` owns no thread and never waits; the caller sleeps between."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import CrawlError, StorageError, UsageError
from engine.model.node import NodeState
from engine.model.run import RunState, Stage
from engine.settings import Settings
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.db.retry_busy import retry_busy
from engine.store.db.schema import checkpoint_wal
from engine.store.tables import commands, events, jobs, runs, sequences, supervisors
from engine.store.tables.events import Event, Level
from engine.store.tables.runs import Run
from engine.supervise.checkpoints.tracker import CheckpointTracker
from engine.supervise.command_handlers import handle_command
from engine.supervise.disk_guard import DiskGuard
from engine.supervise.doorbell_repair import QueueMaintainer
from engine.supervise.exit_reason import EXIT_CODES, ExitReason
from engine.supervise.lock import Lock
from engine.supervise.lock_watch import LockWatch
from engine.supervise.node_pool import NodePool
from engine.supervise.reload.defs_sync import DefsSync
from engine.supervise.run_stats import RunStats
from engine.supervise.seeding import Seeder
from engine.supervise.stages import ACTIVE_STAGES, FORCED_TRANSITIONS, StageTracker

_NODE_DRAIN_SECONDS, _APPENDER_DRAIN_SECONDS = 1800.0, 300.0
_FORCE_SECONDS = 10.0
_SHUTDOWN_MARGIN_SECONDS = 5.0
"""What nodes have beyond the grace of their jobs: to commit, and to say goodbye."""
_RECORD_SECONDS = 1.0
_KILL_RETRY_SECONDS = 3.0


class Supervisor:
    """One run under one supervisor, from its start to the release of the lock."""

    def __init__(
        self,
        db: Database,
        folder: Path,
        *,
        run: Run,
        epoch: int,
        settings: Settings,
        lock: Lock,
        node_pool: NodePool,
        queue_maintainer: QueueMaintainer,
        seeder: Seeder,
        checkpoints: CheckpointTracker,
        defs_sync: DefsSync,
    ) -> None:
        self.db = db
        self.folder = folder
        self.run = run
        self.epoch = epoch
        self.settings = settings
        self.node_pool = node_pool
        self.queue_maintainer = queue_maintainer
        self.seeder = seeder
        self.checkpoints = checkpoints
        self.defs_sync = defs_sync
        self._lock = lock
        self.disk = DiskGuard(db, folder, run.seq, settings.min_free)
        self._stages = StageTracker(db, run.seq)
        self.exit_reason: ExitReason | None = None
        self.reason: str | None = None
        self.stats = RunStats(db, run.seq, settings)
        self._answers: dict[int, tuple[bool, str]] = {}
        self._recorded_at = 0.0
        self._deadline = 0.0
        self._lock_watch = LockWatch(db, node_pool)
        self._too_many_failed = False
        self.kill_requested = False
        """An operator ordered a hard kill of the run."""

    @property
    def stage(self) -> Stage:
        """Where it stands."""
        return self._stages.current

    @property
    def is_finished(self) -> bool:
        """Whether everything is stopped and released."""
        return self.stage is Stage.SHUTDOWN_COMPLETE

    @property
    def tick_soon(self) -> bool:
        """Whether the next tick should come soon: something is starting or ending."""
        return self.stage is not Stage.RUNNING or not self.seeder.done or not self.defs_sync.done

    @property
    def exit_code(self) -> int:
        """What the program ends with: 1 where more jobs failed than the setting allows."""
        if self.exit_reason in (ExitReason.COMPLETE, ExitReason.EXTRACTED) and self._too_many_failed:
            return 1
        return EXIT_CODES[self.exit_reason or ExitReason.FAILED]

    def tick(self) -> None:
        """Do what is due now, through every stage that needs no waiting. A busy database only delays it.

        Raises StorageError where it was taken away.
        """
        self.disk.check()
        if self.kill_requested:
            self.kill()
            return
        self._stages.flush()
        try:
            self._lock_watch.kill_stalled_writer()
            self.disk.record()
            self._handle_commands()
            stage = None
            while stage is not self.stage:
                stage = self.stage
                _STAGE_HANDLERS.get(stage, Supervisor._idle)(self)
        except DatabaseBusy as busy:
            self._lock_watch.warn(f"{busy.message}; it is tried again")
            spare = _FORCE_SECONDS if self.node_pool.any_alive else 0.0
            if self.stage not in ACTIVE_STAGES and time.monotonic() > self._deadline + spare:
                self._abandon(busy)

    def stop(self, ending: ExitReason, reason: str | None = None) -> None:
        """Stop in order: take nothing more, let what is under way finish, keep all that is committed.

        While a finished crawl still writes its files it has the grace left for that; a run that stops already goes on.
        """
        if self.exit_reason in (None, ExitReason.COMPLETE) and self.stage is not Stage.RELEASING_LOCK:
            if self.exit_reason is ExitReason.COMPLETE:
                self._deadline = min(self._deadline, time.monotonic() + self.settings.grace + _SHUTDOWN_MARGIN_SECONDS)
            self.exit_reason, self.reason = ending, reason

    def kill(self) -> None:
        """Stop at once: processes die, what they held is READY again, rows reach the files at the next start."""
        if self.is_finished:
            return
        self.exit_reason, self.reason = ExitReason.KILLED, "hard kill"
        self.node_pool.kill_all()
        try:
            retry_busy(self._finish_killed, seconds=_KILL_RETRY_SECONDS, wait_for_space=False)
        except (DatabaseBusy, StorageError) as error:
            self._abandon(error)

    def _finish_killed(self) -> None:
        self.node_pool.appender.end(NodeState.DEAD)
        while self.stage is not Stage.RELEASING_LOCK:
            if self.stage is Stage.INTERRUPTED:
                self.node_pool.reap()
            self._enter_stage(FORCED_TRANSITIONS[self.stage])
        self.node_pool.reap()
        self._finish()

    def _tick_starting(self) -> None:
        """The appender, then the nodes: consumers before producers. A signal meanwhile ends it where it stands."""
        if self.stage is Stage.INIT:
            self._enter_stage(Stage.CHECK_LOCK)
        elif self.stage is Stage.CHECK_LOCK:
            self._enter_stage(Stage.START_APPENDER)
        elif self.exit_reason is not None:
            self._begin_shutdown()
        elif self.stage is Stage.START_APPENDER:
            if self.node_pool.appender.child is None:
                self.node_pool.appender.start()
            self._enter_stage(Stage.START_NODES)
        else:
            self.node_pool.start_missing_nodes()
            self._enter_stage(Stage.RUNNING)

    def _tick_running(self) -> None:
        if self.exit_reason is None:
            self._run_once()
        if self.exit_reason is not None:
            self._begin_shutdown()

    def _run_once(self) -> None:
        self.node_pool.watch()
        self._record_progress()
        if not self.disk.alarm:
            self.seeder = self.defs_sync.tick(self.seeder)
        if not self.seeder.done and not self.disk.alarm:
            self._seed_batch()
        self.queue_maintainer.tick()
        if self.exit_reason is None and (limit := self.stats.limit_reached()):
            self.stop(ExitReason.LIMIT, limit)
        if self.node_pool.failure and self.exit_reason is None:
            self.stop(ExitReason.FAILED, self.node_pool.failure)
        if self.exit_reason is None and self.seeder.done and self._try_complete():
            self.exit_reason = ExitReason.COMPLETE

    def _seed_batch(self) -> None:
        try:
            self.queue_maintainer.ring(self.seeder.step())
        except UsageError as error:
            self.stop(ExitReason.FAILED, error.message)
        self.seeder.record_problems()

    def _try_complete(self) -> bool:
        """Whether the run is at its end, decided and written in one transaction."""
        run = runs.get(self.db, self.run.seq)
        if run.seeded_version != run.defs_version or sequences.count_taken(self.db, run.seq):
            return False
        if run.paused and (run.paused != "disk" or self.defs_sync.incomplete_reason()):
            return False  # but where only the disk holds it, and every row is in its file, space is not waited for
        if self.defs_sync.has_open_work() or not self.defs_sync.is_settled():
            return False
        with self.db.transaction():
            return not self.defs_sync.has_open_work() and runs.set_state(self.db, run.seq, RunState.DRAINING)

    def _begin_shutdown(self) -> None:
        self._enter_stage(Stage.CRAWL_COMPLETE if self.exit_reason is ExitReason.COMPLETE else Stage.INTERRUPTED)

    def _stop_nodes(self) -> None:
        self._enter_stage(Stage.STOPPING_NODES_GRACEFUL)
        self._deadline = time.monotonic() + (
            _NODE_DRAIN_SECONDS
            if self.exit_reason is ExitReason.COMPLETE
            else self.settings.grace + _SHUTDOWN_MARGIN_SECONDS
        )
        for node in self.node_pool.nodes:
            node.stop()

    def _await_nodes(self) -> None:
        self._record_progress()
        if self.node_pool.reap():
            self._stop_appender()
        elif time.monotonic() > self._deadline:
            self._enter_stage(Stage.STOPPING_NODES_FORCEFUL, "nodes are past their time: they are made to stop")
            self._deadline = time.monotonic() + _FORCE_SECONDS
            for node in self.node_pool.nodes:
                node.stop()

    def _force_nodes(self) -> None:
        if time.monotonic() > self._deadline:
            for node in self.node_pool.nodes:
                node.kill()
        if self.node_pool.reap():
            self._stop_appender()

    def _stop_appender(self) -> None:
        self._enter_stage(Stage.STOPPING_APPENDER_GRACEFUL)
        natural = self.exit_reason is ExitReason.COMPLETE
        self._deadline = time.monotonic() + (_APPENDER_DRAIN_SECONDS if natural else max(self.settings.grace, 30.0))

    def _await_appender(self) -> None:
        self._record_progress()
        if self.node_pool.appender.drain():
            self._enter_stage(Stage.RELEASING_LOCK)
        elif time.monotonic() > self._deadline:
            self._enter_stage(Stage.STOPPING_APPENDER_FORCEFUL, "the appender is past its time: it is made to stop")
            self._deadline = time.monotonic() + _FORCE_SECONDS

    def _force_appender(self) -> None:
        if time.monotonic() > self._deadline:
            self.node_pool.kill_all()
            self.node_pool.appender.end(NodeState.DEAD)
        if self.node_pool.appender.drain():
            self._enter_stage(Stage.RELEASING_LOCK)

    def _finish(self) -> None:
        """Write how the run ended, end the epoch, let the lock go."""
        run = self.run.seq
        with self.db.transaction():
            self._stages.write_pending()
            jobs.release_all(self.db, run, "the run was stopped")
            if self.exit_reason is ExitReason.COMPLETE:
                self._too_many_failed = self.stats.too_many_failed()
                if missing := self.defs_sync.incomplete_reason():
                    self.exit_reason, self.reason = ExitReason.FAILED, missing
                elif self.defs_sync.has_work_left():
                    self.exit_reason, self.reason = (
                        ExitReason.EXTRACTED,
                        "extracted; what is left to fetch is the next run's",
                    )
            state = {
                ExitReason.COMPLETE: RunState.DONE, ExitReason.KILLED: RunState.KILLED, ExitReason.FAILED: RunState.FAILED,
            }.get(self.exit_reason or ExitReason.FAILED, RunState.CANCELLED)  # fmt: skip
            runs.set_state(self.db, run, state, self.reason)
            runs.end(self.db, run, time.time())
            self.checkpoints.close(done=self.exit_reason is ExitReason.COMPLETE, reason=self.reason)
            self._add_event(
                "INFO" if self.exit_reason is ExitReason.COMPLETE else "WARNING", f"run {self.run.id} {state}"
            )
            runs.enter_stage(self.db, run, Stage.SHUTDOWN_COMPLETE)
            supervisors.end(self.db, self.epoch, time.time())
        self._stages.clear_pending()
        with contextlib.suppress(DatabaseBusy):
            self.stats.record()
        with contextlib.suppress(DatabaseBusy):
            self.checkpoints.write_state_file()
        self._release()

    def _abandon(self, busy: CrawlError) -> None:
        """Time is up and the tables cannot be written: they stay as they are, and the next start takes over."""
        self.node_pool.kill_all()
        if self.exit_reason is ExitReason.COMPLETE:
            self.exit_reason = ExitReason.FAILED
        self.reason = f"{self.reason or 'stopped'}; not written down, since {busy.message}"
        self._release()

    def _release(self) -> None:
        self._stages.current = Stage.SHUTDOWN_COMPLETE
        self.defs_sync.stop()
        self.queue_maintainer.close()
        self.disk.close()
        self.db.close()
        checkpoint_wal(self.folder)
        self._lock.release()

    def _handle_commands(self) -> None:
        for command in commands.list_new(self.db, self.epoch):
            if command.id not in self._answers:
                if (answered := handle_command(self, command)) is None:
                    continue
                self._answers[command.id] = answered
            done, answer = self._answers[command.id]
            with self.db.transaction():
                commands.end(self.db, command.id, done=done, answer=answer, now=time.time())
                self._add_event("INFO", f"{command.name}: {answer}", "command")
            del self._answers[command.id]

    def _record_progress(self) -> None:
        now = time.monotonic()
        if now - self._recorded_at >= _RECORD_SECONDS or self.node_pool.has_heart_changes:
            self._recorded_at = now
            with contextlib.suppress(DatabaseBusy):  # only for those who look
                self.node_pool.record_beats()
                self.stats.record()
                self.checkpoints.update(
                    lambda: self.kill_requested or self.exit_reason not in (None, ExitReason.COMPLETE)
                )

    def _enter_stage(self, stage: Stage, why: str = "") -> None:
        self._stages.enter(stage, why)

    def _add_event(self, level: Level, text: str, kind: str = "run") -> None:
        events.add(self.db, self.run.seq, [Event(time.time(), level, "supervisor", kind, text)])

    def _idle(self) -> None:
        """Nothing is due in this stage."""


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
    Stage.RELEASING_LOCK: Supervisor._finish,
}
