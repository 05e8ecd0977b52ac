"""The supervisor: walks a run through its stages. `tick` owns no thread and never waits; the caller sleeps between."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import StorageError, UsageError
from engine.model.node import NodeState
from engine.model.run import RunState, Stage
from engine.settings import Settings
from engine.store import commands, events, extracts, jobs, outputs, rows, runs, sequences, supervisors
from engine.store.connector import Busy, Database
from engine.store.events import Event, Level
from engine.store.runs import Run
from engine.supervise.crew import Crew
from engine.supervise.ending import EXIT_CODES, Ending
from engine.supervise.lock import Lock
from engine.supervise.orders import carry_out
from engine.supervise.reload import Reload
from engine.supervise.renewal import Renewal
from engine.supervise.rings import Rings
from engine.supervise.seeding import Seeding, follow

_log = logging.getLogger(__name__)

_NATURAL_NODES, _NATURAL_APPENDER = 1800.0, 300.0
_FORCE_SECONDS = 10.0
_COPY_SECONDS = 1.0
_SEEDS_TOLD = 5
_NATURAL = (Ending.COMPLETE, Ending.EXTRACTED)


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
        reload: Reload | None = None,
        extract_only: bool = False,
        news: str = "",
    ) -> None:
        """`news`: what changed in the defs since the run was last worked.

        `reload`: None where the defs are not watched. `extract_only`: end once the stored pages are up to date.
        """
        self.db = db
        self.folder = folder
        self.run = run
        self.epoch = epoch
        self.settings = settings
        self.crew = crew
        self.rings = rings
        self.seeding = seeding
        self.reload = reload
        self.renewal = Renewal(db, run.seq)
        self.news = news
        self._extract_only = extract_only
        self._lock = lock
        self.stage = Stage.INIT
        self.ending: Ending | None = None
        self.reason: str | None = None
        self._began = time.monotonic()
        self._counted = self._began
        self._done = self._made = 0
        self._copied_at = 0.0
        self._deadline = 0.0
        self._failed_over = False
        self.killed = False
        """An operator ordered a hard kill of the run."""

    @property
    def over(self) -> bool:
        """Whether everything is stopped and released."""
        return self.stage is Stage.SHUTDOWN_COMPLETE

    @property
    def hurried(self) -> bool:
        """Whether the next tick should come soon: something is starting or ending."""
        return self.stage is not Stage.RUNNING or not self.seeding.done or not self.renewal.done

    @property
    def exit_code(self) -> int:
        """What the program ends with: 1 where more jobs failed than the setting allows."""
        if self.ending in _NATURAL and self._failed_over:
            return 1
        return EXIT_CODES[self.ending or Ending.FAILED]

    def start(self) -> None:
        """Start the appender, then the nodes: consumers before producers."""
        self._enter(Stage.CHECK_LOCK)
        self._enter(Stage.START_APPENDER)
        self.crew.start_appender()
        self._enter(Stage.START_NODES)
        self.crew.start_crew()
        self._enter(Stage.RUNNING)
        if self.reload is not None:
            self.reload.start()

    def tick(self) -> None:
        """Do what is due now. A busy database only delays it."""
        if self.killed:
            self.kill()
            return
        try:
            self._obey()
            _STEPS.get(self.stage, Supervisor._idle)(self)
        except Busy as busy:
            _log.warning("tick: %s", busy.what)

    def stop(self, ending: Ending, reason: str | None = None) -> None:
        """Stop in order: take nothing more, let what is under way finish, keep all that is committed."""
        if self.ending is None or self.stage is Stage.RUNNING:
            self.ending, self.reason = ending, reason

    def kill(self) -> None:
        """Stop at once: processes die, what they held is READY again, rows reach the files at the next start."""
        if self.over:
            return
        self.ending, self.reason = Ending.KILLED, "hard kill"
        self.crew.kill_all()
        patient(self._bury_killed)

    def _bury_killed(self) -> None:
        self.crew.bury_appender(NodeState.DEAD)
        if self.stage in (Stage.START_APPENDER, Stage.START_NODES, Stage.RUNNING):
            self._enter(Stage.INTERRUPTED)
        self.crew.reap()
        if self.stage in (Stage.INTERRUPTED, Stage.STOPPING_NODES_GRACEFUL):
            self._enter(Stage.STOPPING_NODES_FORCEFUL)
        if self.stage is not Stage.RELEASING_LOCK:
            self._enter(Stage.STOPPING_APPENDER_FORCEFUL)
            self._enter(Stage.RELEASING_LOCK)
        self._finish()

    def _running(self) -> None:
        self.crew.watch()
        self._copy()
        if self.reload is not None and (new := self.reload.tick(time.time())) is not None:
            self.seeding = follow(self.db, self.run.seq, *new, self.settings, self.seeding)
        if not self.seeding.done:
            self._seed()
        self.rings.ring(self.renewal.step())
        self.rings.tick()
        self._check_limits()
        if self.crew.given_up and self.ending is None:
            self.stop(Ending.FAILED, self.crew.given_up)
        if self.ending is None and self.seeding.done and self._nothing_open():
            self.ending = Ending.EXTRACTED if self._extract_only else Ending.COMPLETE
        if self.ending is not None:
            self._interrupt()

    def _seed(self) -> None:
        try:
            self.rings.ring(self.seeding.step())
        except UsageError as error:
            self.stop(Ending.FAILED, error.what)
        self._tell_problems()

    def _nothing_open(self) -> bool:
        """Whether the run is at its end, decided and written in one transaction."""
        run = runs.get(self.db, self.run.seq)
        if run.seeded_version != run.defs_version or sequences.taken(self.db, run.seq) or run.paused:
            return False
        any_open = extracts.any_open if self._extract_only else jobs.any_open
        if not self.renewal.done or any_open(self.db, run.seq):
            return False
        if self.reload is not None and not self.reload.settled():
            return False
        with self.db.transaction():
            return not any_open(self.db, run.seq) and runs.move(self.db, run.seq, RunState.DRAINING)

    def _interrupt(self) -> None:
        natural = self.ending in _NATURAL
        self._enter(Stage.CRAWL_COMPLETE if natural else Stage.INTERRUPTED)
        self._enter(Stage.STOPPING_NODES_GRACEFUL)
        for node in self.crew.nodes:
            node.stop()
        self._deadline = time.monotonic() + (_NATURAL_NODES if natural else self.settings.grace + 5)

    def _stopping_nodes(self) -> None:
        self._copy()
        if self.crew.reap():
            self._stop_appender()
        elif time.monotonic() > self._deadline:
            self._enter(Stage.STOPPING_NODES_FORCEFUL)
            self._tell("WARNING", "nodes are past their time: they are made to stop")
            for node in self.crew.nodes:
                node.stop()
            self._deadline = time.monotonic() + _FORCE_SECONDS

    def _forcing_nodes(self) -> None:
        if time.monotonic() > self._deadline:
            for node in self.crew.nodes:
                node.kill()
        if self.crew.reap():
            self._stop_appender()

    def _stop_appender(self) -> None:
        self._enter(Stage.STOPPING_APPENDER_GRACEFUL)
        natural = self.ending in _NATURAL
        self._deadline = time.monotonic() + (_NATURAL_APPENDER if natural else max(self.settings.grace, 30.0))

    def _stopping_appender(self) -> None:
        self._copy()
        if self.crew.drain_appender():
            self._enter(Stage.RELEASING_LOCK)
            self._finish()
        elif time.monotonic() > self._deadline:
            self._enter(Stage.STOPPING_APPENDER_FORCEFUL)
            self._tell("WARNING", "the appender is past its time: it is made to stop")
            self._deadline = time.monotonic() + _FORCE_SECONDS

    def _forcing_appender(self) -> None:
        if time.monotonic() > self._deadline:
            self.crew.kill_all()
            self.crew.bury_appender(NodeState.DEAD)
        if self.crew.appender is None or self.crew.drain_appender():
            self._enter(Stage.RELEASING_LOCK)
            self._finish()

    def _finish(self) -> None:
        """Write how the run ended, end the epoch, let the lock go."""
        run = self.run.seq
        with self.db.transaction():
            jobs.release_all(self.db, run, "the run was stopped")
            if self.ending in _NATURAL:
                self._close_books()
            state = {
                Ending.COMPLETE: RunState.DONE, Ending.KILLED: RunState.KILLED, Ending.FAILED: RunState.FAILED,
            }.get(self.ending or Ending.FAILED, RunState.CANCELLED)  # fmt: skip
            runs.move(self.db, run, state, self.reason)
            runs.end(self.db, run, time.time())
            self._tell("INFO" if self.ending in _NATURAL else "WARNING", f"run {self.run.id} {state}")
            runs.enter(self.db, run, Stage.SHUTDOWN_COMPLETE)
            supervisors.end(self.db, self.epoch, time.time())
        self._count_time()
        self.stage = Stage.SHUTDOWN_COMPLETE
        if self.reload is not None:
            self.reload.stop()
        self.rings.close()
        self.db.close()
        self._lock.release()

    def _close_books(self) -> None:
        """A run is DONE only with nothing open and every row in every file; else it failed, and can be resumed."""
        run = self.run.seq
        if outputs.any_behind(self.db, run, rows.last(self.db, run)):
            self.ending, self.reason = Ending.FAILED, "rows are missing in an output: see data/logs/appender.log"
        elif not jobs.any_open(self.db, run):
            self.ending = Ending.COMPLETE
        elif self.ending is Ending.EXTRACTED:
            self.reason = "extracted; what is left to fetch is the next run's"
        else:
            self.ending, self.reason = Ending.FAILED, "work was left when the nodes had stopped"
        self._failed_over = sequences.total(self.db, run, "failed") > self.settings.max_failed

    def _obey(self) -> None:
        for command in commands.new(self.db, self.epoch):
            outcome = carry_out(self, command)
            if outcome is None:
                continue
            done, answer = outcome
            with self.db.transaction():
                commands.end(self.db, command.id, done=done, answer=answer, now=time.time())
                self._tell("INFO", f"{command.name}: {answer}", "command")

    def _check_limits(self) -> None:
        if self.ending is not None:
            return
        limit, seconds = self.settings.max_pages, self.settings.max_time
        if limit is not None and sequences.total(self.db, self.run.seq, "done") >= limit:
            self.stop(Ending.LIMIT, f"--max-pages {limit} reached")
        elif seconds is not None and time.monotonic() - self._began >= seconds:
            self.stop(Ending.LIMIT, f"--max-time {seconds:g} s reached")

    def _copy(self) -> None:
        now = time.monotonic()
        if now - self._copied_at >= _COPY_SECONDS:
            self._copied_at = now
            self.crew.copy_beats()
            self._count_time()

    def _count_time(self) -> None:
        """Add the time since the last look to the run, and write how fast it went."""
        now, run = time.monotonic(), self.run.seq
        done = sequences.total(self.db, run, "done")
        made = sum(count for count, _ in rows.counts(self.db, run).values())
        passed = max(1e-3, now - self._counted)
        rates = {
            "pages_per_s": round(max(0, done - self._done) / passed, 2),
            "rows_per_s": round(max(0, made - self._made) / passed, 2),
        }
        with self.db.transaction():
            runs.spent(self.db, run, passed, rates)
        self._counted, self._done, self._made = now, done, made

    def _tell_problems(self) -> None:
        if self.seeding.problems:
            told, self.seeding.problems = self.seeding.problems, []
            with self.db.transaction():
                for text in told[:_SEEDS_TOLD]:
                    self._tell("ERROR", text, "seed")
                if len(told) > _SEEDS_TOLD:
                    self._tell("ERROR", f"{len(told) - _SEEDS_TOLD} more seeds give no job", "seed")

    def _enter(self, stage: Stage) -> None:
        with self.db.transaction():
            runs.enter(self.db, self.run.seq, stage)
            self._tell("INFO", str(stage), "stage")
        self.stage = stage

    def _tell(self, level: Level, text: str, kind: str = "run") -> None:
        events.add(self.db, self.run.seq, [Event(time.time(), level, "supervisor", kind, text)])

    def _idle(self) -> None:
        """Nothing is due in this stage."""


_STEPS: dict[Stage, Callable[[Supervisor], None]] = {
    Stage.RUNNING: Supervisor._running,
    Stage.STOPPING_NODES_GRACEFUL: Supervisor._stopping_nodes,
    Stage.STOPPING_NODES_FORCEFUL: Supervisor._forcing_nodes,
    Stage.STOPPING_APPENDER_GRACEFUL: Supervisor._stopping_appender,
    Stage.STOPPING_APPENDER_FORCEFUL: Supervisor._forcing_appender,
}


def patient(work: Callable[[], None], seconds: float = 30.0) -> None:
    """Do a thing that must be done, while the database is busy again and again. Raises StorageError in the end."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            work()
            return
        except Busy as busy:
            if time.monotonic() > deadline:
                raise StorageError(busy.what, busy.remedy) from busy
            time.sleep(0.05)
