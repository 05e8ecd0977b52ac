"""The part of a commit that moves the sums of its groups by what its outcomes add and replace."""

import contextlib
from collections.abc import Mapping, Sequence

from engine.model.content_digest import row_digests
from engine.store.db.connector import Database, id_list
from engine.store.pages import documents
from engine.store.tables import content_sums
from engine.store.tables.content_sums import ContentSum
from engine.store.transactions.outcome import ExtractedRows, JobOutcome

_DOCUMENTS_OF_JOBS = """
SELECT j.id, d.digest FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value LEFT JOIN documents d ON d.id = j.document
WHERE j.document IS NOT NULL
"""


def hash_rows(outcomes: Sequence[JobOutcome]) -> None:
    """Compute the digests of the rows, before the transaction: other nodes wait while it lasts."""
    for f in outcomes:
        if f.rows:
            f.rows = tuple([new if new.digests else _with_digests(new) for new in f.rows])


def list_replaced_documents(db: Database, outcomes: Sequence[JobOutcome]) -> dict[int, bytes | None]:
    """Before the jobs are updated: the digests of the documents they have, by job, as far as they get another one."""
    with_page = [f.job.id for f in outcomes if f.page is not None]
    return dict(db.all(_DOCUMENTS_OF_JOBS, (id_list(with_page),))) if with_page else {}


def add(db: Database, run: int, accepted: Sequence[JobOutcome], replaced: Mapping[int, bytes | None]) -> None:
    """Move the sums by the rows and documents of accepted outcomes; their documents are written already."""
    stored = [f.page for f in accepted if f.page is not None and f.document is None]
    stored_digests = documents.list_digests(db, stored) if stored else {}
    changes: dict[str, ContentSum] = {}
    for f in accepted:
        if f.page is None and not f.rows:
            continue
        change = changes.get(f.job.group)
        if change is None:
            change = changes[f.job.group] = ContentSum()
        if f.page is not None:
            change.add_document(f.document.digest if f.document is not None else stored_digests.get(f.page))
            if f.job.id in replaced:
                change.subtract_document(replaced[f.job.id])
        for new in f.rows:
            change.add_rows(new.digests, len(new.texts))
    content_sums.move(db, run, changes)


def _with_digests(new: ExtractedRows) -> ExtractedRows:
    with contextlib.suppress(ValueError):  # rows that cannot be read fail in the transaction, which fails their job
        return ExtractedRows(new.data_def, new.data_def_id, new.texts, row_digests(new.data_def, new.texts))
    return new
