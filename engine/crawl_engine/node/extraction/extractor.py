"""Extracts the pages of a node: itself where that is certainly cheap, else in an extraction process."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct

from crawl_engine.extract.documents.sitemap import parse_sitemap
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import PageTooCostly
from crawl_engine.http.byte_budget import BodyShare, ByteBudget
from crawl_engine.http.decode import content_type_at
from crawl_engine.model.host import product_token
from crawl_engine.model.job import LeasedJob
from crawl_engine.model.link import Carried
from crawl_engine.model.record import ExtractedLink
from crawl_engine.model.step import StepResult
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.def_cache import CompiledDataDef
from crawl_engine.node.extraction.child_jobs import ChildJobs
from crawl_engine.node.extraction.inline import MAX_INLINE_SITEMAP_BYTES, extract_inline, may_be_inline
from crawl_engine.node.extraction.node_calls import NodeCalls
from crawl_engine.node.extraction.page_extraction import (
    UnreadablePage,
    check_supported,
    ends_when_empty,
    read_sitemap_text,
)
from crawl_engine.node.extraction.plugin_worker import PluginWorker
from crawl_engine.node.extraction.process_pool import ExtractionPool
from crawl_engine.node.extraction.request import ExtractionRequest
from crawl_engine.node.extraction.result import PageResult, SitemapResult
from crawl_engine.node.extraction.task import PageTask
from crawl_engine.node.lines import take_first
from crawl_engine.node.node_context import NodeContext
from crawl_engine.node.rules import RuleParts
from crawl_engine.node.rules.page_series import SeriesPart, SeriesRule
from crawl_engine.node.seen_set import SeenSet
from crawl_engine.node.tuning import LARGE_PAGE_BYTES, HeapTrimmer
from crawl_engine.store.pages.body import Body
from crawl_engine.store.tables.job.linked_jobs import ChildJob
from crawl_engine.store.tables.row.held_rows import HeldRows

_SITEMAP_TYPE = "application/xml"


class PageExtraction(Struct):
    """The result of a page, and what its node adds for the commit."""

    result: PageResult
    units: Sequence[CompiledDataDef] = ()
    """The dataDefs by index."""
    children: tuple[ChildJob, ...] = ()
    """The first child jobs."""
    later_children: Iterator[tuple[ChildJob, ...]] | None = None
    """Further children in pieces, made at the commit."""
    held: tuple[HeldRows, ...] = ()
    """Rows that wait for files, whose jobs are among the children."""
    notes: tuple[str, ...] = ()
    """Warnings for the operator about these dataDefs."""
    share: BodyShare | None = None
    """The part of the budget of answers that this holds, released after the commit."""
    stored_values: Mapping[str, str] | None = None
    """What plugin steps store with the job's commit: JSON by key. None: no plugin code ran."""

    def add_children(self, pieces: Iterator[tuple[ChildJob, ...]]) -> None:
        first, later = take_first(pieces)
        self.children += first
        if later is not None:
            self.later_children = chain(self.later_children or (), later)


class SelectorWarnings:
    """Warns once for each dataDef, and once for each kind of fault."""

    def __init__(self) -> None:
        self._warned: set[int] = set()
        self._warned_faults: set[str] = set()

    def warn(self, compiled: Iterable[CompiledDataDef], page_kind: str, faults: Sequence[str] = ()) -> tuple[str, ...]:
        """The warnings about a page of that kind; empty if all were given before. `faults`: what was skipped on it."""
        new_faults = [fault for fault in faults if fault not in self._warned_faults]
        self._warned_faults.update(new_faults)
        messages = []
        for one in compiled:
            warning = _describe_mismatch(one, page_kind)
            if warning and one.id not in self._warned:
                self._warned.add(one.id)
                messages.append(warning)
        return (*messages, *new_faults)


def _describe_mismatch(compiled: CompiledDataDef, page_kind: str) -> str:
    """The selector that matches nothing on pages of that kind; empty: every selector can match."""
    if compiled.json_selector and page_kind in ("html", "xml"):
        selector, what = compiled.json_selector, "`jmespath:` reads JSON"
    elif compiled.embedded_selector and page_kind != "html":
        selector, what = compiled.embedded_selector, "`jsonld:` and `jmespath(CSS):` read the JSON in HTML"
    else:
        return ""
    return f"{compiled.data_def}.{selector}: {what}, and this page is {page_kind.upper()}"


