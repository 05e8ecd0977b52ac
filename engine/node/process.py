"""A node as a process: its threads put together, its signals, its beat, its orderly end."""

import argparse
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine.errors import CrawlError, Fenced
from engine.fetch.client import Fetcher
from engine.model.node import NodeState, Role
from engine.node.beat_thread import NodeBeatThread
from engine.node.capacity import Capacity
from engine.node.committer import Committer
from engine.node.db_access import DbAccess
from engine.node.def_cache import DefCache
from engine.node.extraction import PageExtractor
from engine.node.fetch_loop import FetchLoop
from engine.node.memory import HeapTrimmer
from engine.node.pipeline import Pipeline
from engine.node.ringer import Ringer
from engine.node.seen_set import SeenSet
from engine.node.slice import Leaser
from engine.node.tuning import CpuPinner, use_batch_scheduling
from engine.queue import Doorbells
from engine.runtime import log_dedup
from engine.runtime.disk_space import DiskSpaceMonitor, data_paths
from engine.runtime.process_identity import identity_of
from engine.runtime.wakeup import notify_fd
from engine.settings import Settings
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.db.retry_busy import retry_busy
from engine.store.db.schema import CRAWL
from engine.store.tables import nodes, runs
from engine.store.transactions.placement import PlacementCache

_log = logging.getLogger(__name__)

TICK_LIMIT, TICK_DEADLINE_MARGIN = 10.0, 5.0
"""Seconds a thread may be silent before the beat stops: at least, and beyond a request's deadline."""
ORPHAN_SECONDS = 2.5
_BUSY_SECONDS = 0.5
"""A node that waits for a busy database to register beats between two attempts."""
_LAST_LEASE_SECONDS = 2.0
"""Seconds that a commit under way has to hand on what it leased before the node was told to stop."""
_LAST_COMMIT_SECONDS = 4.0
"""Seconds beyond the grace in which the last commit must succeed; less than the supervisor waits."""


