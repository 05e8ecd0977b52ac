"""Replacing: what a commit does about results of defs that are no longer the current ones. Inside its transaction."""

from collections.abc import Sequence

import orjson

from engine.model.job import JobKind, JobState
from engine.store.db.connector import Database
from engine.store.tables import jobs, outputs, rows, runs, versions
from engine.store.tables.versions import StoredPageDefs
from engine.store.transactions.outcome import JobOutcome


def resolve_outdated(
    db: Database, run: int, finished: Sequence[JobOutcome], *, reextract_stale: bool
) -> frozenset[int]:
    """Compare what results were made with and what holds now. Returns the jobs of pages that are stale already.

    Links into groups the defs lack make no job, and the page is one that no version made: were the group to come back,
    its links would have to be found again. A re-extraction that is stale itself goes back, its result dropped:
    the newest defs win. `renew`: False where pages keep the rows of the defs they were fetched under.
    """
    current = versions.current(db, run)
    late = [f for f in finished if f.job.defs_version != current]
    if not late:
        return frozenset()
    present = versions.get_page_hashes(db, current)
    made: dict[tuple[int, str], StoredPageDefs | None] = {}
    stale = set()
    for f in late:
        kept = tuple(child for child in f.children if child.group in present)
        f.links_dropped = len(kept) < len(f.children)
        f.children = kept
        key = (f.job.defs_version, f.job.group)
        if key not in made:
            made[key] = versions.get_page_defs(db, *key)
        told = made[key]
        if told is not None and told.hash == present.get(f.job.group):
            continue
        if f.job.kind is JobKind.EXTRACT:
            f.state, f.rows, f.children, f.rejected, f.events = JobState.READY, (), (), (), ()
        elif f.job.kind is JobKind.PAGE and f.state is JobState.DONE and reextract_stale and f.job.group in present:
            stale.add(f.job.id)
    return frozenset(stale)


def queue_reextraction(db: Database, run: int, stale: Sequence[JobOutcome]) -> None:
    """Pages just done with old defs: their files are to be rebuilt, and they are worked anew."""
    if stale:
        outputs.mark_stale(db, run, {row.data_def for f in stale for row in f.rows})
        jobs.queue_extracts(db, [f.job.id for f in stale])


def delete_old_rows(db: Database, run: int, held: Sequence[JobOutcome]) -> None:
    """Before the new rows of re-extracted pages are written: the old ones go, but for those of unchanged dataDefs."""
    groups: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for f in held:
        assert f.job.page_job is not None
        groups.setdefault((f.kept_data_defs, f.job.defs_version), []).append(f.job.page_job)
    for (kept_ids, version), pages in groups.items():
        listed, kept = orjson.dumps(pages).decode(), orjson.dumps(kept_ids).decode()
        for name, count, first in rows.delete_replaced(db, listed, kept):
            rows.add_counts(db, run, name, -count, 0)
            outputs.mark_dirty(db, run, name, first)
        for name, count in rows.delete_rejected(db, listed, kept):
            rows.add_counts(db, run, name, 0, -count)
        jobs.set_defs_version(db, version, pages)
    if held:
        runs.add_reextracted(db, run, len(held))
