"""Pages and contexts for the tests of extraction."""

from typing import Any

from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import Page, PageKind
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.job import link_key
from crawl_engine.model.record import ExtractedLink, Extraction

URL = "https://shop.example/catalogue/page-1.html"
CONTEXT = Context(
    group="books", locator="catalogue", locator_url=URL, depth=1, run="r1", run_time="2024-01-31T09:05:00Z",
    rules={"series": ""},
)  # fmt: skip


def page(text: str, *, kind: PageKind = "html", url: str = URL) -> Page:
    return Page(url=url, text=text, kind=kind, status=200, fetched_at=0.0)


def extract(
    data_def: DataDef, text: str, *, kind: PageKind = "html", url: str = URL, patience: float | None = None
) -> Extraction:
    return RecordExtractor(data_def).extract(page(text, kind=kind, url=url), CONTEXT, patience=patience)


def link_to(url: str, group: str, priority: int, max_depth: int | None) -> ExtractedLink:
    return ExtractedLink(url, group, priority, max_depth, link_key(group, url))


def value(text: str, *, kind: PageKind = "html", block: str | None = None, **field: Any) -> Any:
    """The value of a single field of the page's only record."""
    extraction = extract(DataDef(name="d", block=block, fields=(Field(name="f", **field),)), text, kind=kind)
    assert extraction.rejected == ()
    (row,) = extraction.rows
    return row["f"]


def reason(text: str, *, kind: PageKind = "html", **field: Any) -> str:
    """Why the page's only record was rejected."""
    extraction = extract(DataDef(name="d", fields=(Field(name="f", **field),)), text, kind=kind)
    assert extraction.rows == ()
    (rejection,) = extraction.rejected
    return rejection.reason
