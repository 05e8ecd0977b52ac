"""A node as a process: its signals, the lifetimes of its threads, and its orderly shutdown."""

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from functools import partial
from pathlib import Path

from crawl_engine.errors import CrawlError, Fenced
from crawl_engine.model.node import Role
from crawl_engine.node.beat_thread import NodeBeatThread, Registration
from crawl_engine.node.build import NodeParts, build_node
from crawl_engine.node.tuning import tune_garbage_collection, use_batch_scheduling
from crawl_engine.processes.child_limits import raise_file_limit
from crawl_engine.processes.launcher import SupervisorSocket, TemplateLink
from crawl_engine.processes.start import ChildStart
from crawl_engine.runtime import log_file
from crawl_engine.settings import Settings

_log = logging.getLogger(__name__)

ORPHAN_SECONDS = 2.5
_LAST_LEASE_SECONDS = 2.0
"""Seconds for a running commit to dispatch the jobs it leased before the drain began."""
_LAST_COMMIT_SECONDS = 4.0
"""Seconds beyond the grace in which the last commit must succeed; less than the supervisor waits."""


class NodeProcess:
    """Starts the threads of a node, and ends them in order."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        self._registration = Registration(parts.node, parts.intake, parts.wakeup)
        self._beat = NodeBeatThread(parts, self._registration)
        self._intake = parts.intake
        self._loop = parts.loop
        self._committer = parts.committer

    def run(self) -> int:
        """Work until the node is drained; returns the exit code."""
        parts = self._parts
        while (registered := self._registration.register()) is None:
            if self._intake.draining.is_set():
                return 0
            self._beat.mark_ticked()
            self._beat.write_beat("STARTING")
        if not registered:
            raise Fenced(f"{parts.node.name}: epoch {parts.node.epoch} is over", "Another process took its place.")
        self._beat.start()  # from here on a missing beat means a dead node, no longer a slow start
        parts.ringer.start()
        self._committer.start()
        self._loop.start_and_wait()
        parts.doorbells.consume(parts.leaser)
        self._shut_down()
        self._beat.stop()
        return 0

    def drain(self) -> None:
        self._intake.draining.set()
        self._parts.doorbells.stop()

    def orphan(self) -> None:
        """The supervisor is gone: take no more jobs, commit what is finished, exit."""
        self._intake.orphaned.set()
        self.drain()

    def _shut_down(self) -> None:
        """Let jobs finish within the grace, commit them, and record the shutdown."""
        orphaned = self._intake.orphaned
        grace = ORPHAN_SECONDS / 2 if orphaned.is_set() else self._parts.node.settings.job_grace
        deadline = time.monotonic() + grace
        self._finish_jobs(grace, deadline)
        self._committer.stop()
        self._committer.join(ORPHAN_SECONDS if orphaned.is_set() else _commit_seconds_left(deadline))
        if self._committer.is_alive() and not orphaned.is_set():
            _log.error("%s: cannot commit its jobs in time; they will be requeued", self._parts.node.name)
            os._exit(3)
        self._parts.ringer.stop()
        self._parts.ringer.join(1.0)
        self._loop.stop()
        self._loop.join(1.0)
        with contextlib.suppress(CrawlError):
            self._registration.record_shutdown(0 if orphaned.is_set() else _commit_seconds_left(deadline))

    def _finish_jobs(self, grace: float, deadline: float) -> None:
        """Wait for the jobs in slots; at the deadline, interrupt the rest."""
        lease_lock, orphaned = self._parts.capacity.lease_lock, self._intake.orphaned
        if lease_lock.acquire(timeout=min(grace, _LAST_LEASE_SECONDS)):
            lease_lock.release()  # a commit that was leasing has dispatched its jobs, and no later commit leases
        self._loop.release_jobs(None)
        while self._loop.active_count and time.monotonic() < deadline:
            if orphaned.is_set():
                deadline = min(deadline, time.monotonic() + ORPHAN_SECONDS / 2)
            time.sleep(0.01)
        if self._loop.active_count and not orphaned.is_set():
            self._loop.release_jobs(f"cancelled after {grace:g} s of grace")
            while self._loop.active_count and time.monotonic() < deadline + 2:
                time.sleep(0.01)


def _commit_seconds_left(deadline: float) -> float:
    return max(0.1, deadline + _LAST_COMMIT_SECONDS - time.monotonic())


def main(start: ChildStart) -> int:
    """Run a node. Its lifeline ends with the supervisor."""
    log_file.log_to_stderr()
    use_batch_scheduling()
    tune_garbage_collection()
    raise_file_limit()
    arguments = start.arguments
    link = TemplateLink(socket.socket(fileno=start.files["template"]))
    lifeline = SupervisorSocket(start.files["lifeline"], link)
    try:
        parts = build_node(
            Path(arguments["data"]),
            run=arguments["run"],
            epoch=arguments["epoch"],
            number=arguments["number"],
            role=Role(arguments["role"]),
            settings=Settings.from_json(arguments["settings"]),
            wakeup_fd=start.files.get("wakeup"),
            link=link,
        )
        node = NodeProcess(parts)
        # a thread waits for the signal: a handler would run inside any lock that the main thread holds at that moment
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_wait_for_sigterm, args=(node,), daemon=True, name="sigterm").start()
        watch = partial(_watch_lifeline, node, lifeline)
        threading.Thread(target=watch, daemon=True, name="lifeline").start()
        return node.run()
    except CrawlError as error:
        _log.error("%s", error)
        return error.exit_code


def _wait_for_sigterm(node: NodeProcess) -> None:
    signal.sigwait({signal.SIGTERM})
    node.drain()


def _watch_lifeline(node: NodeProcess, lifeline: SupervisorSocket) -> None:
    lifeline.wait_for_end()
    node.orphan()
    time.sleep(ORPHAN_SECONDS)
    os._exit(0)
