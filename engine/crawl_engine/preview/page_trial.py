"""Applies a dataDef to one page as a node does, so that the result is what a crawl would write.

No network, no database. What a page may cost is limited as in a crawl.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.errors import PageUnavailable, UsageError, plural, suggest
from crawl_engine.extract.links.link_explanations import NOT_FOLLOWED
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.select.selection import Selection
from crawl_engine.model.definition import DataDef, Definitions, TaskGroup
from crawl_engine.model.host import LoginRule, product_token
from crawl_engine.model.link import Carried
from crawl_engine.model.record import ExtractedLink, as_text
from crawl_engine.model.step import StepResult
from crawl_engine.node.extraction.page_extraction import NeedsProcess, UnsupportedContent, parse_page, within_depth
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.rules import prepare_alone
from crawl_engine.preview.extraction_client import SELECTORS_NEED, ExtractionClient, TrialDocument
from crawl_engine.robots.host_policy import host_rule_for
from crawl_engine.settings import Settings

_SHOWN_HEADINGS = 20
USUAL_LINK: Mapping[str, Any] = {"method": "GET", "body": None, "relation": "link", "headers": {}, "carried": {}}
"""What most links have, beside their URL and group."""


class TrialResult(Struct, frozen=True, kw_only=True):
    """The result of a dataDef on a page, and what a crawl would do with it."""

    page: PageResult
    rows: tuple[str, ...]
    """As a crawl would store them: JSON objects, fields in the order of the defs."""
    links: tuple[ExtractedLink, ...]
    """Links a crawl would follow if they are new to it."""
    unfollowed: tuple[str, ...] = ()
    """Links that a crawl would not follow, each with the reason."""
    faults: tuple[str, ...] = ()
    """What was skipped on the page because it cannot be read."""
    warnings: tuple[str, ...] = ()
    """Doubts about values; a crawl reports them as warnings."""

    @property
    def failed_steps(self) -> list[StepResult]:
        """The plugin steps and parsers for which a crawl would fail the page."""
        return [step for _, step in self.page.results if step.outcome == "error"]


def describe_rejections(result: TrialResult) -> Iterator[str]:
    """A line for each rejected record."""
    for rejection in result.page.rejected:
        field = f".{rejection.field}" if rejection.field else ""
        yield f"{rejection.place}: rejected {rejection.data_def}{field}: {rejection.reason}"


def link_as_dict(link: ExtractedLink) -> dict[str, Any]:
    """A link for users: what it sends and carries, if it does."""
    shown: dict[str, Any] = {"url": link.url, "group": link.group}
    if link.details is not None:
        request, carried = link.details
        shown |= {"method": request.method, "body": request.body, "relation": request.relation}
        shown["headers"] = dict(request.headers)
        shown["carried"] = dict(Carried.from_json(carried).values)
    return shown


def find_data_def(definitions: Definitions, name: str, page: str = "") -> DataDef:
    """The dataDef of that name. Raises UsageError, which suggests existing names. `page`: what stands behind it."""
    data_def = definitions.data_def(name)
    if data_def is None:
        if definitions.data_def(page) is not None:
            raise UsageError(f"unknown dataDef '{name}'", f"The name stands before the page: try {page} {name}")
        names = [d.name for d in definitions.data_defs]
        raise UsageError(f"unknown dataDef '{name}'{suggest(name, names)}", "Check its name in the defs.")
    return data_def


def groups_using(definitions: Definitions, data_def: str) -> list[TaskGroup]:
    """The task groups that apply the dataDef to their pages."""
    return [g for g in definitions.task_groups if any(task.data_def == data_def for task in g.tasks)]


def locator_origin(definitions: Definitions, data_def: str, url: str, settings: Settings) -> Context:
    """The origin as if the page were a locator, in the first group with a task for the dataDef."""
    group = next((g.name for g in groups_using(definitions, data_def)), "")
    locators = next((g.locators for g in definitions.locator_groups if g.name == group), ())
    name = locators[0].name if locators else group
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    run_time = settings.run_time or now
    return Context(group=group, locator=name, locator_url=url, depth=0, run="try", run_time=run_time)


def login_of(url: str, definitions: Definitions) -> LoginRule | None:
    """How a crawl logs in before it asks for a page; None for a host without a login, and for a file."""
    start = urls.normalize(url)
    return None if start is None else host_rule_for(definitions, urls.host_key(start)).login


def check_login(rule: LoginRule, url: str, document: TrialDocument, kind: str, client: ExtractionClient) -> None:
    """Raise PageUnavailable if the page is what a host with a login shows to others. `url`: as it was asked for."""
    login_page = urls.join(urls.normalize(url) or "", rule.url)
    if login_page is not None and document.url.partition("?")[0] == login_page.partition("?")[0]:
        problem = "redirected to the login page"
    elif kind == "html" and rule.check and not client.select(document, Selection(selector=rule.check, limit=1)).count:
        problem = f"not logged in: the page lacks `check` ({rule.check})"
    else:
        return
    raise PageUnavailable(
        f"{urls.without_credentials(url)}: {problem}",
        "`try` and `test` do not log in: give a page that a crawl has stored with --job ID, or a saved FILE.",
    )


def parse_document(document: TrialDocument, client: ExtractionClient) -> Page:
    """Decode the document; a PDF in the client's process. Raises PageUnavailable if it is not text."""
    try:
        return parse_page(
            document.body,
            document.content_type,
            url=document.url,
            status=document.status,
            fetched_at=document.fetched_at,
        )
    except NeedsProcess:
        return Page(
            url=document.url,
            text=client.read_source(document),
            kind="html",
            status=document.status,
            fetched_at=document.fetched_at,
        )
    except UnsupportedContent as error:
        raise PageUnavailable(f"{document.url}: not a page: {error}", SELECTORS_NEED) from error


