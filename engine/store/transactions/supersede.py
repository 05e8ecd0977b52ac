"""The part of a commit that deals with outcomes made under older defs."""

from collections.abc import Sequence

import orjson

from engine.model.job import JobKind, JobState
from engine.store.db.connector import Database
from engine.store.tables import deliveries, extracts, health, outputs, results, rows, runs, versions
from engine.store.tables.versions import StoredPageDefs
from engine.store.transactions import release
from engine.store.transactions.outcome import JobOutcome


def resolve_outdated(
    db: Database, run: int, outcomes: Sequence[JobOutcome], *, reextract_stale: bool
) -> frozenset[int]:
    """Compare the defs of the outcomes with the current ones. Returns the jobs of pages that are already stale.

    Links into groups that the current defs lack create no job, and their page gets no def version: if the group comes
    back, the page is re-extracted for its links. The outcome of a stale re-extraction is dropped and the job is READY
    again. `reextract_stale`: False if pages keep the rows of the defs they were fetched under.
    """
    current = versions.current(db, run)
    outdated = [f for f in outcomes if f.job.defs_version != current]
    if not outdated:
        return frozenset()
    present = versions.get_page_hashes(db, current)
    cache: dict[tuple[int, str], StoredPageDefs | None] = {}
    stale = set()
    for f in outdated:
        kept = tuple(child for child in f.children if child.group in present)
        f.links_dropped |= len(kept) < len(f.children)
        f.children = kept
        key = (f.job.defs_version, f.job.group)
        if key not in cache:
            cache[key] = versions.get_page_defs(db, *key)
        used = cache[key]
        if used is not None and used.hash == present.get(f.job.group):
            continue
        if f.job.kind is JobKind.EXTRACT:
            drop_extraction(f)
        elif (
            f.job.kind is JobKind.PAGE
            and (f.state is JobState.DONE or f.step_failed)
            and reextract_stale
            and f.job.group in present
        ):
            stale.add(f.job.id)
    return frozenset(stale)


def drop_extraction(f: JobOutcome) -> None:
    """Drop what a re-extraction gave: it is READY again."""
    f.state, f.rows, f.children, f.rejected, f.counts, f.events = JobState.READY, (), (), (), (), ()
    f.later_children, f.results, f.stored_values, f.held = None, (), {}, ()


def queue_reextraction(db: Database, run: int, stale: Sequence[JobOutcome]) -> None:
    """Queue the re-extraction of pages done with old defs, and mark their output files to be rebuilt."""
    if stale:
        outputs.mark_stale(db, run, {name for f in stale for name in f.row_data_defs})
        extracts.queue(db, [f.job.id for f in stale])


def delete_old_rows(db: Database, run: int, outcomes: Sequence[JobOutcome]) -> None:
    """Delete the old rows of re-extracted pages, except those of unchanged dataDefs; new rows are written next."""
    groups: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for f in outcomes:
        assert f.job.page_job is not None
        groups.setdefault((f.kept_data_defs, f.job.defs_version), []).append(f.job.page_job)
    for (kept_ids, version), pages in groups.items():
        listed, kept = orjson.dumps(pages).decode(), orjson.dumps(kept_ids).decode()
        deliveries.withdraw(db, run, listed, kept)
        for name, count, first in rows.delete_replaced(db, listed, kept):
            rows.add_counts(db, run, name, -count, 0)
            outputs.mark_dirty(db, run, name, first)
        release.take_back(db, run, listed, kept)
        for name, count in rows.delete_rejected(db, listed, kept):
            rows.add_counts(db, run, name, 0, -count)
        health.take_back(db, run, listed, kept)
        results.take_back(db, run, pages, kept_ids)
        extracts.set_defs_version(db, version, pages)
    if outcomes:
        runs.add_reextracted(db, run, len(outcomes))


def update_step_failures(db: Database, pages: Sequence[int]) -> None:
    """After their re-extraction: pages with a failed step are FAILED, others that a step had failed are DONE."""
    failed = results.list_errors(db, pages)
    extracts.set_step_failures(db, failed, [page for page in pages if page not in failed])
