"""Starts, monitors, drains and replaces nodes; requeues the jobs of dead ones."""

import heapq
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from crawl_engine.errors import plural
from crawl_engine.model.node import HeartbeatState, NodeRange, NodeState, Role
from crawl_engine.processes.child import kill_group
from crawl_engine.processes.heartbeat import CRASH_LIMIT, count_crash, restart_delay
from crawl_engine.processes.spawner import Spawner
from crawl_engine.runtime.clock import store_time
from crawl_engine.settings import usable_cpus
from crawl_engine.store.tables.job import jobs, rings, sequences
from crawl_engine.store.tables.run import nodes, runs
from crawl_engine.store.tables.run.events import Level
from crawl_engine.store.transactions.takeover import give_up_gates, requeue_jobs
from crawl_engine.supervise.nodes.appender_process import AppenderProcess
from crawl_engine.supervise.nodes.monitored_child import MonitoredChild, create_beat_file
from crawl_engine.supervise.run_context import RunContext

_FATAL_EXIT_CODE = 3
"""The exit code of a node that ended with a reported error: its jobs did not cause it."""
_GRACEFUL_END = "stopped gracefully"
_STARTING_AT_ONCE = 4
"""Nodes that may start at once; others wait until one of them has sent a beat. The number of CPUs may allow more."""


@dataclass(order=True, slots=True)
class _ScheduledStart:
    """A start that is due at a monotonic time."""

    due_at: float
    role: Role = field(compare=False)
    replaces: int | None = field(compare=False)
    crashes: int = field(compare=False)


