"""Finds rows that a job copies instead of extracting them, and says which of its own rows later jobs may copy."""

from typing import NamedTuple

from engine.model.job import LeasedJob, StoredPage
from engine.node.db_access import DbAccess
from engine.node.def_cache import DefCache
from engine.node.page_extractor import PageExtraction
from engine.store.transactions.outcome import CopiedRows


class RowCopies(NamedTuple):
    """What of a stored page is copied; `records`: how many rows that will be."""

    copies: tuple[CopiedRows, ...] = ()
    records: int = 0
    needs_page: bool = True
    """Whether the page must be read all the same: for its links, or for other dataDefs."""

    @property
    def ids(self) -> frozenset[int]:
        """The ids of the dataDefs that are copied."""
        return frozenset(copy.data_def_id for copy in self.copies)


NO_COPIES = RowCopies()


class RowReuse:
    """One for each node. Asks the store only in groups with a task that persists."""

    def __init__(self, def_cache: DefCache, db_access: DbAccess) -> None:
        self._def_cache = def_cache
        self._db_access = db_access

    def find_copies(self, job: LeasedJob, stored: StoredPage) -> RowCopies:
        """The rows of earlier jobs on a stored page that may be copied now; the commit decides again."""
        copied = self._def_cache.copied_data_defs(job)
        if not copied:
            return NO_COPIES
        sources = self._db_access.row_sources(stored.page, copied)
        compiled = self._def_cache.compiled_data_defs(job)
        return RowCopies(
            tuple(
                CopiedRows(one.data_def, one.id, one.extractor.counted_fields, one.extractor.defaulted_fields)
                for one in compiled
                if one.id in sources
            ),
            sum(source.records for source in sources.values()),
            any(one.id not in sources or one.extractor.has_links for one in compiled),
        )

    def list_reusable(self, job: LeasedJob, extraction: PageExtraction) -> tuple[int, ...]:
        """Ids of the extracted dataDefs whose rows later jobs may copy.

        Not those of a page with anything to warn of: it is extracted again, so that each run reports it, and so that
        a limit of time or memory that it ran into counts once.
        """
        copied = self._def_cache.copied_data_defs(job)
        if not copied or extraction.noindex or extraction.damaged or extraction.warnings:
            return ()
        rejected = {name for name, _ in extraction.rejected_counts}
        extracted = {counted.data_def_id for counted in extraction.counts}
        return tuple(
            one.id
            for one in self._def_cache.compiled_data_defs(job)
            if one.id in copied and one.id in extracted and one.data_def not in rejected
        )
