"""The part of a commit that copies the rows of earlier jobs on the same documents."""

from collections.abc import Mapping, Sequence

from engine.model.job import JobState
from engine.store.db.connector import Database
from engine.store.pages import document_links
from engine.store.tables import content_sums, health, row_sources, rows
from engine.store.tables.health import PageHealth
from engine.store.tables.row_sources import RowSource
from engine.store.transactions.outcome import JobOutcome

Sources = Mapping[tuple[int, int], RowSource]
"""By document and dataDef id."""


def find_sources(db: Database, outcomes: Sequence[JobOutcome]) -> Sources:
    """The jobs whose rows these outcomes copy. Where one is gone, the outcome is dropped and its job READY again.

    Decided in the transaction that copies: the rows of a source that is retried or re-extracted meanwhile are gone, and
    the next lease extracts the page.
    """
    pairs = [(f.page, copy.data_def_id) for f in outcomes for copy in f.copies if f.page is not None]
    if not pairs:
        return {}
    sources = row_sources.find(db, pairs)
    for f in outcomes:
        if any((f.page, copy.data_def_id) not in sources for copy in f.copies):
            f.state, f.reason, f.page, f.copies, f.reusable, f.kept_links = JobState.READY, None, None, (), (), None
            f.rows, f.children, f.rejected, f.counts, f.events = (), (), (), (), ()
            f.attempts, f.later_children, f.noindex = 0, None, False
    return sources


def copy_rows(db: Database, run: int, outcomes: Sequence[JobOutcome], sources: Sources) -> None:
    """Copy the rows of the sources with new ids, and count them as those of an extraction."""
    copies: dict[tuple[str, int], list[tuple[int, int]]] = {}
    pages: list[PageHealth] = []
    groups = {f.job.id: f.job.group for f in outcomes}
    for f in outcomes:
        for copy in f.copies:
            assert f.page is not None, "a copy has a document"
            source = sources[f.page, copy.data_def_id]
            copies.setdefault((copy.data_def, copy.data_def_id), []).append((f.job.id, source.job))
            pages.append(PageHealth(f.job.id, f.job.host, copy.data_def_id, source.counts(copy.fields), copy.defaulted))
    for (name, data_def), jobs in copies.items():
        if copied := rows.copy(db, run, data_def, jobs):
            rows.add_counts(db, run, name, len(copied), 0)
            content_sums.add_copied_rows(db, run, name, [(groups[job], id_, digest) for id_, job, digest in copied])
    health.add(db, run, pages)


def add_sources(db: Database, outcomes: Sequence[JobOutcome]) -> None:
    """Record what later jobs may reuse: rows, and the links of pages."""
    made = [
        (document, data_def, f.job.page_job or f.job.id)
        for f in outcomes
        if f.reusable and f.state is JobState.DONE and (document := _document_of(f)) is not None
        for data_def in f.reusable
    ]
    row_sources.add(db, made)
    document_links.add(db, [(f.page, *f.kept_links) for f in outcomes if f.kept_links and f.page is not None])


def _document_of(outcome: JobOutcome) -> int | None:
    if outcome.page is not None:
        return outcome.page
    return outcome.job.stored.page if outcome.job.stored is not None else None
