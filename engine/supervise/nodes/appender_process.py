"""Starts, monitors, restarts and drains the appender process."""

import time

from msgspec import Struct

from engine.model.node import NodeState, Role
from engine.processes.heartbeat import (
    CRASH_LIMIT,
    HeartbeatMonitor,
    MonitoredChild,
    count_crash,
    create_beat_file,
    restart_delay,
)
from engine.processes.spawner import Spawner
from engine.runtime.process_identity import identity_of
from engine.store.tables.run import events, nodes
from engine.store.tables.run.events import Level
from engine.supervise.run_context import RunContext

APPENDER_ENTRY = "engine.append.process:main"


class AppenderProcess(Struct):
    """The appender of one run."""

    run: RunContext
    spawner: Spawner
    child: MonitoredChild | None = None
    failure: str | None = None
    """Why the appender is no longer restarted; None while it runs."""
    _restart_at: float | None = None
    _crashes: int = 0
    _recorded_problem: str = ""

    def start(self) -> None:
        """Insert its row, then start its process. Raises DatabaseBusy, with nothing started."""
        with self.run.db.transaction():
            epoch = nodes.insert_appender(self.run.db, self.run.seq, self.run.epoch, time.time())
            beat_path = self.run.folder / "beats" / f"a{epoch}"
            create_beat_file(beat_path)
        process = self.spawner.spawn(
            APPENDER_ENTRY,
            "appender",
            {
                "data": str(self.run.folder), "run": self.run.seq, "epoch": epoch, "supervisor": self.run.epoch,
                "settings": self.run.settings.to_json(),
            },
            log=self.run.folder / "logs" / "appender.log",
        )  # fmt: skip
        self.child = MonitoredChild(
            "appender", epoch, 0, Role.RUNNER, process, beat_path, time.monotonic(),
            HeartbeatMonitor.from_settings(self.run.settings),
        )  # fmt: skip
        self._restart_at = None

    def watch(self) -> None:
        """Reap it if it ended, kill it if it hangs, and restart it when its delay is over."""
        now = time.monotonic()
        child = self.child
        if child is None:
            if self._restart_at is not None and self._restart_at <= now:
                self.start()
            return
        if child.pid != child.recorded_pid:
            self._record_pid(child)
        code = child.check(now)
        if code is None:
            return
        crashes = count_crash(self._crashes, child.started_at)
        final = crashes >= CRASH_LIMIT
        outcome = child.kill_reason or f"died: {code}"
        with self.run.db.transaction():
            nodes.end_appender(self.run.db, child.epoch, NodeState.FAILED if final else NodeState.DEAD, time.time())
            self.run.log("ERROR", "node", f"appender {outcome}" + ("" if final else "; restarting"))
        self._close_child()
        self._crashes = crashes
        if final:
            self.failure = "the appender keeps crashing: see data/logs/appender.log"
        else:
            self._restart_at = now + restart_delay(crashes)

    def drain(self) -> bool:
        """While stopping: let it write all remaining rows; True once it has. Restarts it if it dies."""
        child = self.child
        if child is not None and child.poll() == 0 and child.stop_requested:
            self.end(NodeState.TERMINATED)
            return True
        self.watch()
        if self.child is not None and not self.child.stop_requested and self.child.heartbeat.has_beaten:
            self.child.stop()
        return self.failure is not None or (self.child is None and self._restart_at is None)

    def end(self, state: NodeState) -> None:
        """Record its end; no other appender follows."""
        if self.child is not None:
            with self.run.db.transaction():
                nodes.end_appender(self.run.db, self.child.epoch, state, time.time())
            self._close_child()
        self._restart_at = None

    def record_beat(self) -> None:
        """Write its beat to the tables, in the open transaction."""
        if self.child is None or self.child.heartbeat.beat is None:
            return
        monitor, beat = self.child.heartbeat, self.child.heartbeat.beat
        nodes.record_appender_beat(self.run.db, self.child.epoch, monitor.age(time.monotonic()), beat.flush_ms)
        problem = beat.now
        if problem != self._recorded_problem:
            text = problem or "the outputs can be written again"
            level: Level = "ERROR" if problem else "INFO"
            events.log(self.run.db, self.run.seq, level, "appender", text, source="appender")
            self._recorded_problem = problem

    def _record_pid(self, child: MonitoredChild) -> None:
        pid = child.recorded_pid = child.pid
        if pid is not None:
            self.run.db.best_effort_write(
                lambda: nodes.record_spawn(self.run.db, child.epoch, pid, identity_of(pid), table="appenders")
            )

    def _close_child(self) -> None:
        if self.child is not None:
            self.child.close()
            self.child = None
