"""Writes the table `content_sums`: order-independent sums of the rows and documents of each group.

They move in the transaction that moves the rows, so they are exact at any moment. What is subtracted is the digest that
was stored with the row or document, not one of its present content: that may be damaged.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from crawl_engine.model.content_digest import Digests, add_digests, sum_to_bytes
from crawl_engine.store.db.connector import Database, placeholders

_LIST = "SELECT grp, documents, document_sum, rows, row_sum FROM content_sums WHERE run = ?"
_READ = f"{_LIST} AND grp IN ({{groups}})"
_WRITE = """
INSERT INTO content_sums (run, grp, documents, document_sum, rows, row_sum) {values}
ON CONFLICT (run, grp) DO UPDATE SET documents = excluded.documents, document_sum = excluded.document_sum,
    rows = excluded.rows, row_sum = excluded.row_sum
"""
_ROWS_OF_JOBS = """
SELECT s.run, s.grp, r.digest FROM json_each(?) i CROSS JOIN rows r ON r.job = i.value
CROSS JOIN jobs j ON j.id = r.job CROSS JOIN sequences s ON s.id = j.sequence
WHERE r.data_def NOT IN (SELECT value FROM json_each(?))
"""


class ContentSum(Struct):
    """The sums of a group, or how a commit moves them; they may be negative then."""

    documents: int = 0
    document_sum: int = 0
    rows: int = 0
    row_sum: int = 0

    def add_rows(self, digests: Digests, count: int) -> None:
        """Add rows."""
        self.rows += count
        self.row_sum += digests.sum()

    def add_row(self, digest: bytes | None) -> None:
        """Add one row."""
        self.rows += 1
        self.row_sum = add_digests(self.row_sum, (digest,))

    def add_document(self, digest: bytes | None) -> None:
        """Add the document of a job."""
        self.documents += 1
        self.document_sum = add_digests(self.document_sum, (digest,))

    def subtract_document(self, digest: bytes | None) -> None:
        """Subtract the document that a job had before."""
        self.documents -= 1
        self.document_sum -= add_digests(0, (digest,))


def move(db: Database, run: int, changes: Mapping[str, ContentSum]) -> None:
    """Add to the sums of groups: one read and one write, whatever the number of rows."""
    if not changes:
        return
    before = _to_sums(db.all(_READ.format(groups=placeholders(changes)), (run, *changes)))
    moved = {group: _sum_of(before.get(group), change) for group, change in changes.items()}
    _write(db, run, moved)


def replace(db: Database, run: int, sums: dict[str, ContentSum]) -> None:
    """Replace the sums of a run, after its rows and documents were read again."""
    _write(db, run, dict.fromkeys(list_sums(db, run), ContentSum()) | sums)


def subtract_rows(db: Database, jobs: str, kept: str) -> None:
    """Before the rows of jobs are deleted, except those of kept dataDefs (both JSON lists): subtract them."""
    changes: dict[int, dict[str, ContentSum]] = {}
    for run, group, digest in db.execute(_ROWS_OF_JOBS, (jobs, kept)):
        change = changes.setdefault(int(run), {}).setdefault(str(group), ContentSum())
        change.rows -= 1
        change.row_sum -= add_digests(0, (digest,))
    for run, of_groups in changes.items():
        move(db, run, of_groups)


def list_sums(db: Database, run: int) -> dict[str, ContentSum]:
    """The sums of each group that has any content."""
    return _to_sums(db.all(_LIST, (run,)))


def _write(db: Database, run: int, sums: Mapping[str, ContentSum]) -> None:
    values = [
        (run, group, s.documents, sum_to_bytes(s.document_sum), s.rows, sum_to_bytes(s.row_sum))
        for group, s in sums.items()
    ]
    db.execute_values(_WRITE, values)


def _sum_of(before: ContentSum | None, change: ContentSum) -> ContentSum:
    if before is None:
        return change
    return ContentSum(
        before.documents + change.documents,
        before.document_sum + change.document_sum,
        before.rows + change.rows,
        before.row_sum + change.row_sum,
    )


def _to_sums(read: Iterable[tuple[str, int, bytes, int, bytes]]) -> dict[str, ContentSum]:
    return {
        str(group): ContentSum(documents, int.from_bytes(document_sum, "big"), rows, int.from_bytes(row_sum, "big"))
        for group, documents, document_sum, rows, row_sum in read
    }