class Node:
    """One node: everything it holds, and the switches that end it."""

    def __init__(
        self, folder: Path, *, run: int, epoch: int, number: int, role: Role, settings: Settings, live: float,
        wakeup_fd: int | None = None,
    ) -> None:  # fmt: skip
        """`nudge`: the file by which it wakes its supervisor when it runs out of work; None: it does not."""
        self.folder = folder
        self.epoch = epoch
        self.name = f"n{number}"
        self.settings = settings
        self._standby = role is Role.BACKUP_RUNNER
        self.draining = threading.Event()
        self.orphaned = threading.Event()
        self.exit_code = 0
        self._polled_at = time.monotonic()
        self._db = Database.open(folder / CRAWL, busy_seconds=_BUSY_SECONDS)
        self._disk_space = DiskSpaceMonitor(data_paths(folder), settings.min_free)
        told = runs.get(self._db, run)
        self._tick_limit = max(TICK_LIMIT, settings.deadline + TICK_DEADLINE_MARGIN)

        self.capacity = Capacity(
            settings.concurrency, count_active=lambda: self.loop.active_count, wake=lambda: self.doorbells.wake()
        )
        self.doorbells = Doorbells(
            folder, on_slice=self._lease_rung, gate=self._should_dequeue, capacity=lambda: self.capacity.free
        )
        self.ringer = Ringer(folder, run, lambda: self.doorbells)
        self.seen_set = SeenSet()
        self.heap_trimmer = HeapTrimmer()
        knowledge = DefCache(settings, live, lambda: self._db, run)
        self.committer = Committer(
            folder,
            node=epoch,
            run=run,
            places=PlacementCache(run, knowledge.host_policy, knowledge.max_pages),
            seen_set=self.seen_set,
            ringer=self.ringer,
            reextract_stale=settings.on_reload == "reextract",
            capacity=self.capacity,
            refill_leaser=self._refill_leaser,
            on_idle=lambda: None if wakeup_fd is None else notify_fd(wakeup_fd),
            on_fenced=self._exit_fenced,
            on_error=self._exit_on_error,
        )

        def pipeline() -> Pipeline:
            clerk = DbAccess(folder)
            self._fetcher = Fetcher.from_settings(settings, connections=settings.concurrency)
            run_time = settings.run_time or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(told.created_at))
            return Pipeline(
                source=self.name,
                settings=settings,
                fetcher=self._fetcher,
                db_access=clerk,
                def_cache=knowledge,
                page_extractor=PageExtractor(
                    knowledge, self.seen_set, self.heap_trimmer, run=told.id, run_time=run_time
                ),
                heap_trimmer=self.heap_trimmer,
                executor=ThreadPoolExecutor(2, "parse"),
            )

        self.loop = FetchLoop(
            build_pipeline=pipeline,
            close=lambda: self._fetcher.aclose(),
            on_finished=self.committer.add,
            on_slot_freed=self.capacity.notify_freed,
            concurrency=settings.concurrency,
            source=self.name,
        )
        self._leaser = Leaser(
            folder,
            node=epoch,
            batch=settings.batch,
            capacity=self.capacity,
            submit=self.loop.submit,
            fresh_since=knowledge.fresh_since,
            ringer=self.ringer,
            on_fenced=self._exit_fenced,
            on_error=self._exit_on_error,
        )

    def run(self) -> int:
        """Work until told to end; returns the exit code."""
        beat = NodeBeatThread(self, CpuPinner(lambda: self.loop.native_id))
        while (known := self._register()) is None:
            if self.draining.is_set():
                return 0
            self._polled_at = self.committer.ticked_at = self.loop.ticked_at = (
                time.monotonic()
            )  # they have yet to start
            beat.write_beat("STARTING")
        if not known:
            raise Fenced(f"{self.name}: epoch {self.epoch} is over", "Another process took its place.")
        beat.start()  # from here on it is watched: silence is death, no longer a slow start
        self.ringer.start()
        self.committer.start()
        self.loop.start_and_wait()
        self.doorbells.consume()
        self._shutdown()
        beat.stop()
        return self.exit_code

    def sync_role(self) -> None:
        """Follow what the supervisor wrote of this node: a backup made a runner, an epoch that is over."""
        role = nodes.get_live_role(self._db, self.epoch)
        if role is None and not self.draining.is_set():
            self._exit_fenced()
        if role is Role.RUNNER and self._standby:
            self._standby = False
            self.doorbells.wake()

    def drain(self) -> None:
        """Take nothing more, finish what is held."""
        self.draining.set()
        self.doorbells.stop()

    def orphan(self) -> None:
        """The supervisor is gone: take nothing more, commit what is finished, leave."""
        self.orphaned.set()
        self.drain()

    def state(self) -> str:
        """What the beat says."""
        if self.draining.is_set():
            return "DRAINING"
        if self._standby:
            return "STANDBY"
        return "READY" if self.capacity.held else "DONE"

    def max_silence(self) -> float:
        """Seconds since the quietest of its threads was last heard."""
        heard = min(self.committer.ticked_at, self._polled_at, self.loop.ticked_at)
        return time.monotonic() - heard

    @property
    def is_stalled(self) -> bool:
        """Whether a thread has not ticked for its limit, so that the beat must stop."""
        return not self.draining.is_set() and self.max_silence() > self._tick_limit

    @property
    def alarm(self) -> str:
        """Why it takes no job though it has room."""
        return self._disk_space.alarm

    def _register(self) -> bool | None:
        """Say who it is. False: its epoch is over; None: the database is busy, or its disk full."""
        me = identity_of(os.getpid()) or ""
        try:
            with self._db.transaction():
                return nodes.register(self._db, self.epoch, "STANDBY" if self._standby else "DONE", os.getpid(), me)
        except DatabaseBusy:
            return None

    def _should_dequeue(self) -> bool:
        self._polled_at = time.monotonic()
        return self.capacity.should_dequeue() and self._accepts_jobs

    @property
    def _accepts_jobs(self) -> bool:
        return not (self._standby or self.draining.is_set() or self._disk_space.is_low())

    def _refill_leaser(self) -> Leaser | None:
        """Who leases in the commit that frees places; None: they stay free."""
        return self._leaser if self._accepts_jobs else None

    def _lease_rung(self, sequences: list[int]) -> None:
        if not self.draining.is_set():
            self._leaser.lease_rung(sequences)
            self._polled_at = time.monotonic()

    def _exit_fenced(self) -> None:
        _log.error("%s: epoch %s is over; nothing more is written", self.name, self.epoch)
        self.exit_code = 3
        os._exit(3)

    def _exit_on_error(self, error: CrawlError) -> None:
        _log.error("%s: %s", self.name, error)
        os._exit(3)

    def _shutdown(self) -> None:
        """Let jobs end, up to the grace; commit; say goodbye."""
        grace = ORPHAN_SECONDS / 2 if self.orphaned.is_set() else self.settings.grace
        deadline = time.monotonic() + grace
        if self.capacity.lease_lock.acquire(timeout=min(grace, _LAST_LEASE_SECONDS)):
            self.capacity.lease_lock.release()  # a commit that was to fill its places has done so, and no other will
        self.loop.release_jobs(None)
        while self.loop.active_count and time.monotonic() < deadline:
            if self.orphaned.is_set():
                deadline = min(deadline, time.monotonic() + ORPHAN_SECONDS / 2)
            time.sleep(0.01)
        if self.loop.active_count and not self.orphaned.is_set():
            self.loop.release_jobs(f"cancelled after {grace:g} s of grace")
            while self.loop.active_count and time.monotonic() < deadline + 2:
                time.sleep(0.01)

        def left() -> float:
            return max(0.1, deadline + _LAST_COMMIT_SECONDS - time.monotonic())

        self.committer.stop()
        self.committer.join(ORPHAN_SECONDS if self.orphaned.is_set() else left())
        if self.committer.is_alive() and not self.orphaned.is_set():
            _log.error("%s: what it holds cannot be committed in time; it is done anew", self.name)
            os._exit(3)
        self.ringer.stop()
        self.ringer.join(1.0)
        self.loop.stop()
        self.loop.join(1.0)
        with contextlib.suppress(CrawlError):
            retry_busy(self._mark_shutdown, seconds=0 if self.orphaned.is_set() else left())

    def _mark_shutdown(self) -> None:
        with self._db.transaction():
            nodes.set_state(self._db, self.epoch, NodeState.SHUTDOWN)


