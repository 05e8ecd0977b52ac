"""The crew: the nodes. Started, watched, drained, buried, succeeded; takeover of what a dead one held."""

import heapq
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.model.node import Heart, NodeState, Role
from engine.runtime.clock import boottime
from engine.runtime.process_identity import identity_of
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.tables import events, hosts, jobs, nodes, runs, sequences
from engine.store.tables.events import Event, Level
from engine.store.tables.nodes import NodeBeat
from engine.supervise.appender_process import Scribe
from engine.supervise.child_process import CRASH_LIMIT, HEALTHY_SECONDS, Child, pause_after, spawn

_GAVE_UP = 3
"""The exit code of a node that ended itself and said why: its jobs are not to blame."""


@dataclass(order=True, slots=True)
class _Due:
    """A start that waits for its moment (monotonic second)."""

    at: float
    role: Role = field(compare=False)
    replaces: int | None = field(compare=False)
    crashes: int = field(compare=False)


class Crew:
    """The nodes of one supervisor, and the appender's keeper beside them."""

    def __init__(
        self, db: Database, folder: Path, *, run: int, supervisor: int, settings: Settings,
        ring: Callable[[list[int]], None], scribe: Scribe, nudge: int | None,
    ) -> None:  # fmt: skip
        """`nudge`: the file by which a node that is out of work wakes the supervisor (engine.runtime.wakeup)."""
        self._db = db
        self._folder = folder
        self._run = run
        self._supervisor = supervisor
        self._settings = settings
        self._ring = ring
        self._nudge = nudge
        self.scribe = scribe
        self.nodes: list[Child] = []
        self._due: list[_Due] = []

    @property
    def runners(self) -> list[Child]:
        """Nodes that take jobs and were not told to stop."""
        return [c for c in self.nodes if c.role is Role.RUNNER and not c.told_to_stop]

    @property
    def runners_due(self) -> int:
        """Runners that are to be started yet."""
        return sum(due.role is Role.RUNNER for due in self._due) + len(self._restarting)

    @property
    def _restarting(self) -> list[Child]:
        return [c for c in self.nodes if c.role is Role.RUNNER and c.to_be_succeeded]

    @property
    def given_up(self) -> str | None:
        """Why the run cannot go on, once it cannot."""
        if self.scribe.given_up:
            return self.scribe.given_up
        if not any(c.role is Role.RUNNER for c in self.nodes) and not self.runners_due:
            return "no node is left: see data/logs"
        return None

    @property
    def hearts_changed(self) -> bool:
        """Whether a heart looks other than the table says."""
        return any(child.pulse.heart is not child.heart_told for child in self.nodes)

    @property
    def any_alive(self) -> bool:
        """Whether a node's process still runs."""
        return any(child.ended() is None for child in self.nodes)

    def named(self, name: object) -> Child | None:
        """The node of that name, such as n2."""
        return next((child for child in self.nodes if child.name == name), None)

    def start_node(self, role: Role, replaces: int | None = None, crashes: int = 0) -> Child:
        """Write the row of a node, then start its process. Raises Busy, with nothing begun."""
        with self._db.transaction():
            epoch, number = nodes.insert(self._db, self._run, self._supervisor, role, replaces, time.time())
            self._resize()
            self._tell("INFO", f"n{number} started as {role}" + (f", replaces n{replaces}" if replaces else ""))
        process = spawn(
            "engine.node",
            ["--data", str(self._folder), "--run", str(self._run), "--epoch", str(epoch), "--number", str(number),
             "--role", role],
            first_line=self._settings.to_json(),
            log=self._folder / "logs" / f"n{number}.log",
            nudge=self._nudge,
        )  # fmt: skip
        beat = self._folder / "beats" / f"n{epoch}"
        child = Child("node", epoch, number, role, process, beat, time.monotonic(), replaces, crashes)
        self.nodes.append(child)
        self._db.leisurely(lambda: nodes.spawned(self._db, epoch, process.pid, identity_of(process.pid)))
        return child

    def start_missing(self) -> None:
        """Start as many runners and backups as the settings say, beyond those that run."""
        for role, wanted in ((Role.RUNNER, self._settings.nodes), (Role.BACKUP_RUNNER, self._settings.backups)):
            for _ in range(wanted - sum(child.role is role for child in self.nodes)):
                self.start_node(role)

    def restart(self, child: Child) -> None:
        """Let a node end in order; another takes its place at once when it has."""
        child.to_be_succeeded = True
        child.stop()

    def scale(self, count: int) -> tuple[int, int]:
        """Have so many runners: starts new ones, or drains those of the highest numbers. Returns started, drained."""
        there = sorted(self.runners, key=lambda c: c.number)
        missing = count - len(there) - self.runners_due
        for _ in range(missing):
            self.start_node(Role.RUNNER)
        for _ in range(min(-missing, self.runners_due)):
            self._call_off()
        for child in there[count:]:
            child.stop()
        return max(0, missing), max(0, -missing)

    def _call_off(self) -> None:
        """One runner that was to be started is not."""
        if self._restarting:
            self._restarting[0].to_be_succeeded = False
        else:
            self._due.remove(next(due for due in self._due if due.role is Role.RUNNER))
            heapq.heapify(self._due)

    def watch(self) -> None:
        """Reap what ended, end what hangs, and start what is due. Called at every tick while the run goes on."""
        self._look(successor=True)
        self.scribe.watch()
        now = time.monotonic()
        while self._due and self._due[0].at <= now:
            due = self._due[0]
            self.start_node(due.role, due.replaces, due.crashes)
            heapq.heappop(self._due)

    def reap(self) -> bool:
        """While stopping: bury what ended; True once no node is left."""
        self._due.clear()
        self.scribe.watch()
        self._look(successor=False)
        return not self.nodes

    def kill_all(self) -> None:
        """End every process at once, and wait until they are gone."""
        self._due.clear()
        children = [*self.nodes, *([self.scribe.child] if self.scribe.child else [])]
        for child in children:
            child.told_to_stop = True
            child.kill()
        for child in children:
            child.put_down()

    def kill_writer(self, pid: int, stalled: float) -> bool:
        """End a child that keeps all others from writing; False: it is none of ours."""
        children = [*self.nodes, *([self.scribe.child] if self.scribe.child else [])]
        for child in children:
            if child.pid == pid:
                child.hung = child.hung or f"kept the database locked for {stalled:.0f} s; killed"
                child.kill()
                return True
        return False

    def copy_beats(self) -> None:
        """Write what the beats say into the tables."""
        now = time.monotonic()
        with self._db.transaction():
            self._copy(self.nodes, now)
            for child in self.nodes:
                heart = child.pulse.heart
                if nodes.set_heart(self._db, child.epoch, heart) and heart is Heart.ARRHYTHMIA:
                    self._tell("WARNING", f"{child.name} has not beaten for {child.pulse.age(now):.1f} s")
                elif child.heart_told is Heart.ARRHYTHMIA and heart is Heart.HEALTHY:
                    self._tell("INFO", f"{child.name} beats again")
            self.scribe.copy_beat()
        for child in self.nodes:
            child.heart_told = child.pulse.heart

    def _look(self, *, successor: bool) -> None:
        now = time.monotonic()
        for child in list(self.nodes):
            code = child.ended()
            if code is None and (child.look(now) is Heart.ASYSTOLE or child.hung):
                child.hung = child.hung or f"no beat for {child.pulse.age(now):.1f} s; killed"
                code = child.put_down()
            if code is not None:
                self._bury(child, *self._why(child, code), successor=successor)

    def _copy(self, children: list[Child], now: float) -> None:
        told = [
            NodeBeat(c.epoch, NodeState(b.state), c.pulse.age(now), b.in_flight, b.done, b.failed, b.rss, b.lag, b.now)
            for c in children
            if (b := c.pulse.beat) is not None
        ]
        nodes.beaten(self._db, told)

    def _why(self, child: Child, code: int) -> tuple[str, bool]:
        """The reason of an end, and whether it was a crash: a node that said goodbye was none."""
        if child.hung:
            return child.hung, True
        state, _ = nodes.standing(self._db, child.epoch)
        early = code == -signal.SIGTERM and child.told_to_stop and state is NodeState.STARTING
        if state is NodeState.SHUTDOWN or early:
            return "ended in order", False
        child.explained = code == _GAVE_UP
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"died: {how}", not child.told_to_stop

    def _bury(self, child: Child, reason: str, crashed: bool, *, successor: bool) -> None:
        """The end of a node: fence it, take over what it held, promote a backup, plan its successor."""
        lived = time.monotonic() - child.started_at
        crashes = 1 if lived >= HEALTHY_SECONDS or child.ordered_dead else child.crashes + 1
        blame = crashed and not child.ordered_dead and not child.explained
        final = crashed and crashes >= CRASH_LIMIT
        missing = child.role
        child.look(time.monotonic())
        with self._db.transaction():
            self._copy([child], time.monotonic())
            clean = reason == "ended in order"
            nodes.move(self._db, child.epoch, NodeState.TERMINATED if clean else NodeState.DEAD)
            nodes.set_heart(self._db, child.epoch, Heart.APPARENT_DEATH if child.told_to_stop else Heart.ASYSTOLE)
            if not clean:
                dead = Role.DEAD_RUNNER if child.role is Role.RUNNER else Role.DEAD_BACKUP_RUNNER
                nodes.set_role(self._db, child.epoch, dead)
            if final:
                nodes.move(self._db, child.epoch, NodeState.FAILED)
            nodes.end(self._db, child.epoch, reason, time.time())
            freed = jobs.release(self._db, child.epoch, f"{child.name} {reason}", crashed=blame)
            if successor:  # else the run is stopping, and what was cut off stays so until it is resumed
                jobs.resume(self._db, self._run)
            sequences.recount_taken(self._db, self._run)
            if blame:
                hosts.give_up_robots(self._db, self._run)
            if crashed:
                runs.took_over(self._db, self._run)
            lost = successor and crashed and not child.told_to_stop
            promoted = self._promote_backup() if lost and child.role is Role.RUNNER else None
            self._resize()
            rung = sequences.ring_all(self._db, self._run, boottime())
            level: Level = "ERROR" if crashed else "INFO"
            self._tell(level, f"{child.name} {reason}" + (f"; {freed} jobs taken over" if freed else ""))
        if promoted is not None:
            missing = Role.BACKUP_RUNNER
            for other in self.nodes:
                if other.epoch == promoted:
                    other.role = Role.RUNNER
        child.bury()
        self.nodes.remove(child)
        self._ring(rung)
        if lost and not final:
            self._plan(missing, child.number, crashes, pause_after(crashes))
        elif successor and child.to_be_succeeded:
            self._plan(missing, child.number, 0, 0.0)

    def _plan(self, role: Role, replaces: int, crashes: int, pause: float) -> None:
        heapq.heappush(self._due, _Due(time.monotonic() + pause, role, replaces, crashes))

    def _promote_backup(self) -> int | None:
        """Make the lowest-numbered backup a runner; its epoch, or None where there is none that stays."""
        backups = [c for c in self.nodes if c.role is Role.BACKUP_RUNNER and not c.told_to_stop and c.ended() is None]
        if not backups:
            return None
        backup = min(backups, key=lambda c: c.number)
        nodes.set_role(self._db, backup.epoch, Role.RUNNER)
        if nodes.standing(self._db, backup.epoch)[0] is NodeState.STANDBY:  # else it has yet to register
            nodes.move(self._db, backup.epoch, NodeState.DONE)
        self._tell("INFO", f"{backup.name} takes over as runner")
        return backup.epoch

    def _resize(self) -> None:
        runs.set_slots(self._db, self._run, nodes.runners(self._db, self._run) * self._settings.concurrency)

    def _tell(self, level: Level, text: str) -> None:
        events.add(self._db, self._run, [Event(time.time(), level, "supervisor", "node", text)])
