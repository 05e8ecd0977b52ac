"""Writes the table `temporary_documents`, and deletes these bodies after their run."""

from collections.abc import Callable, Sequence

from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome
from crawl_engine.store.tables.run import supervisors, versions

_BATCH = 500
_ENDED = "documents_ended"
"""The fact that names the last run of which no document is needed any more."""
_ADD = "INSERT INTO temporary_documents (run, document, grp) {values} ON CONFLICT DO NOTHING"
_KEEP = "DELETE FROM temporary_documents WHERE run = ? AND document IN (SELECT value FROM json_each(?))"
_NEXT = """
SELECT t.run, t.document, t.grp, r.defs_version FROM temporary_documents t JOIN runs r ON r.seq = t.run
WHERE t.run = (SELECT min(run) FROM temporary_documents WHERE run <= ?) LIMIT +?
"""


class DocumentUse(Effect):
    """A page of a group used a document: `keeps` says whether the group keeps its documents beyond the run."""

    keeps: bool


def write(commit: Commit, made: Sequence[tuple[JobOutcome, DocumentUse]]) -> None:
    """Mark the documents of groups with `documents: false`; unmark those that other groups use, too."""
    fetched, used = list[tuple[int, int, str]](), list[tuple[int, int, str]]()
    for outcome, use in made:
        is_new = outcome.find(NewDocument) is not None
        if outcome.page and use.keeps is not is_new:
            (used if use.keeps else fetched).append((commit.run, outcome.page, outcome.job.group))
    commit.db.execute_values(_ADD, fetched)
    keep(commit.db, commit.run, [page for _, page, _ in used])


def keep(db: Database, run: int, used: Sequence[int]) -> None:
    """Keep these documents: jobs of groups that keep theirs use them, too."""
    if used:
        db.execute(_KEEP, (run, id_list(used)))


def has_any(db: Database) -> bool:
    """Whether any document is to be deleted, now or when its run ends."""
    return bool(db.value("SELECT EXISTS (SELECT 1 FROM temporary_documents)"))


def mark_ended(db: Database, run: int) -> None:
    """Record that a run no longer needs its documents, in the transaction that ends it."""
    supervisors.set_meta(db, _ENDED, str(run))


def begin(db: Database, pages: PageStore, run: int) -> int:
    """Delete what earlier runs have left, and of a run that is reopened what it had when it ended. Returns how many.

    Only while no job is leased.
    """
    count = delete_ended(db, pages, at_least=run - 1)
    if supervisors.get_meta(db, _ENDED) is not None:
        with db.transaction():
            mark_ended(db, run - 1)
    return count


def delete_ended(db: Database, pages: PageStore, *, at_least: int = 0, stop: Callable[[], bool] = lambda: False) -> int:
    """Delete the bodies of the temporary documents of ended runs, in batches, until `stop`. Returns how many.

    The reference is cleared first, and the entry is deleted last: after a crash, the next call deletes the same bodies
    again. The space is reused by the pages of later runs. Raises DatabaseBusy.
    """
    upto = max(int(supervisors.get_meta(db, _ENDED) or 0), at_least)
    kept_groups: dict[int, frozenset[str]] = {}
    count = 0
    while not stop() and (rows := db.all(_NEXT, (upto, _BATCH))):
        version = int(rows[0][3] or 0)
        if version not in kept_groups:
            groups = versions.read(db, version).task_groups if version else ()
            kept_groups[version] = frozenset(group.name for group in groups if group.documents)
        # the defs may have changed since: a group that keeps its documents now keeps all of them
        ids = [int(document) for _, document, group, _ in rows if group not in kept_groups[version]]
        if ids:
            with db.transaction():
                documents.mark_pruned(db, ids)
            pages.delete(ids)
        with db.transaction():
            keep(db, int(rows[0][0]), [int(row[1]) for row in rows])
        count += len(ids)
    return count