class PageExtractor:
    """Extracts pages for one node, on its fetch loop."""

    def __init__(
        self,
        node: NodeContext,
        *,
        seen_set: SeenSet,
        heap_trimmer: HeapTrimmer,
        pool: ExtractionPool,
        plugin_worker: PluginWorker,
        answer_budget: ByteBudget,
        db_access: DbAccess,
    ) -> None:
        """`answer_budget`: bytes that uncommitted answers of extraction processes may hold together."""
        self._node = node
        self._run_time, self._agent = node.run_time, product_token(node.settings.user_agent)
        self._def_cache = node.def_cache
        self._child_jobs = ChildJobs(node.def_cache, seen_set, db_access)
        self._heap_trimmer = heap_trimmer
        self._pool = pool
        self._plugin_worker = plugin_worker
        self._answer_budget = answer_budget
        self._db_access = db_access
        self._selector_warnings = SelectorWarnings()
        self._max_links = node.settings.max_links

    async def extract(
        self,
        job: LeasedJob,
        *,
        body: Body,
        content_type: str,
        url: str,
        status: int,
        fetched_at: float,
        headers: tuple[tuple[str, str], ...] = (),
        rules: Mapping[str, str] | None = None,
    ) -> PageExtraction:
        """Extract a page; `headers`: of its answer. Raises UnsupportedContent or UnreadablePage.

        `rules`: what the rules of the page must know, by name.
        """
        if job.lineage.link.page is not None and url != job.url and self._db_access.is_page_of_another(job, url):
            known = SeriesPart(shows_nothing=True, is_repeated=True)
            return PageExtraction(PageResult(page_kind="", parts=RuleParts({SeriesRule.name: known})))
        context = self._create_context(job)
        context.rules = rules or {}
        compiled = self._applicable_data_defs(job)
        without_rows = self.unchanged_data_defs(job)
        runs_plugins = any(c.is_plugin for c in compiled)
        task = PageTask(
            defs=job.defs_version,
            data_defs=tuple([(c.data_def, c.id not in without_rows) for c in compiled]),
            url=url,
            content_type=content_type,
            status=status,
            fetched_at=fetched_at,
            context=context,
            headers=headers,
            tasks=tuple([c.task for c in compiled]) if runs_plugins else (),
        )
        result = None if runs_plugins else self._extract_here(task, body, compiled)
        if result is not None:
            extraction = PageExtraction(result, compiled)
        else:
            self._heap_trimmer.record_page(body.size)
            if not runs_plugins:
                check_supported(body.read(), content_type_at(content_type, url))
            extraction = await self._extract_elsewhere(job, task, body, compiled)
        result = extraction.result
        try:
            have_details = any(data_def.extractor.sends_values for data_def in compiled)
            extraction.add_children(self._child_jobs.of_links(job, result.links, have_details=have_details))
            series = result.parts.get(SeriesRule.name)
            if isinstance(series, SeriesPart):
                extraction.children = (*self._child_jobs.of_series(job, series.blocks), *extraction.children)
        except BaseException:
            if extraction.share is not None:
                extraction.share.release()
            raise
        extraction.notes = self._selector_warnings.warn(compiled, result.page_kind, result.faults)
        if result.results:
            result.results = self._name_tasks(job, compiled, result.results)
        return extraction

    async def _extract_elsewhere(
        self, job: LeasedJob, task: PageTask, body: Body, compiled: Sequence[CompiledDataDef]
    ) -> PageExtraction:
        """Extract a page in an extraction process."""
        await _pack_large(body)
        share = self._answer_budget.open_share()
        definitions = (job.defs_version, self._def_cache.definitions(job.defs_version))
        calls = NodeCalls(self._db_access, job) if task.tasks else None
        try:
            result = await self._plugin_worker.extract(task, body, definitions, share=share, on_call=calls)
        except BaseException:
            share.release()
            raise
        share.finish_reading()
        stored_values = None if calls is None else calls.stored_values
        return PageExtraction(result, compiled, share=share, stored_values=stored_values)

    def _create_context(self, job: LeasedJob) -> Context:
        """What extraction knows of a job."""
        context = Context(
            group=job.group,
            locator=job.lineage.locator,
            locator_url=job.lineage.locator_url,
            depth=job.lineage.depth,
            run=self._node.run.id,
            run_time=self._run_time,
            nofollow=job.plan.rule.nofollow,
            meta_nofollow=self._node.settings.meta_nofollow,
            agent=self._agent,
        )
        if job.lineage.carried is not None:
            context.carried = dict(Carried.from_json(job.lineage.carried).values)
        return context

    def list_children(self, job: LeasedJob, links: Sequence[ExtractedLink]) -> tuple[ChildJob, ...]:
        """The jobs of few links, also of those that may be known."""
        return tuple(chain.from_iterable(self._child_jobs.of_links(job, links, have_details=True)))

    def unchanged_data_defs(self, job: LeasedJob) -> tuple[int, ...]:
        """For a re-extraction: ids of the dataDefs whose rows stay as they are."""
        if not job.extraction.extracted_with:
            return ()
        compiled = self._def_cache.compiled_data_defs(job)
        if any(ends_when_empty(data_def.extractor) for data_def in compiled):
            return ()
        return tuple(data_def.id for data_def in compiled if data_def.id in job.extraction.extracted_with)

    async def read_sitemap(
        self, body: Body, now: float | None = None, names: Sequence[str] = ()
    ) -> tuple[SitemapResult, BodyShare]:
        """The URLs of an unpacked sitemap, and what `parse_sitemap` reads besides. Raises UnreadablePage.

        With it the part of the budget of answers that they hold: the caller releases it.
        """
        self._heap_trimmer.record_page(body.size)
        share = self._answer_budget.open_share()
        if body.size <= MAX_INLINE_SITEMAP_BYTES and may_be_inline(body.read(), _SITEMAP_TYPE):
            entries = parse_sitemap(read_sitemap_text(body.read(), _SITEMAP_TYPE), now, names)
            return SitemapResult.from_entries(entries), share
        await _pack_large(body)
        header: dict[str, Any] = {"kind": "sitemap", "content_type": _SITEMAP_TYPE}
        header |= {} if now is None else {"now": now}
        header |= {"names": tuple(names)} if names else {}
        try:
            answer = await self._pool.work(ExtractionRequest(header=header, body=body, share=share))
        except BaseException:
            share.release()
            raise
        assert isinstance(answer, SitemapResult)
        share.finish_reading()
        return answer, share

    def close(self) -> None:
        """End the extraction processes and the commands."""
        self._plugin_worker.close()
        self._pool.close()

    def _applicable_data_defs(self, job: LeasedJob) -> Sequence[CompiledDataDef]:
        """The dataDefs to apply. In a re-extraction, a dataDef whose rows stay is applied only for its links."""
        compiled = self._def_cache.compiled_data_defs(job)
        made_before = self.unchanged_data_defs(job)
        if not made_before or job.extraction.links_stale:
            return compiled
        return [data_def for data_def in compiled if data_def.id not in made_before]

    def _extract_here(self, task: PageTask, body: Body, compiled: Sequence[CompiledDataDef]) -> PageResult | None:
        """Extract a page on the fetch loop; None: it may take too long."""
        units = zip(compiled, task.data_defs, strict=True)
        data_defs = [(unit.extractor, wants_rows) for unit, (_, wants_rows) in units]
        try:
            return extract_inline(task, body.read(), data_defs, self._max_links)
        except PageTooCostly as error:
            raise UnreadablePage(str(error)) from error

    def _name_tasks(
        self, job: LeasedJob, compiled: Sequence[CompiledDataDef], results: Sequence[tuple[int, StepResult]]
    ) -> tuple[tuple[int, StepResult], ...]:
        """The results of built-in parsers get the first task that uses their dataDef."""
        tasks = {task.data_def: task.name for task in reversed(job.plan.group.tasks)}
        return tuple(
            [
                (index, result if result.task else result._replace(task=tasks.get(compiled[index].data_def, "")))
                for index, result in results
            ]
        )


async def _pack_large(body: Body) -> None:
    """Compress a large body: its extraction, which may be as large, need not wait beside it."""
    if body.size >= LARGE_PAGE_BYTES:
        await asyncio.to_thread(body.pack)
