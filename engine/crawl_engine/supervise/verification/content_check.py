"""Compares the rows, documents and downloaded files of a run with what its commits recorded."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from crawl_engine.errors import StorageError
from crawl_engine.model.content_digest import is_document, row_digests
from crawl_engine.runtime.file_folder import FileFolder
from crawl_engine.store.db.connector import Database, DatabaseBusy
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.read import content
from crawl_engine.store.read.content import ContentRow, JobDocument
from crawl_engine.store.read.job_range import find_ids
from crawl_engine.store.tables.row import files
from crawl_engine.store.tables.row.content_sums import ContentSum
from crawl_engine.store.tables.row.files import RecordedFile
from crawl_engine.store.tables.run.runs import Run

_BATCH = 500


class GroupFindings(Struct):
    """The findings about one finished group, filled while it is read."""

    present: ContentSum = field(default_factory=ContentSum)
    """The sums of the stored digests of existing rows and documents."""
    damaged_rows: Counter[str] = field(default_factory=Counter)
    """Damaged rows by dataDef."""
    damaged_pages: set[int] = field(default_factory=set)
    """Jobs whose rows are damaged."""
    damaged_documents: list[JobDocument] = field(default_factory=list)
    missing_documents: list[JobDocument] = field(default_factory=list)
    unusable: list[JobDocument] = field(default_factory=list)
    """Done pages without a document for another extraction."""
    pruned: int = 0

    def explain_rows(self, recorded: ContentSum) -> tuple[str, bool]:
        """Why the rows differ from the checkpoint, and whether the rows at fault are unknown. Empty: no difference."""
        reasons, total = [], f"{recorded.rows:,}"
        if damaged := self.damaged_rows.total():
            reasons.append(f"{damaged:,} of {total} {_differs(damaged)} checkpoint")
        is_unknown = (self.present.rows, self.present.row_sum) != (recorded.rows, recorded.row_sum)
        if self.present.rows != recorded.rows:
            reasons.append(f"{self.present.rows:,} instead of {total}")
        elif is_unknown and not reasons:
            reasons.append("their sum differs from the checkpoint")
        return ", ".join(reasons), is_unknown

    def explain_documents(self, recorded: ContentSum) -> str:
        """Why the documents differ from the checkpoint, or an empty text."""
        reasons, total = [], f"{recorded.documents:,}"
        if damaged := len(self.damaged_documents):
            reasons.append(f"{damaged:,} of {total} {_differs(damaged)} checkpoint")
        if missing := len(self.missing_documents):
            reasons.append(f"{missing:,} of {total} {'is' if missing == 1 else 'are'} missing")
        elif self.present.documents != recorded.documents:
            reasons.append(f"{self.present.documents:,} instead of {total}")
        elif self.present.document_sum != recorded.document_sum and not reasons:
            reasons.append("their sum differs from the checkpoint")
        return ", ".join(reasons)

    def list_pages_to_fetch(self, recorded: ContentSum) -> list[JobDocument]:
        """The pages whose content only another fetch restores."""
        lost = self.present.documents < recorded.documents or self.present.rows < recorded.rows
        needed = [page for page in self.unusable if lost or page.job in self.damaged_pages]
        return list(dict.fromkeys([*self.damaged_documents, *self.missing_documents, *needed]))


def check_rows(batch: Sequence[ContentRow], findings: Mapping[str, GroupFindings]) -> set[int]:
    """Compare rows with their digests; returns the ids of damaged ones, of any group."""
    damaged = set()
    by_data_def: dict[str, list[ContentRow]] = {}
    for row in batch:
        by_data_def.setdefault(row.data_def, []).append(row)
    for data_def, rows in by_data_def.items():
        for row, digest in zip(rows, row_digests(data_def, [row.data for row in rows]), strict=True):
            if row.digest != digest:
                damaged.add(row.id)
    for row in batch:
        of_group = findings.get(row.group)
        if of_group is None:
            continue
        of_group.present.add_row(row.digest)
        if row.id in damaged:
            of_group.damaged_rows[row.data_def] += 1
            of_group.damaged_pages.add(row.job)
    return damaged


def check_documents(db: Database, run: int, pages: PageStore | None, findings: Mapping[str, GroupFindings]) -> None:
    """Read each document of these groups. `pages`: None if the file with their bodies is missing."""
    for document in _iterate_documents(db, run):
        of_group = findings.get(document.group)
        if of_group is None:
            continue
        condition = _examine(document, pages)
        if document.id is not None:
            of_group.present.add_document(document.digest)
        match condition:
            case "whole":
                continue
            case "pruned":
                of_group.pruned += 1
            case "missing":
                of_group.missing_documents.append(document)
            case "damaged":
                of_group.damaged_documents.append(document)
        if document.is_done:
            of_group.unusable.append(document)


class DamagedFile(Struct, frozen=True, kw_only=True):
    """A downloaded file that differs from its record."""

    path: str
    """Relative to the output folder of the run."""
    reason: str
    job: int
    """A job that downloads it again."""
    url: str
    """The URL of that job."""

    def as_dict(self) -> dict[str, Any]:
        """The object in `state --verify --json`."""
        return {"path": self.path, "reason": self.reason, "job": self.job}


def list_damaged_files(db: Database, folder: Path, run: Run) -> list[DamagedFile]:
    """The files of a run that are missing or have another size. `folder`: the data dir. Reads no content."""
    output, last, damaged = FileFolder(folder, run.id).output, "", []
    while batch := files.list_recorded(db, run.seq, last, _BATCH):
        for recorded in batch:
            reason = _compare_size(output, recorded)
            if reason:
                damaged.append(DamagedFile(path=recorded.path, reason=reason, job=recorded.job, url=recorded.url))
        last = batch[-1].path
    return damaged


def _differs(count: int) -> str:
    return "differs from its" if count == 1 else "differ from their"


def _iterate_documents(db: Database, run: int) -> Iterator[JobDocument]:
    first, end = find_ids(db, run)
    last = first - 1
    while batch := content.list_documents(db, run, last, end, _BATCH):
        yield from batch
        last = batch[-1].job


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


def _compare_size(output: Path, recorded: RecordedFile) -> str:
    try:
        size = (output / recorded.path).stat().st_size
    except OSError as error:
        return "is missing" if isinstance(error, FileNotFoundError | NotADirectoryError) else str(error.strerror)
    return "" if size == recorded.size else f"{size:,} bytes instead of {recorded.size:,}"