def main(arguments: Sequence[str]) -> int:
    """Run a node. Its settings come as the first line of stdin, which then stays open as the lifeline."""
    parser = argparse.ArgumentParser(prog="crawl-console node")
    parser.add_argument("--data", type=Path, required=True)
    for name in ("run", "epoch", "number"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--wakeup-fd", type=int)
    parser.add_argument("--role", type=Role, required=True)
    options = parser.parse_args(arguments)
    log_dedup.log_to_stderr()
    use_batch_scheduling()
    gc.freeze()  # what was imported stays; looking at it again and again is a twentieth of a page's time
    gc.set_threshold(100_000, 20, 20)
    gc.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    told = sys.stdin.readline()
    if not told.endswith("\n"):
        return 0  # the supervisor died before it could say anything
    settings = Settings.from_json(told)
    try:
        node = Node(
            options.data, run=options.run, epoch=options.epoch, number=options.number, role=options.role,
            settings=settings, live=settings.live_seconds, wakeup_fd=options.wakeup_fd,
        )  # fmt: skip
        # a thread takes the signal: a handler would run inside whatever lock the main thread holds just then
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_wait_for_sigterm, args=(node,), daemon=True, name="orders").start()
        threading.Thread(target=_watch_lifeline, args=(node,), daemon=True, name="lifeline").start()
        return node.run()
    except CrawlError as error:
        _log.error("%s", error)
        return error.exit_code


def _wait_for_sigterm(node: Node) -> None:
    signal.sigwait({signal.SIGTERM})
    node.drain()


def _watch_lifeline(node: Node) -> None:
    with contextlib.suppress(OSError, ValueError):
        while sys.stdin.readline():
            pass
    node.orphan()
    time.sleep(ORPHAN_SECONDS)
    os._exit(0)
