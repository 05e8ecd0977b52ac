"""Marks what a verification found damaged, so that the next run works it again.

The caller holds the lock of the data dir, and nothing was written since the verification.
"""

import time

import orjson

from engine.store.db.connector import Database
from engine.store.db.filter import RETRYABLE_STATES
from engine.store.db.retry_busy import retry_busy
from engine.store.read import content, stale_pages
from engine.store.tables.job import extracts
from engine.store.tables.output import outputs
from engine.store.tables.row import content_sums
from engine.store.tables.row.content_sums import ContentSum
from engine.store.tables.run import checkpoints, events, runs
from engine.store.tables.run.events import Event
from engine.store.transactions import retry
from engine.supervise.checkpoints.tracker import read_checkpoints
from engine.supervise.verification.findings import Verification

_MAX_QUEUED_PAGES = 8_000
"""Of a group with more damaged pages, all are extracted again: the supervisor queues those in small parts."""


def mark_damage(db: Database, run: int, verification: Verification) -> None:
    """Make entries invalid, and queue what repairs them; a DONE run is reopened.

    Pages whose rows are damaged are extracted again from their documents, or fetched again where the document is
    damaged or gone. A damaged output is written again, a damaged file downloaded again.
    Raises UsageError if the run cannot be resumed; DatabaseBusy.
    """
    entries = read_checkpoints(db, run)  # a retry reopens some of them
    refetched, extracted, scanned = set[int](), set[int](), list[str]()
    for group, findings in verification.findings.items():
        pages = findings.damaged_pages
        refetched |= findings.refetched | (pages & findings.unusable)
        if findings.is_scanned or len(pages) > _MAX_QUEUED_PAGES:
            scanned.append(group)
            refetched |= findings.unusable
        else:
            extracted |= pages
    refetched |= {file.job for file in verification.files}
    if refetched:
        retry.retry_jobs(db, run, sorted(refetched), frozenset(RETRYABLE_STATES), "state --verify")
    retry_busy(lambda: _mark(db, run, verification, entries, sorted(extracted - refetched), scanned))


def _mark(
    db: Database,
    run: int,
    verification: Verification,
    entries: dict[str, checkpoints.Checkpoint],
    extracted: list[int],
    scanned: list[str],
) -> None:
    """One transaction."""
    with db.transaction():
        retry.ensure_accepting(db, run)
        corrections = {
            group: _difference(findings.present, verification.recorded[group])
            for group, findings in verification.findings.items()
        }
        content_sums.move(db, run, corrections)
        extracts.queue_again(db, content.list_still_done(db, extracted))
        if scanned:
            _scan_groups(db, run, scanned)
        for output in verification.outputs:
            if output.status == "invalid":
                outputs.mark_corrupt(db, output.id)
        reasons = {**verification.dependents, **verification.damaged}
        invalid = [checkpoints.invalidate(entries[key], reason) for key, reason in reasons.items() if key in entries]
        checkpoints.write(db, run, invalid)
        now = time.time()
        events.add(
            db,
            run,
            [
                Event(now, "WARNING", "operator", "command", f"state --verify: {key} is invalid: {reason}")
                for key, reason in verification.damaged.items()
            ],
        )


def _difference(present: ContentSum, recorded: ContentSum) -> ContentSum:
    """What moves the sums to what is there: whatever is taken back later is subtracted from that."""
    return ContentSum(
        present.documents - recorded.documents,
        present.document_sum - recorded.document_sum,
        present.rows - recorded.rows,
        present.row_sum - recorded.row_sum,
    )


def _scan_groups(db: Database, run: int, groups: list[str]) -> None:
    """Have all pages of groups extracted again, as a change of their defs does."""
    recorded, _ = runs.get_reextraction(db, run)
    earlier = orjson.loads(recorded) if recorded else {}
    progress = {
        "found": 0, "expected": 0, "targets": [], "unlinked": 0, "counted": 0, "lost": 0, "before": {}, **earlier,
        "at": 0, "upto": stale_pages.last_job_id(db),
        "groups": list(dict.fromkeys([*groups, *earlier.get("groups", [])])),
    }  # fmt: skip
    runs.set_reextraction(db, run, orjson.dumps(progress).decode())
