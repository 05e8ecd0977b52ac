"""Finds rows that a job copies instead of extracting them, and says what later jobs may reuse of its own page."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from engine import urls
from engine.model.job import LeasedJob, StoredPage
from engine.model.record import ExtractedLink
from engine.node.db_access import DbAccess
from engine.node.def_cache import DefCache
from engine.node.extraction.result import PageExtraction
from engine.store.pages import document_links
from engine.store.pages.body import new_compressor
from engine.store.tables.row_sources import RowSource
from engine.store.transactions.outcome import CopiedRows, JobOutcome


class PageReuse(Struct, frozen=True):
    """What is reused of a stored page. `copied`: the ids of the dataDefs whose rows are copied."""

    copies: tuple[CopiedRows, ...] = ()
    copied: frozenset[int] = frozenset()
    records: int = 0
    """How many rows are copied."""
    links: Sequence[ExtractedLink] | None = None
    """Its links, where nothing of the page must be read."""


class RowReuse:
    """One for each node. Asks the store only in groups with a task that persists."""

    def __init__(self, def_cache: DefCache, db_access: DbAccess) -> None:
        self._def_cache = def_cache
        self._db_access = db_access
        self._compressor = new_compressor()
        self._loaded: dict[tuple[int, int], tuple[int, dict[int, RowSource]]] = {}
        """By lease key of a job: a stored page, and by dataDef id whose rows of it may be copied."""

    def load(self, pages: Iterable[tuple[LeasedJob, StoredPage]]) -> None:
        """Read the sources of stored pages that these jobs may need, all at once."""
        wanted = [(job, stored.page, self._def_cache.copied_data_defs(job)) for job, stored in pages]
        pairs = [(page, data_def) for job, page, copied in wanted if job.page_number is None for data_def in copied]
        if not pairs:
            return
        found = self._db_access.row_sources(pairs)
        for job, page, copied in wanted:
            sources = {data_def: found[page, data_def] for data_def in copied if (page, data_def) in found}
            self._loaded[job.lease_key] = page, sources

    def forget(self, job: LeasedJob) -> None:
        """Free what was loaded for a job, however it ended."""
        self._loaded.pop(job.lease_key, None)

    def find(self, job: LeasedJob, stored: StoredPage | None) -> PageReuse | None:
        """What may be reused of a stored page now; the commit decides again. None: its group reuses nothing."""
        copied = self._def_cache.copied_data_defs(job)
        if not copied or job.page_number is not None:
            return None
        sources = self._sources(job, stored, copied) if stored is not None else {}
        if stored is None or not sources:
            return PageReuse()
        compiled = self._def_cache.compiled_data_defs(job)
        copies = tuple(
            CopiedRows(one.data_def, one.id, one.extractor.counted_fields, one.extractor.defaulted_fields)
            for one in compiled
            if one.id in sources
        )
        records = sum(source.records for source in sources.values())
        links: Sequence[ExtractedLink] | None = None
        if not any(one.is_users_code or (one.extractor.has_fields and one.id not in sources) for one in compiled):
            context = self._link_context(job, stored.url)
            links = () if context is None else self._db_access.document_links(stored.page, context)
        return PageReuse(copies, frozenset(sources), records, links)

    def record(self, job: LeasedJob, extraction: PageExtraction, outcome: JobOutcome, url: str) -> None:
        """Note in the outcome which rows, and which links, later jobs on its document may reuse.

        None of a page with anything to warn of: it is extracted again, so that each run reports it, and a limit of time
        or memory that it ran into counts once. A record that was rejected excludes only the rows of its dataDef.
        """
        copied = self._def_cache.copied_data_defs(job)
        if not copied or extraction.noindex or extraction.damaged or extraction.warnings or extraction.dropped_links:
            return
        rejected = {name for name, _ in extraction.rejected_counts}
        extracted = {counted.data_def_id for counted in extraction.counts}
        compiled = self._def_cache.compiled_data_defs(job)
        outcome.reusable = tuple(
            one.id for one in compiled if one.id in copied and one.id in extracted and one.data_def not in rejected
        )
        follows = any(one.is_users_code for one in compiled)  # links that only users' code knows
        if extraction.links is not None and not rejected and not follows and job.page_job is None:
            context = self._link_context(job, url)
            if context is not None:
                outcome.kept_links = (context, document_links.encode(extraction.links, self._compressor))

    def _sources(self, job: LeasedJob, stored: StoredPage, copied: Iterable[int]) -> Mapping[int, RowSource]:
        page, sources = self._loaded.pop(job.lease_key, (None, {}))
        if page == stored.page:
            return sources
        found = self._db_access.row_sources([(stored.page, data_def) for data_def in copied])
        return {data_def: source for (_, data_def), source in found.items()}

    def _link_context(self, job: LeasedJob, url: str) -> bytes | None:
        host_rule = self._def_cache.host_rule(job.defs_version, urls.host_key(url))
        return self._def_cache.link_context(job, nofollow=host_rule.nofollow)
