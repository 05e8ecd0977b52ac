"""The part of a commit that counts: rows, rejected records, requests, answers and latencies."""

from collections.abc import Sequence

from engine.model.job import JobKind, JobState
from engine.store.db.connector import Database
from engine.store.tables import metrics, rows
from engine.store.tables.hosts import HostLatency
from engine.store.tables.metrics import FetchStats
from engine.store.transactions.outcome import JobOutcome


def host_latencies(outcomes: Sequence[JobOutcome]) -> list[HostLatency]:
    """The latency of each throttled host."""
    sums: dict[int, list[float]] = {}
    for f in outcomes:
        if f.job.throttled and f.fetches:
            host_sums = sums.setdefault(f.job.host, [0, 0.0, 0, 0.0])
            first = 0 if f.state is JobState.DONE else 2
            host_sums[first] += f.fetches
            host_sums[first + 1] += f.fetch_seconds
    return [
        HostLatency(host, int(answers), seconds / (answers or 1), failed_seconds / (failures or 1))
        for host, (answers, seconds, failures, failed_seconds) in sums.items()
    ]


def count_answers(outcomes: Sequence[JobOutcome]) -> dict[tuple[int, int], int]:
    """By host and status."""
    counts: dict[tuple[int, int], int] = {}
    for f in outcomes:
        for status, _ in f.answers:
            counts[f.job.host, status] = counts.get((f.job.host, status), 0) + 1
    return counts


def add_row_counts(db: Database, run: int, outcomes: Sequence[JobOutcome]) -> None:
    """Add the rows and rejected records, by dataDef."""
    counts: dict[str, list[int]] = {}
    for f in outcomes:
        for new in f.rows:
            counts.setdefault(new.data_def, [0, 0])[0] += len(new.texts)
        for data_def, rejected in f.rejected:
            counts.setdefault(data_def, [0, 0])[1] += rejected
    for data_def, (written, rejected) in counts.items():
        rows.add_counts(db, run, data_def, written, rejected)


def add_fetch_stats(db: Database, run: int, outcomes: Sequence[JobOutcome]) -> None:
    """Add what the requests of each group cost."""
    sums: dict[str, list[float]] = {}
    for f in outcomes:
        retried = f.state is JobState.READY and f.attempts
        requests = f.requests - f.job.reserved if f.job.kind is JobKind.PAGE else 0
        if f.fetches or retried or requests or f.noindex:
            group_sums = sums.get(f.job.group)
            if group_sums is None:
                group_sums = sums[f.job.group] = [0, 0.0, 0, 0, 0, 0]
            group_sums[5] += requests
            group_sums[0] += f.fetches
            group_sums[1] += f.fetch_seconds
            group_sums[2] += f.received_bytes
            if retried:
                group_sums[3] += 1
            if f.noindex:
                group_sums[4] += 1
    metrics.add(
        db,
        run,
        [FetchStats(group, int(n), s, int(b), int(r), int(i), int(q)) for group, (n, s, b, r, i, q) in sums.items()],
    )