class NodePool:
    """The nodes of one supervisor, and its appender process."""

    def __init__(
        self, run: RunContext, ring: Callable[[list[int]], None], appender: AppenderProcess, spawner: Spawner
    ) -> None:
        self._run = run
        self._ring = ring
        self._spawner = spawner
        self.appender = appender
        self.nodes: list[MonitoredChild] = []
        self.range: NodeRange = run.settings.nodes
        """How many runners there may be; commands change it."""
        self.given_up = 0
        """Runners that crashed too often and are no longer replaced."""
        self._scheduled: list[_ScheduledStart] = []

    @property
    def runners(self) -> list[MonitoredChild]:
        """Nodes that take jobs and are not stopping."""
        return [c for c in self.nodes if c.role is Role.RUNNER and not c.stop_requested]

    @property
    def pending_runners(self) -> int:
        """The number of runners about to start."""
        return sum(due.role is Role.RUNNER for due in self._scheduled) + len(self._restarting_runners)

    @property
    def _restarting_runners(self) -> list[MonitoredChild]:
        return [c for c in self.nodes if c.role is Role.RUNNER and c.restart_after_exit]

    @property
    def _children(self) -> list[MonitoredChild]:
        return [*self.nodes, *([self.appender.child] if self.appender.child else [])]

    @property
    def failure(self) -> str | None:
        """Why the run cannot continue; None while it can."""
        if failure := self._spawner.failure or self.appender.failure:
            return failure
        if not any(c.role is Role.RUNNER for c in self.nodes) and not self.pending_runners:
            return self._run.db.find_damage() or "no node is left: see data/logs"
        return None

    @property
    def has_heart_changes(self) -> bool:
        """Whether a heartbeat state differs from the one in the tables."""
        return any(child.heartbeat.heart is not child.recorded_heart for child in self.nodes)

    @property
    def any_alive(self) -> bool:
        return any(child.poll() is None for child in self.nodes)

    def find_node(self, name: object) -> MonitoredChild | None:
        return next((child for child in self.nodes if child.name == name), None)

    def start_node(self, role: Role, replaces: int | None = None, crashes: int = 0) -> MonitoredChild:
        """Insert the row of a node, then start its process. Raises DatabaseBusy, with nothing started."""
        with self._run.db.transaction():
            epoch, number = nodes.insert(self._run.db, self._run.seq, self._run.epoch, role, replaces, time.time())
            create_beat_file(self._run.folder, "node", epoch)
            self._update_slots()
            self._run.log(
                "INFO", "node", f"n{number} started as {role}" + (f", replaces n{replaces}" if replaces else "")
            )
        child = MonitoredChild.start(self._run, self._spawner, "node", epoch, number, role, crashes)
        self.nodes.append(child)
        return child

    def start_missing_nodes(self) -> None:
        """Start runners and backups up to their least number."""
        for role, count in ((Role.RUNNER, self.range.least), (Role.BACKUP_RUNNER, self._run.settings.backups)):
            present = sum(child.role is role for child in self.nodes) + sum(due.role is role for due in self._scheduled)
            for _ in range(count - present):
                self._schedule_start(role)
        self._start_due()

    def restart(self, child: MonitoredChild) -> None:
        """Drain a node; a replacement starts as soon as it has ended."""
        child.restart_after_exit = True
        child.stop()

    def scale(self, nodes: NodeRange) -> tuple[int, int]:
        """Start runners, or drain those with the highest numbers, to be within `nodes`. Returns started, drained."""
        self.range, self.given_up = nodes, 0
        current = sorted(self.runners, key=lambda c: c.number)
        count = nodes.clamp(len(current) + self.pending_runners)
        missing = count - len(current) - self.pending_runners
        for _ in range(missing):
            self._schedule_start(Role.RUNNER)
        self._start_due()
        for _ in range(min(-missing, self.pending_runners)):
            self._cancel_pending_start()
        for child in current[count:]:
            child.stop()
        return max(0, missing), max(0, -missing)

    def _cancel_pending_start(self) -> None:
        if self._restarting_runners:
            self._restarting_runners[0].restart_after_exit = False
        else:
            self._scheduled.remove(next(due for due in self._scheduled if due.role is Role.RUNNER))
            heapq.heapify(self._scheduled)

    def watch(self) -> None:
        """Reap nodes that ended, kill those that hang, start those that are due."""
        self._check_nodes(replace=True)
        self.appender.watch()
        self._start_due()

    def _start_due(self) -> None:
        """Start due nodes, up to the number that may be without a beat at once."""
        now, limit = time.monotonic(), max(_STARTING_AT_ONCE, usable_cpus())
        while self._scheduled and self._scheduled[0].due_at <= now:
            if sum(not child.heartbeat.has_beaten for child in self.nodes) >= limit:
                return
            due = self._scheduled[0]
            self.start_node(due.role, due.replaces, due.crashes)
            heapq.heappop(self._scheduled)

    def reap(self) -> bool:
        """While stopping: reap nodes that ended; True once no node is left."""
        self._scheduled.clear()
        self.appender.watch()
        self._check_nodes(replace=False)
        return not self.nodes

    def stop_nodes(self) -> None:
        """Request a graceful stop of all nodes."""
        for child in self.nodes:
            child.stop()

    def kill_nodes(self) -> None:
        """Kill all nodes, without waiting for their end."""
        for child in self.nodes:
            child.kill()

    def kill_all(self) -> None:
        """Kill every process and wait for its end."""
        self._scheduled.clear()
        for child in self._children:
            child.stop_requested = True
            child.kill()
        for child in self._children:
            child.process.kill()

    def cut_off(self) -> None:
        """From another thread: kill every process at once; the owner of the pool reaps them."""
        for child in self._children:
            child.stop_requested = True
            if child.pid is not None:
                kill_group(child.pid)

    def continue_jobs(self) -> None:
        """In the open transaction: jobs that a machine left INCOMPLETE are for the others, which have fewer slots."""
        jobs.resume_incomplete(self._run.db, self._run.seq)
        self._update_slots()

    def kill_writer(self, pid: int, stalled: float) -> bool:
        """Kill the child with this pid, which blocks all writers. False: no child has it."""
        for child in self._children:
            if child.pid == pid:
                child.kill_reason = child.kill_reason or f"held the database lock for {stalled:.0f} s; killed"
                child.kill()
                return True
        return False

    def waiting_hosts(self) -> dict[int, float]:
        """By host: when the oldest request of all nodes that waits for its response was sent, in boot-time seconds."""
        waiting: dict[int, float] = {}
        for child in self.nodes:
            for host, sent_at in child.heartbeat.beat.waiting_hosts if child.heartbeat.beat is not None else ():
                waiting[host] = min(sent_at, waiting.get(host, sent_at))
        return waiting

    def record_beats(self) -> None:
        now = time.monotonic()
        with self._run.db.transaction():
            self._write_beats(self.nodes, now)
            for child in self.nodes:
                heart = child.heartbeat.heart
                if nodes.set_heart(self._run.db, child.epoch, heart) and heart is HeartbeatState.ARRHYTHMIA:
                    self._run.log("WARNING", "node", f"{child.name}: no heartbeat for {child.heartbeat.age(now):.1f} s")
                elif child.recorded_heart is HeartbeatState.ARRHYTHMIA and heart is HeartbeatState.HEALTHY:
                    self._run.log("INFO", "node", f"{child.name}: heartbeat is back")
            self.appender.record_beat()
            reported = {child.epoch: self._report_browsers(child) for child in self.nodes}
        for child in self.nodes:
            child.recorded_heart = child.heartbeat.heart
            child.recorded_replacements = reported[child.epoch]

    def _report_browsers(self, child: MonitoredChild) -> int:
        """Record that browsers of a node were replaced; returns how many were so far."""
        beat, before = child.heartbeat.beat, child.recorded_replacements
        if beat is None or beat.browsers is None or beat.browsers.replaced <= before:
            return before
        now = beat.browsers
        text = f"{child.name}: {plural(now.replaced - before, 'browser')} replaced: {now.reason}"
        self._run.log("WARNING" if now.is_fault else "INFO", "node", text)
        return now.replaced

    def _check_nodes(self, *, replace: bool) -> None:
        now = time.monotonic()
        for child in list(self.nodes):
            code = child.check(now)
            if code is not None:
                self._reap_node(child, *self._explain_exit(child, code), replace=replace)

    def _write_beats(self, children: list[MonitoredChild], now: float) -> None:
        beats = [(c.epoch, c.heartbeat.age(now), c.heartbeat.beat) for c in children if c.heartbeat.beat is not None]
        nodes.record_beats(self._run.db, beats)

    def _explain_exit(self, child: MonitoredChild, code: int) -> tuple[str, bool]:
        """Why a node ended, and whether it was a crash: a node that reported SHUTDOWN did not crash."""
        if child.kill_reason:
            return child.kill_reason, True
        state, _ = nodes.get_state_and_role(self._run.db, child.epoch)
        early = code == -signal.SIGTERM and child.stop_requested and state is NodeState.STARTING
        if state is NodeState.SHUTDOWN or early:
            return _GRACEFUL_END, False
        if child.killed_by_operator:
            return child.killed_by_operator, True
        child.reported_failure = code == _FATAL_EXIT_CODE
        cause = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"died: {cause}", not child.stop_requested

    def _reap_node(self, child: MonitoredChild, reason: str, crashed: bool, *, replace: bool) -> None:
        """Handle the end of a node: fence it, requeue its jobs, promote a backup, schedule its replacement."""
        crashes = 1 if child.killed_by_operator else count_crash(child.crashes, child.started_at)
        blame = crashed and not child.killed_by_operator and not child.reported_failure
        final = crashed and crashes >= CRASH_LIMIT
        missing = child.role
        with self._run.db.transaction():
            self._write_beats([child], time.monotonic())
            clean = reason == _GRACEFUL_END
            nodes.set_state(self._run.db, child.epoch, NodeState.TERMINATED if clean else NodeState.DEAD)
            heart = HeartbeatState.APPARENT_DEATH if child.stop_requested else HeartbeatState.ASYSTOLE
            nodes.set_heart(self._run.db, child.epoch, heart)
            if not clean:
                dead = Role.DEAD_RUNNER if child.role is Role.RUNNER else Role.DEAD_BACKUP_RUNNER
                nodes.set_role(self._run.db, child.epoch, dead)
            if final:
                nodes.set_state(self._run.db, child.epoch, NodeState.FAILED)
            nodes.end(self._run.db, child.epoch, reason, time.time())
            freed = requeue_jobs(self._run.db, self._run.seq, child.epoch, f"{child.name} {reason}", crashed=blame)
            if replace:  # a stopping run keeps interrupted jobs INCOMPLETE until it is resumed
                jobs.resume_incomplete(self._run.db, self._run.seq)
            sequences.recount_taken(self._run.db, self._run.seq)
            if blame:
                give_up_gates(self._run.db, self._run.seq)
            if crashed:
                runs.count_takeover(self._run.db, self._run.seq)
            lost = replace and crashed and not child.stop_requested
            promoted = self._promote_backup() if lost and child.role is Role.RUNNER else None
            self._update_slots()
            rung = rings.ring_all(self._run.db, self._run.seq, store_time())
            level: Level = "ERROR" if crashed and not child.killed_by_operator else "INFO"
            self._run.log(
                level, "node", f"{child.name} {reason}" + (f"; {plural(freed, 'job')} requeued" if freed else "")
            )
        if promoted is not None:
            missing = Role.BACKUP_RUNNER
            for other in self.nodes:
                if other.epoch == promoted:
                    other.role = Role.RUNNER
        child.close()
        self.nodes.remove(child)
        self._ring(rung)
        self.given_up += final and missing is Role.RUNNER
        if lost and not final:
            self._schedule_start(missing, child.number, crashes, restart_delay(crashes))
        elif replace and child.restart_after_exit:
            self._schedule_start(missing, child.number, 0, 0.0)

    def _schedule_start(self, role: Role, replaces: int | None = None, crashes: int = 0, delay: float = 0.0) -> None:
        heapq.heappush(self._scheduled, _ScheduledStart(time.monotonic() + delay, role, replaces, crashes))

    def _promote_backup(self) -> int | None:
        """Make the lowest-numbered backup a runner; returns its epoch, or None if no backup is available."""
        backups = [c for c in self.nodes if c.role is Role.BACKUP_RUNNER and not c.stop_requested and c.poll() is None]
        if not backups:
            return None
        backup = min(backups, key=lambda c: c.number)
        nodes.set_role(self._run.db, backup.epoch, Role.RUNNER)
        state, _ = nodes.get_state_and_role(self._run.db, backup.epoch)
        if state is NodeState.STANDBY:  # else it has not registered yet
            nodes.set_state(self._run.db, backup.epoch, NodeState.DONE)
        self._run.log("INFO", "node", f"{backup.name} takes over as runner")
        return backup.epoch

    def _update_slots(self) -> None:
        runs.set_slots(
            self._run.db,
            self._run.seq,
            nodes.count_runners(self._run.db, self._run.seq) * self._run.settings.concurrency,
        )
