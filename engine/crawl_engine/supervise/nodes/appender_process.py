"""Starts, monitors, restarts and drains the appender process."""

import time

from msgspec import Struct

from crawl_engine.model.node import NodeState
from crawl_engine.processes.heartbeat import CRASH_LIMIT, count_crash, restart_delay
from crawl_engine.processes.spawner import Spawner
from crawl_engine.store.tables.run import events, nodes
from crawl_engine.store.tables.run.events import Level
from crawl_engine.supervise.nodes.monitored_child import MonitoredChild, create_beat_file
from crawl_engine.supervise.run_context import RunContext


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
            create_beat_file(self.run.folder, "appender", epoch)
        self.child = MonitoredChild.start(self.run, self.spawner, "appender", epoch)
        self._restart_at = None

    def watch(self) -> None:
        """Reap it if it ended, kill it if it hangs, and restart it when its delay is over."""
        now = time.monotonic()
        child = self.child
        if child is None:
            if self._restart_at is not None and self._restart_at <= now:
                self.start()
            return
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

    def _close_child(self) -> None:
        if self.child is not None:
            self.child.close()
            self.child = None
