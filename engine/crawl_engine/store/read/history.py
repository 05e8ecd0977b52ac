"""Reads the runs of a data dir, newest first, with their totals and their warnings."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from crawl_engine.model.job import JobKind
from crawl_engine.model.run import RunState
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.data_warnings import FIELD_WARNINGS, DataWarning, describe_shortfall, find_warnings
from crawl_engine.store.read.failures import group_failures
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.row import health, rows
from crawl_engine.store.tables.row.health import DataDefHealth
from crawl_engine.store.tables.run import runs, samples

_LIST_RUNS = """
SELECT r.seq, r.id, r.state, r.reason, r.created_at, r.ended_at, r.seconds, r.defs_version,
    (SELECT coalesce(sum(done), 0) FROM sequences WHERE run = r.seq AND kind = 'page') AS done,
    (SELECT coalesce(sum(failed), 0) FROM sequences WHERE run = r.seq AND kind = 'page') AS failed,
    (SELECT coalesce(sum(rows), 0) FROM row_counts WHERE run = r.seq) AS rows, r.stage, r.exit_code, r.paused
FROM runs r ORDER BY r.seq DESC LIMIT +?
"""


class PastRun(Struct, frozen=True):
    seq: int
    id: str
    state: str
    reason: str | None
    created_at: float
    """Wall clock, seconds since 1970; so is `ended_at`."""
    ended_at: float | None
    seconds: float
    """Total time under a supervisor, over all starts."""
    defs_version: int | None
    done: int
    """Pages; so is `failed`."""
    failed: int
    rows: int
    stage: str
    exit_code: int | None
    """None: it has not ended, or a new run took its place."""
    paused: str | None


def list_runs(db: Database, count: int = 2**62) -> list[PastRun]:
    return db.rows(PastRun, _LIST_RUNS, (count,))


def list_prunable(past_runs: Sequence[PastRun], last_done: int | None = None) -> list[PastRun]:
    """The runs that limits may delete, the oldest first: the latest one stays if it is unfinished, and the last DONE.

    `past_runs`: all runs, the newest first. `last_done`: one that counts as the last DONE.
    """
    done = [past.seq for past in past_runs if past.state == "DONE" or past.seq == last_done]
    kept = {past.seq for past in past_runs[:1] if past.state != "DONE"} | set(done[:1])
    return [past for past in reversed(past_runs) if past.seq not in kept]


_MAX_GROUPS, _MAX_REASONS = 1_000, 10


class RunReport(Struct, frozen=True):
    past: PastRun
    rows_by_data_def: dict[str, int]
    warnings: tuple[str, ...]
    emptied_fields: tuple[str, ...]
    """`book.isbn`: fields that are no longer filled, or much less often."""
    filled: dict[str, float]
    """By field (`book.isbn`): the share of the records in which it was filled."""
    failures: tuple[tuple[str, int], ...]
    """Why pages failed, and how many, the most frequent reason first."""
    p95: float | None
    """Of its answers, in seconds: the median of its samples."""
    shortfall: tuple[str, ...] = ()
    """What it lacks, if it has ended."""


def read_report(db: Database, past: PastRun) -> RunReport:
    """What a run gave, from its counters."""
    data_defs = health.read(db, past.seq)
    warnings = [warning for warning in find_warnings(db, runs.get(db, past.seq), data_defs) if not warning.ended]
    emptied = [f"{one.data_def}.{one.subject}" for one in warnings if one.code in FIELD_WARNINGS]
    counts = {name: of.rows for name, of in rows.counts(db, past.seq).items()}
    reasons: Counter[str] = Counter()
    for group in group_failures(db, past.seq, _MAX_GROUPS):
        reasons[group.reason] += group.jobs
    return RunReport(
        past, counts, tuple(one.text for one in warnings), tuple(dict.fromkeys(emptied)),
        filled={
            f"{name}.{field_name}": count / data_def.records
            for name, data_def in data_defs.items()
            if data_def.records
            for field_name, count in data_def.filled.items()
        },
        failures=tuple(reasons.most_common(_MAX_REASONS)),
        p95=samples.typical_p95(db, past.seq),
        shortfall=tuple(_shortfall(db, past, warnings, data_defs)),
    )  # fmt: skip


def read_shortfall(db: Database, past: PastRun) -> list[str]:
    """What an ended run lacks; empty for an open one."""
    if RunState(past.state).is_open:
        return []
    with db.explain_json():
        data_defs = health.read(db, past.seq)
        return _shortfall(db, past, find_warnings(db, runs.get(db, past.seq), data_defs), data_defs)


def _shortfall(
    db: Database, past: PastRun, warnings: Sequence[DataWarning], data_defs: dict[str, DataDefHealth]
) -> list[str]:
    failed_files = sequences.count(db, past.seq, "failed", kind=JobKind.FILE)
    return describe_shortfall(past.failed, failed_files, warnings, data_defs)
