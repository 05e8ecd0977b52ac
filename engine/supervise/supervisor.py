"""The supervisor: walks a run through its stages. `tick` owns no thread and never waits; the caller sleeps between."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import CrawlError, StorageError, UsageError
from engine.model.node import NodeState
from engine.model.run import RunState, Stage
from engine.settings import Settings
from engine.store.db.connector import Busy, Database
from engine.store.db.retry_busy import patient
from engine.store.db.schema import fold
from engine.store.tables import commands, events, jobs, runs, sequences, supervisors
from engine.store.tables.events import Event, Level
from engine.store.tables.runs import Run
from engine.supervise.checkpoints.tracker import Checkpointing
from engine.supervise.command_handlers import carry_out
from engine.supervise.disk_guard import Disk
from engine.supervise.doorbell_repair import Rings
from engine.supervise.exit_reason import EXIT_CODES, Ending
from engine.supervise.lock import Lock
from engine.supervise.lock_watch import Trouble
from engine.supervise.node_pool import Crew
from engine.supervise.reload.defs_sync import Upkeep
from engine.supervise.run_stats import Books
from engine.supervise.seeding import Seeding
from engine.supervise.stages import FORCED, GOING, Stages

_NATURAL_NODES, _NATURAL_APPENDER = 1800.0, 300.0
_FORCE_SECONDS = 10.0
_NESTED_SECONDS = 5.0
"""What nodes have beyond the grace of their jobs: to commit, and to say goodbye."""
_COPY_SECONDS = 1.0
_KILL_PATIENCE = 3.0


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
        crew: Crew,
        rings: Rings,
        seeding: Seeding,
        checkpoints: Checkpointing,
        upkeep: Upkeep,
    ) -> None:
        self.db = db
        self.folder = folder
        self.run = run
        self.epoch = epoch
        self.settings = settings
        self.crew = crew
        self.rings = rings
        self.seeding = seeding
        self.checkpoints = checkpoints
        self.upkeep = upkeep
        self._lock = lock
        self.disk = Disk(db, folder, run.seq, settings.min_free)
        self._stages = Stages(db, run.seq)
        self.ending: Ending | None = None
        self.reason: str | None = None
        self.books = Books(db, run.seq, settings)
        self._answers: dict[int, tuple[bool, str]] = {}
        self._copied_at = 0.0
        self._deadline = 0.0
        self._trouble = Trouble(db, crew)
        self._failed_over = False
        self.killed = False
        """An operator ordered a hard kill of the run."""

    @property
    def stage(self) -> Stage:
        """Where it stands."""
        return self._stages.now

    @property
    def over(self) -> bool:
        """Whether everything is stopped and released."""
        return self.stage is Stage.SHUTDOWN_COMPLETE

    @property
    def hurried(self) -> bool:
        """Whether the next tick should come soon: something is starting or ending."""
        return self.stage is not Stage.RUNNING or not self.seeding.done or not self.upkeep.done

    @property
    def exit_code(self) -> int:
        """What the program ends with: 1 where more jobs failed than the setting allows."""
        if self.ending in (Ending.COMPLETE, Ending.EXTRACTED) and self._failed_over:
            return 1
        return EXIT_CODES[self.ending or Ending.FAILED]

    def tick(self) -> None:
        """Do what is due now, through every stage that needs no waiting. A busy database only delays it.

        Raises StorageError where it was taken away.
        """
        self.disk.look()
        if self.killed:
            self.kill()
            return
        self._stages.write()
        try:
            self._trouble.relieve_writers()
            self.disk.note()
            self._obey()
            stage = None
            while stage is not self.stage:
                stage = self.stage
                _STEPS.get(stage, Supervisor._idle)(self)
        except Busy as busy:
            self._trouble.tell(f"{busy.what}; it is tried again")
            spare = _FORCE_SECONDS if self.crew.any_alive else 0.0
            if self.stage not in GOING and time.monotonic() > self._deadline + spare:
                self._abandon(busy)

    def stop(self, ending: Ending, reason: str | None = None) -> None:
        """Stop in order: take nothing more, let what is under way finish, keep all that is committed.

        While a finished crawl still writes its files it has the grace left for that; a run that stops already goes on.
        """
        if self.ending in (None, Ending.COMPLETE) and self.stage is not Stage.RELEASING_LOCK:
            if self.ending is Ending.COMPLETE:
                self._deadline = min(self._deadline, time.monotonic() + self.settings.grace + _NESTED_SECONDS)
            self.ending, self.reason = ending, reason

    def kill(self) -> None:
        """Stop at once: processes die, what they held is READY again, rows reach the files at the next start."""
        if self.over:
            return
        self.ending, self.reason = Ending.KILLED, "hard kill"
        self.crew.kill_all()
        try:
            patient(self._bury_killed, _KILL_PATIENCE)
        except StorageError as error:
            self._abandon(error)

    def _bury_killed(self) -> None:
        self.crew.scribe.end(NodeState.DEAD)
        while self.stage is not Stage.RELEASING_LOCK:
            if self.stage is Stage.INTERRUPTED:
                self.crew.reap()
            self._enter(FORCED[self.stage])
        self.crew.reap()
        self._finish()

    def _starting(self) -> None:
        """The appender, then the nodes: consumers before producers. A signal meanwhile ends it where it stands."""
        if self.stage is Stage.INIT:
            self._enter(Stage.CHECK_LOCK)
        elif self.stage is Stage.CHECK_LOCK:
            self._enter(Stage.START_APPENDER)
        elif self.ending is not None:
            self._interrupt()
        elif self.stage is Stage.START_APPENDER:
            if self.crew.scribe.child is None:
                self.crew.scribe.start()
            self._enter(Stage.START_NODES)
        else:
            self.crew.start_missing()
            self._enter(Stage.RUNNING)

    def _running(self) -> None:
        if self.ending is None:
            self._go_on()
        if self.ending is not None:
            self._interrupt()

    def _go_on(self) -> None:
        self.crew.watch()
        self._copy()
        if not self.disk.alarm:
            self.seeding = self.upkeep.tick(self.seeding)
        if not self.seeding.done and not self.disk.alarm:
            self._seed()
        self.rings.tick()
        if self.ending is None and (limit := self.books.limit_reached()):
            self.stop(Ending.LIMIT, limit)
        if self.crew.given_up and self.ending is None:
            self.stop(Ending.FAILED, self.crew.given_up)
        if self.ending is None and self.seeding.done and self._nothing_open():
            self.ending = Ending.COMPLETE

    def _seed(self) -> None:
        try:
            self.rings.ring(self.seeding.step())
        except UsageError as error:
            self.stop(Ending.FAILED, error.what)
        self.seeding.tell_problems()

    def _nothing_open(self) -> bool:
        """Whether the run is at its end, decided and written in one transaction."""
        run = runs.get(self.db, self.run.seq)
        if run.seeded_version != run.defs_version or sequences.taken(self.db, run.seq):
            return False
        if run.paused and (run.paused != "disk" or self.upkeep.missing()):
            return False  # but where only the disk holds it, and every row is in its file, space is not waited for
        if self.upkeep.any_open() or not self.upkeep.settled():
            return False
        with self.db.transaction():
            return not self.upkeep.any_open() and runs.move(self.db, run.seq, RunState.DRAINING)

    def _interrupt(self) -> None:
        self._enter(Stage.CRAWL_COMPLETE if self.ending is Ending.COMPLETE else Stage.INTERRUPTED)

    def _stop_nodes(self) -> None:
        self._enter(Stage.STOPPING_NODES_GRACEFUL)
        self._deadline = time.monotonic() + (
            _NATURAL_NODES if self.ending is Ending.COMPLETE else self.settings.grace + _NESTED_SECONDS
        )
        for node in self.crew.nodes:
            node.stop()

    def _stopping_nodes(self) -> None:
        self._copy()
        if self.crew.reap():
            self._stop_appender()
        elif time.monotonic() > self._deadline:
            self._enter(Stage.STOPPING_NODES_FORCEFUL, "nodes are past their time: they are made to stop")
            self._deadline = time.monotonic() + _FORCE_SECONDS
            for node in self.crew.nodes:
                node.stop()

    def _forcing_nodes(self) -> None:
        if time.monotonic() > self._deadline:
            for node in self.crew.nodes:
                node.kill()
        if self.crew.reap():
            self._stop_appender()

    def _stop_appender(self) -> None:
        self._enter(Stage.STOPPING_APPENDER_GRACEFUL)
        natural = self.ending is Ending.COMPLETE
        self._deadline = time.monotonic() + (_NATURAL_APPENDER if natural else max(self.settings.grace, 30.0))

    def _stopping_appender(self) -> None:
        self._copy()
        if self.crew.scribe.drain():
            self._enter(Stage.RELEASING_LOCK)
        elif time.monotonic() > self._deadline:
            self._enter(Stage.STOPPING_APPENDER_FORCEFUL, "the appender is past its time: it is made to stop")
            self._deadline = time.monotonic() + _FORCE_SECONDS

    def _forcing_appender(self) -> None:
        if time.monotonic() > self._deadline:
            self.crew.kill_all()
            self.crew.scribe.end(NodeState.DEAD)
        if self.crew.scribe.drain():
            self._enter(Stage.RELEASING_LOCK)

    def _finish(self) -> None:
        """Write how the run ended, end the epoch, let the lock go."""
        run = self.run.seq
        with self.db.transaction():
            self._stages.write_now()
            jobs.release_all(self.db, run, "the run was stopped")
            if self.ending is Ending.COMPLETE:
                self._failed_over = self.books.too_many_failed()
                if missing := self.upkeep.missing():
                    self.ending, self.reason = Ending.FAILED, missing
                elif self.upkeep.left():
                    self.ending, self.reason = Ending.EXTRACTED, "extracted; what is left to fetch is the next run's"
            state = {
                Ending.COMPLETE: RunState.DONE, Ending.KILLED: RunState.KILLED, Ending.FAILED: RunState.FAILED,
            }.get(self.ending or Ending.FAILED, RunState.CANCELLED)  # fmt: skip
            runs.move(self.db, run, state, self.reason)
            runs.end(self.db, run, time.time())
            self.checkpoints.close(done=self.ending is Ending.COMPLETE, reason=self.reason)
            self._tell("INFO" if self.ending is Ending.COMPLETE else "WARNING", f"run {self.run.id} {state}")
            runs.enter(self.db, run, Stage.SHUTDOWN_COMPLETE)
            supervisors.end(self.db, self.epoch, time.time())
        self._stages.written()
        with contextlib.suppress(Busy):
            self.books.count_time()
        with contextlib.suppress(Busy):
            self.checkpoints.show()
        self._let_go()

    def _abandon(self, busy: CrawlError) -> None:
        """Time is up and the tables cannot be written: they stay as they are, and the next start takes over."""
        self.crew.kill_all()
        if self.ending is Ending.COMPLETE:
            self.ending = Ending.FAILED
        self.reason = f"{self.reason or 'stopped'}; not written down, since {busy.what}"
        self._let_go()

    def _let_go(self) -> None:
        self._stages.now = Stage.SHUTDOWN_COMPLETE
        self.upkeep.stop()
        self.rings.close()
        self.disk.close()
        self.db.close()
        fold(self.folder)
        self._lock.release()

    def _obey(self) -> None:
        for command in commands.new(self.db, self.epoch):
            if command.id not in self._answers:
                if (answered := carry_out(self, command)) is None:
                    continue
                self._answers[command.id] = answered
            done, answer = self._answers[command.id]
            with self.db.transaction():
                commands.end(self.db, command.id, done=done, answer=answer, now=time.time())
                self._tell("INFO", f"{command.name}: {answer}", "command")
            del self._answers[command.id]

    def _copy(self) -> None:
        now = time.monotonic()
        if now - self._copied_at >= _COPY_SECONDS or self.crew.hearts_changed:
            self._copied_at = now
            with contextlib.suppress(Busy):  # only for those who look
                self.crew.copy_beats()
                self.books.count_time()
                self.checkpoints.look(lambda: self.killed or self.ending not in (None, Ending.COMPLETE))

    def _enter(self, stage: Stage, why: str = "") -> None:
        self._stages.enter(stage, why)

    def _tell(self, level: Level, text: str, kind: str = "run") -> None:
        events.add(self.db, self.run.seq, [Event(time.time(), level, "supervisor", kind, text)])

    def _idle(self) -> None:
        """Nothing is due in this stage."""


_STEPS: dict[Stage, Callable[[Supervisor], None]] = {
    Stage.INIT: Supervisor._starting,
    Stage.CHECK_LOCK: Supervisor._starting,
    Stage.START_APPENDER: Supervisor._starting,
    Stage.START_NODES: Supervisor._starting,
    Stage.RUNNING: Supervisor._running,
    Stage.CRAWL_COMPLETE: Supervisor._stop_nodes,
    Stage.INTERRUPTED: Supervisor._stop_nodes,
    Stage.STOPPING_NODES_GRACEFUL: Supervisor._stopping_nodes,
    Stage.STOPPING_NODES_FORCEFUL: Supervisor._forcing_nodes,
    Stage.STOPPING_APPENDER_GRACEFUL: Supervisor._stopping_appender,
    Stage.STOPPING_APPENDER_FORCEFUL: Supervisor._forcing_appender,
    Stage.RELEASING_LOCK: Supervisor._finish,
}
