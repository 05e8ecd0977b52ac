"""The part of a commit for outcomes made under older defs, or with values carried before."""

from collections.abc import Iterable, Sequence

from engine.model.job import JobKind, JobState
from engine.store.db.connector import Database, id_list
from engine.store.tables.job import extracts, linked_jobs, results
from engine.store.tables.output import deliveries, outputs
from engine.store.tables.row import health, held_rows, rows
from engine.store.tables.run import runs, versions
from engine.store.transactions.outcome import JobOutcome

_PAGES = (JobKind.PAGE, JobKind.EXTRACT)


def resolve_outdated(
    db: Database, run: int, outcomes: Sequence[JobOutcome], *, reextract_stale: bool
) -> frozenset[int]:
    """Compare the defs of the outcomes with the current ones. Returns the jobs of pages that are already stale.

    Links into groups that the current defs lack create no job, and their page gets no def version: if the group comes
    back, the page is re-extracted for its links. The outcome of a stale re-extraction is dropped and the job is READY
    again. `reextract_stale`: False if pages keep the rows of the defs they were fetched under.
    """
    current = versions.current(db, run)
    outdated = [outcome for outcome in outcomes if outcome.job.defs_version != current]
    if not outdated:
        return frozenset()
    present = versions.get_page_hashes(db, current)
    earlier: dict[int, dict[str, str]] = {}
    stale = set()
    for outcome in outdated:
        kept = tuple(child for child in outcome.children if child.group in present)
        outcome.links_dropped |= len(kept) < len(outcome.children)
        outcome.children = kept
        version, group = outcome.job.defs_version, outcome.job.group
        if version not in earlier:
            earlier[version] = versions.get_page_hashes(db, version)
        if group in present and earlier[version].get(group) == present[group]:
            continue
        if outcome.job.kind is JobKind.EXTRACT:
            _drop_extraction(outcome)
        elif (
            outcome.job.kind is JobKind.PAGE
            and (outcome.state is JobState.DONE or outcome.step_failed)
            and reextract_stale
            and group in present
        ):
            stale.add(outcome.job.id)
    return frozenset(stale)


def resolve_carried(db: Database, outcomes: Sequence[JobOutcome]) -> frozenset[int]:
    """The pages that carry something else by now than what they were worked with: their parent was processed again.

    A re-extraction of such a page is dropped, and its job is READY again.
    """
    leased = {outcome.job.page_id: outcome.job.carried for outcome in outcomes if outcome.job.kind in _PAGES}
    changed = frozenset(linked_jobs.list_otherwise_carried(db, list(leased.items())))
    for outcome in outcomes if changed else ():
        if outcome.job.page_job in changed:
            _drop_extraction(outcome)
    return changed


def _drop_extraction(outcome: JobOutcome) -> None:
    """Drop what a re-extraction gave: it is READY again."""
    outcome.state, outcome.stored_values, outcome.later_children = JobState.READY, {}, None
    outcome.rows = outcome.children = outcome.rejected = outcome.counts = outcome.results = outcome.held = ()
    outcome.events = ()


def queue_reextraction(db: Database, run: int, stale: Sequence[JobOutcome]) -> None:
    """Queue the re-extraction of pages done with old defs, and mark their output files to be rebuilt."""
    if stale:
        outputs.mark_stale(db, run, {name for outcome in stale for name in outcome.row_data_defs})
        extracts.queue(db, [outcome.job.id for outcome in stale])


def queue_carried(db: Database, changed: frozenset[int], accepted: Sequence[JobOutcome]) -> None:
    """Queue the re-extraction of pages that were done with what they carried before."""
    done = [
        outcome.job.id
        for outcome in accepted
        if outcome.job.id in changed and (outcome.state is JobState.DONE or outcome.step_failed)
    ]
    extracts.queue_again(db, done)


def delete_old_rows(db: Database, run: int, outcomes: Sequence[JobOutcome]) -> None:
    """Delete the old rows of re-extracted pages, except those of unchanged dataDefs; new rows are written next."""
    groups: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for outcome in outcomes:
        assert outcome.job.page_job is not None
        groups.setdefault((outcome.kept_data_defs, outcome.job.defs_version), []).append(outcome.job.page_job)
    for (kept, version), pages in groups.items():
        take_back_pages(db, run, pages, kept)
        extracts.set_defs_version(db, version, pages)
    if outcomes:
        runs.add_reextracted(db, run, len(outcomes))


def take_back_pages(db: Database, run: int, pages: Iterable[int], kept_ids: Iterable[int] = ()) -> None:
    """Delete the rows of pages and subtract what was counted of them, except for the kept dataDefs."""
    listed, kept = id_list(pages), id_list(kept_ids)
    deliveries.withdraw(db, run, listed, kept)
    for name, count, first in rows.delete_replaced(db, listed, kept):
        rows.add_counts(db, run, name, rows=-count)
        outputs.mark_dirty(db, run, name, first)
    for name, count in held_rows.delete_replaced(db, listed, kept).items():
        rows.add_counts(db, run, name, waiting=-count)
    for name, count in rows.delete_rejected(db, listed, kept):
        rows.add_counts(db, run, name, rejected=-count)
    health.take_back(db, run, listed, kept)
    results.take_back(db, run, listed, kept)


def update_step_failures(db: Database, pages: Sequence[int]) -> None:
    """After their re-extraction: pages with a failed step are FAILED, others that a step had failed are DONE."""
    failed = results.list_errors(db, pages)
    extracts.set_step_failures(db, failed, [page for page in pages if page not in failed])
