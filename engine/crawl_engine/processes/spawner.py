"""Starts the processes of a supervisor: forks of a template, or interpreters of their own."""

import contextlib
import logging
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crawl_engine.errors import CrawlError, reason_of
from crawl_engine.model.node import HeartbeatState
from crawl_engine.processes.child import Child, reap_orphans
from crawl_engine.processes.child_limits import become_subreaper
from crawl_engine.processes.heartbeat import CRASH_LIMIT, HeartbeatMonitor, count_crash
from crawl_engine.processes.launcher import Launcher, OwnTemplate, TemplateLost
from crawl_engine.processes.orders import ProcessKind, StartOrder
from crawl_engine.processes.start import spawn_child
from crawl_engine.runtime.beat_file import Beat
from crawl_engine.runtime.log_file import open_log

_START_SECONDS = 2.0
_PING_SECONDS, _SILENT_SECONDS = 1.0, 2.0
"""Between two pings of the template; without an answer, which counts as a missed timeout."""
_log = logging.getLogger(__name__)


class Spawner:
    """Starts processes with `--data DIR` in their command line; each gets a lifeline and a way to the template.

    `check` must be called often: it hears of starts, and follows a template that died by another.
    """

    def __init__(self, folder: Path, entries: Sequence[str], *, wakeup_fd: int | None = None) -> None:
        """`folder`: the data dir, absolute. `entries`: what the template imports (see OwnTemplate).

        A node without work writes to `wakeup_fd` to wake the supervisor (crawl_engine.runtime.wakeup).
        """
        self._folder = folder
        self._wakeup_fd = wakeup_fd
        self.adopts = become_subreaper()
        """Whether the template may fork for this process. Where the system refuses, each has its own interpreter."""
        self._template = OwnTemplate(entries, folder)
        self._launcher = Launcher(self._template)
        self._children: list[Child] = []
        self._orphans: dict[int, float] = {}
        self._crashes = self._losses = 0
        self._started_at = self._pinged_at = 0.0
        self._heartbeat = HeartbeatMonitor(timeout=_SILENT_SECONDS)

    @property
    def is_refused(self) -> bool:
        """Whether this system could let the template fork for this process, and refuses."""
        return not self.adopts and sys.platform == "linux"

    @property
    def failure(self) -> str | None:
        """Why no process can be started any more; None while they can."""
        return "the process that forks all others keeps crashing" if self._crashes >= CRASH_LIMIT else None

    def start_template(self, *, forks: bool = False) -> None:
        """Start the template; it imports while this process works. Raises CrawlError.

        `forks`: it may be a fork of this process, which has no open database, and shares the modules imported so far.
        """
        self._started_at, self._heartbeat = time.monotonic(), HeartbeatMonitor(timeout=_SILENT_SECONDS)
        try:
            if forks and sys.platform == "linux" and threading.active_count() == 1:
                self._template.fork()
            self._launcher.connect()
        except (OSError, TemplateLost) as error:
            raise _cannot_start("the template", error) from error

    def check(self) -> None:
        """Hear of starts, reap what others left, follow a template that died or hangs by another. Never waits."""
        if self._launcher.hear():
            self._watch_template()
        elif self.failure is None:
            with contextlib.suppress(CrawlError):  # the next check tries again
                self._follow_template()
        self._children = [child for child in self._children if child.poll() is None]
        if self.adopts:
            reap_orphans(self._orphans)

    def spawn(self, entry: str, name: str, arguments: Mapping[str, Any], *, log: Path, wakes: bool = False) -> Child:
        """Start a process that leads a session; its output goes to `log`. Raises CrawlError if it cannot be started.

        `entry`: `module:function`, called with a ChildStart, whose files are `lifeline`, `template` and, if it `wakes`
        the supervisor, `wakeup`.
        """
        if not self._template.is_running:
            self._follow_template()
        ours, theirs = socket.socketpair()
        child = Child(ours)
        with contextlib.suppress(OSError):
            log.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            with theirs, open_log(log) as output, self._template.share() as template:
                files = {"lifeline": theirs.fileno(), "output": output.fileno(), "template": template.fileno()}
                if wakes and self._wakeup_fd is not None:
                    files["wakeup"] = self._wakeup_fd
                self._start(child, entry, name, arguments, files)
        except (OSError, TemplateLost) as error:
            child.close()
            raise _cannot_start(name, error) from error
        self._children.append(child)
        return child

    def close(self) -> None:
        """End the template, and with it what it has forked for others; processes that start now hear their signals."""
        deadline = time.monotonic() + _START_SECONDS
        while self._launcher.is_starting and self._launcher.hear() and time.monotonic() < deadline:
            time.sleep(0.002)
        self._launcher.close()
        self._template.close()

    def _start(
        self, child: Child, entry: str, name: str, arguments: Mapping[str, Any], files: Mapping[str, int]
    ) -> None:
        if self.adopts:
            self._launcher.start(child, ProcessKind(entry, name), arguments, files)
        else:
            order = StartOrder(number=0, entry=entry, name=name, arguments=arguments, files=tuple(files), own=True)
            child.on_started(spawn_child(order, list(files.values()), str(self._folder)))

    def _watch_template(self) -> None:
        """Kill the template if it no longer answers; the next check follows it."""
        now, beat = time.monotonic(), Beat(number=self._launcher.heard, state="READY")
        if self._heartbeat.observe(beat if beat.number else None, now) is HeartbeatState.ASYSTOLE:
            _log.warning("the process that forks all others hangs; it is replaced")
            self._template.kill()
        elif now - self._pinged_at >= _PING_SECONDS:
            self._pinged_at = now
            self._launcher.ping()

    def _follow_template(self) -> None:
        """Start a template, perhaps in place of one that died; tell the processes that used that."""
        if self._launcher.hear():
            self._launcher.lose("it has ended")
        if self._launcher.losses > self._losses:
            self._losses = self._launcher.losses
            self._crashes = count_crash(self._crashes, self._started_at)
        self.start_template()
        for child in self._children:
            if child.lifeline is not None and child.poll() is None:
                with contextlib.suppress(OSError, TemplateLost), self._template.share() as control:
                    socket.send_fds(child.lifeline, [b"t"], [control.fileno()])


def _cannot_start(name: str, error: Exception) -> CrawlError:
    return CrawlError(f"cannot start {name}: {reason_of(error)}", "Free memory, processes or disk.")
