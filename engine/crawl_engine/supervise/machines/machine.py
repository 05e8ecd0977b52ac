"""One machine of a run: joins the others, leads or stands by, and joins again after it was cut off."""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from crawl_engine import __version__
from crawl_engine.errors import CrawlError, Fenced, StorageError, UsageError, plural
from crawl_engine.model.fingerprint import PreparedDefs
from crawl_engine.model.run import Alarm, RunState
from crawl_engine.processes.spawner import Spawner
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.store.db.connector import Database, DatabaseBusy, connect
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.tables.run import machines, runs, versions
from crawl_engine.store.tables.run.machines import LeaderLease, SeenMachine
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.store.transactions.takeover import end_machine, end_silent, take_lead
from crawl_engine.supervise.build import (
    Lead,
    RunOptions,
    build_supervisor,
    check_host_clock,
    complete_options,
    make_dirs,
)
from crawl_engine.supervise.lock import Lock
from crawl_engine.supervise.machines.election import Election
from crawl_engine.supervise.machines.pulse import Pulse
from crawl_engine.supervise.machines.standby import Standby
from crawl_engine.supervise.nodes.leftovers import kill_local_leftovers
from crawl_engine.supervise.nodes.machine_parts import build_parts
from crawl_engine.supervise.run_context import RunContext
from crawl_engine.supervise.stages import ACTIVE_STAGES, EXIT_CODES, ExitReason
from crawl_engine.supervise.supervisor import Supervisor

_OTHER_PROCESSES = 2
"""Besides the nodes: this one and the appender."""
_BUSY_SECONDS = 0.5
_JOIN_SECONDS, _JOIN_PAUSE = 90.0, 1.0
_WAIT_SECONDS = 0.05
_STEP_BACK_SECONDS = 3.0
_CUT_OFF = "no beat of this machine reached the database for 3 s"

_log = logging.getLogger(__name__)


