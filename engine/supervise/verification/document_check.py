"""Compares the stored documents of finished groups with their digests and with the sums of the checkpoints."""

from collections.abc import Iterator, Mapping
from typing import Literal

from engine.errors import StorageError
from engine.model.content_digest import is_document
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.pages.documents import PageStore
from engine.store.read import content
from engine.store.read.content import JobDocument
from engine.store.tables.row.content_sums import ContentSum
from engine.supervise.verification.findings import GroupFindings

_BATCH = 500


def check_documents(db: Database, run: int, pages: PageStore | None, findings: Mapping[str, GroupFindings]) -> None:
    """Read each document of these groups. `pages`: None if the file with their bodies is missing."""
    for document in _iterate_documents(db, run):
        if document.group in findings:
            _count_document(document, _examine(document, pages), findings[document.group])


def conclude_documents(db: Database, run: int, group: str, findings: GroupFindings, recorded: ContentSum) -> str | None:
    """The reason why the documents of a group differ from its checkpoint; None: they do not.

    Decides also which are fetched again: if nothing explains another sum, all of the group.
    """
    present, total = findings.present, f"{recorded.documents:,}"
    reasons = []
    if damaged := findings.damaged_documents:
        verb = "differs from its" if damaged == 1 else "differ from their"
        reasons.append(f"{damaged:,} of {total} {verb} checkpoint")
    if missing := findings.missing_documents:
        reasons.append(f"{missing:,} of {total} {'is' if missing == 1 else 'are'} missing")
    if present.documents != recorded.documents:
        reasons.append(f"{present.documents:,} instead of {total}")
        findings.refetched |= findings.unusable
    elif present.document_sum != recorded.document_sum and not reasons:
        reasons.append("their sum differs from the checkpoint")
    if reasons and not findings.refetched:
        findings.refetched = {document.job for document in _iterate_documents(db, run) if document.group == group}
    return f"documents: {', '.join(reasons)}" if reasons else None


def _iterate_documents(db: Database, run: int) -> Iterator[JobDocument]:
    first, end = content.get_job_range(db, run)
    last = first - 1
    while batch := content.list_documents(db, run, last, end, _BATCH):
        yield from batch
        last = batch[-1].job


def _count_document(
    document: JobDocument, condition: Literal["whole", "pruned", "missing", "damaged"], of: GroupFindings
) -> None:
    if document.id is not None or condition == "missing":
        of.documents += 1
        of.present.add_document(document.digest)
    match condition:
        case "whole":
            return
        case "pruned":
            of.pruned += 1
        case "missing":
            of.missing_documents += 1
            of.refetched.add(document.job)
        case "damaged":
            of.damaged_documents += 1
            of.refetched.add(document.job)
    if document.is_done:
        of.unusable.add(document.job)


def _examine(document: JobDocument, pages: PageStore | None) -> Literal["whole", "pruned", "missing", "damaged"]:
    if document.is_pruned:
        return "pruned"
    if document.id is None or pages is None:
        return "missing"
    try:
        body = pages.read(document.id)
    except DatabaseBusy:
        raise
    except StorageError:
        return "damaged"
    if body is None:
        return "missing"
    whole = is_document(document.digest or b"", str(document.url), int(document.status or 0), body)
    return "whole" if whole else "damaged"
