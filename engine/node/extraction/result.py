"""The results of extracting a page or a sitemap."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from engine.http.byte_budget import BodyShare
from engine.model.record import Rejection, Texts
from engine.store.tables.job.linked_jobs import ChildJob
from engine.store.tables.job.results import UnitResult
from engine.store.tables.row.health import NewWarnings, PageCounts
from engine.store.tables.row.held_rows import HeldRows
from engine.store.tables.row.rows import NewRows


class PageExtraction(Struct):
    """The results of all dataDefs of a group on one page."""

    rows: tuple[NewRows, ...]
    """Rows by dataDef; no dataDef has an empty list."""
    children: tuple[ChildJob, ...]
    """The first child jobs."""
    rejected: tuple[Rejection, ...]
    """The first rejected records."""
    rejected_counts: tuple[tuple[str, int], ...]
    """The number of all rejected records, by dataDef."""
    damaged: int
    """Bytes that are invalid in the page's encoding, and were replaced."""
    dropped_links: int = 0
    """Links beyond the limit of a page."""
    noindex: bool = False
    """Whether the page asks not to be indexed; with the setting `meta_noindex` it then has no rows."""
    share: BodyShare | None = None
    """The part of the budget of answers that this holds, released after the commit."""
    counts: tuple[PageCounts, ...] = ()
    """How the records were filled."""
    later_children: Iterator[tuple[ChildJob, ...]] | None = None
    """Further children in pieces, made at the commit."""
    warnings: tuple[str, ...] = ()
    """Warnings for the operator about these dataDefs."""
    results: tuple[UnitResult, ...] = ()
    """Results of plugin steps."""
    ran_plugins: bool = False
    stored_values: Mapping[str, str] = field(default_factory=dict)
    """What plugin steps store with the job's commit: JSON by key."""
    replaced_by: str = ""
    """As in `ExtractedPage`."""
    refresh_to: str = ""
    """As in `ExtractedPage`."""
    held: tuple[HeldRows, ...] = ()
    """Rows that wait for files, whose jobs are among the children."""
    new_warnings: NewWarnings | None = None
    """Doubts about values."""
    digest: int = 0
    """As in `ExtractedPage`."""


class SitemapUrls(Struct, frozen=True):
    """The URLs of a sitemap, as written; `dropped`: how many more it has than the protocol allows."""

    pages: Texts
    sitemaps: Texts
    dropped: int
    share: BodyShare | None = None
    """The part of the budget of answers that this holds."""
    modified: Sequence[int] = ()
    """As in `SitemapEntries`."""
    is_cut_short: bool = False
    """Whether the document ends too early."""
