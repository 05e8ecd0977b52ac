"""One page tried on a dataDef: worked as a node works it, so that what it shows is what a crawl would write.

Fetches nothing, stores nothing, queues nothing.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from engine import urls
from engine.errors import NoPage, UsageError, suggest
from engine.extract.context import Context
from engine.extract.page import Page, PageTooDeep
from engine.extract.records import Extractor
from engine.fetch.host_policy import rule_for
from engine.model.definition import DataDef, Definitions, TaskGroup
from engine.model.record import FoundLink, Rejection
from engine.node.extraction import NotAPage, opened, to_json, within
from engine.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
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
class Way:
    """How a page was come by: what the variables of its rows are filled with."""

    group: str
    locator: str
    locator_url: str
    depth: int = 0
    run: str = ""
    run_time: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a dataDef made of one page."""

    rows: tuple[str, ...]
    """As they would be stored: JSON objects, fields in written order."""
    links: tuple[FoundLink, ...]
    """Those a crawl would follow, were they new."""
    rejected: tuple[Rejection, ...]
    filtered: int


def chosen(definitions: Definitions, name: str) -> DataDef:
    """The dataDef of that name. Raises UsageError, which lists those there are."""
    found = definitions.data_def(name)
    if found is None:
        known = [d.name for d in definitions.data_defs]
        listed = ", ".join(known) or "none"
        raise UsageError(f"unknown dataDef '{name}'{suggest(name, known)}", f"The defs have: {listed}.")
    return found


def groups_of(definitions: Definitions, data_def: str) -> list[TaskGroup]:
    """The task groups whose pages the dataDef is applied to."""
    return [g for g in definitions.task_groups if any(task.data_def == data_def for task in g.tasks)]


def way_to(definitions: Definitions, data_def: str, url: str, settings: Settings) -> Way:
    """As if the page were a locator's, in the first group that has a task for the dataDef."""
    group = next((g.name for g in groups_of(definitions, data_def)), "")
    located = next((g for g in definitions.locator_groups if g.name == group), None)
    name = located.locators[0].name if located and located.locators else group
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return Way(group=group, locator=name, locator_url=url, run="try", run_time=settings.run_time or now)


def page_of(document: Document) -> Page:
    """The document as selectors see it. Raises NoPage where it is no text."""
    try:
        page, _ = opened(
            document.body,
            document.content_type,
            url=document.url,
            status=document.status,
            fetched_at=document.fetched_at,
        )
    except NotAPage as what:
        raise NoPage(f"{document.url}: not a page: {what}", "Selectors need HTML, XML or JSON.") from what
    return page


class Trier:
    """A dataDef compiled once, to be tried on many pages."""

    def __init__(self, definitions: Definitions, data_def: DataDef) -> None:
        self._definitions = definitions
        self._extractor = Extractor(data_def, {group.name: group.priority for group in definitions.task_groups})

    def on(self, page: Page, way: Way) -> Trial:
        """What the page gives. Raises NoPage where it cannot be parsed."""
        try:
            found = self._extractor.extract(page, self._context(page, way))
        except PageTooDeep as error:
            raise NoPage(error.what, error.remedy) from error
        return Trial(
            rows=tuple(to_json(row) for row in found.rows),
            links=tuple(self._followed(found.links, way.depth + 1)),
            rejected=found.rejected,
            filtered=found.filtered,
        )

    def _context(self, page: Page, way: Way) -> Context:
        nofollow = True
        if urls.is_web(page.url):
            nofollow = rule_for(self._definitions, urls.host_key(page.url)).nofollow
        return Context(
            group=way.group,
            locator=way.locator,
            locator_url=way.locator_url,
            depth=way.depth,
            run=way.run,
            run_time=way.run_time,
            nofollow=nofollow,
        )

    def _followed(self, links: tuple[FoundLink, ...], depth: int) -> Iterator[FoundLink]:
        for link in links:
            if within(link, depth, self._definitions.task_group(link.group) or TaskGroup(name=link.group)):
                yield link
