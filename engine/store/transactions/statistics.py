"""The part of a commit that counts rows, records, requests, answers, latencies and contents."""

import contextlib
from collections.abc import Mapping, Sequence

from engine.model.content_digest import row_digests
from engine.model.job import JobKind, JobState
from engine.store.db.connector import Database, id_list
from engine.store.pages import documents
from engine.store.read import content
from engine.store.read.job_range import find_ids
from engine.store.tables.host.hosts import HostLatency
from engine.store.tables.row import content_sums, rows
from engine.store.tables.row.content_sums import ContentSum
from engine.store.tables.run import metrics
from engine.store.tables.run.metrics import FetchStats
from engine.store.transactions.outcome import ExtractedRows, JobOutcome

_DOCUMENTS_OF_JOBS = """
SELECT j.id, d.digest FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value
CROSS JOIN documents d ON d.id = j.document
"""


def host_latencies(outcomes: Sequence[JobOutcome]) -> list[HostLatency]:
    sums: dict[int, list[float]] = {}
    for outcome in outcomes:
        if outcome.job.throttled and outcome.fetches:
            host_sums = sums.setdefault(outcome.job.host, [0, 0.0, 0, 0.0])
            first = 0 if outcome.state is JobState.DONE else 2
            host_sums[first] += outcome.fetches
            host_sums[first + 1] += outcome.fetch_seconds
    return [
        HostLatency(host, int(answers), seconds / (answers or 1), failed_seconds / (failures or 1))
        for host, (answers, seconds, failures, failed_seconds) in sums.items()
    ]


def count_answers(outcomes: Sequence[JobOutcome]) -> dict[tuple[int, int], int]:
    counts: dict[tuple[int, int], int] = {}
    for outcome in outcomes:
        for status, _ in outcome.answers:
            counts[outcome.job.host, status] = counts.get((outcome.job.host, status), 0) + 1
    return counts


def add_row_counts(db: Database, run: int, outcomes: Sequence[JobOutcome]) -> None:
    """Add the rows and rejected records, by dataDef."""
    counts: dict[str, list[int]] = {}
    for outcome in outcomes:
        for new in outcome.rows:
            counts.setdefault(new.data_def, [0, 0])[0] += len(new.texts)
        for data_def, rejected in outcome.rejected:
            counts.setdefault(data_def, [0, 0])[1] += rejected
    for data_def, (written, rejected) in counts.items():
        rows.add_counts(db, run, data_def, rows=written, rejected=rejected)


def add_fetch_stats(db: Database, run: int, outcomes: Sequence[JobOutcome]) -> None:
    sums: dict[str, list[float]] = {}
    for outcome in outcomes:
        retried = outcome.state is JobState.READY and outcome.attempts
        requests = outcome.requests - outcome.job.reserved if outcome.job.kind is JobKind.PAGE else 0
        if outcome.fetches or retried or requests or outcome.noindex:
            group_sums = sums.get(outcome.job.group)
            if group_sums is None:
                group_sums = sums[outcome.job.group] = [0, 0.0, 0, 0, 0, 0]
            group_sums[5] += requests
            group_sums[0] += outcome.fetches
            group_sums[1] += outcome.fetch_seconds
            group_sums[2] += outcome.received_bytes
            if retried:
                group_sums[3] += 1
            if outcome.noindex:
                group_sums[4] += 1
    metrics.add(
        db,
        run,
        [FetchStats(group, int(n), s, int(b), int(r), int(i), int(q)) for group, (n, s, b, r, i, q) in sums.items()],
    )


def hash_rows(outcomes: Sequence[JobOutcome]) -> None:
    """Compute the digests of the rows, before the transaction: other nodes wait while it lasts."""
    for outcome in outcomes:
        if outcome.rows:
            outcome.rows = tuple([new if new.digests else _with_digests(new) for new in outcome.rows])


def list_replaced_documents(db: Database, outcomes: Sequence[JobOutcome]) -> dict[int, bytes | None]:
    """Before the jobs are updated: by job, the digests of the documents that others replace."""
    with_page = [outcome.job.id for outcome in outcomes if outcome.page is not None]
    return dict(db.all(_DOCUMENTS_OF_JOBS, (id_list(with_page),))) if with_page else {}


def add_sums(db: Database, run: int, accepted: Sequence[JobOutcome], replaced: Mapping[int, bytes | None]) -> None:
    """Move the sums by the rows and documents of accepted outcomes; their documents are written already."""
    stored = [outcome.page for outcome in accepted if outcome.page is not None and outcome.document is None]
    stored_digests = documents.list_digests(db, stored) if stored else {}
    changes: dict[str, ContentSum] = {}
    for outcome in accepted:
        if outcome.page is None and not outcome.rows:
            continue
        change = changes.get(outcome.job.group)
        if change is None:
            change = changes[outcome.job.group] = ContentSum()
        if outcome.page is not None:
            change.add_document(
                outcome.document.digest if outcome.document is not None else stored_digests.get(outcome.page)
            )
            if outcome.job.id in replaced:
                change.subtract_document(replaced[outcome.job.id])
        for new in outcome.rows:
            change.add_rows(new.digests, len(new.texts))
    content_sums.move(db, run, changes)


def recount(db: Database, run: int) -> None:
    """Count the rows of a run again and sum its contents, which were changed by hand; in the open transaction."""
    content_sums.replace(db, run, content.sum_contents(db, run))
    rows.recount(db, run, *find_ids(db, run, "rows"))


def _with_digests(new: ExtractedRows) -> ExtractedRows:
    with contextlib.suppress(ValueError):  # rows that cannot be read fail in the transaction, which fails their job
        return ExtractedRows(new.data_def, new.data_def_id, new.texts, row_digests(new.data_def, new.texts))
    return new
