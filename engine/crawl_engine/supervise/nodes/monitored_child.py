"""A node or appender of this supervisor: its process, its beat, its pid in the tables."""

import errno
import signal
import time
from pathlib import Path
from typing import Literal

from msgspec import Struct

from crawl_engine.errors import StorageError
from crawl_engine.model.node import HeartbeatState, Role
from crawl_engine.processes.child import Child
from crawl_engine.processes.heartbeat import HeartbeatMonitor
from crawl_engine.processes.spawner import Spawner
from crawl_engine.runtime.beat_file import BeatWriter, read_beat
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.store.db.retry_busy import DiskFull
from crawl_engine.store.tables.run import nodes
from crawl_engine.supervise.run_context import RunContext

ENTRIES = {"node": "crawl_engine.node.process:main", "appender": "crawl_engine.append.process:main"}


class MonitoredChild(Struct):
    """A node or appender that this supervisor started."""

    run: RunContext
    kind: Literal["node", "appender"]
    epoch: int
    number: int
    """0 for the appender."""
    role: Role
    beat_path: Path
    process: Child
    heartbeat: HeartbeatMonitor
    started_at: float
    crashes: int = 0
    """Crashes in a row, counted along the processes it replaces."""
    stop_requested: bool = False
    restart_after_exit: bool = False
    """Its stop was requested so that a replacement starts."""
    killed_by_operator: str = ""
    """The reason if an operator killed it: it is replaced, and its death counts against no job."""
    reported_failure: bool = False
    """It ended itself with a reported error."""
    kill_reason: str = ""
    """Why the supervisor killed it, for example a missing beat; empty if it did not."""
    recorded_heart: HeartbeatState = HeartbeatState.NEWBORN
    """The heartbeat state in the tables."""
    recorded_pid: int | None = None
    """The pid in the tables."""
    recorded_replacements: int = 0
    """Browsers of which an event says that they were replaced."""

    @classmethod
    def start(
        cls, run: RunContext, spawner: Spawner, kind: Literal["node", "appender"], epoch: int,
        number: int = 0, role: Role = Role.RUNNER, crashes: int = 0,
    ) -> "MonitoredChild":  # fmt: skip
        """Start the process of a row, whose beat file exists. Raises CrawlError if it cannot be started."""
        is_node = kind == "node"
        process = spawner.spawn(
            ENTRIES[kind],
            kind,
            {
                "data": str(run.folder), "run": run.seq, "epoch": epoch, "settings": run.settings.to_json(),
                **({"number": number, "role": role} if is_node else {"supervisor": run.epoch}),
            },
            log=run.folder / "logs" / f"{_name(kind, number)}.log",
            wakes=is_node,
        )  # fmt: skip
        monitor = HeartbeatMonitor.from_settings(run.settings)
        path = beat_path(run.folder, kind, epoch)
        return cls(run, kind, epoch, number, role, path, process, monitor, time.monotonic(), crashes)

    @property
    def name(self) -> str:
        """`n2`, or `appender`."""
        return _name(self.kind, self.number)

    @property
    def pid(self) -> int | None:
        """None until it has started."""
        return self.process.pid

    def poll(self) -> int | None:
        """Reap it if it ended: its exit code (negative: a signal number), else None. Its group dies with it."""
        return self.process.poll()

    def check(self, now: float) -> int | None:
        """Record its pid, read its beat, and kill it if it hangs: its exit code if it ended, else None."""
        if self.pid != self.recorded_pid:
            self._record_pid()
        code = self.process.poll()
        heart = self.heartbeat.observe(read_beat(self.beat_path), now)
        if code is None and (heart is HeartbeatState.ASYSTOLE or self.kill_reason):
            self.kill_reason = self.kill_reason or f"no beat for {self.heartbeat.age(now):.1f} s; killed"
            code = self.process.kill()
        return code

    def _record_pid(self) -> None:
        pid = self.recorded_pid = self.pid
        if pid is not None:
            db = self.run.db
            table: Literal["nodes", "appenders"] = "nodes" if self.kind == "node" else "appenders"
            db.best_effort_write(lambda: nodes.record_spawn(db, self.epoch, pid, identity_of(pid), table=table))

    def stop(self) -> None:
        """Request a graceful stop (SIGTERM)."""
        self.stop_requested = True
        self.process.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill its whole process group, without waiting for its end."""
        self.process.signal(signal.SIGKILL)

    def close(self) -> None:
        """After its end: close the lifeline, delete its beat file."""
        self.process.close()
        self.beat_path.unlink(missing_ok=True)


def create_beat_file(folder: Path, kind: str, epoch: int) -> None:
    """Create the heartbeat file of a process that is about to start, in a data dir.

    Raises DiskFull without room for a file: a process that cannot beat would count as dead.
    """
    path = beat_path(folder, kind, epoch)
    try:
        BeatWriter(path).close()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"{path}: {error.strerror}", "Free some space. A crawl that runs waits for it.") from error
        raise StorageError(f"{path}: {error.strerror}", "Check the permissions of the data directory.") from error


def beat_path(folder: Path, kind: str, epoch: int) -> Path:
    return folder / "beats" / f"{kind[0]}{epoch}"


def _name(kind: str, number: int) -> str:
    return f"n{number}" if kind == "node" else kind
