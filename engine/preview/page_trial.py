"""One page tried on a dataDef: worked as a node works it, so that what it shows is what a crawl would write.

Fetches nothing, stores nothing, queues nothing.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from engine import urls
from engine.errors import PageUnavailable, UsageError, suggest
from engine.extract.context import Context
from engine.extract.page import Page, PageTooDeep
from engine.extract.records import RecordExtractor
from engine.fetch.host_policy import host_rule_for
from engine.model.definition import DataDef, Definitions, TaskGroup
from engine.model.record import ExtractedLink, Rejection
from engine.node.extraction import UnsupportedContent, encode_row, parse_page, within_depth
from engine.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDocument:
    """A page's bytes, and where they are from."""

    body: bytes
    content_type: str
    url: str
    status: int = 200
    fetched_at: float
    """Seconds since 1970."""
    origin: str
    """`fetched`, `file`, `job 12`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOrigin:
    """How a page was come by: what the variables of its rows are filled with."""

    group: str
    locator: str
    locator_url: str
    depth: int = 0
    run: str = ""
    run_time: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What a dataDef made of one page."""

    rows: tuple[str, ...]
    """As they would be stored: JSON objects, fields in written order."""
    links: tuple[ExtractedLink, ...]
    """Those a crawl would follow, were they new."""
    rejected: tuple[Rejection, ...]
    filtered: int


def find_data_def(definitions: Definitions, name: str) -> DataDef:
    """The dataDef of that name. Raises UsageError, which lists those there are."""
    found = definitions.data_def(name)
    if found is None:
        known = [d.name for d in definitions.data_defs]
        listed = ", ".join(known) or "none"
        raise UsageError(f"unknown dataDef '{name}'{suggest(name, known)}", f"The defs have: {listed}.")
    return found


def groups_using(definitions: Definitions, data_def: str) -> list[TaskGroup]:
    """The task groups whose pages the dataDef is applied to."""
    return [g for g in definitions.task_groups if any(task.data_def == data_def for task in g.tasks)]


def locator_origin(definitions: Definitions, data_def: str, url: str, settings: Settings) -> PageOrigin:
    """As if the page were a locator's, in the first group that has a task for the dataDef."""
    group = next((g.name for g in groups_using(definitions, data_def)), "")
    located = next((g for g in definitions.locator_groups if g.name == group), None)
    name = located.locators[0].name if located and located.locators else group
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return PageOrigin(group=group, locator=name, locator_url=url, run="try", run_time=settings.run_time or now)


def parse_document(document: TrialDocument) -> Page:
    """The document as selectors see it. Raises NoPage where it is no text."""
    try:
        page, _ = parse_page(
            document.body,
            document.content_type,
            url=document.url,
            status=document.status,
            fetched_at=document.fetched_at,
        )
    except UnsupportedContent as what:
        raise PageUnavailable(f"{document.url}: not a page: {what}", "Selectors need HTML, XML or JSON.") from what
    return page


class PageTrial:
    """A dataDef compiled once, to be tried on many pages."""

    def __init__(self, definitions: Definitions, data_def: DataDef) -> None:
        self._definitions = definitions
        self._extractor = RecordExtractor(data_def, {group.name: group.priority for group in definitions.task_groups})

    def run(self, page: Page, way: PageOrigin) -> TrialResult:
        """What the page gives. Raises NoPage where it cannot be parsed."""
        try:
            found = self._extractor.extract(page, self._context(page, way))
        except PageTooDeep as error:
            raise PageUnavailable(error.message, error.remedy) from error
        return TrialResult(
            rows=tuple(encode_row(row) for row in found.rows),
            links=tuple(self._followable_links(found.links, way.depth + 1)),
            rejected=found.rejected,
            filtered=found.filtered,
        )

    def _context(self, page: Page, way: PageOrigin) -> Context:
        nofollow = True
        if urls.is_http_url(page.url):
            nofollow = host_rule_for(self._definitions, urls.host_key(page.url)).nofollow
        return Context(
            group=way.group,
            locator=way.locator,
            locator_url=way.locator_url,
            depth=way.depth,
            run=way.run,
            run_time=way.run_time,
            nofollow=nofollow,
        )

    def _followable_links(self, links: tuple[ExtractedLink, ...], depth: int) -> Iterator[ExtractedLink]:
        for link in links:
            if within_depth(link, depth, self._definitions.task_group(link.group) or TaskGroup(name=link.group)):
                yield link