def _describe_headings(headings: Sequence[str]) -> str:
    shown = ", ".join(f"`{heading}`" for heading in headings[:_SHOWN_HEADINGS])
    more = f" and {len(headings) - _SHOWN_HEADINGS} more" if len(headings) > _SHOWN_HEADINGS else ""
    return f"; the columns of the table are {shown}{more}" if shown else ": the table has no columns"


class PageTrial:
    """A dataDef, to be applied to many pages."""

    def __init__(
        self, definitions: Definitions, data_def: DataDef, client: ExtractionClient, *, explains_links: bool = False
    ) -> None:
        """`explains_links`: say of links why they are not followed."""
        self._explains_links = explains_links
        self._definitions = definitions
        self._data_def = data_def
        self._client = client

    def run(self, document: TrialDocument, origin: Context) -> TrialResult:
        """Extract the page. `origin`: how a crawl reached it.

        Raises PageUnavailable if it is not text, nested too deep, or past a limit.
        """
        context = self._complete(document.url, origin)
        group = self._definitions.task_group(origin.group)
        tasks = group.tasks if group is not None else ()
        task = next((task.name for task in tasks if task.data_def == self._data_def.name), "")
        page = self._client.extract(document, self._definitions, self._data_def, context)
        page.results = tuple([(unit, step if step.task else step._replace(task=task)) for unit, step in page.results])
        warnings = [warning.text for warning in page.warnings]
        if self._explains_links:
            unmatched = self.describe_unmatched(document, page)
            warnings += [unmatched] if unmatched and unmatched not in warnings else []
        links, too_deep = list[ExtractedLink](), list[ExtractedLink]()
        for link in page.links:
            (links if self._is_within_depth(link, origin) else too_deep).append(link)
        unfollowed = [fault.removeprefix(NOT_FOLLOWED) for fault in page.faults if fault.startswith(NOT_FOLLOWED)]
        unfollowed += [f"{link.url}: deeper than `maxDepth` of {link.group}" for link in too_deep]
        return TrialResult(
            page=page,
            rows=tuple([as_text(row) for _, rows in page.rows for row in rows]),
            links=tuple(links),
            unfollowed=tuple(unfollowed),
            faults=tuple([fault for fault in page.faults if not fault.startswith(NOT_FOLLOWED)]),
            warnings=tuple(warnings),
        )

    def describe_unmatched(self, document: TrialDocument, page: PageResult) -> str:
        """The first selector of block and fields that matches nothing on the page; empty if each matches something."""
        data_def, missing = self._data_def, Counter[str]()
        records = sum(counted.records for _, counted in page.counts)
        for _, counted in page.counts:
            missing.update(dict(counted.missing))
        sources = data_def.sources
        try:
            if (data_def.block is not None or sources) and not records:
                found = self._client.select(document, Selection(selector=data_def.block, sources=sources))
                if found.miss:
                    return f"{data_def.name}: {found.miss}"
                if not found.count:
                    where = f"in what {sources[-1].shown} gives" if sources else "on this page"
                    return f"{data_def.name}: block `{data_def.block}` matches nothing {where}"
            for field in data_def.fields if data_def.axis is None else ():
                if (field.selector is None and field.column is None) or missing[field.name] < records:
                    continue
                block = None if field.scope is not None else data_def.block
                inside = () if field.scope == "page" else sources
                selectors = (field.selector, *field.fallbacks)
                for selector in selectors:
                    selection = Selection(selector=selector, block=block, column=field.column, sources=inside)
                    found = self._client.select(document, selection)
                    if found.count:
                        break
                if not found.count and field.column is not None and field.column not in found.headings:
                    return (
                        f"{data_def.name}.{field.name}: no column `{field.column}`{_describe_headings(found.headings)}"
                    )
                if not found.count:
                    where = "this page" if block is None and not inside else plural(found.blocks, "block")
                    shown = f"none of {len(selectors)} selectors matches anything in {where}"
                    if len(selectors) == 1:
                        shown = f"selector `{field.selector}` matches nothing in {where}"
                    return f"{data_def.name}.{field.name}: {shown}"
        except PageUnavailable:  # a plugin parser reads what is not a page
            pass
        return ""

    def _complete(self, url: str, origin: Context) -> Context:
        """The context of the page, with what the settings and the defs say."""
        settings = self._client.settings
        return replace(
            origin,
            run_time=settings.run_time or origin.run_time,
            nofollow=not urls.is_http_url(url) or host_rule_for(self._definitions, urls.host_key(url)).nofollow,
            meta_nofollow=settings.meta_nofollow,
            rules=prepare_alone(settings) | dict(origin.rules),
            agent=product_token(settings.user_agent),
            carried=dict(origin.carried),
            explains_links=self._explains_links,
        )

    def _is_within_depth(self, link: ExtractedLink, origin: Context) -> bool:
        depth = origin.depth if link.details is not None and link.details.stays_at_depth else origin.depth + 1
        return within_depth(link, depth, self._definitions.task_group(link.group) or TaskGroup(name=link.group))
