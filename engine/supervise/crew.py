"""The crew: nodes and the appender. Started, watched, buried, succeeded; takeover of what a dead node held."""

import heapq
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.clock import boottime
from engine.identity import identity_of
from engine.model.node import Heart, NodeState, Role
from engine.settings import Settings
from engine.store import events, jobs, nodes, runs, sequences
from engine.store.connector import Database
from engine.store.events import Event, Level
from engine.store.nodes import NodeBeat
from engine.supervise.children import Child, spawn

CRASH_LIMIT = 5
HEALTHY_SECONDS = 60.0
"""A child that lived this long starts its count of crashes anew."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
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
    """All children of one supervisor."""

    def __init__(
        self, db: Database, folder: Path, *, run: int, supervisor: int, settings: Settings,
        ring: Callable[[list[int]], None],
    ) -> None:  # fmt: skip
        self._db = db
        self._folder = folder
        self._run = run
        self._supervisor = supervisor
        self._settings = settings
        self._ring = ring
        self.nodes: list[Child] = []
        self.appender: Child | None = None
        self._due: list[_Due] = []
        self._appender_due: float | None = None
        self._appender_crashes = 0
        self._trouble = ""
        self.given_up: str | None = None
        """Why the run cannot go on, once it cannot."""

    def start_appender(self) -> None:
        """Start the one writer of files."""
        with self._db.transaction():
            epoch = nodes.insert_appender(self._db, self._run, self._supervisor, time.time())
        process = spawn(
            "engine.append",
            ["--data", str(self._folder), "--run", str(self._run), "--epoch", str(epoch), "--supervisor",
             str(self._supervisor)],
            first_line=self._settings.to_json(),
            log=self._folder / "logs" / "appender.log",
        )  # fmt: skip
        self.appender = Child(
            "appender", epoch, 0, Role.RUNNER, process, self._folder / "beats" / f"a{epoch}", time.monotonic()
        )
        self._appender_due = None
        with self._db.transaction():
            nodes.appender_spawned(self._db, epoch, process.pid, identity_of(process.pid))

    def start_node(self, role: Role, replaces: int | None = None, crashes: int = 0) -> None:
        """Write the row of a node, then start its process."""
        with self._db.transaction():
            epoch, number = nodes.insert(self._db, self._run, self._supervisor, role, replaces, time.time())
            self._resize()
        process = spawn(
            "engine.node",
            ["--data", str(self._folder), "--run", str(self._run), "--epoch", str(epoch), "--number", str(number),
             "--role", role],
            first_line=self._settings.to_json(),
            log=self._folder / "logs" / f"n{number}.log",
        )  # fmt: skip
        beat = self._folder / "beats" / f"n{epoch}"
        child = Child("node", epoch, number, role, process, beat, time.monotonic(), replaces, crashes)
        self.nodes.append(child)
        with self._db.transaction():
            nodes.spawned(self._db, epoch, process.pid, identity_of(process.pid))
            text = f"{child.name} started as {role} (pid {process.pid})"
            self._tell("INFO", text + (f", replaces n{replaces}" if replaces is not None else ""))

    def start_crew(self) -> None:
        """Start as many runners and backups as the settings say."""
        for _ in range(self._settings.nodes):
            self.start_node(Role.RUNNER)
        for _ in range(self._settings.backups):
            self.start_node(Role.BACKUP_RUNNER)

    def watch(self) -> None:
        """Reap what ended, end what hangs, and start what is due. Called at every tick while the run goes on."""
        now = time.monotonic()
        for child in list(self.nodes):
            code = child.ended()
            if code is None and child.look(now) is Heart.ASYSTOLE:
                child.kill()
                child.process.wait()
                self._bury(child, f"no beat for {child.pulse.age(now):.1f} s; killed", crashed=True)
            elif code is not None:
                self._bury(child, *self._why(child, code))
        self._watch_appender(now)
        while self._due and self._due[0].at <= now:
            due = heapq.heappop(self._due)
            self.start_node(due.role, due.replaces, due.crashes)
        if not any(c.role is Role.RUNNER for c in self.nodes) and not any(d.role is Role.RUNNER for d in self._due):
            self.given_up = self.given_up or "no node is left: see data/logs"

    def reap(self) -> bool:
        """While stopping: bury what ended; True once no node is left."""
        self._due.clear()
        now = time.monotonic()
        self._watch_appender(now)
        for child in list(self.nodes):
            code = child.ended()
            if code is None and child.look(now) is Heart.ASYSTOLE:
                child.kill()
                code = child.process.wait()
            if code is not None:
                self._bury(child, *self._why(child, code), successor=False)
        return not self.nodes

    def drain_appender(self) -> bool:
        """While stopping: tell the appender to write what is left; True once it has. One that dies is started again."""
        now = time.monotonic()
        child = self.appender
        if child is not None and child.ended() == 0 and child.told_to_stop:
            self.bury_appender(NodeState.TERMINATED)
            return True
        self._watch_appender(now)
        if self.appender is not None and not self.appender.told_to_stop and self.appender.pulse.born:
            self.appender.stop()
        return self.given_up is not None

    def bury_appender(self, state: NodeState) -> None:
        """The appender ended: write it down."""
        if self.appender is not None:
            with self._db.transaction():
                nodes.end_appender(self._db, self.appender.epoch, state, time.time())
            self.appender.bury()
            self.appender = None

    def kill_all(self) -> None:
        """End every process at once, and wait until they are gone."""
        self._due.clear()
        children = [*self.nodes, *([self.appender] if self.appender else [])]
        for child in children:
            child.told_to_stop = True
            child.kill()
        for child in children:
            child.process.wait()

    def copy_beats(self) -> None:
        """Write what the beats say into the tables."""
        now = time.monotonic()
        with self._db.transaction():
            self._copy(self.nodes, now)
            for child in self.nodes:
                nodes.set_heart(self._db, child.epoch, child.pulse.heart)
            if self.appender is not None and self.appender.pulse.beat is not None:
                pulse = self.appender.pulse
                flush = pulse.beat.flush_ms if pulse.beat else None
                nodes.appender_beaten(self._db, self.appender.epoch, pulse.age(now), flush)
                self._tell_trouble(pulse.beat.now if pulse.beat else "")

    def _tell_trouble(self, trouble: str) -> None:
        """What keeps the appender from writing, once; and that it is over."""
        if trouble != self._trouble:
            text = trouble or "the outputs can be written again"
            level: Level = "ERROR" if trouble else "INFO"
            events.add(self._db, self._run, [Event(time.time(), level, "appender", "appender", text)])
            self._trouble = trouble

    def _copy(self, children: list[Child], now: float) -> None:
        told = [
            NodeBeat(c.epoch, NodeState(b.state), c.pulse.age(now), b.in_flight, b.done, b.failed, b.rss, b.lag, b.now)
            for c in children
            if (b := c.pulse.beat) is not None
        ]
        nodes.beaten(self._db, told)

    def _why(self, child: Child, code: int) -> tuple[str, bool]:
        """The reason of an end, and whether it was a crash: a node that said goodbye was none."""
        state, _ = nodes.standing(self._db, child.epoch)
        early = code == -signal.SIGTERM and child.told_to_stop and state is NodeState.STARTING
        if state is NodeState.SHUTDOWN or early:
            return "ended in order", False
        child.explained = code == _GAVE_UP
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"died: {how}", not child.told_to_stop

    def _bury(self, child: Child, reason: str, crashed: bool, *, successor: bool = True) -> None:
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
            sequences.recount_taken(self._db, self._run)
            if crashed:
                runs.took_over(self._db, self._run)
            if successor and crashed and child.role is Role.RUNNER:
                missing = self._promote_backup() or child.role
            self._resize()
            rung = sequences.ring_all(self._db, self._run, boottime())
            level: Level = "ERROR" if crashed else "INFO"
            self._tell(level, f"{child.name} {reason}" + (f"; {freed} jobs taken over" if freed else ""))
        child.bury()
        self.nodes.remove(child)
        self._ring(rung)
        if successor and crashed and not final:
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (crashes - 1))
            heapq.heappush(self._due, _Due(time.monotonic() + pause, missing, child.number, crashes))

    def _promote_backup(self) -> Role | None:
        """Make the lowest-numbered backup a runner; the role that is now missing, or None where there is no backup."""
        backup = nodes.first_backup(self._db, self._run)
        if backup is None:
            return None
        nodes.set_role(self._db, backup[0], Role.RUNNER)
        nodes.move(self._db, backup[0], NodeState.DONE)
        for child in self.nodes:
            if child.epoch == backup[0]:
                child.role = Role.RUNNER
        self._tell("INFO", f"n{backup[1]} takes over as runner")
        return Role.BACKUP_RUNNER

    def _watch_appender(self, now: float) -> None:
        child = self.appender
        if child is None:
            if self._appender_due is not None and self._appender_due <= now:
                self.start_appender()
            return
        hung = child.look(now) is Heart.ASYSTOLE
        if hung:
            child.kill()
            child.process.wait()
        code = child.ended()
        if code is None:
            return
        lived = now - child.started_at
        self._appender_crashes = 1 if lived >= HEALTHY_SECONDS else self._appender_crashes + 1
        with self._db.transaction():
            self._tell("ERROR", f"appender {'hung; killed' if hung else f'died: {code}'}; it is started again")
        self.bury_appender(NodeState.DEAD)
        if self._appender_crashes >= CRASH_LIMIT:
            self.given_up = "the appender ends again and again: see data/logs/appender.log"
        else:
            self._appender_due = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._appender_crashes - 1))

    def _resize(self) -> None:
        runs.set_slots(self._db, self._run, nodes.runners(self._db, self._run) * self._settings.concurrency)

    def _tell(self, level: Level, text: str) -> None:
        events.add(self._db, self._run, [Event(time.time(), level, "supervisor", "node", text)])
