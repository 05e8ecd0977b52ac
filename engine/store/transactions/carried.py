"""Finds pages that carry something else by now than what they were worked with: their parent was processed again."""

from collections.abc import Sequence

from engine.model.job import JobKind, JobState
from engine.store.db.connector import Database
from engine.store.tables import extracts, linked_jobs
from engine.store.transactions import supersede
from engine.store.transactions.outcome import JobOutcome

_PAGES = (JobKind.PAGE, JobKind.EXTRACT)


def resolve_changed(db: Database, outcomes: Sequence[JobOutcome]) -> frozenset[int]:
    """The jobs of these pages. A re-extraction of such a page is dropped, and READY again."""
    leased = {f.job.page_job or f.job.id: f.job.carried for f in outcomes if f.job.kind in _PAGES}
    changed = frozenset(linked_jobs.list_otherwise_carried(db, list(leased.items())))
    for f in outcomes if changed else ():
        if f.job.page_job in changed:
            supersede.drop_extraction(f)
    return changed


def queue_changed(db: Database, changed: frozenset[int], accepted: Sequence[JobOutcome]) -> None:
    """Queue the re-extraction of pages that were done with what they carried before."""
    done = [f.job.id for f in accepted if f.job.id in changed and (f.state is JobState.DONE or f.step_failed)]
    extracts.queue_again(db, done)
