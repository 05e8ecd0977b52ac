"""Runs the command of `on_start`; starts, monitors, restarts and stops the helpers."""

import math
import signal
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from crawl_engine.errors import CrawlError
from crawl_engine.helpers.helper_process import HelperProcess, log_path
from crawl_engine.processes.heartbeat import CRASH_LIMIT, count_crash, restart_delay
from crawl_engine.processes.spawner import Spawner
from crawl_engine.processes.user_command import UserCommand
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.settings import Settings
from crawl_engine.settings.declaration import Helper
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.run import events, supervisors
from crawl_engine.store.tables.run.events import Event, Level
from crawl_engine.store.tables.run.supervisors import HelperRow

_REMEDY = "check [helpers.{name}] in crawl.toml"


class _HelperEntry(Struct):
    """One helper: its current process, and the history of earlier ones."""

    helper: Helper
    process: HelperProcess | None = None
    has_been_ready: bool = False
    crashes: int = 0
    """Crashes in a row."""
    restarts: int = 0
    restart_at: float = math.inf
    reported_pid: int | None = None
    kill_at: float | None = None
    """When it is killed; None while it is not asked to stop."""

    @property
    def state(self) -> str:
        """What `status` says of it."""
        if self.process is None:
            return "restarting"
        return "stopping" if self.kill_at is not None else "ready" if self.process.is_ready else "starting"

    def close(self) -> None:
        """Release a process that has ended."""
        if self.process is not None:
            self.process.close()
            self.process = self.reported_pid = None


class HelperPool:
    """The helpers of one supervisor, in the order in which they start. No method waits."""

    def __init__(
        self,
        db: Database,
        folder: Path,
        *,
        run: int,
        settings: Settings,
        spawner: Spawner,
        describe_run: Callable[[], str],
    ) -> None:
        """`describe_run`: the text for the stdin of `on_start`."""
        self._db = db
        self._folder = folder
        self._run = run
        self._describe_run = describe_run
        self._spawner = spawner
        self._command = settings.on_start
        self._start_command: UserCommand | None = None
        self._entries = [_HelperEntry(helper) for helper in settings.helpers or ()]
        self._stopping = False
        self.is_listed = True
        """Whether viewers are shown these helpers: of several machines, those of the leader."""
        self.failure: str | None = None
        """Why the run cannot start or continue; None while it can."""

    def start(self) -> bool:
        """Run `on_start`, then start one helper after another, each when the one before is ready; True when all are."""
        if self.failure or not self._run_start_command():
            return False
        for entry in self._entries:
            if not entry.has_been_ready:
                if entry.process is None:
                    self._spawn(entry)
                return False
        return True

    def watch(self) -> None:
        """Notice which are ready, kill those that do not get ready in time, restart those that ended."""
        if self._stopping or self.failure:
            return
        now = time.monotonic()
        for entry in self._entries:
            process = entry.process
            if process is not None and process.guard.pid != entry.reported_pid:
                entry.reported_pid = process.guard.pid
                self._report("INFO", entry, f"started, pid {process.guard.pid}")
            if process is None:
                if entry.restart_at <= now:
                    entry.restarts += 1
                    self._spawn(entry)
            elif (code := process.guard.poll()) is not None:
                self._handle_end(entry, process.describe_end(code))
            elif not process.is_ready:
                if process.check_ready():
                    entry.has_been_ready = True
                    self._report("INFO", entry, f"is ready after {now - process.started_at:.1f} s")
                elif now - process.started_at > entry.helper.within:
                    process.guard.kill()
                    self._handle_end(entry, process.describe_wait())

    def stop(self, until: float) -> bool:
        """Stop them in reverse order, and `on_start` if it still runs; True once all have ended.

        Each gets its own `stop` seconds, at most an equal share of the time `until`; then it is killed.
        """
        self._stopping = True
        if self._start_command is not None:
            self._start_command.kill("interrupted")
        now = time.monotonic()
        running = [entry for entry in self._entries if entry.process is not None]
        for count, entry in reversed(list(enumerate(running, 1))):
            process = entry.process
            assert process is not None
            if process.guard.poll() is None:
                if entry.kill_at is None:
                    entry.kill_at = now + min(entry.helper.stop, max(0.0, until - now) / count)
                    process.guard.signal(signal.SIGTERM)
                if now < min(entry.kill_at, until):
                    return False
                process.guard.kill()
                entry.close()
                self._report("WARNING", entry, "did not stop in time; killed")
            else:
                entry.close()
                self._report("INFO", entry, "stopped")
        return True

    def kill_all(self) -> None:
        """Kill every process and wait for its end."""
        self._stopping = True
        if self._start_command is not None:
            self._start_command.kill("killed")
        for entry in self._entries:
            if entry.process is not None:
                entry.process.guard.kill()
                entry.close()

    def _run_start_command(self) -> bool:
        """Whether the command of `on_start`, if set, has succeeded."""
        if self._command is None:
            return True
        if self._start_command is None:
            self._start_command = UserCommand("on_start", self._command, self._describe_run(), self._folder)
        if self._start_command.has_ended():
            self.failure = self._start_command.failure
            return self.failure is None
        return False

    def _spawn(self, entry: _HelperEntry) -> None:
        entry.restart_at = math.inf
        try:
            entry.process = HelperProcess(entry.helper, self._folder, self._spawner)
        except CrawlError as error:
            self._handle_end(entry, error.message)

    def _handle_end(self, entry: _HelperEntry, reason: str) -> None:
        """Schedule a restart of a helper that ended, or fail: at its first start, or after too many crashes."""
        name, now = entry.helper.name, time.monotonic()
        entry.crashes = count_crash(entry.crashes, now if entry.process is None else entry.process.started_at)
        remedy = f"see {log_path(self._folder, name)}, and {_REMEDY.format(name=name)}"
        if not entry.has_been_ready:
            self.failure = f"helper '{name}': {reason}; {remedy}"
        elif entry.crashes >= CRASH_LIMIT:
            self.failure = f"helper '{name}' keeps crashing: {reason}; {remedy}"
        else:
            entry.restart_at = now + restart_delay(entry.crashes)
        entry.close()
        self._report("ERROR", entry, reason + ("" if self.failure else "; restarting"))

    def _report(self, level: Level, entry: _HelperEntry, text: str) -> None:
        """Write an event, and the current helpers."""
        rows = [_to_row(entry) for entry in self._entries if entry.process is not None or entry.restart_at < math.inf]
        event = Event(time.time(), level, "supervisor", "helper", f"helper {entry.helper.name} {text}")

        def write() -> None:
            events.add(self._db, self._run, [event])
            if self.is_listed:
                supervisors.set_helpers(self._db, rows)

        self._db.best_effort_write(write)


def _to_row(entry: _HelperEntry) -> HelperRow:
    pid = entry.process.guard.pid if entry.process is not None else None
    identity = (identity_of(pid) or "") if pid is not None else ""
    return HelperRow(name=entry.helper.name, state=entry.state, pid=pid, restarts=entry.restarts, identity=identity)
