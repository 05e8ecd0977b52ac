"""Compares the rows of finished groups with their digests, and their sums with those of the checkpoints."""

from collections.abc import Collection, Mapping, Sequence

from engine.model.content_digest import row_digests
from engine.store.db.connector import Database
from engine.store.read import content
from engine.store.read.content import ContentRow
from engine.store.tables.row.content_sums import ContentSum
from engine.supervise.verification.findings import GroupFindings


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


def conclude_rows(
    db: Database, run: int, group: str, findings: GroupFindings, recorded: ContentSum, data_defs: Collection[str]
) -> dict[str, str]:
    """By dataDef: why the rows of a group differ from its checkpoint. `data_defs`: those of its tasks.

    Decides also which pages are extracted again: those whose rows differ in number from what was counted when they
    were extracted, and all where that does not explain the difference. What cannot be told apart concerns them all.
    """
    present = findings.present
    reasons: dict[str, list[str]] = {}
    for data_def, damaged in findings.damaged_rows.items():
        verb = "differs from its" if damaged == 1 else "differ from their"
        reasons[data_def] = [f"{damaged:,} of {recorded.rows:,} {verb} checkpoint"]
    if (present.rows, present.row_sum) != (recorded.rows, recorded.row_sum):
        miscounted = content.list_miscounted_pages(db, run, group)
        findings.damaged_pages.update(page.job for page in miscounted)
        is_explained = present.rows + sum(page.lacks for page in miscounted) == recorded.rows
        findings.is_scanned = not is_explained or not findings.damaged_pages
        concerned = data_defs if findings.is_scanned else dict.fromkeys(page.data_def for page in miscounted)
        for data_def in concerned if present.rows != recorded.rows else ():
            reasons.setdefault(data_def, []).append(f"{present.rows:,} instead of {recorded.rows:,}")
        if not reasons:
            reasons = {data_def: ["their sum differs from the checkpoint"] for data_def in concerned or data_defs}
    return {data_def: f"rows: {', '.join(texts)}" for data_def, texts in reasons.items()}
