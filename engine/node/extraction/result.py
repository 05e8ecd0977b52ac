"""What the extraction makes of a page, or of a sitemap."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from engine.http.byte_budget import BodyShare
from engine.model.record import Rejection, Texts
from engine.store.transactions.outcome import ChildJob, ExtractedRows, HeldRows, PageCounts, UnitResult


class PageExtraction(Struct):
    """The results of all dataDefs of a group on one page."""

    rows: tuple[ExtractedRows, ...]
    """By dataDef; none is empty."""
    children: tuple[ChildJob, ...]
    """The first ones."""
    rejected: tuple[Rejection, ...]
    """The first ones."""
    rejected_counts: tuple[tuple[str, int], ...]
    """The number of all, by dataDef."""
    damaged: int
    """Number of bytes that are invalid in the page's encoding, and were replaced."""
    dropped_links: int = 0
    """Links beyond the limit of a page."""
    noindex: bool = False
    """Whether the page asks not to be indexed; with the setting `meta_noindex` it then has no rows."""
    share: BodyShare | None = None
    """What this holds of the budget of answers, to be released when it is committed."""
    counts: tuple[PageCounts, ...] = ()
    """How the records were filled."""
    later_children: Iterator[tuple[ChildJob, ...]] | None = None
    """Further children in pieces, made when they are committed."""
    warnings: tuple[str, ...] = ()
    """What the operator should know of these dataDefs."""
    results: tuple[UnitResult, ...] = ()
    """What became of plugin steps."""
    ran_plugins: bool = False
    stored_values: Mapping[str, str] = field(default_factory=dict)
    """What plugin steps store with the job's commit: JSON by key."""
    replaced_by: str = ""
    """As that of `ExtractedPage`."""
    held: tuple[HeldRows, ...] = ()
    """Rows that wait for files, whose jobs are among the children."""


class SitemapUrls(Struct, frozen=True):
    """The URLs of a sitemap, as written; `dropped`: how many more it has than the protocol allows."""

    pages: Texts
    sitemaps: Texts
    dropped: int
    share: BodyShare | None = None
    """What this holds of the budget of answers."""
    modified: Sequence[int] = ()
    """As that of `SitemapEntries`."""
    is_cut_short: bool = False
    """Whether the document ends too early."""