class Machine:
    """What this process does for a run on several machines; to its caller it is like a Supervisor."""

    run: Run
    """Set once it leads or stands by; it stays the same."""

    def __init__(self, options: RunOptions, lock: Lock, spawner: Spawner) -> None:
        self._options = options
        self._folder = options.folder.absolute()
        self._lock = lock
        self._spawner = spawner
        self._identity = identity_of(os.getpid()) or ""
        self._previous = lock.previous
        """The identity of the process that had the data dir before."""
        self._work: Supervisor | Standby | None = None
        """None: it joins, or waits for a leader."""
        self._has_run = False
        self._pulse: Pulse | None = None
        """None: it is cut off."""
        self._epoch = 0
        self._election = Election(0)
        self._join_at = 0.0
        self._passed: int | None = 0
        """The run that had ended when this machine joined, which is not its own; 0: not known yet."""
        self.exit_code = 3
        self.exit_reason: ExitReason | None = None
        self.reason: str | None = None
        self.kill_requested = False
        self.is_finished = False
        self.notices: Sequence[str] = ()

    @property
    def tick_soon(self) -> bool:
        return self._work.tick_soon if isinstance(self._work, Supervisor) else False

    @property
    def alarm(self) -> str:
        """The full disk of a leader."""
        return self._work.alarm if isinstance(self._work, Supervisor) else ""

    @property
    def alarms(self) -> Sequence[Alarm]:
        """What is wrong with the run, as the leader knows it."""
        return self._work.alarms if isinstance(self._work, Supervisor) else ()

    def wait_for_run(self, cancelled: Callable[[], bool], say: Callable[[str], None]) -> None:
        """Join, and wait for the quorum and for a run. DatabaseBusy once `cancelled` is true."""
        retry_busy(self._join, seconds=_JOIN_SECONDS, cancelled=cancelled)
        said, quorum = 0, self._options.settings.quorum
        try:
            while not self._has_run:
                self.tick()
                missing = self._election.missing(quorum) if self._election.view.machines else 0
                if missing not in (0, said):
                    say(f"waiting for {plural(missing, 'more machine')} (quorum {quorum})")
                said = missing
                if cancelled():
                    raise DatabaseBusy("stopped before the run began")
                time.sleep(_WAIT_SECONDS)
        except BaseException:
            self.kill_processes()
            raise

    def tick(self) -> None:
        """Do everything that is due, for the run or for the machines. Raises StorageError, UsageError."""
        try:
            self._tick()
        except Fenced as error:
            self._drop(error.message)
        except StorageError as error:  # such as a commit that got no answer for a minute
            if self._pulse is None or not self._pulse.is_cut_off:
                raise
            self._drop(error.message)
        except DatabaseBusy as busy:  # to choose a role may take several attempts
            _log.warning("%s; trying again", busy.message)

    def _tick(self) -> None:
        if self._pulse is None:
            self._join_again()
            return
        for view, at in self._pulse.take_looks():
            if view is None:
                self._election.miss()
            else:
                self._election.observe(view, at)
        if self._pulse.is_cut_off:
            self._drop(_CUT_OFF)
        elif isinstance(self._work, Supervisor):
            self._work.tick()
            self._end_silent(self._work)
        elif isinstance(self._work, Standby):
            self._work.tick(self._election.view)
            if not self._work.is_finished and self._work.exit_reason is None:
                self._take_lead(self._work)
        else:
            self._choose_role()
        self._check_end()

    def stop(self, exit_reason: ExitReason, reason: str | None = None) -> None:
        """Leave a run that others continue; without others, stop it."""
        self.exit_reason = self.exit_reason or exit_reason
        work = self._work
        if isinstance(work, Supervisor) and work.exit_reason is None and self._election.others:
            try:
                work = retry_busy(partial(self._step_back, work), seconds=_STEP_BACK_SECONDS)
            except (DatabaseBusy, Fenced) as error:
                self._drop(error.message)
                return
        if isinstance(work, Standby):
            work.stop(exit_reason, f"{reason}; the run continues on other machines")
        elif work is not None:
            work.stop(exit_reason, reason)
        else:
            self._end(EXIT_CODES[exit_reason], reason)

    def request_kill(self, reason: str) -> None:
        """Kill what this machine has; the run ends if no other one continues it."""
        self.kill_requested = True
        work = self._work
        if isinstance(work, Supervisor) and work.exit_reason is None and self._election.others:
            self._work = None
            work.kill_processes()
            self.close()
            work.close()
            self._end(137, reason)
        elif work is not None:
            work.request_kill(reason)
        else:
            self._end(137, reason)

    def request_reload(self) -> None:
        if isinstance(self._work, Supervisor):
            self._work.request_reload()

    def kill_processes(self) -> None:
        """Kill every process of this machine, before it ends by an error."""
        if self._work is not None:
            self._work.kill_processes()
        self.close()

    def close(self) -> None:
        """End the row of this machine, if the database can be reached."""
        pulse, self._pulse = self._pulse, None
        if pulse is None:
            return
        pulse.stop()
        try:
            db = self._connect()
            with db.transaction():
                end_machine(db, self._epoch, time.time())
            db.close()
        except CrawlError as error:
            _log.warning("%s; the other machines notice the end of this one", error.message)

    # joining

    def _join(self) -> None:
        """Write the row of this machine, and end those of its earlier processes."""
        settings = self._options.settings
        processes = 0 if self._epoch else settings.nodes.most + settings.backups + _OTHER_PROCESSES
        db = self._connect() if self._epoch else open_databases(self._folder, processes=processes)
        try:
            make_dirs(self._folder)
            kill_local_leftovers(db, self._folder, self._earlier(db))
            with db.transaction():
                for epoch in self._earlier(db):
                    end_machine(db, epoch, time.time())
                self._epoch = machines.join(
                    db, identity=self._identity, host=socket.gethostname(), program=__version__, now=time.time()
                )
        finally:
            db.close()
        self._election = Election(self._epoch)
        self._pulse = Pulse(self._connect, self._epoch, self.run.seq if self._has_run else None, self._cut_off)
        self._pulse.start()

    def _earlier(self, db: Database) -> list[int]:
        found = [machines.find_epoch(db, one) for one in {self._identity, self._previous} if one]
        return [epoch for epoch in found if epoch is not None]

    def _join_again(self) -> None:
        """Join under a new number, as often as it takes."""
        if time.monotonic() < self._join_at:
            return
        try:
            self._join()
        except DatabaseBusy as busy:
            _log.warning("%s; trying again", busy.message)
            self._join_at = time.monotonic() + _JOIN_PAUSE

    def _connect(self) -> Database:
        return connect(self._folder / CRAWL, busy_seconds=_BUSY_SECONDS)

    def _cut_off(self) -> None:
        """In a thread, whatever this one does meanwhile: others will soon have the jobs of these nodes."""
        if (work := self._work) is not None:
            work.parts.node_pool.cut_off()

    def _drop(self, reason: str) -> None:
        """Give up everything, and join again."""
        _log.warning("%s; its nodes were killed, and it joins again", reason)
        if self._pulse is not None:
            self._pulse.stop()
        work, self._work = self._work, None
        if work is not None:
            work.kill_processes()
            work.close()
        if self.exit_reason is not None:  # it was to end anyway
            self._end(EXIT_CODES[self.exit_reason], reason)
        self._pulse = None

    def _guard(self, db: Database, check: Callable[[], None]) -> None:
        """Have no write transaction begin once this machine is cut off, or `check` raises Fenced."""
        pulse = self._pulse

        def guard() -> None:
            if pulse is None or pulse.is_cut_off:
                raise Fenced(_CUT_OFF, "It joins again.")
            check()

        db.guard = guard

    # roles

    def _choose_role(self) -> None:
        view, leader = self._election.view, self._election.leader
        if self._has_run and view.exit_code is not None:
            self._end(view.exit_code, None)
        elif self._election.should_lead(1 if self._has_run else self._options.settings.quorum):
            db = self._connect()
            if (lease := self._seize(db)) is not None:
                self._lead(db, lease)
        elif leader is not None and leader.epoch != self._epoch and leader.run is not None:
            if self._passed == 0:
                self._passed = self._find_passed(leader.run)
            if self._has_run or leader.run != self._passed:
                self._stand_by(leader)
        elif view.machines and self._passed == 0:
            self._passed = None

    def _seize(self, db: Database) -> tuple[LeaderLease, bool] | None:
        """Take the lead: the lease, and whether the leader before was this machine; None: another one was faster."""
        seen, run = self._election.view.lease, self.run.seq if self._has_run else None
        before = None if seen.epoch is None else machines.get_identity(db, seen.epoch)
        lease = take_lead(db, self._epoch, seen, self._election.silent, run, time.time())
        return None if lease is None else (lease, before in (None, self._identity, self._previous))

    def _lead(self, db: Database, seized: tuple[LeaderLease, bool], standby: Standby | None = None) -> None:
        """Lead the run, the one that the machine knows or the one that the data dir has."""
        lease, owns_files = seized
        self._guard(db, lambda: machines.check_leader(db, lease))
        options, was_stopping = self._options, False
        if self._has_run:
            run = runs.get(db, self.run.seq)
            was_stopping = run.stage not in ACTIVE_STAGES and run.state is not RunState.DRAINING
            options = replace(options, fresh=False, definitions=versions.read(db, versions.current(db, run.seq)))
        pulse = self._pulse
        lead = Lead(self._epoch, db, owns_files, standby.parts if standby is not None else None)
        try:
            work = build_supervisor(
                options, self._lock, self._spawner, lead=lead, cancelled=lambda: pulse is None or pulse.is_cut_off
            )
        except (DatabaseBusy, Fenced) as error:
            self._drop(error.message)
            return
        work.parts.helpers.is_listed = True
        self._work = work
        self._begin_run(work.run.row, work.notices)
        if was_stopping:
            work.stop(ExitReason.SIGTERM, "cancelled; the machine that led ended meanwhile")

    def _find_passed(self, run: int) -> int | None:
        """This run, if it has ended: its leader only tidies up, and a new one begins after that."""
        with contextlib.closing(self._connect()) as db:
            return None if runs.get_exit_code(db, run) is None else run

    def _stand_by(self, leader: SeenMachine) -> None:
        """Work for the run of the leader."""
        assert leader.run is not None
        db = self._connect()
        run = runs.get(db, leader.run)
        if self._has_run and run.seq != self.run.seq:
            self._end(3, f"run {run.id} has begun on machine {leader.name}")
            return
        options = complete_options(self._options, run)
        if not self._has_run:
            self._check_same_defs(db, run, leader, options)
        with db.transaction():
            machines.check_member(db, self._epoch)
            machines.set_role(db, self._epoch, "STANDBY", run.seq)
        epoch = self._epoch
        self._guard(db, lambda: machines.check_member(db, epoch))
        settings = check_host_clock(db, run, options.settings)
        parts = build_parts(RunContext(db, self._folder, run, settings, epoch), self._spawner)
        self._work = Standby(parts, self._spawner)
        self._lock.write_holder(run.id)
        self._begin_run(run, [f"machine {leader.name} leads the run; this one works for it"])

    def _check_same_defs(self, db: Database, run: Run, leader: SeenMachine, options: RunOptions) -> None:
        if options.extract_only:
            raise UsageError(f"machine {leader.name} works on run {run.id}", "Wait for its end, then extract.")
        published = versions.read(db, versions.current(db, run.seq))
        if PreparedDefs.from_definitions(options.definitions).hash != PreparedDefs.from_definitions(published).hash:
            raise UsageError(
                f"machine {leader.name} leads run {run.id} with other defs",
                "Use the same defs on each machine, or name another --project.",
            )

    def _begin_run(self, run: Run, notices: Sequence[str]) -> None:
        if not self._has_run:
            self.run, self._has_run, self.notices = run, True, notices
        if self._pulse is not None:
            self._pulse.run = run.seq

    def _take_lead(self, standby: Standby) -> None:
        """Take the lead if it is this machine's turn; its nodes go on meanwhile."""
        if not self._election.should_lead(self._options.settings.quorum) or self._election.view.exit_code is not None:
            return
        try:
            lease = self._seize(standby.parts.run.db)
        except DatabaseBusy:
            return
        if lease is not None:
            _log.warning("this machine leads the run now")
            self._lead(standby.parts.run.db, lease, standby)

    def _step_back(self, work: Supervisor) -> Standby:
        """Give up the lead at once, and keep the nodes. Raises DatabaseBusy."""
        db, epoch = work.parts.run.db, self._epoch
        work.give_up()
        with db.transaction():
            machines.set_role(db, epoch, "LEAVING")
            machines.set_leader(db, None)
        self._guard(db, lambda: machines.check_member(db, epoch))
        self._work = standby = Standby(work.parts, self._spawner)
        return standby

    def _end_silent(self, work: Supervisor) -> None:
        """As the leader: give the jobs of silent machines to others."""
        silent = self._election.silent
        if not silent or work.is_finished:
            return
        db = work.parts.run.db
        try:
            with db.transaction():
                if end_silent(db, silent, self.run.seq, time.time()) and work.stage in ACTIVE_STAGES:
                    work.parts.node_pool.continue_jobs()
        except DatabaseBusy:
            return

    def _check_end(self) -> None:
        work = self._work
        if work is None or not work.is_finished:
            return
        self.kill_requested = self.kill_requested or work.kill_requested
        self.exit_reason = work.exit_reason
        self._end(work.exit_code or 0, work.reason)

    def _end(self, exit_code: int, reason: str | None) -> None:
        self.close()
        if not isinstance(self._work, Supervisor):  # which has released it
            self._lock.release()
        self.exit_code, self.reason, self.is_finished = exit_code, reason, True
