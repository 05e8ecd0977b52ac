"""Measures latency and bytes by host, and writes them once a second: a commit for each batch would cost more."""

from collections.abc import Iterable

from engine.model.latency import bucket_of
from engine.runtime.clock import boottime
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.tables.host import host_speeds
from engine.store.tables.host.host_speeds import NO_ANSWER, HostTraffic
from engine.store.transactions.outcome import JobOutcome

_FLUSH_SECONDS = 1.0


class HostMeter:
    """Of one node. A kill loses what was measured since the last flush."""

    def __init__(self, run: int) -> None:
        self._run = run
        self._traffic: dict[int, HostTraffic] = {}
        self._next_flush = 0.0

    def add(self, outcomes: Iterable[JobOutcome]) -> None:
        """Measure the answers of committed outcomes."""
        for outcome in outcomes:
            if not outcome.answers:
                continue
            traffic = self._traffic.get(outcome.job.host)
            if traffic is None:
                traffic = self._traffic[outcome.job.host] = HostTraffic()
            traffic.bytes += outcome.received_bytes
            for status, seconds in outcome.answers:
                if status != NO_ANSWER:
                    bucket = bucket_of(seconds)
                    traffic.latencies[bucket] = traffic.latencies.get(bucket, 0) + 1

    def flush(self, db: Database, *, at_once: bool = False) -> None:
        """Write what was measured, once a second or `at_once`; while the database is busy, later."""
        now = boottime()
        if not self._traffic or (now < self._next_flush and not at_once):
            return
        try:
            with db.transaction():
                host_speeds.add_traffic(db, self._run, self._traffic, now)
        except DatabaseBusy:
            return
        self._traffic, self._next_flush = {}, now + _FLUSH_SECONDS
